"""explain(log) -> Explanation: the stage, the ledger, the cause, what fixes it and what does not."""

import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from oomph.doctor.beside import read_command, read_gpus
from oomph.doctor.case import Case, build
from oomph.doctor.diagnose import explain_case as explain_case
from oomph.doctor.explanation import Explanation as Explanation
from oomph.doctor.reading.meanings import FAILURES, TROUBLES
from oomph.doctor.reading.sizes import with_size
from oomph.engines.registry import all_engines
from oomph.errors import InputError
from oomph.facts.loglines import SETTINGS
from oomph.ir import Deployment, Device
from oomph.ir.log_kinds import LogKind
from oomph.ir.observation import Observation
from oomph.logs.clean import Line, lines as clean_lines
from oomph.logs.deployment import Rebuilt
from oomph.logs.parse import engine_of, observe
from oomph.logs.reader import RawLog, read_paths, read_text
from oomph.logs.record import read_record
from oomph.text.printable import visible

ENGINE_NAMES = "vLLM, SGLang, llama.cpp, Ollama or TensorRT-LLM"
# lines that no engine prints and that are worth an answer all the same
ALONE: frozenset[LogKind] = (
    frozenset(FAILURES) | frozenset(TROUBLES) | {"memory_short", "broadcast_wait", "oom_mentioned", "shm_small"}
)


_FIELD = re.compile(r"\b[a-z]{2,20}(?:_[a-z]{2,20}){1,5}\b")
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
    plan: bool = True,
) -> Explanation:
    """Understand a log: a file, several in order (`-` is standard input), or the text itself.

    `gpu` or `gpus` ("2x RTX 3090"), `command` (its words) and `engine` ("vllm==0.21.0") say what the log does not, and
    never make it refuse: what is not understood becomes a note. `deployment` is a command that has been read already.
    Unless `plan` is off, remedies are planned.
    """
    notes: tuple[str, ...] = ()
    if deployment is None and (command or engine):
        deployment, notes = read_command(command, engine)
    if isinstance(log, Path) or (isinstance(log, str) and _is_path(log)):
        log = [log]
    raw = read_text(log) if isinstance(log, str) else read_paths(str(path) for path in log)
    return explain_raw(raw, deployment=deployment, gpus=gpu or gpus, notes=notes, plan=plan)


def explain_raw(
    raw: RawLog,
    *,
    deployment: Deployment | None,
    gpus: str | tuple[Device, ...],
    notes: tuple[str, ...],
    plan: bool,
) -> Explanation:
    """The same of a log whose lines have been read."""
    return explain_read(read_raw(raw, deployment, gpus, notes), plan=plan)


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
        gpus = gpus or record.card
    case = case_of(raw, deployment, () if isinstance(gpus, str) else gpus, observed)
    if isinstance(gpus, str) and gpus.strip():
        devices, about = read_gpus(gpus, case.account.total)
        case = msgspec.structs.replace(case, gpus=devices or case.gpus)
        notes = (*notes, *about)
    return with_size(msgspec.structs.replace(case, notes=(*case.notes, *notes)))


def explain_read(case: Case, *, plan: bool) -> Explanation:
    if not plan:
        return explain_case(case)
    from oomph.doctor.verify import planned

    return planned(case)


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
        _refuse_other(raw, [observation.kind for observation in own], engine_of(own), _settings(observations))
    devices = gpus or (deployment.gpus if deployment else ())
    case = build(lines, observations, devices)
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


def _refuse_other(raw: RawLog, kinds: Sequence[str], engine: str, settings: int) -> None:
    if engine or not ALONE.isdisjoint(kinds) or any(VLLM_HEADER.search(visible(line.text[:400])) for line in raw.lines):
        return
    if settings > 1 or (settings and "said_failed" in kinds):
        return  # several of one engine's own settings, or one below a title that says that it failed
    if "exception" in kinds and any(_names_setting(line.text[:2000]) for line in raw.lines[:200]):
        return
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


def _names_setting(text: str) -> bool:
    """An exception that speaks of a flag of some engine, by the name of its field."""
    names = set(_FIELD.findall(text)[:40])
    return any(engine.knows_flag("--" + name.replace("_", "-")) for name in names for engine in all_engines())


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
