"""The deployments of some files: one line each, then the plan of each."""

from oomph.answers.check import Check, Item, Outcome
from oomph.report.screens.check import WORDS, details, summary
from oomph.web.markup import Html, el
from oomph.web.views.plan import plan_view
from oomph.web.views.shared import section, table

_KINDS: dict[Outcome, str] = {"fits": "fits", "at_risk": "close", "close": "close", "unplanned": "close"}


def check_view(answer: Check) -> Html:
    several = len({item.file for item in answer.items}) > 1
    heads = [*(("file",) if several else ()), "deployment", "outcome", "model", "why"]
    rows = [_cells(item, several) for item in answer.items]
    overview = el(
        "article", el("header", el("h1", summary(answer)), cls="heading"),
        section("Deployments", table(heads, rows, sorts=True, label="Deployments")), cls="view check",
    )  # fmt: skip
    return el("div", overview, [plan_view(item.plan) for item in answer.items if item.plan is not None])


def _cells(item: Item, several: bool) -> tuple[object, ...]:
    word = el("b", WORDS[item.outcome][0], cls=f"effect {_KINDS.get(item.outcome, 'fails')}")
    place = f"{item.file}:{item.line}" if item.line else item.file
    model = item.plan.model if item.plan is not None else item.model
    return (*((place,) if several else ()), item.name, (word, item.outcome), model, details(item))
