"""Where a failure may have been whose stage nothing asserts: two stages with their probabilities, and the question that
tells them apart."""

from collections.abc import Sequence
from typing import Final

from oomph.doctor.case import Case
from oomph.doctor.reading.meanings import ORDER, TROUBLES, stage_of
from oomph.doctor.reading.milestones import milestone
from oomph.doctor.reading.prose import Chances, mixed, probability
from oomph.doctor.reading.story import passed_stages, told_stages
from oomph.engines.registry import DEFAULT, engine_named
from oomph.engines.values import Words
from oomph.ir import StageName
from oomph.ir.evidence import Question, StageChance, asserts

# What the true stage was where another was said: the reports of tests/truth/field at first sight (a test counts them).
MISTAKEN: Final[dict[StageName, dict[StageName, int]]] = {
    "other": {"runtime_request": 21, "weights_load": 14, "startup_free_memory": 8, "profile_run": 5, "kv_check": 3,
              "kv_alloc": 3, "host_ram": 3, "cudagraph_capture": 2},
    "startup_free_memory": {"other": 5, "weights_load": 2, "runtime_request": 2, "cudagraph_capture": 1},
    "weights_load": {"kv_alloc": 3, "other": 3, "host_ram": 3, "profile_run": 3, "runtime_request": 1},
    "profile_run": {"other": 3, "kv_alloc": 2, "weights_load": 2, "host_ram": 1, "runtime_request": 1},
    "kv_check": {"cudagraph_capture": 2, "runtime_request": 1},
    "kv_alloc": {"kv_check": 3, "runtime_request": 2, "weights_load": 2, "cudagraph_capture": 1, "profile_run": 1},
    "cudagraph_capture": {"runtime_request": 2},
    "runtime_request": {"weights_load": 8, "profile_run": 6, "kv_alloc": 5, "sampler_warmup": 4, "other": 4,
                        "host_ram": 3, "startup_free_memory": 2, "cudagraph_capture": 1},
    "host_ram": {"other": 2, "startup_free_memory": 1},
}  # fmt: skip
TOLD: Final = 4  # what a stage that is told of counts, for each of its weight: more than all mistakes of the record
NEIGHBOUR: Final = 1  # what a stage beside the one that is said counts, where no report was mistaken so


def stage_chances(case: Case) -> tuple[StageChance, ...]:
    """The stage that is asserted, else the two likeliest; nothing of a run that did not fail."""
    stage, basis = case.death.stage, case.death.basis
    if not case.failed or stage is None:
        return ()
    right = probability(basis)
    if asserts(basis) or stage_of(TROUBLES, case.death.kind or "") == stage:
        return (StageChance(stage, right),)  # what it was is known, and that it ends a run there and nowhere else
    others = _others(case, stage)
    if case.death.learned:
        return _with_learned(case, stage, right, others)
    if not others:
        return (StageChance(stage, right),)
    second = max(others, key=lambda name: (others[name], -ORDER.index(name)))
    share = others[second] / sum(others.values())
    return StageChance(stage, right), StageChance(second, round((1 - right) * share, 2))


def _with_learned(case: Case, stage: StageName, right: float, others: Chances) -> tuple[StageChance, ...]:
    """What the rules said, with what is mistaken for it, beside what texts like this one were about."""
    ruled = case.death.ruled
    rules: Chances = {}
    whole = sum(others.values()) or 1.0
    if ruled is not None:
        rules = {name: (1 - right) * weight / whole for name, weight in others.items() if name != ruled}
        rules |= {ruled: right}
    chances = mixed(rules, dict(case.death.learned))
    second = max((name for name in chances if name != stage), key=lambda name: (chances[name], -ORDER.index(name)))
    first = chances[stage]
    return StageChance(stage, round(first, 2)), StageChance(second, round(min(first, chances[second]), 2))


def _others(case: Case, stage: StageName) -> dict[StageName, float]:
    """What else it may be, weighed by how often one was taken for the other; not what the log shows to be over."""
    weights: dict[StageName, float] = dict(MISTAKEN.get(stage, {}))
    for name in _neighbours(case, stage):
        weights[name] = max(weights.get(name, 0), NEIGHBOUR)
    missing = _missing(case)
    for name, weight in told_stages(case.claims, missing).items():
        weights[name] = weights.get(name, 0) + TOLD * weight
    over = _over(case) | (passed_stages(case.claims, ORDER) - {stage})
    weights.pop(stage, None)
    if case.death.kind == "torch_oom":
        weights.pop("kv_check", None)  # the check compares two figures: nothing is allocated there
    return {name: weight for name, weight in weights.items() if name not in missing and name not in over}


def _neighbours(case: Case, stage: StageName) -> tuple[StageName, ...]:
    """The stages before and behind it that this engine has."""
    if stage in ("other", "host_ram"):
        return ()
    missing = _missing(case)
    has = [name for name in ORDER if name not in ("other", "host_ram") and name not in missing]
    at = has.index(stage) if stage in has else 0
    return tuple(has[max(0, at - 1) : at] + has[at + 1 : at + 2])


def _missing(case: Case) -> Sequence[str]:
    """What a program that does not serve has none of: it loads, and does its own work."""
    if case.speaker is not None and not case.speaker.serves:
        return [stage for stage in ORDER if stage not in ("other", "weights_load", "host_ram")]
    return _words(case).missing_stages


def _over(case: Case) -> frozenset[StageName]:
    """Stages that were over when it failed: a line that only stands behind them was printed before."""
    reached = milestone([one for one in case.observations if one.line < case.death.line])
    if reached is None:
        return frozenset()
    return frozenset(name for name in ORDER[: ORDER.index(reached)] if name != case.death.stage)


def _words(case: Case) -> Words:
    return engine_named(case.rebuilt.engine or DEFAULT).words


def question(case: Case, chances: tuple[StageChance, ...]) -> Question | None:
    """None where the stage is asserted, and where no question tells the two apart."""
    if len(chances) < 2:
        return None
    earlier, later = sorted((chance.stage for chance in chances), key=ORDER.index)
    text = _asked(case, earlier, later)
    return Question(text, {"yes": later, "no": earlier}, _command(case)) if text else None


def _asked(case: Case, earlier: StageName, later: StageName) -> str:
    """What an engine of ours prints is asked only of a text that may be its own."""
    if later == "host_ram":
        return "Does dmesg -T, or kubectl describe pod, say that the process was killed for memory?"
    if later == "runtime_request":
        return "Had it ever answered a request?"
    if case.speaker is not None:
        return ""
    opens = _words(case).opens
    between = ORDER[ORDER.index(earlier) + 1 : ORDER.index(later) + 1]
    line = next((opens[stage] for stage in reversed(between) if stage in opens), "")
    return f'Had it printed "{line}"?' if line else ""


def _command(case: Case) -> str:
    """Starts the same once more, watched."""
    engine = engine_named(case.rebuilt.engine or DEFAULT)
    command = engine.log_command(case.rebuilt.model, case.rebuilt.flags, case.rebuilt.environment)
    if not case.rebuilt.engine or not case.rebuilt.model or not command:
        return ""
    return f"oomph run -- {'env ' if '=' in command.partition(' ')[0] else ''}{command}"
