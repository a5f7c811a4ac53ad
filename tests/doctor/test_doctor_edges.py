"""The doctor where two figures are equal, and where one of several things is missing (`make mutants`)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from oomph.doctor.case import Case
from oomph.doctor.ledger import Account, _figure
from oomph.doctor.prior import _at_least, _failing_stage, contradiction
from oomph.doctor.reading.failing_stage import _forward, _least, _no_room_for_tokens, _ran, _validated, while_starting
from oomph.doctor.reading.guesses import BUDGET, FULL, SLEEPERS, UNUSED, _budget, _cached, guess
from oomph.doctor.reading.sizes import weight_bytes
from oomph.doctor.reading.stages import Death
from oomph.doctor.rebuild import ROUNDING, gpu_row
from oomph.engines.common.inferred import EXTREME, _extreme
from oomph.engines.llamacpp.log import inferred as inferred_llamacpp
from oomph.facts.gpus import rows
from oomph.ir.observation import Observation
from oomph.logs.deployment import Rebuilt
from oomph.units import GIB, gib

TOTAL = 10_000


def line(kind: Any = "torch_oom", number: int = 10, text: str = "", **values: Any) -> Observation:
    return Observation(number, kind, values, text=text)


# --- a guess from PyTorch's own figures ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "stage"),
    [
        ({"allocated": 0}, "weights_load"), ({"tried": 6000}, "kv_alloc"), ({"tried": 5999}, "runtime_request"),
        ({"pools": 5, "allocated": 9900, "reserved": 0}, "runtime_request"),
        ({"pools": round(SLEEPERS * TOTAL), "allocated": 9900, "reserved": 0}, "runtime_request"),
        ({"pools": round(SLEEPERS * TOTAL) + 1, "allocated": 9900, "reserved": 0}, "weights_load"),
        ({"allocated": round(BUDGET * TOTAL), "reserved": 0}, "weights_load"),
        ({"allocated": round(BUDGET * TOTAL) - 1, "reserved": 0}, "runtime_request"),
        ({"allocated": round(FULL * TOTAL), "reserved": round(UNUSED * TOTAL) - 1}, "weights_load"),
        ({"allocated": round(FULL * TOTAL), "reserved": round(UNUSED * TOTAL)}, "runtime_request"),
        ({"allocated": round(FULL * TOTAL) - 1, "reserved": round(UNUSED * TOTAL) - 1}, "runtime_request"),
        ({"allocated": round(FULL * TOTAL) - 1, "reserved": round(UNUSED * TOTAL / 3) - 1}, "weights_load"),
        ({"allocated": 9900, "held": 9901}, "weights_load"), ({"allocated": 9900}, "runtime_request"),
    ],
)  # fmt: skip
def test_a_guess_by_the_figures_of_a_bare_line(values: dict[str, Any], stage: str) -> None:
    assert guess(line(total=TOTAL, others=1, **values), ()) == stage


def test_what_is_cached_is_said_or_is_the_difference() -> None:
    cases: tuple[dict[str, Any], ...]
    cases = ({"reserved": 3, "held": 9}, {"held": 9, "allocated": 4}, {"held": 4, "allocated": 9}, {"held": 4}, {})
    assert [_cached(line(**values)) for values in cases] == [3, 5, 0, None, None]


@pytest.mark.parametrize(
    ("share", "taken"), [(0.0, None), (0.5, 0.5), (1.0, 1.0), (1.1, None), (-0.5, None), (1, None)]
)
def test_a_share_lies_between_nothing_and_everything(share: float, taken: float | None) -> None:
    assert _budget([line("util_given", util=share)]) == taken
    assert _budget([line("torch_oom", util=0.5), line("util_given", util=share)]) == taken


@pytest.mark.parametrize(("allocated", "stage"), [(2999, "weights_load"), (3000, "profile_run"), (None, "profile_run")])
def test_little_on_the_card_while_starting_is_a_load(allocated: int | None, stage: str) -> None:
    values: dict[str, Any] = {} if allocated is None else {"allocated": allocated}
    assert while_starting(line(total=TOTAL, **values)) == stage


# --- lines around a failure ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("behind", "is_inside"), [(-1, False), (0, True), (3, True), (4, False)])
def test_a_validator_s_message_is_a_few_lines_long(behind: int, is_inside: bool) -> None:
    assert _validated(line(number=20), [line("x_setting", 20 - behind)]) is is_inside
    assert not _validated(line(number=20), [line("x_port", 20)])


@pytest.mark.parametrize(
    ("functions", "files", "ran", "forward"),
    [
        (["forward"], ["/vllm/model_executor/x.py"], True, True), (["forward"], ["/vllm/v1/x.py"], False, True),
        (["load"], ["/vllm/model_executor/x.py"], False, False), (["forward_cuda"], ["/torch/nn/x.py"], False, False),
        (["forward", "load"], ["/torch/x.py", "/vllm/model_executor/x.py"], False, False),
        (["forward"], ["/sglang/srt/x.py"], False, True), ([], [], False, False),
    ],
)  # fmt: skip
def test_a_pass_is_a_forward_of_an_engine_s_own(
    functions: list[str], files: list[str], ran: bool, forward: bool
) -> None:
    assert (_ran(functions, files), _forward(functions, files)) == (ran, forward)


@pytest.mark.parametrize(
    ("left", "kind", "text", "is_short"),
    [
        (99, "cuda_error_oom", "", True), (100, "cuda_error_oom", "", False), (99, "torch_oom", "", False),
        (500, "memory_short", "Not enough memory", True), (500, "memory_short", "x", False),
    ],
)  # fmt: skip
def test_less_than_a_tenth_is_left_behind_the_load(left: int, kind: str, text: str, is_short: bool) -> None:
    lines = [line("sg_load_begin", avail=1000), line("sg_weights", avail=left)]
    assert _no_room_for_tokens(line(kind, text=text), lines) is is_short
    assert not _no_room_for_tokens(line(kind, text=text), lines[:1])
    assert _least(lines, ("sg_load_begin", "sg_weights")) == min(left, 1000)
    assert _least([], ("sg_weights",)) is None


# --- cards and sizes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("capability", "gpus", "named", "is_old"),
    [
        ("7.5", [], "", True), ("8.0", [], "", False), ("7.9", [(9, 0)], "", True), ("", [(7, 5)], "", True),
        ("", [(8, 0)], "", False), ("", [(0, 0)], "", False), ("", [], "T4", True), ("", [], "A100 40GB", False),
        ("", [], "MI300X", False), ("", [], "", False), ("", [], "no such card", False),
    ],
)  # fmt: skip
def test_a_card_before_ampere(capability: str, gpus: list[tuple[int, int]], named: str, is_old: bool) -> None:
    devices = [SimpleNamespace(capability=each) for each in gpus]
    case: Any = SimpleNamespace(capability=capability, gpus=devices, named_gpu=named)
    assert Case.before_ampere.fget(case) is is_old  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "quantization", "billions"),
    [
        ("a/b-70B", "", 140), ("a/b-70B-AWQ", "", 35), ("a/b-70B-FP8", "", 70), ("a/b-70B", "fp8", 70),
        ("a/b-8x7B", "", 14), ("a/b-1.5b", "", 3), ("a/b", "", 0), ("a/b-7B-and-13B", "", 26), ("a/b-7B.q8_0", "", 7),
        ("a/b-7B.q4_0", "", 3.5),
    ],
)  # fmt: skip
def test_the_weights_of_a_name(name: str, quantization: str, billions: float) -> None:
    assert weight_bytes(name, quantization) == billions * 10**9


# --- a plan beside a log ---------------------------------------------------------------------------------------------


def _dead(stage: str, kind: str = "torch_oom", basis: str = "traceback", **values: int) -> Any:
    death = SimpleNamespace(stage=stage, kind=kind, basis=basis)
    return SimpleNamespace(failed=True, death=death, oom_value=lambda name: values.get(name))


def _verdict(stage: str | None) -> Any:
    return SimpleNamespace(fits=stage is None, stage=stage)


@pytest.mark.parametrize(
    ("case", "planned", "words"),
    [
        (_dead("weights_load"), "weights_load", ""), (_dead("weights_load"), "kv_check", "before the plan does"),
        (_dead("kv_check"), "weights_load", "dies earlier"), (_dead("kv_check"), None, "where the plan fits"),
        (_dead("kv_check", "x_port"), "weights_load", ""), (_dead("kv_check", basis="guess"), "weights_load", ""),
        (_dead("kv_check"), "other", ""),
    ],
)  # fmt: skip
def test_a_log_that_dies_elsewhere_than_its_plan(case: Any, planned: str | None, words: str) -> None:
    sentence = contradiction(case, _verdict(planned))
    assert words in sentence and bool(sentence) is bool(words)
    case.failed = False
    assert not contradiction(case, _verdict(planned))
    case.failed = True


def test_what_figures_prove() -> None:
    values: list[dict[str, Any]] = [{}, {"pools": 1}, {"allocated": GIB}, {"allocated": GIB + 1}, {"pools": 0}]
    stages = [_at_least(_dead("other", **figures)) for figures in values]
    assert stages == ["other", "cudagraph_capture", "other", "weights_load", "other"]
    planned: list[str | None] = [None, "other", "kv_check", "no such stage"]
    assert [_failing_stage(_verdict(stage)) for stage in planned] == [None, None, "kv_check", None]


# --- llama.cpp and Ollama without an error ---------------------------------------------------------------------------


def _case(**values: Any) -> Any:
    """A case whose lines have these values: ol_offload__full=3."""
    by_kind: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        kind, _, field = name.partition("__")
        by_kind.setdefault(kind, {})
        if field:
            by_kind[kind][field] = value

    def first(kind: str) -> Any:
        return line(kind, **by_kind[kind]) if kind in by_kind else None

    return SimpleNamespace(
        first=first, value=lambda kind, name: by_kind.get(kind, {}).get(name),
        all=lambda kind: [first(kind)] if kind in by_kind else [],
    )  # fmt: skip


OFFLOAD = {"ol_offload__full": 10 * GIB, "ol_offload__partial": 4 * GIB, "ol_offload__available": 6 * GIB}


@pytest.mark.parametrize(
    ("more", "stage", "figures"),
    [
        ({"ol_offload__layers": 8, "ol_offload__on_gpu": 3, "ol_system__free": 6 * GIB}, "nothing", ()),
        ({"ol_offload__layers": 8, "ol_offload__on_gpu": 3, "ol_system__free": 6 * GIB - 1}, "host_ram", (6, 6, 10)),
        ({"ol_offload__layers": 8, "ol_offload__on_gpu": 3}, None, (6,)),
        ({"ol_offload__on_gpu": 3}, None, (6,)),
        ({"ol_offload__layers": 8, "ol_offload__on_gpu": 3, "ol_offload__library": "cpu"}, None, (10,)),
        ({"ol_offload__layers": 8, "ol_offload__on_gpu": 8, "ol_system__free": 5 * GIB}, "nothing", ()),
        ({"ol_offload__layers": 8, "ol_offload__on_gpu": 8, "ol_offload__weights": 5 * GIB, "ol_system__free": 5 * GIB},
         "nothing", ()),
        ({"ol_offload__layers": 8, "ol_offload__on_gpu": 8, "ol_offload__weights": 5 * GIB, "ol_offload__projector": 1,
          "ol_system__free": 5 * GIB}, "host_ram", (5,)),
        ({"ol_offload__layers": 8, "ol_offload__on_gpu": 8, "ol_offload__weights": 5 * GIB}, "nothing", ()),
    ],
)  # fmt: skip
def test_what_ollama_places_outside_the_gpu(more: dict[str, Any], stage: str | None, figures: tuple[int, ...]) -> None:
    told = inferred_llamacpp._planned(_case(**OFFLOAD, **more))
    if stage == "nothing":
        assert told is None
        return
    assert told is not None and told[0] == stage
    assert all(gib(size * GIB) in told[1] for size in figures)


def test_without_a_placement_nothing_is_told() -> None:
    assert inferred_llamacpp._planned(_case()) is None
    assert inferred_llamacpp._planned(_case(ol_offload__full=0)) is None


NEED: dict[str, Any] = {"lc_fit_need__need": 5 * GIB, "lc_fit_need__free": 5 * GIB}


@pytest.mark.parametrize(
    ("values", "stage", "words"),
    [
        ({}, "nothing", ""), ({"lc_fit_abort__what": "-ngl"}, "weights_load", "because of -ngl:"),
        ({"lc_fit_abort__what": "-ngl", "lc_fit_abort__value": 99}, "weights_load", "because of -ngl 99:"),
        ({"lc_fit_abort__what": "-ngl", **NEED}, "weights_load", "5 GiB are needed"),
        ({"lc_fit_abort__what": "-ngl", **NEED, "lc_fit_need__need": 4 * GIB}, None, "foresees no shortage"),
        (NEED, None, "foresees no shortage"), ({**NEED, "lc_fit_need__need": 6 * GIB}, None, "--fit measures"),
        ({**NEED, "lc_fit_need__need": 6 * GIB, "lc_fit_short__short": GIB}, None, "it looks for"),
        ({"lc_fit_need__need": 6 * GIB}, "nothing", ""), ({"lc_fit_need__free": 6 * GIB}, "nothing", ""),
    ],
)  # fmt: skip
def test_what_fit_says_before_a_load(values: dict[str, Any], stage: str | None, words: str) -> None:
    told = inferred_llamacpp._fit(_case(**values))
    if stage == "nothing":
        assert told is None
        return
    assert told is not None and told[0] == stage
    assert words.replace("5 GiB", gib(5 * GIB)) in told[1]


@pytest.mark.parametrize(("more", "is_told"), [(0, False), (1, True)])
def test_weights_in_host_memory_beyond_an_embedding(more: int, is_told: bool) -> None:
    size = inferred_llamacpp.EMBEDDING + more
    case = _case(lc_weights__size=size, lc_weights__buffer="CPU", lc_layers__layers=8, lc_layers__on_gpu=3)
    told = inferred_llamacpp._host_share(case)
    assert (told is not None) is is_told
    if told is not None:
        assert told[0] == "host_ram" and "(5 of 8 layers)" in told[1]
    assert inferred_llamacpp._host_share(_case(lc_weights__size=size, lc_weights__buffer="CUDA0")) is None


# --- cards, shares and vendors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("known", "flag", "kinds", "total", "share"),
    [
        (EXTREME, None, (), 0, EXTREME), (0.0, EXTREME, (), 0, EXTREME), (EXTREME, 0.5, (), 0, EXTREME),
        (0.5, EXTREME, (), 0, None), (EXTREME - 0.001, None, (), 0, None), (0.0, None, (), 0, None),
        (0.0, True, (), 0, None), (0.0, "0.99", (), 0, None), (EXTREME, None, ("kv_tokens",), 0, None),
        (EXTREME, None, ("kv_need",), 0, None), (1.0, None, (), 80 * GIB, 1.0), (EXTREME, None, (), 1 << 50, None),
    ],
)  # fmt: skip
def test_a_share_that_leaves_next_to_nothing(
    known: float, flag: Any, kinds: tuple[str, ...], total: int, share: float | None
) -> None:
    """As the log shows it, else as the command says it."""
    case: Any = SimpleNamespace(
        account=SimpleNamespace(util=known), flag=lambda name: flag, total=total,
        has=lambda *names: bool({*names} & {*kinds}),
    )  # fmt: skip
    told = _extreme(case)
    assert (told is not None) is (share is not None)
    if told is not None:
        assert told[0] == "runtime_request" and f"Utilization {share:g} leaves" in told[1]


@pytest.mark.parametrize(
    ("version", "text", "vendors", "is_rocm"),
    [
        ("0.21.0", "", (), False), ("0.21.0+rocm702", "", (), True), ("", "HIP out of memory", (), True),
        ("", "", ("amd",), True), ("", "", ("nvidia",), False), ("", "", ("nvidia", "amd"), True),
    ],
)  # fmt: skip
def test_what_runs_on_rocm(version: str, text: str, vendors: tuple[str, ...], is_rocm: bool) -> None:
    gpus = [SimpleNamespace(vendor=vendor) for vendor in vendors]
    case: Any = SimpleNamespace(version=version, text=text, gpus=gpus)
    assert Case.rocm.fget(case) is is_rocm  # type: ignore[attr-defined]


def test_a_card_is_known_by_its_total_to_a_hundredth_of_a_gibibyte() -> None:
    """Half of the last digit either way, and what rounding to it twice adds."""
    assert ROUNDING == GIB // 80
    card = max(rows(), key=lambda row: row.total_bytes)
    for away in (-ROUNDING, 0, ROUNDING):
        assert gpu_row(card.total_bytes + away, named=card.name) == card
    assert gpu_row(card.total_bytes + ROUNDING + 1, named=card.name) is None
    assert gpu_row(0, named=card.name) == card and gpu_row(0, named="") is None


def test_a_figure_of_the_ledger_is_a_number_of_the_last_line_that_has_one() -> None:
    lines = (
        line("model_loading", 3, size=5),
        line("model_loading", 4, size="much"),
        line("available_kv", 5, available=7),
    )
    assert _figure(lines, ("model_loading", "size")) is None
    assert _figure(lines[:1], ("model_loading", "size")) == (5, "log line 3")
    assert _figure(lines, ("model_loading", "size"), ("available_kv", "available")) == (7, "log line 5")
    assert _figure(lines, ("torch_oom", "total")) is None


@pytest.mark.parametrize(
    ("flag", "whole"), [(4, 4), (0, 0), (True, None), (False, None), ("4", None), (None, None), (1.5, None)]
)
def test_a_flag_that_is_a_whole_number(flag: object, whole: int | None) -> None:
    rebuilt = Rebuilt(engine="vllm", version="", flags={"flag": flag}, model="a/model")
    case = Case((), rebuilt, Death(None, None, ""), Account(0, (), None, 0, 0.0))
    answer = case.whole("flag")
    assert answer == whole and not isinstance(answer, bool)
