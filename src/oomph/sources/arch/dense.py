"""More dense decoders that are a row each: Apertus, Granite, OLMo 1 to 3, Seed-OSS, EXAONE 4, StarCoder2, InternLM,
Ernie 4.5, Hunyuan, GLM-4, StableLM, Phi-2, Nemotron-4, SmolLM3, Arcee, EXAONE 3, MiniCPM, Orion, Baichuan, CWM,
HyperCLOVA X, Jais 2, Solar, VaultGemma.

vLLM: models/apertus.py, granite.py, olmo.py, olmo2.py, seed_oss.py, exaone4.py, starcoder2.py, internlm2.py,
ernie45.py, hunyuan_v1.py, glm.py, glm4.py, stablelm.py, phi.py, nemotron.py, arcee.py, exaone.py, minicpm.py, orion.py,
baichuan.py.
"""

from collections.abc import Callable

from msgspec.structs import replace

from oomph.ir import Module, Param, Rope
from oomph.sources.arch.base import Builder, Skeleton, rope_of
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
)
from oomph.sources.arch.llama import LLAMA

_POST_NORMS = ("post_attention_layernorm", "post_feedforward_layernorm")
_GLM_DEFAULTS = (
    ("head_dim", 128),
    ("num_key_value_heads", 2),
    ("attention_bias", True),
    ("partial_rotary_factor", 0.5),
    ("max_position_embeddings", 131072),
)

_BAICHUAN = Style(
    qkv_bias=False,
    own_head_dim=False,
    everywhere=ALL_STAGES,
    names=Names(packed_qkv="W_pack"),
    aliases=(("model_max_length", "max_position_embeddings"),),
)

