"""What the model's own constructors refuse, before any cache is asked for."""

from math import gcd

from oomph.engines.common.created import VOCAB_MULTIPLE
from oomph.engines.common.online import is_quantised_online
from oomph.engines.common.shard import in_features, is_created, outs, tower_module_ranks, tower_parts
from oomph.engines.vllm.kv.dtypes import TURBOQUANT
from oomph.engines.vllm.kv.specs import Refused
from oomph.engines.vllm.traits import Traits
from oomph.facts.vllm import known
from oomph.facts.vllm.known import FP8_BLOCKS_CUT, NO_FP8_MOE, PP_REFUSAL, Support
from oomph.ir import Attention, Experts, Linear, Model, Module, State, Vocab
from oomph.units import round_up

Stages = tuple[tuple[int, int], ...]


def verify_config(model: Model, support: Support, *, by_transformers: bool) -> None:
    """What reading the model's files refuses, before any flag is looked at. `by_transformers`: no class of vLLM's is
    asked for."""
    if model.quantization is not None and model.quantization.method == known.GGUF and not support.gguf_in_tree:
        raise Refused("ValueError", known.GGUF_REFUSAL.format(model=model.name))
    absent = support.not_yet.get(model.architecture)
    if absent is not None and absent.stage == "engine_config" and not (by_transformers and absent.unlisted):
        raise Refused(absent.type, absent.text.format(model_type=model.model_type))
    if model.model_type in known.UNKNOWN_TYPES:
        raise Refused("ValidationError", known.UNKNOWN_TYPE.format(model_type=model.model_type))
    types = str(model.param("layer_types", "")).split()
    if support.layer_types and not set(types) <= set(support.layer_types):
        text = known.LAYER_TYPES_REFUSAL.format(allowed=support.layer_types, given=types)
        raise Refused("StrictDataclassClassValidationError", text)
    gone = support.gone.get(model.architecture)
    if gone is not None and gone.stage == "engine_config":
        raise Refused(gone.type, gone.text)
    if model.quantization is not None and model.quantization.refused:
        raise Refused("ValidationError", model.quantization.refused)


def verify_build(model: Model, support: Support, stages: Stages) -> None:
    absent = support.not_yet.get(model.architecture) or support.gone.get(model.architecture)
    if absent is not None and absent.stage == "model_build":
        raise Refused(absent.type, absent.text)
    if model.param("no_scale_fmt") and model.architecture.startswith("DeepseekV4") and support.scale_format:
        raise Refused("KeyError", "'scale_fmt'")
    if len(stages) > 1:
        if model.architecture in support.pipeline_refused:
            raise Refused("ValidationError", PP_REFUSAL)
        _verify_sharing(model, stages)
        _verify_stages(model, stages)


def verify_encoder_sinks(traits: Traits, sm: int) -> None:
    """flash_attn.py: layers that look both ways take FlashAttention alone, and its sinks are FlashAttention 3's."""
    if sm // 10 != 9 and any(isinstance(m, Attention) and m.kind == "encoder_only" and m.sinks for m in traits.mixers):
        raise Refused("AssertionError", "Sinks are only supported in FlashAttention 3")


def verify_replicas(model: Model, traits: Traits, tp: int) -> None:
    """openpangu.py:562 (0.32.0): learned sinks are not repeated over ranks."""
    if model.architecture == "PanguProMoEV2ForCausalLM" and traits.num_kv_heads < tp:
        raise Refused(
            "ValueError",
            f"Number of KV heads {traits.num_kv_heads} is less than TP size {tp}, KV heads replication is not support "
            "yet.",
        )


def _verify_stages(model: Model, stages: Stages) -> None:
    """What a stage misses: layers with experts, or those that an encoder's inner states are added to."""
    deep = int(model.param("deepstack_levels", 0)) if model.architecture.startswith("Qwen3VL") else 0
    if any(begin < deep for begin, _ in stages[1:]):
        raise Refused("AssertionError", known.DEEPSTACK_CUT)
    text = known.STAGE_WITHOUT_EXPERTS.get(model.architecture)
    if text is None:
        return
    routed = [any(isinstance(module, Experts) for module in layer.block.modules) for layer in model.layers]
    if any(routed) and not all(any(routed[begin:end]) for begin, end in stages):
        raise Refused("RuntimeError", text)


