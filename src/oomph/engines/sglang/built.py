"""A Model as SGLang's classes build it: what differs from the shared description, replaced."""

from __future__ import annotations

from functools import cache

from msgspec.structs import replace

from oomph.engines.sglang.model_shape import ModelShape
from oomph.facts.sglang.facts import Facts
from oomph.ir import Attention, Block, Experts, Layer, Linear, Mixer, Model, Module, Param, Rope, Tower, Vocab


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
    return replace(
        model,
        layers=tuple(map(layer_of, model.layers)),
        drafts=tuple(map(layer_of, model.drafts)),
        root=_block(model.root, model, facts),
        towers=towers,
    )


class _Ropes:
    """Rotary tables are float32, with a row for each position of the config (layers/rotary_embedding/base.py)."""

    def __init__(self, model: Model, facts: Facts) -> None:
        self.length = int(model.param("derived_max_len") or 0)
        ropes = [m.rope for layer in model.layers for m in layer.mixers if isinstance(m, Attention) and m.rope]
        self.by_kind = len({rope.theta for rope in ropes}) > 1
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
            self._seen[rope] = replace(
                rope, positions=rows, dim=rope.dim * self.twice, dtype="F32", short=0, only="", narrow=0
            )
        return self._seen[rope]


def _block(block: Block, model: Model, facts: Facts) -> Block:
    return Block(tuple(_module(module, model, facts) for module in block.modules))


def _module(module: Module, model: Model, facts: Facts) -> Module:
    rules, name = facts.weights, model.architecture
    if isinstance(module, Vocab):
        if module.role == "embed" and name in rules.whole_embeddings:
            return Param(f"{module.name}.weight", (module.rows, module.dim), module.dtype, "embed", everywhere=True)
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


def _tower_block(block: Block, model: Model, facts: Facts) -> Block:
    return Block(tuple(_tower_module(module, model.architecture, facts) for module in block.modules))


def _tower_module(module: Module, architecture: str, facts: Facts) -> Module:
    rules = facts.weights
    if isinstance(module, Param):
        if module.name.endswith("cos_sin_cache"):  # float32, as the language model's
            return replace(module, created_dtype="F32")
        if architecture in rules.split_positions and module.name.endswith(_POSITIONS):
            return replace(module, shard_dim=0)
        return module
    inside = module.name.startswith(("encoder.", "conformer.", "layers."))
    whole = isinstance(module, Linear) and module.shard == "replicated" and architecture in rules.split_encoders
    if not (inside and whole):
        return module
    return replace(module, shard="row" if any(name in module.name for name in _ROWS) else "column")


_POSITIONS = ("pos_embed.weight", "position_embedding.weight")
# row-parallel by their names (models/gemma4_vision.py, gemma4_audio.py); all other linear layers are column-parallel
_ROWS = ("o_proj", "down_proj", "attention.post", ".post.", "ffw_layer_2", "linear_end")
