# ruff: noqa: E501 - a row is a line
"""Two attempts in one text, each with its own error, get two answers; what follows from one failure gets one."""

import oomph

KV = "ValueError: To serve at least one request with the models's max seq len (116160), (4.43 GiB KV cache is needed, which is larger than the available KV cache memory (3.48 GiB)."
SAMPLER = "RuntimeError: CUDA out of memory occurred when warming up sampler with 1024 dummy requests. Please try lowering `max_num_seqs` or `gpu_memory_utilization` when initializing the engine."


def test_two_errors_of_two_attempts_are_explained_apart() -> None:
    text = f"After the upgrade it needs much more memory.\nWith a long context it says:\n{KV}\n\nand with a shorter one:\n\n{SAMPLER}\n"
    answer = oomph.explain(text, plan=False)
    (other,) = answer.also
    assert {answer.stage, other.stage} == {"kv_check", "sampler_warmup"}
    assert answer.cause.id != other.cause.id
    assert "another attempt FAILED" in answer.text()


def test_one_error_that_is_quoted_twice_is_one_death() -> None:
    text = f"It says this:\n{KV}\n\nI repeat it here because it is important:\n\n{KV}\n"
    assert oomph.explain(text, plan=False).also == ()


def test_a_log_in_the_order_of_time_has_one_death() -> None:
    lines = f"INFO 05-30 01:45:01 [api_server.py:1287] vLLM API server version 0.21.0\nERROR 05-30 01:45:09 [core.py:1] {SAMPLER}\nERROR 05-30 01:45:10 [core.py:2] RuntimeError: Engine core initialization failed. See root cause above.\n"
    assert oomph.explain(lines, plan=False).also == ()


def test_a_table_of_sizes_names_no_card_of_the_run() -> None:
    text = f"{KV}\n\nWhat fits where:\n\n7-8B → 16 GB (RTX 5080/5090)\n13B → 28 GB (2x RTX 5090)\n"
    assert oomph.explain(text, plan=False).gpu == ""


def test_two_attempts_are_told_apart_whatever_else_stands_in_their_lines() -> None:
    """Every sentence here names a flag, so that each is a line with something to read in it."""
    text = (
        "First attempt with vllm 0.10.2:\n"
        "ValueError: To serve at least one request with the models's max seq len (40960), (5.62 GiB KV cache is needed, "
        "which is larger than the available KV cache memory (3.10 GiB).\n\n"
        "So I raised --gpu-memory-utilization to 0.99. Second attempt:\n"
        "RuntimeError: CUDA out of memory occurred when warming up sampler with 256 dummy requests. Please try lowering "
        "`max_num_seqs` or `gpu_memory_utilization` when initializing the engine.\n"
    )
    answer = oomph.explain(text, plan=False)
    assert {answer.cause.id, *(one.cause.id for one in answer.also)} == {"K02", "P04"}
    assert (answer.cause.id, answer.stage) in {("K02", "kv_check"), ("P04", "sampler_warmup")}
