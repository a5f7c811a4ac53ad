"""What one rank's layers create on the GPU, parameter by parameter, in the order in which vLLM builds them.

`created()` is the model as constructed (`torch.empty` of every parameter and buffer) before a byte is loaded.
"""

from collections.abc import Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from oomph.engines.common.expert_kernel import GLOBAL_SCALES, ExpertSetting, expert_kernel, padded_sizes
from oomph.engines.common.shard import (
    Layout,
    experts_share,
    in_features,
    is_created,
    linear_ranks,
    local_experts,
    outs,
    param_elements,
    stage_layers,
    tower_module_ranks,
    tower_parts,
)
from oomph.facts.dtypes import nbytes
from oomph.facts.vllm import create_weights
from oomph.ir import Attention, Block, Experts, Layer, Linear, Model, Module, Param, Rope, Vocab
from oomph.units import round_up

VOCAB_MULTIPLE = 64  # vocab_parallel_embedding.py DEFAULT_VOCAB_PADDING_SIZE


class Created(Struct, frozen=True, cache_hash=True):
    """One tensor on the GPU."""

    module: str
    name: str
    part: str  # role, or "buffers"
    nbytes: int
    rope: Rope | None = None  # a rotary table, of `rows` positions
    rows: int = 0
    of: Linear | Experts | Vocab | None = None


class Build(Struct, frozen=True, cache_hash=True):
    """What, besides the model, decides the created weights."""

    table: create_weights.Creation
    layout: Layout
    dtype: str  # the resolved model dtype
    towers: bool = True  # False: text only
    unused: frozenset[str] = frozenset()  # kinds of encoders whose inputs are all forbidden
    drafts: bool = False  # the checkpoint's own draft layers are loaded too
    kv_scales: int = 0  # bytes of loadable scales the quantisation config gives each attention layer
    mla_kv_scales: int = 0  # the same for latent attention
    habits: frozenset[str] = frozenset()  # facts/vllm/structure.py
    rotary_kernels: bool = False  # custom operators are on (eager): FlashInfer's rotary wants float32 tables
    separate_tied_head: bool = False  # a tied head that the checkpoint stores is built apart (0.32)
    head_quantised: bool = False
    experts: ExpertSetting = ExpertSetting()
    context: int = 0  # the longest sequence that is served; 0 = as long as the model allows
    embeds_last: bool = False  # the last pipeline stage has the embedding too, for the drafts


class Placed(Struct, frozen=True):
    """One place of the network in build order, with what it creates. `layer`: decoder layer index, -1 outside."""

    where: str
    layer: int
    tensors: tuple[Created, ...]

    @property
    def nbytes(self) -> int:
        return sum(tensor.nbytes for tensor in self.tensors)


_SCALES = "attention scales as buffers"
_AFTER_LAYERS = ("norm", "lm_head")  # parts of the root that are built after the layers


def created(model: Model, build: Build) -> tuple[Placed, ...]:
    """Everything this rank builds, in order."""
    layout = build.layout
    first, last = layout.pp_rank == 0, layout.pp_rank == layout.pp - 1
    places: list[Placed] = []
    if build.towers:  # every stage builds them; only the first runs them
        for tower in model.towers:
            if tower.modality in build.unused:
                continue
            parts = (1, 1) if layout.data_parallel_towers else tower_parts(tower, layout.tp, build.habits)
            for times, block in tower.blocks:
                places += [Placed(tower.prefix, -1, _tower_block(block, build, parts))] * times
    # transformers' own code builds what is outside the layers where it is used, and nowhere else
    borrowed = f"{model.architecture} by transformers" in build.habits
    root = tuple(_root(model.root, build, first, last, borrowed))
    places.append(Placed("root", -1, tuple(t for t in root if t.part not in _AFTER_LAYERS)))
    cache: dict[object, tuple[Created, ...]] = {}
    ropes: set[Rope] = set()
    stage = stage_layers(len(model.layers), layout)
    layers = model.layers[stage.start : stage.stop]
    places += [Placed(layer.prefix, layer.index, _layer(layer, build, cache, ropes)) for layer in layers]
    places.append(Placed("root", -1, tuple(t for t in root if t.part in _AFTER_LAYERS)))
    if build.drafts and last:
        places.append(Placed("draft", -1, tuple(_root(model.draft_root, build, True, True, False))))
        places += [Placed(layer.prefix, -1, _layer(layer, build, cache, ropes)) for layer in model.drafts]
    return tuple(place for place in places if place.tensors)


