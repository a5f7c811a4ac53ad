"""The decoders people still test with: GPT-2, OPT, GPT-J, GPT-NeoX (Pythia), Falcon, BLOOM and ChatGLM.

vLLM: models/gpt2.py, opt.py, gpt_j.py, gpt_neox.py, falcon.py, bloom.py, chatglm.py. What is outside the layers is
built on every stage.
"""

from __future__ import annotations

from msgspec.structs import replace

from oomph.ir.model import Attention, Block, Layer, Module, Param, Vocab
from oomph.sources.arch.base import Builder, Site, Skeleton, rope_of
from oomph.sources.arch.decoder import (
    ALL_STAGES,
    Names,
    Style,
    backed,
    decoder_layers,
    decoder_root,
    dims,
    fill,
    frequencies,
    norm,
    packed,
)

_NEOX = Style(
    mlp_bias=True,
    gated=False,
    norm_bias=True,
    own_head_dim=False,
    everywhere=ALL_STAGES,
    names=Names(
        attn="attention",
        packed_qkv="query_key_value",
        out="dense",
        gate_up_down=("", "dense_h_to_4h", "dense_4h_to_h"),
        embed="embed_in",
        norm="final_layer_norm",
    ),
    defaults=(
        ("hidden_size", 6144),
        ("intermediate_size", 24576),
        ("attention_bias", True),
        ("rotary_pct", 0.25),
        ("max_position_embeddings", 2048),
    ),
)
# Falcon's and Bloom's code descends from Megatron's
_MEGATRON_NAMES = Names(
    attn="self_attention",
    packed_qkv="query_key_value",
    out="dense",
    gate_up_down=("", "dense_h_to_4h", "dense_4h_to_h"),
    layers="h",
    embed="word_embeddings",
    norm="ln_f",
)
_MEGATRON_ALIASES = (("n_embed", "hidden_size"), ("n_layer", "num_hidden_layers"), ("n_head", "num_attention_heads"))
_FALCON = Style(
    gated=False,
    norm_bias=True,
    own_head_dim=False,
    everywhere=ALL_STAGES,
    names=_MEGATRON_NAMES,
    defaults=(("tie_word_embeddings", True), ("max_position_embeddings", 2048), ("bias", False)),
    aliases=_MEGATRON_ALIASES,
)
_BLOOM = Style(
    qkv_bias=True,
    mlp_bias=True,
    gated=False,
    norm_bias=True,
    own_head_dim=False,
    everywhere=ALL_STAGES,
    names=_MEGATRON_NAMES,
    defaults=(("tie_word_embeddings", True), ("seq_length", 2048)),
    aliases=_MEGATRON_ALIASES,
)
_GPTJ = Style(
    qkv_bias=False,
    mlp_bias=True,
    gated=False,
    norm_bias=True,
    own_head_dim=False,
    everywhere=ALL_STAGES,
    norms=("ln_1",),
    names=Names(
        attn="attn", out="out_proj", gate_up_down=("", "fc_in", "fc_out"), layers="h", embed="wte", norm="ln_f"
    ),
    aliases=(
        ("n_embd", "hidden_size"),
        ("n_layer", "num_hidden_layers"),
        ("n_head", "num_attention_heads"),
        ("n_inner", "intermediate_size"),
        ("n_positions", "max_position_embeddings"),
    ),
)
_CHATGLM = Style(
    gated=True,
    own_head_dim=False,
    everywhere=ALL_STAGES,
    names=Names(
        attn="self_attention",
        packed_qkv="query_key_value",
        out="dense",
        gate_up_down=("gate", "up", "dense_4h_to_h"),
        packed_gate_up="dense_h_to_4h",
        embed="embedding.word_embeddings",
        norm="encoder.final_layernorm",
        layers="encoder.layers",
    ),
    defaults=(("partial_rotary_factor", 0.5), ("seq_length", 8192)),
    aliases=(
        ("num_layers", "num_hidden_layers"),
        ("ffn_hidden_size", "intermediate_size"),
        ("padded_vocab_size", "vocab_size"),
        ("add_bias_linear", "attention_bias"),
        ("add_bias_linear", "mlp_bias"),
        ("add_qkv_bias", "qkv_bias"),
    ),
)


def build(b: Builder) -> Skeleton:
    if not b.text.dtype(b.config.dtype()):
        b.dtype = "F32"  # these configs are older than torch_dtype
    if b.architecture == "GPTNeoXForCausalLM":
        return _neox(b)
    if b.architecture.startswith("ChatGLM"):
        return _chatglm(b)
    if b.architecture == "BloomForCausalLM":
        return _bloom(b)
    if b.architecture == "GPTJForCausalLM":
        return _gptj(b)
    if b.architecture == "GPT2LMHeadModel":
        return _gpt2(b)
    return _opt(b) if b.architecture == "OPTForCausalLM" else _falcon(b)