STYLES: dict[str, Style] = {
    "ApertusForCausalLM": Style(
        gated=False,
        qk_norm="head",
        norms=("attention_layernorm", "feedforward_layernorm"),
        defaults=(("max_position_embeddings", 65536), ("rope_theta", 12000000.0)),
    ),
    "AquilaForCausalLM": LLAMA,
    "ArceeForCausalLM": Style(gated=False, defaults=(("max_position_embeddings", 4096),)),
    "BaiChuanForCausalLM": _BAICHUAN,
    "BaichuanForCausalLM": _BAICHUAN,
    # cwm.py: Llama with windows
    "CwmForCausalLM": Style(qkv_bias=False, every=4, defaults=(("sliding_window", 8192), ("head_dim", 128))),
    "Ernie4_5ForCausalLM": Style(
        o_bias=False,
        defaults=(("head_dim", 128), ("tie_word_embeddings", True), ("max_position_embeddings", 131072)),
    ),
    "Exaone4ForCausalLM": Style(
        qk_norm="head",
        norms=_POST_NORMS,
        every=4,
        defaults=(("sliding_window", 4096), ("max_position_embeddings", 2048)),
    ),
    "ExaoneForCausalLM": Style(
        norms=("ln_1", "ln_2"),
        names=Names(
            attn="attn.attention",
            out="out_proj",
            gate_up_down=("c_fc_0", "c_fc_1", "c_proj"),
            layers="h",
            embed="wte",
            norm="ln_f",
        ),
        aliases=(("num_layers", "num_hidden_layers"),),
    ),
    "Glm4ForCausalLM": Style(
        o_bias=False,
        norms=("input_layernorm", "post_attention_layernorm", "post_self_attn_layernorm", "post_mlp_layernorm"),
        names=Names(packed_gate_up="gate_up_proj"),
        defaults=_GLM_DEFAULTS,
    ),
    "GlmForCausalLM": Style(o_bias=False, names=Names(packed_gate_up="gate_up_proj"), defaults=_GLM_DEFAULTS),
    "GraniteForCausalLM": Style(defaults=(("max_position_embeddings", 2048),)),
    "HunYuanDenseV1ForCausalLM": Style(
        qk_norm="head",
        qk_norm_flag="use_qk_norm",
        names=Names(q_norm="query_layernorm", k_norm="key_layernorm"),
        defaults=(("use_qk_norm", True), ("max_position_embeddings", 2048)),
        aliases=(("attention_head_dim", "head_dim"),),
    ),
    # hyperclovax.py: two norms more where the config says so
    "HyperCLOVAXForCausalLM": Style(defaults=(("head_dim", 128), ("use_post_norm", False))),
    "InternLM2ForCausalLM": Style(
        qkv_bias=False,
        own_head_dim=False,
        everywhere=ALL_STAGES,
        norms=("attention_norm", "ffn_norm"),
        names=Names(
            attn="attention",
            packed_qkv="wqkv",
            out="wo",
            mlp="feed_forward",
            gate_up_down=("w1", "w3", "w2"),
            embed="tok_embeddings",
        ),
    ),
    "InternLM3ForCausalLM": Style(aliases=(("bias", "mlp_bias"),)),
    "Jais2ForCausalLM": Style(
        gated=False,
        norm_bias=True,
        defaults=(("attention_bias", True), ("mlp_bias", True), ("max_position_embeddings", 8192)),
    ),
    "MiniCPMForCausalLM": Style(qkv_bias=False, own_head_dim=False, everywhere=ALL_STAGES),
    # Nanbeige 4: a Llama that transformers' own code serves
    "NanbeigeForCausalLM": LLAMA,
    "NemotronForCausalLM": Style(
        gated=False,
        norm_bias=True,
        defaults=(("max_position_embeddings", 4096), ("partial_rotary_factor", 0.5)),
        aliases=(("rope_percent", "partial_rotary_factor"), ("rope_percentage", "partial_rotary_factor")),
    ),
    "OlmoForCausalLM": Style(
        norms=(),
        own_head_dim=False,
        everywhere=ALL_STAGES,
        names=Names(norm=""),
        defaults=(("max_position_embeddings", 2048),),
    ),
    "Olmo2ForCausalLM": Style(
        qkv_bias=False,
        qk_norm="whole",
        own_head_dim=False,
        norms=_POST_NORMS,
        everywhere=ALL_STAGES,
        defaults=(("max_position_embeddings", 2048),),
    ),
    "Olmo3ForCausalLM": Style(
        qkv_bias=False,
        qk_norm="whole",
        own_head_dim=False,
        norms=_POST_NORMS,
        every=4,
        everywhere=ALL_STAGES,
        defaults=(("max_position_embeddings", 2048), ("sliding_window", 4096)),
    ),
    "OrionForCausalLM": Style(qkv_bias=False, norm_bias=True, own_head_dim=False, everywhere=ALL_STAGES),
    "PhiForCausalLM": Style(
        qkv_bias=True,
        mlp_bias=True,
        gated=False,
        norm_bias=True,
        norms=("input_layernorm",),
        everywhere=ALL_STAGES,
        names=Names(out="dense", gate_up_down=("", "fc1", "fc2"), norm="final_layernorm"),
        defaults=(("max_position_embeddings", 2048), ("partial_rotary_factor", 0.5)),
    ),
    "SeedOssForCausalLM": Style(qkv_bias=True, o_bias=False, window="none", defaults=(("head_dim", 128),)),
    "SmolLM3ForCausalLM": Style(
        window="none",
        everywhere=(),
        defaults=(("tie_word_embeddings", True), ("max_position_embeddings", 32768), ("no_rope_layer_interval", 4)),
    ),
    "SolarForCausalLM": LLAMA,
    # step1.py (0.32.0): ALiBi in place of rotary positions
    "Step1ForCausalLM": Style(
        window="none",
        own_head_dim=False,
        aliases=(("num_attention_groups", "num_key_value_heads"),),
        defaults=(("tie_word_embeddings", True),),
    ),
    "StableLmForCausalLM": Style(
        o_bias=False,
        own_head_dim=False,
        norm_bias=True,
        everywhere=ALL_STAGES,
        defaults=(("partial_rotary_factor", 0.25), ("max_position_embeddings", 4096)),
        aliases=(("use_qkv_bias", "attention_bias"), ("rope_pct", "partial_rotary_factor")),
    ),
    "Starcoder2ForCausalLM": Style(
        gated=False,
        own_head_dim=False,
        norm_bias=True,
        everywhere=ALL_STAGES,
        names=Names(gate_up_down=("", "c_fc", "c_proj")),
        defaults=(("use_bias", True), ("tie_word_embeddings", True), ("max_position_embeddings", 4096)),
        aliases=(("use_bias", "attention_bias"), ("use_bias", "mlp_bias")),
    ),
    "VaultGemmaForCausalLM": Style(
        norms=("input_layernorm", "pre_feedforward_layernorm"),
        every=2,
        defaults=(("head_dim", 256), ("tie_word_embeddings", True), ("sliding_window", 4096)),
    ),
    "XverseForCausalLM": LLAMA,
}