def by_part(places: Iterable[Placed]) -> dict[str, int]:
    parts: dict[str, int] = {}
    for place in places:
        for tensor in place.tensors:
            parts[tensor.part] = parts.get(tensor.part, 0) + tensor.nbytes
    return parts


def _tower_block(block: Block, build: Build, parts: tuple[int, int]) -> tuple[Created, ...]:
    alone = _whole(build)
    builds = ((module, alone if tower_module_ranks(module, parts) == 1 else build) for module in block.modules)
    return tuple(t for m, own in builds for t in _module(m, own))


def _whole(build: Build) -> Build:
    fields = {f: getattr(build, f) for f in build.__struct_fields__}
    return Build(**fields | {"layout": Layout()})


def _root(block: Block, build: Build, first: bool, last: bool, borrowed: bool) -> Iterator[Created]:
    """The embedding is on the first stage, norm and head on the last; a tied head is the embedding once more."""
    embedded = first or any(
        isinstance(module, Vocab) and module.everywhere and not borrowed for module in block.modules
    )
    for module in block.modules:
        if isinstance(module, Vocab):
            is_head, everywhere = module.role == "lm_head", module.everywhere and not borrowed
            tied = module.tied and (not module.tied_by or module.tied_by in build.habits)
            shared = is_head and tied and not (build.separate_tied_head and module.stored and not module.assumed)
            if is_head and (not (last or everywhere) or (shared and embedded)):
                continue
            if not is_head and not (first or everywhere or (last and build.embeds_last)):
                continue
            yield from _vocab(module, build)
        elif last or (first and not _is_final(module)) or _kept(module, borrowed, embedded):
            yield from _module(module, build)


def _kept(module: Module, borrowed: bool, embedded: bool) -> bool:
    """On every stage, whoever needs it there; a projection of embeddings is where they are (gemma4.py:1039, 0.32.0)."""
    if isinstance(module, Linear):
        return embedded and not borrowed
    return isinstance(module, Param) and module.everywhere and not (borrowed and _is_final(module))


def _is_final(module: Module) -> bool:
    return isinstance(module, Param) and module.role == "norm"


def _block(block: Block, build: Build, cache: dict[object, tuple[Created, ...]]) -> tuple[Created, ...]:
    tensors = cache.get(block)
    if tensors is None:
        tensors = cache[block] = tuple(t for module in block.modules for t in _module(module, build))
    return tensors


def _module(module: Module, build: Build) -> Iterator[Created]:
    if isinstance(module, Linear):
        yield from _linear(module, build)
    elif isinstance(module, Experts):
        yield from _experts(module, build)
    elif isinstance(module, Vocab):
        yield from _vocab(module, build)
    elif is_created(module, build.habits):
        dtype = module.created_dtype or build.dtype
        yield Created(module.name, "", module.role, nbytes(dtype, param_elements(module, build.layout.tp)))


def _linear(module: Linear, build: Build) -> Iterator[Created]:
    ranks = linear_ranks(module, build.layout, build.habits)
    n = outs(module, ranks, build.habits)
    if not n:
        return
    if module.align and sum(n) % module.align:
        n = [*n, -sum(n) % module.align]
    width = nbytes(module.created_dtype or build.dtype, 1)
    k = in_features(module, ranks, build.habits)
    for name, size in build.table.linear(module.scheme, n, k, module.in_features, width):
        yield Created(module.name, name, module.role, size, of=module)
    if module.bias:
        yield Created(module.name, "bias", module.role, sum(n) * nbytes(build.dtype, 1))


