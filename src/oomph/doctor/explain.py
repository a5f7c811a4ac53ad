"""explain(log) -> Explanation: the stage, the ledger, the cause, what fixes it and what does not."""

import re
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from oomph.doctor.attempts import with_attempts
from oomph.doctor.beside import read_command, read_gpus
from oomph.doctor.case import Case, place
from oomph.doctor.diagnose import explain_case as explain_case
from oomph.doctor.explanation import Explanation as Explanation
from oomph.doctor.reading.meanings import FAILURES, TROUBLES
from oomph.doctor.reading.new_case import build_case
from oomph.doctor.reading.sizes import with_size
from oomph.doctor.reading.story import speaks_of_failure
from oomph.doctor.second import is_second, two_deaths
from oomph.errors import InputError
from oomph.facts.claim_words import OF_SERVING
from oomph.facts.loglines import SETTINGS
from oomph.ir import Deployment, Device, StageName
from oomph.ir.evidence import asserts
from oomph.ir.log_kinds import LogKind
from oomph.ir.observation import Observation
from oomph.logs.claims import read_claims
from oomph.logs.clean import Line, lines as clean_lines
from oomph.logs.deployment import Rebuilt
from oomph.logs.documents import sentences
from oomph.logs.parse import engine_of, observe
from oomph.logs.reader import RawLog, read_paths, read_text
from oomph.logs.record import RecordedCard, read_record
from oomph.logs.snapshot import is_snapshot, read_snapshot
from oomph.logs.speaker import foreign_speaker
from oomph.text.printable import visible

ENGINE_NAMES = "vLLM, SGLang, llama.cpp, Ollama or TensorRT-LLM"
# lines that no engine prints and that are worth an answer all the same
ALONE: frozenset[LogKind] = (
    frozenset(FAILURES) | frozenset(TROUBLES) | {"memory_short", "broadcast_wait", "oom_mentioned", "shm_small"}
)


# how vLLM begins a line (logger.py): the level, the date without its year, the place
VLLM_HEADER = re.compile(
    r"\b(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d \[?[\w./]{1,80}\.py:\d{1,5}\]"
)


def explain(
    log: str | Path | Sequence[str | Path],
    *,
    deployment: Deployment | None = None,
    gpu: str | tuple[Device, ...] = (),
    gpus: str | tuple[Device, ...] = (),
    command: Sequence[str] = (),
    engine: str | None = None,
    stage: StageName | None = None,
    plan: bool = True,
) -> Explanation:
    """Understand a log: a file, several in order (`-` is standard input), or the text itself.

    `gpu` or `gpus` ("2x RTX 3090"), `command` (its words) and `engine` ("vllm==0.21.0") say what the log does not, and
    never make it refuse: what is not understood becomes a note. `deployment` is a command that has been read already.
    `stage` is where it failed, for somebody who knows: an answer to `Explanation.question`. Unless `plan` is off,
    remedies are planned.
    """
    notes: tuple[str, ...] = ()
    if deployment is None and (command or engine):
        deployment, notes = read_command(command, engine)
    if isinstance(log, Path) or (isinstance(log, str) and _is_path(log)):
        log = [log]
    if not isinstance(log, str) and len(log) == 1 and is_snapshot(str(log[0])):
        return explain_snapshot(str(log[0]), deployment=deployment, gpus=gpu or gpus, notes=notes, plan=plan)
    raw = read_text(log) if isinstance(log, str) else read_paths(str(path) for path in log)
    return explain_raw(raw, deployment=deployment, gpus=gpu or gpus, notes=notes, plan=plan, stage=stage)


def explain_raw(
    raw: RawLog,
    *,
    deployment: Deployment | None,
    gpus: str | tuple[Device, ...],
    notes: tuple[str, ...],
    plan: bool,
    stage: StageName | None = None,
) -> Explanation:
    """The same of a log whose lines have been read."""
    case = with_answer(read_raw(raw, deployment, gpus, notes), stage)
    pair = _two_cases(raw, case, deployment, gpus, notes)
    if pair is None:
        return explain_read(case, plan=plan)
    explanation = explain_read(with_answer(pair[0], stage), plan=plan)
    return replace(explanation, also=(explain_read(pair[1], plan=plan),))


