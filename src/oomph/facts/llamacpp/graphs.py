"""How an architecture's graph differs from Llama's where the file's tensors do not say it (src/models/*.cpp, v0.5.0).

A graph is built from the tensors that a layer has; what is here is what llama.cpp has in code. `NUMBERS` are the keys
of the metadata that add or leave out a step.
"""

from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

Gating = Literal["softmax", "sigmoid", "late softmax", "sqrt softplus"]
GATINGS: Final[dict[int, Gating]] = {
    1: "softmax",
    2: "sigmoid",
    3: "late softmax",
    4: "sqrt softplus",
}  # llama-hparams.h

# expert_weights_norm is a number too: false where the file does not have it
NUMBERS: Final = (
    "attention.clamp_kqv", "attention.layer_norm_rms_epsilon", "attention.temperature_scale",
    "attention.value_scale", "embedding_scale",
    "expert_gating_func", "expert_group_count", "expert_group_used_count", "expert_weights_norm",
    "expert_weights_scale", "final_logit_softcapping", "leading_dense_block_count", "logit_scale",
    "n_deepstack_layers", "residual_scale", "rope.dimension_sections", "rope.scaling.finetuned", "swin_norm",
    "use_parallel_residual",
)  # fmt: skip


class Style(Struct, frozen=True):
    # norms
    norm: Literal["RMS_NORM", "NORM"] = "RMS_NORM"
    norm_by_file: bool = False  # an epsilon of RMS norms in the file makes them such
    first_norm_at_once: bool = False  # the graph is expanded behind a layer's first norm
    bare: bool = False  # the layers' norms have no weights
    loose_post_norm: bool = False  # the norm behind the MLP belongs to no layer (il = -1)
    # the ends
    scales_embedding: bool = False
    embedding_scale: bool = False  # where the file does not say it
    residual_scale: bool = False
    logit_scale: bool = False  # the logits are scaled
    soft_cap: Literal["always", "if set", ""] = ""  # scale, tanh, scale behind the logits
    rows: Literal["last layer", "before norm", "behind norm", "all"] = "last layer"
    logits: Literal["always", "not for embeddings", "never"] = "always"
    # attention
    rope: Literal["every", "none", "windowed", "stepped", "stepped from 0", "finetuned", "of 32 layers"] = "every"
    dense_rotated: bool = False  # layers before the experts have it in any case
    step: int = 4  # stepped: every so many layers have none
    mrope: Literal["", "always", "if set"] = ""  # four positions for each token
    head_norm: Literal["RMS_NORM", "NORM"] = "RMS_NORM"
    late_head_norms: bool = False  # behind the rotation
    plain_key_norm: bool = False  # Talkie: keys are normed without a weight
    plain_head_norms: bool = False  # Llama 4: both, in rotated layers
    scales_query: bool = False
    scales_unrotated: bool = False  # Llama 4: by position, in layers that are not rotated
    value_norm: bool = False
    capped_scores: bool = False  # scale, tanh, scale before the softmax
    gate: bool = False  # attn_gate.weight, for each number or for each head
    uncached: bool = False  # there is a cache, and the graph does not read it
    # the layer
    residual_first: Literal["", "attention", "mlp", "both"] = ""  # the sum's first operand
    parallel: Literal["", "residual then attention", "attention then residual", "attention first"] = ""
    own_norm: bool = False  # of the MLP that is beside attention
    output_norm: Literal["", "mlp", "post"] = ""  # what attn_output_norm is: before the MLP, or behind attention
    # the feed-forward part
    squared: bool = False  # ReLU and a square
    gating: Gating = "softmax"  # where the file does not say it, or is not asked
    gating_by_file: bool = False  # expert_gating_func
    shares_normed: Literal["yes", "no", "if set"] = "yes"
    router: Literal["normed", "layer input"] = "normed"
    exact_experts: bool = False  # the experts' outputs are multiplied in 32 bits (GGML_PREC_F32)
    shared_scale: bool = False  # half of experts and shared experts together


LLAMA: Final = Style()
_LAYER_NORM = Style(norm="NORM", head_norm="NORM")
_GEMMA = Style(scales_embedding=True, loose_post_norm=True)
_UNROTATED = Style(rope="none")
_GRANITE = Style(logit_scale=True, rope="finetuned")
_SIGMOID = Style(gating="sigmoid", gating_by_file=True, shares_normed="if set")
_DELTA = Style(first_norm_at_once=True)
_IF_SET = Style(gating_by_file=True, shares_normed="if set")

