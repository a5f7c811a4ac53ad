"""What every family file builds with: a `Builder` for the whole model, a `Site` for one place in it.

A family file is one function `build(b: Builder) -> Skeleton`. It lists the modules of each layer in the order in which
the network creates them, and each layer's cache geometry. Names are the checkpoint's.
"""

from collections.abc import Callable, Sequence, Set
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from oomph.errors import ConfigError
from oomph.ir import (
    Block,
    Experts,
    Layer,
    Linear,
    Mixer,
    Modality,
    Module,
    Param,
    Part,
    Role,
    Routing,
    Scheme,
    Shard,
    Tower,
    Vocab,
)
from oomph.sources.arch.rope import rope_of as rope_of
from oomph.sources.config import Config
from oomph.sources.quant.fields import Kind, Quant


class Skeleton(Struct, frozen=True):
    """What a family file returns; sources/build.py makes the Model of it."""

    layers: tuple[Layer, ...]
    root: Block
    drafts: tuple[Layer, ...] = ()
    draft_root: Block = Block()
    towers: tuple[Tower, ...] = ()
    modalities: tuple[Modality, ...] = ()
    max_position: int = 0
    params: tuple[tuple[str, int | float | str], ...] = ()
    pooling: bool = False
    warnings: tuple[str, ...] = ()


SOFTMAX = Routing()
# Linear.whole_by: deepseek_v2.py DeepseekV2MLP, nemotron_h.py, llama4.py (disable_tp=is_sequence_parallel)
SHARED_WHOLE = "shared experts whole in sequence parallelism"