def _two_cases(
    raw: RawLog,
    case: Case,
    deployment: Deployment | None,
    gpus: str | tuple[Device, ...],
    notes: tuple[str, ...],
) -> tuple[Case, Case] | None:
    """Each of two failures that one text tells of, without the words of the other."""
    texts = two_deaths(raw, case)
    if texts is None:
        return None
    try:
        first, second = (read_raw(text, deployment, gpus, notes) for text in texts)
    except InputError:  # what is left of the text is nobody's
        return None
    return (first, second) if first.death.kind == case.death.kind and is_second(first, second) else None


def explain_snapshot(
    path: str, *, deployment: Deployment | None, gpus: str | tuple[Device, ...], notes: tuple[str, ...], plan: bool
) -> Explanation:
    """PyTorch's own record of the memory, read as the log that it would have printed."""
    from oomph.doctor.snapshot import UNREAD, as_log, explain_standing, with_parts

    snapshot = read_snapshot(path)
    notes = notes if snapshot.whole else (*notes, UNREAD)
    if snapshot.oom is None:
        return explain_standing(snapshot, deployment, notes)
    raw = read_text(as_log(snapshot, snapshot.oom), path)
    explanation = explain_raw(raw, deployment=deployment, gpus=gpus, notes=notes, plan=plan)
    return with_parts(explanation, snapshot, snapshot.oom)


def with_answer(case: Case, stage: StageName | None) -> Case:
    """With the answer to the question where it failed. What the log itself asserts stays."""
    if stage is None or not case.failed or asserts(case.death.basis):
        return case
    return place(case, stage, "answer")


def read_raw(
    raw: RawLog,
    deployment: Deployment | None,
    gpus: str | tuple[Device, ...],
    notes: tuple[str, ...] = (),
    observed: "Observed | None" = None,
) -> Case:
    """The case of a log, with what is said beside it; of a plugin's record, the case of the lines in it."""
    if (record := read_record(raw)) is not None:
        raw = record.lines(raw.source)
        if deployment is None:
            deployment, more = read_command(record.command, record.release)
            notes = (*notes, *more)
        gpus = gpus or (record.card if not record.gpus else tuple(_seen(card) for card in record.gpus[:MOST_RANKS]))
    case = case_of(raw, deployment, () if isinstance(gpus, str) else gpus, observed)
    if record is not None and record.stage is not None:
        case = replace(case, death=replace(case.death, failed=True))
        case = place(case, record.stage, "message")
        case = msgspec.structs.replace(case, gpus=_with_others(case))
    if isinstance(gpus, str) and gpus.strip():
        devices, about = read_gpus(gpus, case.account.total)
        case = msgspec.structs.replace(case, gpus=devices or case.gpus)
        notes = (*notes, *about)
    return with_size(msgspec.structs.replace(case, notes=(*case.notes, *notes)))


MOST_RANKS = 64  # of a record


def _seen(card: RecordedCard) -> Device:
    """A card of a record: its name's row with the memory that the engine found, and what others held of it."""
    devices, _ = read_gpus(card.name, card.total_bytes)
    device = devices[0] if devices else Device(card.name or "GPU", max(1, card.total_bytes))
    total = card.total_bytes if card.total_bytes > 0 else device.total_bytes
    return msgspec.structs.replace(device, total_bytes=total, used_bytes=min(max(0, card.used_bytes), total - 1))


def _with_others(case: Case) -> tuple[Device, ...]:
    """The one card of the run with what others held of it when it died, where that is more than at the start."""
    others = case.account.get("others") or 0
    if len(case.gpus) != 1 or not case.gpus[0].used_bytes < others < case.gpus[0].total_bytes:
        return case.gpus
    return (msgspec.structs.replace(case.gpus[0], used_bytes=others),)


def explain_read(case: Case, *, plan: bool) -> Explanation:
    if not plan:
        return with_attempts(case, explain_case(case))
    from oomph.doctor.verify import planned

    return with_attempts(case, planned(case))


def _is_path(text: str) -> bool:
    """A log has lines; a path has none."""
    if "\n" in text or len(text) > 1000 or not text.strip():
        return False
    try:
        there = Path(text).exists()
    except (OSError, ValueError):
        there = False
    return there or text == "-" or (" " not in text and text.endswith((".log", ".txt", ".gz", ".out", ".pickle")))


