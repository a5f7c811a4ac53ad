"""The stage where the log has neither a traceback nor a line before the failure."""

from __future__ import annotations

import pytest

from oomph.doctor.explain import explain_case, read_case

TITLE = "vLLM 0.21.0: "
BARE = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 64.00 MiB."
FIGURES = (
    " GPU 0 has a total capacity of 80.00 GiB of which 20.00 MiB is free. Of the allocated memory {} GiB is allocated"
    " by PyTorch,{} and {} MiB is reserved by PyTorch but unallocated."
)


def told(log: str) -> tuple[str | None, str]:
    result = explain_case(read_case(log + "\n"))
    assert result.failed
    return result.stage, result.stage_basis


@pytest.mark.parametrize(
    ("sentence", "stage"),
    [
        ("The server dies in `process_weights_after_loading` every time", "weights_load"),
        ("OOM inside `capture_model()` since the upgrade", "cudagraph_capture"),
        ("it crashes during CUDA graph capture", "cudagraph_capture"),
        ("OOM during CUDA graph memory profiling", "cudagraph_profile"),
        ("fails while warming up the sampler", "sampler_warmup"),
        ("out of memory when loading weights", "weights_load"),
        ("OOM during memory profiling", "profile_run"),
        ("OOM during long-context prefill", "runtime_request"),
        ("OOM during KV cache allocation", "kv_alloc"),
    ],
)
def test_a_sentence_beside_a_bare_message(sentence: str, stage: str) -> None:
    assert told(f"{TITLE}{sentence}\n\n{BARE}") == (stage, "said")


@pytest.mark.parametrize("sentence", ["OOM when loading a small model", "it fails at start", "cannot start the server"])
def test_what_is_said_of_any_start_says_that_it_was_not_up(sentence: str) -> None:
    assert told(f"{TITLE}{sentence}\n\n{BARE}") == ("profile_run", "said")


def test_a_sentence_about_nothing_says_nothing() -> None:
    assert told(f"{TITLE}fails with my own fork of it\n\n{BARE}")[1] == "guess"


def test_the_log_is_before_the_sentence() -> None:
    line = "INFO 04-24 08:27:56 [gpu_model_runner.py:3900] Model loading took 15.4 GiB memory and 11.2 seconds"
    assert told(f"OOM during CUDA graph capture\n{line}\n{BARE}") == ("profile_run", "milestone")


def test_the_engines_own_advice_is_not_a_sentence() -> None:
    advice = "If out-of-memory error occurs during cudagraph capture, consider decreasing `gpu_memory_utilization`."
    assert told(f"{advice}\n{BARE}")[1] == "guess"


@pytest.mark.parametrize(
    ("figures", "beside", "stage"),
    [
        (("74.00", "", "900.00"), "", "profile_run"),  # no pools in a whole message: nothing captured yet
        (("74.00", "", "900.00"), "--enforce-eager", "runtime_request"),
        (("70.00", " with 1.20 GiB allocated in private pools (e.g., CUDA Graphs),", "90.00"), "", "runtime_request"),
        (("70.00", " with 1.20 GiB allocated in private pools (e.g., CUDA Graphs),", "90.00"),
         "LLM(model='m', gpu_memory_utilization=0.8)", "runtime_request"),  # more than its budget: a request
        (("78.00", " with 30.00 GiB allocated in private pools (e.g., CUDA Graphs),", "7.00"), "", "weights_load"),
    ],
)  # fmt: skip
def test_the_figures_of_a_bare_message(figures: tuple[str, str, str], beside: str, stage: str) -> None:
    assert told(f"{TITLE}\n{beside}\n{BARE}{FIGURES.format(*figures)}") == (stage, "guess")


def test_the_executors_method_on_the_failures_own_line() -> None:
    line = "Exception in worker VllmWorkerProcess while processing method determine_num_available_blocks: "
    assert told(f"ERROR 09-27 05:20:38 multiproc_worker_utils.py:233] {line}{BARE[24:]}") == (
        "profile_run", "traceback")  # fmt: skip


def test_a_kill_without_its_pid_and_in_a_control_group() -> None:
    ready = "INFO 05-02 11:00:00 [default_loader.py:430] Loading weights took 271.22 seconds\n"
    assert told(f"{ready}Out of memory: Killed process (VLLM::Worker_TP)")[0] == "host_ram"
    assert told(f"{ready}Memory cgroup out of memory: Killed process 412 (VLLM::EngineCor)")[0] == "host_ram"


