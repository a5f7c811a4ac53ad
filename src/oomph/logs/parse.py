"""Lines -> observations: every row of every engine is tried on every line that contains its literal."""

from __future__ import annotations

import re
from collections.abc import Sequence

from oomph.facts.llamacpp.logs import ROWS as LLAMACPP
from oomph.facts.loglines import GENERIC, TORCH_OOM, TORCH_PROCESS, LogRow, convert
from oomph.facts.ollama.logs import ROWS as OLLAMA
from oomph.facts.sglang.logs import ROWS as SGLANG
from oomph.facts.trtllm.logs import ROWS as TRTLLM
from oomph.facts.vllm.logs import ROWS as VLLM
from oomph.ir.observation import Observation
from oomph.logs.clean import Line

ALL: tuple[LogRow, ...] = VLLM + SGLANG + OLLAMA + LLAMACPP + TRTLLM + GENERIC + (TORCH_OOM,)
VLLM_KINDS = frozenset(row.kind for row in VLLM) - {"version_beside", "version_said"}  # people write those, not vLLM

LONG_TEXT = 16 << 10  # what a regex sees of a line; only the two below may be longer
UNCUT = frozenset({"args", "engine_config", "sg_args"})
# messages of several sentences: a paste often folds them, so the lines behind may belong to them
FOLDED = frozenset(
    {"torch_oom", "kv_need", "kv_need_v0", "free_short", "ledger", "args", "engine_config", "memory_profile"}
)
PER_KIND = 4000  # observations kept of one kind; beyond it the first and the last half

Values = dict[str, float | int | str]


def observe(lines: Sequence[Line]) -> tuple[Observation, ...]:
    found: dict[str, list[Observation]] = {}
    for index, line in enumerate(lines):
        text = line.text
        if len(text) < 4:
            continue
        short = text[:LONG_TEXT]
        seen: set[str] = set()
        for row in ALL:
            if row.needle not in short or row.kind in seen:
                continue
            values = _match(row, text if row.kind in UNCUT else short, lines, index)
            if values is None:
                continue
            seen.add(row.kind)
            if row.kind == "frame" and (calls := _calls(lines, index)):
                values["calls"] = calls
            if line.file:
                values["source"] = f"{line.file}:{line.at}"
            kept = found.setdefault(row.kind, [])
            if len(kept) >= PER_KIND:
                del kept[PER_KIND // 2]
            kept.append(Observation(line.number, row.kind, values, line.rank, line.process, short[:600].strip()))
    return tuple(sorted((o for group in found.values() for o in group), key=lambda o: o.line))


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


_CALL = re.compile(r"collective_rpc\(\s*[\"'](?P<method>\w{1,80})|(?P<function>[A-Za-z_]\w{0,80})\(")


def _calls(lines: Sequence[Line], index: int) -> str:
    """What the line of code under a frame calls: of a traceback that was cut the next frame."""
    code = lines[index + 1].text.strip() if index + 1 < len(lines) else ""
    found = _CALL.search(code[:400]) if code and not code.startswith(("File ", "raise ")) else None
    return (found["method"] or found["function"]) if found else ""


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

    PyTorch prints "this process has" only when it finds itself by pid; in a container it does not, and the own
    process is among the numbered ones: the largest, if PyTorch's own figure fits into it.
    """
    sizes = [convert("x__size", size).get("x") for _, size in re.findall(TORCH_PROCESS, text)]
    numbers = [int(n) for n in sizes if n is not None]
    own = values.get("in_use")
    if not own and numbers:
        allocated = values.get("allocated")
        largest = max(numbers)
        if isinstance(allocated, int) and largest >= allocated:
            numbers.remove(largest)
            values["in_use"] = largest
    if numbers:
        values["others"] = sum(numbers)


def engine_of(observations: Sequence[Observation]) -> str:
    """The engine that printed this: "" when no line is an engine's."""
    prefixes = {"ol": "ollama", "sg": "sglang", "tr": "trtllm", "lc": "llamacpp"}
    counts: dict[str, int] = {}
    for o in observations:
        head = prefixes.get(o.kind.partition("_")[0])
        if head:
            counts[head] = counts.get(head, 0) + 1
        elif o.kind in VLLM_KINDS:
            counts["vllm"] = counts.get("vllm", 0) + 1
        elif o.kind == "frame":
            path = str(o.values.get("path", ""))
            for part, name in (("/sglang/", "sglang"), ("/tensorrt_llm/", "trtllm"), ("/vllm", "vllm")):
                if part in path:
                    counts[name] = counts.get(name, 0) + 1
                    break
        elif o.kind == "command":
            command = str(o.values.get("command", ""))
            name = "vllm" if "vllm" in command else "sglang" if "sglang" in command else "llamacpp"
            counts[name] = counts.get(name, 0) + 1
    if counts.get("ollama") or (counts.get("llamacpp") and any(o.process == "ollama" for o in observations)):
        return "ollama"  # it prints llama.cpp's lines too
    return max(counts, key=lambda name: counts[name]) if counts else ""
