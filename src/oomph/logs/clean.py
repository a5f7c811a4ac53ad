"""One line as it was pasted -> who printed it, from where, and the message alone.

Nothing here is engine-specific but the process names: docker compose, Kubernetes, journald, Python's logging and a
forum's markdown put their own text around the same message.
"""

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec
from msgspec import Struct

from oomph.logs.reader import RawLine
from oomph.text.nesting import bounded
from oomph.text.printable import visible

# the same as text: a pager's ^[[0;36m, rsyslog's #033[2m, a JSON log's \\u001b[0m
_SHOWN_ANSI = re.compile(r"(?:\^\[|#033|\\(?:x1b|u001b|033|e))\[[0-9;]{0,20}[mK]")
_QUOTES = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "„": '"', "′": "'", "\u00a0": " ", "\u202f": " "})
# a page's source or a forum's editor: File &quot;/usr/lib/...&quot;
_ENTITIES = {"quot": '"', "lt": "<", "gt": ">", "amp": "&", "#39": "'", "#x27": "'", "nbsp": " "}
_ENTITY = re.compile(f"&({'|'.join(_ENTITIES)});")
_ESCAPED = re.compile(r"\\([\[\]_*`#|<>()~{}!-])")  # markdown: \[core.py:1108\]
_DUNDER = re.compile(r"\*\*(\w+)\*\*")  # markdown ate the underscores of __init__

# a launcher's own logger around the engine's output
_LOGRUS = re.compile(
    r'time="[^"]{10,40}" level=[a-z]{3,8} msg="(?P<message>.{0,16000}?)"(?: \w{1,40}=\S{0,80}){0,8}\s*$'
)

# Each strips one layer; they are tried in turn until none applies (compose around Kubernetes around vLLM).
_LAYERS = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?:>\s?)+(?=\S)",  # a quoted mail or markdown block
        r"[\w.-]{1,64}\s+\| ",  # docker compose: "svc-1  | "
        r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.,]?\d{0,9}(?:Z|[+-]\d\d:?\d\d)?\s+"  # CRI, docker logs -t
        r"(?:std(?:out|err) [FP] |\| )?",
        # journald, in the months of any language: "Apr 24", "oct. 30", "дек 16", "7月 24"
        r"(?:[^\W\d_]{3,5}\.?|\d{1,2}月) +\d{1,2} \d\d:\d\d:\d\d \S{1,64} [^\s:\[]{1,64}(?:\[\d+\])?: ",
        r"\[(?:\d{4}-)?\d\d-\d\d[ T]\d\d:\d\d:\d\d[^\]]{0,24}\] ?",  # SGLang: "[2026-05-14 12:00:00 TP0] "
        r"(?:INFO|WARNING|ERROR|DEFAULT) \d{4}-\d\d-\d\dT[\d:.]{8,18}Z? \[[^\]]{1,80}\] ",  # Google Cloud's log export
        r"- (?=\d{4}-\d\d-\d\dT)",  # a list of lines
        r"\s{0,4}Line \d{1,7}: (?=\S)",  # an editor's search results
        r"- [\w.]{1,40} - (?:DEBUG|INFO|WARNING|ERROR|CRITICAL) - ",  # a program around it, by Python's logging
        r"[│┃] ?",  # k9s and other frames around a pane
        r"\d{1,12}\.\d\d\.\d{3}\.\d{3} (?=[IWED] )",  # llama.cpp with timestamps
        r"\[(?:Info|Warning|Error|Debug)\] \(\w{1,32}\) ",  # a launcher around the engine
        r"\[[\w.-]{2,40} std(?:out|err)\] (?:\[\d{2,7}\] )?",  # another, with the process's number
        r" {0,8}\| {1,3}(?=\S)",  # an exception group, Buildkite
    )
)
_OLLAMA = re.compile(r"\bollama(?:-\d)?(?:\[\d+\]:|\s+\|) $")  # its unit or its service
_RANKED = re.compile(r"\[(?:rank(?P<rank>\d+))\]:\s?")
# headers that one engine alone puts before its lines: the name of its folder under engines/, and their shape
_HEADERS = (
    (
        "sglang",
        re.compile(
            r"\[?(?:\d{4}-)?\d\d-\d\d[ T]\d\d:\d\d:\d\d(?= (?:DP|PP|TP|EP)\d)(?: (?:DP|PP|EP)\d{1,5}){0,3}"
            r"(?: TP(?P<rank>\d{1,5}))?(?: EP\d{1,5})?[^\]]{0,16}\]"
        ),
    ),
    ("llamacpp", re.compile(r"\d{1,12}\.\d\d\.\d{3}\.\d{3} [IWED] ")),
    ("trtllm", re.compile(r"\[\d\d/\d\d/\d{4}-\d\d:\d\d:\d\d\] \[TRT-LLM\]|\[TensorRT-LLM\]\[[A-Z]{3,8}\]")),
)
_PROCESS = re.compile(
    r"\(?(?P<name>EngineCore|Worker|VllmWorker(?:Process)?|APIServer|ApiServer|RayWorkerWrapper|RayWorkerProc|Frontend)"
    r"(?P<tags>(?:_[A-Z]*\d+)*)(?:\s+rank=(?P<rank>\d+))?(?:\s+pid=(?P<pid>\d+))?[^)]{0,40}\)\s?"
)
_LOGGED = re.compile(
    r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL)(?: (?:\d\d-\d\d \d\d:\d\d:\d\d|\.\.\.))?\s*"
    r"\[?(?P<file>[\w./-]{1,120}\.py)(?::(?P<line>\d{1,6}))?\]\s?"
)
_BARE_PLACE = re.compile(r"\[(?P<file>[\w./-]{1,120}\.py)(?::(?P<line>\d{1,6}))?\]\s?")
_LLAMA_LEVEL = re.compile(
    r"[WED] (?=\S)|I (?=\w{1,40}(?: {1,8}\w{1,40})?:|\w{0,40}_\w)"
)  # "I get this error" is a sentence


