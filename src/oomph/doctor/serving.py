"""What the periodic lines of a running server say: how full the KV cache is, who waits, and what makes them wait."""

from collections.abc import Sequence

from oomph.doctor.case import Case
from oomph.ir.observation import Observation

FULL = 95.0  # per cent of the KV cache: the next blocks push a request out


def summary(case: Case) -> str:
    """Nothing where the log has no such line."""
    lines = [
        observation
        for observation in case.observations
        if observation.kind in ("stats", "sg_stats") and "usage" in observation.values
    ]
    if not lines:
        return ""
    scale = 100.0 if lines[0].kind == "sg_stats" else 1.0
    used = [float(o.values["usage"]) * scale for o in lines]
    running, waiting = _most(lines, "running"), _most(lines, "waiting")
    text = f" A running server: {len(lines):,} reports, KV cache {_range(used)} used"
    text += f", up to {running:,} request{'s' if running > 1 else ''} running" if running else ""
    text += f" and {waiting:,} waiting." if waiting else ", none waiting." if running else "."
    return text + _share(lines, scale) + _bound(lines, used, running, waiting)


def _most(lines: Sequence[Observation], name: str) -> int:
    return max((int(o.values.get(name, 0)) for o in lines), default=0)


def _range(used: Sequence[float]) -> str:
    low, high = min(used), max(used)
    return f"{high:.4g} %" if high - low < 0.5 else f"{low:.4g} to {high:.4g} %"


def _share(lines: Sequence[Observation], scale: float) -> str:
    """What one request holds, where the cache is used enough to tell."""
    peak = max(lines, key=lambda observation: float(observation.values["usage"]))
    used, running = float(peak.values["usage"]) * scale, int(peak.values.get("running", 0))
    if running < 2 or used < 10:
        return ""
    each = used / running
    return f" One request holds about {each:.2g} % of it: about {int(100 / each):,} of this length fit at once."


def _bound(lines: Sequence[Observation], used: Sequence[float], running: int, waiting: int) -> str:
    """Who waits, waits for blocks, for a place among the running ones, or for the prefills before it."""
    if not waiting:
        return "" if max(used) < FULL else " It is nearly full: longer answers or one more request will be preempted."
    if max(used) >= FULL:
        return " They wait for KV blocks: more KV memory, an 8-bit KV cache or shorter requests let more of them in."
    queued = [o for o in lines if int(o.values.get("waiting", 0))]
    counts = {int(o.values.get("running", 0)) for o in queued}
    if len(queued) >= 2 and counts == {running} and running > 1:
        return f" The cache is not what they wait for: {running} run all the time, which is --max-num-seqs or its like."
    if len(queued) >= 2 and counts == {running}:
        return (
            " The cache is not full and only one runs: a prompt that is admitted alone (long, or larger than what is"
            " left), or a release before 0.21 that charges sliding windows with the whole prompt."
        )
    return " The cache is not what they wait for: prefills go in as --max-num-batched-tokens allows, step by step."
