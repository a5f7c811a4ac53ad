"""Sixty names as people write them in posts, forums and commands, with typing errors. What is meant was written down
first: the checkpoint, or a question whose candidates hold it. None may be something else without saying so."""

from __future__ import annotations

import pytest

from oomph import catalog
from oomph.errors import InputError

# a name -> what is meant
MEANT = {
    "llama 3.1 70b instruct": "meta-llama/Llama-3.1-70B-Instruct",
    "llama3.1 8b": "meta-llama/Llama-3.1-8B-Instruct",
    "Llama-3.1-8B-Instruct": "meta-llama/Llama-3.1-8B-Instruct",
    "llama 3.3 70b": "meta-llama/Llama-3.3-70B-Instruct",
    "llama 3.2 3b": "meta-llama/Llama-3.2-3B-Instruct",
    "llama-3.2-1b-instruct": "meta-llama/Llama-3.2-1B-Instruct",
    "llama 4 scout": "meta-llama/Llama-4-Scout-17B-16E-Instruct",
    "llama 4 maverick": "meta-llama/Llama-4-Maverick-17B-128E-Instruct",
    "qwen3 8b": "Qwen/Qwen3-8B",
    "Qwen3-30B-A3B": "Qwen/Qwen3-30B-A3B",
    "qwen 3 32b": "Qwen/Qwen3-32B",
    "qwen2.5 7b instruct": "Qwen/Qwen2.5-7B-Instruct",
    "qwen 2.5 coder 32b": "Qwen/Qwen2.5-Coder-32B-Instruct",
    "qwen2.5-72b": "Qwen/Qwen2.5-72B-Instruct",
    "qwen3 coder 30b": "Qwen/Qwen3-Coder-30B-A3B-Instruct",
    "qwen3-coder-next": "Qwen/Qwen3-Coder-Next",
    "qwen3 next 80b": "Qwen/Qwen3-Next-80B-A3B-Instruct",
    "qwen3.5 9b": "Qwen/Qwen3.5-9B",
    "qwen3.6 27b": "Qwen/Qwen3.6-27B",
    "qwen 3.6 35b a3b": "Qwen/Qwen3.6-35B-A3B",
    "qwen2.5 vl 7b": "Qwen/Qwen2.5-VL-7B-Instruct",
    "qwen3 vl 8b": "Qwen/Qwen3-VL-8B-Instruct",
    "qwen3-8b awq": "Qwen/Qwen3-8B-AWQ",
    "qwen3 32b fp8": "Qwen/Qwen3-32B-FP8",
    "qwq": "Qwen/QwQ-32B",
    "qwq 32b": "Qwen/QwQ-32B",
    "deepseek r1": "deepseek-ai/DeepSeek-R1",
    "deepseek v3": "deepseek-ai/DeepSeek-V3",
    "deepseek-v3.2": "deepseek-ai/DeepSeek-V3.2",
    "r1 distill qwen 32b": "deepseek-ai/DeepSeek-R1-Distill-Qwen-32B",
    "deepseek r1 distill llama 8b": "deepseek-ai/DeepSeek-R1-Distill-Llama-8B",
    "deepseek coder v2 lite": "deepseek-ai/DeepSeek-Coder-V2-Lite-Instruct",
    "gemma 3 27b": "google/gemma-3-27b-it",
    "gemma-3-12b-it": "google/gemma-3-12b-it",
    "gemma3 4b": "google/gemma-3-4b-it",
    "gemma 2 9b": "google/gemma-2-9b-it",
    "gemma 4 31b": "google/gemma-4-31B-it",
    "gemma-4-26b": "google/gemma-4-26B-A4B-it",
    "gemma-4-31b nvfp4": "nvidia/Gemma-4-31B-IT-NVFP4",
    "gpt-oss-20b": "openai/gpt-oss-20b",
    "gpt oss 120b": "openai/gpt-oss-120b",
    "gptoss 20b": "openai/gpt-oss-20b",
    "mistral nemo": "mistralai/Mistral-Nemo-Instruct-2407",
    "nemo": "mistralai/Mistral-Nemo-Instruct-2407",
    "mistral 7b instruct v0.3": "mistralai/Mistral-7B-Instruct-v0.3",
    "mistral small 3.2": "mistralai/Mistral-Small-3.2-24B-Instruct-2506",
    "mixtral 8x7b instruct": "mistralai/Mixtral-8x7B-Instruct-v0.1",
    "devstral": "mistralai/Devstral-Small-2505",
    "phi-4": "microsoft/phi-4",
    "phi4 mini": "microsoft/Phi-4-mini-instruct",
    "glm 4.7 flash": "zai-org/GLM-4.7-Flash",
    "glm-4.6": "zai-org/GLM-4.6",
    "kimi k2 instruct": "moonshotai/Kimi-K2-Instruct",
    "minimax m2.5": "MiniMaxAI/MiniMax-M2.5",
    "bge large en v1.5": "BAAI/bge-large-en-v1.5",
    "qwen3 embedding 0.6b": "Qwen/Qwen3-Embedding-0.6B",
    "smollm2 1.7b": "HuggingFaceTB/SmolLM2-1.7B-Instruct",
    "granite 4.0 h small": "ibm-granite/granite-4.0-h-small",
    # with typing errors: a question that holds it
    "lama 3.1 8b": "meta-llama/Llama-3.1-8B-Instruct",
    "quen3 8b": "Qwen/Qwen3-8B",
    "gema 3 27b": "google/gemma-3-27b-it",
    "mistal nemo": "mistralai/Mistral-Nemo-Instruct-2407",
    "deepseak r1": "deepseek-ai/DeepSeek-R1",
    "gpt os 20b": "openai/gpt-oss-20b",
}


@pytest.mark.parametrize("name", MEANT)
def test_a_name_is_the_checkpoint_or_a_question_that_holds_it(name: str) -> None:
    meant = MEANT[name]
    try:
        entry = catalog.find(name)
    except InputError as question:
        assert meant in question.hint
        return
    if entry is None:
        assert meant in catalog.suggest(name)
    else:
        assert entry.id == meant, entry.note


def test_most_are_answered_at_once() -> None:
    def answered(name: str) -> bool:
        try:
            return catalog.find(name) is not None
        except InputError:
            return False

    assert sum(map(answered, MEANT)) >= 54
    assert len(MEANT) >= 60
