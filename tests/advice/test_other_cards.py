"""Another checkpoint or another card is advice for every engine that batches, and fit says what it does not search."""

from __future__ import annotations

import pytest

from oomph.answers.plan import plan


@pytest.mark.parametrize(
    ("command", "gpu", "label"),
    [
        ("python -m sglang.launch_server --model-path Qwen/Qwen3-32B", "RTX 5090", "Qwen/Qwen3-32B-AWQ"),
        ("trtllm-serve deepseek-ai/DeepSeek-V3.1 --tp_size 8", "8x H100", "on 8 x H200"),
        ("vllm serve Qwen/Qwen3-14B --max-model-len 8192", "RTX 4090", "Qwen/Qwen3-14B-AWQ"),
    ],
)
def test_what_no_flag_fixes_is_fixed_by_another_checkpoint_or_card(command: str, gpu: str, label: str) -> None:
    advice = plan(command, gpu=gpu).advice
    assert advice is not None
    fix = next(fix for fix in advice.fixes if fix.change.label.startswith(label))
    cards = "8x H200" if fix.change.gpus else gpu
    engine = plan(command, gpu=gpu, advise=False).deployment.engine
    assert plan(fix.command, gpu=cards, engine=f"{engine.name}=={engine.version}").verdict.outcome == "fits"
