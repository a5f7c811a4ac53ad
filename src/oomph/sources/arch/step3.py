"""Step-3's language model: one key-value head, queries through a narrow projection, experts beside a shared MLP.

vLLM: models/step3_text.py.

Behind it: Step 3.5, Step 3.7.
"""

from msgspec.structs import replace

from oomph.errors import ConfigError
from oomph.ir import Attention, Block, Layer, Linear, Modality, Module, Param, Part, Rope, Routing, Tower, Vocab
from oomph.sources.arch.base import Builder, Site, Skeleton, heads_of, rope_of, sigmoid_routing
from oomph.sources.arch.decoder import Style, decoder_root, layer_kinds
from oomph.sources.arch.mla import nextn_modules
from oomph.sources.arch.siglip import layer_norm
from oomph.sources.config import Config


def build(builder: Builder) -> Skeleton:
    text = builder.text
    text.fill(  # Step3TextConfig
        hidden_size=7168, intermediate_size=18432, num_attention_heads=64, num_hidden_layers=61, vocab_size=128815,
        moe_intermediate_size=5120, moe_num_experts=48, moe_top_k=3, head_dim=256, share_expert_dim=5120,
        share_q_dim=2048, max_position_embedding=65536,
    )  # fmt: skip
    heads, width = text.integer("num_attention_heads"), text.integer("head_dim")
    # step3_text.py:232 (0.32.0) reads a key of its own
    text.fill(max_position_embeddings=text.integer("max_position_embedding"))
    rope = replace(rope_of(text, width), positions=text.integer("max_position_embedding"))
    attention = Attention("full", heads, 1, width, width, rope=rope)
    count = text.integer("num_hidden_layers", high=10_000)
    listed = [int(i) for i in text.text("moe_layers_enum").split(",") if i.strip().isdigit()]
    sparse = set(listed or range(1, count))
    layers = tuple(
        site.layer([attention], _modules(site, site.index in sparse)) for site in builder.sites("model.layers")
    )
    return Skeleton(layers, decoder_root(builder, Style()))


def _modules(site: Site, sparse: bool) -> list[Module]:
    text, at = site.b.text, "self_attn"
    hidden, heads, width = text.integer("hidden_size"), text.integer("num_attention_heads"), text.integer("head_dim")
    q_size = text.integer("share_q_dim", default=0, low=0) or width
    qkv = [Part(f"{at}.q_proj", q_size), Part(f"{at}.k_proj", width), Part(f"{at}.v_proj", width)]
    modules: list[Module] = [
        site.linear(f"{at}.qkv_proj", qkv, hidden, "replicated", "attention"),
        site.row(f"{at}.o_proj", hidden, heads * width, "attention"),
        site.norm(f"{at}.inter_norm", q_size),
        site.linear(f"{at}.wq", [(f"{at}.wq", heads * width, heads)], q_size, "column", "attention"),
    ]
    if sparse:
        count, inner = text.integer("moe_num_experts"), text.integer("moe_intermediate_size")
        routing = Routing(renormalised=text.flag("norm_expert_weight"))
        modules += [
            site.experts(count, hidden, inner, text.integer("moe_top_k"), at="moe", layout="stacked", routing=routing),
            site.replicated("moe.gate", count, hidden, "router", quantised=False),
            *site.gated_mlp(hidden, text.integer("share_expert_dim"), at="share_expert", role="shared_experts"),
        ]
    else:
        modules += site.gated_mlp(hidden, text.integer("intermediate_size"))
    return [*modules, site.norm("input_layernorm", hidden), site.norm("post_attention_layernorm", hidden)]


# Step 3.5: gated attention whose heads, theta and rotary share differ by kind of layer, experts in most layers.
#
# vLLM: models/step3p5.py, transformers_utils/configs/step3p5.py.


