"""What one rank's layers create on the GPU, before anything is loaded, as SGLang's layers divide a model.

The walk over the modules is shared with vLLM (engines/common/created.py): both engines' layers have the same lineage.
What SGLang divides otherwise is taken from a second walk: attention by its own groups, experts by expert parallelism.
"""

from collections.abc import Sequence
from functools import cache, lru_cache

from msgspec import Struct
from msgspec.structs import replace

from oomph.engines.common.allocator import SMALL, SMALL_BUFFER, Allocator, small_size
from oomph.engines.common.created import Build, Placed, by_part, created
from oomph.engines.common.shard import Layout, stage_layers
from oomph.engines.common.walks import choose_parts, with_experts
from oomph.engines.sglang.resolve.settings import ModelShape, Settings
from oomph.engines.sglang.weights.repack import repacked_for_triton
from oomph.facts.sglang.facts import Facts
from oomph.facts.sglang.weights import HABITS, MXFP4_TRITON, PACKED, creation
from oomph.ir import Attention, Block, Experts, Layer, Linear, Mixer, Model, Module, Param, Rope, Tower, Vocab
from oomph.units import round_up

_ATTENTION = ("attention", "linear_attn")
HOPPER = 90


class RankPlace(Struct, frozen=True):
    pp_rank: int = 0
    sm: int = 90


class RankWeights(Struct, frozen=True):
    places: tuple[Placed, ...]
    parts: dict[str, int]
    held_bytes: int
    growth: int  # bytes by which repacking makes the experts larger

    @property
    def created_bytes(self) -> int:
        return sum(self.parts.values())


def rank_weights(model: Model, shape: ModelShape, settings: Settings, facts: Facts, place: RankPlace) -> RankWeights:
    """The same for all settings that divide a model alike, whatever their context, share and requests are."""
    divided = Settings(
        tp_size=settings.tp_size,
        pp_size=settings.pp_size,
        attn_dp_size=settings.attn_dp_size,
        ep_size=settings.ep_size,
        dtype=settings.dtype,
        builds_drafts=settings.builds_drafts,
    )
    return _rank_weights(model, shape, divided, facts, place)


@lru_cache(maxsize=256)
def _rank_weights(model: Model, shape: ModelShape, settings: Settings, facts: Facts, place: RankPlace) -> RankWeights:
    places = created_weights(model, shape, settings, facts, place)
    growth = repacked_growth(model, settings, place)
    return RankWeights(places, by_part(places), held_bytes(places, repacked=bool(growth)), growth)


