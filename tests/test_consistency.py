"""What the picture says is what the JSON says, and the figures of one plan agree with each other."""

from __future__ import annotations

import io

import pytest

from oomph.answers.plan import plan
from oomph.ir.plan import Plan
from oomph.report.bars import sizes
from oomph.report.views import print_answer
from replay import cases

CASES = cases("plan")[::23]


def planned(arguments: list[str]) -> Plan | None:
    from oomph.errors import OomphError

    at = arguments.index("--")
    options = dict(zip(arguments[:at:2], arguments[1:at:2], strict=True))
    try:
        return plan(arguments[at + 1 :], gpu=options["--gpu"], engine=options.get("--engine", ""), advise=False)
    except OomphError:
        return None


@pytest.mark.parametrize("arguments", CASES, ids=" ".join)
def test_one_plan_agrees_with_itself(arguments: list[str]) -> None:
    answer = planned(arguments)
    if answer is None or not answer.ranks:
        return
    for rank in answer.ranks:
        _check_budget(rank.terms["available_kv"].parts, rank.terms) if "available_kv" in rank.terms else None
        used = sum(size for _, size in sizes(rank, answer))
        if answer.verdict.outcome == "fits":
            assert all(stage.peak_bytes <= rank.total_bytes for stage in rank.stages)
            assert used <= rank.total_bytes
    kv = answer.kv
    overridden = "num_gpu_blocks_override" in answer.deployment.flags
    if kv is not None and answer.fits and not overridden:
        assert kv.num_blocks * kv.bytes_per_block <= max(kv.available_bytes, 0)


def _check_budget(parts: dict[str, int], terms: dict[str, object]) -> None:
    """Every part of the budget is a term of its own, and they add up to what is left for the cache."""
    if not parts:
        return
    assert all(name in terms for name in parts if name not in ("requested", "others", "multimodal_ipc"))
    assert abs(sum(parts.values()) - terms["available_kv"].bytes) < 1 << 30  # type: ignore[attr-defined]


def test_a_failing_plan_shows_the_peak_that_kills_it() -> None:
    for command, gpu in (
        ("vllm serve Qwen/Qwen3-8B --max-model-len 36000", "RTX 4090"),
        ("vllm serve Qwen/Qwen3-8B", "RTX 4090 used 3GiB"),
        ("vllm serve cyankiwi/Qwen3.6-27B-AWQ-INT4", "RTX 5090"),
        ("vllm serve Qwen/Qwen3-32B", "RTX 4090"),
    ):
        out = io.StringIO()
        print_answer(plan(command, gpu=gpu, engine="vllm==0.21.0", advise=False), out=out)
        assert "WILL NOT START" in out.getvalue() and "]!!" in out.getvalue(), command


def test_what_is_allocated_beside_the_cache_is_counted_once() -> None:
    """SGLang's table of requests takes 7.8 GiB for a model of 512k tokens, and has a term of its own."""
    answer = plan("sglang serve jinaai/ReaderLM-v2 --kv-cache-dtype fp8_e4m3 --mem-fraction-static 0.8", gpu="H100")
    rank = answer.ranks[0]
    assert answer.fits and sum(size for _, size in sizes(rank, answer)) <= rank.total_bytes
