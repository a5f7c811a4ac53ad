"""fit, gpus and compare with SGLang: what they recommend is a command that its plan admits."""

from __future__ import annotations

import pytest

from oomph.answers.compare import compare
from oomph.answers.plan import plan
from oomph.commands import to_command
from oomph.search.cards import cards
from oomph.search.fit import fit
from oomph.search.request import Want


@pytest.mark.parametrize(
    ("model", "gpus", "context", "users"),
    [
        ("Qwen/Qwen3-32B", "H100", 8192, 4),
        ("Qwen/Qwen3.6-27B", "2x H100", 32768, 16),
        ("openai/gpt-oss-20b", "RTX 4090", 8192, 4),
    ],
)
def test_the_pick_holds_what_was_asked_for(model: str, gpus: str, context: int, users: int) -> None:
    found = fit(model, gpus, Want(context, users), engine="sglang", only=True)
    assert found.met and found.pick is not None and found.engine == "SGLang"
    words = to_command(found.pick.plan.deployment)
    again = plan(words, gpu=gpus)
    assert again.deployment.engine.name == "sglang" and again.fits
    assert again.kv is not None and again.kv.max_concurrency >= users
    assert again.resolved["context_length"] >= context and again.resolved["max_running_requests"] >= users


def test_the_search_leaves_out_what_is_not_planned() -> None:
    found = fit("Qwen/Qwen3.6-27B", "2x H100", Want(8192, 4), engine="sglang", only=True)
    flags = {field for answer in found.front for field in answer.plan.deployment.flags}
    assert "speculative_algorithm" not in flags and "cpu_offload_gb" not in flags


def test_cards_for_a_model() -> None:
    found = cards("Qwen/Qwen3-8B", engine="sglang", only=True, most=3)
    assert len(found.cards) == 3 and all("sglang.launch_server" in card.command for card in found.cards)
    assert all(card.plan.fits for card in found.cards)


def test_compared_with_vllm() -> None:
    rows = {row.engine: row for row in compare("Qwen/Qwen3-8B", gpu="H100", context=8192).rows}
    ours, theirs = rows["sglang"], rows["vllm"]
    assert ours.fits and ours.checkpoint == theirs.checkpoint
    assert ours.weights_bytes == pytest.approx(theirs.weights_bytes, rel=0.02)
    assert plan(ours.command, gpu="H100").fits
