"""What vLLM's settings and caches ask of a Model, each computed once per model."""

from collections.abc import Iterator
from functools import cached_property, lru_cache

from msgspec.structs import replace

from oomph.ir import Attention, Block, Experts, Layer, Linear, Mixer, Model, Scheme, State, Tower

REMEMBERED = 256  # results of each kind: the hardest fits take 2.9 s of CPU with 256 and with 4,096, and a page that is
# asked for days keeps no more of them


class Traits:
    """A model with what follows from it. Compared by identity, so that it may be the key of a cache."""

    def __init__(self, model: Model) -> None:
        self.model = model

    @cached_property
    def _rows(self) -> tuple[dict[Mixer, int], tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...]]:
        table: dict[Mixer, int] = {}

        def rows(layers: tuple[Layer, ...]) -> tuple[tuple[int, ...], ...]:
            return tuple(tuple(table.setdefault(m, len(table)) for m in layer.mixers) for layer in layers)

        return table, rows(self.model.layers), rows(self.model.drafts)

    @cached_property
    def mixers(self) -> tuple[Mixer, ...]:
        """The distinct ones, in order of appearance."""
        return tuple(self._rows[0])

    @property
    def rows(self) -> tuple[tuple[int, ...], ...]:
        """Per layer, the places of its mixers among the distinct ones."""
        return self._rows[1]

    @property
    def draft_rows(self) -> tuple[tuple[int, ...], ...]:
        return self._rows[2]

    @cached_property
    def positions(self) -> tuple[tuple[int, ...], ...]:
        """Per mixer, the layers that have it (not the drafts')."""
        places = range(len(self.mixers))
        return tuple(tuple(n for n, row in enumerate(self.rows) for j in row if j == i) for i in places)

    @cached_property
    def first_layers(self) -> tuple[int, ...]:
        """Per mixer; 0 where only drafts have it."""
        return tuple(layers[0] if layers else 0 for layers in self.positions)

    @cached_property
    def attention(self) -> tuple[Attention, ...]:
        """The distinct attention mixers of the model itself."""
        pairs = zip(self.mixers, self.positions, strict=True)
        return tuple(m for m, layers in pairs if layers and isinstance(m, Attention))

    @cached_property
    def kinds(self) -> frozenset[str]:
        """Of attention, drafts included."""
        return frozenset(m.kind for m in self.mixers if isinstance(m, Attention))

    @cached_property
    def has_state(self) -> bool:
        pairs = zip(self.mixers, self.positions, strict=True)
        return any(layers and isinstance(m, State) for m, layers in pairs)

    @cached_property
    def recurrent_layers(self) -> tuple[Layer, ...]:
        """One of each kind."""
        recurrent = [layer for layer in self.model.layers if any(isinstance(mixer, State) for mixer in layer.mixers)]
        return tuple({(layer.block, layer.mixers): layer for layer in recurrent}.values())

    @cached_property
    def has_eight_bit_inputs(self) -> bool:
        """Whether the inputs of some projection are quantised to 8 bits."""
        modules = (module for block in self.blocks for module in block.modules if isinstance(module, Linear))
        return any(module.scheme is not None and module.scheme.input_bits == 8 for module in modules)

    @cached_property
    def is_hybrid(self) -> bool:
        return self.has_state and bool(self.attention)

    @cached_property
    def is_moe(self) -> bool:
        return any(isinstance(module, Experts) for block in self.blocks for module in block.modules)

    @cached_property
    def is_mla(self) -> bool:
        return any(m.kind == "mla" for m in self.attention)

    @cached_property
    def caps_rotary_tables(self) -> bool:
        """Whether a rotary table is as long as the context that is served."""
        return any(m.rope is not None and m.rope.capped for m in self.attention)

    @cached_property
    def topk(self) -> int:
        """Sparse latent attention: what the indexer keeps; layers without one use the choice of another."""
        return max((m.indexer.top_k for m in self.attention if m.kind == "mla" and m.indexer), default=0)

    @cached_property
    def chunk(self) -> int:
        """Of chunked-local attention, wherever it is."""
        return max((m.chunk for m in self.attention), default=0)

    @cached_property
    def head_sizes(self) -> tuple[int, ...]:
        return tuple(sorted({m.head_dim for m in self.attention if m.kind != "mla"}))

    @cached_property
    def max_head(self) -> int:
        return max(self.head_sizes, default=0)

    @cached_property
    def head_size(self) -> int:
        """model_config.get_head_size()"""
        if self.model.architecture.startswith(("Gemma4", "DiffusionGemma")) and self.head_sizes:
            return self.head_sizes[-1]  # Gemma4ModelArchConfigConvertor.get_head_size
        return head_size(self.attention[0]) if self.attention else 0

    @cached_property
    def num_kv_heads(self) -> int:
        return self.model.num_kv_heads or (self.attention[0].num_kv_heads if self.attention else 0)

    @cached_property
    def queries_per_kv(self) -> int:
        """0 with latent attention, and where there is none."""
        heads = self.num_kv_heads
        return 0 if self.is_mla or not heads else self.model.num_heads // heads

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """The distinct ones of the layers."""
        return tuple(dict.fromkeys(layer.block for layer in self.model.layers))

    @cached_property
    def blocked(self) -> tuple[Linear | Experts, ...]:
        """Block-quantised FP8 modules, distinct shapes, in the order in which they are built."""
        shapes: dict[tuple[object, ...], Linear | Experts] = {}
        for module in (module for block in self.blocks for module in block.modules):
            if isinstance(module, Linear | Experts) and _is_blocked(module):
                size = (
                    (module.in_features, module.parts, module.shard)
                    if isinstance(module, Linear)
                    else (module.hidden, module.intermediate)
                )
                shapes.setdefault((type(module), size), module)
        return tuple(shapes.values())

    @cached_property
    def tower_blocked(self) -> tuple[tuple[int, Linear], ...]:
        """The same of encoders, with their heads."""
        return tuple((tower.num_heads, m) for tower, m in self._tower_linears if _is_blocked(m))

    @cached_property
    def packed(self) -> tuple[tuple[int, Linear], ...]:
        """The same for packed integer weights, with the first layer that has each."""
        first: dict[Block, Layer] = {}
        for layer in self.model.layers:
            first.setdefault(layer.block, layer)
        shapes: dict[tuple[object, ...], tuple[int, Linear]] = {}
        for layer in first.values():
            for module in layer.block.modules:
                if isinstance(module, Linear) and module.scheme is not None and _is_packed(module.scheme):
                    shapes.setdefault((module.in_features, module.parts, module.shard), (layer.index, module))
        return tuple(shapes.values())

    @cached_property
    def tower_packed(self) -> tuple[tuple[Tower, Linear], ...]:
        return tuple((t, m) for t, m in self._tower_linears if m.scheme is not None and _is_packed(m.scheme))

    @cached_property
    def expert_counts(self) -> tuple[int, ...]:
        """How many experts the layers have, the drafts' among them: each number once."""
        layers = (*self.model.layers, *self.model.drafts)
        blocks = dict.fromkeys(layer.block for layer in layers)
        counts = (module.count for block in blocks for module in block.modules if isinstance(module, Experts))
        return tuple(dict.fromkeys(counts))

    @cached_property
    def packed_experts(self) -> tuple[Experts, ...]:
        experts = (module for block in self.blocks for module in block.modules if isinstance(module, Experts))
        return tuple(dict.fromkeys(m for m in experts if m.scheme and m.scheme.format == "pack-quantized"))

    @property
    def _tower_linears(self) -> Iterator[tuple[Tower, Linear]]:
        for tower in self.model.towers:
            for _, block in tower.blocks:
                yield from ((tower, module) for module in block.modules if isinstance(module, Linear))


