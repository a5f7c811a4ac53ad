"""The best way to serve a model on these GPUs: the pick, the front as a picture, and why the rest is not there."""

from collections.abc import Sequence

from oomph.commands import to_shell
from oomph.report.screens.fit import asked, tightest_stage
from oomph.report.screens.plan_lines import gpus_line
from oomph.search.best import slow
from oomph.search.fit import Answer, Fit
from oomph.simulate.speed import worst_error
from oomph.units import human
from oomph.web.markup import Html, el, join
from oomph.web.views.scatter import Dot, doublings, scatter
from oomph.web.views.shared import apply_button, command_block, details, section, soft, table, tiles

_BASIS = (
    "Each row was planned and fits with the unfavourable end of every interval. Users are requests of the whole "
    "context at once. Quality is an order only: what keeps more bits loses less. Speed is relative, computed for one "
    "user, not measured"
)


def fit_view(answer: Fit) -> Html:
    front = answer.front or answer.nearest
    return el(
        "article",
        el("header", el("h1", answer.model), soft(f"{answer.engine} on {gpus_line(answer.gpus)}"), cls="heading"),
        _verdict(answer),
        join(command_block(to_shell(answer.pick.plan.deployment)),
             apply_button(to_shell(answer.pick.plan.deployment), "Plan this command")) if answer.pick else None,
        tiles(_gives(answer.pick)) if answer.pick else None,
        section("What stands beside it", _picture(answer, front), _table(answer, front)),
        section("Not chosen", _refused(answer)),
        section("Notes", el("ul", [el("li", note) for note in answer.notes], cls="notes")) if answer.notes else None,
        soft(f"The best by this measure: {answer.objective}.") if answer.objective else None,
        soft(f"{answer.plans:,} plans. {_BASIS}{_error(front)}."),
        cls="view fit",
    )  # fmt: skip


def _error(answers: Sequence[Answer]) -> str:
    error = worst_error([answer.speed for answer in answers if answer.speed is not None])
    return f"; {error}" if error else ""


def _verdict(answer: Fit) -> Html:
    if answer.pick is None:
        word, kind, rest = "NOTHING FITS", "fails", "no checkpoint, layout or flag starts here, not with 2,048 tokens"
    else:
        point = answer.pick.point
        got = f"{point.context:,} tokens of context for {point.users} user{'s' if point.users > 1 else ''} at once"
        got = ", ".join(filter(None, (got, slow(answer.pick.speed))))
        if answer.met:
            word, kind, rest = "FITS", "fits", got
        else:
            why = "is too close to call" if answer.close else "does not fit"
            word, kind = "NOT MET", "fails"
            rest = f"{asked(answer)} {why}. The nearest that fits for certain: {got}"
    return el("div", el("p", el("strong", word), " ", rest, cls="says"), cls=f"verdict {kind}")


def _gives(pick: Answer) -> list[tuple[str, str]]:
    kv, point = pick.plan.kv, pick.point
    rows = []
    if kv is not None:
        rows = [
            (f"{kv.logged_tokens:,}", "tokens of KV cache"),
            (
                f"{kv.max_concurrency:.2f}",
                f"requests of {point.context:,} tokens at once; {point.concurrency:.2f} at worst",
            ),
            (human(kv.need_bytes), "KV cache of one request"),
        ]
    room, _, where = tightest_stage(pick.plan).partition(" per GPU")
    rows.append((room, f"per GPU{where}"))
    if pick.gives_up:
        rows.append((", ".join(pick.gives_up), "is what it costs"))
    return rows


def quality_class(precision: str) -> str:
    text = precision.upper()
    return "b16" if "16" in text else "b8" if "8" in text else "b4"


def words(answer: Answer) -> str:
    point = answer.point
    note = f", {answer.note}" if answer.note else ""
    return (
        f"{point.arm.model}: {point.context:,} tokens for {point.users} users, {answer.precision}, "
        f"{answer.relative_speed:.0%} of the fastest{note}"
    )


def _picture(answer: Fit, front: Sequence[Answer]) -> Html | None:
    if len(front) < 2:
        return None
    dots = [
        Dot(one.point.context, one.point.users, quality_class(one.precision),
            4 + 6 * one.relative_speed, words(one), to_shell(one.plan.deployment), chosen=one is answer.pick)
        for one in front
    ]  # fmt: skip
    across = doublings([d.x for d in dots], "tokens of context →")
    up = doublings([d.y for d in dots], "↑ users at once")
    kinds = dict.fromkeys(quality_class(one.precision) for one in front)
    names = {"b16": "16 bits", "b8": "8 bits", "b4": "4 bits"}
    legend = [el("li", el("i", cls=f"chip round {kind}"), names[kind]) for kind in names if kind in kinds]
    legend.append(el("li", "the larger, the faster; the ring is the pick; click one to plan it"))
    chart = scatter(dots, across, up, "Context against users: every configuration that nothing beats")
    return el("figure", chart, el("ul", legend, cls="legend"), cls="chart")


def _table(answer: Fit, front: Sequence[Answer]) -> Html | None:
    if not front:
        return None
    rows = []
    for one in front:
        point, command = one.point, to_shell(one.plan.deployment)
        quality = f"{one.precision} −{point.quality:.1f}" if point.quality else one.precision
        rows.append((
            ("▸" if one is answer.pick else "", 0 if one is answer.pick else 1),
            (f"{point.context:,}", point.context),
            (f"{point.users:,}", point.users), (quality, point.quality),
            (f"{one.relative_speed:.0%}", one.relative_speed),
            (join(point.arm.model, el("br"), el("span", one.note, cls="soft")), point.arm.model),
            (apply_button(command, "Load"), 0),
        ))  # fmt: skip
    heads = ["", "#context", "#users", "quality", "#speed", "checkpoint and flags", ""]
    return table(heads, rows, sorts=True, label="The front", tall=True)


def _refused(answer: Fit) -> Html | None:
    rows = [el("li", el("code", r.checkpoint), ": ", r.why.split("\n")[0]) for r in answer.refused]
    if not rows:
        return None
    return (
        el("ul", rows, cls="reasons")
        if len(rows) <= 6
        else details(f"{len(rows)} checkpoints", el("ul", rows, cls="reasons"))
    )
