"""One GPU as a line: what takes its memory, side by side, and what is left or missing."""

from collections.abc import Iterable, Sequence

from oomph.ir import Plan, RankPlan
from oomph.report.parts import PARTS
from oomph.report.terminal import Style, length
from oomph.text.tables import grouped
from oomph.units import gib


def sizes(rank: RankPlan, plan: Plan) -> list[tuple[str, int]]:
    """The parts of one GPU in the order in which they are taken: at the peak that kills it, or when it is ready.

    They add up to what the stage says in the JSON.
    """
    terms = {name: term.bytes for name, term in rank.terms.items()}
    others = ("others", rank.used_by_others_bytes)
    if "compute" in terms:  # layers are placed one by one
        cache = terms["kv_cache"] + terms["state"]
        return [others, ("context", terms["context"]), ("weights", terms["weights"]), ("KV", cache),
                ("compute", terms["compute"])]  # fmt: skip
    stages = {stage.name: stage for stage in rank.stages}
    dying = stages.get(plan.verdict.stage or "other") if not plan.fits else None
    early = [others, ("context", terms.get("context", 0) + terms.get("non_torch", 0)), ("weights", terms["weights"])]
    if dying is None:
        return _ready(rank, early, terms)
    if dying.name == "startup_free_memory":
        return [others, ("context", terms.get("context", 0)), ("budget", rank.requested_bytes)]
    if dying.name == "weights_load":
        return _filled([others, ("context", terms.get("context", 0))], "weights", dying.peak_bytes)
    if dying.name == "profile_run":
        return _filled(early, "activations", dying.peak_bytes)
    if dying.name == "cudagraph_profile":
        return _filled([*early, ("graphs", terms.get("cudagraph", 0))], "KV", dying.peak_bytes)
    if dying.name == "kv_check" and plan.kv is not None and is_pool_set(plan):
        return [("KV", plan.kv.need_bytes)]
    if dying.name == "kv_check":
        return _counted(rank, plan.kv.need_bytes if plan.kv else 0)
    return _ready(rank, early, terms)


# Terms of a budget -> the parts of a bar.
_BUDGET_PARTS = {
    "others": "others", "context": "context", "non_torch": "context", "weights": "weights",
    "activation_peak": "activations", "cudagraph": "graphs", "runner": "buffers",
    "image_transfer": "buffers",
}  # fmt: skip


def _counted(rank: RankPlan, need: int) -> list[tuple[str, int]]:
    """What the engine's check counts against the budget, and what one request needs: over it by what is short."""
    counted = dict.fromkeys(("others", "context", "weights", "activations", "graphs", "buffers"), 0)
    for term, size in rank.terms["available_kv"].parts.items():
        if term in _BUDGET_PARTS:
            counted[_BUDGET_PARTS[term]] += -size
    return [*counted.items(), ("KV", need)]


def is_pool_set(plan: Plan) -> bool:
    """The KV cache has a size that the user set, and not what is left of the budget: that size is what is too small."""
    if plan.kv is None or not plan.ranks:
        return False
    left = min(rank.terms["available_kv"].bytes for rank in plan.ranks)
    return plan.ranks[0].terms["available_kv"].basis == "given" or plan.kv.available_bytes < plan.kv.need_bytes <= left


def _filled(parts: list[tuple[str, int]], last: str, used: int) -> list[tuple[str, int]]:
    return [*parts, (last, max(0, used - sum(n for _, n in parts)))]


def _ready(rank: RankPlan, early: list[tuple[str, int]], terms: dict[str, int]) -> list[tuple[str, int]]:
    """After the last stage: the cache, the graphs that were captured, and what the allocator keeps."""
    stages = {stage.name: stage for stage in rank.stages}
    pool = 0
    if "kv_alloc" in stages:
        before = stages["kv_check"].resident_bytes if "kv_check" in stages else stages["weights_load"].resident_bytes
        pool = stages["kv_alloc"].resident_bytes - before
        if "available_kv" in terms:  # what is allocated beside the cache has a term of its own
            pool = min(pool, terms["available_kv"])
    graphs = terms.get("cudagraph", 0) if "cudagraph_capture" in stages else 0
    used = max(stage.peak_bytes for stage in rank.stages[-3:]) if rank.stages else 0
    return _filled([*early, ("graphs", graphs), ("KV", max(0, pool))], "buffers", used)


