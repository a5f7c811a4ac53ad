"""PLaMo 3: norms before and after attention and MLP, windows on most layers. vLLM: models/plamo3.py (0.32.0)."""

from __future__ import annotations

from msgspec.structs import replace

from oomph.ir.model import Attention, Module, Rope
from oomph.sources.arch.base import Builder, Skeleton, heads_of, rope_of
from oomph.sources.arch.decoder import ALL_STAGES, Names, Style, decoder_root, layer_kinds

STYLE = Style(everywhere=ALL_STAGES, every=8, names=Names(embed="embed_tokens"))
_NORMS = ("pre_mixer_norm", "post_mixer_norm", "pre_mlp_norm", "post_mlp_norm")


def build(builder: Builder) -> Skeleton:
    text = builder.text
    text.fill(sliding_window=text.integer("window_size", default=2048), tie_word_embeddings=True)
    hidden = text.integer("hidden_size")
    heads, kv, width = heads_of(text)
    windows = text.items("interleaved_sliding_window")
    layers = []
    for index, kind in enumerate(layer_kinds(text, STYLE)):
        site = builder.site(f"model.layers.layers.{index}")
        slides = kind == "sliding_attention"
        listed = windows[index] if index < len(windows) else None
        window = int(listed) if isinstance(listed, int) else text.integer("sliding_window") if slides else 0
        attention = Attention(
            "sliding_window" if window else "full", heads, kv, width, width, window=window,
            rope=_rope(builder, kind, width),
        )  # fmt: skip
        modules: list[Module] = [
            site.qkv(hidden, heads, kv, width, at="mixer"),
            site.row("mixer.o_proj", hidden, heads * width, "attention"),
            site.norm("mixer.q_norm", width),
            site.norm("mixer.k_norm", width),
            *site.gated_mlp(hidden, text.integer("intermediate_size")),
            *(site.norm(name, hidden) for name in _NORMS),
        ]
        layers.append(builder.layer(index, site.prefix, [attention], modules))
    return Skeleton(tuple(layers), decoder_root(builder, STYLE))


def _rope(builder: Builder, kind: str, width: int) -> Rope:
    """A base of its own for windows; no more rows than the context (plamo3.py:186)."""
    text = builder.text
    table = text.table("rope_parameters", "rope_scaling")
    own = table.get(kind)
    if isinstance(own, dict):
        rope = rope_of(text, width, params=own)
    elif kind == "sliding_attention":
        base = text.number("rope_local_theta", default=10000.0)
        rope = rope_of(text, width, params={"rope_type": "default", "rope_theta": base})
    else:
        rope = rope_of(text, width)
    return replace(rope, capped=True)
