"""How good models are, as far as somebody published it, and what a quantisation loses: facts for an order only.

Three published tables. Figures of different tables are not comparable as they are; tools/build_facts.py links them on
the models that two tables share, and writes for every model a value, an interval and where it is from
(catalog/facts.json). A model that no table has gets an interval from its size and date, and says so.
"""

from typing import Final

from msgspec import Struct


class Table(Struct, frozen=True):
    source: str
    figures: dict[str, float]  # by checkpoint


# Artificial Analysis Intelligence Index of open weights, as whichllm 0.5.21 recorded it: the entries that it marks as
# read from the index, none of its own estimates. Its two readings are of two versions of the index.
AA_JUNE: Final = Table(
    "Artificial Analysis Intelligence Index, read on 29 Jun 2026",
    {
        "XiaomiMiMo/MiMo-V2.5-Pro": 42.2, "XiaomiMiMo/MiMo-V2.5": 40.1, "deepseek-ai/DeepSeek-V4-Pro": 44.3,
        "deepseek-ai/DeepSeek-V4-Flash": 40.3, "deepseek-ai/DeepSeek-V3.2": 33.4,
        "deepseek-ai/DeepSeek-V3.2-Exp": 25.4, "deepseek-ai/DeepSeek-V3.1": 21.0,
        "deepseek-ai/DeepSeek-V3-0324": 10.4, "deepseek-ai/DeepSeek-V3": 10.4, "deepseek-ai/DeepSeek-R1-0528": 20.1,
        "deepseek-ai/DeepSeek-R1": 12.6, "Qwen/QwQ-32B": 13.4, "zai-org/GLM-5.1": 40.2, "zai-org/GLM-5": 39.5,
        "zai-org/GLM-4.7-Flash": 22.9, "zai-org/GLM-4.6": 25.1, "zai-org/GLM-4.5": 19.5,
        "zai-org/GLM-4.5-Air": 19.5, "moonshotai/Kimi-K2-Thinking": 32.7, "moonshotai/Kimi-K2-Instruct": 19.4,
        "Qwen/Qwen3.5-397B-A17B": 33.7, "Qwen/Qwen3-Next-80B-A3B-Instruct": 19.8, "Qwen/Qwen3-235B-A22B": 13.4,
        "Qwen/Qwen3-32B": 11.5, "Qwen/Qwen3-14B": 10.1, "Qwen/Qwen3-8B": 7.4, "openai/gpt-oss-120b": 23.8,
        "openai/gpt-oss-20b": 14.9, "meta-llama/Llama-4-Maverick-17B-128E-Instruct": 14.3,
        "meta-llama/Llama-4-Scout-17B-16E-Instruct": 10.0, "google/gemma-4-31B-it": 29.4,
        "google/gemma-4-26B-A4B-it": 25.7, "microsoft/phi-4": 4.9, "mistralai/Mistral-Large-Instruct-2411": 9.1,
        "mistralai/Devstral-Small-2505": 11.8, "MiniMaxAI/MiniMax-M2.5": 33.7,
    },
)  # fmt: skip
AA_SEPTEMBER: Final = Table(
    "Artificial Analysis Intelligence Index 4.3, read on 14 Sep 2026",
    {
        "Qwen/Qwen3.8-27B": 33.9, "Qwen/Qwen3.6-27B": 21.9, "Qwen/Qwen3.6-35B-A3B": 18.8, "Qwen/Qwen3.5-27B": 22.9,
        "Qwen/Qwen3.5-122B-A10B": 17.7, "Qwen/Qwen3.5-35B-A3B": 19.3, "Qwen/Qwen3.5-9B": 13.7,
        "Qwen/Qwen3.5-4B": 13.1, "Qwen/Qwen3-Coder-Next": 10.1, "Qwen/Qwen3-Coder-480B-A35B-Instruct": 11.9,
        "Qwen/Qwen3-Coder-30B-A3B-Instruct": 9.6, "Qwen/Qwen2.5-Coder-32B-Instruct": 6.7,
        "Qwen/Qwen2.5-Coder-7B-Instruct": 5.8,
    },
)  # fmt: skip
# LiveBench's own table of 8 Jan 2026 (livebench.ai/table_2026_01_08.csv, as whichllm 0.5.21 has it): global average.
LIVEBENCH: Final = Table(
    "LiveBench, table of 8 Jan 2026",
    {
        "MiniMaxAI/MiniMax-M2.5": 60.3, "MiniMaxAI/MiniMax-M2.7": 65.0, "Qwen/Qwen3-235B-A22B-Instruct-2507": 48.0,
        "Qwen/Qwen3-235B-A22B-Thinking-2507": 52.9, "Qwen/Qwen3-30B-A3B-Thinking-2507": 38.8, "Qwen/Qwen3-32B": 42.7,
        "Qwen/Qwen3-Next-80B-A3B-Instruct": 47.4, "Qwen/Qwen3-Next-80B-A3B-Thinking": 51.0,
        "Qwen/Qwen3.6-27B": 65.6, "deepseek-ai/DeepSeek-V3.2": 63.1, "deepseek-ai/DeepSeek-V3.2-Exp": 58.9,
        "deepseek-ai/DeepSeek-V4-Flash": 67.7, "deepseek-ai/DeepSeek-V4-Pro": 74.4, "google/gemma-4-31B-it": 62.4,
        "moonshotai/Kimi-K2-Instruct": 45.9, "moonshotai/Kimi-K2-Thinking": 62.3, "moonshotai/Kimi-K2.5": 69.2,
        "openai/gpt-oss-120b": 46.4, "zai-org/GLM-4.6": 54.7, "zai-org/GLM-4.6V": 38.9, "zai-org/GLM-4.7": 57.3,
        "zai-org/GLM-5": 68.7, "zai-org/GLM-5.1": 70.6, "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-BF16": 32.0,
    },
)  # fmt: skip