class Line(Struct, frozen=True):
    number: int
    text: str  # the message
    process: str = ""  # EngineCore, Worker, APIServer; else the engine, where the line's header is one's own
    rank: int | None = None
    pid: int | None = None
    level: str = ""
    file: str = ""  # gpu_model_runner.py
    at: int = 0  # its line


def clean(raw: RawLine) -> Line:
    text = raw.text.rstrip("\r\n")
    if "\r" in text:  # a progress bar redrawn on one line: its last state, and whatever was printed behind it
        text = text.rsplit("\r", 1)[1] or text.rsplit("\r", 2)[-2]
    text = visible(text)
    if "[0" in text or "[3" in text:
        text = _SHOWN_ANSI.sub("", text)
    text = text.rstrip("│┃ ").removesuffix("^M")
    if "&" in text and ";" in text:
        text = _ENTITY.sub(lambda match: _ENTITIES[match[1]], text)
    text = text.translate(_QUOTES)
    if "\\" in text:
        text = _ESCAPED.sub(r"\1", text)
    if "**" in text:
        text = _DUNDER.sub(r"__\1__", text)
    if text[:1] == "{" and text.endswith("}"):
        text = _logged_as_json(text)
    if text.startswith('time="') and (match := _LOGRUS.match(text)):
        text = match["message"].replace('\\"', '"')
    return _peel(raw.number, text)


# where Docker, Fluent Bit, journald, Google's and other loggers put the line
_MESSAGES = ("log", "message", "msg", "MESSAGE", "text", "line", "textPayload", "body")


def _logged_as_json(text: str) -> str:
    """The line that a logger wrapped into an object, or the text as it is."""
    if len(text) > LONGEST_OBJECT:
        return text
    try:
        wrapped = msgspec.json.decode(bounded(text))
    except (msgspec.DecodeError, RecursionError):
        return text
    if not isinstance(wrapped, dict):
        return text
    inside = next((wrapped[key] for key in _MESSAGES if isinstance(wrapped.get(key), str)), None)
    return visible(inside.rstrip("\r\n")).replace("\n", " ") if inside is not None else text


