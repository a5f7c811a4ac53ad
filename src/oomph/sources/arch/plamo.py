"""PLaMo 2: a Mamba layer of its own kind between attention layers. vLLM: models/plamo2.py (until 0.25).

Behind it: PLaMo 3.
"""

from msgspec.structs import replace

from oomph.ir import Attention, Module, Param, Rope, State
from oomph.sources.arch.base import Builder, Site, Skeleton, heads_of, rope_of
from oomph.sources.arch.decoder import ALL_STAGES, Names, Style, attention, decoder_root, layer_kinds
from oomph.sources.config import Config


def build(builder: Builder) -> Skeleton:
    text = builder.text
    text.fill(hidden_size_per_head=128, mamba_d_state=64, mamba_d_conv=4, mamba_step=2, mamba_chunk_size=256)
    hidden, width = text.integer("hidden_size"), text.integer("hidden_size_per_head")
    heads, kv = text.integer("num_attention_heads"), text.integer("num_key_value_heads", default=4)
    # plamo2.py:593: no more rows than the context
    whole = Attention("full", heads, kv, width, width, rope=replace(rope_of(text, width), capped=True))
    state, wide = text.integer("mamba_num_heads", default=64), text.integer("mamba_num_heads", default=64) * width
    recurrent = State(
        "mamba2",
        conv_kernel=text.integer("mamba_d_conv"),
        intermediate=wide,
        state_size=text.integer("mamba_d_state"),
        num_heads=state,
        head_dim=width,
        chunk_size=text.integer("mamba_chunk_size"),
    )
    count, step = text.integer("num_hidden_layers", high=10_000), text.integer("mamba_step", low=2)
    layers = []
    for index, site in enumerate(builder.sites("model.layers.layers", count)):
        # plamo2.py:101 is_mamba
        is_recurrent = index != count - 1 if count <= step // 2 else index % step != step // 2
        modules = [
            *(_mamba(site, text, recurrent) if is_recurrent else _attention(site, hidden, whole)),
            *site.gated_mlp(hidden, text.integer("intermediate_size")),
            *(site.norm(name, hidden) for name in _NORMS),
        ]
        layers.append(site.layer([recurrent if is_recurrent else whole], modules))
    root = builder.head(
        text.integer("vocab_size"), hidden, tied=text.flag("tie_word_embeddings", default=True), everywhere=True
    )
    return Skeleton(tuple(layers), root)


def _attention(site: Site, hidden: int, attention: Attention) -> list[Module]:
    width, dtype = attention.head_dim, site.b.dtype
    return [
        site.qkv(hidden, attention.num_heads, attention.num_kv_heads, width, at="mixer"),
        site.row("mixer.o_proj", hidden, attention.num_heads * width, "attention"),
        *(
            Param(f"mixer.{name}.weight", (count, width), dtype, "norm", shard_dim=0, heads=count)
            for name, count in (("q_norm", attention.num_heads), ("k_norm", attention.num_kv_heads))
        ),
    ]


def _mamba(site: Site, text: Config, state: State) -> list[Module]:
    hidden, rank, at = text.integer("hidden_size"), max(64, text.integer("hidden_size") // 16), "mixer"
    vectors = (("A_log", "F32"), ("D", ""), ("dt_bias", ""))
    return [
        site.column(f"{at}.conv1d", state.intermediate, state.conv_kernel, "linear_attn", quantised=False),
        site.linear(
            f"{at}.in_proj",
            [(f"{at}.gate", state.intermediate), (f"{at}.x", state.intermediate)],
            hidden,
            "column",
            "linear_attn",
        ),
        site.row(f"{at}.bcdt_proj", rank + 2 * state.state_size, state.intermediate, "linear_attn"),
        site.column(f"{at}.dt_proj", state.num_heads, rank, "linear_attn"),
        *(
            Param(f"{at}.{name}", (state.num_heads,), site.b.dtype, "linear_attn", shard_dim=0, created_dtype=dtype)
            for name, dtype in vectors
        ),
        site.row(f"{at}.out_proj", hidden, state.intermediate, "linear_attn"),
        site.norm(f"{at}.dt_norm", rank),
        site.norm(f"{at}.B_norm", state.state_size),
        site.norm(f"{at}.C_norm", state.state_size),
    ]


# PLaMo 3: norms before and after attention and MLP, windows on most layers. vLLM: models/plamo3.py (0.32.0).

STYLE = Style(everywhere=ALL_STAGES, every=8, names=Names(embed="embed_tokens"))
_NORMS = ("pre_mixer_norm", "post_mixer_norm", "pre_mlp_norm", "post_mlp_norm")


def build_plamo3(builder: Builder) -> Skeleton:
    text = builder.text
    text.fill(sliding_window=text.integer("window_size", default=2048), tie_word_embeddings=True)
    hidden = text.integer("hidden_size")
    heads, kv, width = heads_of(text)
    windows = text.items("interleaved_sliding_window")
    layers = []
    for site, kind in zip(builder.sites("model.layers.layers"), layer_kinds(text, STYLE)):
        slides = kind == "sliding_attention"
        listed = windows[site.index] if site.index < len(windows) else None
        window = int(listed) if isinstance(listed, int) else text.integer("sliding_window") if slides else 0
        modules: list[Module] = [
            site.qkv(hidden, heads, kv, width, at="mixer"),
            site.row("mixer.o_proj", hidden, heads * width, "attention"),
            site.norm("mixer.q_norm", width),
            site.norm("mixer.k_norm", width),
            *site.gated_mlp(hidden, text.integer("intermediate_size")),
            *(site.norm(name, hidden) for name in _NORMS),
        ]
        layers.append(site.layer([attention(text, window, _rope(builder, kind, width))], modules))
    return Skeleton(tuple(layers), decoder_root(builder, STYLE))


def _rope(builder: Builder, kind: str, width: int) -> Rope:
    """A base of its own for windows; no more rows than the context (plamo3.py:186)."""
    text = builder.text
    own = text.table("rope_parameters", "rope_scaling").get(kind)
    if isinstance(own, dict):
        rope = rope_of(text, width, params=own)
    elif kind == "sliding_attention":
        base = text.number("rope_local_theta", default=10000.0)
        rope = rope_of(text, width, params={"rope_type": "default", "rope_theta": base})
    else:
        rope = rope_of(text, width)
    return replace(rope, capped=True)
