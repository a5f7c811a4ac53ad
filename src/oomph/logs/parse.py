"""Lines -> observations: every row of every engine is tried on every line that contains its literal."""

import re
from collections import Counter
from collections.abc import Sequence
from functools import cache

from oomph.engines.registry import all_engines, name_of
from oomph.facts.claim_words import ENDED as ENDS_OF_PEOPLE, WENT_WELL
from oomph.facts.loglines import (
    GENERIC,
    NPU_WORKSPACE_OOM,
    SETTINGS,
    TORCH_OOM,
    TORCH_OOM_NEW,
    TORCH_PROCESS,
    LogRow,
    convert,
)
from oomph.facts.titles import TITLES
from oomph.facts.troubles import ROWS as TROUBLES, SIGNS
from oomph.facts.vllm.files import FILES
from oomph.ir.log_kinds import LogKind
from oomph.ir.observation import Observation
from oomph.logs.candidates import Candidates
from oomph.logs.clean import Line
from oomph.logs.documents import SMALL_WORDS, is_prose, is_sentence, quotes
from oomph.logs.shape import shortage
from oomph.text.late import late_pattern

COMMON: tuple[LogRow, ...] = (
    *GENERIC,
    TORCH_OOM,
    TORCH_OOM_NEW,
    NPU_WORKSPACE_OOM,
    *TROUBLES,
    *SIGNS,
)  # of every engine, and of people
ALL: tuple[LogRow, ...] = (*(row for engine in all_engines() for row in engine.log_rows()), *COMMON)
_WRITTEN_BY_PEOPLE = {row.kind for row in COMMON} | {row.kind for row in ALL if row.by_people}
# kind -> the engine that prints it
_PRINTED_BY: dict[str, str] = {
    row.kind: engine.name for engine in all_engines() for row in engine.log_rows() if row.kind not in _WRITTEN_BY_PEOPLE
}

# words of the system and its tools that end a run, or show that it ended
_SYSTEMS: frozenset[str] = frozenset(row.kind for row in (*TROUBLES, *SIGNS)) | {
    "host_kill", "container_kill", "sigkill", "ray_kill", "bus_error", "torch_oom", "exception", "frame", "traceback",
}  # fmt: skip
LONG_TEXT = 16 << 10  # what a regex sees of a line; only the two below may be longer
UNCUT = frozenset({"args", "engine_config", "sg_args"})
# messages of several sentences: a paste often folds them, so the lines behind may belong to them
FOLDED = frozenset(
    {"torch_oom", "kv_need", "kv_need_v0", "free_short", "ledger", "args", "engine_config", "memory_profile"}
)
# a line of one of these kinds says already what is short, or that nothing is
SHORTAGES: frozenset[LogKind] = frozenset(row.kind for row in ALL if row.shortage)
# what a line may tell beside its level: it says nothing of an error
SILENT: frozenset[LogKind] = frozenset(
    {"engine_config", "args", "version", "version_beside", "version_said", "engine_named", "engine_line", "command",
     "util_given", "eager_given", "max_model_len", "tr_line", "placed", "bar"}
)  # fmt: skip
# of a run, whatever figures its line would have had
ENDS: frozenset[LogKind] = frozenset({"engine_failed", "engine_dead", "secondary", "sg_exception", "kv_none"})
PER_KIND = 4000  # observations kept of one kind; beyond it the first and the last half

Values = dict[str, float | int | str]


