"""Mamba 1 and Mamba 2 mixers, as the hybrids carry them.

vLLM: layers/mamba/mamba_mixer.py, mamba_mixer2.py. The checkpoint has one in_proj and one conv1d; vLLM splits them by
what they produce, so that each rank gets its heads and, where there is one group, all of that group.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from oomph.errors import ConfigError
from oomph.ir.model import Linear, Module, Param, Part, State
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


def state_dtype(t: Config, *names: str) -> str:
    return {"float32": "F32", "bfloat16": "BF16", "float16": "F16"}.get(t.text(*names), "")


def mamba2_parts(m: Mamba2, at: str) -> tuple[list[Part], list[Part]]:
    """What in_proj and conv1d produce: gate, x, B, C and dt; x, B and C."""
    group = m.groups * m.state
    conv = [
        Part(f"{at}.x", m.intermediate, stored=False),
        Part(f"{at}.B", group, m.groups, stored=False),
        Part(f"{at}.C", group, m.groups, stored=False),
    ]
    return [Part(f"{at}.gate", m.intermediate, stored=False), *conv, Part(f"{at}.dt", m.heads, stored=False)], conv


def mamba2_modules(s: Site, m: Mamba2, at: str) -> list[Module]:
    dtype = s.b.dtype
    inputs, conv = mamba2_parts(m, at)
    width = m.intermediate + 2 * m.groups * m.state

    def whole(name: str, out: int, parts: list[Part], k: int, bias: bool, quantised: bool) -> Linear:
        scheme = s.b.scheme([f"{s.prefix}.{name}"]) if quantised else None
        stored = Part(name, out, created=False)
        # mamba_mixer2.py:313 (0.21.0): groups that do not divide are repeated, and all parts are one layer
        return Linear(
            name,
            (stored, *parts),
            k,
            "column",
            "linear_attn",
            dtype,
            bias,
            scheme,
            quantisable=quantised,
            apart_by=m.groups,
        )

    modules: list[Module] = [
        whole(f"{at}.conv1d", width, conv, m.kernel, m.conv_bias, False),
        whole(f"{at}.in_proj", m.intermediate + width + m.heads, inputs, m.hidden, m.proj_bias, True),
        # the view that the kernels read: register_buffer("conv_weights")
        Linear(
            f"{at}.conv_weights",
            tuple(replace(p, only=_SEEN_TWICE) for p in conv),
            m.kernel,
            "column",
            "linear_attn",
            dtype,
            alias=True,
        ),
        Param(f"{at}.A_log", (m.heads,), dtype, "linear_attn", shard_dim=0, created_dtype="F32"),
        Param(f"{at}.D", (m.heads,), dtype, "linear_attn", shard_dim=0),
        Param(f"{at}.dt_bias", (m.heads,), dtype, "linear_attn", shard_dim=0),
        s.row(f"{at}.out_proj", m.hidden, m.intermediate, "linear_attn", bias=m.proj_bias),
    ]
    if m.norm:
        modules.append(Param(f"{at}.norm.weight", (m.intermediate,), dtype, "linear_attn", shard_dim=0))
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


def mamba1_modules(s: Site, m: Mamba1, at: str) -> list[Module]:
    dtype, inner = s.b.dtype, m.intermediate
    pair = [(f"{at}.hidden", inner), (f"{at}.gate", inner)]
    parts = (Part(f"{at}.in_proj", 2 * inner, created=False), *(Part(n, w, stored=False) for n, w in pair))
    modules: list[Module] = [
        Param(f"{at}.conv1d.weight", (inner, 1, m.kernel), dtype, "linear_attn", shard_dim=0),
        *([Param(f"{at}.conv1d.bias", (inner,), dtype, "linear_attn", shard_dim=0)] if m.conv_bias else []),
        # mamba_mixer.py knows no quantisation
        Linear(f"{at}.in_proj", parts, m.hidden, "column", "linear_attn", dtype, m.proj_bias, quantisable=False),
        s.row(f"{at}.x_proj", m.dt_rank + 2 * m.state, inner, "linear_attn", quantised=False),
        s.column(f"{at}.dt_proj", inner, m.dt_rank, "linear_attn", bias=True, quantised=False),
        Param(f"{at}.A_log", (inner, m.state), dtype, "linear_attn", shard_dim=0, created_dtype="F32"),
        Param(f"{at}.D", (inner,), dtype, "linear_attn", shard_dim=0),
        s.row(f"{at}.out_proj", m.hidden, inner, "linear_attn", bias=m.proj_bias, quantised=False),
    ]
    if m.norms:
        widths = (("dt", m.dt_rank), ("b", m.state), ("c", m.state))
        modules += [Param(f"{at}.{n}_layernorm.weight", (w,), dtype, "linear_attn") for n, w in widths]
    return modules


def granite_mamba2(t: Config, intermediate: int, *, norm: bool = True) -> Mamba2:
    """The `mamba_*` keys that Bamba, Granite 4 and Falcon-H1 share; mamba_d_head may be "auto"."""
    t.fill(mamba_n_heads=128, mamba_n_groups=1, mamba_d_state=256, mamba_d_conv=4, mamba_chunk_size=256)
    heads = t.integer("mamba_n_heads")
    auto = t.get("mamba_d_head", default="auto") == "auto"
    return Mamba2(
        t.integer("hidden_size"),
        intermediate,
        t.integer("mamba_d_state"),
        t.integer("mamba_d_conv"),
        t.integer("mamba_n_groups"),
        heads,
        intermediate // heads if auto else t.integer("mamba_d_head"),
        conv_bias=t.flag("mamba_conv_bias", default=True),
        proj_bias=t.flag("mamba_proj_bias"),
        norm=norm,
        chunk=t.integer("mamba_chunk_size"),
    )
