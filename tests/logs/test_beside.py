"""Commands beside a log, in the shapes that people paste them."""

from __future__ import annotations

import pytest

from oomph.doctor.explain import read_case

NEED = (
    "ValueError: To serve at least one request with the model's max seq len (32768), (24.0 GiB KV cache is needed,"
    " which is larger than the available KV cache memory (3.18 GiB)."
)
MODEL = "Qwen/Qwen3-8B"
SHAPES = {
    "docker": f"docker run --gpus all -v ~/c:/c -e HF_TOKEN=s -p 8000:8000 --ipc=host vllm/vllm-openai:v0.11.0"
              f" --model {MODEL} --max-model-len 32768",
    "docker, folded": f"docker run -it \\\n  -p 8000:8000 \\\n  vllm/vllm-openai:latest \\\n  --model {MODEL} \\\n"
                      "  --max-model-len 32768",
    "variables": f"$ CUDA_VISIBLE_DEVICES=0,1 vllm serve {MODEL} --max-model-len 32768",
    "inline code": f"I run `vllm serve {MODEL} --max-model-len 32768` on a 4090",
    "compose": f"    command: >\n      --model {MODEL}\n      --max-model-len 32768",
    "list": f'command: ["vllm", "serve", "{MODEL}", "--max-model-len", "32768"]',
    "list of flags": f'args: ["--model", "{MODEL}", "--max-model-len", "32768"]',
    "manifest": f'  args:\n  - --model\n  - "{MODEL}"\n  - --max-model-len=32768',
    "python": f'llm = LLM(model="{MODEL}", max_model_len=32_768)',
    "python, folded": f'llm = LLM(\n    model="{MODEL}",\n    max_model_len=32768,\n    enforce_eager=False,\n)',
}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
def test_read_as_typed(shape: str) -> None:
    rebuilt = read_case(f"{SHAPES[shape]}\n\n{NEED}\n").rebuilt
    assert (rebuilt.model, rebuilt.flags) == (MODEL, {"max_model_len": 32768})
    assert "s" not in rebuilt.environment.values()


def test_variables_stay_with_the_command() -> None:
    rebuilt = read_case(f"VLLM_PP_LAYER_PARTITION=16,32 vllm serve {MODEL} --max-model-len 4096\n{NEED}\n").rebuilt
    assert rebuilt.environment == {"VLLM_PP_LAYER_PARTITION": "16,32"}


def test_a_container_of_something_else() -> None:
    rebuilt = read_case(f"docker run -d nginx --max-model-len 3\n{NEED}\n").rebuilt
    assert (rebuilt.model, rebuilt.flags) == ("", {})
