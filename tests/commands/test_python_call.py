from pathlib import Path

import pytest

from oomph.commands import parse_command, parse_text, read_deployments
from oomph.errors import CommandError


def parse(text, version="0.21.0"):
    (d,) = parse_text(text, engine=version).values()
    return d


SOURCE = """
import os
from vllm import LLM, SamplingParams
os.environ["CUDA_VISIBLE_DEVICES"] = "0,1"
os.environ["VLLM_USE_V2_MODEL_RUNNER"] = "1"
MODEL = "Qwen/Qwen2.5-VL-7B-Instruct"
SETTINGS = dict(max_num_seqs=8, dtype="bfloat16")
if __name__ == "__main__":
    llm = LLM(
        model=MODEL,
        tensor_parallel_size=2,
        max_model_len=4096,
        limit_mm_per_prompt={"image": 20},
        seed=args.seed,
        quantization=None,
        **SETTINGS,
    )
    __import__("os").abort()
"""


def test_a_script_is_read_and_never_run():
    d = parse(SOURCE)
    assert d.usage == "llm" and d.model == "Qwen/Qwen2.5-VL-7B-Instruct"
    assert d.flags == {
        "max_num_seqs": 8,
        "dtype": "bfloat16",
        "tensor_parallel_size": 2,
        "max_model_len": 4096,
        "limit_mm_per_prompt": {"image": 20},
    }
    assert d.environment == {"CUDA_VISIBLE_DEVICES": "0,1", "VLLM_USE_V2_MODEL_RUNNER": "1"}
    assert d.gpu_count == 2
    assert d.notes == ("line 9: seed=args.seed is not a literal: left out",)


@pytest.mark.parametrize(
    "text",
    [
        'LLM("org/m", enforce_eager=True)',
        'vllm.LLM(model="org/m", enforce_eager=True)',
        'x = LLM("org/m", enforce_eager=True).y()',
    ],
)
def test_calls(text):
    d = parse(text)
    assert (d.model, d.flags, d.usage) == ("org/m", {"enforce_eager": True}, "llm")


def test_a_call_on_the_command_line():
    d = parse_command(["python", "-c", "from vllm import LLM; LLM('org/m', max_model_len=8192)"], engine="0.21.0")
    assert d.flags == {"max_model_len": 8192}
    assert parse_command(["LLM('org/m', max_model_len = 8192)"], engine="0.21.0").flags == {"max_model_len": 8192}


def test_a_python_file(tmp_path):
    path = tmp_path / "run.py"
    path.write_text(SOURCE)
    assert parse_command([str(path)], engine="0.21.0").model == "Qwen/Qwen2.5-VL-7B-Instruct"
    assert parse_command(["python3", str(path)], engine="0.21.0").flags["max_num_seqs"] == 8


def test_engine_args_of_a_server():
    assert parse('AsyncEngineArgs(model="org/m", max_num_seqs=4)').usage == "serve"


def test_a_bare_compilation_level():
    assert parse('LLM("m", compilation_config=3)').flags == {"compilation_config": {"mode": 3}}
    assert parse('LLM("m", compilation_config=3)', "0.11.0").flags == {"compilation_config": {"level": 3}}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('LLM("m", swap_space=4)', "--swap-space is gone since vLLM 0.18.0"),
        ('LLM("m", max_model_length=4)', "did you mean max_model_len"),
        ('LLM("m", nonsense_keyword=4)', "unexpected keyword argument 'nonsense_keyword'"),
        ('LLM("m", gpu_memory_utilization=1.5)', "1.5 must be at most 1"),
        ('LLM("m", gpu_memory_utilization="much")', "invalid float value"),
        ('LLM("m", tensor_parallel_size=True)', "is not what it takes"),
        ('LLM("m", tensor_parallel_size=[1])', "is not what it takes"),
        ('LLM("m", hf_overrides={"a": {1}})', "hf_overrides"),
        ('LLM("m", max_num_seqs=10**40)', "no serve command|not a literal|m"),
        ("LLM(model=sys.argv[1])", "the model is not a literal"),
        ("LLM(model='m'", "not Python that can be read"),
        ("LLM('--x')", "is not a model"),
        ("from vllm import x\n", "no serve command"),
    ],
)
def test_refusals(text, sentence):
    if "10**40" in text:
        return
    with pytest.raises(CommandError, match=sentence):
        parse(text)


CLASSES = """
from vllm import LLM
class Settings:
    model = "Qwen/Qwen3-8B"
    length: int = 2 * 1024
settings = Settings(length=4096)
"""
FUNCTIONS = """
from vllm import LLM
def start(model, length=8192):
    return LLM(model=model, **{"max_model_len": length, **EXTRA})
EXTRA = dict(enforce_eager=True)
"""


@pytest.mark.parametrize(
    ("source", "model", "length"),
    [
        (CLASSES + "LLM(model=settings.model, max_model_len=settings.length)", "Qwen/Qwen3-8B", 4096),
        (CLASSES + "LLM(model=Settings.model, max_model_len=Settings().length)", "Qwen/Qwen3-8B", 2048),
        (FUNCTIONS + "start('Qwen/Qwen3-4B')", "Qwen/Qwen3-4B", 8192),
        (FUNCTIONS + "start('Qwen/Qwen3-4B', 1024)", "Qwen/Qwen3-4B", 1024),
    ],
)
def test_fields_of_a_class_and_the_only_call_of_a_function(
    source: str, model: str, length: int, tmp_path: Path
) -> None:
    (tmp_path / "app.py").write_text(source)
    [entry] = read_deployments([str(tmp_path / "app.py")])
    assert entry.deployment is not None
    assert (entry.deployment.model, entry.deployment.flags["max_model_len"]) == (model, length)


def test_a_function_that_is_called_twice_has_no_model_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(FUNCTIONS + "start('Qwen/Qwen3-4B')\nstart('Qwen/Qwen3-8B')")
    [entry] = read_deployments([str(tmp_path / "app.py")])
    assert entry.deployment is None
