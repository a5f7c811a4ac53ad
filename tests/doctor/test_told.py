"""What people say around a log: a title that names the error, a failure that is only told, a log that lost its end."""

from __future__ import annotations

import pytest

from oomph.doctor.explain import explain, read_case

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


def test_a_title_that_quotes_an_error_names_it() -> None:
    text = (
        '# [Bug]: crashes at engine init: "a and b must have same reduction dim"\n\nWith `vllm/vllm-openai:v0.25.1`.\n'
    )
    result = explain(text)
    assert (result.failed, result.cause.id) == (True, "N01")
    assert "reduction dim" in result.cause.text


def test_a_report_whose_title_says_that_memory_ran_out_while_it_served() -> None:
    served = "INFO:     Uvicorn running on http://0.0.0.0:8000 (Press CTRL+C to quit)\n"
    log = f"(APIServer pid=1) INFO 05-30 01:45:33 [api_server.py:1] Starting vLLM API server 0\n{served}"
    assert explain(f"# [Bug]: OOM for long requests\n\n{log}").failed is True
    assert explain(f"# [Feature]: avoid OOM for long requests\n\n{log}").failed is not True
    assert explain(log).failed is False


@pytest.mark.parametrize(
    ("text", "card", "model", "flags"),
    [
        ("I get OOM when loading Llama-3.1-70B-Instruct on 2x T4 with vllm 0.6.3", "T4", "Llama-3.1-70B-Instruct",
         {"tensor_parallel_size": 2}),
        ("vllm 0.10.2 on my T4 runs out of memory with Qwen/Qwen2.5-14B", "T4", "Qwen/Qwen2.5-14B", {}),
        ("vllm/vllm-openai:v0.9.1 with args --model org/Some-70B --tensor-parallel-size 4 on g5.12xlarge gets OOM",
         "A10G", "org/Some-70B", {"tensor_parallel_size": 4}),
    ],
)  # fmt: skip
def test_the_facts_of_a_sentence(text: str, card: str, model: str, flags: dict[str, int]) -> None:
    case = read_case(f"{text}\n")
    assert (case.named_gpu, case.rebuilt.model, case.rebuilt.flags) == (card, model, flags)
    assert case.failed is True


def test_one_flag_in_a_sentence_is_a_proposal() -> None:
    text = "You could try `--quantization fp8`, it runs out of memory otherwise.\n"
    assert read_case(f"# OOM with vllm\n\n{text}").rebuilt.flags == {}


def test_weights_that_no_card_of_the_text_holds() -> None:
    """ "OOM when loading" alone is said of any start; 140 GB on two T4 can only be the load."""
    result = explain("I get OOM when starting Llama-3.1-70B-Instruct on 2x T4 with vllm 0.6.3\n", plan=False)
    assert (result.stage, result.cause.id) == ("weights_load", "L01")


def test_a_sentence_that_begins_with_i_keeps_it() -> None:
    case = read_case("I get OOM with vllm when I load it\nI srv  load_model: loading model\n")
    assert case.observations[0].text.startswith("I get OOM")


TOWER = '  File "/x/vllm/model_executor/models/qwen3_vl.py", line 202, in forward\n'
LANGUAGE = '  File "/x/vllm/model_executor/models/qwen3.py", line 100, in forward\n'
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 6.00 GiB.\n"


def test_the_innermost_file_tells_an_encoder_from_the_language_model() -> None:
    head = 'Traceback (most recent call last):\n  File "/x/vllm/v1/worker/gpu_worker.py", line 1, in profile_run\n'
    assert explain(head + TOWER + OOM).cause.id == "P01"
    assert explain(head + TOWER + LANGUAGE + OOM).cause.id == "P03"


def test_a_stage_that_is_guessed_names_no_cause_of_its_own() -> None:
    """Nothing but torch's line: that memory ran out is known, and what of is not."""
    result = explain("# [Bug]: OOM\n\nWith vllm:\n" + OOM)
    assert result.cause.id == "M01"


def test_a_sentence_of_the_engine_is_known_in_lower_case() -> None:
    result = explain("ran train.sh with vllm and received the error no available memory for the cache blocks\n")
    assert (result.stage, result.cause.id) == ("kv_check", "K01")


def test_a_clients_error_is_one_of_a_running_server() -> None:
    line = "httpcore.RemoteProtocolError: peer closed connection without sending complete message body\n"
    assert explain(f"# sglang: streams end in the middle\n\n{line}").stage == "runtime_request"


def test_a_dead_actor_is_a_report_and_no_placement() -> None:
    line = "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n"
    assert explain(f"# vllm: failed to load with segfault\n\n{line}").cause.id == "N24"


@pytest.mark.parametrize(
    "title",
    [
        "# [Feature]: better use of memory, so that we do not run into OOM",
        "# [RFC]: what to do when it runs out of memory",
    ],
)
def test_a_proposal_is_no_failure(title: str) -> None:
    text = "When vLLM cannot hold a model, users get an out of memory error.\n"
    assert explain(f"{title}\n\n{text}").failed is None
    assert explain(f"# [Bug]: it fails\n\n{text}").failed is True


def test_chinese_words_beside_an_engines_name() -> None:
    """Between a letter and a Chinese character there is no word boundary in Python."""
    result = explain("# 使用vllm部署模型，推理请求导致服务崩溃\n\n启动成功，但是一个请求后挂掉。\n")
    assert (result.failed, result.stage, result.engine.name) == (True, "runtime_request", "vllm")
    assert explain("# vllm0.10.1报显存溢出\n").cause.id == "M01"


def test_the_engine_that_fails_and_not_the_one_it_is_compared_with() -> None:
    text = "# CUDA OOM: unable to run the same model as vLLM\n\nvLLM is able to serve it but SGLang fails to start.\n"
    assert explain(text).engine.name == "sglang"


def test_a_loop_without_a_name_is_somebodys_requests() -> None:
    bar = " 11%|████▉          | 25/232 [01:26<02:49,  1.22it/s]"
    line = "NPU out of memory. NPUWorkspaceAllocator tried to allocate 187.54 MiB"
    line += "(NPU 0; 60.96 GiB total capacity; 61.91 MiB free)"
    case = read_case(f"# vllm-ascend: errors\n\n{bar}{line}\n")
    assert case.stage == "runtime_request"
    assert case.oom_value("tried") and case.total == round(60.96 * 2**30)
