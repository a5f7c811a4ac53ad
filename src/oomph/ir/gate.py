"""A gate is one comparison with a limit on the way to a running server; a verdict is what all of them say together.

Every gate is judged at both ends of its interval. Where the ends disagree nobody can call it, and the verdict says so
instead of the more likely half. The errors of different terms are independent of each other (a CUDA context that is
larger than expected says nothing of an activation peak), so they add in quadrature and not end to end.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property
from math import isqrt

from msgspec import Struct

from oomph.ir.ledger import Term
from oomph.ir.timeline import Margin, StageName, Verdict


class Slack(Struct, frozen=True):
    """How far one term may move a gate's margin."""

    term: str
    down: int  # bytes of room that are lost if the term is as unfavourable as it may be
    up: int


class Gate(Struct, frozen=True, dict=True):
    stage: StageName
    room: int  # bytes left at this gate in the expected case; negative: short of so many
    message: str = ""  # what the engine prints when the gate is not passed
    slacks: tuple[Slack, ...] = ()
    rank: int = 0
    risk: str = ""  # a gate that is met only after the start: the load or the event that breaks it

    @cached_property
    def margin(self) -> Margin:
        return Margin(self.room - worst_case(self.slacks), self.room, self.room + best_case(self.slacks))

    @property
    def widest_term(self) -> str:
        """The term that would settle the gate if it were known."""
        return max(self.slacks, key=lambda s: s.down + s.up).term if self.slacks else ""


def quadrature(widths: Iterable[int]) -> int:
    return isqrt(sum([width * width for width in widths]))  # a list: this is asked a hundred times per plan


def worst_case(slacks: Sequence[Slack]) -> int:
    """Bytes of room that are lost where terms are as unfavourable as they may be."""
    return isqrt(sum([slack.down * slack.down for slack in slacks]))


def best_case(slacks: Sequence[Slack]) -> int:
    return isqrt(sum([slack.up * slack.up for slack in slacks]))


def spread(*terms: Term) -> tuple[Slack, ...]:
    """Terms that take room: their upper ends are the unfavourable ones."""
    return tuple([Slack(t.name, t.high - t.bytes, t.bytes - t.low) for t in terms if t.low != t.high])


def released(*terms: Term) -> tuple[Slack, ...]:
    """Terms that give room to this gate when they turn out larger."""
    return tuple(Slack(t.name, t.bytes - t.low, t.high - t.bytes) for t in terms if t.low != t.high)


def judge(gates: Sequence[Gate]) -> Verdict:
    """The gates in the order in which the engine meets them."""
    starts = [gate for gate in gates if not gate.risk]
    fails = next((gate for gate in starts if gate.room < 0), None)
    sure_of_failure = any(gate.margin.high < 0 for gate in starts)
    unsettled = [gate for gate in starts if gate.margin.low < 0 <= gate.margin.high]
    tightest = min(starts, key=lambda gate: gate.margin.low, default=None)
    if fails is not None:
        decisive = fails if sure_of_failure else min(unsettled, key=lambda gate: gate.room)
        return Verdict(
            False, fails.stage, -fails.room, fails.message, fails.rank, sure=sure_of_failure,
            first_to_break=fails.stage, margin=decisive.margin, deciding_term=decisive.widest_term,
        )  # fmt: skip
    if tightest is None:
        return Verdict(True)
    decisive = min(unsettled, key=lambda gate: gate.margin.low) if unsettled else tightest
    broken = next((gate for gate in gates if gate.risk and gate.margin.low < 0), None)
    return Verdict(
        True, rank=decisive.rank, sure=not unsettled, first_to_break=decisive.stage, margin=decisive.margin,
        deciding_term=decisive.widest_term, risk=broken.risk if broken is not None else "",
    )  # fmt: skip


def worst(verdicts: Sequence[Verdict], order: Sequence[str]) -> Verdict:
    """Of several ranks: the one that dies first, else the one that nobody can call, else the tightest."""
    failing = [v for v in verdicts if not v.fits]
    if failing:
        sure = any(v.sure for v in failing)
        candidates = [v for v in failing if v.sure == sure]
        return min(candidates, key=lambda v: (order.index(v.stage) if v.stage in order else 99, -v.short_bytes))
    return min(verdicts, key=lambda v: (v.sure, not v.risk, v.margin.low if v.margin else 0))