STYLES: Final[dict[str, Style]] = {
    "afmoe": replace(_SIGMOID, scales_embedding=True, rope="stepped", gate=True),
    "arcee": Style(squared=True),
    "baichuan": Style(rope="of 32 layers"),  # the 7B; the 13B has ALiBi
    "bailingmoe": Style(shares_normed="if set"),
    "bailingmoe2": _IF_SET,
    "bert": replace(_LAYER_NORM, rope="none", logits="never"),
    "bloom": replace(_LAYER_NORM, rope="none"),
    "chameleon": Style(head_norm="NORM"),
    "codeshell": _LAYER_NORM,
    "cogvlm": Style(rows="all"),
    "cohere2": replace(_LAYER_NORM, rope="windowed", parallel="residual then attention", logit_scale=True),
    "cohere2moe": replace(
        _LAYER_NORM, norm_by_file=True, rope="windowed", dense_rotated=True, parallel="residual then attention",
        logit_scale=True, rows="behind norm", gating="sigmoid", gating_by_file=True, shares_normed="if set",
        shared_scale=True,
    ),
    "command-r": replace(_LAYER_NORM, parallel="residual then attention", logit_scale=True),
    "dbrx": replace(_LAYER_NORM, output_norm="mlp"),
    "deepseek": Style(shares_normed="no"),
    "deepseek2": _IF_SET,
    "deepseek2-ocr": _IF_SET,
    "dots1": _IF_SET,
    "eurobert": Style(logits="never"),
    "exaone-moe": replace(_SIGMOID, rope="windowed"),
    "exaone4": Style(rope="windowed", loose_post_norm=True),
    "falcon": replace(_LAYER_NORM, parallel="attention then residual"),
    "gemma": replace(_GEMMA, scales_query=True),
    "gemma-embedding": replace(_GEMMA, scales_query=True, logits="never"),
    "gemma2": replace(_GEMMA, scales_query=True, soft_cap="always", capped_scores=True),
    "gemma3": replace(_GEMMA, scales_query=True, soft_cap="if set"),
    "gemma3n": replace(_GEMMA, value_norm=True, soft_cap="always"),
    "gemma4": replace(_GEMMA, value_norm=True, soft_cap="if set", rows="behind norm"),
    "glm4": Style(mrope="if set"),
    "glm4moe": replace(_SIGMOID, mrope="if set"),
    "gpt-oss": Style(rows="before norm", gating="late softmax", shares_normed="no"),
    "gpt2": replace(_LAYER_NORM, rope="none"),
    "gptneox": replace(_LAYER_NORM, parallel="residual then attention", own_norm=True),
    "granite": _GRANITE,
    "granitehybrid": _GRANITE,
    "granitemoe": _GRANITE,
    "grok": Style(embedding_scale=True, logit_scale=True, soft_cap="if set", output_norm="post", capped_scores=True),
    "hunyuan-dense": Style(late_head_norms=True),
    "hunyuan-moe": Style(late_head_norms=True),
    "hunyuan_vl": Style(late_head_norms=True, mrope="if set"),
    "hy_v3": replace(_SIGMOID, rows="behind norm"),
    "jais": replace(_LAYER_NORM, rope="none"),
    "jais2": replace(_LAYER_NORM, squared=True),
    "jamba": Style(rope="none", residual_first="both", shares_normed="no"),
    "jina-bert-v2": replace(_LAYER_NORM, rope="none", logits="never"),
    "jina-bert-v3": replace(_LAYER_NORM, logits="never"),
    "kimi-linear": Style(rope="none", gating="sigmoid", gating_by_file=True, first_norm_at_once=True),
    "laguna": replace(_SIGMOID, gate=True),
    "lfm2": Style(residual_first="both", logits="not for embeddings"),
    "lfm2moe": Style(
        residual_first="both", logits="not for embeddings", gating="sigmoid", gating_by_file=True,
    ),
    "llada-moe": Style(shares_normed="no"),
    "llama-embed": Style(logits="never", uncached=True),
    "llama4": Style(
        rope="stepped", plain_head_norms=True, scales_unrotated=True, gating="sigmoid", shares_normed="no",
    ),
    "maincoder": Style(late_head_norms=True),
    "mimo2": Style(gating="sigmoid"),
    "minicpm": replace(_GRANITE, embedding_scale=True, residual_scale=True),
    "minicpm3": Style(embedding_scale=True, residual_scale=True),
    "minimax-m2": Style(gating="sigmoid", gating_by_file=True),
    "mistral4": replace(_IF_SET, exact_experts=True),
    "modern-bert": replace(_LAYER_NORM, logits="never"),
    "mpt": replace(_LAYER_NORM, rope="none"),
    "nemotron": replace(_LAYER_NORM, squared=True),
    "nemotron_h": Style(rope="none", squared=True, rows="behind norm"),
    "nemotron_h_moe": Style(
        rope="none", squared=True, rows="behind norm", gating="sigmoid", shares_normed="if set",
    ),
    "neo-bert": Style(logits="never"),
    "nomic-bert": replace(_LAYER_NORM, logits="never"),
    "nomic-bert-moe": replace(_LAYER_NORM, logits="never", shares_normed="no"),
    "olmo": replace(_LAYER_NORM, bare=True),
    "olmo2": Style(loose_post_norm=True),
    "olmoe": Style(shares_normed="no"),
    "openelm": Style(residual_first="attention"),
    "orion": _LAYER_NORM,
    "paddleocr": Style(mrope="always"),
    "phi2": replace(_LAYER_NORM, scales_query=True, parallel="attention first"),
    "phi3": Style(scales_query=True, residual_first="mlp"),
    "phimoe": Style(scales_query=True, residual_first="mlp"),
    "plamo": Style(parallel="attention then residual"),
    "plm": Style(squared=True),
    "qwen2moe": Style(shares_normed="no"),
    "qwen2vl": Style(mrope="always"),
    "qwen35": replace(_DELTA, rows="behind norm", mrope="always"),
    "qwen35moe": replace(_DELTA, rows="behind norm", mrope="always"),
    "qwen3next": _DELTA,
    "qwen3vl": Style(mrope="always"),
    "qwen3vlmoe": Style(mrope="always"),
    "refact": _UNROTATED,
    "smallthinker": Style(rope="stepped from 0", router="layer input", gating_by_file=True),
    "smollm3": Style(rope="stepped"),
    "stablelm": _LAYER_NORM,
    "starcoder": replace(_LAYER_NORM, rope="none"),
    "starcoder2": _LAYER_NORM,
    "step35": replace(_SIGMOID, rows="before norm", gate=True),
    "talkie": Style(bare=True, late_head_norms=True, plain_key_norm=True, logit_scale=True),
}  # fmt: skip


