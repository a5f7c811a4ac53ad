"""The summary of a served load at its bounds: how full, how many requests, who waits and for what."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from oomph.doctor.serving import summary
from oomph.ir.observation import Observation


def told(*reports: tuple[float, int, int], kind: Any = "stats") -> str:
    """Each report: per cent of the cache, running, waiting."""
    observations = [
        Observation(line, kind, {"usage": usage, "running": running, "waiting": waiting})
        for line, (usage, running, waiting) in enumerate(reports, 1)
    ]
    case: Any = SimpleNamespace(observations=(*observations, Observation(99, "serving")))
    return summary(case)


@pytest.mark.parametrize(
    ("reports", "words"),
    [
        ([(50.0, 1, 0)], "up to 1 request running, none waiting."),
        ([(50.0, 2, 0)], "up to 2 requests running, none waiting. One request holds about 25 % of it: about 4"),
        ([(50.0, 2, 3)], "up to 2 requests running and 3 waiting."),
        ([(9.9, 2, 0)], "9.9 % used, up to 2 requests running, none waiting."),
        ([(10.0, 2, 0)], "One request holds about 5 % of it: about 20"),
        ([(40.0, 1, 0), (40.4, 1, 0)], "KV cache 40.4 % used"),
        ([(40.0, 1, 0), (40.5, 1, 0)], "KV cache 40 to 40.5 % used"),
        ([(95.0, 1, 0)], "It is nearly full"),
        ([(95.0, 4, 1)], "They wait for KV blocks"),
        ([(94.9, 4, 1), (90.0, 4, 1)], "4 run all the time"),
        ([(50.0, 1, 1), (50.0, 1, 1)], "only one runs"),
        ([(50.0, 1, 1)], "prefills go in as"),
        ([(50.0, 4, 1), (50.0, 3, 1)], "prefills go in as"),
    ],
)
def test_what_a_served_load_says(reports: list[tuple[float, int, int]], words: str) -> None:
    assert words in told(*reports)


def test_what_is_not_said() -> None:
    assert told() == ""
    assert "One request" not in told((50.0, 1, 0)) + told((9.9, 2, 0))
    assert "nearly full" not in told((94.9, 1, 0))
    assert "They wait for KV blocks" not in told((94.9, 4, 1))


def test_sglang_prints_a_share_and_vllm_per_cent() -> None:
    assert "KV cache 50 % used" in told((0.5, 1, 0), kind="sg_stats")
    assert "KV cache 0.5 % used" in told((0.5, 1, 0))