LONGEST_OBJECT = 64 << 10


def _peel(number: int, text: str) -> Line:
    process, level, file = "", "", ""
    rank: int | None = None
    pid: int | None = None
    at = 0
    for _ in range(8):
        before = text
        for engine, header in _HEADERS:
            if match := header.match(text):
                process = process or engine
                if number_of_rank := match.groupdict().get("rank"):
                    rank = int(number_of_rank)
        for layer in _LAYERS:
            match = layer.match(text)
            if match:
                process = process or ("ollama" if _OLLAMA.search(match[0]) else "")
                text = text[match.end() :]
        if match := _RANKED.match(text):
            rank, text = int(match["rank"]), text[match.end() :]
        if match := _PROCESS.match(text):
            process = match["name"]
            rank = _rank(match["tags"], match["rank"], rank)
            pid = int(match["pid"]) if match["pid"] else pid
            text = text[match.end() :]
        if not file and (match := _LOGGED.match(text) or _BARE_PLACE.match(text)):
            level = match.groupdict().get("level") or ""
            file, at = match["file"].rsplit("/", 1)[-1], int(match["line"] or 0)
            text = text[match.end() :]
        if text == before:
            break
    return Line(
        number,
        text=_LLAMA_LEVEL.sub("", text, count=1) if _LLAMA_LEVEL.match(text) else text,
        process=process,
        rank=rank,
        pid=pid,
        level=level,
        file=file,
        at=at,
    )


def _rank(tags: str, rank: str | None, before: int | None) -> int | None:
    if rank:
        return int(rank)
    match = re.search(r"_TP(\d+)", tags)
    return int(match[1]) if match else before


def lines(raw: Iterable[RawLine]) -> tuple[Line, ...]:
    return tuple(clean(part) for line in unfold(tuple(_cells(_dedent(tuple(raw))))) for part in _split(line))


def _cells(raw: tuple[RawLine, ...]) -> Iterator[RawLine]:
    """A table's row whose last cell is folded (Triton's list of models): the rows below it are empty before it."""
    waiting: RawLine | None = None
    for line in raw:
        text = line.text
        columns = text.strip().split("|") if text[:1] == "|" and text.rstrip().endswith("|") else []
        folded = waiting is not None and len(columns) > 3 and bool(columns[-2].strip())
        if waiting is not None and folded and not any(column.strip() for column in columns[1:-2]):
            waiting = RawLine(waiting.number, waiting.text + _cell(columns[-2]))
            continue
        if waiting is not None:
            yield waiting
        waiting = RawLine(line.number, "|".join(columns[:-2]) + "|" + _cell(columns[-2])) if len(columns) > 3 else None
        if waiting is None:
            yield line
    if waiting is not None:
        yield waiting


def _cell(text: str) -> str:
    """Without its padding; a cell that is full goes on in the middle of a word."""
    return text.removeprefix(" ").removesuffix(" ") if not text.endswith("  ") else " " + text.strip()


def _dedent(raw: tuple[RawLine, ...]) -> tuple[RawLine, ...]:
    """A paste inside of a list or a manifest is indented as a whole."""
    margin = LONGEST_MARGIN
    for line in raw:
        text = line.text
        if text[:1] not in ("", " ", "\r"):
            return raw
        if text.strip():
            margin = min(margin, len(text) - len(text.lstrip(" ")))
    return tuple(RawLine(line.number, line.text[margin:]) for line in raw) if 0 < margin < LONGEST_MARGIN else raw


LONGEST_MARGIN = 80


# a logger's own header in the middle of a line: a forum or a shell has eaten the line breaks before it
_HEADER = re.compile(
    r"(?:\((?:EngineCore|Worker|VllmWorker|APIServer|Ray)\w{0,30}[^()]{0,60}\) ?)?"
    r"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d "
)


