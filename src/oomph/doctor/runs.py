"""A log that holds several start-ups: each of them explained on its own, for a page that shows them side by side."""

from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from oomph.doctor.explain import Observed, explain_read, observe_raw, read_raw, with_answer
from oomph.doctor.explanation import Explanation
from oomph.doctor.reading.failure import find_failure, last_ready
from oomph.doctor.rebuild import devices
from oomph.errors import OomphError
from oomph.ir import Deployment, Device, StageName
from oomph.logs.reader import RawLog, read_paths
from oomph.logs.structure import runs

MOST_RUNS = 8  # the last of a service that was restarted for days


class Run(Struct, frozen=True):
    first_line: int
    last_line: int
    explanation: Explanation
    log: RawLog  # its lines, with the numbers that they have in the whole log
    gpus: tuple[Device, ...] = ()  # as the log or the text around it tells them


class _About(Struct, frozen=True):
    """What is said beside a log, the same for each of its runs."""

    deployment: Deployment | None
    gpus: str
    notes: tuple[str, ...]
    plan: bool
    stage: StageName | None  # the answer to where it failed


def explain_runs(path: str, *, gpus: str = "", plan: bool = True, stage: StageName | None = None) -> list[Run]:
    """At least one; in the order of the log."""
    return explain_raw_runs(read_paths([path]), gpus=gpus, plan=plan, stage=stage)


def explain_raw_runs(
    raw: RawLog,
    *,
    deployment: Deployment | None = None,
    gpus: str = "",
    notes: tuple[str, ...] = (),
    plan: bool = True,
    stage: StageName | None = None,
) -> list[Run]:
    """The same of a log that has been read, with what is said beside it."""
    observed = observe_raw(raw)
    about = _About(deployment, gpus, notes, plan, stage)
    pieces = _pieces(raw, observed) if raw.lines else []
    if len(pieces) < 2:
        return [_run(raw, about, observed)]
    explained = []
    for piece in pieces[-MOST_RUNS:]:
        try:
            explained.append(_run(piece, about))
        except OomphError:  # a banner alone, which no engine's lines follow
            continue
    return explained or [_run(raw, about, observed)]


def _run(log: RawLog, about: _About, observed: Observed | None = None) -> Run:
    case = with_answer(read_raw(log, about.deployment, about.gpus, about.notes, observed), about.stage)
    explanation = explain_read(case, plan=about.plan)
    first, last = (log.lines[0].number, log.lines[-1].number) if log.lines else (0, 0)
    return Run(first, last, explanation, log, devices(case))


def _pieces(raw: RawLog, observed: Observed) -> list[RawLog]:
    """The lines of each start-up. What stands above the first belongs to the first: a command, a question."""
    pieces = runs(observed[1], lambda piece: find_failure(piece) is not None or last_ready(piece) > 0)
    starts = [piece[0].line for piece in pieces if piece]
    bounds = [0, *starts[1:], raw.lines[-1].number + 1]
    return [
        replace(raw, lines=tuple(line for line in raw.lines if low <= line.number < high))
        for low, high in pairwise(bounds)
    ]