# Chosen: bands of the June scale, so that a class says something without a figure.
CLASSES: Final = ((36.0, "A"), (28.0, "B"), (20.0, "C"), (12.0, "D"), (float("-inf"), "E"))


class Recovery(Struct, frozen=True):
    """The share of a model's own quality that a quantisation keeps: between `low` and `high`."""

    low: float
    high: float
    source: str


_KURTIC = "Kurtic et al., arXiv 2411.02355: over 500,000 evaluations of Llama 3.1"
_QUANTIZE = "llama-quantize --help: perplexity of Llama-3-8B (6.23); larger models lose less"
_CARDS = "recovery on model cards of FP8 checkpoints, 99.1 to 99.9 %"
_FP4 = "torchao PR 3394 (Llama 3.1 8B, winogrande 96.6 %) and model cards of NVFP4 checkpoints, 99.2 %"
# By precision of most weights. GGUF: at worst the relative rise of perplexity on an 8B model, at best a quarter of it.
RECOVERY: Final[dict[str, Recovery]] = {
    "FP8": Recovery(0.99, 1.0, f"{_KURTIC} (lossless); {_CARDS}"),
    "INT8": Recovery(0.97, 0.99, f"{_KURTIC} (1 to 3 % lost)"),
    "INT4": Recovery(0.97, 0.99, f"{_KURTIC} (rivals 8 bits)"),
    "FP4": Recovery(0.966, 0.992, _FP4),
    "MXFP4": Recovery(0.966, 0.992, _FP4),
    "INT3": Recovery(0.895, 0.974, "taken as Q3_K_M"),
    "INT2": Recovery(0.436, 0.859, "taken as Q2_K"),
    "BF16": Recovery(1.0, 1.0, "as published"),
    "Q8_0": Recovery(0.9996, 1.0, f"{_QUANTIZE} +0.0026"),
    "Q6_K": Recovery(0.9965, 0.9991, f"{_QUANTIZE} +0.0217"),
    "Q5_K_M": Recovery(0.991, 0.998, f"{_QUANTIZE} +0.0569"),
    "Q4_K_M": Recovery(0.972, 0.993, f"{_QUANTIZE} +0.1754"),
    "IQ4_XS": Recovery(0.971, 0.993, f"{_QUANTIZE}, Q4_K_S with an importance matrix +0.178"),
    "Q3_K_M": Recovery(0.895, 0.974, f"{_QUANTIZE} +0.6569"),
    "Q2_K": Recovery(0.436, 0.859, f"{_QUANTIZE} +3.5199"),
}


def class_of(value: float) -> str:
    return next(name for least, name in CLASSES if value >= least)
