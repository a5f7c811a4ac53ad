"""Two plans side by side: what moves, and for an upgrade, which release moved it.

An upgrade is walked release by release: every figure that differs from the release before is put down to it, so that
nothing has to be written twice about versions.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from oomph.answers.plan import run
from oomph.engines.registry import engine_of
from oomph.errors import OomphError
from oomph.ir import STAGE_WORDS, Deployment, Plan, Verdict
from oomph.ir.printed import Printed


class Change(Struct, frozen=True):
    what: str  # "available_kv", "max_num_batched_tokens", "verdict"
    before: Any
    after: Any
    since: str = ""  # the release that moved it
    kind: str = "figure"  # figure, setting, verdict, flag


class Diff(Printed, frozen=True):
    """What `oomph diff` prints: two plans, and which release moved what."""

    before: Plan
    after: Plan
    changes: tuple[Change, ...]
    steps: tuple[Change, ...] = ()  # every move on the way, release by release
    flags: tuple[str, ...] = ()  # what the other release says to flags that it does not have

    def in_short(self) -> str:
        first, last = self.before.verdict.outcome, self.after.verdict.outcome
        return f"{self.before.model}: {first} -> {last}, {len(self.changes)} changes"


def diff(before: Deployment, after: Deployment, flags: tuple[str, ...] = ()) -> Diff:
    """`flags`: what the second release says to flags of the command that it does not have: it stops there."""
    first, last = run(before), run(after)
    if flags:
        refused = Verdict(False, "other", 0, "; ".join(flags))
        last = replace(last, verdict=refused)
    steps = _walk(before, after) if before.engine.version != after.engine.version else []
    return Diff(first, last, tuple(_changes(first, last)), tuple(steps), flags)


def _walk(before: Deployment, after: Deployment) -> list[Change]:
    engine = engine_of(after)
    releases = engine.releases()
    first, last = (releases.index(engine.nearest(d.engine.version)[0]) for d in (before, after)) if releases else (0, 0)
    path = releases[first : last + 1] if first <= last else releases[last : first + 1][::-1]
    steps: list[Change] = []
    at: Plan | None = None
    for version in path:
        deployment = replace(after, engine=replace(after.engine, version=version))
        try:
            plan = run(deployment)
        except OomphError:
            continue
        if at is not None:
            steps += [replace(c, since=version) for c in _changes(at, plan)]
        at = plan
    return steps


def _changes(before: Plan, after: Plan) -> list[Change]:
    out = [
        *_moved(before.resolved, after.resolved, "setting"),
        *_moved(_figures(before), _figures(after), "figure"),
    ]
    if (before.verdict.fits, before.verdict.stage) != (after.verdict.fits, after.verdict.stage):
        out.append(Change("verdict", _words(before), _words(after), kind="verdict"))
    return sorted(out, key=lambda c: (("verdict", "figure", "setting", "flag").index(c.kind), c.what))


def _moved(before: Mapping[str, Any], after: Mapping[str, Any], kind: str) -> Iterator[Change]:
    for key in before.keys() | after.keys():
        if before.get(key) != after.get(key):
            yield Change(key, before.get(key), after.get(key), kind=kind)


def _words(plan: Plan) -> str:
    return "fits" if plan.fits else f"will not start: {STAGE_WORDS[plan.verdict.stage or 'other'][0]}"


def _figures(plan: Plan) -> dict[str, Any]:
    out: dict[str, Any] = {}
    if plan.ranks:
        worst = plan.ranks[min(plan.verdict.rank, len(plan.ranks) - 1)]
        out = {name: t.bytes for name, t in worst.terms.items()}
    if plan.kv is not None:
        kv = plan.kv
        out |= {
            "kv_tokens": kv.logged_tokens,
            "max_concurrency": round(kv.max_concurrency, 2),
            "num_blocks": kv.num_blocks,
            "kv_need_of_one_request": kv.need_bytes,
        }
    return out