def alike(plan: Plan) -> list[tuple[RankPlan, int]]:
    """Ranks that look the same are shown once, with how many there are."""
    return [(ranks[0], len(ranks)) for ranks in grouped(plan.ranks, _look).values()]


def _look(rank: RankPlan) -> tuple[object, ...]:
    return rank.gpu, rank.total_bytes, rank.used_by_others_bytes, *(term.bytes for term in rank.terms.values())


def bars(plan: Plan, style: Style, width: int) -> list[str]:
    """A line for each kind of rank, and one that says what the signs mean."""
    rows = [(_name(rank, n), sizes(rank, plan), _limit(rank, plan)[0]) for rank, n in alike(plan)]
    longest = max((len(name) for name, _, _ in rows), default=0)
    what = _limit(plan.ranks[0], plan)[1] if plan.ranks else ""
    lines = [
        f"  {name:<{longest}}  {bar(parts, total, style, width - longest - 4, what)}" for name, parts, total in rows
    ]
    shown = dict.fromkeys(part for _, parts, _ in rows for part, n in parts if n)
    over = any(sum(n for _, n in parts) > total for _, parts, total in rows)
    return [*lines, " " * (longest + 4) + legend(shown, style, free=not over)] if lines else []


def _limit(rank: RankPlan, plan: Plan) -> tuple[int, str]:
    """What the bar is held against, and what that is called where it is not the card."""
    if plan.fits or plan.verdict.stage != "kv_check":
        return rank.total_bytes, ""
    if plan.kv is not None and is_pool_set(plan):
        return max(1, plan.kv.available_bytes), " set for the KV cache"
    return rank.requested_bytes, " budget"


def _name(rank: RankPlan, count: int) -> str:
    return f"GPU {rank.rank}" + (f"-{rank.rank + count - 1}" if count > 1 else "")


def legend(parts: Iterable[str], style: Style, *, free: bool) -> str:
    words = [f"{style.paint(PARTS[part].sign, PARTS[part].ansi)} {PARTS[part].words}" for part in parts]
    return "  ".join([*words, ". free"] if free else words)


def bar(parts: Sequence[tuple[str, int]], total: int, style: Style, width: int, what: str = "") -> str:
    """[+|####weights 15.1####|-|====KV 5.2====|....] 21.1 of 23.5 GiB"""
    used = sum(n for _, n in parts)
    text = f" {gib(used).removesuffix(' GiB')} of {gib(total)}{what}"
    end = "!!" if used > total else ""
    room = max(16, width - len(text) - len(end) - 2)
    scale = room / max(used, total)
    ends = [round(sum(n for _, n in parts[: i + 1]) * scale) for i in range(len(parts))]  # no rounding adds up
    cells = "".join(
        _cell(name, n, end - begin, style) for (name, n), begin, end in zip(parts, [0, *ends], ends, strict=False)
    )
    free = max(0, room - length(cells)) if used <= total else 0
    return f"[{cells}{'.' * free}]{style.bad(end)}{text}"


def bar_of_parts(parts: Sequence[tuple[str, int]], total: int, width: int) -> str:
    """A bar of parts that have names of their own: services beside each other, their signs in turn."""
    signs = ("#", "=", "~", "+", "-")
    figures = f" {gib(sum(n for _, n in parts)).removesuffix(' GiB')} of {gib(total)}"
    room = max(16, width - len(figures) - 2)
    cells = ""
    for index, (name, n) in enumerate(parts):
        wide = max(1, round(n / max(total, 1) * room))
        text = f"{name} {n / (1 << 30):.1f}"
        text = text if wide >= len(text) + 2 else ""
        cells += text.center(wide - 1, signs[index % len(signs)]) + "|"
    return f"[{cells}{'.' * max(0, room - len(cells))}]{figures}"


def _cell(part: str, n: int, width: int, style: Style) -> str:
    if width < 1:
        return ""
    sign, colour = PARTS[part].sign, PARTS[part].ansi
    text = f"{part} {n / (1 << 30):.1f}"
    if width < len(text) + 2:
        text = ""
    return style.paint(sign, colour) if width == 1 else style.paint(text.center(width - 1, sign), colour) + "|"
