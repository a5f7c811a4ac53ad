# ruff: noqa: E501 - a row is a line
"""Who is speaking: programs that oomph does not plan are recognised by name and get no serving engine's flags."""

import pytest

import oomph
from oomph.doctor.levers import names_a_flag

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.65 GiB of which 1.10 GiB is free.\n"
FRAMES = {
    "LMDeploy": "/opt/lmdeploy/lmdeploy/turbomind/turbomind.py", "ExLlama": "/env/lib/exllamav2/model.py",
    "text-generation-inference": "/opt/text_generation_server/server.py", "axolotl": "/env/lib/axolotl/cli/train.py",
    "TRL": "/env/lib/trl/trainer/grpo_trainer.py", "verl": "/srv/verl/trainer/main_ppo.py",
    "Unsloth": "/env/lib/unsloth/models/llama.py", "DeepSpeed": "/env/lib/deepspeed/runtime/engine.py",
    "transformers' Trainer": "/env/lib/transformers/trainer.py", "transformers": "/env/lib/transformers/modeling_utils.py",
    "convert_checkpoint": "/app/examples/llama/convert_checkpoint.py",
    "trtllm-build": "/env/lib/tensorrt_llm/commands/build.py",
}  # fmt: skip


@pytest.mark.parametrize("title", FRAMES)
def test_a_program_is_known_by_the_folder_of_its_frames(title: str) -> None:
    text = f'Traceback (most recent call last):\n  File "{FRAMES[title]}", line 12, in run\n    self.step()\n{OOM}'
    answer = oomph.explain(text, plan=False)
    assert answer.failed
    assert answer.speaker.startswith(f"{title}, ")
    assert not any(names_a_flag(one.change.label) for one in (*answer.remedies, *answer.rejected))
    assert "vLLM" not in answer.text()


@pytest.mark.parametrize("text", [
    "axolotl dies with CUDA out of memory in the backward pass at step 3.",
    "text-generation-inference runs out of memory while warming up.",
    "lmdeploy 加载权重的时候显存不足",
    "On an A800 lmdeploy has the weights in and is out of memory while allocating the k/v cache, a reranker holds 20 GB.",
])  # fmt: skip
def test_a_program_is_known_by_its_name(text: str) -> None:
    answer = oomph.explain(text + "\n", plan=False)
    assert answer.speaker
    assert answer.engine.name == ""
    assert answer.cause.id == "M02" and "8,192" not in answer.text()  # a length that vLLM would be given
    assert answer.question is None or not answer.question.text.startswith("Had it printed")


def test_an_engine_of_ours_inside_a_trainer_is_the_one_that_speaks() -> None:
    text = (
        'Traceback (most recent call last):\n  File "/srv/verl/workers/fsdp_workers.py", line 481, in generate\n'
        '  File "/env/lib/vllm/v1/worker/gpu_worker.py", line 120, in wake_up\n' + OOM
    )
    answer = oomph.explain(text, plan=False)
    assert answer.engine.name == "vllm"
    assert not answer.speaker


def test_the_engine_that_is_said_is_obeyed() -> None:
    text = "llama-cpp backend of my app: cudaMalloc failed: out of memory, the model needs 80 GB.\n"
    for engine in ("llamacpp", "sglang", "ollama"):
        assert oomph.explain(text, engine=engine, plan=False).engine.name == engine


@pytest.mark.parametrize("text", [
    "It crashed.", "The whole machine froze and then the process was killed.", "RuntimeError: something odd",
    "Der Prozess ist abgestürzt.", "进程崩溃了", "we ran out of memory again",
])  # fmt: skip
def test_a_text_that_tells_of_a_failure_is_never_refused(text: str) -> None:
    assert oomph.explain(text + "\n", plan=False).failed is not False
