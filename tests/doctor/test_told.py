"""What people say around a log: a title that names the error, a failure that is only told, a log that lost its end."""

from __future__ import annotations

import pytest

from oomph.doctor.explain import explain

CUT = """(EngineCore pid=7) ERROR 05-30 01:45:33 [core.py:1108] EngineCore encountered a fatal error.
(EngineCore pid=7) ERROR 05-30 01:45:33 [core.py:1108] Traceback (most recent call last):
(EngineCore pid=7) ERROR 05-30 01:45:33 [core.py:1108]   File "/x/vllm/v1/engine/core.py", line 1099, in run_engine_core
(EngineCore pid=7) ERROR 05-30 01:45:33 [core.py:1108]     engine_core.run_busy_loop()
"""
LOADING = """(EngineCore pid=7) INFO 05-30 01:45:33 [gpu_model_runner.py:3000] Starting to load model a/b...
(EngineCore pid=7) ERROR 05-30 01:45:40 [core.py:708] EngineCore failed to start.
(EngineCore pid=7) ERROR 05-30 01:45:40 [core.py:708] Traceback (most recent call last):
"""


@pytest.mark.parametrize(
    ("title", "cause"),
    [
        ("# [Bug]: illegal instruction after some hours on a new card", "N11"),
        ("# Worker dies, segfault in the sampler", "N24"),
        ("# NCCL hangs and the engine is dead", "N12"),
        ("# [Bug]: process gets killed", "H03"),
        ("# [Bug]: it dies", "R13"),
    ],
)
def test_a_title_names_what_a_cut_log_does_not(title: str, cause: str) -> None:
    result = explain(f"{title}\n\n```\n{CUT}```\n")
    assert result.failed and result.cause.id == cause


def test_the_log_counts_before_its_title() -> None:
    result = explain(f"# Segfault while serving\n\n{CUT}(EngineCore pid=7) ERROR 05-30 [core.py:1108] KeyError: 'a'\n")
    assert result.cause.id == "N01"


def test_a_title_that_only_complains_is_no_failure() -> None:
    log = "(EngineCore pid=7) INFO 05-30 01:45:33 [gpu_model_runner.py:3000] Starting to load model a/b...\n"
    assert explain(f"# Timeout warnings on model load\n\n{log}").failed is None
    assert explain(f"# Timeout on model load\n\n{log}").cause.id == "N14"


def test_a_cut_log_whose_owner_never_speaks_of_memory() -> None:
    """A rule's guess about memory is no cause there; with a word of memory it is."""
    result = explain(f"# Startup failure with the new attention backend\n\n{LOADING}")
    assert (result.stage, result.cause.id) == ("weights_load", "unknown")
    for word in ("oom", "OOMs", "out of VRAM", "显存不足", "не хватает памяти"):
        assert explain(f"# Startup failure: {word}\n\n{LOADING}").cause.id == "L01", word


@pytest.mark.parametrize(
    "sentence",
    [
        "However I am running into OutOfMemoryError:",
        "Four requests at once caused every rank to try a 304 MiB\nallocation, OOM, and terminate the engine.",
        "The server crashes with a CUDA out of memory error.",
    ],
)
def test_a_failure_that_is_only_told(sentence: str) -> None:
    command = "vllm serve meta-llama/Llama-2-13b-chat-hf --max-model-len 4096"
    assert explain(f"{sentence}\n\n```\n{command}\n```\n").failed is True


@pytest.mark.parametrize(
    "sentence",
    [
        "With this setting it no longer runs out of memory.",
        "How do I know whether it would run out of memory?",
        "You might get an out of memory error if the context is longer.",
    ],
)
def test_what_is_taken_back_or_asked_is_no_failure(sentence: str) -> None:
    command = "vllm serve meta-llama/Llama-2-13b-chat-hf --max-model-len 4096"
    assert explain(f"{sentence}\n\n```\n{command}\n```\n").failed is None


def test_the_ledger_stands_before_the_warm_up() -> None:
    """gpu_worker.py prints it behind the capture; the sampler's warm-up follows (0.21.0, line 710)."""
    line = (
        "(Worker_TP0 pid=7) INFO 07-14 09:50:23 [gpu_worker.py:855] Free memory on device (77.57/79.11 GiB) on "
        "startup. Desired GPU memory utilization is (0.92, 72.78 GiB). Actual usage is 7.39 GiB for weight, 1.54 GiB "
        "for peak activation, 0.6 GiB for non-torch memory, and 2.04 GiB for CUDAGraph memory.\n"
    )
    assert explain(line).failed is None
    oom = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.40 GiB.\n"
    assert explain(line + oom).stage == "sampler_warmup"
