"""What `explain` calls a fix, `plan` calls one too, with the observed terms pinned and under the same ceilings.

The run as its log shows it is planned without the doctor, then each fix of it: it fits, with no share of the card that
this plan calls unsafe, nothing that its judge refuses, and no higher ceiling where nothing is planned.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import accuracy_logs
import pytest
from msgspec.structs import replace

from oomph.advice.ceiling import share_ceiling
from oomph.advice.judge import Judge
from oomph.answers.plan import load, run
from oomph.doctor.beside import read_command
from oomph.doctor.case import Case
from oomph.doctor.enrich import names
from oomph.doctor.explain import explain_read, read_raw
from oomph.doctor.levers import changes
from oomph.doctor.rules import rules
from oomph.doctor.verify import observed_pool
from oomph.engines.registry import engine_named, engine_of
from oomph.errors import OomphError
from oomph.ir import Advice, Deployment, Plan
from oomph.logs.reader import read_paths, read_text

HERE = Path(__file__).parent
FIXTURES = sorted((HERE / "fixtures").glob("*.log"))
CARDS = ("", "RTX 4090", "H100")
TRUTH = HERE.parent / "truth"


def posted() -> Iterator[Case]:
    """Logs of the truth set with the command and the card that their posts name."""
    logs = {row["id"]: row["log"] for row in accuracy_logs.read(TRUTH)}
    for line in (TRUTH / "fixes.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        log = logs.get(row["id"], row.get("log", ""))
        deployment, _ = read_command(row["command"].split(), row.get("engine"))
        yield from case_of(log, deployment, row["gpu"])
    for text in logs.values():
        yield from case_of(text, None, "RTX 4090")


def whole() -> Iterator[Case]:
    """Whole logs of starts that were made to fail on an H200, and of llama.cpp's loads on cards of a given size."""
    for path in sorted((HERE / "whole").glob("*.log")):
        yield from case_of(path.read_text(encoding="utf-8"), None, "H200")
    for name in ("deaths-0.32.0", "deaths-llamacpp"):
        for line in gzip.decompress((TRUTH / f"{name}.jsonl.gz").read_bytes()).splitlines():
            row = json.loads(line)
            yield from case_of(row["log"], None, row.get("gpu") or f"{row['cards']}x{row['card_mib']}MiB")


def case_of(text: str, deployment: Deployment | None, card: str) -> Iterator[Case]:
    with suppress(OomphError):  # no engine's log
        yield read_raw(read_text(f"{text}\n"), deployment, card)


def fixtures(card: str) -> Iterator[Case]:
    return (read_raw(read_paths([str(path)]), None, card) for path in FIXTURES)


def planned_again(case: Case) -> Plan | None:
    """The run as its log shows it, planned without the doctor."""
    engine = engine_named(case.rebuilt.engine or "vllm")
    base = engine.failed_deployment(case)
    if base is None:
        return None
    for name in names(base.model) if engine.layout != "placed" else ():
        try:
            load(name)
        except OomphError:
            continue
        return run(replace(base, model=name, own_build=True))
    return None


def with_pool(after: Plan, before: Plan, pool: int | None) -> Plan:
    """The KV memory that the log observed, moved by as much as the change moves the planned one."""
    if pool is None or after.kv is None or before.kv is None:
        return after
    left = pool + after.kv.available_bytes - before.kv.available_bytes
    return run(replace(after.deployment, given={**after.deployment.given, "available_kv": left}))


def raised_shares(advice: Advice, before: Plan, pool: int | None) -> int:
    """Looks at every fix; the number of those that give the engine more of the card."""
    engine = engine_of(before.deployment)
    knobs = engine.fit_knobs(before.deployment.engine.version)
    judge = Judge(before, run, lambda deployment: "", share_ceiling(before))
    raised = 0
    for fix in advice.fixes:
        assert fix.verified
        after = judge.plan(fix.change)
        assert not isinstance(after, str), (fix.change.label, after)
        assert with_pool(after, before, pool).fits, fix.change.label
        assert judge.judge(fix.change).effect != "refused", fix.change.label
        share = fix.change.flags.get(knobs.share, 0.0) if knobs is not None else 0.0
        if knobs is not None and share > float(before.resolved.get(knobs.share) or 1.0):
            raised += 1
            assert share <= engine.safe_share(after).value, fix.change.label
    return raised


def check(cases: Iterator[Case]) -> tuple[int, int]:
    """(explanations with fixes, fixes that raise the share)."""
    answered = raised = 0
    for case in cases:
        explanation = explain_read(case, plan=True)
        advice = explanation.advice
        before = planned_again(case) if advice is not None and advice.fixes else None
        if advice is not None and before is not None:
            answered += 1
            pool = observed_pool(case, before) if explanation.stage == "kv_check" else None
            raised += raised_shares(advice, before, pool)
    return answered, raised


@pytest.mark.parametrize("card", CARDS)
def test_the_fixes_of_a_fixture_are_fixes_of_its_plan(card: str) -> None:
    answered, _ = check(fixtures(card))
    assert answered >= 10


def test_the_fixes_of_a_posted_log_are_fixes_of_its_plan() -> None:
    answered, raised = check(posted())
    assert answered >= 10 and raised


def test_the_fixes_of_a_whole_log_are_fixes_of_its_plan() -> None:
    answered, _ = check(whole())
    assert answered >= 5


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_nothing_is_above_the_ceiling_where_nothing_is_planned(path: Path) -> None:
    case = read_raw(read_paths([str(path)]), None, "")
    engine = engine_named(case.rebuilt.engine or "vllm")
    for rule in rules():
        finding = rule.speak(case) if engine.name in rule.engines else None
        for change in changes(case, finding.levers) if finding is not None else ():
            share = change.flags.get("gpu_memory_utilization") or 0.0
            assert share <= max(case.util, engine.unplanned_share(case.unified)), (rule.id, change.label)
