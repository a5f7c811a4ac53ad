"""Encoders with rotary positions: ModernBERT and NomicBERT. vLLM: models/modernbert.py, bert_with_rope.py."""

from __future__ import annotations

from msgspec.structs import replace

from oomph.ir.model import Attention, Block, Module, Param, Part, Rope, Vocab
from oomph.sources.arch.base import Builder, Site, Skeleton
from oomph.sources.arch.rope import rope_of
from oomph.sources.config import Config


def build(b: Builder) -> Skeleton:
    if not b.text.dtype(b.config.dtype()):
        b.dtype = "F32"
    return _nomic(b) if b.architecture == "NomicBertModel" else _modern(b)


def _norm(b: Builder, name: str, dim: int, bias: bool) -> list[Module]:
    return [Param(f"{name}.{part}", (dim,), b.dtype, "norm") for part in ("weight", "bias")[: 1 + bias]]


# --- ModernBERT ----------------------------------------------------------------------------------------------------


def _modern(b: Builder) -> Skeleton:
    t = b.text
    t.fill(vocab_size=50368, hidden_size=768, intermediate_size=1152, num_hidden_layers=22, num_attention_heads=12)
    t.fill(max_position_embeddings=8192, global_attn_every_n_layers=3, local_attention=128)
    hidden, heads = t.integer("hidden_size"), t.integer("num_attention_heads")
    width = hidden // heads
    classifies = b.architecture != "ModernBertModel"
    at = "model." if classifies else ""
    every, window = t.integer("global_attn_every_n_layers"), t.integer("local_attention") // 2
    ropes = {w: _modern_rope(t, width, w) for w in (0, window)}
    layers = []
    for i in range(t.integer("num_hidden_layers", high=10_000)):
        own = window if i % every else 0
        # the cache is none: a window only bounds what a token looks at
        attention = Attention("encoder_only", heads, heads, width, width, window=own, rope=ropes[own])
        layers.append(b.layer(i, f"{at}layers.{i}", [attention], _modern_layer(b.site(f"{at}layers.{i}"), t, i, heads)))
    return Skeleton(tuple(layers), _modern_root(b, at, hidden, classifies), pooling=True)


def _modern_rope(t: Config, width: int, window: int) -> Rope:
    local, everywhere = t.number("local_rope_theta", default=1e4), t.number("global_rope_theta", default=1.6e5)
    params = {"rope_type": "default", "rope_theta": local if window else everywhere}
    return rope_of(t, width, params=params, dtype="F16")


def _modern_layer(s: Site, t: Config, index: int, heads: int) -> list[Module]:
    hidden, inner = t.integer("hidden_size"), t.integer("intermediate_size")
    bias, wide, named = t.flag("norm_bias"), t.flag("mlp_bias"), "mlp.Wi"
    qkv = s.packed_qkv("attn.Wqkv", hidden, heads, "attention", bias=t.flag("attention_bias"))
    whole = s.replicated(named, 2 * inner, hidden, "mlp", bias=wide, quantised=False)
    halves = tuple(Part(f"{named}.{n}", inner, stored=False, only="ModernBERT splits Wi") for n in ("input", "gate"))
    modules: list[Module] = [
        replace(qkv, scheme=None, quantisable=False),
        s.row("attn.Wo", hidden, hidden, "attention", bias=t.flag("attention_bias"), quantised=False),
        replace(whole, parts=(Part(named, 2 * inner, only="ModernBERT has Wi whole"),)),
        replace(whole, name=f"{named} split", parts=halves, shard="column"),
        s.row("mlp.Wo", hidden, inner, "mlp", bias=wide, quantised=False),
        *_norm(s.b, "mlp_norm", hidden, bias),
    ]
    return modules if index == 0 else [*modules, *_norm(s.b, "attn_norm", hidden, bias)]


def _modern_root(b: Builder, at: str, hidden: int, classifies: bool) -> Block:
    t = b.text
    bias = t.flag("norm_bias")
    modules: list[Module] = [
        Vocab(f"{at}embeddings.tok_embeddings", t.integer("vocab_size"), hidden, b.dtype, "embed"),
        *_norm(b, f"{at}embeddings.norm", hidden, bias),
        *_norm(b, f"{at}final_norm", hidden, bias),
    ]
    if classifies:
        labels = t.integer("num_labels", default=len(t.table("id2label")) or 2)
        shapes: list[tuple[str, tuple[int, ...]]] = [
            ("head.dense.weight", (hidden, hidden)),
            ("head.norm.weight", (hidden,)),
        ]
        shapes += [("head.dense.bias", (hidden,))] if t.flag("classifier_bias") else []
        shapes += [("head.norm.bias", (hidden,))] if bias else []
        shapes += [("classifier.weight", (labels, hidden)), ("classifier.bias", (labels,))]
        modules += [Param(name, shape, b.dtype, "lm_head", created_dtype="F32") for name, shape in shapes]
    return b.block(modules)


# --- NomicBERT -----------------------------------------------------------------------------------------------------


def _nomic(b: Builder) -> Skeleton:
    t = b.text
    t.fill(vocab_size=30528, n_embd=768, n_inner=3072, n_layer=12, n_head=12, type_vocab_size=2)
    hidden, heads = t.integer("n_embd"), t.integer("n_head")
    inner, bias = t.integer("n_inner"), t.flag("qkv_proj_bias")
    t.fill(hidden_size=hidden, num_attention_heads=heads)
    # config.py NomicBertModelConfig (0.21.0): without overrides no longer than it was trained for
    positions = t.integer("max_trained_positions", default=2048)
    base = {"rope_type": "default", "rope_theta": t.number("rotary_emb_base", default=1e3)}
    rope = rope_of(t, hidden // heads, params=base, positions=positions)
    attention = Attention("encoder_only", heads, heads, hidden // heads, hidden // heads, rope=rope)
    layers = []
    for i in range(t.integer("n_layer", high=10_000)):
        s = b.site(f"encoder.layers.{i}")
        qkv = s.packed_qkv("attn.Wqkv", hidden, heads, "attention", bias=bias)
        modules: list[Module] = [
            qkv,
            s.row("attn.out_proj", hidden, hidden, "attention", bias=bias),
            *_nomic_mlp(s, hidden, inner, bias, t.text("activation_function", default="swiglu") == "swiglu"),
            *_norm(b, "norm1", hidden, True),
            *_norm(b, "norm2", hidden, True),
        ]
        layers.append(b.layer(i, s.prefix, [attention], modules))
    root: list[Module] = [
        Vocab("embeddings.word_embeddings", t.integer("vocab_size"), hidden, b.dtype, "embed"),
        Vocab("embeddings.token_type_embeddings", t.integer("type_vocab_size"), hidden, b.dtype, "embed"),
        *_norm(b, "emb_ln", hidden, True),
    ]
    longest = min(positions, t.integer("n_positions", "max_position_embeddings", default=8192))
    params = (("derived_max_len", longest), ("max_len_key", "max_trained_positions"))
    return Skeleton(tuple(layers), b.block(root), pooling=True, max_position=longest, params=params)


def _nomic_mlp(s: Site, hidden: int, inner: int, bias: bool, gated: bool) -> list[Module]:
    down = s.row("mlp.fc2", hidden, inner, "mlp", bias=bias)
    if not gated:
        return [s.column("mlp.fc1", inner, hidden, "mlp", bias=bias), down]
    pair = [("mlp.fc11", inner), ("mlp.fc12", inner)]
    return [s.linear("mlp.gate_up_proj", pair, hidden, "column", "mlp", bias=bias), down]