def _neox(b: Builder) -> Skeleton:
    fill(b, _NEOX)
    _, _, head_dim = dims(b.text, _NEOX)
    layers = decoder_layers(b, _NEOX, "gpt_neox", rope=backed(b, rope_of(b.text, head_dim)))
    root = decoder_root(b, _NEOX, "gpt_neox", "embed_out")
    return Skeleton(layers, b.block([*root.modules, *frequencies(b, layers)]))


def _bloom(b: Builder) -> Skeleton:
    """ALiBi instead of rotary tables, and a norm behind the embedding. Releases have no "transformer." prefix."""
    t = b.text
    fill(b, _BLOOM)
    hidden = t.integer("hidden_size")
    t.fill(intermediate_size=4 * hidden)
    prefix = "transformer" if b.stores("transformer.word_embeddings.weight", False) else ""
    root = decoder_root(b, _BLOOM, prefix)
    first = f"{prefix}.word_embeddings_layernorm".removeprefix(".")
    norms = [Param(f"{first}.{part}", (hidden,), b.dtype, "norm", everywhere=True) for part in ("weight", "bias")]
    return Skeleton(decoder_layers(b, _BLOOM, prefix, rope=lambda window: None), b.block([*root.modules, *norms]))


def _gptj(b: Builder) -> Skeleton:
    t = b.text
    fill(b, _GPTJ)
    t.fill(intermediate_size=4 * t.integer("hidden_size"), max_position_embeddings=2048)
    _, _, head_dim = dims(t, _GPTJ)
    share = t.integer("rotary_dim", default=64) / head_dim
    layers = decoder_layers(b, _GPTJ, "transformer", rope=rope_of(t, head_dim, params={"partial_rotary_factor": share}))
    return Skeleton(layers, decoder_root(b, _GPTJ, "transformer", head_bias=True))