@lru_cache(maxsize=256)
def traits_of(model: Model) -> Traits:
    """The same object for the same model: the cache on which all others rest."""
    return Traits(model)


@lru_cache(maxsize=64)
def with_drafts(traits: Traits, draft: Traits, *, after: bool) -> Traits:
    """The model with another one's layers as its drafts; `after`: they are numbered on from its own (EAGLE)."""
    first = len(traits.model.layers) if after else 0
    layers = tuple(replace(layer, index=first + layer.index) for layer in draft.model.layers)
    return traits_of(replace(traits.model, drafts=layers))


def _is_blocked(linear: Linear | Experts) -> bool:
    scheme = linear.scheme
    return (
        scheme is not None
        and scheme.strategy == "block"
        and all(scheme.block)
        and scheme.method in ("fp8", "compressed-tensors")
    )


def _is_packed(scheme: Scheme) -> bool:
    """Integer weights that a mixed-precision kernel unpacks. GPTQ with zero points has kernels of its own."""
    return scheme.format == "pack-quantized" or scheme.method == "awq" or (scheme.method == "gptq" and scheme.symmetric)


def head_size(attention: Attention, rope: int = 0) -> int:
    """MLA caches the compressed latent and the rotary key; DeepSeek-V4 one head."""
    if attention.kind != "mla":
        return attention.head_dim
    return (
        attention.kv_lora_rank + (rope or attention.qk_rope_head_dim) if attention.kv_lora_rank else attention.head_dim
    )
