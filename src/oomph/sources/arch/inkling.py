"""Inkling: relative attention, short convolutions that keep a window of states, experts beside shared sink experts.

vLLM: models/inkling/nvidia/ (0.32.0).
"""

from oomph.errors import ConfigError
from oomph.ir import Attention, ConvWindow, Linear, Module, Param, Part, Routing, Tower, Vocab
from oomph.sources.arch.base import Builder, Site, Skeleton
from oomph.sources.config import Config

_PADDED = 8  # moe.py InklingGate: rows of the router


def build(builder: Builder) -> Skeleton:
    text = builder.text
    # InklingModelConfig
    text.fill(
        vocab_size=201024, hidden_size=1536, intermediate_size=768, num_hidden_layers=16, num_attention_heads=12,
        num_key_value_heads=4, d_rel=16, rel_extent=1024, sliding_window_size=512, num_experts_per_tok=1,
    )  # fmt: skip
    count, hidden = text.integer("num_hidden_layers", high=10_000), text.integer("hidden_size")
    windows = set(text.integers("local_layer_ids")) if isinstance(text.get("local_layer_ids"), list) else set()
    dense = text.integer("dense_mlp_idx", default=0, low=0)
    layers = []
    for i, site in enumerate(builder.sites("model.llm.layers", count)):
        attention = _attention(text, i in windows)
        mlp = _dense(site, text) if i < dense else _experts(site, text)
        norms = [site.norm("attn_norm", hidden), site.norm("mlp_norm", hidden)]
        modules = [*norms, *_attention_modules(site, text, attention), *mlp, *_convolutions(site, text)]
        layers.append(site.layer([attention], modules))
    rows = text.integer("padded_vocab_size", default=text.integer("vocab_size"))
    root: list[Module] = [
        Param("model.llm.embed.weight", (rows, hidden), builder.dtype, "embed", everywhere=True),  # whole on every rank
        Param("model.llm.norm.weight", (hidden,), builder.dtype, "norm", everywhere=True),
        Vocab("model.llm.unembed", rows, hidden, builder.dtype, "lm_head", everywhere=True),
    ]
    if text.flag("use_embed_norm"):
        root.append(Param("model.llm.embed_norm.weight", (hidden,), builder.dtype, "norm", everywhere=True))
    towers, notes = _towers(builder)
    mtp = builder.config.sub("mtp_config").integer("num_nextn_predict_layers", default=0, low=0, high=100)
    return Skeleton(tuple(layers), builder.block(root), towers=towers, warnings=notes, params=(("mtp_layers", mtp),))


