"""Decisions of the doctor that no other test noticed when one was turned round (`make mutants`)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from oomph.doctor.explain import read_case
from oomph.doctor.reading.failing_stage import failing_stage
from oomph.doctor.reading.failure import _ended_badly, _nothing_left
from oomph.doctor.reading.guesses import _reading_a_file
from oomph.doctor.reading.tracebacks import traceback
from oomph.doctor.rules.m01_memory_ran_out import match
from oomph.engines.llamacpp.log.inferred import _against
from oomph.engines.llamacpp.log.stages import loading
from oomph.ir.observation import Observation
from oomph.units import GIB


def seen(*kinds: Any) -> list[Observation]:
    return [Observation(line, kind, text="") for line, kind in enumerate(kinds, 1)]


@pytest.mark.parametrize(
    ("kinds", "is_loading"),
    [
        ((), False), (("lc_weights",), True), (("lc_layers", "lc_kv"), False), (("lc_kv", "lc_file"), True),
        (("lc_loading", "lc_compute"), False), (("lc_phase",), False),
    ],
)  # fmt: skip
def test_a_load_goes_on_until_a_context_is_begun(kinds: tuple[str, ...], is_loading: bool) -> None:
    assert loading(seen(*kinds)) is is_loading


def test_llamacpp_describes_a_file_before_it_loads_it() -> None:
    about = Observation(1, "lc_file", text="print_info: file size = 8.5 GiB")
    assert not _reading_a_file([])
    assert _reading_a_file([about])
    assert _reading_a_file([replace(about, text="llama_model_loader: loaded meta data"), *seen("exception")])
    assert not _reading_a_file([about, *seen("lc_weights")])


def test_what_is_needed_beside_what_is_free() -> None:
    assert _against(3 * GIB, None) == "it needs 3.00 GiB"
    assert _against(3 * GIB, 2 * GIB) == "it needs 3.00 GiB, 2.00 GiB are free"


@pytest.mark.parametrize(
    ("signal", "is_bad"), [("SIGTERM", False), ("SIGINT", False), ("15", False), ("2", False), ("SIGKILL", True)]
)
def test_a_signal_with_which_people_stop_a_server_is_no_failure(signal: str, is_bad: bool) -> None:
    assert _ended_badly(Observation(1, "sign_signal", {"signal": signal})) is is_bad


@pytest.mark.parametrize(
    ("available", "later", "is_nothing"),
    [
        (0, "kv_tokens", True), (-1, "", True), (1, "kv_tokens", False), (1, "", True), ((1 << 28) - 1, "", True),
        (1 << 28, "", False), (1 << 28, "kv_tokens", False),
    ],
)  # fmt: skip
def test_what_cannot_hold_a_request_is_nothing(available: int, later: Any, is_nothing: bool) -> None:
    assert _nothing_left(Observation(1, "available_kv", {"available": available}), {later}) is is_nothing


def test_memory_that_ran_out_by_the_plan_is_said_so() -> None:
    log = "INFO 05-30 01:45:01 [api_server.py:1287] vLLM API server version 0.21.0\ntorch.OutOfMemoryError: CUDA\n"
    case = read_case(log)
    planned = replace(case, death=replace(case.death, failed=True, basis="plan", line=99, stage="weights_load"))
    by_plan, by_words = match(planned), match(replace(planned, death=replace(planned.death, basis="guess")))
    assert by_plan is not None and "by the plan" in by_plan.text
    assert by_words is None or "by the plan" not in by_words.text


def test_the_frames_behind_a_frame_are_its_traceback() -> None:
    frames = [Observation(line, "frame", {"function": f"f{line}"}) for line in range(1, 200)]
    functions, _ = traceback(frames, 0)
    assert functions == tuple(f"f{line}" for line in range(1, 121))
    (cause,) = seen("exception")
    functions, _ = traceback([cause, *frames], 0)
    assert functions == tuple(f"f{line}" for line in range(1, 120))


@pytest.mark.parametrize(
    ("kind", "function", "stage"),
    [
        ("x_bad_address", "kernels::IpcMemory::open", "other"),
        ("tr_oom", "kernels::IpcMemory::open", "startup_free_memory"),
        ("x_bad_address", "batch_manager::BlockManager::BlockManager", "kv_alloc"),
        ("tr_oom", "batch_manager::BlockManager::BlockManager", "kv_alloc"),
    ],
)  # fmt: skip
def test_ranks_that_are_joined_are_no_stage_unless_memory_ran_out(kind: Any, function: str, stage: str) -> None:
    failure = Observation(1, kind, text="")
    frame = Observation(2, "tr_line", {"function": function})
    assert failing_stage(failure, (), (), (), (failure, frame)) == (stage, "traceback")
