"""Decoders of the GPT-2 time with one or few KV heads or ALiBi: StarCoder 1 (GPTBigCode) and MPT.

vLLM: models/gpt_bigcode.py (until 0.24.0; transformers' own code since), mpt.py (until 0.28.0).
"""

from msgspec.structs import replace

from oomph.ir import Attention, Linear, Module, Param, Part, Vocab
from oomph.sources.arch.base import Builder, Site, Skeleton
from oomph.sources.arch.decoder import norm
from oomph.sources.config import Config


def build(builder: Builder) -> Skeleton:
    if not builder.text.dtype(builder.config.dtype()):
        builder.dtype = "F32"
    return _mpt(builder) if builder.architecture.lower() == "mptforcausallm" else _bigcode(builder)


def _qkv(site: Site, name: str, hidden: int, heads: int, kv: int, bias: bool) -> Linear:
    """One tensor that holds q, k and v."""
    width = hidden // heads
    sizes = ((f"{name}.q", hidden, heads), (f"{name}.k", kv * width, kv), (f"{name}.v", kv * width, kv))
    parts = (Part(name, hidden + 2 * kv * width, created=False), *(Part(*p, stored=False) for p in sizes))
    scheme = site.b.scheme([f"{site.prefix}.{name}"])
    return Linear(
        name,
        parts=parts,
        in_features=hidden,
        shard="column",
        role="attention",
        dtype=site.b.dtype,
        bias=bias,
        scheme=scheme,
    )


def _head(builder: Builder, rows: int, hidden: int) -> Vocab:
    tied = builder.text.flag("tie_word_embeddings", default=True)
    stored = builder.stores("lm_head.weight", not tied)
    return Vocab("lm_head", rows, hidden, builder.dtype, "lm_head", tied=tied, stored=stored, everywhere=True)


def _bigcode(builder: Builder) -> Skeleton:
    text = builder.text
    text.fill(vocab_size=50257, n_positions=1024, n_embd=768, n_layer=12, n_head=12)
    hidden, heads = text.integer("n_embd"), text.integer("n_head")
    text.fill(hidden_size=hidden, num_attention_heads=heads)
    kv = 1 if text.flag("multi_query", default=True) else heads
    inner, rows = text.integer("n_inner", default=4 * hidden), text.integer("vocab_size")
    attention = Attention("full", heads, kv, hidden // heads, hidden // heads)
    layers = tuple(
        site.layer(
            [attention],
            [
                *norm(site, "ln_1", hidden, True),
                _qkv(site, "attn.c_attn", hidden, heads, kv, True),
                site.row("attn.c_proj", hidden, hidden, "attention", bias=True),
                *norm(site, "ln_2", hidden, True),
                *_either(site.column("mlp.c_fc", inner, hidden, "mlp", bias=True)),
                *_either(site.row("mlp.c_proj", hidden, inner, "mlp", bias=True)),
            ],
        )
        for site in builder.sites("transformer.h", text.integer("n_layer", high=10_000))
    )
    positions, mask = text.integer("n_positions"), "transformer.bias"
    root = builder.block(
        [
            Vocab("transformer.wte", rows, hidden, builder.dtype, "embed", everywhere=True),
            Param("transformer.wpe.weight", (positions, hidden), builder.dtype, "embed", everywhere=True),
            # the causal mask of transformers' class
            Param(mask, (positions, positions), "BOOL", "other", stored=False, created_dtype="BOOL", only=_BORROWED),
            *(
                Param(f"transformer.ln_f.{part}", (hidden,), builder.dtype, "norm", everywhere=True)
                for part in ("weight", "bias")
            ),
            _head(builder, rows, hidden),
        ]
    )
    return Skeleton(layers, root, max_position=text.integer("n_positions"))


_BORROWED = "GPTBigCodeForCausalLM by transformers"


def _either(linear: Linear) -> list[Module]:
    """transformers' class names no tensor-parallel split of its MLP: every rank then has all of it."""
    own, name = "GPTBigCodeForCausalLM by vLLM", linear.parts[0].name
    whole = Part(name, linear.out_features, stored=False, only=_BORROWED)
    return [
        replace(linear, parts=(replace(linear.parts[0], only=own),)),
        replace(linear, name=f"{linear.name} whole", parts=(whole,), shard="replicated"),
    ]


def _mpt(builder: Builder) -> Skeleton:
    """ALiBi; `no_bias` takes the biases of norms too."""
    text = builder.text
    text.fill(vocab_size=50368, d_model=2048, n_heads=16, n_layers=24, expansion_ratio=4, max_seq_len=2048)
    hidden, heads, bias = text.integer("d_model"), text.integer("n_heads"), not text.flag("no_bias", default=True)
    text.fill(hidden_size=hidden, num_attention_heads=heads)
    kv, own = _mpt_heads(text, heads)
    inner, rows = text.integer("expansion_ratio") * hidden, text.integer("vocab_size")
    attention = Attention("full", heads, kv, hidden // heads, hidden // heads)
    layers = tuple(
        site.layer(
            [attention],
            [
                *norm(site, "norm_1", hidden, bias),
                _qkv(site, "attn.Wqkv", hidden, heads, kv, bias),
                *(norm(site, "attn.q_ln", hidden, bias) + norm(site, "attn.k_ln", hidden, bias) if own else []),
                site.row("attn.out_proj", hidden, hidden, "attention", bias=bias),
                *norm(site, "norm_2", hidden, bias),
                site.column("ffn.up_proj", inner, hidden, "mlp", bias=bias),
                site.row("ffn.down_proj", hidden, inner, "mlp", bias=bias),
            ],
        )
        for site in builder.sites("transformer.blocks", text.integer("n_layers", high=10_000))
    )
    parts = ("weight", "bias")[: 1 + bias]
    root = builder.block(
        [
            Vocab("transformer.wte", rows, hidden, builder.dtype, "embed", everywhere=True),
            *(Param(f"transformer.norm_f.{p}", (hidden,), builder.dtype, "norm", everywhere=True) for p in parts),
            _head(builder, rows, hidden),
        ]
    )
    return Skeleton(layers, root, max_position=text.integer("max_seq_len"))


def _mpt_heads(text: Config, heads: int) -> tuple[int, bool]:
    """KV heads, and whether q and k have norms."""
    attention = text.sub("attn_config")
    return attention.integer("kv_n_heads", default=heads), attention.flag("qk_ln")