def verify_blocks(
    traits: Traits, support: Support, habits: frozenset[str], *, tp: int, dp: int, ep: bool, sm: int, towers: bool
) -> None:
    """FP8 weights quantised in blocks must be cut between blocks. A layer's attention is built before its MLP."""
    for heads, linear in traits.tower_blocked if towers else ():
        _verify_linear(linear, 1 if heads % tp else tp, habits)
    for module in traits.blocked:
        if isinstance(module, Experts):
            _verify_experts(module, support, 1 if ep else tp * dp, sm)
        else:
            _verify_linear(module, tp, habits)


def verify_towers(model: Model, tp: int, habits: frozenset[str]) -> None:
    """Encoders are built first."""
    for tower in model.towers:
        parts = tower_parts(tower, tp, habits)
        if not parts[0]:
            raise Refused("AssertionError", f"{tower.num_heads} is not divisible by {tp}")
        for _, block in tower.blocks:
            for module in block.modules:
                ranks = tower_module_ranks(module, parts)
                _verify_divides(module, ranks, ranks, habits)


def verify_states(traits: Traits, support: Support, *, tp: int, quantised: bool) -> None:
    """mamba_mixer2.py: groups that do not divide are repeated, at first only without quantisation."""
    text = support.mamba_groups_refused
    if text and quantised and any(isinstance(m, State) and m.kind == "mamba2" and m.groups % tp for m in traits.mixers):
        raise Refused("AssertionError", text)


def verify_layers(traits: Traits, habits: frozenset[str], *, tp: int, dp: int, ep: bool) -> None:
    for module in traits.model.root.modules:
        if isinstance(module, Vocab) and (rows := round_up(module.rows, VOCAB_MULTIPLE)) % tp:
            raise Refused("AssertionError", f"{rows} is not divisible by {tp}")
    for block in traits.blocks:
        for module in block.modules:
            _verify_divides(module, tp, 1 if ep else tp * dp, habits)


def _verify_divides(module: Module, tp: int, moe_ranks: int, habits: frozenset[str]) -> None:
    """distributed/utils.py divide, MergedColumnParallelLinear's and FusedMoE's bare asserts. Heads are checked with
    the attention that they belong to."""
    if isinstance(module, Experts) and module.intermediate % moe_ranks:
        raise Refused("AssertionError", "")
    if not isinstance(module, Linear) or module.apart_by or module.align:
        return
    created = [p for p in module.parts if is_created(p, habits)]
    if module.shard == "row" and created and module.in_features % tp:
        raise Refused("AssertionError", f"{module.in_features} is not divisible by {tp}")
    cut = [p.out_features for p in created if not p.heads and p.out_features % tp]
    if module.shard == "column" and cut:
        raise Refused("AssertionError", "" if len(created) > 1 else f"{cut[0]} is not divisible by {tp}")


def verify_chunked_turboquant(model: Model, kv_dtype: str, skip_layers: tuple[str, ...]) -> None:
    """chunked_local_attention.py:101 (0.32.0; 0.21.0 does the same): the class takes its backend by the flag's dtype,
    also for a layer that is to keep the model's own."""
    if not kv_dtype.startswith("turboquant_"):
        return
    spared = [mixer for layer in model.layers if str(layer.index) in skip_layers for mixer in layer.mixers]
    if any(isinstance(mixer, Attention) and mixer.kind == "chunked_local" for mixer in spared):
        text = f"Unknown TurboQuant cache dtype: 'auto'. Valid presets: {', '.join(TURBOQUANT)}"
        raise Refused("ValueError", text)


def verify_online_experts(traits: Traits, quantization: str | None, sm: int) -> None:
    """online/nvfp4.py:101 (0.32.0): experts are quantised on the fly in NVFP4 where FlashInfer has its kernel."""
    if quantization == "nvfp4_per_token" and traits.is_moe and sm // 10 != 10:
        raise Refused("ValueError", f"{quantization} online quantization requires a Blackwell (SM100) GPU.")


_MXFP8_BLOCK = 32  # quantization/utils/mxfp8_utils.py


def verify_mxfp8(model: Model, habits: frozenset[str], *, tp: int, dp: int, ep: bool, towers: bool) -> None:
    """online/mxfp8.py create_weights: every scale goes with 32 inputs of one rank. Encoders are built first."""
    if not any(_is_mxfp8(module) for layer in model.layers[:8] for module in layer.block.modules):
        return
    for tower in model.towers if towers and model.quantization is None else ():
        parts = tower_parts(tower, tp, habits)
        for _, block in tower.blocks:
            for module in block.modules:
                if isinstance(module, Linear) and is_quantised_online(module, habits, encoder=True):
                    _verify_mxfp8_inputs(module, tower_module_ranks(module, parts), habits)
    for block in dict.fromkeys(layer.block for layer in model.layers):
        for module in block.modules:
            if isinstance(module, Linear) and _is_mxfp8(module):
                _verify_mxfp8_inputs(module, tp, habits)
            if isinstance(module, Experts) and _is_mxfp8(module):
                share = module.intermediate // (1 if ep else tp * dp)
                if share % _MXFP8_BLOCK or module.hidden % _MXFP8_BLOCK:
                    text = f"Online MXFP8 MoE requires hidden/intermediate sizes divisible by {_MXFP8_BLOCK}."
                    raise Refused("ValueError", text)


