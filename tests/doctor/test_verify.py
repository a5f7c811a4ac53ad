"""Every remedy printed as verified was planned, and fits when it is planned again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from test_explain import GEMMA, QWEN, TOKENS, levers

from oomph.answers.plan import load
from oomph.doctor.enrich import names
from oomph.doctor.explain import explain, read_case
from oomph.doctor.rebuild import devices, gpu_row
from oomph.doctor.rule import Rule
from oomph.doctor.verify import planned
from oomph.engines.vllm.failed import observed
from oomph.errors import CannotPlan, UnknownModel
from oomph.ir.timeline import Verdict
from oomph.units import GIB

WITH_GPU = "2x 5070 Ti\n" + GEMMA


def test_weights_case_is_planned() -> None:
    case = read_case(WITH_GPU)
    e = planned(case)
    assert "one rank has 14.76 GiB of parameters (attention 8.00, MLP 5.45, embedding 1.31)" in e.cause.text
    assert "mlp.gate_up_proj in 4 bits (55.12 MiB)" in e.cause.text
    verified = [r for r in e.remedies if r.verified]
    assert "checkpoint" in levers(verified)
    assert "cyankiwi/gemma-4-31B-it-AWQ-4bit" in [r.change.label for r in verified]
    assert {"gpu_memory_utilization_down", "max_model_len", "full_precision_first"} <= levers(e.rejected)
    assert devices(case)[0].name == "RTX 5070 Ti" and len(devices(case)) == 2


def test_throw_away_cache_case_is_planned() -> None:
    case = read_case(QWEN)
    e = planned(case)
    verified = [r for r in e.remedies if r.verified]
    fewer = ("max_cudagraph_capture_size", "max_num_seqs")  # graphs of fewer tokens, with a little more budget
    assert any(name in r.change.flags for name in fewer for r in verified)
    assert "enforce_eager" in levers(verified)
    assert observed(case)["non_torch"] / GIB == pytest.approx(3.7, abs=0.2)
    assert {"gpu_memory_utilization_down", "max_model_len", "enable_prefix_caching"} <= levers(e.rejected)


def test_tokens_case_is_reproduced() -> None:
    case = read_case("2x NVIDIA RTX 3090\n" + TOKENS)
    e = planned(case)
    assert not e.failed
    assert "9,453 blocks of 1.25 MiB in 6 groups: 9,453 // 6 x 16 = 25,200" in e.cause.text
    assert "9,453 / 5,061 = 1.87" in e.cause.text


class Judge:
    """A planner that says what the test wants."""

    def __init__(self, fits: bool, stage: str = "weights_load") -> None:
        self.verdict = Verdict(fits, None if fits else stage, 0 if fits else GIB)  # type: ignore[arg-type]

    def __call__(self, deployment: object) -> Any:
        from oomph.ir.plan import Plan

        return Plan(deployment, "x", self.verdict)  # type: ignore[arg-type]


def test_what_does_not_fit_is_dropped() -> None:
    case = read_case(WITH_GPU)
    e = planned(case, planner=Judge(False), loader=load)
    assert not any(r.verified for r in e.remedies)
    assert "more_gpus" not in levers(e.remedies)


def test_a_plan_that_dies_before_the_log_did_is_no_judge() -> None:
    case = read_case(QWEN)
    e = planned(case, planner=Judge(False, "weights_load"), loader=load)
    assert e.remedies and not any(r.verified for r in e.remedies)


def test_without_a_model_or_a_gpu_it_stays_unplanned() -> None:
    no_gpu, no_model = GEMMA.replace("15.47 GiB of", "?? of"), "ValueError: No available memory for the cache blocks."
    for text, word in ((no_gpu, "GPU"), (no_model, "model")):
        case = read_case(text)
        e = planned(case)
        assert not any(r.verified for r in e.remedies)
        if e.notes:
            assert any(word in note for note in e.notes)


def test_a_planner_that_refuses() -> None:
    def refuse(_: object) -> Any:
        raise CannotPlan("not this one")

    def unknown(name: str) -> Any:
        raise UnknownModel(f"no {name}")

    case = read_case(QWEN)
    assert "not this one" in planned(case, planner=refuse, loader=load).notes[-1]
    assert "no cyankiwi" in planned(case, planner=refuse, loader=unknown).notes[-1]


@pytest.mark.parametrize(
    ("model", "last"),
    [
        ("a/b", "b"),
        ("/models/cyankiwi/gemma-4-31B-it-AWQ-4bit", "gemma-4-31B-it-AWQ-4bit"),
        ("/root/.cache/huggingface/hub/models--a--b/snapshots/123", "a/b"),
    ],
)
def test_names_inside_containers(model: str, last: str) -> None:
    assert names(model)[0] == model and names(model)[-1] == last


def test_gpu_by_total() -> None:
    assert gpu_row(round(31.36 * GIB)).name == "RTX 5090"  # type: ignore[union-attr]
    assert gpu_row(round(15.47 * GIB), named="RTX 5070 Ti").name == "RTX 5070 Ti"  # type: ignore[union-attr]
    assert gpu_row(round(77.77 * GIB)) is None
    case = read_case(GEMMA)
    assert devices(replace(case, gpus=devices(case)[:1]))[0].total_bytes == devices(case)[0].total_bytes


COLD = """\
vllm serve Qwen/Qwen3-8B --max-model-len 40960 --gpu-memory-utilization 0.9
NVIDIA GeForce RTX 4090
INFO 04-24 10:21:03 [core.py:109] Initializing a V1 LLM engine (v0.21.0) with config: model='Qwen/Qwen3-8B'
INFO 04-24 10:21:03 [gpu_model_runner.py:4871] Model loading took 15.27 GiB memory and 10.990096 seconds
INFO 04-24 10:21:30 [backends.py:390] {} (1, 2048) takes 19.40 s
INFO 04-24 10:21:31 [gpu_worker.py:440] Available KV cache memory: {} GiB
ValueError: To serve at least one request with the model's max seq len (40960), (5.62 GiB KV cache is needed, which is \
larger than the available KV cache memory ({} GiB). Based on the available memory, the estimated maximum model length \
is 38000.
"""


@pytest.mark.parametrize(("line", "left", "again"), [
    ("Compiling a graph for compile range", "5.3", True),  # the embedding's clone was in the budget
    ("Compiling a graph for compile range", "4.9", False),  # more is missing than that
    ("Directly load the compiled graph(s) for compile range", "5.3", False),
])  # fmt: skip
def test_a_first_start_that_fits_the_next_time(line: str, left: str, again: bool) -> None:
    case = read_case(COLD.format(line, left, left))
    e = planned(case)
    assert ("again" in levers([r for r in e.remedies if r.verified])) is again


def test_every_rule_looks_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[str] = []
    speak = Rule.speak
    monkeypatch.setattr(Rule, "speak", lambda rule, case: (looks.append(rule.id), speak(rule, case))[1])
    explain([Path(__file__).parent / "fixtures" / "K01.log"], gpu="H100")
    assert len(looks) > 50 and len(looks) == len(set(looks))


def test_a_card_that_only_its_size_tells_is_not_refused() -> None:
    """The log has the card's total and nothing else: what it can compute is not known, and no reason to refuse it."""
    answer = explain([Path(__file__).parent / "fixtures" / "D01.log"])
    assert answer.advice is not None and any(one.verified for one in answer.remedies)
