# ruff: noqa: E501 - a row is a line
"""A lack of memory in words that no row has: recognised by its shape, its figures named by the words beside them.

Engines, allocators and drivers invent new sentences every month; nearly all of them say that something could not be
allocated, and print sizes with a unit next to words such as total, free, used, tried, budget.
"""

import re

from oomph.facts.loglines import UNITS
from oomph.ir import StageName
from oomph.text.late import late_pattern

Values = dict[str, float | int | str]

# That memory is short, said as a fact. Bounded on purpose: a line may be 16 KiB long.
_SHORT = late_pattern(
    r"out[ -]of[ -](?:\w{1,12} )?(?:memory|v?ram)\b|(?<![A-Za-z0-9_])OOM(?:s|ed|['’]?(?:d|ing))?(?![A-Za-z0-9_])"
    r"|not enough (?:\w{1,12} ){0,3}(?:memory|v?ram)\b|insufficient (?:\w{1,12} ){0,3}(?:memory|v?ram)\b|no (?:\w{1,12} )?memory left|[Cc]annot allocate memory"
    r"|(?:failed|unable|could not|cannot|can't|couldn't|impossible) to (?:allocate|reserve|map|commit)\b"
    r"|(?:could not|cannot|can't|couldn't) (?:allocate|reserve)\b"
    r"|memory allocation (?:of \S{1,20} (?:bytes )?)?(?:has )?failed|\balloc(?:ation)? fail(?:s|ed|ure)?\b|failed allocation|RESOURCE_EXHAUSTED"
    r"|OUT_OF_(?:DEVICE_|HOST_)?MEMORY|OutOf(?:Device|Host|Pool)?Memory|ENOMEM|\b(?:memory|vram|pool|cache|blocks)[ -]exhaust(?:ed|ion)\b"
    r"|(?:exceeds?|larger than|more than) (?:the )?(?:available|free|remaining|total) (?:\w{1,12} )?(?:memory|v?ram)\b"
    # in the words of people elsewhere: Chinese, Japanese, Korean, Russian
    r"|(?:显存|内存|顯存)(?:不足|不够|溢出|爆|超|炸)|爆(?:显存|内存|顯存)|メモリ不足|메모리 ?부족|(?:не ?хватает|нехватка|недостаточно) (?:видео)?памят",
    re.IGNORECASE,
)
# The same words in advice, in a setting, or about somebody else's run.
_HINT = late_pattern(
    r"to avoid|avoid(?:ing)? (?:the )?(?:OOM|out)|may (?:cause|lead|result|run)|might|could (?:cause|lead|result)|in case of"
    r"|\bif (?:you|the|reserved|there)|(?:to|will|can|helps?|that) prevent|consider|would (?:cause|exceed|run)|can (?:cause|lead)|risk of|potential|(?:is|are|gets) logged|logged at|allocate graph, reserving"
    r"|possible(?:ly)? OOM|oom_score|oom-kill-disable|due to OOM is|retry|fall(?:ing)? back|falling|skipp|without pipeline"
    r"|\bno longer\b|\bnever (?:run|hit|get|go|OOM)|\bwithout (?:running |hitting |getting |any )|(?:n['’]t|not) (?:run|hit|get|go|cause|trigger|OOM)",
    re.IGNORECASE,
)
_SIZE = late_pattern(r"(?<![\w.])(-?\d{1,15}(?:[.,]\d{1,6})?) ?(bytes|[KMGT]i?B|B)\b", re.IGNORECASE)
_RAW = late_pattern(r"(?<![\w.])(\d{7,15})(?![\w.] ?\w)")  # bytes without a unit
# The word nearest to a size says what it is; of several at the same place the first row.
_NAMES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("free", late_pattern(r"\bfree\b|available|remaining|\bleft\b|headroom", re.IGNORECASE)),
    ("total", late_pattern(r"\btotal\b|capacity", re.IGNORECASE)),
    ("in_use", late_pattern(r"\bused\b|in use|allocated|consumed|occupied|reserved", re.IGNORECASE)),
    ("budget", late_pattern(r"budget|limit|\bmax\b|maximum", re.IGNORECASE)),
    ("tried", late_pattern(r"tried|trying|request|requir|need|allocat(?:e|ing|ion)\b|\bsize\b|asked|\bfor\b", re.IGNORECASE)),
)  # fmt: skip
_CLAUSE = late_pattern(r"[,;()\[\]{}]|\. ")
_NEAR = 48  # characters before a size in which its word stands
_BEHIND = 24
# what the sentence is about, the first that is there
_ABOUT: tuple[tuple[StageName, re.Pattern[str]], ...] = (
    ("startup_free_memory", late_pattern(r"(?:failed to|cannot|could not) initiali[sz]e (?:CUDA|HIP|ROCm|the device)|cuda_init\b", re.IGNORECASE)),
    ("host_ram", late_pattern(r"(?:host|system|cpu|pinned|shared) memory|\bRAM\b|\bray OOM|OOM[- ]?kill|(?:kernel|system|host|cgroup)(?:[- ]wide)?(?:'s)? (?:\w{1,12} )?OOM|/dev/shm|DefaultCPUAllocator", re.IGNORECASE)),
    ("cudagraph_capture", late_pattern(r"graph captur|captur\w{1,3} (?:the )?(?:cuda )?graph|cuda ?graph", re.IGNORECASE)),
    ("kv_check", late_pattern(r"(?:enough|insufficient|at least|requir\w{1,3}|need\w{0,3}) .{0,60}kv[ _-]?(?:cache|budget|pool)|kv_budget", re.IGNORECASE)),
    ("kv_alloc", late_pattern(r"kv[ _-]?(?:cache|budget|pool|buffer)|cache blocks?|compute buffer", re.IGNORECASE)),
    ("weights_load", late_pattern(r"(?:load\w{0,3}|creat\w{0,3}) .{0,40}(?:model|weights?|checkpoint|tensors?)|weights?\b|model buffer", re.IGNORECASE)),
    ("runtime_request", late_pattern(r"prefill|decod\w{1,3}|requests?\b|prompts?\b|batch_prefill|forward pass", re.IGNORECASE)),
)  # fmt: skip
_COMPARED = late_pattern(r"(?i)exceed|larger|more")
WORTH = (
    "emory",
    "EMORY",
    "OOM",
    "oom",
    "RAM",
    "ram",
    "RESOURCE_EXHAUSTED",
    "xhaust",
    "lloc",
    "ALLOC",
    "ENOMEM",
    "存",
    "メモリ",
    "메모리",
    "памят",
)  # one of these is in every such line


