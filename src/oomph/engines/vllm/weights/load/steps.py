"""What one module goes through between its creation and the end of the load, by the settings of a deployment."""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Literal

from msgspec import Struct

from oomph.engines.common.allocator import ROUND
from oomph.engines.common.created import Build, Created, Placed
from oomph.engines.common.expert_kernel import expert_kernel, padded_sizes
from oomph.engines.common.online import is_quantised_online
from oomph.engines.common.shard import experts_share, in_features, linear_ranks, local_experts, outs, stage_layers
from oomph.engines.vllm.resolve.plain_flags import Balancing, Offload
from oomph.engines.vllm.traits import REMEMBERED, Traits
from oomph.facts.dtypes import nbytes
from oomph.facts.vllm.experts_case import ExpertsCase, Step, scale_sizes
from oomph.facts.vllm.repack import Case, Repacking
from oomph.facts.vllm.weights import Loading
from oomph.ir import Attention, Experts, Layer, Linear, Model, Vocab
from oomph.units import round_up


class Setting(Struct, frozen=True):
    """What, besides the build, decides how a load goes."""

    repacking: Repacking
    rules: Loading
    max_split: int  # blocks of this size and more are not split while the model loads; 0 = no limit
    sm: int
    sms: int
    dummy: bool = False  # --load-format dummy
    expandable: bool = False
    pooled: bool = False  # in a pool that cannot give back what conversions free (--enable-sleep-mode)
    before: int = 0  # a buffer of the runner that leaves a piece of its segment; 0 = nothing left
    mla_workspace: int = 0
    buffers: "Buffers" = ()  # what modules register beside their parameters
    lora: tuple[tuple[str, int], ...] = ()  # LoRA slots, in the order in which they are made
    offload: Offload = Offload()
    online: Literal["", "after", "held", "meta"] = ""  # 16-bit weights quantised while loading (facts/vllm/weights.py)
    file_bytes: int = 0  # a whole weight file comes to the GPU while loading


def steps_of(of: Linear | Experts | Vocab, build: Build, setting: Setting) -> Sequence[Step]:
    if setting.online:
        return _online(of, build, setting)
    if isinstance(of, Experts):
        return setting.repacking.experts_steps(experts_case(of, build, setting))
    if of.scheme is None or isinstance(of, Vocab):
        return ()
    ranks = linear_ranks(of, build.layout, build.habits)
    n = outs(of, ranks, build.habits)
    if not n:
        return ()
    width = nbytes(of.created_dtype or build.dtype, 1)
    k = in_features(of, ranks, build.habits)
    case = Case(
        of.scheme,
        n=sum(n),
        k=k,
        k_full=of.in_features,
        parts=tuple(n),
        dtype_bytes=width,
        sm=setting.sm,
        sms=setting.sms,
    )
    return setting.repacking.linear_steps(case)


def latent_copies(of: Linear, build: Build) -> Sequence[Step]:
    """mla_attention.py:826: a quantised kv_b_proj is kept a second time, in the model's dtype."""
    if of.scheme is None:
        return ()
    size = sum(outs(of, build.layout.tp, build.habits)) * in_features(of, build.layout.tp, build.habits)
    return [("float", 4 * size), ("W_UK, W_UV", nbytes(build.dtype, size)), ("float", 0)]


def is_retied(of: Linear | Experts | Vocab, build: Build) -> bool:
    """model_loader/weight_tying.py (0.29.0): a stored head that equals the embedding is replaced by it; the two are
    compared in host memory, and only where both are on this rank."""
    return (
        isinstance(of, Vocab) and of.role == "lm_head" and of.tied and build.separate_tied_head and build.layout.pp == 1
    )


def _online(of: Linear | Experts | Vocab, build: Build, setting: Setting) -> Sequence[Step]:
    """fp8.py Fp8OnlineLinearMethod, Fp8OnlineMoEMethod. With "meta" the weights are built quantised already, and each
    module's 16-bit ones come and go."""
    width = nbytes(build.dtype, 1)
    if isinstance(of, Experts):
        case = experts_case(of, build, setting)
        sizes = {f"{name}_weight": case.experts * n * k for name, n, k in case.rows}
    elif isinstance(of, Linear):
        tp = linear_ranks(of, build.layout, build.habits)
        sizes = {"weight": sum(outs(of, tp, build.habits)) * in_features(of, tp, build.habits)}
    else:
        return ()
    if setting.online == "meta":
        if of.scheme is None:
            return ()
        wide: list[Step] = [(f"{name} in 16 bits", width * size) for name, size in sizes.items()]
        return [*wide, *((step[0], 0) for step in wide)]
    if not is_quantised_online(of, build.habits):
        return ()
    steps: list[Step] = [(f"{name} in 8 bits", size) for name, size in sizes.items()]
    steps.append(("weight_scale", 4))
    return steps if setting.online == "held" else [*steps, *((name, 0) for name in sizes)]


def experts_case(of: Experts, build: Build, setting: Setting | None = None) -> ExpertsCase:
    """Without a setting: for the sizes alone, which do not depend on one."""
    layout = build.layout
    share = experts_share(of, layout, build.habits)
    hidden, inter = padded_sizes(of, of.scheme, share, layout, build.experts)
    return ExpertsCase(
        of.scheme,
        experts=local_experts(of.count, layout),
        hidden=hidden,
        inter=inter,
        shards=2 if of.gated or build.experts.online_pairs else 1,
        dtype_bytes=nbytes(build.dtype, 1),
        sms=setting.sms if setting else 0,
        bias=of.bias,
        kernel=expert_kernel(of, of.scheme, layout, build.experts),
    )


