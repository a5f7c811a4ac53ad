"""Mamba 1 and Mamba 2 mixers, as the hybrids carry them.

vLLM: layers/mamba/mamba_mixer.py, mamba_mixer2.py. The checkpoint has one in_proj and one conv1d; vLLM splits them by
what they produce, so that each rank gets its heads and, where there is one group, all of that group.
"""

from msgspec import Struct
from msgspec.structs import replace

from oomph.errors import ConfigError
from oomph.ir import Linear, Module, Param, Part, State
from oomph.sources.arch.base import Site
from oomph.sources.config import Config

_SEEN_TWICE = "convolutions as a buffer"


class Mamba2(Struct, frozen=True):
    hidden: int
    intermediate: int
    state: int
    kernel: int
    groups: int
    heads: int
    head_dim: int
    conv_bias: bool = True
    proj_bias: bool = False
    norm: bool = True
    chunk: int = 0
    dtype: str = ""  # the recurrent state's, where the config fixes it

    def __post_init__(self) -> None:
        if self.heads % self.groups or self.heads * self.head_dim != self.intermediate:
            raise ConfigError(
                f"a Mamba-2 layer with {self.heads} heads of {self.head_dim} and {self.groups} groups "
                f"does not make {self.intermediate} channels"
            )

    @property
    def mixer(self) -> State:
        return State(
            "mamba2",
            conv_kernel=self.kernel,
            intermediate=self.intermediate,
            state_size=self.state,
            num_heads=self.heads,
            head_dim=self.head_dim,
            groups=self.groups,
            chunk_size=self.chunk,
            dtype=self.dtype,
        )


def state_dtype(text: Config, *names: str) -> str:
    return {"float32": "F32", "bfloat16": "BF16", "float16": "F16"}.get(text.text(*names), "")


def mamba2_parts(mamba2: Mamba2, at: str) -> tuple[list[Part], list[Part]]:
    """What in_proj and conv1d produce: gate, x, B, C and dt; x, B and C."""
    group = mamba2.groups * mamba2.state
    conv = [
        Part(f"{at}.x", mamba2.intermediate, stored=False),
        Part(f"{at}.B", group, mamba2.groups, stored=False),
        Part(f"{at}.C", group, mamba2.groups, stored=False),
    ]
    return [
        Part(f"{at}.gate", mamba2.intermediate, stored=False),
        *conv,
        Part(f"{at}.dt", mamba2.heads, stored=False),
    ], conv


def mamba2_modules(site: Site, mamba2: Mamba2, at: str) -> list[Module]:
    dtype = site.b.dtype
    inputs, conv = mamba2_parts(mamba2, at)
    width = mamba2.intermediate + 2 * mamba2.groups * mamba2.state

    def whole(name: str, out: int, parts: list[Part], k: int, bias: bool, quantised: bool) -> Linear:
        scheme = site.b.scheme([f"{site.prefix}.{name}"]) if quantised else None
        stored = Part(name, out, created=False)
        # mamba_mixer2.py:313 (0.21.0): groups that do not divide are repeated, and all parts are one layer
        return Linear(
            name,
            parts=(stored, *parts),
            in_features=k,
            shard="column",
            role="linear_attn",
            dtype=dtype,
            bias=bias,
            scheme=scheme,
            quantisable=quantised,
            apart_by=mamba2.groups,
        )

    modules: list[Module] = [
        whole(f"{at}.conv1d", width, conv, mamba2.kernel, mamba2.conv_bias, False),
        whole(
            f"{at}.in_proj", mamba2.intermediate + width + mamba2.heads, inputs, mamba2.hidden, mamba2.proj_bias, True
        ),
        # the view that the kernels read: register_buffer("conv_weights")
        Linear(
            f"{at}.conv_weights",
            tuple(replace(p, only=_SEEN_TWICE) for p in conv),
            mamba2.kernel,
            "column",
            "linear_attn",
            dtype,
            alias=True,
            quantisable=False,
        ),
        Param(f"{at}.A_log", (mamba2.heads,), dtype, "linear_attn", shard_dim=0, created_dtype="F32"),
        Param(f"{at}.D", (mamba2.heads,), dtype, "linear_attn", shard_dim=0),
        Param(f"{at}.dt_bias", (mamba2.heads,), dtype, "linear_attn", shard_dim=0),
        site.row(f"{at}.out_proj", mamba2.hidden, mamba2.intermediate, "linear_attn", bias=mamba2.proj_bias),
    ]
    if mamba2.norm:
        modules.append(Param(f"{at}.norm.weight", (mamba2.intermediate,), dtype, "linear_attn", shard_dim=0))
    return modules


