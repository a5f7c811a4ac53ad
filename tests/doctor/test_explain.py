"""The three cases that the project started from, and what explain must never do."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from oomph.doctor.explain import explain as full_explain
from oomph.doctor.explain import to_json
from oomph.errors import InputError
from oomph.units import GIB, MIB
from three_logs import GEMMA, QWEN, TOKENS

explain = partial(full_explain, plan=False)  # the rules alone; planning is tested in tests/doctor/test_verify.py

# Re-typed: only the engine's lines that matter.


def levers(items: object) -> set[str]:
    return {item.lever for item in items}  # type: ignore[attr-defined]


def test_weights_of_a_partly_quantised_checkpoint() -> None:
    e = explain(GEMMA)
    assert (e.failed, e.stage, e.cause.id) == (True, "weights_load", "L02")
    assert e.engine.version == "0.21.0" and e.model == "nvidia/Gemma-4-31B-IT-NVFP4"
    assert "14.76 GiB" in e.cause.text  # what PyTorch could get: 15.47 - 0.27 - 0.44
    terms = {entry.term: entry.bytes / GIB for entry in e.ledger}
    assert terms["weights"] == pytest.approx(14.01) and terms["others"] == pytest.approx(0.267, abs=0.001)
    assert terms["context"] == pytest.approx(0.438, abs=0.001)
    assert {"checkpoint", "offload", "tp_up"} <= levers(e.remedies)
    assert {"util_down", "max_model_len", "full_precision_first", "quantize_flag"} <= levers(e.rejected)
    offload = next(r for r in e.remedies if r.lever == "offload")
    assert offload.command.startswith("vllm serve nvidia/Gemma-4-31B-IT-NVFP4 ")
    assert "--cpu-offload-gb 3" in offload.command


def test_the_throw_away_kv_cache() -> None:
    e = explain(QWEN)
    assert (e.failed, e.stage, e.cause.id) == (True, "cudagraph_profile", "P05")
    assert e.engine.version == "0.19.1"  # gpu_model_runner.py:4820
    for figure in ("512 blocks", "3.125 MiB", "1.5625 GiB per tensor", "17 are needed", "26.56 GiB"):
        assert figure in e.cause.text
    assert {"max_num_seqs", "capture", "kv_bytes", "eager"} <= levers(e.remedies)
    assert {"util_up", "util_down", "max_model_len", "no_spec", "prefix_caching", "expandable"} <= levers(e.rejected)
    terms = {entry.term: entry.bytes for entry in e.ledger}
    assert terms["profiling_kv"] == 4 * 1675037245 and terms["context"] / GIB == pytest.approx(4.29, abs=0.01)
    assert abs(e.unaccounted_bytes or 0) < 20 * MIB
    assert '--speculative-config \'{"method": "mtp", "num_speculative_tokens": 2}\'' in e.command


def test_tokens_that_are_no_capacity() -> None:
    e = explain(TOKENS)
    assert (e.failed, e.cause.id) == (False, "K05")
    assert "245,104" in e.cause.text and "0.24.0" in e.cause.text and "8.9" in e.cause.text
    assert "util_up" in levers(e.rejected)
    assert e.model == "/models/cyankiwi/gemma-4-31B-it-AWQ-4bit"


def test_contract() -> None:
    built = to_json(explain(GEMMA))
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