def pieces(tensor: Created, build: Build) -> Iterator[tuple[str, int]]:
    """The tensors behind one row of `created()`."""
    of, name, size = tensor.of, tensor.name, tensor.nbytes
    if tensor.module == "attn":
        count = 4 if name == "_scales" or size % 8 == 0 else 6  # compressed-tensors: three scales, three zero points
        for _ in range(count):
            yield name, size // count
    elif isinstance(of, Experts) and name in ("weight_scales", "scales"):
        w13, w2 = scale_sizes(experts_case(of, build), size)
        yield from (("w13_scale", w13), ("w2_scale", w2))
    elif isinstance(of, Experts) and name == "g_idx":
        case = experts_case(of, build)
        w13, w2 = 4 * case.experts * case.hidden, 4 * case.experts * case.inter
        yield from (("w13_g_idx", w13), ("w2_g_idx", w2), ("w13_sort", w13), ("w2_sort", w2))
    elif isinstance(of, Experts) and name in ("weight_global_scales", "input_scales", "qzeros", "weight_shapes"):
        yield from ((name, size // 2), (name, size - size // 2))
    else:
        yield name, size


def is_fp8(of: Linear | Experts | Vocab | None, name: str) -> bool:
    if of is None or of.scheme is None or of.scheme.kind != "float":
        return False
    if of.scheme.bits == 8:
        return name in ("weight", "w13_weight", "w2_weight")
    return of.scheme.method != "mxfp4" and name in ("weight_scale", "w13_scale", "w2_scale")


# Tensors that a model's classes keep beside their parameters: as long as the largest batch, and part of what
# "Model loading took" counts, though no list of parameters or buffers has them.

Buffers = tuple[tuple[str, int], ...]


@lru_cache(REMEMBERED)
def model_buffers(traits: Traits, build: Build, rules: Loading, tokens: int) -> Buffers:
    return tuple(_buffers(traits.model, build, rules, tokens))


def _buffers(model: Model, build: Build, rules: Loading, tokens: int) -> Iterator[tuple[str, int]]:
    width = nbytes(build.dtype, 1)
    yield from draft_buffers(model.layers, tokens)
    if rules.query_workspace:
        yield from _query_workspace(model, build, tokens)
    if model.architecture.startswith("DeepseekV4") and build.layout.pp_rank == build.layout.pp - 1:
        # deepseek_v4.py:1351 (0.21.0) _mtp_hidden_buffer: every residual stream of every token
        yield "_mtp_hidden_buffer", tokens * int(model.param("hc_mult", 4)) * model.hidden_size * width
    if build.towers or rules.deepstack_without_tower:  # qwen3_vl.py:1680 (0.21.0)
        for _ in range(int(model.param("deepstack_levels", 0))):
            yield "deepstack_input_embeds", tokens * model.hidden_size * width
    per_layer = int(model.param("per_layer_embeddings", 0))
    if per_layer and model.towers:  # gemma3n_mm.py:530, gemma4_mm.py:993
        yield "per_layer_embeddings", tokens * per_layer * width
    if model.architecture.startswith(("Gemma4", "DiffusionGemma")):
        yield "norms without weights", _norms_without_weights(model, build, width)


def _query_workspace(model: Model, build: Build, tokens: int) -> Iterator[tuple[str, int]]:
    """One for all layers, in 16 bits: every head's latent query with its rotated part."""
    sparse = [m for x in model.layers for m in x.mixers if isinstance(m, Attention) and m.indexer and m.kv_lora_rank]
    if sparse and not sparse[0].compress_ratio:
        heads, wide = sparse[0].num_heads // build.layout.tp, sparse[0].kv_lora_rank + sparse[0].qk_rope_head_dim
        yield "q_concat_buffer", tokens * heads * wide * 2


def _norms_without_weights(model: Model, build: Build, width: int) -> int:
    """layernorm.py:64 (0.21.0): RMSNorm(has_weight=False) makes its ones all the same: v_norm and the router's norm.
    Each is a tensor of its own."""
    stage = stage_layers(len(model.layers), build.layout)
    total = 0
    kinds = Counter((layer.block, layer.mixers) for layer in model.layers[stage.start : stage.stop])
    for (block, mixers), count in kinds.items():
        total += count * sum(round_up(m.head_dim_v * width, ROUND) for m in mixers if isinstance(m, Attention))
        if any(isinstance(module, Experts) for module in block.modules):
            total += count * round_up(model.hidden_size * width, ROUND)
    return total


def balancing_buffers(places: tuple[Placed, ...], build: Build, balancing: Balancing | None) -> Buffers:
    """eplb_state.py:448 (0.21.0): with --enable-eplb one layer's experts once more, and the load of every expert over
    the window of steps that is looked back on."""
    if balancing is None:
        return ()
    layers = [place for place in places if any(isinstance(tensor.of, Experts) for tensor in place.tensors)]
    if not layers:
        return ()
    first = [tensor for tensor in layers[0].tensors if isinstance(tensor.of, Experts) and "input" not in tensor.name]
    experts = max(t.of.count for t in first if isinstance(t.of, Experts)) + build.layout.redundant_experts
    loads = 4 * len(layers) * experts * (balancing.window + 1)
    return (("expert load window", loads), *((f"spare {t.name}", t.nbytes) for t in first))


def draft_buffers(layers: tuple[Layer, ...], tokens: int) -> Buffers:
    """deepseek_v2.py:1220, deepseek_mtp.py:80: one table of chosen tokens for all indexers of a model."""
    for layer in layers:
        for mixer in layer.mixers:
            if isinstance(mixer, Attention) and mixer.indexer is not None:
                return (("topk_indices_buffer", 4 * tokens * mixer.indexer.top_k),)
    return ()
