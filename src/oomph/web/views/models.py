"""What should I run? The models that run well on these GPUs: quality against speed, and a line for each."""

from oomph.engines.registry import engine_named
from oomph.report.screens.models import basis
from oomph.report.screens.plan_lines import gpus_line
from oomph.search.models import Models
from oomph.search.picks import Pick
from oomph.units import human
from oomph.web.markup import Html, el
from oomph.web.views.scatter import Dot, doublings, scatter, tens
from oomph.web.views.shared import apply_button, command_block, section, soft, table


def models_view(answer: Models) -> Html:
    people = f"{answer.users} user{'s' if answer.users > 1 else ''} at once"
    least = "" if answer.context_asked else "at least "
    about = f"{answer.purpose}, {least}{answer.context:,} tokens, {people}"
    best = answer.picks[0] if answer.picks else None
    if best is None:
        says = el("p", el("strong", "NOTHING FITS"), f" no model of the catalogue runs here; {answer.looked_at} were "
                  f"looked at, {answer.possible} planned", cls="says")  # fmt: skip
    else:
        says = el("p", el("strong", "BEST"), " ", answer.why, cls="says")
    return el(
        "article",
        el("header", el("h1", f"What runs on {gpus_line(answer.gpus)}"), soft(about), cls="heading"),
        el("div", says, command_block(best.command) if best else None, cls=f"verdict {'fits' if best else 'fails'}"),
        section("Quality against speed", _picture(answer)),
        section("Models", _table(answer)) if best else None,
        section("The first by other engines", _others(best)) if best and best.others else None,
        soft(f"Order: {answer.objective}.") if best and answer.objective else None,
        soft(basis(answer)) if best else None,
        cls="view models",
    )


def _name(pick: Pick) -> str:
    return f"{pick.model.rpartition('/')[2]} {pick.quantization}, {engine_named(pick.engine).title}"


def _speed(pick: Pick) -> float:
    return pick.speed.one_user if pick.speed else 0.0


def _picture(answer: Models) -> Html | None:
    known = [pick for pick in answer.picks if pick.speed is not None]
    if len(known) < 2:
        return None
    dots = [
        Dot(max(1.0, _speed(pick)), max(0.0, pick.quality.value), "count1" if pick.quality.published else "count4", 7,
            f"{_name(pick)}: quality {pick.quality.grade} {pick.quality.value:.0f}, {_speed(pick):,.0f} tokens/s, "
            f"{pick.context:,} tokens for {pick.capacity} users", pick.command, chosen=pick is answer.picks[0])
        for pick in known
    ]  # fmt: skip
    across = doublings([dot.x for dot in dots], "tokens per second for one user →")
    chart = scatter(dots, across, tens([dot.y for dot in dots], "↑ quality"), "Quality against speed")
    legend = (("count1", "a published figure"), ("count4", "estimated from size and date"))
    items = [el("li", el("i", cls=f"chip round {kind}"), words) for kind, words in legend]
    return el("figure", chart, el("ul", items, el("li", "the ring is the first; click one to plan it"), cls="legend"),
              cls="chart")  # fmt: skip


def _table(answer: Models) -> Html:
    rows = [
        (
            (number, number), (el("b", pick.model.rpartition("/")[2]), pick.model),
            (pick.quantization, pick.quantization),
            (engine_named(pick.engine).title, pick.engine),
            (f"{pick.quality.grade} {'' if pick.quality.published else '~'}{max(0.0, pick.quality.rank):.0f}",
             round(pick.quality.rank, 2)),
            (f"{_speed(pick):,.0f}" if pick.speed else "?", round(_speed(pick), 1)),
            (f"{pick.context:,}", pick.context), (f"{pick.capacity}" if pick.capacity < 256 else "256+", pick.capacity),
            (human(pick.room_bytes), pick.room_bytes), (apply_button(pick.command, "Plan", data_request=""), 0),
        )
        for number, pick in enumerate(answer.picks, 1)
    ]  # fmt: skip
    heads = ["#", "model", "quantisation", "engine", "#quality", "#tokens/s", "#context", "#users", "#room", ""]
    return table(heads, rows, sorts=True, label="Models that run here")


def _others(best: Pick) -> Html:
    rows = [
        (engine_named(other.engine).title, other.quantization,
         f"{other.tokens_per_second:,.0f}" if other.tokens_per_second else "?", f"{other.context:,}",
         apply_button(other.command, "Plan", data_request=""))
        for other in best.others
    ]  # fmt: skip
    return table(["engine", "quantisation", "#tokens/s", "#context", ""], rows, label="Other engines")