def observe(lines: Sequence[Line]) -> tuple[Observation, ...]:
    by_kind: dict[LogKind, list[Observation]] = {}
    candidates = _all_rows().fresh()
    printers = {engine.name for engine in all_engines()}  # of one line of each is kept that its header is the engine's
    for index, line in enumerate(lines):
        text = line.text
        if len(text) < 4:
            continue
        short = text[:LONG_TEXT]
        seen: set[LogKind] = set()
        for row in (*candidates.of(short), *TITLES) if short.startswith("# ") else candidates.of(short):
            if row.kind in seen or (line.level == "WARNING" and _survived(row.kind)):
                continue
            values = _match(row, text if row.kind in UNCUT else short, lines, index)
            if values is None:
                continue
            seen.add(row.kind)
            if row.kind == "frame" and (calls := _calls(lines, index)):
                values["calls"] = calls
            if values.get("type") == "AssertionError" and "message" not in values:
                values |= _asserted(lines, index)
            _keep(by_kind, line, row.kind, values, short)
        if not seen and line.file in FILES:
            seen.add("placed")
            _keep(by_kind, line, "placed", {"stage": FILES[line.file]}, short)
        if not seen and line.process in printers:
            printers.remove(line.process)
            seen.add("engine_line")
            _keep(by_kind, line, "engine_line", {"engine": line.process}, short)
        if (
            seen.isdisjoint(SHORTAGES)
            and line.level not in ("INFO", "DEBUG")
            and (figures := shortage(short)) is not None
        ):
            _keep(by_kind, line, "memory_short", figures, short)
        elif line.level in ("ERROR", "CRITICAL") and short.strip() and seen <= SILENT:
            _keep(by_kind, line, "sign_level", {}, short)
    _keep_cut_end(by_kind, lines)
    return tuple(sorted((o for group in by_kind.values() for o in group), key=lambda observation: observation.line))


@cache
def _all_rows() -> Candidates:
    return Candidates(sorted(ALL, key=_numbered))


def _survived(kind: str) -> bool:
    """An engine that warns goes on: "this can cause errors like `OSError: Too many open files`" is no failure.

    A wait is logged as a warning too, and is one where nothing follows.
    """
    return kind == "exception" or (kind.startswith("x_") and kind != "x_ray_wait")


def _numbered(row: LogRow) -> bool:
    """What a line says in words goes before what it says in numbers: "OOMKilled, exit code 137"."""
    return any(character.isdigit() for character in row.needle)


_CUT = 11  # characters of a row's literal with which a paste may end


def _keep_cut_end(by_kind: dict[LogKind, list[Observation]], lines: Sequence[Line]) -> None:
    """A paste ends in the middle of a line: "... Error execut" is the beginning of a row's literal."""
    last = next((line for line in reversed(lines[-8:]) if line.text.strip()), None)
    if last is None or any(o.line == last.number for group in by_kind.values() for o in group if o.kind in SHORTAGES):
        return
    text = last.text.rstrip()[-80:]
    for row in ALL:
        if row.kind in ENDS and any(text.endswith(row.needle[:n]) for n in range(_CUT, len(row.needle))):
            _keep(by_kind, last, row.kind, {}, last.text[:LONG_TEXT])
            return


