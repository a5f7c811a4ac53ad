"""Granite 3 MoE and Granite 4 hybrid: attention or Mamba 2, experts in one tensor, a shared MLP.

vLLM: models/granitemoe.py, granitemoeshared.py, granitemoehybrid.py.

Behind it: Granite with windows, Granite Speech.
"""

from msgspec.structs import replace

from oomph.errors import ConfigError
from oomph.ir import Attention, Linear, Mixer, Modality, Module, Param, Part, Rope, Tower
from oomph.sources.arch.base import Builder, Site, Skeleton, heads_of, rope_of
from oomph.sources.arch.blip2 import query_transformer
from oomph.sources.arch.decoder import Style, attention, decoder_root, layer_kinds, tied_outside
from oomph.sources.arch.mamba import granite_mamba2, mamba2_modules
from oomph.sources.arch.siglip import layer_norm
from oomph.sources.arch.text import text_model
from oomph.sources.config import Config

_WORDS = {"linear_attention": "mamba", "full_attention": "attention"}  # what transformers writes since 5.16


def build(builder: Builder) -> Skeleton:
    text = builder.text
    hybrid = builder.architecture == "GraniteMoeHybridForCausalLM"
    text.fill(  # GraniteMoe*Config
        vocab_size=32000, hidden_size=4096, intermediate_size=11008, num_hidden_layers=32, num_attention_heads=32,
        max_position_embeddings=2048, num_local_experts=8, num_experts_per_tok=2,
    )  # fmt: skip
    hidden = text.integer("hidden_size")
    heads, kv, width = heads_of(text)
    # granitemoehybrid.py:274 (0.21.0): a table only where position_embedding_type is "rope"
    rotary = not hybrid or text.text("position_embedding_type") == "rope"
    attention = Attention("full", heads, kv, width, width, rope=rope_of(text, width) if rotary else None)
    kinds = _kinds(text, hybrid)
    inner = text.integer("mamba_expand", default=2) * hidden
    mamba = granite_mamba2(text, inner) if "mamba" in kinds else None
    layers = []
    for site, kind in zip(builder.sites("model.layers", len(kinds)), kinds):
        if kind == "mamba" and mamba is not None:
            mixer: Mixer = mamba.mixer
            modules = mamba2_modules(site, mamba, "mamba")
        else:
            mixer, bias = attention, text.flag("attention_bias")
            modules = [
                site.qkv(hidden, heads, kv, width, bias=bias),
                site.row("self_attn.o_proj", hidden, heads * width, "attention", bias=bias),
            ]
        modules += [
            *granite_mlp(site, text, hidden),
            site.norm("input_layernorm", hidden),
            site.norm("post_attention_layernorm", hidden),
        ]
        layers.append(site.layer([mixer], modules))
    root = builder.head(text.integer("vocab_size"), hidden, tied=text.flag("tie_word_embeddings"), everywhere=True)
    return Skeleton(tuple(layers), root)


def _kinds(text: Config, hybrid: bool) -> list[str]:
    count = text.integer("num_hidden_layers", high=10_000)
    kinds = text.items("layer_types", "layers_block_type") if hybrid else []
    if not kinds:
        return ["mamba" if hybrid else "attention"] * count
    kinds = [_WORDS.get(kind, kind) if isinstance(kind, str) else kind for kind in kinds]
    if len(kinds) < count or not all(k in ("mamba", "attention") for k in kinds):
        raise ConfigError(f"{text.where}: layer_types does not name {count} layers as mamba or attention")
    return [str(k) for k in kinds[:count]]