def build_flash(builder: Builder) -> Skeleton:
    text = builder.text
    text.fill(  # Step3p5Config
        hidden_size=5120, intermediate_size=13312, num_attention_heads=40, num_attention_groups=8,
        num_hidden_layers=48, vocab_size=65536, moe_intermediate_size=10240, moe_num_experts=16, moe_top_k=4,
    )  # fmt: skip
    text.fill(num_key_value_heads=text.integer("num_attention_groups"))
    count = text.integer("num_hidden_layers", high=10_000)
    kinds = [str(k) for k in text.items("layer_types")]
    if len(kinds) < count:
        kinds = ["sliding_attention" if i % 2 == 0 else "full_attention" for i in range(count)]
    sparse = _sparse(text, count)
    layers = tuple(
        _layer(site, text, kinds[site.index], site.index in sparse) for site in builder.sites("model.layers", count)
    )
    hidden, vocab, drafts = text.integer("hidden_size"), text.integer("vocab_size"), []
    nextn = text.integer("num_nextn_predict_layers", default=0, low=0, high=100)
    for site in builder.sites("model.layers", nextn, count):  # step3p5_mtp.py
        kind = kinds[site.index] if site.index < len(kinds) else "full_attention"
        layer = _layer(site, text, kind, site.index in sparse)
        own = nextn_modules(site, hidden, vocab, list(layer.block.modules), own_vocab=False)
        drafts.append(site.layer(layer.mixers, own))
    root = builder.head(vocab, hidden, tied=text.flag("tie_word_embeddings"))
    return Skeleton(layers, root, drafts=tuple(drafts))


def _sparse(text: Config, count: int) -> frozenset[int]:
    """`moe_layers_enum` is a list in one string; without it every layer but the first has experts."""
    listed = text.text("moe_layers_enum")
    if not listed:
        return frozenset(range(1, count))
    words = [w.strip() for w in listed.split(",")]
    if not all(w.isdigit() and len(w) < 6 for w in words):
        raise ConfigError(f"{text.where}: moe_layers_enum is not a list of layers")
    return frozenset(int(w) for w in words)


def _of_layer(text: Config, key: str, index: int, default: float) -> float:
    """One number for all layers, or a list with one for each."""
    value = text.get(key)
    if isinstance(value, list):
        value = value[index] if index < len(value) else default
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError(f"{text.where}: {key} has no number for layer {index}")
    return float(value)


def _rope(text: Config, width: int, index: int, kind: str) -> Rope:
    scaled = [str(k) for k in text.items("yarn_only_types")]
    scaling = dict(text.table("rope_scaling", "rope_parameters")) if not scaled or kind in scaled else {}
    share = _of_layer(text, "partial_rotary_factors", index, 1.0)
    params = {**scaling, "rope_theta": _of_layer(text, "rope_theta", index, 5e5), "partial_rotary_factor": share}
    return rope_of(text, width, params=params)


