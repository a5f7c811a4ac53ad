"""Logs as people paste them: cut tracebacks, eaten line breaks, titles above a log, prefixes of whoever carried it."""

from __future__ import annotations

import pytest

from oomph.doctor.explain import explain_case, read_case
from oomph.logs.clean import clean, lines
from oomph.logs.reader import RawLine

OOM = "CUDA out of memory. Tried to allocate {} GPU 0 has a total capacity of {} of which {} is free."
WORKER = "(VllmWorker rank=0 pid=220) ERROR 05-22 21:17:38 [multiproc_executor.py:435] "


def stage(log: str) -> tuple[bool, str | None]:
    result = explain_case(read_case(log + "\n"))
    return result.failed, result.stage


@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        ('File "/vllm/v1/worker/gpu_worker.py", line 157, in step\n    self.model_runner.profile_run()', "profile_run"),
        ('File "/vllm/v1/worker/gpu_worker.py", line 9, in f\n    self.collective_rpc("load_model")', "weights_load"),
        ('File "/vllm/model_executor/models/llama.py", line 9, in __init__\n    x = Foo(', "weights_load"),
        ('File "/vllm/model_executor/layers/linear.py", line 9, in init\n    super().init(', "weights_load"),
        ('File "/vllm/b.py", line 8, in f\n File "/torch/graphs.py", line 8, in capture_end', "cudagraph_capture"),
        ('File "/sglang/srt/managers/scheduler.py", line 1, in event_loop_pp\n    self.run(', "runtime_request"),
        ('File "/sglang/srt/mem_cache/common.py", line 1, in alloc_for_extend\n    raise X(', "runtime_request"),
        ('File "/tensorrt_llm/_torch/x.py", line 1, in _capture_generation_cuda_graphs\n    y(', "cudagraph_capture"),
    ],
)  # fmt: skip
def test_a_cut_traceback_names_the_stage(code: str, wanted: str) -> None:
    assert stage(code) == (True, wanted)


def test_a_decorator_between_two_frames_hides_nothing() -> None:
    log = (
        'File "/vllm/v1/worker/gpu_worker.py", line 507, in compile_or_warm_up_model\n'
        "  self.model_runner._dummy_sampler_run(hidden_states=last)\n"
        'File "/torch/utils/_contextlib.py", line 120, in decorate_context\n  return func(*args, **kwargs)'
    )
    assert stage(log) == (True, "sampler_warmup")


def test_line_breaks_that_a_forum_ate() -> None:
    parts = ["WorkerProc failed to start.", 'File "/vllm/x.py", line 3, in load_model', "self.run()"]
    text = " ".join(WORKER + part for part in parts)
    found = lines([RawLine(1, text)])
    assert [line.text.strip() for line in found] == parts
    assert {line.process for line in found} == {"VllmWorker"}
    assert stage(text) == (True, "weights_load")


def test_a_title_above_the_log_is_placed_by_the_log() -> None:
    title = f"[Bug]: torch.OutOfMemoryError: {OOM.format('2.00 MiB.', '44.53 GiB', '448.00 KiB')}"
    capture = "INFO 03-27 10:29:03 [model_runner.py:1442] Capturing cudagraphs for decoding. This may take a while."
    assert stage(f"{title}\n\n{capture}") == (True, "cudagraph_capture")


def test_a_card_full_of_parameters_is_a_load() -> None:
    line = OOM.format("896.00 MiB.", "23.57 GiB", "235.88 MiB")
    more = " Of the allocated memory {} is allocated by PyTorch, and 13.48 MiB is reserved by PyTorch but unallocated."
    assert stage(line + more.format("23.03 GiB")) == (True, "weights_load")
    assert stage(line + more.format("20.03 GiB")) == (True, "runtime_request")


@pytest.mark.parametrize(
    "prefix",
    [
        "│ ",
        "  | ",
        "^[[0;36m(EngineCore_DP0 pid=70073)^[[0;0m ",
        "#033[2m#033[33m(EngineCore pid=7)#033[0m ",
        "INFO 2025-11-19T20:16:36.096674521Z [resource.labels.containerName: vllm] (EngineCore_DP0 pid=270) ",
        "[2026-02-24T20:21:58Z] (EngineCore_DP0 pid=6940) ",
    ],
)
def test_prefixes(prefix: str) -> None:
    line = clean(RawLine(1, f"{prefix}INFO 01-27 00:31:59 [gpu_model_runner.py:3905] Model loading took 64.38 GiB   │"))
    assert (line.text, line.file, line.at) == ("Model loading took 64.38 GiB", "gpu_model_runner.py", 3905)


