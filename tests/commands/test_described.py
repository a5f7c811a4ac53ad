"""Deployments that a text describes without a serve command, and commands that prose has bent."""

from __future__ import annotations

import pytest

from oomph.commands import read_deployments
from oomph.errors import CommandError
from oomph.ir.deployment import Deployment

MODELFILE = (
    "# for the small card\nFROM qwen3:8b\nPARAMETER num_ctx 16384\nPARAMETER temperature 0.2\nPARAMETER num_gpu 30\n"
)


def deployments(text: str) -> list[Deployment]:
    return [entry.deployment for entry in read_deployments([text]) if entry.deployment]


def test_a_modelfile_is_an_ollama_deployment() -> None:
    (only,) = deployments(MODELFILE + 'SYSTEM """You don\'t guess."""\n')
    assert (only.engine.name, only.model, only.flags) == ("ollama", "qwen3:8b", {"num_ctx": 16384, "num_gpu": 30})


def test_a_file_called_modelfile_needs_no_more_than_from(tmp_path) -> None:
    path = tmp_path / "Modelfile"
    path.write_text("FROM llama3.1:8b\n")
    (entry,) = read_deployments([str(path)])
    assert entry.deployment is not None and entry.deployment.model == "llama3.1:8b"


def test_modelfiles_in_a_manual_are_all_read() -> None:
    second = MODELFILE.replace("qwen3:8b", "qwen3:4b")
    text = f"# Ours\n\nlarge.modelfile\n```\n{MODELFILE}```\n\nsmall.modelfile\n```dockerfile\n{second}```\n"
    assert [deployment.model for deployment in deployments(text)] == ["qwen3:8b", "qwen3:4b"]


def test_a_dockerfile_is_no_modelfile() -> None:
    with pytest.raises(CommandError):
        deployments("FROM python:3.12\nRUN pip install requests\n")


@pytest.mark.parametrize(
    "form",
    [
        'model = Model(env={{"SM_VLLM_MODEL": "{0}", "SM_VLLM_MAX_MODEL_LEN": "8192",\n'
        '                    "SM_VLLM_ENFORCE_EAGER": "true"}})\n'
        'model.deploy(instance_type="ml.g5.12xlarge")\n',
        'environment = {{\n  SM_VLLM_MODEL = "{0}"\n  SM_VLLM_MAX_MODEL_LEN = "8192"\n'
        '  SM_VLLM_ENFORCE_EAGER = "true"\n}}\n'
        'instance_type = "ml.g5.12xlarge"\n',
    ],
)
def test_sagemakers_variables_are_flags(form: str) -> None:
    (only,) = deployments(form.format("Qwen/Qwen3-8B"))
    assert (only.model, only.flags) == ("Qwen/Qwen3-8B", {"max_model_len": 8192, "enforce_eager": True})
    assert "g5.12xlarge" in only.gpu_name or "A10G" in only.gpu_name + only.gpu_mention


@pytest.mark.parametrize("model", ["$DIR/$FILE", "${DIR}/${FILE}", "Qwen/Qwen3-${SIZE}B", "$MODEL"])
def test_a_model_whose_name_is_still_open_is_a_question(model: str) -> None:
    with pytest.raises(CommandError, match="nothing in the command sets"):
        for entry in read_deployments([f"vllm serve {model} --max-model-len 8192\n"]):
            raise entry.error or AssertionError(entry.deployment)


def test_a_file_in_an_unknown_folder_has_a_name() -> None:
    (only,) = deployments("llama-server -m $MODELS/Qwen3-8B-Q4_K_M.gguf -c 8192\n")
    assert only.model == "$MODELS/Qwen3-8B-Q4_K_M.gguf"


def test_a_command_that_was_copied_as_one_line_is_whole() -> None:
    (only,) = deployments("We run ``` vllm serve \\ Qwen/Qwen3-8B \\ --max-model-len 8192 \\ -tp 2 ``` and it dies.\n")
    assert (only.model, only.flags) == ("Qwen/Qwen3-8B", {"max_model_len": 8192, "tensor_parallel_size": 2})
    (server,) = deployments(
        "the vllm server script is: `python -m vllm.entrypoints.openai.api_server \\ --model Qwen/Qwen3-8B`\n"
    )
    assert server.model == "Qwen/Qwen3-8B"


def test_code_in_prose_may_go_over_a_line_end_and_omit_python() -> None:
    text = "On GKE `vllm serve Qwen/Qwen3-8B` and `sglang.launch_server --model-path\nQwen/Qwen3-8B --tp 2` both run.\n"
    first, second = deployments(text)
    assert (first.engine.name, second.engine.name, second.flags["tp_size"]) == ("vllm", "sglang", 2)


def test_remarks_of_a_script_are_no_commands() -> None:
    remark = "# first `vllm serve A/a`, then `vllm serve B/b`\n"
    text = remark + "vllm serve Qwen/Qwen3-8B --served-model-name `cat name`\n"
    assert [deployment.model for deployment in deployments(text)] == ["Qwen/Qwen3-8B"]
