"""explain(log) -> Explanation: the stage, the ledger, the cause, what fixes it and what does not."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from oomph.doctor.case import Case, build
from oomph.doctor.inferred import Inferred, inferred
from oomph.doctor.ledger import Entry
from oomph.doctor.rule import Candidate, Rejected, Remedy, Rule
from oomph.doctor.rules import rules
from oomph.doctor.serving import summary
from oomph.doctor.stages import WEAK
from oomph.errors import InputError
from oomph.ir.deployment import Deployment
from oomph.ir.hardware import Device
from oomph.logs.clean import lines as clean_lines
from oomph.logs.deployment import Rebuilt, render
from oomph.logs.parse import engine_of, observe
from oomph.logs.reader import RawLog, read_paths, read_text

ENGINE_NAMES = "vLLM, SGLang, llama.cpp, Ollama or TensorRT-LLM"
SURE = 60  # a candidate at or above it is a cause, below it a possibility
CLOSE = 6  # candidates closer than this are not told apart
# where the reason stands that a log without it has lost; Python engines end a traceback with it
REASON = {
    "llamacpp": 'the lines before the process ended, from "load_tensors:" on (-lv 4 prints more)',
    "ollama": "Ollama's own log (journalctl -u ollama, server.log): the runner's lines before it ended",
}


# lines that no engine prints and that are worth an answer all the same
ALONE = frozenset(
    {"torch_oom", "cuda_error_oom", "host_kill", "container_kill", "ray_kill", "driver_oom", "shm_full", "nccl_oom"}
)


# how vLLM begins a line (logger.py): the level, the date without its year, the place
VLLM_HEADER = re.compile(
    r"\b(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d \[?[\w./]{1,80}\.py:\d{1,5}\]"
)


class EngineInfo(Struct, frozen=True):
    name: str
    version: str = ""
    version_from: str = ""


class Cause(Struct, frozen=True):
    id: str
    title: str
    text: str
    sure: bool = True
    score: int = 0


class Possible(Struct, frozen=True):
    id: str
    title: str
    score: int
    text: str
    settle: str = ""


class Evidence(Struct, frozen=True):
    line: int
    text: str


class Explanation(Struct, frozen=True):
    engine: EngineInfo
    failed: bool
    stage: str | None
    cause: Cause
    ledger: tuple[Entry, ...] = ()
    unaccounted_bytes: int | None = None
    remedies: tuple[Remedy, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    candidates: tuple[Possible, ...] = ()
    settle: str = ""  # what would decide between the candidates
    stage_basis: str = ""
    model: str = ""
    command: str = ""
    total_bytes: int = 0
    notes: tuple[str, ...] = ()
    inferred_stage: str | None = None  # of a log without an error: where it would have died, never a failure
    inferred_reason: str = ""


def explain(
    log: str | Path | Sequence[str | Path],
    *,
    deployment: Deployment | None = None,
    gpus: str | tuple[Device, ...] = (),
    plan: bool = True,
) -> Explanation:
    """Understand a log: a file, several in order (`-` is standard input), or the text itself.

    `deployment` and `gpus` ("2x RTX 3090") say what the log does not. Unless `plan` is off, remedies are planned.
    """
    if isinstance(gpus, str):
        from oomph.sources.gpu import parse_gpus

        gpus = parse_gpus(gpus)
    if isinstance(log, Path) or (isinstance(log, str) and _is_path(log)):
        log = [log]
    case = read_case(log, deployment=deployment, gpus=gpus)
    result = explain_case(case)
    if not plan:
        return result
    from oomph.doctor.verify import planned

    return planned(case, result)


def _is_path(text: str) -> bool:
    """A log has lines; a path has none."""
    if "\n" in text or len(text) > 1000 or not text.strip():
        return False
    try:
        there = Path(text).exists()
    except (OSError, ValueError):
        there = False
    return there or text == "-" or (" " not in text and text.endswith((".log", ".txt", ".gz", ".out")))


def read_case(
    log: str | Sequence[str | Path], *, deployment: Deployment | None = None, gpus: tuple[Device, ...] = ()
) -> Case:
    """`log`: the text, or a list of paths."""
    raw = read_text(log) if isinstance(log, str) else read_paths(str(path) for path in log)
    return case_of(raw, deployment, gpus)


def case_of(raw: RawLog, deployment: Deployment | None = None, gpus: tuple[Device, ...] = ()) -> Case:
    lines = clean_lines(raw.lines)
    observations = observe(lines)
    _refuse_other(raw, [o.kind for o in observations], engine_of(observations))
    devices = gpus or (deployment.gpus if deployment else ())
    case = build(lines, observations, devices)
    return msgspec.structs.replace(case, rebuilt=_with(case.rebuilt, deployment)) if deployment else case


def _refuse_other(raw: RawLog, kinds: Sequence[str], engine: str) -> None:
    if engine or not ALONE.isdisjoint(kinds) or any(VLLM_HEADER.search(line.text[:400]) for line in raw.lines):
        return
    if raw.total_bytes < 2:
        raise InputError(f"{raw.source} is empty")
    raise InputError(
        f"{raw.source} is not a log of {ENGINE_NAMES}: none of its {raw.total_lines:,} lines is one that they print",
        hint="give the engine's own output, from its first line; a traceback alone is not enough",
    )


def _with(rebuilt: Rebuilt, deployment: Deployment) -> Rebuilt:
    """What the user says is in force; the log fills in the rest."""
    flags = {**rebuilt.flags, **deployment.flags}
    told = deployment.engine.version_from not in ("newest known", "installed package")
    version = rebuilt.version or (deployment.engine.version if told else "")
    version_from = rebuilt.version_from or (deployment.engine.version_from if told else "")
    return msgspec.structs.replace(
        rebuilt, flags=flags, model=deployment.model or rebuilt.model, version=version, version_from=version_from,
        engine=rebuilt.engine or deployment.engine.name,
    )  # fmt: skip


def explain_case(case: Case) -> Explanation:
    engine = case.rebuilt.engine or "vllm"
    ranked = candidates(case, engine)
    best = ranked[0] if ranked else None
    cause = _cause(case, best)
    remedies, rejected = _advice(case, ranked)
    near = [c for c in ranked[1:5] if best and c[1].score >= best[1].score - 25]
    settle = best[1].settle if best and (best[1].score < SURE or _undecided(ranked)) else ""
    if cause.id == "unknown":
        settle = REASON.get(engine, "the last line of the first traceback: the exception and its message")
    notes = []
    if not case.rebuilt.engine:
        notes.append("no line names the engine; taken for vLLM")
    told = inferred(case) if case.failed or cause.id == "none" else Inferred()  # a rule has said what it is about
    likely = None if case.failed else told.stage  # said to be inferred by stage_basis, and never a failure
    return Explanation(
        EngineInfo(engine, case.rebuilt.version, case.rebuilt.version_from),
        case.failed,
        likely or case.death.stage,
        cause,
        case.account.entries,
        case.account.unaccounted,
        remedies,
        rejected,
        _evidence(case, best),
        tuple(Possible(r.id, r.title, c.score, c.text, c.settle) for r, c in near),
        settle,
        "inferred" if likely else case.death.basis,
        case.rebuilt.model,
        render(case.rebuilt.model, case.rebuilt.flags, case.rebuilt.environment) if engine == "vllm" else "",
        case.total or 0,
        tuple(notes),
        told.stage,
        told.reason,
    )


def candidates(case: Case, engine: str) -> list[tuple[Rule, Candidate]]:
    """Every rule that speaks, the best first: rules give candidates, their arithmetic scores them."""
    found = []
    for rule in rules():
        if engine not in rule.engines:
            continue
        if case.version and case.within(rule.since, rule.until) is False and rule.id not in _UNDATED:
            continue
        candidate = rule.match(case)
        if candidate is not None:
            found.append((rule, candidate))
    return sorted(found, key=lambda pair: -pair[1].score)


# their own match looks at the version, or the wording is a fork's
_UNDATED = frozenset({"K05", "K07", "P05", "C02", "L03", "R04", "K03", "K02", "D01", "X01", "R10", "P10"})


def _undecided(ranked: Sequence[tuple[Rule, Candidate]]) -> bool:
    return len(ranked) > 1 and ranked[0][1].score < 95 and ranked[0][1].score - ranked[1][1].score < CLOSE


def _cause(case: Case, best: tuple[Rule, Candidate] | None) -> Cause:
    if best is not None and (case.failed or best[1].score >= 40):
        rule, candidate = best
        sure, text = candidate.score >= SURE, candidate.text
        if case.failed and case.death.kind in WEAK and not case.memory and candidate.score < 95 and rule.id != "R13":
            sure, text = False, f"The error itself is not in this part of the log. If it was memory: {text}"
        return Cause(rule.id, rule.title, text, sure, candidate.score)
    if case.failed:
        text = "Something failed, but what is in this log does not say why."
        return Cause("unknown", "The cause is not in this log", text, False)
    return Cause("none", "Nothing failed", _healthy(case))


def _healthy(case: Case) -> str:
    """Where the memory went in a run that did not fail."""
    from oomph.units import gib

    known = [f"{e.term} {gib(e.bytes)}" for e in case.account.entries if e.bytes]
    text = f"Nothing failed in this log. It shows {', '.join(known)}." if known else "Nothing failed in this log."
    text += summary(case)
    tokens, times = case.value("kv_tokens", "tokens"), case.real("concurrency", "concurrency")
    length = case.value("concurrency", "max_model_len")
    if times and length:
        text += f" The KV cache holds about {int(times * length):,} tokens: {times:g} requests of {length:,}."
    elif tokens:
        text += f" The KV cache holds {tokens:,} tokens."
    unused = _unused(case)
    if unused:
        text += unused
    stage = case.death.stage
    if stage and stage not in ("runtime_request", "kv_alloc", "sampler_warmup") and not inferred(case).reason:
        text += f" The log ends in stage {stage}."
    return text


def _unused(case: Case) -> str:
    """What the budget leaves of a card that nobody else uses."""
    from oomph.units import GIB, gib

    free, total = case.value("ledger", "free"), case.value("ledger", "total")
    if not free or not total or not case.account.util:
        return ""
    most = min(0.95, int((free - 0.5 * GIB) / total * 100) / 100)
    more = round((most - case.util) * total)
    if more < GIB:
        return ""
    outside = gib(total - round(case.util * total))
    return f" {outside} are outside of the budget: --gpu-memory-utilization {most} gives the KV cache {gib(more)} more."


def _advice(case: Case, ranked: Sequence[tuple[Rule, Candidate]]) -> tuple[tuple[Remedy, ...], tuple[Rejected, ...]]:
    """The best candidate's remedies, the cheapest first; nothing that the case rejects."""
    if not ranked or (not case.failed and ranked[0][1].score < 40):
        return (), ()
    best = ranked[0][1]
    rejected = list(best.rejected)
    own = {r.lever for r in best.remedies}
    rejected = [r for r in rejected if r.lever not in own] if case.failed else rejected
    levers = {r.lever for r in rejected}
    remedies = [r for r in best.remedies if r.lever not in levers]
    for _, other in ranked[1:3]:  # candidates that could not be told apart
        if other.score >= best.score - CLOSE:
            seen = {r.change for r in remedies}
            remedies += [r for r in other.remedies if r.change not in seen and r.lever not in levers]
    remedies = [_with_command(case, r) for r in remedies]
    return tuple(sorted(remedies, key=lambda r: r.rank)), tuple(rejected)