# model_type of a Hugging Face configuration -> what its file is called
FAMILIES: Final = {
    "bamba": "granitehybrid", "cohere": "command-r", "deepseek_v2": "deepseek2", "deepseek_v3": "deepseek2",
    "falcon_h1": "falcon-h1", "gemma3_text": "gemma3", "gemma3n_text": "gemma3n", "gemma4_text": "gemma4",
    "glm4_moe": "glm4moe", "glm4_moe_lite": "deepseek2", "gpt_oss": "gpt-oss", "granitemoehybrid": "granitehybrid",
    "hunyuan_v1_dense": "hunyuan-dense", "kimi_k2": "deepseek2", "kimi_k25": "deepseek2", "llama4_text": "llama4",
    "mimo_v2_flash": "mimo2", "minimax_m2": "minimax-m2", "mistral": "llama", "mixtral": "llama",
    "modernbert": "modern-bert", "nemotron-nas": "deci", "olmo3": "olmo2", "phi": "phi2", "qwen2_5_vl": "qwen2vl",
    "qwen3_5": "qwen35", "qwen3_5_moe": "qwen35moe", "qwen3_5_moe_text": "qwen35moe", "qwen3_5_text": "qwen35",
    "qwen3_moe": "qwen3moe", "qwen3_next": "qwen3next", "qwen3_vl": "qwen3vl", "qwen3_vl_moe": "qwen3vlmoe",
    "step3p7": "step35", "xlm-roberta": "bert",
}  # fmt: skip


def style_of(architecture: str) -> Style:
    return STYLES.get(architecture, LLAMA)