def _layer(site: Site, text: Config, kind: str, sparse: bool) -> Layer:
    hidden = text.integer("hidden_size")
    heads, kv = text.integer("num_attention_heads"), text.integer("num_attention_groups")
    width = text.integer("head_dim", default=hidden // heads)
    other = text.sub("attention_other_setting")
    if other.text("attention_type") == kind:
        heads, kv = other.integer("num_attention_heads"), other.integer("num_attention_groups")
        width = other.integer("head_dim", default=width)
    window = text.integer("sliding_window", default=0, low=0) if kind == "sliding_attention" else 0
    modules: list[Module] = [
        site.qkv(hidden, heads, kv, width, bias=text.flag("attention_bias")),
        site.row("self_attn.o_proj", hidden, heads * width, "attention"),
        site.norm("self_attn.q_norm", width),
        site.norm("self_attn.k_norm", width),
        *(
            [site.column("self_attn.g_proj", heads, hidden, "attention")]
            if text.flag("use_head_wise_attn_gate")
            else []
        ),
        *(_experts(site, text) if sparse else site.gated_mlp(hidden, text.integer("intermediate_size"))),
        site.norm("input_layernorm", hidden),
        site.norm("post_attention_layernorm", hidden),
    ]
    rope = _rope(text, width, site.index, kind)
    attention = Attention("sliding_window" if window else "full", heads, kv, width, width, window=window, rope=rope)
    return site.layer([attention], modules)


def _routing(text: Config) -> Routing:
    """step3p5.py:366 (0.32.0)."""
    scoring = text.text("moe_router_activation", default="sigmoid")
    whole = text.flag("norm_expert_weight", default=True)
    return Routing("softmax" if scoring == "softmax" else "sigmoid", whole, biased=text.flag("use_moe_router_bias"))


def _experts(site: Site, text: Config) -> list[Module]:
    hidden, count, inner = (
        text.integer("hidden_size"),
        text.integer("moe_num_experts"),
        text.integer("moe_intermediate_size"),
    )
    top_k = text.integer("moe_top_k")
    shared = text.integer("share_expert_dim", default=inner * top_k)
    gate = site.replicated("moe.gate", count, hidden, "router", quantised=False)
    return [
        replace(gate, created_dtype="F32"),
        Param("moe.router_bias", (count,), site.b.dtype, "router", created_dtype="F32"),
        *site.gated_mlp(hidden, shared, at="share_expert", role="shared_experts"),
        site.experts(count, hidden, inner, top_k, at="moe", layout="stacked", routing=_routing(text)),
    ]


# Step 3.7: gated attention, windows, experts behind three dense layers, a perception encoder.
#
# vLLM: models/step3p7.py, step3p5.py, step_vl.py (0.32.0).

# Step3p7TextConfig and Step3p7VisionConfig. The config class nests: what stands outside text_config does not reach
# the language model, so a flat config.json is all defaults.
_TEXT = {
    "vocab_size": 128815,
    "hidden_size": 4096,
    "intermediate_size": 11264,
    "num_hidden_layers": 45,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 128000,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 1280,
    "n_routed_experts": 288,
    "share_expert_dim": 1280,
}
_VISION = {
    "hidden_size": 1536,
    "num_hidden_layers": 47,
    "num_attention_heads": 16,
    "image_size": 728,
    "patch_size": 14,
    "mlp_ratio": 8960 / 1536,
}
_DENSE = 3  # layers before the first with experts


def build_step3p7(builder: Builder) -> Skeleton:
    text = builder.config.sub("text_config")
    text.fill(**_TEXT)
    vision = builder.config.sub("vision_config")
    vision.fill(**_VISION)
    kinds = layer_kinds(text, Style())
    sparse = [k == "sparse" for k in text.items("mlp_layer_types")]
    if len(sparse) < len(kinds):
        sparse = [i >= _DENSE for i in range(len(kinds))]
    places = builder.sites("model.layers", len(kinds))
    layers = tuple(_step3p7_layer(site, text, kind, experts) for site, kind, experts in zip(places, kinds, sparse))
    side = vision.integer("image_size") // vision.integer("patch_size") // 4
    return Skeleton(
        layers,
        _root(builder, text),
        towers=(_vision(builder, vision), _projector(builder, text, vision)),
        modalities=(Modality("image", side * side),),
    )


def _root(builder: Builder, text: Config) -> Block:
    hidden, rows = text.integer("hidden_size"), text.integer("vocab_size")
    return builder.block(
        [
            Vocab("model.embed_tokens", rows, hidden, builder.dtype, "embed"),
            Param("model.norm.weight", (hidden,), builder.dtype, "norm"),
            Vocab("lm_head", rows, hidden, builder.dtype, "lm_head"),
        ]
    )


def _step3p7_layer(site: Site, text: Config, kind: str, sparse: bool) -> Layer:
    hidden = text.integer("hidden_size")
    heads, kv, head_dim = heads_of(text)
    window = text.integer("sliding_window", default=0, low=0) if kind == "sliding_attention" else 0
    if window:
        heads = text.integer("num_sliding_attention_heads", default=heads)
    modules: list[Module] = [
        site.qkv(hidden, heads, kv, head_dim, bias=text.flag("attention_bias")),
        site.row("self_attn.o_proj", hidden, heads * head_dim, "attention"),
        site.norm("self_attn.q_norm", head_dim),
        site.norm("self_attn.k_norm", head_dim),
        site.column("self_attn.g_proj", heads, hidden, "attention"),
        *(_step3p7_experts(site, text) if sparse else site.gated_mlp(hidden, text.integer("intermediate_size"))),
        site.norm("input_layernorm", hidden),
        site.norm("post_attention_layernorm", hidden),
    ]
    attention = Attention(
        "sliding_window" if window else "full",
        heads,
        kv,
        head_dim,
        head_dim,
        window=window,
        rope=rope_of(text, head_dim),
    )
    return site.layer([attention], modules)


def _step3p7_experts(site: Site, text: Config) -> list[Module]:
    """step3p5.py:366 (0.32.0): the router is built in float32; experts are quantised as the config says. The FP8
    release has them in BF16, one tensor a projection."""
    hidden, count, inner = (
        text.integer("hidden_size"),
        text.integer("n_routed_experts"),
        text.integer("moe_intermediate_size"),
    )
    top_k, dtype = text.integer("num_experts_per_tok"), site.b.dtype
    experts = site.experts(count, hidden, inner, top_k, at="moe", layout="stacked", routing=sigmoid_routing(text))
    return [
        Linear("moe.gate", (Part("moe.gate", count),), hidden, "replicated", "router", dtype, created_dtype="F32"),
        Param("moe.router_bias", (count,), dtype, "router", created_dtype="F32"),
        *site.gated_mlp(hidden, text.integer("share_expert_dim"), at="share_expert", role="shared_experts"),
        replace(experts, scheme=None, only="experts of Step 3.7 as stored", other=experts.scheme),
    ]


def _vision(builder: Builder, vision: Config) -> Tower:
    width, heads = vision.integer("width", "hidden_size"), vision.integer("heads", "num_attention_heads")
    count, patch = vision.integer("layers", "num_hidden_layers", high=10_000), vision.integer("patch_size")
    inner = int(width * vision.number("mlp_ratio", default=8960 / 1536))
    side = vision.integer("image_size") // patch
    site = builder.site("vision_model")
    first: list[Module] = [
        site.tensor("conv1.weight", width, 3, patch, patch),
        *layer_norm(site, "ln_pre", width),
    ]
    at = "transformer.resblocks.0"
    layer: list[Module] = [
        Param(f"{at}.attn.in_proj_weight", (3 * width, width), builder.dtype, "multimodal", shard_dim=0, heads=heads),
        Param(f"{at}.attn.in_proj_bias", (3 * width,), builder.dtype, "multimodal", shard_dim=0, heads=heads),
        site.row(f"{at}.attn.out_proj", width, width, "multimodal", bias=True),
        # step_vl.py: every layer registers its own table of frequencies
        Param(f"{at}.attn.rope.freqs_cache", (side * side, width // heads), "F32", "multimodal", stored=False,
              created_dtype="F32"),
        site.tensor(f"{at}.ls_1.gamma", width),
        site.tensor(f"{at}.ls_2.gamma", width),
        *layer_norm(site, f"{at}.ln_1", width),
        *layer_norm(site, f"{at}.ln_2", width),
        site.column(f"{at}.mlp.c_fc", inner, width, "multimodal", bias=True),
        site.row(f"{at}.mlp.c_proj", width, inner, "multimodal", bias=True),
    ]  # fmt: skip
    last = [
        *site.convolution("vit_downsampler1", 2 * width, width, 3, 3),
        *site.convolution("vit_downsampler2", 4 * width, 2 * width, 3, 3),
        site.tensor("positional_embedding", side * side, width),
    ]
    return site.tower("vision_model", "vision", [(1, first), (count, layer), (1, last)], count, width, inner, heads)


def _projector(builder: Builder, text: Config, vision: Config) -> Tower:
    name, width = "vit_large_projector", 4 * vision.integer("width", "hidden_size")
    part = Part(name, text.integer("hidden_size"))
    bias = builder.config.flag("projector_bias")
    linear = Linear(
        name,
        parts=(part,),
        in_features=width,
        shard="column",
        role="multimodal",
        dtype=builder.dtype,
        bias=bias,
        scheme=builder.scheme([name]),
    )
    return Tower(name, "vision", "", ((1, builder.block([linear])),))