def granite_mlp(site: Site, text: Config, hidden: int) -> list[Module]:
    modules: list[Module] = []
    count = text.integer("num_local_experts", default=0, low=0)
    at, dtype = "block_sparse_moe", site.b.dtype
    if count:
        inter = text.integer("intermediate_size")
        experts = site.experts(count, hidden, inter, text.integer("num_experts_per_tok"), at=f"{at}.experts")
        modules += [
            site.replicated(f"{at}.router.layer", count, hidden, "router", quantised=False),
            # the checkpoint has all experts in two tensors
            Param(f"{at}.input_linear.weight", (count, 2 * inter, hidden), dtype, "experts", created=False),
            Param(f"{at}.output_linear.weight", (count, hidden, inter), dtype, "experts", created=False),
            replace(experts, stored=False),
        ]
    shared = text.integer("shared_intermediate_size", default=0, low=0)
    if shared:
        name = "shared_mlp.input_linear"
        parts = (Part(name, 2 * shared, created=False), *[Part(f"{name}.{i}", shared, stored=False) for i in (0, 1)])
        scheme = site.b.scheme([f"{site.prefix}.{name}"])
        modules += [
            Linear(name, parts, hidden, "column", "shared_experts", dtype, scheme=scheme),
            site.row("shared_mlp.output_linear", hidden, shared, "shared_experts"),
        ]
    return modules


# Granite with windows: full attention on some layers, sinks, a rotary base for each layer (0 = none).
#
# vLLM: models/granite.py:80 granite_layer_attn_params (0.32.0), granitemoeshared.py.


def build_windows(builder: Builder) -> Skeleton:
    text = builder.text
    sparse = builder.architecture == "GraniteMoeSWAForCausalLM"
    hidden = text.integer("hidden_size")
    heads, kv, width = heads_of(text)
    sinks = text.flag("attention_sinks", default=text.has("layer_types"))
    bias = text.flag("attention_bias", "bias", default=False)
    layers = []
    for site, kind in zip(builder.sites("model.layers"), layer_kinds(text, Style())):
        window = text.integer("sliding_window", default=0, low=0) if kind == "sliding_attention" else 0
        modules: list[Module] = [
            site.qkv(hidden, heads, kv, width, bias=bias),
            site.row("self_attn.o_proj", hidden, heads * width, "attention", bias=bias),
            *([Param("self_attn.sinks", (heads,), builder.dtype, "attention", shard_dim=0)] if sinks else []),
            *(granite_mlp(site, text, hidden) if sparse else _dense(site, hidden)),
            site.norm("input_layernorm", hidden),
            site.norm("post_attention_layernorm", hidden),
        ]
        layers.append(site.layer([attention(text, window, _rope(builder, site.index, width), sinks=sinks)], modules))
    return Skeleton(
        tuple(layers), decoder_root(builder, Style(everywhere=("embed", "norm", "lm_head") if sparse else ()))
    )


def _dense(site: Site, hidden: int) -> list[Module]:
    text = site.b.text
    return site.gated_mlp(hidden, text.integer("intermediate_size"), bias=text.flag("mlp_bias"))


def _rope(builder: Builder, index: int, width: int) -> Rope | None:
    bases = builder.text.items("layer_rope_theta")
    if not bases:
        return rope_of(builder.text, width)
    if index >= len(bases) or not isinstance(bases[index], int | float):
        raise ConfigError(f"{builder.text.where}: layer_rope_theta has no number for layer {index}")
    base = float(bases[index])
    parameters = {**builder.text.table("rope_parameters", "rope_scaling"), "rope_theta": base}
    return rope_of(builder.text, width, params=parameters) if base else None


# Granite Speech: a conformer, BLIP-2's query transformer and a Granite. vLLM: models/granite_speech.py.

_TOKENS = 5001  # granite_speech.py get_max_audio_tokens: more than is expected, where there is no limit


def build_speech(builder: Builder) -> Skeleton:
    audio, former = builder.config.sub("encoder_config"), builder.config.sub("projector_config")
    # GraniteSpeechEncoderConfig, Blip2QFormerConfig
    audio.fill(
        input_dim=160, num_layers=10, hidden_dim=1024, feedforward_mult=4, num_heads=8, dim_head=128, output_dim=42,
        max_pos_emb=512, conv_kernel_size=15, conv_expansion_factor=2,
    )  # fmt: skip
    former.fill(hidden_size=768)
    head = "language_model.lm_head"
    builder.text.fill(model_type="granite")
    layers, root = text_model(builder, "language_model.model", head)
    return Skeleton(
        layers,
        tied_outside(builder, root, head),
        towers=(_conformer(builder, audio), _projector(builder, former)),
        modalities=(Modality("audio", _TOKENS),),
    )


