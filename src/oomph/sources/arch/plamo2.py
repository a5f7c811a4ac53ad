"""PLaMo 2: a Mamba layer of its own kind between attention layers. vLLM: models/plamo2.py (until 0.25)."""

from __future__ import annotations

from oomph.ir.model import Attention, Mixer, Module, Param, State
from oomph.sources.arch.base import Builder, Site, Skeleton, rope_of
from oomph.sources.config import Config


def build(b: Builder) -> Skeleton:
    t = b.text
    t.fill(hidden_size_per_head=128, mamba_d_state=64, mamba_d_conv=4, mamba_step=2, mamba_chunk_size=256)
    hidden, width = t.integer("hidden_size"), t.integer("hidden_size_per_head")
    heads, kv = t.integer("num_attention_heads"), t.integer("num_key_value_heads", default=4)
    attention = Attention("full", heads, kv, width, width, rope=rope_of(t, width))
    state, wide = t.integer("mamba_num_heads", default=64), t.integer("mamba_num_heads", default=64) * width
    recurrent = State(
        "mamba2",
        conv_kernel=t.integer("mamba_d_conv"),
        intermediate=wide,
        state_size=t.integer("mamba_d_state"),
        num_heads=state,
        head_dim=width,
        chunk_size=t.integer("mamba_chunk_size"),
    )
    count, step = t.integer("num_hidden_layers", high=10_000), t.integer("mamba_step", low=2)
    layers = []
    for index in range(count):
        # plamo2.py:101 is_mamba
        is_recurrent = index != count - 1 if count <= step // 2 else index % step != step // 2
        s = b.site(f"model.layers.layers.{index}")
        mixer: Mixer = recurrent if is_recurrent else attention
        modules = _mamba(s, t, recurrent) if is_recurrent else _attention(s, hidden, attention)
        modules += s.gated_mlp(hidden, t.integer("intermediate_size"))
        names = ("pre_mixer_norm", "post_mixer_norm", "pre_mlp_norm", "post_mlp_norm")
        modules += [s.norm(name, hidden) for name in names]
        layers.append(b.layer(index, s.prefix, [mixer], modules))
    root = b.head(t.integer("vocab_size"), hidden, tied=t.flag("tie_word_embeddings", default=True), everywhere=True)
    return Skeleton(tuple(layers), root)


def _attention(s: Site, hidden: int, a: Attention) -> list[Module]:
    width, dtype = a.head_dim, s.b.dtype
    return [
        s.qkv(hidden, a.num_heads, a.num_kv_heads, width, at="mixer"),
        s.row("mixer.o_proj", hidden, a.num_heads * width, "attention"),
        *(
            Param(f"mixer.{name}.weight", (count, width), dtype, "norm", shard_dim=0, heads=count)
            for name, count in (("q_norm", a.num_heads), ("k_norm", a.num_kv_heads))
        ),
    ]


def _mamba(s: Site, t: Config, m: State) -> list[Module]:
    hidden, rank, at = t.integer("hidden_size"), max(64, t.integer("hidden_size") // 16), "mixer"
    vectors = (("A_log", "F32"), ("D", ""), ("dt_bias", ""))
    return [
        s.column(f"{at}.conv1d", m.intermediate, m.conv_kernel, "linear_attn", quantised=False),
        s.linear(
            f"{at}.in_proj",
            [(f"{at}.gate", m.intermediate), (f"{at}.x", m.intermediate)],
            hidden,
            "column",
            "linear_attn",
        ),
        s.row(f"{at}.bcdt_proj", rank + 2 * m.state_size, m.intermediate, "linear_attn"),
        s.column(f"{at}.dt_proj", m.num_heads, rank, "linear_attn"),
        *(
            Param(f"{at}.{name}", (m.num_heads,), s.b.dtype, "linear_attn", shard_dim=0, created_dtype=dtype)
            for name, dtype in vectors
        ),
        s.row(f"{at}.out_proj", hidden, m.intermediate, "linear_attn"),
        s.norm(f"{at}.dt_norm", rank),
        s.norm(f"{at}.B_norm", m.state_size),
        s.norm(f"{at}.C_norm", m.state_size),
    ]