def _attention(text: Config, windowed: bool) -> Attention:
    heads, kv = text.integer("num_attention_heads"), text.integer("num_key_value_heads")
    width = text.integer("head_dim", default=text.integer("hidden_size") // heads)
    if windowed:
        heads = text.integer("swa_num_attention_heads", default=heads)
        kv = text.integer("swa_num_key_value_heads", default=kv)
        width = text.integer("swa_head_dim", default=width)
    if text.integer("hidden_size") % kv:
        raise ConfigError(f"{text.where}: hidden_size is not divisible by {kv} key-value heads")
    # sconv_swa_attn.py InklingConvState: four streams for each head, rounded up to a power of two
    streams = 2 * width + 2 * (text.integer("hidden_size") // kv)
    convolution = ConvWindow(kv, 1 << (streams - 1).bit_length(), _kernel(text))
    if not windowed:
        return Attention("full", heads, kv, width, width, convolution=convolution)
    window = text.integer("sliding_window_size")
    return Attention("sliding_window", heads, kv, width, width, window=window, convolution=convolution)


def _kernel(text: Config) -> int:
    return text.integer("sconv_kernel_size", "conv_kernel_size", default=4, high=1024)


def _attention_modules(site: Site, text: Config, attention: Attention) -> list[Module]:
    hidden, heads, kv, width = (
        text.integer("hidden_size"),
        attention.num_heads,
        attention.num_kv_heads,
        attention.head_dim,
    )
    relative, extent = text.integer("d_rel"), attention.window or text.integer("rel_extent")
    parts = [
        Part("attn.wq_du", heads * width, heads),
        Part("attn.wk_dv", kv * width, kv),
        Part("attn.wv_dv", kv * width, kv),
        Part("attn.wr_du", heads * relative, heads),
    ]
    taps = (kv * width, 1, _kernel(text))
    return [
        site.linear("attn.qkvr", parts, hidden, "column", "attention", bias=text.flag("q_bias")),
        site.row("attn.wo_ud", hidden, heads * width, "attention", bias=text.flag("o_bias")),
        Param("attn.rel_logits_proj.proj", (relative, extent), site.b.dtype, "attention"),
        site.norm("attn.q_norm", width),
        site.norm("attn.k_norm", width),
        *(Param(f"attn.{n}_sconv.weight", taps, site.b.dtype, "attention", shard_dim=0, heads=kv) for n in "kv"),
    ]


def _convolutions(site: Site, text: Config) -> list[Module]:
    taps = (text.integer("hidden_size"), 1, _kernel(text))
    return [Param(f"{n}_sconv.weight", taps, site.b.dtype, "other", shard_dim=0) for n in ("attn", "mlp")]


def _sizes(text: Config) -> tuple[int, int]:
    """(of an expert, of a dense layer): with moe_intermediate_size, intermediate_size is the dense layers'."""
    inner = text.integer("intermediate_size")
    expert = text.integer("moe_intermediate_size", default=inner)
    return expert, text.integer("dense_intermediate_size", default=inner)


def _dense(site: Site, text: Config) -> list[Module]:
    hidden, inner = text.integer("hidden_size"), _sizes(text)[1]
    modules: list[Module] = [
        site.column("mlp.w13_dn", 2 * inner, hidden, "mlp"),
        site.row("mlp.w2_md", hidden, inner, "mlp"),
    ]
    scale = Param("mlp.global_scale", (1,), site.b.dtype, "mlp")
    return [*modules, scale] if text.flag("use_global_scale") else modules


def _experts(site: Site, text: Config) -> list[Module]:
    """The shared "sink" experts are in the model's dtype and split over tensor parallelism only."""
    hidden, count, shared = (text.integer(k) for k in ("hidden_size", "n_routed_experts", "n_shared_experts"))
    inner, total = _sizes(text)[0], count + shared
    rows, dtype = total + -total % _PADDED, site.b.dtype
    modules: list[Module] = [
        Linear("mlp.gate", (Part("mlp.gate", rows),), hidden, "replicated", "router", dtype),
        Param("mlp.shared_experts.w13_weight", (shared, 2 * inner, hidden), dtype, "shared_experts", shard_dim=1),
        Param("mlp.shared_experts.w2_weight", (hidden, shared * inner), dtype, "shared_experts", shard_dim=1),
        site.experts(
            count, hidden, inner, text.integer("num_experts_per_tok"), layout="stacked",
            routing=Routing(custom="inkling"),
        ),
    ]  # fmt: skip
    if text.flag("use_global_scale"):
        modules.append(Param("mlp.gate.global_scale", (1,), "F32", "router", created_dtype="F32"))
    if text.flag("use_gate_bias"):
        modules.append(Param("mlp.gate.bias", (count,), "F32", "router", created_dtype="F32"))
    return modules


def _towers(builder: Builder) -> tuple[tuple[Tower, ...], tuple[str, ...]]:
    """Built where their configs name the width of the decoder; the patch encoder's layers are not known here."""
    towers: tuple[Tower, ...] = ()
    notes: tuple[str, ...] = ()
    audio, vision = builder.config.sub("audio_config"), builder.config.sub("vision_config")
    if audio.has("decoder_dmodel"):
        rows = audio.integer("n_mel_bins") * audio.integer("mel_vocab_size")
        table = Param("encoder.weight", (rows, audio.integer("decoder_dmodel")), builder.dtype, "multimodal")
        towers = (Tower("audio", "audio", "model.audio", ((1, builder.block([table])),)),)
    if vision.has("decoder_dmodel"):
        notes = ("the image encoder's linear layers (about 0.1 GiB) are not counted",)
    return towers, notes
