"""Decoders of the GPT-2 time with one or few KV heads or ALiBi: StarCoder 1 (GPTBigCode) and MPT.

vLLM: models/gpt_bigcode.py (until 0.24.0; transformers' own code since), mpt.py (until 0.28.0).
"""

from __future__ import annotations

from msgspec.structs import replace

from oomph.ir.model import Attention, Linear, Module, Param, Part, Vocab
from oomph.sources.arch.base import Builder, Site, Skeleton
from oomph.sources.arch.decoder import norm
from oomph.sources.config import Config


def build(b: Builder) -> Skeleton:
    if not b.text.dtype(b.config.dtype()):
        b.dtype = "F32"
    return _mpt(b) if b.architecture.lower() == "mptforcausallm" else _bigcode(b)


def _qkv(s: Site, name: str, hidden: int, heads: int, kv: int, bias: bool) -> Linear:
    """One tensor that holds q, k and v."""
    width = hidden // heads
    sizes = ((f"{name}.q", hidden, heads), (f"{name}.k", kv * width, kv), (f"{name}.v", kv * width, kv))
    parts = (Part(name, hidden + 2 * kv * width, created=False), *(Part(*p, stored=False) for p in sizes))
    scheme = s.b.scheme([f"{s.prefix}.{name}"])
    return Linear(name, parts, hidden, "column", "attention", s.b.dtype, bias, scheme)


def _head(b: Builder, rows: int, hidden: int) -> Vocab:
    tied = b.text.flag("tie_word_embeddings", default=True)
    stored = b.stores("lm_head.weight", not tied)
    return Vocab("lm_head", rows, hidden, b.dtype, "lm_head", tied=tied, stored=stored, everywhere=True)


def _bigcode(b: Builder) -> Skeleton:
    t = b.text
    t.fill(vocab_size=50257, n_positions=1024, n_embd=768, n_layer=12, n_head=12)
    hidden, heads = t.integer("n_embd"), t.integer("n_head")
    t.fill(hidden_size=hidden, num_attention_heads=heads)
    kv = 1 if t.flag("multi_query", default=True) else heads
    inner, rows = t.integer("n_inner", default=4 * hidden), t.integer("vocab_size")
    attention = Attention("full", heads, kv, hidden // heads, hidden // heads)
    layers = []
    for i in range(t.integer("n_layer", high=10_000)):
        s = b.site(f"transformer.h.{i}")
        modules: list[Module] = [
            *norm(s, "ln_1", hidden, True),
            _qkv(s, "attn.c_attn", hidden, heads, kv, True),
            s.row("attn.c_proj", hidden, hidden, "attention", bias=True),
            *norm(s, "ln_2", hidden, True),
            *_either(s.column("mlp.c_fc", inner, hidden, "mlp", bias=True)),
            *_either(s.row("mlp.c_proj", hidden, inner, "mlp", bias=True)),
        ]
        layers.append(b.layer(i, s.prefix, [attention], modules))
    positions, mask = t.integer("n_positions"), "transformer.bias"
    root = b.block(
        [
            Vocab("transformer.wte", rows, hidden, b.dtype, "embed", everywhere=True),
            Param("transformer.wpe.weight", (positions, hidden), b.dtype, "embed", everywhere=True),
            # the causal mask of transformers' class
            Param(mask, (positions, positions), "BOOL", "other", stored=False, created_dtype="BOOL", only=_BORROWED),
            *(
                Param(f"transformer.ln_f.{part}", (hidden,), b.dtype, "norm", everywhere=True)
                for part in ("weight", "bias")
            ),
            _head(b, rows, hidden),
        ]
    )
    return Skeleton(tuple(layers), root, max_position=t.integer("n_positions"))


_BORROWED = "GPTBigCodeForCausalLM by transformers"


def _either(m: Linear) -> list[Module]:
    """transformers' class names no tensor-parallel split of its MLP: every rank then has all of it."""
    own, name = "GPTBigCodeForCausalLM by vLLM", m.parts[0].name
    whole = Part(name, m.out_features, stored=False, only=_BORROWED)
    return [
        replace(m, parts=(replace(m.parts[0], only=own),)),
        replace(m, name=f"{m.name} whole", parts=(whole,), shard="replicated"),
    ]


def _mpt(b: Builder) -> Skeleton:
    """ALiBi; `no_bias` takes the biases of norms too."""
    t = b.text
    t.fill(vocab_size=50368, d_model=2048, n_heads=16, n_layers=24, expansion_ratio=4, max_seq_len=2048)
    hidden, heads, bias = t.integer("d_model"), t.integer("n_heads"), not t.flag("no_bias", default=True)
    t.fill(hidden_size=hidden, num_attention_heads=heads)
    kv, own = _mpt_heads(t, heads)
    inner, rows = t.integer("expansion_ratio") * hidden, t.integer("vocab_size")
    attention = Attention("full", heads, kv, hidden // heads, hidden // heads)
    layers = []
    for i in range(t.integer("n_layers", high=10_000)):
        s = b.site(f"transformer.blocks.{i}")
        modules: list[Module] = [
            *norm(s, "norm_1", hidden, bias),
            _qkv(s, "attn.Wqkv", hidden, heads, kv, bias),
            *(norm(s, "attn.q_ln", hidden, bias) + norm(s, "attn.k_ln", hidden, bias) if own else []),
            s.row("attn.out_proj", hidden, hidden, "attention", bias=bias),
            *norm(s, "norm_2", hidden, bias),
            s.column("ffn.up_proj", inner, hidden, "mlp", bias=bias),
            s.row("ffn.down_proj", hidden, inner, "mlp", bias=bias),
        ]
        layers.append(b.layer(i, s.prefix, [attention], modules))
    parts = ("weight", "bias")[: 1 + bias]
    root = b.block(
        [
            Vocab("transformer.wte", rows, hidden, b.dtype, "embed", everywhere=True),
            *(Param(f"transformer.norm_f.{p}", (hidden,), b.dtype, "norm", everywhere=True) for p in parts),
            _head(b, rows, hidden),
        ]
    )
    return Skeleton(tuple(layers), root, max_position=t.integer("max_seq_len"))


def _mpt_heads(t: Config, heads: int) -> tuple[int, bool]:
    """KV heads, and whether q and k have norms."""
    attention = t.sub("attn_config")
    return attention.integer("kv_n_heads", default=heads), attention.flag("qk_ln")
