"""The decoders people still test with: GPT-2, OPT, GPT-J, GPT-NeoX (Pythia), Falcon, BLOOM and ChatGLM.

vLLM: models/gpt2.py, opt.py, gpt_j.py, gpt_neox.py, falcon.py, bloom.py, chatglm.py. What is outside the layers is
built on every stage.
"""

from collections.abc import Callable

from msgspec.structs import replace

from oomph.ir import Attention, Block, Layer, Module, Param, Vocab
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
from oomph.sources.arch.pooling import float32_head, labels

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
    # transformers' BloomConfig has no length of its own: vLLM takes whatever --max-model-len says
    defaults=(("tie_word_embeddings", True),),
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


def build(builder: Builder, architecture: str = "") -> Skeleton:
    """`architecture`: the language model's own, inside a larger model."""
    if not builder.text.dtype(builder.config.dtype()):
        builder.dtype = "F32"  # these configs are older than torch_dtype
    return _BUILDERS[architecture or builder.architecture](builder)


def _neox(builder: Builder) -> Skeleton:
    fill(builder, _NEOX)
    _, _, head_dim = dims(builder.text, _NEOX)
    layers = decoder_layers(builder, _NEOX, "gpt_neox", rope=backed(builder, rope_of(builder.text, head_dim)))
    root = decoder_root(builder, _NEOX, "gpt_neox", "embed_out")
    return Skeleton(layers, builder.block([*root.modules, *frequencies(builder, layers)]))


def _bloom(builder: Builder) -> Skeleton:
    """ALiBi instead of rotary tables, and a norm behind the embedding. Releases have no "transformer." prefix."""
    text = builder.text
    fill(builder, _BLOOM)
    hidden = text.integer("hidden_size")
    text.fill(intermediate_size=4 * hidden)
    prefix = "transformer" if builder.stores("transformer.word_embeddings.weight", False) else ""
    root = decoder_root(builder, _BLOOM, prefix)
    first = f"{prefix}.word_embeddings_layernorm".removeprefix(".")
    norms = [Param(f"{first}.{part}", (hidden,), builder.dtype, "norm", everywhere=True) for part in ("weight", "bias")]
    return Skeleton(
        decoder_layers(builder, _BLOOM, prefix, rope=lambda window: None), builder.block([*root.modules, *norms])
    )


def _gptj(builder: Builder) -> Skeleton:
    text = builder.text
    fill(builder, _GPTJ)
    text.fill(intermediate_size=4 * text.integer("hidden_size"), max_position_embeddings=2048)
    _, _, head_dim = dims(text, _GPTJ)
    share = text.integer("rotary_dim", default=64) / head_dim
    layers = decoder_layers(
        builder, _GPTJ, "transformer", rope=rope_of(text, head_dim, params={"partial_rotary_factor": share})
    )
    return Skeleton(layers, decoder_root(builder, _GPTJ, "transformer", head_bias=True))