def created_weights(
    model: Model, shape: ModelShape, settings: Settings, facts: Facts, place: RankPlace
) -> tuple[Placed, ...]:
    modules = as_built(model, shape, facts)
    expert_ranks = max(1, settings.tp_size // settings.ep_size)
    multiples = facts.weights.mxfp4_blackwell if 100 <= place.sm < 130 else MXFP4_TRITON
    modules = with_experts(modules, lambda experts: _padded(experts, multiples, expert_ranks))
    whole = _walk(modules, settings, facts, place, settings.tp_size)
    if settings.attn_dp_size > 1:
        groups = _walk(modules, settings, facts, place, settings.attn_tp_size)
        whole = choose_parts(whole, groups, _ATTENTION)
        whole = choose_parts(whole, _walk(modules, settings, facts, place, 1), ("embed",))
    if settings.ep_size > 1:
        share = with_experts(modules, lambda experts: replace(experts, count=experts.count // settings.ep_size))
        whole = choose_parts(whole, _walk(share, settings, facts, place, expert_ranks), ("experts",))
    return whole


def held_bytes(created: Sequence[Placed], *, repacked: bool = False) -> int:
    """What PyTorch's allocator asks the driver for, tensor after tensor: "mem usage" of a load is the driver's figure.

    Posted: 15.50 GiB for 15.28 of Qwen3-32B on each of four GPUs, 14.30 for 14.20 of Qwen2.5-7B, 15.28 for 15.28 of
    Qwen3-8B. `repacked`: the experts are played on their own (repack.py).
    """
    memory, small, experts = Allocator(), 0, 0
    for tensor in (tensor for place in created for tensor in place.tensors if tensor.nbytes):
        if repacked and tensor.part == "experts":
            experts += tensor.nbytes
        elif tensor.nbytes <= SMALL:
            small += small_size(tensor.nbytes)
        else:
            memory.alloc(tensor.nbytes)
    return memory.reserved + round_up(small, SMALL_BUFFER) + experts


def repacked_growth(model: Model, settings: Settings, place: RankPlace) -> int:
    """Bytes by which MXFP4 experts grow when Hopper's kernels have them in their order; 0 = they are read as they
    are."""
    span = stage_layers(len(model.layers), Layout(pp=settings.pp_size, pp_rank=place.pp_rank))
    stage = model.layers[span.start : span.stop]
    experts = [module for layer in stage for module in layer.block.modules if isinstance(module, Experts)]
    of = next((module for module in experts if _is_mxfp4(module)), None)
    if of is None or place.sm != HOPPER or shape_is_v4(model):
        return 0
    count, ranks = of.count // settings.ep_size, max(1, settings.tp_size // settings.ep_size)
    share = round_up(of.intermediate // ranks, MXFP4_TRITON[1])
    values = count * (2 * share * (of.hidden // 2) + of.hidden * (share // 2))
    scales = count * 3 * share * (of.hidden // 32)
    biases = 2 * count * (2 * share + of.hidden)
    return repacked_for_triton(len(experts), count, of.hidden, share).reserved_bytes - len(experts) * (
        values + scales + biases
    )


def _is_mxfp4(experts: Experts) -> bool:
    return experts.scheme is not None and experts.scheme.method == "mxfp4"


def _walk(model: Model, settings: Settings, facts: Facts, place: RankPlace, ranks: int) -> tuple[Placed, ...]:
    layout = Layout(tp=ranks, pp=settings.pp_size, pp_rank=place.pp_rank)
    build = Build(
        creation(place.sm),
        layout,
        settings.dtype,
        drafts=settings.builds_drafts,
        habits=HABITS,
        head_quantised=model.quantization is not None and model.quantization.method in facts.weights.quantised_heads,
    )
    return created(model, build)


def _padded(experts: Experts, multiples: tuple[int, int], ranks: int) -> Experts:
    """layers/quantization/mxfp4.py:478: every rank's share is rounded up."""
    if not _is_mxfp4(experts):
        return experts
    share = round_up(experts.intermediate // ranks, multiples[1])
    return replace(experts, hidden=round_up(experts.hidden, multiples[0]), intermediate=share * ranks)


# A Model as SGLang's classes build it: what differs from the shared description, replaced.


def as_built(model: Model, shape: ModelShape, facts: Facts) -> Model:
    """Layers that share a block keep sharing one."""
    ropes = _Ropes(model, facts)
    block_of = cache(lambda block: _block(block, model, facts))

    def layer_of(layer: Layer) -> Layer:
        return replace(layer, mixers=tuple(map(ropes.mixer, layer.mixers)), block=block_of(layer.block))

    rules = facts.weights
    towers: tuple[Tower, ...] = ()
    if shape.is_multimodal or model.architecture not in rules.encoder_only_with_images:
        towers = tuple(
            replace(tower, blocks=tuple((n, _tower_block(b, model, facts)) for n, b in tower.blocks))
            for tower in model.towers
        )
    if not has_class(model, facts):
        towers = tuple(map(_undivided, towers))
    elif model.architecture in rules.packed_positions:
        towers = tuple(map(_with_packed_positions, towers))
    return replace(
        model,
        layers=tuple(map(layer_of, model.layers)),
        drafts=tuple(map(layer_of, model.drafts)),
        root=_root(model, facts),
        towers=towers,
    )


# configs/olmo3.py
_CLASS_OF = {"Olmo3ForCausalLM": "Olmo2ForCausalLM"}


def has_class(model: Model, facts: Facts) -> bool:
    """Whether SGLang has code for it; where not, transformers' own modules stand in."""
    return _CLASS_OF.get(model.architecture, model.architecture) in facts.models.classes


class _Ropes:
    """Rotary tables are float32, with a row for each position of the config (layers/rotary_embedding/base.py)."""

    def __init__(self, model: Model, facts: Facts) -> None:
        self.length = int(model.param("derived_max_len") or 0)
        ropes = [m.rope for layer in model.layers for m in layer.mixers if isinstance(m, Attention) and m.rope]
        self.by_kind = len({rope.theta for rope in ropes}) > 1
        self.has_tables = has_class(model, facts)
        self.twice = 2 if model.architecture in facts.weights.complex_rotary else 1
        self._seen: dict[Rope, Rope] = {}

    def mixer(self, mixer: Mixer) -> Mixer:
        if not isinstance(mixer, Attention) or mixer.rope is None:
            return mixer
        indexer = mixer.indexer
        if indexer is not None and indexer.rope is not None:
            indexer = replace(indexer, rope=self._rope(indexer.rope))
        return replace(mixer, rope=self._rope(mixer.rope), indexer=indexer)

    def _rope(self, rope: Rope) -> Rope:
        if rope not in self._seen:
            rows = rope.positions
            # one axis at a time: no table of four times the length; and no stretched one where the parameters of each
            # kind of layer hide their factor
            if self.length and (rows == 4 * self.length or (self.by_kind and rope.kind == "linear")):
                rows = self.length
            if not self.has_tables:  # transformers keeps its frequencies twice: as many as one row of a table
                rows = 1
            self._seen[rope] = replace(
                rope, positions=rows, dim=rope.dim * self.twice, dtype="F32", short=0, only="", narrow=0
            )
        return self._seen[rope]


def _root(model: Model, facts: Facts) -> Block:
    """models/dots_ocr.py: the language model is a whole class, with a head beside the one that is read."""
    block = _block(model.root, model, facts)
    if model.architecture not in facts.weights.second_heads:
        return block
    heads = (module for module in block.modules if isinstance(module, Vocab) and module.role == "lm_head")
    again = (
        Param(f"model.{head.name}.weight", (head.rows, head.dim), head.dtype, "lm_head", shard_dim=0) for head in heads
    )
    return Block((*block.modules, *again))


def _block(block: Block, model: Model, facts: Facts) -> Block:
    return Block(tuple(_module(module, model, facts) for module in block.modules))


def _module(module: Module, model: Model, facts: Facts) -> Module:
    rules, name = facts.weights, model.architecture
    if isinstance(module, Vocab):
        if module.role == "embed" and name in rules.whole_embeddings:
            return Param(f"{module.name}.weight", (module.rows, module.dim), module.dtype, "embed", everywhere=True)
        if module.role == "lm_head" and name in rules.untied_heads:
            return replace(module, tied=False)
        if module.role == "lm_head" and name in rules.float32_heads:
            return replace(module, created_dtype="F32")
        return module
    if isinstance(module, Experts) and shape_is_v4(model) and module.scheme and module.scheme.method == "mxfp4":
        return replace(module, scheme=replace(module.scheme, method="fp8_mxfp4"))
    if isinstance(module, Linear) and module.role == "router" and name in rules.float32_routers:
        return replace(module, created_dtype="F32")
    return module


def shape_is_v4(model: Model) -> bool:
    return model.architecture in ("DeepseekV4ForCausalLM",)


def _undivided(tower: Tower) -> Tower:
    """models/transformers.py: the plan of transformers' own classes divides the language model alone."""
    whole = tuple((n, Block(tuple(map(_whole, block.modules)))) for n, block in tower.blocks)
    return replace(tower, blocks=whole)


def _with_packed_positions(tower: Tower) -> Tower:
    """models/paddleocr_vl.py: the table that only its first releases read."""
    if not tower.layers:
        return tower
    table = Param("embeddings.packing_position_embedding.weight", (PACKED, tower.hidden), "BF16", "multimodal")
    return replace(tower, blocks=(*tower.blocks, (1, Block((table,)))))


def _whole(module: Module) -> Module:
    """On every rank, and there: layers behind the last one that is read are built too."""
    if isinstance(module, Linear):
        unread = not any(part.created for part in module.parts)
        parts = tuple(replace(part, created=part.created or unread) for part in module.parts)
        return replace(module, parts=parts, shard="replicated")
    return replace(module, shard_dim=None, created=True) if isinstance(module, Param) else module


def _tower_block(block: Block, model: Model, facts: Facts) -> Block:
    return Block(tuple(_tower_module(module, model.architecture, facts) for module in block.modules))


def _tower_module(module: Module, architecture: str, facts: Facts) -> Module:
    rules = facts.weights
    if isinstance(module, Param):
        if module.name.endswith("cos_sin_cache"):  # float32, as the language model's
            return replace(module, created_dtype="F32")
        if architecture in rules.split_positions and module.name.endswith(_POSITIONS):
            return replace(module, shard_dim=0)
        is_linear = module.name.startswith("conformer.") and module.name.endswith(".weight") and len(module.shape) == 2
        if is_linear and architecture in rules.split_encoders:
            return replace(module, shard_dim=int(any(name in module.name for name in _ROWS)))
        return module
    inside = module.name.startswith(("encoder.", "conformer.", "layers."))
    whole = isinstance(module, Linear) and module.shard == "replicated" and architecture in rules.split_encoders
    if isinstance(module, Linear) and module.name.endswith(rules.whole_in_encoders.get(architecture, ("\0",))):
        return replace(module, shard="replicated")
    if not (inside and whole):
        return module
    return replace(module, shard="row" if any(name in module.name for name in _ROWS) else "column")


_POSITIONS = ("pos_embed.weight", "position_embedding.weight")
# row-parallel by their names (models/gemma4_vision.py, gemma4_audio.py); all other linear layers are column-parallel
_ROWS = ("o_proj", "down_proj", "attention.post", ".post.", "ffw_layer_2", "linear_end")
