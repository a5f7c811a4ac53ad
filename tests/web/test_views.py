"""Views: what they are made of escapes what strangers wrote, adds up, and says what the answer says."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, strategies as st

from oomph.answers.plan import plan
from oomph.web.markup import Html, el, join
from oomph.web.page import page_of
from oomph.web.treemap import squarify


@given(st.text())
def test_a_strangers_text_is_no_markup(text: str) -> None:
    made = el("p", text, title=text)
    inner = made.removeprefix("<p").removesuffix("</p>")
    assert re.fullmatch(r' title="[^"<]*">[^<]*', inner)


def test_markup_stays_markup_and_what_is_nothing_is_left_out() -> None:
    assert el("p", el("b", "x"), None, [el("i", "y"), "z"], cls="a", hidden=True, title=None, data_x=0) == (
        '<p class="a" hidden data-x="0"><b>x</b><i>y</i>z</p>'
    )
    assert isinstance(join("a"), Html) and join("<") == "&lt;"


@given(st.lists(st.floats(0.001, 1e6), min_size=1, max_size=30))
def test_a_treemap_is_to_scale_and_fills_its_box(sizes: list[float]) -> None:
    sizes = sorted(sizes, reverse=True)
    tiles = squarify(sizes, 100, 46)
    assert len(tiles) == len(sizes)
    for size, tile in zip(sizes, tiles):
        assert tile.width * tile.height == pytest.approx(4600 * size / sum(sizes), rel=1e-6)
        assert tile.left >= -1e-6 and tile.left + tile.width <= 100 + 1e-4
        assert tile.top >= -1e-6 and tile.top + tile.height <= 46 + 1e-4


@pytest.mark.parametrize(
    ("command", "gpu"),
    [
        ("vllm serve Qwen/Qwen3-8B --max-model-len 16384", "RTX 4090"),
        ("vllm serve Qwen/Qwen3-32B -tp 2", "2x RTX 3090"),
        ("vllm serve nvidia/Gemma-4-31B-IT-NVFP4 -tp 2", "2x RTX 5070 Ti"),
        ("llama-server -hf unsloth/Qwen3-8B-GGUF:Q4_K_M -c 8192", "RTX 4090"),
    ],
)
def test_the_bar_shows_what_the_plan_says(command: str, gpu: str) -> None:
    """The pieces of a bar lie side by side, to scale, and end where the stage's peak does."""
    answer = plan(command, gpu=gpu)
    bar = re.search(r'<svg class="bar".*?</svg>', page_of(answer), re.DOTALL)
    assert bar
    pieces = re.findall(r'class="fill (\w+)" x="([\d.]+)%" y="\d+" width="([\d.]+)%"', bar[0])
    ends = [float(x) + float(width) for _, x, width in pieces]
    assert [float(x) for _, x, _ in pieces][1:] == pytest.approx(ends[:-1], abs=0.01)
    limit = float(re.findall(r'class="limit" x1="([\d.]+)%"', bar[0])[0])
    rank = answer.ranks[0]
    if answer.fits and rank.requested_bytes:
        peak = max(stage.peak_bytes for stage in rank.stages[-3:])
        assert ends[-1] / limit == pytest.approx(peak / rank.total_bytes, rel=0.01)
    if not answer.fits and answer.verdict.stage == "weights_load":
        assert ends[-1] > limit and 'class="over"' in bar[0]


def test_every_change_of_the_advice_is_a_button_with_its_command() -> None:
    answer = plan("vllm serve Qwen/Qwen3-32B -tp 2", gpu="2x RTX 3090")
    assert answer.advice
    view = page_of(answer)
    for judged in answer.advice.fixes:
        card = el("code", judged.change.label, cls="label" if judged is not answer.advice.fixes[0] else "")
        assert view.count(card) == 1, "the first stands in the card of the verdict"
        assert f'data-command="{judged.command}"' in view or "&#x27;" in view
    for sentence in answer.advice.why:
        assert el("p", sentence) in view
