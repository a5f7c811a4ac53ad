"""Qwen3-Next and Qwen3.5/3.6/3.8: gated delta net on three layers of four, gated attention on the fourth, MTP layers.

vLLM: models/qwen3_next.py, qwen3_5.py, qwen3_next_mtp.py, qwen3_5_mtp.py, layers/mamba/gdn_linear_attn.py.
"""

from typing import Literal

from msgspec.structs import replace

from oomph.errors import ConfigError
from oomph.ir import Attention, Block, Layer, Linear, Modality, Module, Param, Part, State, Tower
from oomph.sources.arch.base import Builder, Site, Skeleton, heads_of, rope_of
from oomph.sources.arch.decoder import Style, decoder_root
from oomph.sources.arch.moe import qwen_moe_block
from oomph.sources.arch.qwen_vision import POOLS_FIRST, qwen3_vision, retrieval_head
from oomph.sources.config import Config

_DEFAULTS = {
    "head_dim": 256,
    "partial_rotary_factor": 0.25,
    "max_position_embeddings": 32768,
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "num_experts_per_tok": 10,
    "full_attention_interval": 4,
}


class _Net:
    """The sizes that the layers of one model share."""

    def __init__(self, builder: Builder) -> None:
        text = builder.text
        self.b, self.next = builder, builder.architecture == "Qwen3NextForCausalLM"
        self.hidden = text.integer("hidden_size")
        self.heads, self.kv, self.head_dim = heads_of(text)
        self.gate = 2 if text.flag("attn_output_gate", default=True) else 1
        self.k_heads, self.v_heads = text.integer("linear_num_key_heads"), text.integer("linear_num_value_heads")
        self.k_dim, self.v_dim = text.integer("linear_key_head_dim"), text.integer("linear_value_head_dim")
        self.kernel = text.integer("linear_conv_kernel_dim")
        self.state = State(
            "gdn",
            conv_kernel=self.kernel,
            num_heads=self.v_heads,
            head_dim=self.v_dim,
            groups=self.k_heads,
            key_dim=self.k_dim,
            dtype={"float32": "F32", "bfloat16": "BF16", "float16": "F16"}.get(text.text("mamba_ssm_dtype"), ""),
        )
        rope = rope_of(text, self.head_dim, bounded=True)
        self.attention = Attention("full", self.heads, self.kv, self.head_dim, self.head_dim, rope=rope)
        # checkpoints of the multimodal models that are not quantised have all experts in one tensor
        whole = builder.quant is None and builder.architecture.endswith(("ForConditionalGeneration", "ColQwen3_5"))
        self.layout: Literal["each", "stacked"] = "stacked" if whole else "each"


def build(builder: Builder) -> Skeleton:
    towers: tuple[Tower, ...] = ()
    modalities: tuple[Modality, ...] = ()
    prefix = "model"
    if builder.architecture.endswith(("ForConditionalGeneration", "ColQwen3_5")):
        prefix = "model.language_model"
        tower, modalities = qwen3_vision(builder, "model.visual", builder.config.sub("vision_config"))
        towers = (tower,)
    return replace(language_model(builder, prefix), towers=towers, modalities=modalities)


def build_scored(builder: Builder) -> Skeleton:
    """ColQwen 3.5: the same model as a retriever (colqwen3_5.py)."""
    model = build(builder)
    root = builder.block([*model.root.modules, *retrieval_head(builder, builder.text)])
    return replace(model, root=root, pooling=True, params=(*model.params, *POOLS_FIRST))


def language_model(builder: Builder, prefix: str) -> Skeleton:
    builder.text.fill(**_DEFAULTS)
    builder.scale_dtype = "BF16"  # Qwen's block-FP8 releases have their scales in BF16
    net = _Net(builder)
    layers = tuple(
        _layer(net, site, kind) for site, kind in zip(builder.sites(f"{prefix}.layers"), _kinds(builder.text))
    )
    drafts, draft_root = _mtp(net)
    style = Style(everywhere=("embed", "lm_head") if net.next else ("embed",))
    return Skeleton(layers, decoder_root(builder, style, prefix), drafts, draft_root)


def _kinds(text: Config) -> list[str]:
    count = text.integer("num_hidden_layers", high=10_000)
    kinds = text.items("layer_types")
    if not kinds:
        every = text.integer("full_attention_interval")
        return ["linear_attention" if (i + 1) % every else "full_attention" for i in range(count)]
    if len(kinds) < count or not all(k in ("linear_attention", "full_attention") for k in kinds):
        raise ConfigError(f"{text.where}: layer_types does not name {count} layers of linear or full attention")
    return [str(k) for k in kinds[:count]]


def _layer(net: _Net, site: Site, kind: str) -> Layer:
    linear = kind == "linear_attention"
    modules = [
        *(_delta_net(net, site) if linear else _attention(net, site)),
        *_mlp(net, site, site.index),
        site.norm("input_layernorm", net.hidden),
        site.norm("post_attention_layernorm", net.hidden),
    ]
    return site.layer([net.state if linear else net.attention], modules)


def _attention(net: _Net, site: Site) -> list[Module]:
    """qwen3_next.py:258 (0.21.0): the query projection also makes an output gate of the same width."""
    queries = net.heads * net.gate
    parts = [
        ("self_attn.q_proj", queries * net.head_dim, queries),
        ("self_attn.k_proj", net.kv * net.head_dim, net.kv),
        ("self_attn.v_proj", net.kv * net.head_dim, net.kv),
    ]
    return [
        site.linear("self_attn.qkv_proj", parts, net.hidden, "column", "attention", bias=site.b.text.flag("qkv_bias")),
        site.row("self_attn.o_proj", net.hidden, net.heads * net.head_dim, "attention"),
        site.norm("self_attn.q_norm", net.head_dim),
        site.norm("self_attn.k_norm", net.head_dim),
    ]