# architectures that transformers' own code serves in some release (facts/vllm/structure.py says since when)
TRANSFORMERS = frozenset(
    {
        "ArceeForCausalLM",
        "CwmForCausalLM",
        "GlmForCausalLM",
        "HunYuanDenseV1ForCausalLM",
        "Jais2ForCausalLM",
        "NanbeigeForCausalLM",
        "Olmo2ForCausalLM",
        "OlmoForCausalLM",
        "Olmo3ForCausalLM",
        "PhiForCausalLM",
        "SeedOssForCausalLM",
        "SmolLM3ForCausalLM",
        "Starcoder2ForCausalLM",
        "VaultGemmaForCausalLM",
    }
)
_HEADS = {"InternLM2ForCausalLM": "output"}
_PREFIXES = {"ExaoneForCausalLM": "transformer"}


def build(builder: Builder) -> Skeleton:
    style, text = STYLES[builder.architecture], builder.text
    fill(builder, style)
    if text.flag("use_post_norm") and builder.architecture == "HyperCLOVAXForCausalLM":
        style = replace(style, norms=(*style.norms, "post_norm1", "post_norm2"))
    _, _, head_dim = dims(text, style)

    # baichuan.py: the wide one (13B) has ALiBi instead
    alibi = builder.architecture == "Step1ForCausalLM"
    alibi = alibi or (builder.architecture == "BaichuanForCausalLM" and text.integer("hidden_size") != 4096)

    def sliding_rope(window: int) -> Rope | None:
        """olmo2.py:141 (0.21.0): sliding layers take the base but not the scaling."""
        if alibi:
            return None
        if not window or builder.architecture != "Olmo3ForCausalLM":
            return rope_of(text, head_dim)
        base = text.table("rope_parameters", "rope_scaling").get(
            "rope_theta", text.number("rope_theta", default=10000.0)
        )
        return rope_of(text, head_dim, params={"rope_type": "default", "rope_theta": base})

    prefix, head = _PREFIXES.get(builder.architecture, "model"), _HEADS.get(builder.architecture, "lm_head")

    def table(window: int) -> Rope | None:
        rope = sliding_rope(window)
        return backed(builder, rope) if rope is not None and builder.architecture in TRANSFORMERS else rope

    after = _xielu(builder) if builder.architecture == "ApertusForCausalLM" else None
    layers = decoder_layers(builder, style, prefix, rope=table, after=after)
    root = decoder_root(builder, style, prefix, head, head_bias=builder.architecture == "PhiForCausalLM")
    inverse = frequencies(builder, layers) if builder.architecture in TRANSFORMERS else []
    params = (("attention_argument", "use_alibi_sqrt"),) if builder.architecture == "Step1ForCausalLM" else ()
    return Skeleton(layers, builder.block([*root.modules, *inverse]), params=params)


def _xielu(builder: Builder) -> Callable[[list[Module]], list[Module]]:
    """activation.py XIELU: four learned or fixed numbers a layer."""
    names = ("alpha_p", "alpha_n", "beta", "eps")
    return lambda modules: [Param(f"mlp.act_fn.{n}", (1,), builder.dtype, "mlp") for n in names]