def _verify_mxfp8_inputs(linear: Linear, ranks: int, habits: frozenset[str]) -> None:
    size = in_features(linear, ranks, habits)
    if size % _MXFP8_BLOCK:
        text = f"MXFP8 requires input_size_per_partition ({size}) to be divisible by {_MXFP8_BLOCK}."
        raise Refused("ValueError", text)


def _is_mxfp8(module: Module) -> bool:
    return (
        isinstance(module, Linear | Experts) and module.scheme is not None and module.scheme.method == "modelopt_mxfp8"
    )


def verify_groups(traits: Traits, support: Support, *, tp: int, dp: int, ep: bool) -> None:
    """Experts in packed integers: a rank's share must hold whole scale groups."""
    if support.wna16_zeros_refused and any(
        experts.scheme is not None and not experts.scheme.symmetric for experts in traits.packed_experts
    ):
        raise Refused("AssertionError", support.wna16_zeros_refused)
    text = support.wna16_cut_refused
    for module in traits.packed_experts if text and not ep else ():
        assert module.scheme is not None
        size, group = module.intermediate // (tp * dp), module.scheme.group_size
        if group > 0 and size % group:
            raise Refused("ValueError", text.format(size=size, group=group))


def _verify_sharing(model: Model, stages: Stages) -> None:
    """attention.py validate_kv_sharing_target: a layer cannot read the cache of another pipeline stage."""
    inner = "language_model.model" if model.architecture.endswith("ForConditionalGeneration") else "model"
    for begin, end in stages:
        for layer in model.layers[begin:end]:
            target = next((m.shares_cache_of for m in layer.mixers if isinstance(m, Attention)), None)
            if target is not None and target < begin:
                name = f"{inner}.layers.{{}}.self_attn.attn"
                raise Refused(
                    "ValueError",
                    f"Specified KV sharing target layer for {name.format(layer.index)} is not valid: target layer "
                    f"{name.format(target)} is not a valid Attention layer in the model.",
                )


def _verify_experts(experts: Experts, support: Support, split: int, sm: int) -> None:
    """fp8.py Fp8MoEMethod.create_weights; later the choice of kernels refuses."""
    assert experts.scheme is not None
    block, size = experts.scheme.block[0], experts.intermediate // split
    if size % block == 0:
        return
    # oracle/fp8.py:272 (0.29.0) refine_fp8_moe_block_shape: smaller blocks, of 32 or more
    refines = not support.fp8_experts_in_whole_blocks and experts.scheme.method == "fp8"
    refined = refines and gcd(*experts.scheme.block, size, experts.hidden) >= 32
    if not refined:
        raise Refused("ValueError", FP8_BLOCKS_CUT.format(size=size, block=block))
    if 0 < sm < 89:
        raise Refused("NotImplementedError", NO_FP8_MOE)


def _verify_linear(linear: Linear, tp: int, habits: frozenset[str]) -> None:
    """fp8_utils.py:1122 (0.21.0) validate_fp8_block_shape. Layers of several parts may cut a block where the config
    itself names the block (linear.py:510): compressed-tensors' does not."""
    assert linear.scheme is not None
    if linear.whole_blocks in habits:
        return
    block_n, block_k = linear.scheme.block
    size = in_features(linear, tp, habits)
    if tp > 1 and linear.shard == "row" and size % block_k:
        raise Refused(
            "ValueError",
            f"Weight input_size_per_partition = {size} is not divisible by weight quantization block_k = {block_k}.",
        )
    sizes = outs(linear, tp, habits)
    if linear.scheme.method == "fp8" and len(sizes) > 1:
        return
    split = tp > 1 and linear.shard == "column"
    for size in sizes if split else sizes[:-1]:
        if size % block_n:
            raise Refused(
                "ValueError",
                f"Weight output_partition_size = {size} is not divisible by weight quantization block_n = {block_n}.",
            )
