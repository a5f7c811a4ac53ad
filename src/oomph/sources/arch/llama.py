"""Llama and the architectures that differ from it in a row: biases, norms, names, windows.

vLLM: models/llama.py, mistral.py, qwen2.py, qwen3.py, phi3.py, commandr.py.
"""

from oomph.ir import Linear, Module, Param
from oomph.sources.arch.base import Builder, Skeleton, rope_of
from oomph.sources.arch.decoder import Names, Style, decoder_layers, decoder_root, dims, fill
from oomph.sources.config import Config

# Config classes' defaults: a multimodal config leaves out of its text_config whatever is the default.
LLAMA_DEFAULTS = (
    ("vocab_size", 32000),
    ("hidden_size", 4096),
    ("intermediate_size", 11008),
    ("num_hidden_layers", 32),
    ("num_attention_heads", 32),
    ("max_position_embeddings", 2048),
)
MISTRAL_DEFAULTS = (
    ("vocab_size", 32000),
    ("hidden_size", 4096),
    ("intermediate_size", 14336),
    ("num_hidden_layers", 32),
    ("num_attention_heads", 32),
    ("num_key_value_heads", 8),
    ("max_position_embeddings", 131072),
    ("sliding_window", 4096),
)
QWEN2_DEFAULTS = (("max_position_embeddings", 32768), ("sliding_window", 4096))

LLAMA = Style(defaults=LLAMA_DEFAULTS)
MISTRAL = Style(defaults=MISTRAL_DEFAULTS)
# Ministral3Config has no window of its own
MINISTRAL3 = Style(defaults=(("max_position_embeddings", 262144), ("head_dim", 128)))
QWEN2 = Style(qkv_bias=True, o_bias=False, window="qwen", own_head_dim=False, defaults=QWEN2_DEFAULTS)
QWEN3 = Style(o_bias=False, qk_norm="head", window="qwen", defaults=(*QWEN2_DEFAULTS, ("head_dim", 128)))

STYLES: dict[str, Style] = {
    "CohereForCausalLM": Style(
        qkv_bias=False,
        norms=("input_layernorm",),
        everywhere=("embed", "norm"),
        qk_norm="heads",
        qk_norm_flag="use_qk_norm",
        own_head_dim=False,
        defaults=(("tie_word_embeddings", True), ("max_position_embeddings", 8192)),
    ),
    "Cohere2ForCausalLM": Style(
        qkv_bias=False,
        norms=("input_layernorm",),
        everywhere=("embed", "norm"),
        every=4,
        own_head_dim=False,
        defaults=(("tie_word_embeddings", True), ("max_position_embeddings", 8192), ("sliding_window", 4096)),
    ),
    "IQuestCoderForCausalLM": LLAMA,
    "LLaMAForCausalLM": LLAMA,
    "LlamaForCausalLM": LLAMA,
    "Ministral3ForCausalLM": MINISTRAL3,
    "MistralForCausalLM": MISTRAL,
    "Phi3ForCausalLM": Style(names=Names(packed_qkv="qkv_proj", packed_gate_up="gate_up_proj")),
    "Qwen2ForCausalLM": QWEN2,
    "Qwen3ForCausalLM": QWEN3,
    "TeleChat3ForCausalLM": LLAMA,
    "TeleFLMForCausalLM": LLAMA,
}

# Architectures whose GPTQ checkpoints AutoGPTQ wrote: it gave every quantised linear layer a bias of zeros where the
# model has none. GPTQModel, which signs in `meta`, does not, and Qwen's own releases do not have them. vLLM skips them.
_ZERO_BIASES = frozenset({"LlamaForCausalLM", "MistralForCausalLM"})


def build(builder: Builder) -> Skeleton:
    style, text = STYLES[builder.architecture], builder.text
    fill(builder, style)
    if builder.architecture.startswith("Qwen"):
        builder.scale_dtype = "BF16"  # Qwen's block-FP8 releases have their scales in BF16
    _, _, head_dim = dims(text, style)
    # commandr.py:156: Cohere's table is as long as model_max_length
    rope = rope_of(text, head_dim, positions=text.integer("model_max_length", default=0, low=0))
    layers = decoder_layers(builder, style, rope=rope, after=lambda modules: _relics(builder, modules, head_dim))
    return Skeleton(layers, decoder_root(builder, style))


def _relics(builder: Builder, modules: list[Module], head_dim: int) -> list[Module]:
    """What old writers left in checkpoints and engines do not create."""
    inner: list[Module] = []
    quant = builder.config.table("quantization_config")
    if (
        quant.get("quant_method") == "gptq"
        and builder.architecture in _ZERO_BIASES
        and not quant.keys() & {"meta", "dynamic"}
    ):
        inner += [
            Param(f"{part.name}.bias", (part.out_features,), "F16", module.role, created=False)
            for module in modules
            if isinstance(module, Linear) and module.scheme is not None and not module.bias
            for part in module.parts
        ]
    if builder.architecture == "LlamaForCausalLM" and _keeps_inv_freq(builder.config):
        inner.append(Param("self_attn.rotary_emb.inv_freq", (head_dim // 2,), "F32", "attention", created=False))
    return inner


def _keeps_inv_freq(config: Config) -> bool:
    """transformers before 4.32 saved the rotary frequencies; configs of that time have no rope_theta yet."""
    version = config.text("transformers_version").split(".")
    if len(version) > 1 and all(v.isdigit() for v in version[:2]):
        return (int(version[0]), int(version[1])) < (4, 32)
    return not any(config.has(key) for key in ("rope_theta", "rope_scaling", "rope_parameters"))
