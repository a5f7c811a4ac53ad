"""Bounds of the searches that no other test noticed when one was moved (`make mutants`)."""

from __future__ import annotations

from inspect import signature
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from oomph.answers.plan import load, plan
from oomph.engines.values import FitKnobs
from oomph.engines.vllm.resolve.backend_query import kernel_blocks
from oomph.errors import OomphError
from oomph.facts.gpus import find
from oomph.search import fit as search_fit, offer
from oomph.search.candidates import Filters, _named, check_date
from oomph.search.cards import _Walk
from oomph.search.models import models
from oomph.search.offer import change_by_fit
from oomph.search.request import Arm, Layout, Want
from oomph.search.score import request_seconds
from oomph.search.trial import HIGHER_SHARE, Trial
from oomph.sources.gpu import parse_gpus


def test_each_pipeline_stage_runs_on_its_own_gpu() -> None:
    model = load("Qwen/Qwen3-8B")
    answer = plan("vllm serve Qwen/Qwen3-8B -pp 2 --max-model-len 8192", gpu="2x RTX 3090", advise=False)
    arm = Arm("Qwen/Qwen3-8B", Layout(1, 2))
    first, second = answer.deployment.gpus
    slow = replace(second, bandwidth=second.bandwidth // 2)
    seconds = [
        request_seconds(model, arm, replace(answer, deployment=replace(answer.deployment, gpus=gpus)))
        for gpus in ((first, second), (first, slow), (slow, second), (slow, slow))
    ]
    assert seconds[0] < min(seconds[1:3]) <= max(seconds[1:3]) < seconds[3]


def test_flashinfer_reads_pages_that_are_powers_of_two_on_blackwell() -> None:
    backend: Any = SimpleNamespace(name="FLASHINFER", blocks=(16, 32, 64))
    attention = SimpleNamespace(large_pages=True)
    query: Any = SimpleNamespace(num_kv_heads=8, num_heads=32, major=10, attention=attention)
    assert kernel_blocks(backend, query) == tuple(1 << exponent for exponent in range(4, 11))
    assert kernel_blocks(backend, SimpleNamespace(**{**vars(query), "major": 9})) == (16, 32, 64)  # type: ignore[arg-type]
    assert kernel_blocks(backend, SimpleNamespace(**{**vars(query), "num_heads": 8})) == (16, 32, 64)  # type: ignore[arg-type]


def test_what_fit_finds_is_a_change_of_flags_unless_weights_are_offloaded() -> None:
    failing = plan("vllm serve Qwen/Qwen3-8B-FP8", gpu="RTX 3060 12GB", engine="vllm==0.21.0", advise=False)
    change = change_by_fit(failing)
    assert change is not None and change.kind == "flag"
    assert not any("offload" in name for name in change.flags)


@pytest.mark.parametrize("length", [39, 40, 41, 80])
def test_a_refusal_quotes_forty_characters_of_what_was_typed(length: int) -> None:
    typed, quoted = "x" * length, f"'{'x' * min(length, 40)}'"
    with pytest.raises(OomphError, match=quoted):
        check_date(typed)
    for options in ({"engines": (typed,)}, {"purpose": typed}, {"prefer": typed}):
        with pytest.raises(OomphError, match=quoted):
            models(gpu="RTX 4090", **options)  # type: ignore[arg-type]


def test_a_walk_over_cards_that_is_stopped_says_so() -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    walk = _Walk(SimpleNamespace(seek=stop), Want(), {}, 0, limited=False)  # type: ignore[arg-type]
    assert walk.run([(24.0, find("RTX 4090"), 1)], None) == (True, True)
    assert walk.run([], None) == (False, False)


@pytest.mark.parametrize(
    ("count", "layouts"),
    [(1, (1,)), (2, (2, 1)), (3, (3, 2)), (6, (6, 4)), (8, (8, 4)), (65, (65, 64)), (130, (130, 128))],
)
def test_all_gpus_together_or_the_next_power_of_two(count: int, layouts: tuple[int, ...]) -> None:
    trial: Any = SimpleNamespace(gpus=(None,) * count)
    assert Trial._layouts(trial) == layouts


@pytest.mark.parametrize(
    ("flag", "context"), [(None, 0), (4096, 4096), (0, 0), (-1, 0), (1, 1), ("auto", 0), (True, 0)]
)
def test_fit_is_asked_for_the_context_of_the_command(
    flag: object, context: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted: list[int] = []

    def refuse(model: str, gpus: object, want: Want, *_: object, **__: object) -> None:
        wanted.append(want.context)
        raise OomphError("nothing fits")

    monkeypatch.setattr(offer, "pick_for", refuse)
    failing = plan("vllm serve Qwen/Qwen3-8B-FP8", gpu="RTX 3060 12GB", engine="vllm==0.21.0", advise=False)
    flags = {**failing.deployment.flags, **({} if flag is None else {"max_model_len": flag})}
    changed = replace(failing, deployment=replace(failing.deployment, flags=flags))
    assert change_by_fit(changed) is None and wanted == [context]


def test_models_leaves_no_size_out_unless_it_is_told_to() -> None:
    defaults = {name: one.default for name, one in signature(models).parameters.items()}
    assert (defaults["smallest"], defaults["largest"]) == (Filters().smallest, Filters().largest) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("words", "is_named"),
    [
        ((), True), (("qwen3",), True), (("qwen3 8b",), True), (("qwen3-8b",), True), (("qwen3 8b", "qwen/"), True),
        (("qwen3 8b", "llama"), False), (("a nice name",), True), (("nice", "8b"), True), (("qwen 38b",), False),
    ],
)  # fmt: skip
def test_a_model_is_named_by_all_words_with_blanks_or_dashes(words: tuple[str, ...], is_named: bool) -> None:
    model: Any = SimpleNamespace(plain="Qwen/Qwen3-8B", name="a nice name")
    assert _named(model, words) is is_named


@pytest.mark.parametrize(
    ("default", "shares"),
    [
        (0.0, [None] * 2),
        (0.9, [None, None, HIGHER_SHARE]),
        (HIGHER_SHARE, [None] * 2),
        (0.99, [None] * 2),
        (0.949, [None, None, HIGHER_SHARE]),
    ],  # the engine's own limit of requests, that of the users, then a higher share
)
def test_a_higher_share_is_tried_behind_a_lower_default(
    default: float, shares: list[float | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    knobs = FitKnobs("max_model_len", "max_num_seqs", "share", default, frozenset())
    monkeypatch.setattr("oomph.search.trial.knobs_of", lambda deployment: knobs)
    tried: list[Any] = []
    trial = Trial(parse_gpus("RTX 4090"), 1)
    monkeypatch.setattr(trial, "_judged", lambda deployment, *_: tried.append(deployment.flags.get("share")))
    candidate: Any = SimpleNamespace(checkpoint="Qwen/Qwen3-8B", tag="")
    assert trial.serve(candidate, "vllm", 4096, longest=False) is None
    assert tried == shares


def _nodes(*names: str) -> tuple[Any, ...]:
    """Two GPUs of each name, on a node of their own."""
    return tuple(replace(gpu, node=node) for node, name in enumerate(names) for gpu in parse_gpus(f"2x {name}"))


@pytest.mark.parametrize(
    ("met", "has_pick", "users", "context", "words"),
    [
        (True, True, 0, 0, "2 replicas need"), (True, True, 5, 0, "2 replicas with 3 users each need"),
        (True, True, 4, 8192, "2 replicas with 2 users each need"), (False, True, 4, 0, ""), (True, False, 4, 0, ""),
    ],
)  # fmt: skip
def test_nodes_that_hold_the_model_alone_need_no_network(
    met: bool, has_pick: bool, users: int, context: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone: list[Want] = []

    def answer(model: str, gpus: Any, want: Want, **_: object) -> Any:
        alone.append(want)
        assert [device.node for device in gpus] == [0, 0]
        return SimpleNamespace(pick=object() if has_pick else None, met=met)

    monkeypatch.setattr(search_fit, "fit", answer)
    want = Want(context, users)
    notes = search_fit._replicas("a/model", _nodes("RTX 4090", "RTX 4090"), want, "vllm", False, (), None)
    assert alone == [replace(want, users=-(-users // 2))]
    assert bool(notes) is bool(words)
    if words:
        command = "oomph fit a/model --gpu '2x RTX 4090'" + (f" --users {-(-users // 2)}" if users else "")
        assert words in notes[0] and f"({command}{f' --context {context}' if context else ''})" in notes[0]


def test_unlike_nodes_are_no_replicas() -> None:
    gpus = _nodes("RTX 4090", "RTX 3090")
    assert search_fit._replicas("a/model", gpus, Want(), "vllm", False, (), None) == ()