def _keep(by_kind: dict[LogKind, list[Observation]], line: Line, kind: LogKind, values: Values, short: str) -> None:
    if line.file:
        values["source"] = f"{line.file}:{line.at}"
    same = by_kind.setdefault(kind, [])
    if len(same) >= PER_KIND:
        del same[PER_KIND // 2]
    same.append(Observation(line.number, kind, values, line.rank, line.process, short[:600].strip()))


def _match(row: LogRow, text: str, lines: Sequence[Line], index: int) -> Values | None:
    values = row.match(text)
    if row.kind in FOLDED and (values is None or len(values) < _full(row) or not _closed(text)):
        joined = _joined(text, lines, index)
        if joined != text:
            more = row.match(joined)
            if more is not None and (values is None or len(more) >= len(values)):
                values, text = more, joined
    if values is not None and row.kind == "torch_oom":
        _own_process(values, text)
    return values


_CALL = late_pattern(
    r"(?:collective_rpc|_?run_workers?)\(\s*[\"'](?P<method>\w{1,80})|(?P<function>[A-Za-z_]\w{0,80})\("
)


def _calls(lines: Sequence[Line], index: int) -> str:
    """What the line of code under a frame calls: of a traceback that was cut the next frame."""
    code = lines[index + 1].text.strip() if index + 1 < len(lines) else ""
    call = _CALL.search(code[:400]) if code and not code.startswith(("File ", "raise ")) else None
    return (call["method"] or call["function"]) if call else ""


def _asserted(lines: Sequence[Line], index: int) -> Values:
    """What a bare AssertionError is about: the line of code above it."""
    for line in reversed(lines[max(0, index - 3) : index]):
        code = line.text.strip()
        if code.startswith("assert "):
            return {"message": code[:300]}
    return {}


def _full(row: LogRow) -> int:
    """More groups than this many sizes means nothing is missing."""
    return 2 * len(row.more) if row.more else 0


def _closed(text: str) -> bool:
    return text.count("{") <= text.count("}") and text.count("(") <= text.count(")")


def _joined(text: str, lines: Sequence[Line], index: int) -> str:
    """The message with the lines behind it that have no header of their own and are no traceback."""
    for line in lines[index + 1 : index + 9]:
        stripped = line.text.strip()
        if line.file or not stripped or stripped.startswith(("File ", "Traceback", "```")) or len(text) > LONG_TEXT:
            break
        text = f"{text} {stripped}"
    return text


def _own_process(values: Values, text: str) -> None:
    """Which of the `Process N has X in use` is the one that died, and what the others hold.

    PyTorch prints "this process has" only when it finds itself by pid; in a container it does not, and the own process
    is among the numbered ones: the one that is nearest above what PyTorch itself holds, allocated and cached.
    """
    sizes = [convert("x__size", size).get("x") for _, size in re.findall(TORCH_PROCESS, text)]
    total = values.get("total")
    most = total if isinstance(total, int) else max((n for n in sizes if isinstance(n, int)), default=0)
    numbers = [n for n in sizes if isinstance(n, int) and n <= most]  # WSL's driver prints 2^64
    in_use = values.get("in_use")
    if isinstance(in_use, int) and in_use > most:
        del values["in_use"]
    own, allocated, cached = values.get("in_use"), values.get("allocated"), values.get("reserved", 0)
    if not own and isinstance(allocated, int) and isinstance(cached, int):
        above = [n for n in numbers if n >= allocated + cached - (64 << 20)]  # both are rounded
        if above:
            values["in_use"] = min(above)
            numbers.remove(min(above))
    if numbers:
        values["others"] = sum(numbers)


def printed_lines(observations: Sequence[Observation]) -> frozenset[int]:
    """Lines that a program printed, whatever their words are: an engine's own, and those of the system and its tools
    that have none of the small words of a sentence ("exited with exit code 1")."""
    return frozenset(
        observation.line
        for observation in observations
        if not observation.text.startswith("# ")
        and (
            (observation.kind in _PRINTED_BY and not _quotes(observation))
            or (observation.kind in _SYSTEMS and not is_sentence(observation.text))
        )
    )


_SETTING = late_pattern(r"\W{0,4}[A-Z][A-Z0-9_]{3,40}=\S{1,80} ")
_QUOTED_BEHIND = 12  # characters of a sentence before an engine's words that it quotes


def _quotes(observation: Observation) -> bool:
    """A sentence that has an engine's words in its middle: "weights load fine (Model loading took 30.2 GiB), then"."""
    text = observation.text
    if observation.process or "source" in observation.values or not is_prose(Line(0, text)):
        return False
    if match := _SETTING.match(text):
        return quotes(text[match.end() :])  # "OLLAMA_NUM_PARALLEL=8 with 32k each, and after two chats it"
    at = min((text.find(needle) for needle in _needles(observation.kind) if needle in text), default=0)
    words = text[:at].rstrip("\"'`“„ ").removesuffix(":")
    return at >= _QUOTED_BEHIND and ": " not in words and _tells(words)


def _tells(text: str) -> bool:
    """Words of people before an engine's; a name and a number before them are the engine's own."""
    return any(words.search(text) for words in (SMALL_WORDS, WENT_WELL, ENDS_OF_PEOPLE))


@cache
def _needles(kind: str) -> tuple[str, ...]:
    return tuple(row.needle for row in ALL if row.kind == kind)


def prints(observations: Sequence[Observation]) -> bool:
    """Some line is one that only an engine of ours prints, or a frame of its code; its name in words is not."""
    return any(o.kind not in ("engine_named", "command") and _printed_by(o) for o in observations)


def engine_of(observations: Sequence[Observation]) -> str:
    """The engine that printed this: "" when no line is an engine's."""
    headed = {e.name for e in all_engines() if not e.runs} & {observation.process for observation in observations}
    counts = Counter(name for name in map(_printed_by, observations) if name)
    if len(headed) == 1 and not any(engine.runs in headed and counts[engine.name] for engine in all_engines()):
        return headed.pop()  # no other engine begins its lines so
    for engine in all_engines():  # one that runs another prints the other's lines too
        around = counts[engine.runs] and any(observation.process == engine.name for observation in observations)
        around = around or (counts[engine.runs] and _names(observations) == {engine.name})
        if engine.runs and (counts[engine.name] or around):
            return engine.name
    if not counts:
        processes = {observation.process for observation in observations}
        if heads := next((e.name for e in all_engines() if not processes.isdisjoint(e.processes)), ""):
            return heads
        return _named(observations)
    return max(counts, key=lambda name: counts[name])


_NAME = late_pattern(
    r"(?ai)(?<![A-Za-z0-9_])(?P<name>vllm|sglang|tensorrt[- ]llm|trt-?llm|ollama|llama\.cpp|llama-server|lm ?studio|"
    r"koboldcpp)(?![A-Za-z0-9_])"
)
# another engine that is only compared with
_BESIDE = late_pattern(
    r"(?i)\b(?:as|than|unlike|while|whereas|compar\w{1,5} (?:to|with)|versus|vs\.?|not) (?:the |in |with )?$"
)
_WORKS = late_pattern(
    r"(?i)\s{1,3}(?:is able|can |could |works?\b|worked|runs?\b|succeeds|handles|does not|doesn't|has no)"
)
_FAILS = late_pattern(
    r"(?i)[^.,;]{0,24}\b(?:fail|crash|OOM|out of memory|hang|hung|can ?not|can't|unable|error|dies|stuck|killed)"
)


def _named(observations: Sequence[Observation]) -> str:
    """Of the engines that are named in words, the one that fails; else the one that is named most, or first."""
    scores: Counter[str] = Counter()
    for observation in observations:
        word, text = str(observation.values.get("engine", "")), observation.text
        if observation.kind != "engine_named":
            continue
        if word in SETTINGS:
            scores[SETTINGS[word]] += 1
        elif engine := name_of(word):
            scores[engine] += 0
        for match in _NAME.finditer(text):
            before, behind = text[max(0, match.start() - 30) : match.start()], text[match.end() : match.end() + 60]
            if not _BESIDE.search(before) and not _WORKS.match(behind):
                scores[name_of(match["name"])] += 4 if _FAILS.match(behind) else 2
    scores.pop("", None)
    return max(scores, key=lambda name: scores[name]) if scores else ""


def _names(observations: Sequence[Observation]) -> set[str]:
    """The engines that are named in words."""
    words = {str(o.values.get("engine", "")) for o in observations if o.kind == "engine_named"} - SETTINGS.keys()
    return {name_of(word) for word in words} - {""}


def _printed_by(observation: Observation) -> str:
    """The engine that one line speaks for; "" = it could be any."""
    if observation.kind == "frame":
        path = str(observation.values.get("path", ""))
        # the default engine last: its folder is loosely worded, and stands in the paths of others
        return next((e.name for e in reversed(all_engines()) if any(part in path for part in e.frame_paths)), "")
    if observation.kind == "command":
        command = str(observation.values.get("command", ""))
        engines = (e.name for e in all_engines() if any(w in command for w in (*e.programs, *e.modules)))
        return next(engines, "")
    if observation.kind == "engine_line":
        return observation.process
    return _PRINTED_BY.get(observation.kind, "")
