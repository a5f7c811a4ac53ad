"""The three cases that the project started from, and what explain must never do."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from oomph.doctor.explain import explain as full_explain
from oomph.errors import InputError
from oomph.units import GIB, MIB
from three_logs import GEMMA, QWEN, TOKENS

explain = partial(full_explain, plan=False)  # the rules alone; planning is tested in tests/doctor/test_verify.py

# Re-typed: only the engine's lines that matter.


def levers(items: object) -> set[str]:
    return {item.change.lever for item in items}  # type: ignore[attr-defined]


def test_weights_of_a_partly_quantised_checkpoint() -> None:
    e = explain(GEMMA)
    assert (e.failed, e.stage, e.cause.id) == (True, "weights_load", "L02")
    assert e.engine.version == "0.21.0" and e.model == "nvidia/Gemma-4-31B-IT-NVFP4"
    assert "14.76 GiB" in e.cause.text  # what PyTorch could get: 15.47 - 0.27 - 0.44
    terms = {entry.term: entry.bytes / GIB for entry in e.ledger}
    assert terms["weights"] == pytest.approx(14.01) and terms["others"] == pytest.approx(0.267, abs=0.001)
    assert terms["context"] == pytest.approx(0.438, abs=0.001)
    assert {"checkpoint", "cpu_offload_gb", "more_gpus"} <= levers(e.remedies)
    assert {"gpu_memory_utilization_down", "max_model_len", "full_precision_first", "quantize_flag"} <= levers(
        e.rejected
    )
    offload = next(r for r in e.remedies if r.change.lever == "cpu_offload_gb")
    assert offload.command.startswith("vllm serve nvidia/Gemma-4-31B-IT-NVFP4 ")
    assert "--cpu-offload-gb 3" in offload.command


def test_the_throw_away_kv_cache() -> None:
    e = explain(QWEN)
    assert (e.failed, e.stage, e.cause.id) == (True, "cudagraph_profile", "P05")
    assert e.engine.version == "0.19.1"  # gpu_model_runner.py:4820
    for figure in ("512 blocks", "3.125 MiB", "1.5625 GiB per tensor", "17 are needed", "26.56 GiB"):
        assert figure in e.cause.text
    assert {"max_num_seqs", "max_cudagraph_capture_size", "kv_cache_memory_bytes_set", "enforce_eager"} <= levers(
        e.remedies
    )
    share = {"gpu_memory_utilization_up", "gpu_memory_utilization_down"}
    others = {"max_model_len", "speculative_config", "enable_prefix_caching", "expandable_segments"}
    assert share | others <= levers(e.rejected)
    terms = {entry.term: entry.bytes for entry in e.ledger}
    assert terms["profiling_kv"] == 4 * 1675037245 and terms["context"] / GIB == pytest.approx(4.29, abs=0.01)
    assert abs(e.unaccounted_bytes or 0) < 20 * MIB
    assert '--speculative-config \'{"method": "mtp", "num_speculative_tokens": 2}\'' in e.command


def test_tokens_that_are_no_capacity() -> None:
    e = explain(TOKENS)
    assert (e.failed, e.cause.id) == (None, "K05")  # the log ends before the server is up
    assert "245,104" in e.cause.text and "0.24.0" in e.cause.text and "8.9" in e.cause.text
    assert "gpu_memory_utilization_up" in levers(e.rejected)
    assert e.model == "/models/cyankiwi/gemma-4-31B-it-AWQ-4bit"


def test_contract() -> None:
    built = explain(GEMMA).to_dict()
    assert built["schema"] == 1
    keys = {"engine", "failed", "stage", "cause", "ledger", "unaccounted_bytes", "remedies", "rejected", "evidence"}
    assert keys <= built.keys()
    assert set(built["remedies"][0]) >= {"change", "kind", "gains_bytes", "verified", "costs", "command"}
    assert set(built["rejected"][0]) >= {"advice", "why"}
    assert set(built["evidence"][0]) == {"line", "text"}
    assert set(built["ledger"][0]) == {"term", "bytes", "basis"}
    assert {"id", "title", "text"} <= built["cause"].keys()


def test_the_last_failed_start_of_a_restart_loop() -> None:
    start = "INFO 05-30 01:45:33 [utils.py:240] non-default args: {'model': 'a/b-8B'}\n"
    e = explain(start + "INFO:     Application startup complete.\n" + GEMMA)
    assert e.failed and e.cause.id == "L02"


def test_engines_are_told_apart() -> None:
    e = explain(
        "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 1.0 MiB on device 0: cudaMalloc failed: out of memory\n"
        "alloc_tensor_range: failed to allocate CUDA0 buffer of size 1048576\n"
    )
    assert e.engine.name == "llamacpp" and e.cause.id == "B01"


@pytest.mark.parametrize("text", ["", "\n\n", "hello world\n" * 50, "GET / HTTP/1.1 200\n" * 9, "systemd[1]: Up.\n"])
def test_a_log_of_something_else(text: str) -> None:
    with pytest.raises(InputError) as caught:
        explain(text)
    assert caught.value.exit_code == 2 and "\n" not in caught.value.message


def test_paths_and_text(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_text(GEMMA, encoding="utf-8")
    assert explain(str(path)) == explain(path) == explain([path]) == explain(GEMMA)
    with pytest.raises(InputError, match="cannot be read"):
        explain("missing.log")
    assert explain("Available KV cache memory: -1.0 GiB").cause.id == "K01"


def test_gpus_as_people_write_them() -> None:
    assert explain("ValueError: No available memory for the cache blocks.", gpus="RTX 4090").total_bytes > 23 * GIB


def inferred(text: str) -> tuple[bool | None, str | None, str]:
    e = explain(text)
    return e.failed, e.inferred_stage, e.inferred_reason


def test_ollama_with_more_weights_than_host_memory_is_inferred_never_failed() -> None:
    head = 'time=2025-03-16T23:04:14.978Z level=INFO source=server.go:105 msg="system memory" total="15.5 GiB" '
    offload = (
        "time=2025-03-16T23:04:14.980Z level=INFO source=server.go:138 msg=offload library=rocm layers.requested=-1 "
        'layers.model=63 layers.offload=63 memory.available="[32.0 GiB]" memory.required.full="26.8 GiB" '
        'memory.required.partial="26.8 GiB" memory.required.kv="7.8 GiB" memory.weights.total="14.3 GiB"'
    )
    failed, stage, reason = inferred(f'{head}free="14.0 GiB" free_swap="2.1 GiB"\n{offload}\n')
    assert not failed and stage == "host_ram" and "14.3 GiB" in reason and "14.0 GiB" in reason
    assert inferred(f'{head}free="15.0 GiB" free_swap="2.1 GiB"\n{offload}\n') == (None, None, "")
    started = 'level=INFO source=server.go:622 msg="llama runner started in 6.54 seconds"'
    assert inferred(f'{head}free="14.0 GiB"\n{offload}\n{started}\n') == (False, None, "")


def test_ollama_part_for_the_host_against_what_is_free() -> None:
    line = (
        "level=INFO source=server.go:168 msg=offload library=cuda layers.requested=-1 layers.model=49 layers.offload=4 "
        'memory.available="[11.4 GiB]" memory.required.full="68.3 GiB" memory.required.partial="10.9 GiB"'
    )
    failed, stage, reason = inferred(line + "\n")
    assert not failed and stage is None and "57.4 GiB stay in host memory" in reason and "not in this log" in reason
    free = 'level=INFO source=server.go:135 msg="system memory" total="63.6 GiB" free="50.6 GiB" free_swap="0 B"'
    assert inferred(f"{free}\n{line}\n")[:2] == (None, "host_ram")


def test_weights_in_host_memory_where_the_log_ends() -> None:
    line = 'level=INFO source=ggml.go:298 msg="model weights" buffer=CPU size="{} GiB"\n'
    assert inferred(line.format("4.5"))[1] == "host_ram"
    assert inferred(line.format("1.1"))[1] is None  # the token embedding is always there


def test_a_failed_allocation_that_was_got_over_is_no_failure() -> None:
    text = (
        "alloc_tensor_range: failed to allocate CUDA0 buffer of size 4120346624\n"
        'level=INFO source=server.go:1024 msg="model layout did not fit, applying backoff" backoff=0.10\n'
        'level=INFO source=server.go:1332 msg="llama runner started in 33.87 seconds"\n'
    )
    assert not explain(text).failed
    dead = text + 'level=ERROR msg="x" error="llama runner process has terminated: CUDA error: out of memory"\n'
    assert explain(dead).failed