def _conformer(builder: Builder, audio: Config) -> Tower:
    """Its blocks are not told of a quantisation; what is behind them is."""
    site, wide = builder.site("encoder"), audio.integer("hidden_dim")
    labels, count = audio.integer("output_dim"), audio.integer("num_layers", high=10_000)
    around: list[Module] = [
        site.replicated("input_linear", wide, audio.integer("input_dim"), "multimodal", bias=True, quantised=False),
        site.column("out", labels, wide, "multimodal", bias=True),
        site.row("out_mid", wide, labels, "multimodal", bias=True),
    ]
    layer = [
        *_feed_forward(site, "layers.0.ff1", audio),
        *_attention(site, "layers.0.attn", audio),
        *_convolution(site, "layers.0.conv", audio),
        *_feed_forward(site, "layers.0.ff2", audio),
        *layer_norm(site, "layers.0.post_norm", wide),
    ]
    return Tower("encoder", "audio", site.prefix, ((1, builder.block(around)), (count, builder.block(layer))))


def _feed_forward(site: Site, at: str, audio: Config) -> list[Module]:
    wide = audio.integer("hidden_dim")
    inner = wide * audio.integer("feedforward_mult")
    return [
        *layer_norm(site, f"{at}.pre_norm", wide),
        site.column(f"{at}.up_proj", inner, wide, "multimodal", bias=True, quantised=False),
        site.row(f"{at}.down_proj", wide, inner, "multimodal", bias=True, quantised=False),
    ]


def _attention(site: Site, at: str, audio: Config) -> list[Module]:
    wide, width = audio.integer("hidden_dim"), audio.integer("dim_head")
    inner, positions = width * audio.integer("num_heads"), 2 * audio.integer("max_pos_emb") + 1
    return [
        *layer_norm(site, f"{at}.pre_norm", wide),
        site.replicated(f"{at}.to_q", inner, wide, "multimodal", quantised=False),
        site.replicated(f"{at}.to_kv", 2 * inner, wide, "multimodal", quantised=False),
        site.replicated(f"{at}.to_out", wide, inner, "multimodal", bias=True, quantised=False),
        site.tensor(f"{at}.rel_pos_emb.weight", positions, width),
    ]


def _convolution(site: Site, at: str, audio: Config) -> list[Module]:
    wide, dtype = audio.integer("hidden_dim"), site.b.dtype
    inner = wide * audio.integer("conv_expansion_factor")
    shapes = {
        "up_conv.weight": (2 * inner, wide, 1),
        "up_conv.bias": (2 * inner,),
        "depth_conv.conv.weight": (inner, 1, audio.integer("conv_kernel_size")),
        "down_conv.weight": (wide, inner, 1),
        "down_conv.bias": (wide,),
        **{f"batch_norm.{part}": (inner,) for part in ("weight", "bias", "running_mean", "running_var")},
    }
    modules: list[Module] = [
        *layer_norm(site, f"{at}.norm", wide),
        *[Param(f"{at}.{name}", shape, dtype, "multimodal") for name, shape in shapes.items()],
    ]
    return [*modules, Param(f"{at}.batch_norm.num_batches_tracked", (), "I64", "multimodal", created_dtype="I64")]


def _projector(builder: Builder, former: Config) -> Tower:
    site, hidden = builder.site("projector"), former.integer("hidden_size")
    queries = builder.config.integer("window_size", default=15) // builder.config.integer("downsample_rate", default=5)
    width = builder.text.integer("hidden_size")
    around: list[Module] = [
        site.tensor("query", 1, queries, hidden),
        site.replicated("linear", width, hidden, "multimodal", bias=True, quantised=False),
    ]
    return Tower("projector", "audio", site.prefix, ((1, builder.block(around)), *query_transformer(site, former)))