def _split(line: RawLine) -> Iterator[RawLine]:
    text = line.text
    if len(text) < 80 or text.count("INFO ") + text.count("ERROR ") + text.count("WARNING ") < 2:
        yield line
        return
    starts = [match.start() for match in _HEADER.finditer(text)]
    if len(starts) < 2:
        yield line
        return
    ends = [*starts[1:], len(text)]
    if text[: starts[0]].strip():
        starts[0] = 0  # what stands before the first header is its prefix
    for start, end in zip(starts, ends):
        yield RawLine(line.number, text[start:end])


def unfold(raw: tuple[RawLine, ...]) -> Iterator[RawLine]:
    """Rejoin what a terminal cut at its width: many lines of exactly one length, and none longer."""
    width = _fold_width(raw)
    if not width:
        yield from _unwrap(raw)
        return
    waiting: RawLine | None = None
    for line in raw:
        text = line.text.rstrip("\r")
        joined = RawLine(waiting.number, waiting.text + text) if waiting else RawLine(line.number, text)
        if len(text) == width and len(joined.text) < 64 << 10:
            waiting = joined
        else:
            waiting = None
            yield joined
    if waiting:
        yield waiting


def _fold_width(raw: tuple[RawLine, ...]) -> int:
    if not 6 <= len(raw) <= 20_000:
        return 0
    counts = Counter(len(line.text.rstrip("\r")) for line in raw)
    width = max(counts)
    full = counts[width]
    if 60 <= width <= 320 and full >= 5 and full * 10 >= len(raw):
        return width
    # part of the paste only, or a short one
    likely = [w for w, n in counts.most_common(8) if 60 <= w <= 320 and n >= 2]
    return next((w for w in likely if _all_go_on(raw, w)), 0)


def _all_go_on(raw: tuple[RawLine, ...], width: int) -> bool:
    """Every line of the full width has a logger's header, and the line behind it none: the rest of the same line."""
    pairs = [(a.text, b.text) for a, b in itertools.pairwise(raw) if len(a.text.rstrip("\r")) == width]
    return bool(pairs) and all(_headed(a) and b[:1].strip() and not _headed(b) for a, b in pairs)


def _headed(text: str) -> bool:
    return bool(_PROCESS.match(text) or _LOGGED.match(text))


WRAPS = (72, 76, 78, 80, 100, 120)  # columns at which mail programs and editors break lines between words


def _unwrap(raw: tuple[RawLine, ...]) -> Iterator[RawLine]:
    """Rejoin what an editor broke between words: a line without a header goes on where its first word did not fit."""
    width = _wrap_width(raw)
    waiting: RawLine | None = None
    last = ""
    for line in raw:
        text = line.text.rstrip("\r")
        if waiting is not None and _goes_on(last, text, width):
            waiting = RawLine(waiting.number, f"{waiting.text} {text}")
        else:
            if waiting is not None:
                yield waiting
            waiting = RawLine(line.number, text) if width else line
        last = text
    if waiting is not None:
        yield waiting


def _wrap_width(raw: tuple[RawLine, ...]) -> int:
    """0 unless lines with a header are followed by what did not fit any more, twice at least and without exception."""
    if not 3 <= len(raw) <= 3000:
        return 0
    longest = max(len(line.text.rstrip("\r")) for line in raw)
    width = next((width for width in WRAPS if width >= longest), 0)
    if not width or width - longest > 12:
        return 0
    pairs = [(a.text, b.text) for a, b in itertools.pairwise(raw) if _headed(a.text) and b.text[:1].strip()]
    behind = [_goes_on(a, b, width) for a, b in pairs if not _headed(b)]
    return width if len(behind) >= 2 and all(behind) else 0


def _goes_on(text: str, following: str, width: int) -> bool:
    if not width or not text or not following[:1].strip() or _headed(following):
        return False
    return len(text) + 1 + len(following.split(" ", 1)[0]) > width
