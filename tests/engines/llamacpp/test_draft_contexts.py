"""A draft model is placed as the main one, but for what it has of its own; what speculates decides the logits."""

from __future__ import annotations

import pytest

from oomph.answers.plan import plan
from oomph.engines.llamacpp.command import parse
from oomph.engines.llamacpp.screen import figures
from oomph.engines.llamacpp.settings import resolve
from oomph.errors import CannotPlan
from oomph.ir import Plan
from oomph.units import MIB

TWO = "2x RTX 4090"
SPEAKS = "llama-server -m Qwen3-8B-Q4_K_M.gguf -c 8192 -np 2 -fit off"
DRAFTS = f"{SPEAKS} -md Qwen3-0.6B-Q8_0.gguf --spec-type draft-simple"


def planned(command: str, build: str = "b11181", gpu: str = TWO) -> Plan:
    return plan(command, gpu=gpu, engine=f"llamacpp=={build}", advise=False)


def drafted(it: Plan) -> list[int]:
    return [rank.terms["weights"].parts.get("draft model", 0) for rank in it.ranks]


@pytest.mark.parametrize(
    ("flags", "on_gpus"),
    [
        ("", [True, True]), ("-devd CUDA1", [False, True]), ("-devd none", [False, False]),
        ("-sm none -mg 1", [False, True]), ("-ts 1,0", [True, False]), ("-ngld 0", [False, False]),
        ("-dev CUDA1", [True]), ("-dev CUDA1 -devd CUDA1", [True]),
    ],
)  # fmt: skip
def test_where_a_draft_model_is(flags: str, on_gpus: list[bool]) -> None:
    assert [size > 0 for size in drafted(planned(f"{DRAFTS} {flags}"))] == on_gpus


def test_the_screen_says_what_the_draft_model_has() -> None:
    rows = dict(figures(planned(DRAFTS)))
    assert rows["Draft"].endswith("of compute buffers, on GPU 0 and 1")
    assert "Draft" not in dict(figures(planned(SPEAKS)))
    on_one = planned(f"{DRAFTS} -devd CUDA1")
    assert dict(figures(on_one))["Draft"].endswith("on GPU 1")
    assert sum(on_one.ranks[1].terms["kv_cache"].parts.values()) == on_one.ranks[1].terms["kv_cache"].bytes


def test_a_context_of_its_own_in_old_builds() -> None:
    caches = [
        sum(rank.terms["kv_cache"].parts.get("draft model", 0) for rank in planned(f"{DRAFTS}{flag}", "b9095").ranks)
        for flag in ("", " -cd 4096")
    ]
    assert caches[0] == 2 * caches[1] > 0


def test_a_gpu_that_the_main_model_does_not_see() -> None:
    with pytest.raises(CannotPlan, match="--device leaves out"):
        planned(f"{DRAFTS} -dev CUDA1 -devd CUDA0")


def test_what_stays_on_the_host_is_counted_once() -> None:
    hosts = [planned(f"{DRAFTS} {flags}").resolved["host"] for flags in ("", "-nkvo")]
    alone = planned(f"{SPEAKS} -nkvo").resolved["host"]
    assert hosts[0]["kv_cache"] == 0 < alone["kv_cache"] < hosts[1]["kv_cache"]


@pytest.mark.parametrize(("build", "is_idle"), [("b9437", False), ("b9464", True), ("v0.5.0", True)])
def test_a_draft_model_without_a_type(build: str, is_idle: bool) -> None:
    notes = planned(f"{SPEAKS} -md Qwen3-0.6B-Q8_0.gguf", build).warnings
    assert any("drafts nothing" in note for note in notes) == is_idle
    assert not any("drafts nothing" in note for note in planned(DRAFTS, build).warnings)


def test_what_is_proposed_at_once_needs_logits() -> None:
    """n_outputs_max: each slot's next token and as many as its kind of speculation proposes."""
    kinds = {
        "--spec-type none": 1, "--spec-type ngram-cache": 9, "--spec-type draft-simple,ngram-map-k": 49,
        "--spec-default": 65, "--spec-default --spec-ngram-mod-n-max 20": 21,
    }  # fmt: skip
    for flags, outputs in kinds.items():
        words = [*SPEAKS.split()[1:], *flags.split()]
        assert resolve(parse(words).flags, 40960).n_outputs_max == 2 * outputs
    many = SPEAKS.replace("-np 2", "-np 8")
    compute = [planned(f"{many} {kind}").ranks[1].terms["compute"].bytes for kind in ("", "--spec-default")]
    assert compute[1] > compute[0] + 200 * MIB


def test_a_context_that_a_draft_model_cannot_have() -> None:
    it = planned(f"{DRAFTS} -fa off -ctvd q8_0")
    assert not it.verdict.fits
    assert it.verdict.message.startswith("draft model:")
    assert planned(f"{DRAFTS} -fa off").verdict.fits


def test_fit_leaves_room_for_both_on_each_gpu() -> None:
    """--fit counts the draft model at the context that it tries."""
    command = "llama-server -m Qwen3-8B-Q4_K_M.gguf -np 1"
    alone, both = (
        planned(command, gpu="RTX 3060"),
        planned(f"{command} -md Qwen3-0.6B-Q8_0.gguf --spec-type draft-simple", gpu="RTX 3060"),
    )
    assert both.resolved["n_ctx"] < alone.resolved["n_ctx"]
    assert both.verdict.fits