def _chatglm(builder: Builder) -> Skeleton:
    text = builder.text
    fill(builder, _CHATGLM)
    heads = text.integer("num_attention_heads")
    shared = text.integer("multi_query_group_num", default=heads) if text.flag("multi_query_attention") else heads
    text.fill(num_key_value_heads=shared)
    rope = rope_of(text, text.integer("hidden_size") // heads, positions=text.integer("seq_length"))
    table = Param("transformer.rotary_pos_emb.inv_freq", (rope.dim // 2,), builder.dtype, "other", created=False)
    root = decoder_root(builder, _CHATGLM, "transformer", "transformer.output_layer")
    return Skeleton(decoder_layers(builder, _CHATGLM, "transformer", rope=rope), builder.block([*root.modules, table]))


def _falcon(builder: Builder) -> Skeleton:
    """falcon.py: K and V of a single head unless the new architecture says how many; one or two norms a layer."""
    text = builder.text
    fill(builder, _FALCON)
    heads, new = text.integer("num_attention_heads"), text.flag("new_decoder_architecture")
    if new:
        kv = text.integer("num_kv_heads", "n_head_kv", default=heads)
    else:
        kv = 1 if text.flag("multi_query", default=True) else heads
    inner = 4 * text.integer("hidden_size")
    text.fill(num_key_value_heads=kv, intermediate_size=inner, mlp_bias=text.flag("bias"))
    norms = ("input_layernorm",) if text.flag("parallel_attn", default=True) else _TWO
    if text.integer("num_ln_in_parallel_attn", default=2 if new else 1) == 2 and norms != _TWO:
        norms = ("ln_attn", "ln_mlp")
    style = replace(_FALCON, norms=norms)
    return Skeleton(decoder_layers(builder, style, "transformer"), decoder_root(builder, style, "transformer"))


_TWO = ("post_attention_layernorm", "input_layernorm")


def opt(builder: Builder, prefix: str = "") -> tuple[tuple[Layer, ...], Block]:
    """`prefix`: of an OPT inside another model, with its dot."""
    text = builder.text
    text.fill(
        hidden_size=768, ffn_dim=3072, num_hidden_layers=12, num_attention_heads=12, vocab_size=50272,
        max_position_embeddings=2048,
    )  # fmt: skip
    hidden, heads, inner = text.integer("hidden_size"), text.integer("num_attention_heads"), text.integer("ffn_dim")
    bias = text.flag("enable_bias", default=True)
    attention = Attention("full", heads, heads, hidden // heads, hidden // heads)
    layers = tuple(
        site.layer(
            [attention],
            [
                site.qkv(hidden, heads, heads, hidden // heads, bias=bias),
                site.row("self_attn.out_proj", hidden, hidden, "attention", bias=bias),
                *norm(site, "self_attn_layer_norm", hidden, True),
                site.column("fc1", inner, hidden, "mlp", bias=bias),
                site.row("fc2", hidden, inner, "mlp", bias=bias),
                *norm(site, "final_layer_norm", hidden, True),
            ],
        )
        for site in builder.sites(f"{prefix}model.decoder.layers")
    )
    return layers, _opt_root(builder, hidden, prefix)


def _opt_root(builder: Builder, hidden: int, prefix: str) -> Block:
    """The table of positions has two rows more than it has positions; a narrower embedding is projected in and out."""
    text, at = builder.text, f"{prefix}model.decoder"
    rows, width = text.integer("vocab_size"), text.integer("word_embed_proj_dim", default=hidden)
    modules: list[Module] = [
        Vocab(f"{at}.embed_tokens", rows, width, builder.dtype, "embed", everywhere=True),
        _everywhere(builder, f"{at}.embed_positions.weight", text.integer("max_position_embeddings") + 2, hidden),
    ]
    if width != hidden:
        modules += [
            _everywhere(builder, f"{at}.project_out.weight", width, hidden),
            _everywhere(builder, f"{at}.project_in.weight", hidden, width),
        ]
    if text.flag("do_layer_norm_before", default=True) and not text.flag("_remove_final_layer_norm"):
        modules += [
            Param(f"{at}.final_layer_norm.{part}", (hidden,), builder.dtype, "norm", everywhere=True)
            for part in ("weight", "bias")
        ]
    tied = text.flag("tie_word_embeddings", default=True)
    name = f"{prefix}lm_head"
    stored = builder.stores(f"{name}.weight", not tied)
    return builder.block(
        [*modules, Vocab(name, rows, width, builder.dtype, "lm_head", tied=tied, stored=stored, everywhere=True)]
    )


def _everywhere(builder: Builder, name: str, *shape: int) -> Param:
    return Param(name, shape, builder.dtype, "embed", everywhere=True)


def _gpt2(builder: Builder) -> Skeleton:
    """openai-community/gpt2 stores no "transformer." prefix, but the causal masks of its layers."""
    text = builder.text
    text.fill(n_embd=768, n_layer=12, n_head=12, n_positions=1024, vocab_size=50257)
    hidden, heads, positions = text.integer("n_embd"), text.integer("n_head"), text.integer("n_positions")
    text.fill(hidden_size=hidden, num_attention_heads=heads, num_hidden_layers=text.integer("n_layer", high=10_000))
    inner = text.integer("n_inner", default=4 * hidden)
    at = "transformer." if builder.stores("transformer.wte.weight", False) else ""
    attention = Attention("full", heads, heads, hidden // heads, hidden // heads)
    layers = tuple(_gpt2_layer(site, attention, inner, positions) for site in builder.sites(f"{at}h"))
    rows, tied = text.integer("vocab_size"), text.flag("tie_word_embeddings", default=True)
    modules: list[Module] = [
        Vocab(f"{at}wte", rows, hidden, builder.dtype, "embed", everywhere=True),
        _everywhere(builder, f"{at}wpe.weight", positions, hidden),
        *(Param(f"{at}ln_f.{part}", (hidden,), builder.dtype, "norm", everywhere=True) for part in ("weight", "bias")),
    ]
    classifies = builder.architecture == "GPT2ForSequenceClassification"
    if classifies:
        modules += float32_head(builder, "score", labels(text), hidden, bias=False)
    else:
        stored = builder.stores("lm_head.weight", not tied)
        modules.append(
            Vocab("lm_head", rows, hidden, builder.dtype, "lm_head", tied=tied, stored=stored, everywhere=True)
        )
    return Skeleton(layers, builder.block(modules), max_position=positions, pooling=classifies)


def _gpt2_layer(site: Site, attention: Attention, inner: int, positions: int) -> Layer:
    hidden, heads = site.b.text.integer("n_embd"), attention.num_heads
    parts = [(f"attn.{q}", hidden, heads) for q in "qkv"]
    modules: list[Module] = [
        *norm(site, "ln_1", hidden, True),
        packed(site, "attn.c_attn", parts, hidden, True),
        site.row("attn.c_proj", hidden, hidden, "attention", bias=True),
        Param("attn.bias", (1, 1, positions, positions), site.b.dtype, "attention", created=False),
        *norm(site, "ln_2", hidden, True),
        site.column("mlp.c_fc", inner, hidden, "mlp", bias=True),
        site.row("mlp.c_proj", hidden, inner, "mlp", bias=True),
    ]
    return site.layer([attention], modules)


_BUILDERS: dict[str, Callable[[Builder], Skeleton]] = {
    "BloomForCausalLM": _bloom,
    "ChatGLMForConditionalGeneration": _chatglm,
    "ChatGLMModel": _chatglm,
    "FalconForCausalLM": _falcon,
    "GPT2ForSequenceClassification": _gpt2,
    "GPT2LMHeadModel": _gpt2,
    "GPTJForCausalLM": _gptj,
    "GPTNeoXForCausalLM": _neox,
    "OPTForCausalLM": lambda builder: Skeleton(*opt(builder)),
    "RWForCausalLM": _falcon,
}