def read_case(
    log: str | Sequence[str | Path], *, deployment: Deployment | None = None, gpus: tuple[Device, ...] = ()
) -> Case:
    """`log`: the text, or a list of paths."""
    raw = read_text(log) if isinstance(log, str) else read_paths(str(path) for path in log)
    return case_of(raw, deployment, gpus)


Observed = tuple[tuple[Line, ...], tuple[Observation, ...]]  # the lines of a log, cleaned, and what they say


def observe_raw(raw: RawLog) -> Observed:
    lines = clean_lines(raw.lines)
    return lines, observe(lines)


def case_of(
    raw: RawLog,
    deployment: Deployment | None = None,
    gpus: tuple[Device, ...] = (),
    observed: Observed | None = None,
) -> Case:
    """`observed`: of the same log, where it has been looked at already."""
    lines, observations = observed or observe_raw(raw)
    if deployment is None or not deployment.engine.name:
        report = bool(lines) and lines[0].text.startswith("# ")  # a title: of whatever its settings are
        own = [o for o in observations if report or o.kind != "engine_named" or o.values.get("engine") not in SETTINGS]
        own = [observation for observation in own if "title" not in observation.values]
        if not _is_worth_reading(raw, lines, own, _settings(observations)):
            _refuse(raw)
    devices = gpus or (deployment.gpus if deployment else ())
    engine = deployment.engine.name if deployment is not None and not deployment.model else ""  # --engine is obeyed
    case = build_case(lines, observations, devices, engine)
    notes = (*raw.notes, *case.notes)
    if deployment is not None:
        other = bool(case.rebuilt.engine) and deployment.engine.name not in ("", case.rebuilt.engine)
        if other and deployment.model:
            notes = (
                *notes,
                f"the command is {deployment.engine.name}'s, the log is {case.rebuilt.engine}'s: the log counts",
            )
        rebuilt = case.rebuilt if other else _with(case.rebuilt, deployment)
        command = deployment if deployment.model and not other else None
        case = msgspec.structs.replace(case, rebuilt=rebuilt, command_beside=command)
    return msgspec.structs.replace(case, notes=notes)


_BUG = re.compile(r"\[bug\]", re.IGNORECASE)


def _is_report(raw: RawLog) -> bool:
    return bool(raw.lines) and bool(_BUG.search(raw.lines[0].text[:200]))


def _is_worth_reading(raw: RawLog, lines: Sequence[Line], own: Sequence[Observation], settings: int) -> bool:
    """A line is an engine's, or somebody tells of a failure, of whatever."""
    kinds = {observation.kind for observation in own}
    if engine_of(own) or not ALONE.isdisjoint(kinds):
        return True
    if any(VLLM_HEADER.search(visible(line.text[:400])) for line in raw.lines):
        return True
    if settings > 1 or "exception" in kinds or "said_failed" in kinds or _is_report(raw):
        return True  # several of one engine's own settings, an error, or the title of a report
    if foreign_speaker(lines, own) is not None or speaks_of_failure(read_claims(sentences(lines))) is not None:
        return True
    return any(OF_SERVING.search(line.text[:1000]) for line in lines)


def _refuse(raw: RawLog) -> None:
    if raw.total_bytes < 2:
        raise InputError(f"{raw.source} is empty")
    raise InputError(
        f"{raw.source} is not a log of {ENGINE_NAMES}: none of its {raw.total_lines:,} lines is one that they print",
        hint="give the engine's own output, from its first line; --engine says whose it is",
    )


def _settings(observations: Sequence[Observation]) -> int:
    """How many settings of one engine are named."""
    named = {str(o.values.get("engine", "")) for o in observations if o.kind == "engine_named"}
    of_engines = [SETTINGS[name] for name in named if name in SETTINGS]
    return max(map(of_engines.count, of_engines), default=0)


def _with(rebuilt: Rebuilt, deployment: Deployment) -> Rebuilt:
    """What the user says is in force; the log fills in the rest."""
    flags = {**rebuilt.flags, **deployment.flags}
    explicit = deployment.engine.version_from not in ("newest known", "installed package")
    version = rebuilt.version or (deployment.engine.version if explicit else "")
    version_from = rebuilt.version_from or (deployment.engine.version_from if explicit else "")
    return msgspec.structs.replace(
        rebuilt, flags=flags, model=deployment.model or rebuilt.model, version=version, version_from=version_from,
        engine=rebuilt.engine or deployment.engine.name,
    )  # fmt: skip