class Builder:
    def __init__(
        self,
        config: Config,
        text: Config,
        quant: Quant | None,
        dtype: str,
        names: Set[str] | None,
        told: dict[str, bool] | None = None,
    ) -> None:
        self.config = config  # the whole config.json
        self.text = text  # the language model's part of it (the same object where there is no such part)
        self.quant = quant
        self.dtype = dtype
        self.names = names  # the tensor names of the headers; None = there are no headers
        # Where the headers answered otherwise than the template would have: filled in where there are headers, asked
        # where there are none (the catalogue keeps it in place of them).
        self.told = {} if told is None else told
        self.scale_dtype = ""  # dtype of FP8 block scales in this family's checkpoints; "" = F32
        self.shared_whole_by = ""  # Linear.whole_by of this family's shared experts
        self._blocks: dict[Block, Block] = {}
        self._latest: dict[object, Block] = {}  # of layers that are alike but for their quantisation

    @property
    def architecture(self) -> str:
        return next((a for a in self.config.items("architectures") if isinstance(a, str)), "")

    def site(self, prefix: str, index: int = -1) -> "Site":
        return Site(self, prefix, index)

    def sites(self, prefix: str, count: int | None = None, first: int = 0) -> "list[Site]":
        """The places of layers below a prefix, by default those of all layers of the model."""
        many = self.text.integer("num_hidden_layers", high=10_000) if count is None else count
        return [Site(self, f"{prefix}.{index}", index) for index in range(first, first + many)]

    def language_root(self, *candidates: str) -> tuple[str, str, str]:
        """The prefix of the language model inside a larger one, of what stands beside it, and the name of its head:
        transformers 4.52 and later write everything but the head below "model"."""
        prefix = self.root(*candidates)
        return (prefix, "model.", "lm_head") if prefix.startswith("model.") else (prefix, "", "language_model.lm_head")

    def block(self, modules: Sequence[Module]) -> Block:
        """Equal blocks become one object."""
        block = Block(tuple(modules))
        return self._blocks.setdefault(block, block)

    def scheme(self, names: Sequence[str], kind: Kind = "linear", *, encoder: bool = False) -> Scheme | None:
        """The scheme of a (fused) module: quantised only if every part is. `encoder`: no GPTQ writer quantises one."""
        if self.quant is None:
            return None
        schemes = [self.quant.scheme(name, kind) for name in names]
        if any(s is None for s in schemes):
            return None
        scheme = schemes[0]
        assert scheme is not None
        if scheme.method in ("awq", "gptq"):
            # vLLM reads from the safetensors headers which layers an AWQ or GPTQ checkpoint really quantised
            # (auto_awq.py, gptq.py: maybe_update_config)
            suffix = ".0.down_proj.qweight" if kind == "experts" else ".qweight"
            default = not (encoder and scheme.method == "gptq")
            if not any(self.stores(n + suffix, default) for n in names):
                return None
        if scheme.strategy == "block" and self.scale_dtype and not scheme.scale_dtype:
            return replace(scheme, scale_dtype=self.scale_dtype)
        return scheme

    def stores(self, name: str, default: bool) -> bool:
        """Whether the checkpoint has this tensor (a name that ends in a dot: any below it); `default` where there
        are no headers to ask."""
        if self.names is None:
            return self.told.get(name, default)
        there = any(n.startswith(name) for n in self.names) if name.endswith(".") else name in self.names
        if there != default:
            self.told[name] = there
        return there

    def root(self, *candidates: str) -> str:
        """Which of the names that writers have given the same place this checkpoint uses: as the headers or the
        quantisation's lists have it, else the first."""
        lists = self.quant.facts.ignore if self.quant else ()
        listed = next((c for c in candidates if any(n.startswith(f"{c}.") for n in lists)), candidates[0])
        return next((c for c in candidates if self.stores(f"{c}.", c == listed)), listed)

    def layer_like(
        self, kind: object, index: int, prefix: str, mixers: Sequence[Mixer], modules: "Callable[[Site], list[Module]]"
    ) -> Layer:
        """A layer whose modules follow from its kind and its quantisation: they are listed where no layer of the kind
        before it is quantised in the same way."""
        site, block = self.site(prefix), self._latest.get(kind)
        if block is None or not site.is_quantised_as(block):
            block = self._latest[kind] = self.block(modules(site))
        return Layer(index, prefix, tuple(mixers), block)

    def head(
        self,
        rows: int,
        dim: int,
        *,
        embed: str = "model.embed_tokens",
        norm: str = "model.norm.weight",
        head: str = "lm_head",
        tied: bool = False,
        bias: bool = False,
        extra: Sequence[Module] = (),
        everywhere: bool = False,
    ) -> Block:
        """The usual root: embedding, final norm, output head. `everywhere`: on all stages."""
        has_head = self.stores(f"{head}.weight", not tied) or self.stores(f"{head}.qweight", False)
        return self.block(
            [
                Vocab(embed, rows, dim, self.dtype, "embed", everywhere=everywhere),
                *extra,
                *([Param(norm, (dim,), self.dtype, "norm", everywhere=everywhere)] if norm else []),
                Vocab(
                    head,
                    rows,
                    dim,
                    self.dtype,
                    "lm_head",
                    bias=bias,
                    tied=tied,
                    stored=has_head,
                    scheme=self.scheme([head], "lm_head"),
                    everywhere=everywhere,
                ),
            ]
        )


