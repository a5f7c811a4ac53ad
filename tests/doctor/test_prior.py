"""Plan first: a bare error is placed by the plan of its command, the log itself wins, and no remedy is a no-op."""

from __future__ import annotations

import shlex
from pathlib import Path

import msgspec
import pytest

from oomph.answers.plan import load, run
from oomph.commands import parse_command
from oomph.doctor.explain import explain, read_case
from oomph.doctor.remedies import Run
from oomph.doctor.verify import observed_pool, planned
from oomph.engines.vllm.failed import failed_deployment
from oomph.errors import OomphError

FIXTURES = Path(__file__).parent / "fixtures"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 500.00 MiB.\n"
BARE = f"vllm serve Qwen/Qwen3-32B --max-model-len 8192\n{OOM}"


def test_a_bare_error_is_placed_where_the_plan_dies() -> None:
    alone = explain(BARE)
    told = explain(BARE, gpus="RTX 3090")
    assert (alone.stage, alone.stage_basis) == ("runtime_request", "guess")
    assert (told.stage, told.stage_basis, told.cause.id) == ("weights_load", "plan", "L01")
    assert any("a plan of this command dies" in note for note in told.notes)


def test_the_log_wins_over_the_plan_and_the_difference_is_said() -> None:
    frame = 'File "/vllm/v1/worker/gpu_worker.py", line 300, in load_model\n'
    log = (
        f"vllm serve Qwen/Qwen3-0.6B\n{frame}torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB.\n"
    )
    told = explain(log, gpus="RTX 3090")
    assert (told.stage, told.stage_basis) == ("weights_load", "traceback")
    assert any("is something else on the card" in note for note in told.notes)


def test_a_remedy_is_not_what_is_set_already() -> None:
    log = (
        "vllm serve Qwen/Qwen3-8B --max-num-batched-tokens 1024\nINFO:     Application startup complete.\n"
        'File "/vllm/v1/worker/gpu_model_runner.py", line 9, in execute_model\n'
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.10 GiB.\n"
    )
    changes = [r.change.label for r in explain(log, gpus="RTX 4090").remedies]
    assert changes and "--max-num-batched-tokens 1024" not in changes and "--max-num-batched-tokens 2048" not in changes


@pytest.mark.parametrize("log", sorted(FIXTURES.glob("*.log")), ids=lambda log: log.stem)
def test_what_is_verified_fits_as_it_is_printed(log: Path) -> None:
    """The printed command, read again, with the log's figures pinned and its card: it must plan to fit."""
    case = read_case([log])
    result = explain([log])
    base = failed_deployment(case)
    if result.advice is None or base is None:
        return
    base = msgspec.structs.replace(base, model=_known(base.model, result.model), own_build=True)
    before = run(base)
    failed = Run(case, before, before, load(base.model), run, observed_pool(case, before))
    for fix in result.advice.fixes:
        read = parse_command(shlex.split(fix.command), engine=f"vllm=={fix.change.version or base.engine.version}")
        given = {k: v for k, v in base.given.items() if k not in fix.change.moves}
        again = msgspec.structs.replace(read, gpus=fix.change.gpus or base.gpus, given=given, own_build=True)
        assert failed.plan_changed(again).verdict.outcome == "fits", fix.change.label


def _known(name: str, shown: str) -> str:
    from oomph.answers.plan import load
    from oomph.doctor.enrich import names

    for candidate in (*names(name), *names(shown)):
        try:
            load(candidate)
            return candidate
        except OomphError:
            continue
    return name


def test_a_shortened_name_is_planned_and_another_attempt_s_error_is_no_doubt() -> None:
    log = f"vllm serve meta-llama/Llama-4-Scout --gpu-memory-utilization 0.8\n{OOM}"
    assert explain(log, gpus="RTX 4090").stage == "weights_load"
    healthy = (
        "INFO 05-30 01:45:33 [kv_cache_utils.py:1300] GPU KV cache size: 25,200 tokens\n"
        "INFO 05-30 01:45:33 [kv_cache_utils.py:1305] Maximum concurrency for 131,072 tokens per request: 1.87x\n"
        "Error Message\n"
        "ValueError: fp8_e5m2 kv-cache is not supported with fp8 checkpoints\n"
    )
    assert explain(healthy, plan=False).failed is None


def test_planned_is_what_explain_does() -> None:
    case = read_case(BARE)
    assert planned(case).engine.name == "vllm"