def _with_command(case: Case, remedy: Remedy) -> Remedy:
    if case.rebuilt.engine not in ("", "vllm") or not (remedy.flags or remedy.environment or remedy.model):
        return remedy
    model = remedy.model or case.rebuilt.model
    if not model and not case.rebuilt.flags:
        return remedy
    return msgspec.structs.replace(remedy, command=command_of(case.rebuilt, remedy, model))


def command_of(rebuilt: Rebuilt, remedy: Remedy, model: str = "") -> str:
    flags = {**rebuilt.flags, **remedy.flags}
    return render(model or rebuilt.model, {k: v for k, v in flags.items() if v is not None},
                  {**rebuilt.environment, **remedy.environment})  # fmt: skip


def _evidence(case: Case, best: tuple[Rule, Candidate] | None) -> tuple[Evidence, ...]:
    wanted = set(best[1].lines) if best else set()
    if case.death.line:
        wanted.add(case.death.line)
    texts: dict[int, str] = {}
    for o in case.observations:
        if o.line in wanted:
            texts.setdefault(o.line, o.text[:300])
    return tuple(Evidence(line, text) for line, text in sorted(texts.items()))[:12]


def to_json(explanation: Explanation) -> dict[str, Any]:
    """The contract of the command line: schema 1."""
    built: dict[str, Any] = msgspec.to_builtins(explanation)
    built["remedies"] = [
        {k: r[k] for k in ("change", "kind", "gains_bytes", "verified", "costs", "command")} | {"lever": r["lever"]}
        for r in built["remedies"]
    ]
    return {"schema": 1, **built}
