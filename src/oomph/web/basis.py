"""The basis of each term, on demand: bytes, interval, where the figure comes from, and what it is made of."""

from collections import Counter

from oomph.engines.registry import engine_of
from oomph.ir import TERM_WORDS, Plan, Term
from oomph.ir.roles import role_words
from oomph.report.bars import alike
from oomph.report.screens.plan import KINDS
from oomph.units import human
from oomph.web.elements import details, soft, stage_words, table
from oomph.web.markup import Html, el, join


def basis(plan: Plan) -> Html:
    return join(_cache(plan), _terms(plan), _settings(plan))


BASES = {
    "exact": "follows from the engine's source to the byte",
    "formula": "derived, with a small known error",
    "measured": "a constant that was measured",
    "assumed": "nobody knows it: the interval is wide",
    "given": "observed, and pinned",
}


def _terms(plan: Plan) -> Html:
    legend = soft("Where a figure comes from: ", "; ".join(f"{name}: {words}" for name, words in BASES.items()), ".")
    tables = []
    for rank, count in alike(plan):
        name = f"GPU {rank.rank}" + (f" to {rank.rank + count - 1}, each" if count > 1 else "")
        rows = [row for term in rank.terms.values() for row in _rows(term)]
        stages = [
            (stage_words(stage.name), human(stage.resident_bytes), human(stage.peak_bytes), stage.note)
            for stage in rank.stages
        ]  # fmt: skip
        tables.append(
            details(
                f"The basis of each term on {name}",
                table(["term", "#size", "#bytes", "basis", "#interval", "from"], rows, label=f"Terms of {name}"),
                table(["stage", "#stays", "#peak", "note"], stages, label=f"Stages of {name}"),
                legend,
            )
        )
    return join(*tables)


class _Part(tuple[object, ...]):
    cls = "inner"


def _rows(term: Term) -> list[tuple[object, ...]]:
    span = "" if term.low == term.bytes == term.high else f"{human(term.low)} to {human(term.high)}"
    name = TERM_WORDS.get(term.name, term.name.replace("_", " "))
    rows: list[tuple[object, ...]] = [(name, human(term.bytes), f"{term.bytes:,}", term.basis, span, term.why)]
    if len(term.parts) > 1:
        inside = sorted(term.parts.items(), key=lambda item: -abs(item[1]))
        rows += [_Part((role_words(k), human(v), f"{v:,}", "", "", "")) for k, v in inside if v]
    return rows


def _cache(plan: Plan) -> Html | None:
    kv = plan.kv
    if kv is None or not kv.groups:
        return None
    same = Counter((group.kind, group.layers, group.block_size, group.page_bytes) for group in kv.groups)
    rows = [
        (KINDS.get(kind, kind.replace("_", " ")), f"{n * layers:,}", f"{n}", f"{block:,}", human(page))
        for (kind, layers, block, page), n in same.items()
    ]
    unit = engine_of(plan.deployment).words.cache_unit
    sentence = f"{kv.num_blocks:,} {unit} of {human(kv.bytes_per_block)}." if kv.num_blocks else ""
    lines = el("pre", "\n".join(kv.log_lines), cls="log", tabindex=0) if kv.log_lines else None
    heads = ["kind", "#layers", "#groups", "#tokens per block", "#page"]
    return details(
        "The KV cache", el("p", sentence), table(heads, rows, label="KV cache groups"),
        join(el("p", f"What {engine_of(plan.deployment).title} will print:"), lines) if lines else None,
    )  # fmt: skip


def _settings(plan: Plan) -> Html | None:
    plain = {k: v for k, v in plan.resolved.items() if isinstance(v, str | int | float | bool) and v != ""}
    if not plain:
        return None
    rows = [(el("code", key), f"{value:,}" if type(value) is int else str(value)) for key, value in plain.items()]
    return details("The settings that the engine ends up with", table(["setting", "value"], rows, label="Settings"))
