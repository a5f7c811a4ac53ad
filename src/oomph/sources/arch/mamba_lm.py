"""Pure Mamba and Mamba 2 models: Mamba, Falcon Mamba, Codestral Mamba. vLLM: models/mamba.py, mamba2.py.

Behind it: Bamba, Falcon-H1 and Jamba, which have attention too.
"""

from oomph.ir import Attention, Linear, Mixer, Module, Routing
from oomph.sources.arch.base import Builder, Site, Skeleton, heads_of, rope_of
from oomph.sources.arch.mamba import Mamba1, Mamba2, granite_mamba2, mamba1_modules, mamba2_modules, mamba2_parts
from oomph.sources.arch.pooling import float32_head, labels
from oomph.sources.config import Config
from oomph.units import cdiv


def build(builder: Builder) -> Skeleton:
    text = builder.text
    second = builder.architecture == "Mamba2ForCausalLM"
    # MambaConfig, FalconMambaConfig, Mamba2Config
    text.fill(conv_kernel=4, use_conv_bias=True, expand=2, tie_word_embeddings=not second)
    text.fill(
        **({"state_size": 128, "n_groups": 8, "num_heads": 128, "head_dim": 64} if second else {"state_size": 16})
    )
    hidden = text.integer("hidden_size")
    mixer = _second(text) if second else _first(text)
    layers = tuple(
        site.layer([mixer.mixer], [*_modules(site, mixer), site.norm("norm", hidden)])
        for site in builder.sites("backbone.layers")
    )
    root = builder.head(
        text.integer("vocab_size"),
        hidden,
        embed="backbone.embeddings",
        norm="backbone.norm_f.weight",
        tied=text.flag("tie_word_embeddings"),
        everywhere=True,
    )
    return Skeleton(layers, root)


def _modules(site: Site, mixer: Mamba1 | Mamba2) -> list[Module]:
    return mamba2_modules(site, mixer, "mixer") if isinstance(mixer, Mamba2) else mamba1_modules(site, mixer, "mixer")


def _first(text: Config) -> Mamba1:
    hidden = text.integer("hidden_size")
    auto = text.get("time_step_rank", default="auto") == "auto"
    return Mamba1(
        hidden,
        text.integer("intermediate_size", default=text.integer("expand") * hidden),
        text.integer("state_size"),
        text.integer("conv_kernel"),
        cdiv(hidden, 16) if auto else text.integer("time_step_rank"),
        conv_bias=text.flag("use_conv_bias"),
        proj_bias=text.flag("use_bias"),
    )


def _second(text: Config) -> Mamba2:
    hidden = text.integer("hidden_size")
    return Mamba2(
        hidden,
        text.integer("intermediate_size", default=text.integer("expand") * hidden),
        text.integer("state_size"),
        text.integer("conv_kernel"),
        text.integer("n_groups"),
        text.integer("num_heads"),
        head_dim=text.integer("head_dim"),
        conv_bias=text.flag("use_conv_bias"),
        proj_bias=text.flag("use_bias"),
        chunk=text.integer("chunk_size", default=256),
    )


# Bamba: Mamba 2 layers with a few attention layers between them, an MLP behind each. vLLM: models/bamba.py.


def build_bamba(builder: Builder) -> Skeleton:
    text = builder.text
    text.fill(  # BambaConfig
        vocab_size=128000, hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32,
        num_key_value_heads=8, max_position_embeddings=262144,
    )  # fmt: skip
    hidden, inter = text.integer("hidden_size"), text.integer("intermediate_size")
    heads, kv, width = heads_of(text)
    # bamba.py:183 (0.21.0): attn_rotary_emb of each head's dimensions turn
    text.fill(partial_rotary_factor=min(1.0, text.integer("attn_rotary_emb", default=width) / width))
    attention = Attention("full", heads, kv, width, width, rope=rope_of(text, width))
    mamba = granite_mamba2(text, text.integer("mamba_expand", default=2) * hidden)
    attends = set(text.integers("attn_layer_indices"))
    layers = []
    for i, site in enumerate(builder.sites("model.layers")):
        mixer: Mixer = attention if i in attends else mamba.mixer
        modules: list[Module] = (
            [
                site.qkv(hidden, heads, kv, width),
                site.row("self_attn.o_proj", hidden, heads * width, "attention"),
            ]
            if i in attends
            else mamba2_modules(site, mamba, "mamba")
        )
        modules += [
            *site.gated_mlp(hidden, inter, at="feed_forward", bias=text.flag("mlp_bias")),
            site.norm("input_layernorm", hidden),
            site.norm("pre_ff_layernorm", hidden),
        ]
        layers.append(site.layer([mixer], modules))
    root = builder.head(
        text.integer("vocab_size"),
        hidden,
        norm="model.final_layernorm.weight",
        tied=text.flag("tie_word_embeddings"),
        everywhere=True,
    )
    return Skeleton(tuple(layers), root)


