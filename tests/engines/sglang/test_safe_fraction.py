"""How high --mem-fraction-static may go: the figure that advice, fit and the plan's warning share."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from oomph.answers.plan import parse, run, with_advice
from oomph.engines.sglang.engine import ENGINE
from oomph.ir.advice import Advice
from oomph.ir.plan import Plan
from oomph.sources.gpu import parse_gpus


def planned(gpus: str, command: str) -> Plan:
    words = f"python -m sglang.launch_server --model-path {command}".split()
    return run(replace(parse(words, "sglang==0.5.23"), gpus=parse_gpus(gpus)))


def advice_of(plan: Plan) -> Advice:
    advice = with_advice(plan).advice
    assert advice is not None
    return advice


CASES = [
    ("RTX 4090", "Qwen/Qwen3-8B"),
    ("H100", "Qwen/Qwen3-32B-FP8"),
    ("H200", "deepseek-ai/DeepSeek-V2-Lite"),
    ("2x RTX 5090", "Qwen/Qwen3-32B-FP8 --tp 2"),
    ("H100", "Qwen/Qwen3.6-27B-FP8"),
    ("L40S", "openai/gpt-oss-20b --max-running-requests 64"),
]


@pytest.mark.parametrize(("gpus", "command"), CASES)
def test_the_safe_share_fits_and_more_is_warned_of(gpus: str, command: str) -> None:
    safe, reason = ENGINE.safe_share(planned(gpus, command))
    assert 0.5 < safe < 1 and "beside the pools" in reason
    at_it = planned(gpus, f"{command} --mem-fraction-static {safe:g}")
    assert at_it.verdict.outcome == "fits"
    assert not any("highest safe" in note for note in at_it.warnings)
    assert ENGINE.safe_share(at_it)[0] == pytest.approx(safe, abs=0.011)
    above = planned(gpus, f"{command} --mem-fraction-static {min(0.99, safe + 0.02):g}")
    assert above.verdict.outcome != "fits" or any("highest safe" in note for note in above.warnings)


def test_advice_raises_the_share_to_what_is_safe() -> None:
    plan = planned("RTX 4090", "Qwen/Qwen3-8B")
    safe, _ = ENGINE.safe_share(plan)
    (raised,) = [judged for judged in advice_of(plan).helps if judged.change.lever == "mem_fraction_static_up"]
    assert raised.change.flags["mem_fraction_static"] == safe
    assert raised.tokens > 4 * plan.kv.logged_tokens if plan.kv else False


def test_a_share_that_is_too_high_is_lowered_to_what_is_safe() -> None:
    plan = planned("RTX 4090", "Qwen/Qwen3-8B --mem-fraction-static 0.95")
    assert plan.verdict.outcome != "fits"
    lowered = [judged for judged in advice_of(plan).fixes if judged.change.lever == "mem_fraction_static_down"]
    assert lowered and lowered[0].tokens > 30_000