@pytest.mark.parametrize(
    ("beside", "version"),
    [
        ("pip install vllm==0.11.0", "0.11.0"),
        ("vllm                          0.10.2", "0.10.2"),
        ("vLLM Version                 : 0.11.0", "0.11.0"),
        ("    image: vllm/vllm-openai:v0.14.0", "0.14.0"),
        ("vllm-0.15.2rc1.dev93+g11a4c9d30.cu128-cp312-linux_x86_64.whl", "0.15.2rc1"),
        ("**H100 80GB, vLLM 0.28.0**", "0.28.0"),
        ("works with vllm==0.8.2, not with vllm==0.8.3", ""),
    ],
)
def test_a_release_named_beside_the_log(beside: str, version: str) -> None:
    log = f"{beside}\nAvailable KV cache memory: -1.50 GiB\n"
    if "not with" in beside:
        log = f"vllm==0.8.2 works\nvllm==0.8.3 does not\n{log}"
    assert explain_case(read_case(log)).engine.version == version


def test_what_is_not_in_the_log_is_not_claimed() -> None:
    result = explain_case(read_case('File "/vllm/x.py", line 3, in load_model\n'))
    assert not result.cause.sure and "The error itself is not in this part of the log" in result.cause.text


STATS = (
    "INFO 03-17 15:38:10 [loggers.py:259] Engine 000: Avg prompt throughput: 1.0 tokens/s, Avg generation throughput: "
    "18.1 tokens/s, Running: {} reqs, Waiting: {} reqs, GPU KV cache usage: {}%, Prefix cache hit rate: 0.0%"
)


@pytest.mark.parametrize(
    ("reports", "words"),
    [
        (((10, 0, 20.0), (20, 0, 40.0)), ("none waiting", "about 50 of this length")),
        (((8, 40, 40.0), (8, 30, 41.0)), ("8 run all the time", "--max-num-seqs")),
        (((8, 40, 30.0), (12, 30, 41.0)), ("--max-num-batched-tokens",)),
        (((8, 4, 95.5), (8, 3, 96.0)), ("wait for KV blocks",)),
    ],
)
def test_a_running_server(reports: tuple[tuple[int, int, float], ...], words: tuple[str, ...]) -> None:
    result = explain_case(read_case("\n".join(STATS.format(*r) for r in reports) + "\n"))
    assert not result.failed and not result.inferred_reason
    assert all(word in result.cause.text for word in words), result.cause.text


@pytest.mark.parametrize(
    ("log", "wanted"),
    [
        ("ERROR 07-07 21:11:20 [core.py:1233] EngineCore encountered a fatal error.", "runtime_request"),
        ("vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.", "runtime_request"),
        ("RuntimeError: Engine core initialization failed. Failed core proc(s): {}", "other"),
        ("> - 2024-06-22T20:16:34.7+00:00 ERROR 06-22 20:16:34 async_llm_engine.py:52]   "
         'File "/vllm/model_executor/models/llama.py", line 80, in forward', "runtime_request"),
        ('File "/sglang/srt/mem_cache/memory_pool.py",\nline 499, in _init_mamba_pool\n'
         "torch.OutOfMemoryError: CUDA out of memory.\nTried to allocate 18.56 GiB.", "kv_alloc"),
        ("gpu_model_runner.py:5121, in _get_prompt_logprobs_dict\n  logits = self.model.compute_logits(h)\n"
         "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.82 GiB.", "runtime_request"),
    ],
)  # fmt: skip
def test_who_says_it_tells_when(log: str, wanted: str) -> None:
    assert stage(log) == (True, wanted)


def test_killed_behind_an_error_is_the_parent_clearing_up() -> None:
    log = (
        "ERROR 05-19 22:17:53 [core.py:386] RuntimeError: shape '[2, 2]' is invalid for input of size 16\n"
        "CRITICAL 05-19 22:17:53 [core_client.py:359] Got fatal signal from worker processes, shutting down.\nKilled"
    )
    result = explain_case(read_case(log + "\n"))
    assert result.stage != "host_ram" and result.cause.id == "N01"
    assert stage("INFO 05-19 22:17:53 [gpu_model_runner.py:1] Starting to load model a/b...\nKilled") == (
        True,
        "host_ram",
    )
