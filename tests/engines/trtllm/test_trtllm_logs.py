"""TensorRT-LLM's lines with the units that they really have, and the stages that they belong to."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

import oomph
from oomph.doctor.explain import explain
from oomph.facts.trtllm.logs import ROWS
from oomph.units import GIB

TRUTH = Path(__file__).parent.parent.parent / "truth"


def values(line: str) -> dict[str, dict[str, object]]:
    """Kind -> values, the first row of a kind wins as in logs/parse.py."""
    found: dict[str, dict[str, object]] = {}
    for row in ROWS:
        if row.kind not in found and (matched := row.match(line)) is not None:
            found[row.kind] = dict(matched)
    return found


def test_gigabytes_of_weights_are_gibibytes() -> None:
    for line in (
        "[TRT-LLM] [I] Use 8.79 GB for model weights.",
        "[TRT-LLM] [I] Rank 0 uses 8.79 GB for model weights.",
    ):
        assert values(line)["tr_created"]["weights"] == round(8.79 * GIB)


def test_quarters_of_a_gibibyte_in_the_autumn_of_2025() -> None:
    start = "[W] Both free_gpu_memory_fraction and max_tokens are set (to 0.9 and 8256 with free memory "
    old = values(start + "1.687347412109375 of total memory 5.879119873046875, respectively).")["tr_both"]
    new = values(start + "6.75GiB of total memory 23.52GiB, respectively).")["tr_both"]
    assert old["total"] == round(4 * 5.879119873046875 * GIB) and old["free"] == round(4 * 1.687347412109375 * GIB)
    assert new["total"] == round(23.52 * GIB)
    assert "total" not in values("Both free_gpu_memory_fraction and max_tokens are set (to 0.9 and 5, resp.")["tr_both"]


@pytest.mark.parametrize(
    "words",
    [
        "fraction is set 0.8, kv size is 35136. device total memory 178.35 GiB, , tmp kv_mem 0.27 GiB",
        "fraction is set 0.8, kv size per token is 35136. device total memory 178.35 GiB, temporary kv cache memory "
        "during profiling 0.27 GiB",
    ],
)
def test_the_peak_in_the_words_of_two_releases(words: str) -> None:
    line = "Peak memory during memory usage profiling (torch + non-torch): 61.98 GiB, available KV cache memory when "
    budget = values(f"{line}calculating max tokens: 93.32 GiB, {words}")["tr_budget"]
    assert (budget["peak"], budget["available"]) == (round(61.98 * GIB), round(93.32 * GIB))
    assert (budget["per_token"], budget["temporary"]) == (35136, round(0.27 * GIB))


def test_bytes_of_built_engines() -> None:
    old = values("[TensorRT-LLM][INFO] Max tokens in paged KV cache: 3136. Allocating 205520896 bytes.")["tr_kv"]
    assert (old["tokens"], old["kv"]) == (3136, 205520896)
    free = values("Memory usage when calculating max tokens in paged kv cache: total: 22.18 GiB, available: 1.42 GiB")
    assert free["tr_available"]["available"] == round(1.42 * GIB)


POOL = "[TensorRT-LLM][INFO] [MemUsageChange] Allocated {} GiB for max tokens in paged KV cache ({}).\n"
PEAK = (
    "[TRT-LLM] [I] Peak memory during memory usage profiling (torch + non-torch): 19.20 GiB, available KV cache memory "
    "when calculating max tokens: 4.90 GiB, fraction is set 0.9, kv size is 147456. device total memory 23.52 GiB, , "
    "tmp kv_mem 1.13 GiB\n"
)
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 48.00 MiB. GPU 0 has a total capacity of 23.52 GiB of which 12.00 MiB is free.\n"  # noqa: E501


def report(component: str) -> str:
    return (
        "RuntimeError: Executor creation failed due to insufficient GPU memory.\n\n"
        f"The following component could not be created: {component}\nTotal GPU memory (GiB): 23.52\n"
        "Free GPU memory before component creation attempt (GiB): 1.20\n"
    )


@pytest.mark.parametrize(
    ("log", "stage"),
    [
        ("[TRT-LLM] [I] Use 8.79 GB for model weights.\n" + OOM, "weights_load"),  # created, its files are read
        ("[TRT-LLM] [I] Use 8.79 GB for model weights.\nModel init total -- 3.13s\n" + OOM, "profile_run"),
        (POOL.format("1.13", 8224) + OOM, "profile_run"),  # the temporary pool's line
        (POOL.format("1.13", 8224) + PEAK + POOL.format("4.90", 35712) + OOM, "cudagraph_capture"),
        (PEAK + POOL.format("4.90", 35712) + "[TRT-LLM] [I] Setting PyTorch memory fraction to 0.5 (11.76 GiB)\n" + OOM,
         "runtime_request"),
        (report("Model"), "weights_load"),
        (report("Initial KV Cache (temporary for KV cache size estimation)"), "profile_run"),
        (report("Additional executor resources (temporary for KV cache size estimation)"), "profile_run"),
        (report("Model resources created during usage"), "profile_run"),
        (report("KV cache"), "kv_alloc"),
        (report("Additional executor resources"), "cudagraph_capture"),
        ("[TRT-LLM] [E] Executor creation failed due to insufficient GPU memory.\n"
         "_no_capture_init_kv_cache: 3.50 / 0.35\n_no_capture_init_extra_resources: 0.34 / 0.10\n" + OOM,
         "profile_run"),
        ("[TRT-LLM] [E] Executor creation failed due to insufficient GPU memory.\nmodel: 20.00 / 9.00\n"
         "model_extra: 5.00 / 7.00\n" + OOM, "kv_alloc"),
        ("[TensorRT-LLM][ERROR] Assertion failed: Impossible to fit in any sequence in kvCache\n", "kv_check"),
        # retold by people, without a line of the engine
        ("The recurrent state of 2048 slots needs 50 GiB, exceeding the whole KV budget.\n", "kv_alloc"),
        ("It takes 119 GiB of KV cache, leaving 87 MiB free, and the client OOMs for 2.8 GiB.\n", "runtime_request"),
    ],
)  # fmt: skip
def test_the_stage_of_a_failure(log: str, stage: str) -> None:
    explanation = explain("[TensorRT-LLM] TensorRT-LLM version: 1.2.1\n" + log, plan=False)
    assert (explanation.failed, explanation.stage) == (True, stage)


def test_what_is_left_for_run_time_is_said_with_its_figures() -> None:
    log = PEAK + POOL.format("4.90", 35712) + "[TRT-LLM] [I] Setting PyTorch memory fraction to 0.5 (11.76 GiB)\n" + OOM
    explanation = explain("[TensorRT-LLM] TensorRT-LLM version: 1.2.1\n" + log, plan=False)
    assert "18.1 GiB; 0.55 GiB were left for run time" in explanation.cause.text  # 23.52 - 19.20 + 1.13 - 4.90


def test_the_shortened_context_of_the_first_pass_means_nothing() -> None:
    cut = "[TRT-LLM] [W] Adjusted max_seq_len to 8224\n"
    started = "[TRT-LLM] [I] Setting PyTorch memory fraction to 0.5 (11.76 GiB)\nINFO: Application startup complete.\n"
    log = cut + POOL.format("1.13", 8224) + PEAK + POOL.format("4.90", 35712) + started
    assert explain(log, plan=False).cause.id != "T04"
    assert explain(log.replace(PEAK, PEAK + cut.replace("8224", "35712")), plan=False).cause.id == "T04"


POSTS = [json.loads(line) for line in (TRUTH / "trtllm-posts.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("post", [post for post in POSTS if post["lines"]], ids=lambda post: str(post["id"]))
def test_a_posted_log_is_read(post: dict[str, Any]) -> None:
    """Sixteen posts of other people, found after the rows of the first sets. docs/trtllm.md says how many came out at
    first sight."""
    explanation = explain("\n".join(post["lines"]) + "\n", plan=False)
    assert bool(explanation.failed) == post["failed"]
    assert not post["failed"] or explanation.stage == post["stage"]
    assert "cause" not in post or explanation.cause.id == post["cause"]


def test_the_blocks_of_a_built_engine() -> None:
    """ceil(fraction x available / bytes of a block), of which `available` is printed with two decimals."""
    post = next(post for post in POSTS if post["id"] == "i01")
    inputs, block = post["inputs"], post["inputs"]["bytes_per_token"] * post["inputs"]["tokens_per_block"]
    low, high = (
        math.ceil(inputs["fraction"] * (inputs["available_gib"] + off) * GIB / block) for off in (-0.005, 0.005)
    )
    assert low <= post["printed"]["blocks"] <= high


def test_requests_without_max_tokens_run_one_by_one() -> None:
    """Issue 9412: gemma-3-27b on two A100 of 80 GB answers one request after the other."""
    post = next(post for post in POSTS if post["id"] == "i16")
    plan = oomph.plan(post["inputs"]["command"], gpu=post["inputs"]["gpu"], engine="trtllm==1.2.0rc2")
    resolved = plan.resolved
    blocks = max(resolved["blocks_per_window"].values())
    whole = math.ceil(resolved["served_max_seq_len"] / resolved["tokens_per_block"])
    assert blocks // whole == post["printed"]["at_once"]