def _chatglm(b: Builder) -> Skeleton:
    t = b.text
    fill(b, _CHATGLM)
    heads = t.integer("num_attention_heads")
    shared = t.integer("multi_query_group_num", default=heads) if t.flag("multi_query_attention") else heads
    t.fill(num_key_value_heads=shared)
    rope = rope_of(t, t.integer("hidden_size") // heads, positions=t.integer("seq_length"))
    table = Param("transformer.rotary_pos_emb.inv_freq", (rope.dim // 2,), b.dtype, "other", created=False)
    root = decoder_root(b, _CHATGLM, "transformer", "transformer.output_layer")
    return Skeleton(decoder_layers(b, _CHATGLM, "transformer", rope=rope), b.block([*root.modules, table]))


def _falcon(b: Builder) -> Skeleton:
    """falcon.py: K and V of a single head unless the new architecture says how many; one or two norms a layer."""
    t = b.text
    fill(b, _FALCON)
    heads, new = t.integer("num_attention_heads"), t.flag("new_decoder_architecture")
    if new:
        kv = t.integer("num_kv_heads", "n_head_kv", default=heads)
    else:
        kv = 1 if t.flag("multi_query", default=True) else heads
    inner = 4 * t.integer("hidden_size")
    t.fill(num_key_value_heads=kv, intermediate_size=inner, mlp_bias=t.flag("bias"))
    norms = ("input_layernorm",) if t.flag("parallel_attn", default=True) else _TWO
    if t.integer("num_ln_in_parallel_attn", default=2 if new else 1) == 2 and norms != _TWO:
        norms = ("ln_attn", "ln_mlp")
    style = replace(_FALCON, norms=norms)
    return Skeleton(decoder_layers(b, style, "transformer"), decoder_root(b, style, "transformer"))


_TWO = ("post_attention_layernorm", "input_layernorm")


def _opt(b: Builder) -> Skeleton:
    t = b.text
    t.fill(hidden_size=768, ffn_dim=3072, num_hidden_layers=12, num_attention_heads=12, vocab_size=50272)
    t.fill(max_position_embeddings=2048)
    hidden, heads, inner = t.integer("hidden_size"), t.integer("num_attention_heads"), t.integer("ffn_dim")
    bias = t.flag("enable_bias", default=True)
    attention = Attention("full", heads, heads, hidden // heads, hidden // heads)
    layers = []
    for i in range(t.integer("num_hidden_layers", high=10_000)):
        s = b.site(f"model.decoder.layers.{i}")
        modules: list[Module] = [
            s.qkv(hidden, heads, heads, hidden // heads, bias=bias),
            s.row("self_attn.out_proj", hidden, hidden, "attention", bias=bias),
            *norm(s, "self_attn_layer_norm", hidden, True),
            s.column("fc1", inner, hidden, "mlp", bias=bias),
            s.row("fc2", hidden, inner, "mlp", bias=bias),
            *norm(s, "final_layer_norm", hidden, True),
        ]
        layers.append(b.layer(i, s.prefix, [attention], modules))
    return Skeleton(tuple(layers), _opt_root(b, hidden))


def _opt_root(b: Builder, hidden: int) -> Block:
    """The table of positions has two rows more than it has positions; a narrower embedding is projected in and out."""
    t, at = b.text, "model.decoder"
    rows, width = t.integer("vocab_size"), t.integer("word_embed_proj_dim", default=hidden)
    modules: list[Module] = [
        Vocab(f"{at}.embed_tokens", rows, width, b.dtype, "embed", everywhere=True),
        _everywhere(b, f"{at}.embed_positions.weight", t.integer("max_position_embeddings") + 2, hidden),
    ]
    if width != hidden:
        modules.append(_everywhere(b, f"{at}.project_out.weight", width, hidden))
        modules.append(_everywhere(b, f"{at}.project_in.weight", hidden, width))
    if t.flag("do_layer_norm_before", default=True) and not t.flag("_remove_final_layer_norm"):
        for part in ("weight", "bias"):
            modules.append(Param(f"{at}.final_layer_norm.{part}", (hidden,), b.dtype, "norm", everywhere=True))
    tied = t.flag("tie_word_embeddings", default=True)
    stored = b.stores("lm_head.weight", not tied)
    return b.block(
        [*modules, Vocab("lm_head", rows, width, b.dtype, "lm_head", tied=tied, stored=stored, everywhere=True)]
    )


def _everywhere(b: Builder, name: str, *shape: int) -> Param:
    return Param(name, shape, b.dtype, "embed", everywhere=True)


def _gpt2(b: Builder) -> Skeleton:
    """openai-community/gpt2 stores no "transformer." prefix, but the causal masks of its layers."""
    t = b.text
    t.fill(n_embd=768, n_layer=12, n_head=12, n_positions=1024, vocab_size=50257)
    hidden, heads, positions = t.integer("n_embd"), t.integer("n_head"), t.integer("n_positions")
    t.fill(hidden_size=hidden, num_attention_heads=heads, num_hidden_layers=t.integer("n_layer", high=10_000))
    inner = t.integer("n_inner", default=4 * hidden)
    at = "transformer." if b.stores("transformer.wte.weight", False) else ""
    attention = Attention("full", heads, heads, hidden // heads, hidden // heads)
    layers = tuple(
        _gpt2_layer(b.site(f"{at}h.{i}"), i, attention, inner, positions)
        for i in range(t.integer("n_layer", high=10_000))
    )
    rows, tied = t.integer("vocab_size"), t.flag("tie_word_embeddings", default=True)
    stored = b.stores("lm_head.weight", not tied)
    root = b.block(
        [
            Vocab(f"{at}wte", rows, hidden, b.dtype, "embed", everywhere=True),
            _everywhere(b, f"{at}wpe.weight", positions, hidden),
            *(Param(f"{at}ln_f.{part}", (hidden,), b.dtype, "norm", everywhere=True) for part in ("weight", "bias")),
            Vocab("lm_head", rows, hidden, b.dtype, "lm_head", tied=tied, stored=stored, everywhere=True),
        ]
    )
    return Skeleton(layers, root, max_position=positions)


def _gpt2_layer(s: Site, index: int, attention: Attention, inner: int, positions: int) -> Layer:
    hidden, heads = s.b.text.integer("n_embd"), attention.num_heads
    parts = [(f"attn.{q}", hidden, heads) for q in "qkv"]
    modules: list[Module] = [
        *norm(s, "ln_1", hidden, True),
        packed(s, "attn.c_attn", parts, hidden, True),
        s.row("attn.c_proj", hidden, hidden, "attention", bias=True),
        Param("attn.bias", (1, 1, positions, positions), s.b.dtype, "attention", created=False),
        *norm(s, "ln_2", hidden, True),
        s.column("mlp.c_fc", inner, hidden, "mlp", bias=True),
        s.row("mlp.c_proj", hidden, inner, "mlp", bias=True),
    ]
    return s.b.layer(index, s.prefix, [attention], modules)
