"""Posted start-ups: budget, tokens, pools, temporary blocks and weights come out as their logs print them."""

from __future__ import annotations

from collections import Counter

import pytest
import trtllm_truth

FIGURES = [figure for row in trtllm_truth.rows() for figure in trtllm_truth.figures(row)]


@pytest.mark.parametrize("figure", FIGURES, ids=lambda f: f"{f.row} {f.term}")
def test_a_printed_figure_comes_out(figure: trtllm_truth.Figure) -> None:
    assert figure.agrees, f"{figure.ours} instead of {figure.printed}"


def test_how_many_figures_were_compared() -> None:
    """A row that no longer states enough would make the test above weaker without failing it."""
    counts = Counter(figure.term.split(" of window")[0] for figure in FIGURES)
    assert len(trtllm_truth.rows()) == 45
    assert (counts["budget, GiB"], counts["tokens"], counts["pool, GiB"]) == (20, 19, 9)
    assert (counts["temporary tokens"], counts["first pass's max_seq_len"], counts["weights, GiB"]) == (4, 17, 4)