class Mamba1(Struct, frozen=True):
    hidden: int
    intermediate: int
    state: int
    kernel: int
    dt_rank: int
    conv_bias: bool = True
    proj_bias: bool = False
    norms: bool = False  # Jamba: over dt, B and C

    @property
    def mixer(self) -> State:
        return State("mamba1", conv_kernel=self.kernel, intermediate=self.intermediate, state_size=self.state)


def mamba1_modules(site: Site, mamba1: Mamba1, at: str) -> list[Module]:
    dtype, inner = site.b.dtype, mamba1.intermediate
    pair = [(f"{at}.hidden", inner), (f"{at}.gate", inner)]
    parts = (Part(f"{at}.in_proj", 2 * inner, created=False), *(Part(n, w, stored=False) for n, w in pair))
    modules: list[Module] = [
        Param(f"{at}.conv1d.weight", (inner, 1, mamba1.kernel), dtype, "linear_attn", shard_dim=0),
        *([Param(f"{at}.conv1d.bias", (inner,), dtype, "linear_attn", shard_dim=0)] if mamba1.conv_bias else []),
        # mamba_mixer.py knows no quantisation
        Linear(
            f"{at}.in_proj",
            parts,
            mamba1.hidden,
            "column",
            "linear_attn",
            dtype,
            bias=mamba1.proj_bias,
            quantisable=False,
        ),
        site.row(f"{at}.x_proj", mamba1.dt_rank + 2 * mamba1.state, inner, "linear_attn", quantised=False),
        site.column(f"{at}.dt_proj", inner, mamba1.dt_rank, "linear_attn", bias=True, quantised=False),
        Param(f"{at}.A_log", (inner, mamba1.state), dtype, "linear_attn", shard_dim=0, created_dtype="F32"),
        Param(f"{at}.D", (inner,), dtype, "linear_attn", shard_dim=0),
        site.row(f"{at}.out_proj", mamba1.hidden, inner, "linear_attn", bias=mamba1.proj_bias, quantised=False),
    ]
    if mamba1.norms:
        widths = (("dt", mamba1.dt_rank), ("b", mamba1.state), ("c", mamba1.state))
        modules += [Param(f"{at}.{n}_layernorm.weight", (w,), dtype, "linear_attn") for n, w in widths]
    return modules


def granite_mamba2(text: Config, intermediate: int, *, norm: bool = True) -> Mamba2:
    """The `mamba_*` keys that Bamba, Granite 4 and Falcon-H1 share; mamba_d_head may be "auto"."""
    text.fill(mamba_n_heads=128, mamba_n_groups=1, mamba_d_state=256, mamba_d_conv=4, mamba_chunk_size=256)
    heads = text.integer("mamba_n_heads")
    auto = text.get("mamba_d_head", default="auto") == "auto"
    return Mamba2(
        text.integer("hidden_size"),
        intermediate,
        text.integer("mamba_d_state"),
        text.integer("mamba_d_conv"),
        text.integer("mamba_n_groups"),
        heads,
        head_dim=intermediate // heads if auto else text.integer("mamba_d_head"),
        conv_bias=text.flag("mamba_conv_bias", default=True),
        proj_bias=text.flag("mamba_proj_bias"),
        norm=norm,
        chunk=text.integer("mamba_chunk_size"),
    )
