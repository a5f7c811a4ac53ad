"""The part of the model that was being built or run, from the frames of an error."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "plugins" / "vllm" / "src"))
from oomph_vllm.frames import part_of

# the innermost frames of a profiling run that died on an H200 (0.32.0, eager): every forward passes the decorator
MODEL = """
class {name}:
    def __init__(self, inner): self.inner = inner
    def forward(self): return self.inner()
"""
FRAMES = {
    "Qwen2MLP (activation function)": [
        ("model_executor/models/qwen3.py", "Qwen3ForCausalLM"), ("compilation/decorators.py", "Wrapper"),
        ("model_executor/models/qwen3.py", "Qwen3DecoderLayer"), ("model_executor/models/qwen2.py", "Qwen2MLP"),
        ("model_executor/custom_op.py", "CustomOp"), ("model_executor/layers/activation.py", "SiluAndMul"),
    ],
    "Qwen3Attention (attention)": [
        ("model_executor/models/qwen3.py", "Qwen3Attention"), ("model_executor/layers/attention/layer.py", "Attention"),
    ],
    "compiled graph": [("compilation/backends.py", "Backend")],
}  # fmt: skip


def out_of_memory() -> None:
    raise MemoryError


@pytest.mark.parametrize("part", FRAMES)
def test_the_part_is_the_innermost_that_the_frames_name(part: str) -> None:
    call = out_of_memory
    for file, name in reversed(FRAMES[part]):
        space: dict[str, type] = {}
        exec(compile(MODEL.format(name=name), f"/site-packages/vllm/{file}", "exec"), space)
        call = space[name](call).forward
    with pytest.raises(MemoryError) as caught:
        call()
    assert part_of(caught.value) == part