def _delta_net(net: _Net, site: Site) -> list[Module]:
    keys, values = net.k_heads * net.k_dim, net.v_heads * net.v_dim
    dtype = site.b.dtype
    conv = (2 * keys + values, 1, net.kernel)
    return [
        Param("linear_attn.conv1d.weight", conv, dtype, "linear_attn", shard_dim=0),
        *_inputs(net, site, keys, values),
        Param("linear_attn.dt_bias", (net.v_heads,), dtype, "linear_attn", shard_dim=0),
        *_decay(net, dtype),
        Param("linear_attn.norm.weight", (net.v_dim,), dtype, "linear_attn"),
        site.row("linear_attn.out_proj", net.hidden, values, "linear_attn"),
    ]


def _decay(net: _Net, dtype: str) -> list[Module]:
    """facts/vllm/structure.py says which releases have it in which dtype."""
    log = Param("linear_attn.A_log", (net.v_heads,), dtype, "linear_attn", shard_dim=0)
    return [
        replace(log, created_dtype="F32", only="GDN decay in float32"),
        replace(log, stored=False, only="GDN decay in the model's dtype"),
    ]


def _inputs(net: _Net, site: Site, keys: int, values: int) -> list[Module]:
    """gdn_linear_attn.py:393 create_qkvz_proj, create_ba_proj (0.21.0): Qwen3-Next stores each as one tensor; Qwen3.5
    stores q, k, v together, z, b and a apart, and vLLM makes four and two parts of them."""
    if net.next:
        width = 2 * keys + 2 * values
        return [
            site.column("linear_attn.in_proj_qkvz", width, net.hidden, "linear_attn"),
            site.column("linear_attn.in_proj_ba", 2 * net.v_heads, net.hidden, "linear_attn"),
        ]
    names = [f"{site.prefix}.linear_attn.in_proj_qkv", f"{site.prefix}.linear_attn.in_proj_z"]
    qkvz = Linear(
        "linear_attn.in_proj_qkvz",
        (
            Part("linear_attn.in_proj_qkv", 2 * keys + values, created=False),
            Part("linear_attn.q", keys, stored=False),
            Part("linear_attn.k", keys, stored=False),
            Part("linear_attn.v", values, stored=False),
            Part("linear_attn.in_proj_z", values),
        ),
        net.hidden,
        "column",
        "linear_attn",
        site.b.dtype,
        scheme=site.b.scheme(names),
    )
    return [qkvz, *_ba(net, site)]


def _ba(net: _Net, site: Site) -> list[Module]:
    names = ("linear_attn.in_proj_b", "linear_attn.in_proj_a")
    marlin = site.b.quant is not None and site.b.quant.facts.method in ("awq", "gptq", "auto-round")
    split = [Part(n, net.v_heads, only="in_proj_ba split under Marlin" if marlin else "") for n in names]
    modules: list[Module] = [site.linear("linear_attn.in_proj_ba", split, net.hidden, "column", "linear_attn")]
    if marlin:
        whole = [Part(n, net.v_heads, stored=False, only="in_proj_ba whole under Marlin") for n in names]
        modules.append(site.linear("linear_attn.in_proj_ba", whole, net.hidden, "replicated", "linear_attn"))
    return modules


def _mlp(net: _Net, site: Site, index: int) -> list[Module]:
    text = site.b.text
    sparse = text.integer("num_experts", default=0, low=0) > 0
    if net.next:
        step = text.integer("decoder_sparse_step", default=1)
        sparse = sparse and index not in text.integers("mlp_only_layers") and (index + 1) % step == 0
    if sparse:
        site.b.shared_whole_by = "Qwen's shared experts whole in sequence parallelism"
        return qwen_moe_block(site, net.layout, quantised_router=False)
    return site.gated_mlp(net.hidden, text.integer("intermediate_size"))


def _mtp(net: _Net) -> tuple[tuple[Layer, ...], Block]:
    """The embedding and the head of the draft are the target's own."""
    builder, text = net.b, net.b.text
    count = text.integer(
        "mtp_num_hidden_layers", "num_nextn_predict_layers", default=1 if net.next else 0, low=0, high=64
    )
    if not count:  # vLLM builds the layers whether or not the checkpoint has them
        return (), Block()
    root: list[Module] = [
        *_fc(net),
        Param("mtp.norm.weight", (net.hidden,), builder.dtype, "norm"),
        Param("mtp.pre_fc_norm_hidden.weight", (net.hidden,), builder.dtype, "norm"),
        Param("mtp.pre_fc_norm_embedding.weight", (net.hidden,), builder.dtype, "norm"),
    ]
    layers = tuple(_layer(net, site, "full_attention") for site in net.b.sites("mtp.layers", count))
    return layers, builder.block(root)


def _fc(net: _Net) -> list[Module]:
    """qwen3_5_mtp.py:104 (0.21.0): built unquantised for ModelOpt NVFP4, whatever the checkpoint's lists say."""
    builder, width = net.b, 2 * net.hidden
    scheme = builder.scheme(["mtp.fc"])
    plain = scheme is not None and scheme.method == "modelopt_fp4"
    stored = Part("mtp.fc", net.hidden, created=not plain)
    modules: list[Module] = [Linear("mtp.fc", (stored,), width, "column", "other", builder.dtype, scheme=scheme)]
    if plain:
        built = Part("mtp.fc", net.hidden, stored=False)
        modules.append(Linear("mtp.fc", (built,), width, "column", "other", builder.dtype))
    return modules
