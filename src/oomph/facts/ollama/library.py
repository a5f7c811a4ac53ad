"""Ollama's library: what a name without a tag stands for, and models that are called otherwise there.

The pages of ollama.com/library as of November 2026; only models whose shapes the catalogue has.
"""

from typing import Final

LATEST: Final[dict[str, str]] = {
    "command-r": "35b", "deepseek-r1": "8b", "deepseek-v3": "671b", "gemma2": "9b", "gemma3": "4b", "gemma3n": "e4b",
    "gemma4": "e4b", "gpt-oss": "20b", "llama3": "8b", "llama3.1": "8b", "llama3.2": "3b", "llama3.3": "70b",
    "llama4": "16x17b", "mistral": "7b", "mistral-small": "24b", "mixtral": "8x7b", "phi4": "14b", "qwen2.5": "7b",
    "qwen2.5-coder": "7b", "qwen2.5vl": "7b", "qwen3": "8b", "qwen3-coder": "30b", "qwen3-next": "80b",
    "qwen3-vl": "8b",
}  # fmt: skip

# NAME:SIZE -> the checkpoint of that shape
MODELS: Final[dict[str, str]] = {
    "command-r:35b": "CohereLabs/c4ai-command-r-v01",
    "deepseek-r1:671b": "deepseek-ai/DeepSeek-R1-0528",
    "deepseek-r1:8b": "Qwen/Qwen3-8B",  # DeepSeek-R1-0528-Qwen3-8B
    "deepseek-v3:671b": "deepseek-ai/DeepSeek-V3",
    "gemma4:26b": "google/gemma-4-26B-A4B-it",
    "llama4:128x17b": "meta-llama/Llama-4-Maverick-17B-128E-Instruct",
    "llama4:16x17b": "meta-llama/Llama-4-Scout-17B-16E-Instruct",
    "llama4:maverick": "meta-llama/Llama-4-Maverick-17B-128E-Instruct",
    "llama4:scout": "meta-llama/Llama-4-Scout-17B-16E-Instruct",
    "mistral:7b": "mistralai/Mistral-7B-Instruct-v0.3",
    "mistral-small:22b": "mistralai/Mistral-Small-Instruct-2409",
    "mistral-small:24b": "mistralai/Mistral-Small-24B-Instruct-2501",
    "mistral-small3.2:24b": "mistralai/Mistral-Small-3.2-24B-Instruct-2506",
    "phi4:14b": "microsoft/phi-4",
    "qwen3-coder:30b": "Qwen/Qwen3-Coder-30B-A3B-Instruct",
    "qwen3-next:80b": "Qwen/Qwen3-Next-80B-A3B-Instruct",
}