# Falcon-H1: attention and Mamba 2 side by side in every layer. vLLM: models/falcon_h1.py.


def build_falcon_h1(builder: Builder) -> Skeleton:
    text = builder.text
    text.fill(  # FalconH1Config
        vocab_size=128000, hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32,
        num_key_value_heads=8, max_position_embeddings=8192,
    )  # fmt: skip
    hidden, inter = text.integer("hidden_size"), text.integer("intermediate_size")
    heads, kv, width = heads_of(text)
    attention = Attention("full", heads, kv, width, width, rope=rope_of(text, width))
    inner = text.integer("mamba_d_ssm", default=text.integer("mamba_expand", default=2) * hidden)
    mamba = granite_mamba2(text, inner, norm=text.flag("mamba_rms_norm"))
    # falcon_h1.py:200 (0.21.0): register_buffer("mup_vector"), as wide as in_proj on this rank
    scales = Linear(
        "mamba.mup_vector",
        tuple(mamba2_parts(mamba, "mamba")[0]),
        1,
        "column",
        "linear_attn",
        builder.dtype,
        quantisable=False,
    )
    bias = text.flag("attention_bias")
    layers = tuple(
        site.layer(
            [attention, mamba.mixer],
            [
                site.qkv(hidden, heads, kv, width, bias=bias),
                site.row("self_attn.o_proj", hidden, heads * width, "attention", bias=bias),
                *mamba2_modules(site, mamba, "mamba"),
                scales,
                *site.gated_mlp(hidden, inter, at="feed_forward", bias=text.flag("mlp_bias")),
                site.norm("input_layernorm", hidden),
                site.norm("pre_ff_layernorm", hidden),
            ],
        )
        for site in builder.sites("model.layers")
    )
    root = builder.head(
        text.integer("vocab_size"), hidden, norm="model.final_layernorm.weight", tied=text.flag("tie_word_embeddings")
    )
    return Skeleton(layers, root)


# Jamba: Mamba 1 with an attention layer in each block of layers, experts in every other MLP. vLLM: models/jamba.py.


def build_jamba(builder: Builder) -> Skeleton:
    text = builder.text
    text.fill(  # JambaConfig
        vocab_size=65536, hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32,
        num_key_value_heads=8, max_position_embeddings=262144, num_experts=16, num_experts_per_tok=2,
        expert_layer_period=2, expert_layer_offset=1, attn_layer_period=8, attn_layer_offset=4, mamba_d_state=16,
        mamba_d_conv=4, mamba_expand=2,
    )  # fmt: skip
    hidden, inter = text.integer("hidden_size"), text.integer("intermediate_size")
    heads, kv, width = heads_of(text)
    attention = Attention("full", heads, kv, width, width)
    auto = text.get("mamba_dt_rank", default="auto") == "auto"
    mamba = Mamba1(
        hidden,
        text.integer("mamba_expand") * hidden,
        text.integer("mamba_d_state"),
        text.integer("mamba_d_conv"),
        cdiv(hidden, 16) if auto else text.integer("mamba_dt_rank"),
        conv_bias=text.flag("mamba_conv_bias", default=True),
        proj_bias=text.flag("mamba_proj_bias"),
        norms=True,
    )
    count, top_k = text.integer("num_experts"), text.integer("num_experts_per_tok")
    every, first = text.integer("attn_layer_period"), text.integer("attn_layer_offset", low=0)
    expert_every, expert_first = text.integer("expert_layer_period"), text.integer("expert_layer_offset", low=0)
    layers = []
    for i, site in enumerate(builder.sites("model.layers")):
        attends = i % every == first
        mixer: Mixer = attention if attends else mamba.mixer
        modules: list[Module] = (
            [site.qkv(hidden, heads, kv, width), site.row("self_attn.o_proj", hidden, heads * width, "attention")]
            if attends
            else mamba1_modules(site, mamba, "mamba")
        )
        if count > 1 and i % expert_every == expert_first:
            modules += [
                site.replicated("feed_forward.router", count, hidden, "router", quantised=False),
                site.experts(
                    count, hidden, inter, top_k, at="feed_forward.experts", routing=Routing(renormalised=False)
                ),
            ]
        else:
            modules += site.gated_mlp(hidden, inter, at="feed_forward")
        modules += [site.norm("input_layernorm", hidden), site.norm("pre_ff_layernorm", hidden)]
        layers.append(site.layer([mixer], modules))
    root = builder.head(
        text.integer("vocab_size"),
        hidden,
        norm="model.final_layernorm.weight",
        tied=False,  # jamba.py:426 (0.32.0) builds its head apart whatever the config says
        everywhere=True,
    )
    if builder.architecture != "JambaForSequenceClassification":
        return Skeleton(tuple(layers), root)
    score = float32_head(builder, "score", labels(text), hidden, bias=text.flag("score_bias"))
    return Skeleton(tuple(layers), builder.block([*root.modules, *score]), pooling=True)