class Site:
    """One place in the network: a prefix, and modules made under it. Names are relative to the prefix."""

    def __init__(self, builder: Builder, prefix: str, index: int = -1) -> None:
        self.b = builder
        self.prefix = prefix
        self.index = index  # of the layer that stands here; -1 = there is none

    def layer(self, mixers: Sequence[Mixer], modules: Sequence[Module]) -> Layer:
        return Layer(self.index, self.prefix, tuple(mixers), self.b.block(modules))

    def is_quantised_as(self, block: Block) -> bool:
        """Whether what stands here has the schemes of the block of another layer, whose names differ in its number."""
        if self.b.quant is None or not self.b.quant.tells_layers_apart:
            return True
        for module in block.modules:
            if isinstance(module, Experts):
                scheme = self.b.scheme(self._expert_names(module.name, module.layout, module.projections), "experts")
            elif isinstance(module, Linear) and module.quantisable:
                named = [part for part in module.parts if not part.created] or module.parts  # one tensor for them all
                names = [f"{self.prefix}.{part.name}".lstrip(".") for part in named]
                scheme = self.b.scheme(names, encoder=module.role == "multimodal")
            else:
                continue
            if scheme != module.scheme:
                return False
        return True

    def _expert_names(self, at: str, layout: str, projections: tuple[str, ...]) -> list[str]:
        whole = layout == "stacked" or self.b.quant is None
        return [f"{self.prefix}.{at}"] if whole else _expert_names(self.b, f"{self.prefix}.{at}", projections)

    def linear(
        self,
        name: str,
        parts: Sequence[Part | tuple[str, int] | tuple[str, int, int]],
        in_features: int,
        shard: Shard,
        role: Role,
        *,
        bias: bool = False,
        quantised: bool = True,
    ) -> Linear:
        """`parts`: (checkpoint name, output features[, heads]) of each linear layer fused into this one."""
        units = tuple(p if isinstance(p, Part) else Part(*p) for p in parts)
        names = [f"{self.prefix}.{p.name}".lstrip(".") for p in units]
        scheme = self.b.scheme(names, encoder=role == "multimodal") if quantised else None
        whole = self.b.shared_whole_by if role == "shared_experts" and shard != "replicated" else ""
        return Linear(
            name,
            parts=units,
            in_features=in_features,
            shard=shard,
            role=role,
            dtype=self.b.dtype,
            bias=bias,
            scheme=scheme,
            quantisable=quantised,
            whole_by=whole,
        )

    def column(
        self, name: str, out: int, in_features: int, role: Role, *, bias: bool = False, quantised: bool = True
    ) -> Linear:
        return self.linear(name, [(name, out)], in_features, "column", role, bias=bias, quantised=quantised)

    def row(
        self, name: str, out: int, in_features: int, role: Role, *, bias: bool = False, quantised: bool = True
    ) -> Linear:
        return self.linear(name, [(name, out)], in_features, "row", role, bias=bias, quantised=quantised)

    def replicated(
        self, name: str, out: int, in_features: int, role: Role, *, bias: bool = False, quantised: bool = True
    ) -> Linear:
        return self.linear(name, [(name, out)], in_features, "replicated", role, bias=bias, quantised=quantised)

    def qkv(
        self,
        hidden: int,
        heads: int,
        kv_heads: int,
        head_dim: int,
        *,
        at: str = "self_attn",
        head_dim_v: int = 0,
        bias: bool = False,
        names: tuple[str, str, str] = ("q_proj", "k_proj", "v_proj"),
        role: Role = "attention",
    ) -> Linear:
        query, k, value = names
        parts = [
            (f"{at}.{query}", heads * head_dim, heads),
            (f"{at}.{k}", kv_heads * head_dim, kv_heads),
            (f"{at}.{value}", kv_heads * (head_dim_v or head_dim), kv_heads),
        ]
        return self.linear(f"{at}.qkv_proj", parts, hidden, "column", role, bias=bias)

    def packed_qkv(self, name: str, hidden: int, heads: int, role: Role, *, bias: bool = False) -> Linear:
        """One tensor in the checkpoint that engines build as q, k and v (QKVParallelLinear)."""
        parts = (Part(f"{name}.{q}", hidden, heads, stored=False) for q in "qkv")
        whole = Part(name, 3 * hidden, created=False)
        scheme = self.b.scheme([f"{self.prefix}.{name}"], encoder=role == "multimodal")
        return Linear(
            name,
            parts=(whole, *parts),
            in_features=hidden,
            shard="column",
            role=role,
            dtype=self.b.dtype,
            bias=bias,
            scheme=scheme,
        )

    def gated_mlp(
        self,
        hidden: int,
        intermediate: int,
        *,
        at: str = "mlp",
        bias: bool = False,
        role: Role = "mlp",
        names: tuple[str, str, str] = ("gate_proj", "up_proj", "down_proj"),
    ) -> list[Module]:
        gate, up, down = names
        return [
            self.linear(
                f"{at}.gate_up_proj",
                [(f"{at}.{gate}", intermediate), (f"{at}.{up}", intermediate)],
                hidden,
                "column",
                role,
                bias=bias,
            ),
            self.row(f"{at}.{down}", hidden, intermediate, role, bias=bias),
        ]

    def norm(self, name: str, dim: int, *, dtype: str = "") -> Param:
        return Param(f"{name}.weight", (dim,), dtype or self.b.dtype, "norm")

    def tensor(self, name: str, *shape: int) -> Param:
        """A bare tensor of an encoder or a projector."""
        return Param(name, shape, self.b.dtype, "multimodal")

    def convolution(self, name: str, out: int, *kernel: int) -> list[Module]:
        """`kernel`: the shape of its weight behind the outputs."""
        return [self.tensor(f"{name}.weight", out, *kernel), self.tensor(f"{name}.bias", out)]

    def tower(
        self,
        name: str,
        modality: Literal["vision", "audio"],
        blocks: Sequence[tuple[int, Sequence[Module]]],
        layers: int = 0,
        hidden: int = 0,
        inner: int = 0,
        heads: int = 0,
        alone: Literal["", "attention", "tower"] = "",
    ) -> Tower:
        """What stands here as an encoder or a projector; `blocks`: (how many, modules) pairs."""
        shared = tuple((times, self.b.block(modules)) for times, modules in blocks)
        return Tower(
            name,
            modality=modality,
            prefix=self.prefix,
            blocks=shared,
            layers=layers,
            hidden=hidden,
            intermediate=inner,
            num_heads=heads,
            alone=alone,
        )

    def experts(
        self,
        count: int,
        hidden: int,
        intermediate: int,
        top_k: int,
        *,
        at: str = "mlp.experts",
        gated: bool = True,
        bias: bool = False,
        layout: Literal["each", "stacked"] = "each",
        projections: tuple[str, ...] = ("gate_proj", "up_proj", "down_proj"),
        activation: str = "silu",
        routing: Routing = SOFTMAX,
    ) -> Experts:
        if layout == "each" and not gated and len(projections) == 3:
            projections = projections[1:]
        names = self._expert_names(at, layout, projections)
        return Experts(
            f"{at}",
            count=count,
            hidden=hidden,
            intermediate=intermediate,
            top_k=top_k,
            dtype=self.b.dtype,
            gated=gated,
            bias=bias,
            scheme=self.b.scheme(names, "experts"),
            layout=layout,
            projections=projections,
            activation=activation,
            routing=routing,
        )


