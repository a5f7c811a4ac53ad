"""What people call a model: versions, sizes and quantisations decide, and what is no name matches nothing."""

import pytest
from hypothesis import given, strategies as st

from oomph import catalog
from oomph.catalog import names
from oomph.errors import InputError


def found(name: str) -> str:
    """The id, "?" where several are meant, "" where nothing answers."""
    try:
        entry = catalog.find(name)
    except InputError:
        return "?"
    return "" if entry is None else entry.id


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("qwen3 14b", "Qwen/Qwen3-14B"),
        ("qwen3:14b", "Qwen/Qwen3-14B"),
        ("nemotron 3 super", "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8"),
        ("llama 3 8b", "meta-llama/Meta-Llama-3-8B-Instruct"),
        ("gptoss120b", "openai/gpt-oss-120b"),
        ("command r7b", "CohereLabs/c4ai-command-r7b-12-2024"),
        ("whisper large v3 turbo", "openai/whisper-large-v3-turbo"),
        ("bge m3", "BAAI/bge-m3"),
        ("granite 4 h small", "ibm-granite/granite-4.0-h-small"),
        ("qwen3 235b 2507 instruct fp8", "Qwen/Qwen3-235B-A22B-Instruct-2507-FP8"),
        ("mistral:7b-instruct-v0.3-q4_K_M", "mistralai/Mistral-7B-Instruct-v0.3"),
        ("deepseek v3", "deepseek-ai/DeepSeek-V3"),
        ("通义千问 2.5 7b", "Qwen/Qwen2.5-7B-Instruct"),
        ("квен3 14b", "Qwen/Qwen3-14B"),
        ("ジェマ 3 27b", "google/gemma-3-27b-it"),
        ("phi-4 14b", "microsoft/phi-4"),  # sizes that stand in no name, of models that have them
        ("deepseek v3 671b", "deepseek-ai/DeepSeek-V3"),
        ("mistral nemo 12b", "mistralai/Mistral-Nemo-Instruct-2407"),
        ("llama 4 scout 109b", "meta-llama/Llama-4-Scout-17B-16E-Instruct"),
        ("Llama-3.1-8B", "meta-llama/Llama-3.1-8B-Instruct"),  # and no copy of its base
        ("phi-4 20b", ""),
        ("llama 3.1 9b", ""),
        ("qwen3 coder 31b", ""),
    ],
)
def test_a_name_is_the_makers_own_checkpoint(name: str, meant: str) -> None:
    assert found(name) == meant


@pytest.mark.parametrize("name", ["mistral small", "qwen 32b", "qwen3 coder", "llama", "tulu 3.1 8b"])
def test_what_may_be_several_models_is_asked_back(name: str) -> None:
    assert found(name) == "?"


@pytest.mark.parametrize(
    "name",
    [
        "7b",
        "fp8",
        "32k",
        "dev",
        "air",
        "m2",
        "llm",
        "de",
        "x",
        "awq",
        "显存",
        "大模型",
        "instruct 8b",
        "qwen3 14b 量化",
    ],
)
def test_a_bare_word_or_one_that_nobody_knows_is_no_name(name: str) -> None:
    assert found(name) == ""


@pytest.mark.parametrize("name", ["nemotron 4 super", "qwen3.7 27b", "gemma 4 27b", "llama 3.5 70b", "glm 4.6 air fp8"])
def test_a_version_that_nobody_has_is_not_answered_with_another(name: str) -> None:
    assert found(name) == ""


@given(st.sampled_from(catalog.ids()), st.integers(0, 99))
def test_a_number_that_the_name_does_not_have_never_finds_it(model_id: str, number: int) -> None:
    name = model_id.rpartition("/")[2].replace("-", " ")
    if str(number) not in names.tokens(model_id):
        assert names.rank(f"{name} {number}", model_id) is None


@given(st.sampled_from(catalog.ids()))
def test_every_name_finds_itself_or_its_maker_s(model_id: str) -> None:
    query = model_id.rpartition("/")[2]
    assert found(query) == "?" or names.core(names.family(found(query))) == names.core(names.family(model_id))


def test_a_hint_shares_a_word_that_says_which_model() -> None:
    assert not any("MiniMax" in one for one in catalog.suggest("bge m9"))


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("qwen3-coder:30b-a3b-q8_0", "Qwen/Qwen3-Coder-30B-A3B-Instruct"),  # Ollama's tags
        ("minimax-m2:cloud", "MiniMaxAI/MiniMax-M2"),
        ("llama3.3:latest 70b", "meta-llama/Llama-3.3-70B-Instruct"),
        ("gemma3-12b-instruct", "google/gemma-3-12b-it"),  # one word for tuned models is as good as another
        ("moonshot kimi k2 instruct 0905", "moonshotai/Kimi-K2-Instruct-0905"),  # whose model it is
        ("qwen2.5-coder:1.5b-base", "Qwen/Qwen2.5-Coder-1.5B"),  # a base model without the word
        ("deepseek-coder-v2:16b", "deepseek-ai/DeepSeek-Coder-V2-Lite-Instruct"),  # a size that the name lacks
        ("bge-m3:567m", "BAAI/bge-m3"),
        ("gpt-oss 20b mxfp4", "openai/gpt-oss-20b"),  # a format that the name does not say
        ("minimax m2.5 fp8", "MiniMaxAI/MiniMax-M2.5"),
        ("qwen3 8b bf16", "Qwen/Qwen3-8B"),
        ("mixtral 8x22", "mistralai/Mixtral-8x22B-Instruct-v0.1"),
        ("Лама 3.3 70б", "meta-llama/Llama-3.3-70B-Instruct"),
        ("qwen3 32 milliarden", "Qwen/Qwen3-32B"),
        ("百川2 13B 对话", "baichuan-inc/Baichuan2-13B-Chat"),
    ],
)
def test_sizes_formats_and_tags_as_they_are_written(name: str, meant: str) -> None:
    assert found(name) == meant


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("gemma 4 12b", "google/gemma-4-12B-it"),
        ("glm 5.3 flash", "zai-org/GLM-5.3-Flash"),
        ("nemotron 3 nano 4b", "nvidia/NVIDIA-Nemotron-3-Nano-4B-BF16"),
        ("Qwen3-4B-Thinking-2507-UD-Q4_K_XL.gguf", "Qwen/Qwen3-4B-Thinking-2507"),
        ("gpt-oss-120b-mxfp4-00001-of-00003.gguf", "openai/gpt-oss-120b"),
    ],
)
def test_a_model_without_a_shape_is_asked_about_by_its_whole_name(name: str, meant: str) -> None:
    assert found(name) == "" and meant in catalog.suggest(name)[:2]


def test_what_is_known_by_name_alone_is_in_no_catalogue() -> None:
    assert not {one.lower() for one in catalog.named()} & {one.lower() for one in catalog.ids()}
