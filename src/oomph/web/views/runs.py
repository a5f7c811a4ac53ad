"""The runs of a log in one file: each explained, one below the other."""

from collections.abc import Sequence

from oomph.doctor.runs import Run
from oomph.web.markup import Html, el
from oomph.web.views.explain import explain_view, run_names


def runs_view(runs: Sequence[Run]) -> Html:
    if len(runs) == 1:
        return explain_view(runs[0])
    return el("div", [el("section", el("h2", name), explain_view(run)) for run, name in zip(runs, run_names(runs))])
