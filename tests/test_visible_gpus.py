"""A command that gives its server fewer GPUs than there are gets no more in the plan."""

import pytest

from oomph.answers.plan import parse, with_gpus
from oomph.errors import CommandError


@pytest.mark.parametrize(
    ("command", "gpu", "names"),
    [
        ("CUDA_VISIBLE_DEVICES=1 vllm serve org/m", "RTX 3090 + RTX 4090", ["RTX 4090"]),
        ("CUDA_VISIBLE_DEVICES=1,0 vllm serve org/m -tp 2", "RTX 3090 + RTX 4090", ["RTX 4090", "RTX 3090"]),
        ("CUDA_VISIBLE_DEVICES=2,3 vllm serve org/m -tp 2", "RTX 3090", ["RTX 3090"] * 2),
        ("CUDA_VISIBLE_DEVICES=0 vllm serve org/m -tp 2", "H100", ["H100 SXM"]),
        ("docker run --gpus 2 vllm/vllm-openai org/m", "4x H100", ["H100 SXM"] * 2),
        ("CUDA_VISIBLE_DEVICES=0 llama-server -m m.gguf", "2x RTX 3090", ["RTX 3090"]),
        ("CUDA_VISIBLE_DEVICES=0,7 vllm serve org/m", "4x RTX 3090", ["RTX 3090"]),
        ("CUDA_VISIBLE_DEVICES=GPU-3a23c669 vllm serve org/m", "2x RTX 3090", ["RTX 3090"]),
        ("vllm serve org/m -tp 2", "2x RTX 3090", ["RTX 3090"] * 2),
    ],
)
def test_gpus_of_the_command(command: str, gpu: str, names: list[str]) -> None:
    made = with_gpus(parse(command), gpu)
    assert [device.name for device in made.gpus] == names


def test_too_few_are_refused_as_the_engine_does() -> None:
    from oomph.answers.plan import plan

    made = plan("CUDA_VISIBLE_DEVICES=0 vllm serve Qwen/Qwen3-8B -tp 2", gpu="2x H100")
    assert not made.fits and "World size (2) is larger than the number of available GPUs (1)" in made.verdict.message
    assert any("1 of the 2 GPUs" in note for note in made.warnings)


@pytest.mark.parametrize(
    ("command", "gpu", "words"),
    [
        ("CUDA_VISIBLE_DEVICES= vllm serve org/m", "2x RTX 3090", "hides every GPU"),
        ("CUDA_VISIBLE_DEVICES=-1 llama-server -m m.gguf", "RTX 3090", "hides every GPU"),
        ("CUDA_VISIBLE_DEVICES=3 vllm serve org/m", "2x H100", "GPU 3 is not there: 2 are named"),
        ("docker run --gpus device=5 vllm/vllm-openai org/m", "4x H100", "GPU 5 is not there: 4 are named"),
    ],
)
def test_no_gpu_is_left(command: str, gpu: str, words: str) -> None:
    with pytest.raises(CommandError, match=words):
        with_gpus(parse(command), gpu)
