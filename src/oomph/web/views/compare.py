"""The same model on the engines, side by side, each planned at its best."""

from collections import Counter

from oomph.answers.compare import Comparison, Row
from oomph.engines.registry import engine_named
from oomph.units import gib
from oomph.web.markup import Html, el
from oomph.web.views.shared import apply_button, block, picture, section, soft, table


def compare_view(answer: Comparison) -> Html:
    gpus = " + ".join(f"{n} x {name}" if n > 1 else name for name, n in Counter(answer.gpus).items())
    most = max((row.weights_bytes + row.host_bytes for row in answer.rows), default=0)
    wanted = f" of context for {answer.users} users at once" if answer.users > 1 else " of context"
    works = any(row.fits for row in answer.rows)
    return el(
        "article",
        el("header", el("h1", answer.model), soft(f"{answer.context:,} tokens{wanted} on {gpus}"), cls="heading"),
        el("div", el("p", el("strong", "TAKE" if works else "NONE"), " ", answer.advice, cls="says"),
           cls=f"verdict {'fits' if works else 'fails'}"),
        section("Engines", table(["engine", "fits", "#users", "weights", "#bits", "checkpoint", ""],
                                 [_cells(row, most) for row in answer.rows], sorts=True, label="Engines"), _legend()),
        soft("Users: requests of the whole context at once. Bits: of a weight, on average. The best of each engine by "
             f"this measure: {answer.objective}."),
        cls="view compare",
    )  # fmt: skip


def _cells(row: Row, most: int) -> tuple[object, ...]:
    engine = engine_named(row.engine)
    fits = "yes" if row.on_gpu else "partly" if row.fits else "no"
    kind = {"yes": "fits", "partly": "close", "no": "fails"}[fits]
    users = f"{row.users:.1f}" if row.fits and row.users % 1 else f"{row.users:.0f}" if row.fits else ""
    short = f", {gib(row.short_bytes)} short" if row.short_bytes else ""
    why = el("p", f"{row.why}{short}", cls="soft") if row.why else None
    bar = None
    if row.weights_bytes + row.host_bytes:
        bar = picture(
            14, f"{gib(row.weights_bytes)} on the GPUs, {gib(row.host_bytes)} on the host",
            block("ground", 0, 1, 2, 10), block("fill weights", 0, row.weights_bytes / max(1, most), 2, 10),
            block("fill others", row.weights_bytes / max(1, most), row.host_bytes / max(1, most), 2, 10), cls="inline",
        )  # fmt: skip
    sizes = f"{gib(row.weights_bytes)}" + (f" + {gib(row.host_bytes)} on the host" if row.host_bytes else "")
    return (
        (el("b", f"{engine.title} {row.version}".strip()), engine.title), (el("b", fits, cls=f"effect {kind}"), fits),
        (users, row.users), (el("div", bar, sizes if row.weights_bytes else ""), row.weights_bytes),
        (f"{row.bits:.1f}" if row.bits else "", row.bits), (el("div", row.checkpoint, why), row.checkpoint),
        (apply_button(row.command, "Plan") if row.fits else None, 0),
    )  # fmt: skip


def _legend() -> Html:
    parts = (("weights", "on the GPUs"), ("others", "on the host"))
    return el("ul", [el("li", el("i", cls=f"chip {part}"), words) for part, words in parts], cls="legend")