def test_an_npus_wording() -> None:
    text = (
        "RuntimeError: NPU out of memory. Tried to allocate 3.00 GiB (NPU 1; 60.00 GiB total capacity; 58.50 GiB"
        " already allocated; 58.50 GiB current active; 1.00 GiB free; 58.55 GiB reserved in total by PyTorch)"
    )
    case = read_case(f"vllm serve m --max-model-len 1024\n{text}\n")
    assert explain_case(case).stage == "weights_load"
    assert case.oom_value("total") == 60 << 30 and case.oom_value("free") == 1 << 30


def test_an_engine_before_it_told_its_release() -> None:
    line = "INFO 03-11 02:55:27 llm_engine.py:72] Initializing an LLM engine with config: model='m', seed=0)"
    result = explain_case(read_case(line + "\n"))
    assert not result.failed and result.engine.name == "vllm"


def test_an_engine_is_watched_once_it_is_ready() -> None:
    died = "ERROR - Engine core proc EngineCore_DP0 died unexpectedly, shutting down client."
    assert told(died) == ("runtime_request", "message")
    # another line of the paste says that it was loading
    assert told(f"{died}\nLoading safetensors checkpoint shards:  48% Completed | 22/46 [00:22<00:23,  1.03it/s]")[
        0
    ] == ("other")


def test_rays_report_without_its_first_line() -> None:
    text = "Refer to the documentation on how to address the out of memory issue: https://docs/ray-oom-prevention.html."
    assert told(text)[0] == "host_ram"


@pytest.mark.parametrize(
    "line",
    [
        "(APIServer pid=1) INFO 12-14 20:44:59 [launcher.py:46] Route: /v1/embeddings, Methods: POST",
        "INFO 03-16 00:08:22 [__init__.py:207] Automatically detected platform cuda.",
    ],
)
def test_a_line_of_vllms_that_says_nothing_of_memory_is_not_refused(line: str) -> None:
    assert not explain_case(read_case(line + "\n")).failed


def test_v0s_handlers_tell_a_start_from_a_request() -> None:
    frame = 'File "/vllm/model_executor/models/qwen2_5_vl.py", line 674, in forward'
    assert told(f"ERROR 04-27 20:14:07 [engine.py:448]   {frame}") == ("profile_run", "traceback")
    assert told(f"ERROR 04-27 20:14:07 [engine.py:160]   {frame}")[0] == "runtime_request"
    assert told("ERROR 05-31 09:09:48 [client.py:305] RuntimeError('Engine process (pid 65) died.')")[0] == (
        "runtime_request"
    )


def test_gigabytes_that_are_gibibytes() -> None:
    log = (
        "ERROR 03-27 16:43:19 [core.py:343] ValueError: To serve at least one request with the models's max seq len"
        " (8192), (4.00 GB KV cache is needed, which is larger than the available KV cache memory (3.00 GB)."
    )
    case = read_case(log + "\n")
    assert explain_case(case).cause.id == "K02"
    assert case.value("kv_need", "need") == 4 << 30


def test_workers_that_were_told_to_stop() -> None:
    frame = '(VllmWorker rank=0 pid=75)   File "/vllm/v1/executor/multiproc_executor.py", line 303, in signal_handler'
    assert told(f"{frame}\n(VllmWorker rank=0 pid=75) SystemExit: \nKilled")[0] == "other"
    assert (
        told("INFO 01-23 07:34:26 gpu_executor.py:122] # GPU blocks: 11836, # CPU blocks: 4681\nKilled")[0]
        == "host_ram"
    )


def test_far_below_its_budget_there_is_no_cache_yet() -> None:
    old = BARE.replace("torch.Out", "torch.cuda.Out")
    given = "LLM(model='m', gpu_memory_utilization=0.95, enforce_eager=True)"
    assert told(f"{TITLE}\n{given}\n{old}{FIGURES.format('58.00', '', '400.00')}") == ("profile_run", "guess")
    assert told(f"{TITLE}\n{given}\n{old}{FIGURES.format('74.00', '', '400.00')}") == ("runtime_request", "guess")


def test_an_npu_that_has_nothing_left() -> None:
    line = "(Worker_TP2 pid=554) INFO 10-28 21:14:48 [worker_v1.py:259] Available memory: 0, total memory: 65452113920"
    result = explain_case(read_case(line + "\n"))
    assert (result.failed, result.stage, result.cause.id) == (True, "kv_check", "K01")
