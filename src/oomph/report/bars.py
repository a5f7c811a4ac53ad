"""One GPU as a line: what takes its memory, side by side, and what is left or missing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from oomph.ir.plan import Plan, RankPlan
from oomph.report.terminal import Style, length
from oomph.units import gib

# part -> the sign that fills it, its colour, and what people call it
PARTS = {
    "others": ("x", "90", "other processes"),
    "context": ("+", "35", "context"),
    "weights": ("#", "34", "weights"),
    "activations": ("-", "33", "activations"),
    "graphs": ("~", "36", "CUDA graphs"),
    "KV": ("=", "32", "KV cache"),
    "compute": ("-", "33", "compute buffers"),
}


def sizes(rank: RankPlan, plan: Plan) -> list[tuple[str, int]]:
    """The parts of one GPU in the order in which they are taken."""
    terms = {name: term.bytes for name, term in rank.terms.items()}
    found = [("others", rank.used_by_others_bytes)]
    if "compute" in terms:  # llama.cpp and Ollama
        found += [("context", terms["context"]), ("weights", terms["weights"])]
        return [*found, ("KV", terms["kv_cache"] + terms["state"]), ("compute", terms["compute"])]
    kv = plan.kv.num_blocks * plan.kv.bytes_per_block if plan.fits and plan.kv else 0
    found += [("context", terms["context"] + terms["non_torch"]), ("weights", terms["weights"])]
    return [*found, ("activations", terms["activation_peak"]), ("graphs", terms["cudagraph"]), ("KV", kv)]


def alike(plan: Plan) -> list[tuple[RankPlan, int]]:
    """Ranks that look the same are shown once, with how many there are."""
    seen: dict[tuple[object, ...], list[RankPlan]] = {}
    for rank in plan.ranks:
        bytes_ = tuple(term.bytes for term in rank.terms.values())
        seen.setdefault((rank.gpu, rank.total_bytes, rank.used_by_others_bytes, bytes_), []).append(rank)
    return [(ranks[0], len(ranks)) for ranks in seen.values()]


def bars(plan: Plan, style: Style, width: int) -> list[str]:
    """A line for each kind of rank, and one that says what the signs mean."""
    rows = [(_name(rank, n), sizes(rank, plan), rank.total_bytes) for rank, n in alike(plan)]
    longest = max((len(name) for name, _, _ in rows), default=0)
    lines = [f"  {name:<{longest}}  {bar(parts, total, style, width - longest - 4)}" for name, parts, total in rows]
    shown = dict.fromkeys(part for _, parts, _ in rows for part, n in parts if n)
    over = any(sum(n for _, n in parts) > total for _, parts, total in rows)
    return [*lines, " " * (longest + 4) + legend(shown, style, free=not over)] if lines else []


def _name(rank: RankPlan, count: int) -> str:
    return f"GPU {rank.rank}" + (f"-{rank.rank + count - 1}" if count > 1 else "")


def legend(parts: Iterable[str], style: Style, *, free: bool) -> str:
    words = [f"{style.paint(PARTS[part][0], PARTS[part][1])} {PARTS[part][2]}" for part in parts]
    return "  ".join([*words, ". free"] if free else words)


def bar(parts: Sequence[tuple[str, int]], total: int, style: Style, width: int) -> str:
    """[+|####weights 15.1####|-|====KV 5.2====|....] 21.1 of 23.5 GiB"""
    used = sum(n for _, n in parts)
    said = f" {gib(used).removesuffix(' GiB')} of {gib(total)}"
    end = "!!" if used > total else ""
    room = max(16, width - len(said) - len(end) - 2)
    scale = room / max(used, total)
    ends = [round(sum(n for _, n in parts[: i + 1]) * scale) for i in range(len(parts))]  # no rounding adds up
    cells = "".join(
        _cell(name, n, end - begin, style) for (name, n), begin, end in zip(parts, [0, *ends], ends, strict=False)
    )
    free = max(0, room - length(cells)) if used <= total else 0
    return f"[{cells}{'.' * free}]{style.bad(end)}{said}"


def _cell(part: str, n: int, width: int, style: Style) -> str:
    if width < 1:
        return ""
    sign, colour, _ = PARTS[part]
    text = f"{part} {n / (1 << 30):.1f}"
    if width < len(text) + 2:
        text = ""
    if width == 1:
        return style.paint(sign, colour)
    return style.paint(text.center(width - 1, sign), colour) + "|"