def shortage(text: str) -> Values | None:
    """The figures of a line that says memory is short; None where it does not say so."""
    if not any(word in text for word in WORTH):
        return None
    match = _SHORT.search(text)
    if match is None or _HINT.search(text, max(0, match.start() - 120), match.end() + 120):
        return None
    values: Values = dict(figures(text))
    if not values and _COMPARED.match(match[0]):
        return None  # said of models and cards in general
    about = next((stage for stage, words in _ABOUT if words.search(text)), None)
    if about:
        values["about"] = about
    return values


def figures(text: str) -> dict[str, int]:
    """Sizes by name: "free: 1.2 GiB, tried to allocate 3 GiB" -> {"free": ..., "tried": ...}; the first of a name."""
    named: dict[str, int] = {}
    before = 0
    sizes = [(m.start(), m.end(), m[1], m[2]) for m in _SIZE.finditer(text[:4000])]
    sizes += [(m.start(), m.end(), m[1], "B") for m in _RAW.finditer(text[:4000])]
    for start, end, digits, unit in sorted(set(sizes))[:32]:
        if start < before:
            continue
        name = _name(text[max(before, start - _NEAR) : start], text[end : end + _BEHIND])
        before = end
        if name and name not in named:
            named[name] = _bytes(digits, unit)
    return named


def _name(left: str, right: str) -> str:
    """The word that belongs to a size: the last one before it in the same clause, unless one stands right behind it."""
    left, right = _CLAUSE.split(left)[-1], _CLAUSE.split(right)[0]
    best, name = -1, ""
    for candidate, words in _NAMES:
        for match in words.finditer(left):
            if match.start() > best:
                best, name = match.start(), candidate
    after = min(((m.start(), candidate) for candidate, words in _NAMES if (m := words.search(right))), default=(99, ""))
    return after[1] if not name or after[0] <= 8 else name


def _bytes(digits: str, unit: str) -> int:
    unit = {"bytes": "bytes", "b": "B"}.get(
        unit.lower(), unit[0].upper() + unit[1:].replace("b", "B").replace("I", "i")
    )
    return round(float(digits.replace(",", ".")) * UNITS.get(unit, UNITS.get(unit.replace("TB", "TiB"), 1)))
