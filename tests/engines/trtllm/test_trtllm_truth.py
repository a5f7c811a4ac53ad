"""Posted start-ups: budget, tokens, pools, temporary blocks and weights come out as their logs print them."""

from __future__ import annotations

from collections import Counter

import pytest
import trtllm_truth

from oomph.units import GIB

FIGURES = [figure for row in trtllm_truth.rows() for figure in trtllm_truth.figures(row)]
OWN = [figure for row in trtllm_truth.rows("trtllm-own.jsonl") for figure in trtllm_truth.figures(row)]


# DeepGEMM with attention data parallelism: 3.2 GiB more than its source gives (facts/trtllm/outside.py)
MISSES = {("o01", "inside torch, GiB"), ("o09", "inside torch, GiB")}


@pytest.mark.parametrize("figure", [*FIGURES, *OWN], ids=lambda f: f"{f.row} {f.term}")
def test_a_printed_figure_comes_out(figure: trtllm_truth.Figure) -> None:
    if (figure.row, figure.term) in MISSES:
        assert (
            0.96 * figure.printed < figure.ours < 0.98 * figure.printed
        )  # no longer a miss? then take it off the list
        return
    assert figure.agrees, f"{figure.ours} instead of {figure.printed}"


def test_how_many_figures_were_compared() -> None:
    """A row that no longer states enough would make the test above weaker without failing it."""
    counts = Counter(figure.term.split(" of window")[0] for figure in FIGURES)
    assert len(trtllm_truth.rows()) == 45
    assert (counts["budget, GiB"], counts["tokens"], counts["pool, GiB"]) == (20, 19, 9)
    assert (counts["temporary tokens"], counts["first pass's max_seq_len"], counts["weights, GiB"]) == (4, 17, 4)
    assert len(trtllm_truth.rows("trtllm-own.jsonl")) == 19
    own = Counter(figure.term for figure in OWN)
    assert (own["budget, GiB"], own["tokens"], own["first pass's max_seq_len"]) == (10, 10, 11)


def test_the_budget_in_bytes() -> None:
    """Ten logs print the arguments behind it: the budget to the byte, of which the peak is known to 0.005 GiB."""
    for row in trtllm_truth.rows("trtllm-own.jsonl"):
        printed = row["figures"].get("kv_bytes")
        if printed is None or row["backend"] != "pytorch":
            continue
        state = trtllm_truth.state_of(row)
        assert printed // state.cells.estimated == row["figures"]["estimated_tokens"]
        share = state.settings.free_gpu_memory_fraction
        assert abs(state.pool.budget - printed) <= 0.0055 * share * GIB, row["id"]


def test_peaks_lie_in_their_intervals() -> None:
    """Without the printed peak. A DGX Spark's holds the page cache: its interval is as wide as the checkpoint."""
    inside = []
    for name in ("trtllm.jsonl", "trtllm-own.jsonl"):
        for row in trtllm_truth.rows(name):
            if (
                row["backend"] == "pytorch"
                and row["model"]
                and row["flags"] is not None
                and "peak_gib" in row["figures"]
            ):
                low, high = trtllm_truth.peak_interval(row)
                inside.append(low <= row["figures"]["peak_gib"] <= high)
    assert (sum(inside), len(inside)) == (30, 30)
