"""A verdict says fits or fails only where both ends of every interval agree."""

from __future__ import annotations

from hypothesis import given, strategies as st

from oomph.ir.gate import Gate, Slack, judge, quadrature, worst
from oomph.ir.timeline import STAGES

GIB = 1 << 30
ROOM = st.integers(-4 * GIB, 4 * GIB)
SLACKS = st.lists(st.builds(Slack, st.sampled_from(["context", "weights"]), st.integers(0, GIB), st.integers(0, GIB)))
GATES = st.lists(
    st.builds(Gate, st.sampled_from(STAGES), ROOM, st.just("text"), SLACKS.map(tuple)), min_size=1, max_size=6
)


@given(GATES)
def test_a_certain_verdict_holds_at_both_ends(gates: list[Gate]) -> None:
    verdict = judge(gates)
    if verdict.outcome == "fits":
        assert all(gate.margin.low >= 0 for gate in gates)
    if verdict.outcome == "fails":
        assert any(gate.margin.high < 0 for gate in gates)
    if verdict.outcome == "close":
        assert any(gate.margin.low < 0 <= gate.margin.high for gate in gates)
    assert verdict.fits == all(gate.room >= 0 for gate in gates)


@given(GATES, st.integers(0, GIB))
def test_more_room_never_turns_fits_into_less(gates: list[Gate], more: int) -> None:
    order = ("fails", "close", "fits")
    roomier = [Gate(g.stage, g.room + more, g.message, g.slacks, g.rank) for g in gates]
    assert order.index(judge(roomier).outcome) >= order.index(judge(gates).outcome)


def test_independent_errors_add_in_quadrature() -> None:
    assert quadrature((3, 4)) == 5
    gate = Gate("kv_check", 10, slacks=(Slack("context", 3, 30), Slack("cudagraph", 4, 40)))
    assert (gate.margin.low, gate.margin.expected, gate.margin.high) == (5, 10, 60)
    assert gate.widest_term == "cudagraph"


def test_the_first_stage_that_fails_is_named_and_the_tightest_decides() -> None:
    unsettled = Gate("weights_load", 2, "load", (Slack("load_peak", 5, 5),))
    failing = Gate("kv_check", -7, "check")
    verdict = judge([unsettled, failing])
    assert (verdict.stage, verdict.short_bytes, verdict.outcome, verdict.message) == ("kv_check", 7, "fails", "check")
    close = judge([unsettled])
    assert (close.outcome, close.fits, close.deciding_term) == ("close", True, "load_peak")
    assert close.margin is not None and (close.margin.low, close.margin.high) == (-3, 7)


def test_a_gate_after_the_start_is_a_risk_and_not_a_failure() -> None:
    starts = Gate("kv_check", 5)
    serving = Gate("runtime_request", -1, risk="a batch of long prompts takes 1 GiB more than is left")
    verdict = judge([starts, serving])
    assert verdict.outcome == "at_risk" and verdict.fits and verdict.risk.startswith("a batch")


def test_of_several_ranks_the_first_to_die_is_named() -> None:
    fits, fails = judge([Gate("kv_check", 5)]), judge([Gate("weights_load", -5, "load", (), 1)])
    later = judge([Gate("kv_check", -9, "check", (), 2)])
    assert worst([fits, later, fails], STAGES) is fails