def sigmoid_routing(text: Config) -> Routing:
    """Sigmoid scores, a correction per expert, the best groups first: DeepSeek-V3's way, which many have taken over."""
    whole = text.flag("norm_topk_prob", default=True)
    return Routing("sigmoid", whole, text.integer("n_group", default=1, low=0), biased=True)


def _expert_names(builder: Builder, at: str, projections: tuple[str, ...]) -> list[str]:
    """Ignore lists name experts one by one or the whole: ask for the first expert's projections."""
    if builder.quant is not None and builder.quant.facts.method in ("auto-round", "awq", "gptq", "modelopt_mixed"):
        return [at]
    return [f"{at}.0.{p}" for p in projections]


def heads_of(text: Config) -> tuple[int, int, int]:
    """(attention heads, KV heads, head width) as almost every config gives them."""
    heads = text.integer("num_attention_heads")
    kv = text.integer("num_key_value_heads", default=heads)
    hidden = text.integer("hidden_size")
    head_dim = text.integer("head_dim", default=0, low=0)
    if not head_dim:
        if hidden % heads:
            raise ConfigError(f"{text.where}: hidden_size {hidden} is not divisible by {heads} attention heads")
        head_dim = hidden // heads
    if heads % kv:
        raise ConfigError(f"{text.where}: {heads} attention heads cannot share {kv} key-value heads")
    return heads, kv, head_dim
