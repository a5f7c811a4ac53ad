"""Logs that end without an error: said to be inferred, with a reason, and never a failure."""

from __future__ import annotations

import pytest

from oomph.doctor.explain import Explanation, explain
from oomph.ir.deployment import Deployment, Engine

BLOCKS = "INFO 03-20 19:18:27 llm_engine.py:322] # GPU blocks: 1842, # CPU blocks: 655"
OFF = """\
(Worker_TP0 pid=43) INFO 08-31 15:25:48 [gpu_model_runner.py:6798] Estimated CUDA graph memory: 0.58 GiB total
(Worker_TP0 pid=43) WARNING 08-31 15:25:48 [gpu_worker.py:595] CUDA graph memory profiling is disabled \
(VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0). Without it, CUDA graph memory is not accounted for during KV cache \
allocation, which may require lowering --gpu-memory-utilization to avoid OOM. Consider re-enabling it (the default as \
of v0.21.0) and increasing --gpu-memory-utilization from 0.9350 to 0.9596.
"""
LOADED = "INFO 04-29 08:03:45 [gpu_model_runner.py:4879] Model loading took 25.67 GiB memory and 240.84 seconds"
CONFIG = """\
(APIServer pid=1) INFO 04-19 12:18:53 [utils.py:233] non-default args: {'model': 'org/model', \
'gpu_memory_utilization': 0.962}
(APIServer pid=1) INFO 04-19 12:18:53 [model.py:1685] Using max model len 262144
"""
REPORT = """\
(EngineCore pid=26) INFO 07-15 16:52:59 [gpu_model_runner.py:6136] Encoder cache will be initialized with a budget of \
16384 tokens, and profiled with 1 image items of the maximum feature size.
(EngineCore pid=26) ERROR 07-15 16:53:02 [core.py:1165] EngineCore failed to start.
"""
UP = """\
(APIServer pid=1) INFO 07-28 06:41:09 [loggers.py:118] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg \
generation throughput: 239.2 tokens/s, Running: 8 reqs, Waiting: 0 reqs, GPU KV cache usage: 31.6%, Prefix cache hit \
rate: 0.0%
"""


def told(log: str, **flags: object) -> Explanation:
    deployment = Deployment(Engine("vllm", "", ""), "", dict(flags), ())
    return explain(log + "\n", deployment=deployment, plan=False)


@pytest.mark.parametrize(
    ("log", "flags", "stage", "figure"),
    [
        (BLOCKS, {"max_model_len": 32768}, "kv_check", "29,472"),
        (OFF, {}, "cudagraph_capture", "0.58"),
        (CONFIG, {}, "runtime_request", "3.8%"),
    ],
)
def test_the_figures_name_the_next_stage(log: str, flags: dict[str, object], stage: str, figure: str) -> None:
    result = told(log, **flags)
    assert not result.failed
    assert (result.stage, result.inferred_stage, result.stage_basis) == (stage, stage, "inferred")
    assert figure in result.inferred_reason
    assert result.to_dict()["inferred_stage"] == stage
    shown = result.text(width=100)
    assert "NO ERROR IN THIS LOG" in shown and "FAILED" not in shown


def test_without_figures_it_says_where_the_log_ends() -> None:
    result = told(LOADED)
    assert (result.failed, result.inferred_stage, result.stage) == (None, None, "profile_run")
    assert "it ends in the profiling run" in result.inferred_reason


def test_enough_blocks_are_no_failure() -> None:
    assert told(BLOCKS, max_model_len=16384).inferred_stage is None


def test_a_server_that_was_up_has_nothing_inferred() -> None:
    result = told(UP, gpu_memory_utilization=0.97)
    assert (result.failed, result.inferred_stage, result.inferred_reason) == (False, None, "")


def test_a_report_of_a_failed_start_tells_how_far_it_had_got() -> None:
    result = told(REPORT)
    assert (result.failed, result.stage, result.stage_basis) == (True, "profile_run", "milestone")
