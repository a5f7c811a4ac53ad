"""The three cases that the project started from, and what explain must never do."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from oomph.doctor.explain import explain as full_explain
from oomph.doctor.explain import to_json
from oomph.errors import InputError
from oomph.units import GIB, MIB

explain = partial(full_explain, plan=False)  # the rules alone; planning is tested in tests/doctor/test_verify.py

# Re-typed: only the engine's lines that matter.
GEMMA = """\
vllm serve --model nvidia/Gemma-4-31B-IT-NVFP4 --max_num_batched_tokens 1024 --language-model-only --max_num_seqs 1 \
--max-model-len 1024 --kv-cache-dtype fp8 --gpu-memory-utilization 0.9 --tensor_parallel_size 2
(APIServer pid=17897) INFO 05-30 01:45:33 [utils.py:240] non-default args: \
{‘model_tag’: ‘nvidia/Gemma-4-31B-IT-NVFP4’, \
‘model’: ‘nvidia/Gemma-4-31B-IT-NVFP4’, ‘max_model_len’: 1024, ‘tensor_parallel_size’: 2, \
‘gpu_memory_utilization’: 0.9, \
‘kv_cache_dtype’: ‘fp8’, ‘language_model_only’: True, ‘max_num_batched_tokens’: 1024, ‘max_num_seqs’: 1}
(APIServer pid=17897) WARNING 05-30 01:45:34 [modelopt.py:1024] Detected ModelOpt NVFP4 checkpoint (quant_algo=NVFP4).
(EngineCore pid=17968) INFO 05-30 01:45:41 [core.py:109] Initializing a V1 LLM engine (v0.21.0) with config: \
model=‘nvidia/Gemma-4-31B-IT-NVFP4’, speculative_config=None, dtype=torch.bfloat16, max_seq_len=1024, \
tensor_parallel_size=2, pipeline_parallel_size=1, quantization=modelopt_fp4, enforce_eager=False, kv_cache_dtype=fp8
(Worker_TP0 pid=18031) INFO 05-30 01:45:47 [gpu_model_runner.py:4857] Starting to load model \
nvidia/Gemma-4-31B-IT-NVFP4…
(Worker_TP0 pid=18031) ERROR 05-30 01:45:48 [gpu_model_runner.py:4957] Failed to load model - not enough GPU memory. \
Try lowering --gpu-memory-utilization to free memory for weights, increasing --tensor-parallel-size, or using \
--quantization. (original error: CUDA out of memory. Tried to allocate 56.00 MiB. GPU 0 has a total capacity of \
15.47 GiB of which 62.25 MiB is free. Process 5949 has 56.53 MiB memory in use. Process 6282 has 216.98 MiB memory in \
use. Including non-PyTorch memory, this process has 14.55 GiB memory in use. Of the allocated memory 14.01 GiB is \
allocated by PyTorch, and 104.58 MiB is reserved by PyTorch but unallocated.)
"""

QWEN = r"""
Model: cyankiwi/Qwen3.6-27B-AWQ-INT4
(EngineCore pid=258) INFO 04-24 10:21:03 \[default_loader.py:384\] Loading weights took 0.65 seconds
(EngineCore pid=258) INFO 04-24 10:21:03 \[gpu_model_runner.py:4820\] Model loading took 18.47 GiB memory and 10.99 seconds
(EngineCore pid=258) INFO 04-24 10:22:26 \[monitor.py:76\] Initial profiling/warmup run took 54.05 s
(EngineCore pid=258) WARNING 04-24 10:22:36 \[kv_cache_utils.py:1059\] Add 3 padding layers, may waste at most 6.25% KV cache memory
(EngineCore pid=258) INFO 04-24 10:22:36 \[kv_cache_utils.py:829\] Overriding num_gpu_blocks=0 with num_gpu_blocks_override=512
(EngineCore pid=258) ERROR 04-24 10:22:36 \[core.py:1108\] EngineCore failed to start.
(EngineCore pid=258) ERROR 04-24 10:22:36 \[core.py:1108\]   File "/usr/lib/vllm/v1/engine/core.py", line 848, in **init**
(EngineCore pid=258) ERROR 04-24 10:22:36 \[core.py:1108\]   File "/usr/lib/vllm/v1/worker/gpu_worker.py", line 381, in determine_available_memory
(EngineCore pid=258) ERROR 04-24 10:22:36 \[core.py:1108\]   File "/usr/lib/vllm/v1/worker/gpu_model_runner.py", line 5864, in profile_cudagraph_memory
(EngineCore pid=258) ERROR 04-24 10:22:36 \[core.py:1108\]   File "/usr/lib/vllm/v1/worker/gpu_model_runner.py", line 6529, in \_allocate_kv_cache_tensors
(EngineCore pid=258) ERROR 04-24 10:22:36 \[core.py:1108\] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.56 GiB. GPU 0 has a total capacity of 31.36 GiB of which 1.37 GiB is free. Including non-PyTorch memory, this process has 29.98 GiB memory in use. Of the allocated memory 24.95 GiB is allocated by PyTorch, and 758.67 MiB is reserved by PyTorch but unallocated.

        --gpu-memory-utilization 0.8
        --enable-prefix-caching
        --language-model-only
        --max-model-len 16384
        --kv-cache-dtype fp8
        --speculative-config '{"method": "mtp","num_speculative_tokens":2}'
"""  # noqa: E501

TOKENS = """\
/models/cyankiwi/gemma-4-31B-it-AWQ-4bit
  --tensor-parallel-size 2
  --max-num-seqs 1
  --gpu-memory-utilization 0.96
  --max-model-len 131072
INFO [gpu_model_runner.py:4820]  Model loading took 10.46 GiB memory and 2.480848 seconds
INFO [gpu_worker.py:436]  Available KV cache memory: 11.54 GiB
INFO [kv_cache_utils.py:1319] GPU KV cache size: 25,200 tokens
INFO [kv_cache_utils.py:1324] Maximum concurrency for 131,072 tokens per request: 1.87x
with --kv-cache-dtype fp8_e5m2: raise ValueError("fp8_e5m2 kv-cache is not supported with fp8 checkpoints.")
with --kv-cache-dtype fp8_e4m3: ValueError("type fp8e4nv not supported in this architecture.")
"""


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
