"""What the model's own constructors refuse, before any cache is asked for."""

from __future__ import annotations

from math import gcd

from oomph.engines.vllm.kv_specs import Refused
from oomph.engines.vllm.model_facts import ModelFacts
from oomph.engines.vllm.shard import in_features, is_created, outs, tower_module_ranks, tower_parts
from oomph.facts.vllm import known
from oomph.facts.vllm.defaults import Defaults
from oomph.facts.vllm.known import FP8_BLOCK_MOE, NO_FP8_MOE, PP_REFUSAL
from oomph.facts.vllm.versions import pick
from oomph.ir.model import Attention, Experts, Linear, Model, Module, State

Stages = tuple[tuple[int, int], ...]


def verify_config(model: Model, d: Defaults, version: str) -> None:
    """What reading the model's files refuses, before any flag is looked at."""
    unknown = d.unknown.get(model.architecture)
    if unknown is not None and unknown.stage == "engine_config":
        raise Refused(unknown.type, unknown.text.format(model_type=model.model_type))
    if model.model_type in known.UNKNOWN_TYPES:
        raise Refused("ValidationError", known.UNKNOWN_TYPE.format(model_type=model.model_type))
    allowed = tuple(str(pick(known.LAYER_TYPES, version).value).split())
    given = str(model.param("layer_types", "")).split()
    if allowed and not set(given) <= set(allowed):
        text = known.LAYER_TYPES_REFUSAL.format(allowed=allowed, given=given)
        raise Refused("StrictDataclassClassValidationError", text)
    for gone in d.gone:
        if gone.architecture == model.architecture and gone.stage == "engine_config":
            raise Refused(gone.type, gone.text)
    if model.quantization is not None and model.quantization.refused:
        raise Refused("ValidationError", model.quantization.refused)


def verify_build(model: Model, d: Defaults, stages: Stages, version: str) -> None:
    unknown = d.unknown.get(model.architecture)
    if unknown is not None:
        raise Refused(unknown.type, unknown.text)
    for gone in d.gone:
        if gone.architecture == model.architecture:
            raise Refused(gone.type, gone.text)
    if (
        model.param("no_scale_fmt")
        and model.architecture.startswith("DeepseekV4")
        and pick(known.SCALE_FORMAT, version).value
    ):
        raise Refused("KeyError", "'scale_fmt'")
    if len(stages) > 1:
        if model.architecture in d.pp_refused:
            raise Refused("ValidationError", PP_REFUSAL)
        _verify_sharing(model, stages)


def verify_blocks(
    facts: ModelFacts, d: Defaults, habits: frozenset[str], *, tp: int, dp: int, ep: bool, sm: int, towers: bool
) -> None:
    """FP8 weights quantised in blocks must be cut between blocks. A layer's attention is built before its MLP."""
    for heads, linear in facts.tower_blocked if towers else ():
        _verify_linear(linear, 1 if heads % tp else tp, habits)
    for module in facts.blocked:
        if isinstance(module, Experts):
            _verify_experts(module, d, 1 if ep else tp * dp, sm)
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


def verify_states(facts: ModelFacts, version: str, *, tp: int, quantised: bool) -> None:
    """mamba_mixer2.py: groups that do not divide are repeated, at first only without quantisation."""
    text = str(pick(known.MAMBA_GROUPS, version).value)
    if text and quantised and any(isinstance(m, State) and m.kind == "mamba2" and m.groups % tp for m in facts.mixers):
        raise Refused("AssertionError", text)


def verify_layers(model: Model, habits: frozenset[str], *, tp: int, dp: int, ep: bool) -> None:
    for block in dict.fromkeys(layer.block for layer in model.layers):
        for module in block.modules:
            _verify_divides(module, tp, 1 if ep else tp * dp, habits)


def _verify_divides(m: Module, tp: int, moe_ranks: int, habits: frozenset[str]) -> None:
    """distributed/utils.py divide, MergedColumnParallelLinear's and FusedMoE's bare asserts. Heads are checked with
    the attention that they belong to."""
    if isinstance(m, Experts) and m.intermediate % moe_ranks:
        raise Refused("AssertionError", "")
    if not isinstance(m, Linear) or m.apart_by or m.align:
        return
    made = [p for p in m.parts if is_created(p, habits)]
    if m.shard == "row" and made and m.in_features % tp:
        raise Refused("AssertionError", f"{m.in_features} is not divisible by {tp}")
    cut = [p.out_features for p in made if not p.heads and p.out_features % tp]
    if m.shard == "column" and cut:
        raise Refused("AssertionError", "" if len(made) > 1 else f"{cut[0]} is not divisible by {tp}")


def verify_groups(facts: ModelFacts, version: str, *, tp: int, dp: int, ep: bool) -> None:
    """Experts in packed integers: a rank's share must hold whole scale groups."""
    zeros = str(pick(known.WNA16_MOE_ZEROS, version).value)
    if zeros and any(m.scheme is not None and not m.scheme.symmetric for m in facts.packed_experts):
        raise Refused("AssertionError", zeros)
    text = str(pick(known.WNA16_MOE, version).value)
    for module in facts.packed_experts if text and not ep else ():
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


def _verify_experts(m: Experts, d: Defaults, split: int, sm: int) -> None:
    """fp8.py Fp8MoEMethod.create_weights; later the choice of kernels refuses."""
    assert m.scheme is not None
    block, size = m.scheme.block[0], m.intermediate // split
    if size % block == 0:
        return
    # oracle/fp8.py:272 (0.29.0) refine_fp8_moe_block_shape: smaller blocks, of 32 or more
    refined = not d.fp8_block_moe and m.scheme.method == "fp8" and gcd(*m.scheme.block, size, m.hidden) >= 32
    if not refined:
        raise Refused("ValueError", str(FP8_BLOCK_MOE[0].value).format(size=size, block=block))
    if 0 < sm < 89:
        raise Refused("NotImplementedError", NO_FP8_MOE)


def _verify_linear(m: Linear, tp: int, habits: frozenset[str]) -> None:
    """fp8_utils.py:1122 (0.21.0) validate_fp8_block_shape. Layers of several parts may cut a block where the config
    itself names the block (linear.py:510): compressed-tensors' does not."""
    assert m.scheme is not None
    if m.whole_blocks in habits:
        return
    block_n, block_k = m.scheme.block
    size = in_features(m, tp, habits)
    if tp > 1 and m.shard == "row" and size % block_k:
        raise Refused(
            "ValueError",
            f"Weight input_size_per_partition = {size} is not divisible by weight quantization block_k = {block_k}.",
        )
    sizes = outs(m, tp, habits)
    if m.scheme.method == "fp8" and len(sizes) > 1:
        return
    split = tp > 1 and m.shard == "column"
    for size in sizes if split else sizes[:-1]:
        if size % block_n:
            raise Refused(
                "ValueError",
                f"Weight output_partition_size = {size} is not divisible by weight quantization block_n = {block_n}.",
            )