def _experts(module: Experts, build: Build) -> Iterator[Created]:
    layout = build.layout
    experts = local_experts(module.count, layout)
    share = experts_share(module, layout, build.habits)
    hidden, inter = padded_sizes(module, module.scheme, share, layout, build.experts)
    scheme = build.table.experts_scheme(module.scheme, hidden, inter)
    if scheme is not module.scheme:
        module = replace(module, scheme=scheme)
    width = nbytes(build.dtype, 1)
    shards = 2 if module.gated or build.experts.online_pairs else 1
    kernel = expert_kernel(module, module.scheme, layout, build.experts)
    everyone = module.count if kernel in GLOBAL_SCALES else experts
    for name, size in build.table.experts(
        module.scheme, experts, everyone, hidden, inter, module.intermediate, width, shards, module.bias
    ):
        yield Created(module.name, name, module.role, size, of=module)
    if layout.expert_parallel and layout.moe_ranks > 1:
        # fused_moe/layer.py:415: one int32 per global expert
        yield Created(module.name, "_expert_map", "buffers", 4 * (module.count + layout.redundant_experts))


def _vocab(module: Vocab, build: Build) -> Iterator[Created]:
    if module.only and module.only not in build.habits:
        return
    rows = round_up(module.rows, VOCAB_MULTIPLE) // build.layout.tp
    width = nbytes(module.created_dtype or build.dtype, 1)
    scheme = module.scheme if module.role == "embed" or build.head_quantised else None
    for name, size in build.table.linear(scheme, [rows], module.dim, module.dim, width):
        yield Created(module.name, name, module.role, size, of=module)
    if module.bias:
        yield Created(module.name, "bias", module.role, rows * width)


def _attention(layer: Layer, build: Build) -> Iterator[Created]:
    """attention.py:97: four float32 scales a layer as buffers, and four in the model's dtype where a quantisation
    method can load them."""
    for mixer in layer.mixers:
        # DeepSeek-V4's attention is not a subclass of Attention or MLAAttention
        if isinstance(mixer, Attention) and (mixer.kind != "mla" or mixer.kv_lora_rank):
            if _SCALES in build.habits:
                yield Created("attn", "_scales", "buffers", 16)
            scales = build.mla_kv_scales if mixer.kind == "mla" else build.kv_scales
            if scales:
                yield Created("attn", "scales", "attention", scales)


def _layer(
    layer: Layer, build: Build, cache: dict[object, tuple[Created, ...]], seen: set[Rope]
) -> tuple[Created, ...]:
    """A rotary table is built by the first layer that needs it, after that layer's attention projections. Layers that
    create the same tensors share one tuple: what follows from it is computed once."""
    tensors = _block(layer.block, build, cache)
    ropes = tuple(_ropes(layer, build, seen))
    buffers = tuple(_attention(layer, build))
    if not ropes:
        key = (layer.block, *((tensor.name, tensor.nbytes) for tensor in buffers))
        return cache.setdefault(key, (*tensors, *buffers))
    at = 1 + max((i for i, tensor in enumerate(tensors) if tensor.part == "attention"), default=-1)
    return (*tensors[:at], *ropes, *tensors[at:], *buffers)


def _ropes(layer: Layer, build: Build, seen: set[Rope]) -> Iterator[Created]:
    """rotary_embedding/__init__.py keeps one table for each distinct set of parameters."""
    for mixer in layer.mixers:
        if not isinstance(mixer, Attention):
            continue
        for rope in (mixer.rope, mixer.indexer.rope if mixer.indexer else None):
            if rope is None or rope in seen:
                continue
            seen.add(rope)
            stays = not rope.only or rope.only in build.habits
            if not stays and rope.short < 0:
                continue
            rows = rope.positions if stays else rope.short or rope.positions
            if rope.capped and build.context:
                rows = min(rows, build.context)
            size = rows * (rope.dim if stays else rope.narrow or rope.dim) * nbytes(_rope_dtype(rope, mixer, build), 1)
            yield Created("rotary", "cos_sin_cache", "buffers", size, rope, rows)


def _rope_dtype(rope: Rope, mixer: Attention, build: Build) -> str:
    """deepseek_scaling_rope.py:61: a float32 table where FlashInfer's operator turns the heads."""
    own = mixer.indexer is not None and "sparse latent attention with its own kernels" in build.habits
    if rope.kind == "deepseek_yarn" and rope.dim in (64, 128, 256, 512) and (build.rotary_kernels or own):
        return rope.dtype or "F32"
    return rope.dtype or build.dtype
