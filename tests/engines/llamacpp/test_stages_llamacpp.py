# ruff: noqa: E501 - a row is a line
"""The stage in which llama.cpp and Ollama died, by the words of each backend and release."""

from __future__ import annotations

from functools import partial

import pytest

from oomph.doctor.explain import explain as full_explain
from oomph.engines.llamacpp.log.stages import BEHIND, alone, loading, projector, where
from oomph.ir.observation import Observation

explain = partial(full_explain, plan=False)
LOADED = "load_tensors:        CUDA0 model buffer size = 18000.00 MiB\nllama_context: n_ctx         = 131072\n"
MALLOC = "ggml_backend_cuda_buffer_type_alloc_buffer: allocating {} MiB on device 0: cudaMalloc failed: out of memory\n"

CASES = {
    "a runner of 2023": ("other", "unknown", "Error: llama runner exited, you may not have enough available memory to run "
                         "this model\n"),
    "a buffer above Metal's limit": ("weights_load", "B01", "ggml_metal_add_buffer: buffer 'data' size 18300000000 is "
                                     "larger than buffer maximum of 17179869184\n"),
    "weights": ("weights_load", "B01", MALLOC.format("27817.04") + "alloc_tensor_range: failed to allocate CUDA0 buffer "
                "of size 29168279552\nllama_model_load: error loading model: unable to allocate CUDA0 buffer\n"),
    "kv": ("kv_alloc", "B02", LOADED + MALLOC.format("4096.00") + "alloc_tensor_range: failed to allocate CUDA0 buffer "
           "of size 4294967296\nllama_init_from_model: failed to initialize the context: failed to allocate buffer for "
           "kv cache\n"),
    "kv, cut": ("kv_alloc", "B02", LOADED + MALLOC.format("4096.00")
                + "alloc_tensor_range: failed to allocate CUDA0 buffer of size 4294967296\n"),
    "compute, ROCm": ("kv_alloc", "B02", LOADED + MALLOC.format("14136.04") + "ggml_gallocr_reserve_n: failed to allocate "
                      "ROCm0 buffer of size 14822711296\ngraph_reserve: failed to allocate compute buffers\n"),
    "compute, Vulkan": ("kv_alloc", "B02", LOADED + "ggml_vulkan: Device memory allocation of size 3959422976 failed.\n"
                        "ggml_vulkan: Requested buffer size exceeds device memory allocation limit: "
                        "ErrorOutOfDeviceMemory\nggml_gallocr_reserve_n: failed to allocate Vulkan0 buffer of size "
                        "3959422976\n"),
    "weights, Vulkan": ("weights_load", "B01", "ggml_vulkan: Device memory allocation of size 118497280 failed.\n"
                        "ggml_vulkan: vk::Device::allocateMemory: ErrorOutOfDeviceMemory\n"),
    "weights, SYCL": ("weights_load", "B01", "ggml_backend_sycl_buffer_type_alloc_buffer: can't allocate 2303168640 Bytes "
                      "of memory on device\nalloc_tensor_range: failed to allocate SYCL0 buffer of size 2303168640\n"
                      "llama_model_load: error loading model: unable to allocate SYCL0 buffer\n"),
    "host KV": ("host_ram", "B05", "llama_new_context_with_model: n_ctx      = 1048576\n"
                "ggml_backend_cpu_buffer_type_alloc_buffer: failed to allocate buffer of size 137438953504\n"
                "llama_kv_cache_init: failed to allocate buffer for kv cache\n"),
    "pinned weights": ("host_ram", "B05", "llama_model_load: error loading model: unable to allocate CUDA_Host buffer\n"),
    "K-shift": ("runtime_request", "B02", LOADED + MALLOC.format("9866.00") + "ggml_gallocr_reserve_n: failed to allocate "
                "CUDA1 buffer of size 10345253120\nllama_kv_cache_update_impl: failed to allocate compute buffers\n"),
    "scratch pool": ("runtime_request", "B02", "ROCm error: out of memory\n  current device: 0, in function alloc at "
                     "ggml-cuda.cu:420\n  ggml_cuda_device_malloc(&ptr, look_ahead_size, device)\n"),
    "cuBLAS": ("runtime_request", "B02", LOADED + "CUDA error: the resource allocation failed\n  current device: 0, in "
               "function cublas_handle at common.cuh:1500\n"),
    "Metal": ("runtime_request", "B02", "llama_kv_cache:      Metal KV buffer size = 11440.00 MiB\n"
              "ggml_metal_synchronize: error: command buffer 0 failed with status 5\n"
              "error: Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)\n"),
    "runner, weights": ("weights_load", "B01",
                        "Error: llama runner process has terminated: cudaMalloc failed: out of memory\n"),
    "runner, killed": ("host_ram", "H03", "Error: llama runner process has terminated: signal: killed\n"),
    "runner, compute": ("kv_alloc", "B02", "Error: llama runner process has terminated: cudaMalloc failed: out of memory\n"
                        "ggml_gallocr_reserve_n: failed to allocate CUDA0 buffer of size 838447104\n"),
    "stopped at a request": ("runtime_request", "unknown", "Error: 500 Internal Server Error: model runner has unexpectedly "
                             "stopped, this may be due to resource limitations or an internal error\n"),
    "another CUDA error": ("runtime_request", "N11", "CUDA error: an illegal memory access was encountered\n  current device: 0, "
                           "in function launch_mul_mat_q at mmq.cuh:2700\n"),
    "systemd": ("host_ram", "H03", "load_tensors:          CPU model buffer size =  4977.62 MiB\nollama.service: A process "
                "of this unit has been killed by the OOM killer.\n"),
    "runner, other": ("other", "unknown", "Error: llama runner process has terminated: exit status 127\n"),
    "llama-server, aborted": ("other", "unknown", 'level=INFO source=sched.go:651 msg="Load failed" '
                              'error="llama-server process has terminated: signal: aborted"\n'),
    "panic": ("host_ram", "B05", "panic: insufficient memory - required allocations: {InputWeights:1158266880A CPU:{Name:CPU "
              "Weights:[477075584A] Cache:[26214400A 0U] Graph:103110017024F} GPUs:[]}\n"),
    "too large": ("host_ram", "O01", 'level=WARN source=server.go:136 msg="model request too large for system" '
                  'requested="39.4 GiB" available=32212254720 total="31.3 GiB" free="30.0 GiB" swap="0 B"\n'),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_stage_and_cause(name: str) -> None:
    stage, cause, text = CASES[name]
    e = explain(text)
    assert (e.failed, e.stage, e.cause.id) == (True, stage, cause)


def test_pinned_memory_is_only_slower() -> None:
    text = "ggml_vulkan: Failed to allocate pinned memory.\nggml_vulkan: vk::Device::allocateMemory: ErrorOutOfDeviceMemory\n"
    assert not explain("llama_context: n_ctx = 4096\n" + text).failed


@pytest.mark.parametrize("prefix", ("Sep 04 13:22:14 box ollama[1461]: ", "oct. 30 00:11:40 box ollama[12]: ",
                                    "7月 24 15:40:33 box ollama[45]: ", "ollama  | "))  # fmt: skip
def test_a_line_of_ollamas_service_is_ollamas(prefix: str) -> None:
    e = explain(f"{prefix}llm_load_tensors:      CUDA0 buffer size = 13200.59 MiB\n")
    assert e.engine.name == "ollama" and not e.failed


@pytest.mark.parametrize("line", (
    "update_slots : failed to find free space in the KV cache, retrying with smaller n_batch = 128",
    "1148.24.913.094 W srv  update_slots: failed to find free space in the KV cache, retrying with smaller batch size - try",
    "srv  send_error: task id = 7, error: request (9000 tokens) exceeds the available context size (4096 tokens), try",
))  # fmt: skip
def test_a_full_cache_is_not_missing_memory(line: str) -> None:
    result = explain(line + "\n" + line + "\n")
    assert not result.failed and result.cause.id == "B07"


def _lines(*words: str) -> list[Observation]:
    """Observations of kinds, some with a function: "lc_phase=clip_init"."""
    return [
        Observation(number, kind, {"function": function} if function else {})  # type: ignore[arg-type]
        for number, (kind, _, function) in enumerate((word.partition("=") for word in words), 1)
    ]


@pytest.mark.parametrize(
    ("words", "is_projector", "is_loading"),
    [
        ((), False, False), (("lc_phase=clip_init",), True, False), (("lc_phase=mtmd_init",), True, False),
        (("lc_phase=clip_init", "lc_line=x", "lc_where=y"), True, False), (("lc_line=clip_init",), False, False),
        (("lc_where=clip_init",), False, False), (("lc_phase=clip_init", "lc_kv"), False, False),
        (("lc_phase=clip_init", "ol_server", "other"), True, False), (("lc_weights",), False, True),
        (("lc_kv", "lc_phase=clip_init"), True, False), (("lc_phase=load_tensors",), False, True),
        (("lc_kv", "lc_weights"), False, True), (("lc_weights", "lc_kv"), False, False), (("lc_phase",), False, False),
        (("lc_weights", "lc_phase=clip_init"), True, False), (("lc_weights", "lc_line=x"), False, True),
    ],
)  # fmt: skip
def test_what_was_printed_last(words: tuple[str, ...], is_projector: bool, is_loading: bool) -> None:
    assert (projector(_lines(*words)), loading(_lines(*words))) == (is_projector, is_loading)


@pytest.mark.parametrize(
    ("words", "is_alone"),
    [
        (("lc_malloc",), True), (("lc_malloc", "lc_line", "lc_where", "lc_pinned", "lc_device", "lc_free"), True),
        (("lc_malloc", "lc_kv"), False), (("lc_malloc", "ol_server"), False), (("lc_malloc", "other"), True),
        (("lc_kv",), False), (("lc_line",), False),
    ],
)  # fmt: skip
def test_an_allocation_that_nothing_stands_beside(words: tuple[str, ...], is_alone: bool) -> None:
    assert alone(_lines(*words), 0) is is_alone


@pytest.mark.parametrize(
    ("at", "function", "stage"),
    [
        (10, "ggml_backend_cuda_buffer_type_alloc_buffer", True), (10 + BEHIND, "cublas_handle", True),
        (11 + BEHIND, "cublas_handle", False), (9, "cublas_handle", False),
    ],
)  # fmt: skip
def test_the_function_below_an_error_is_its_own(at: int, function: str, stage: bool) -> None:
    line = Observation(at, "lc_where", {"function": function})
    assert (where([line], 10) is not None) is stage


def test_what_a_command_in_the_text_sets_is_not_advised() -> None:
    """A log of v0.5.0 at its default verbosity under the command that was typed."""
    text = """$ llama-server -m qwen3-30b-a3b.gguf -c 2048 -np 1 --cpu-moe -ngl 99 -fit off
0.03.269.793 W llama_model_loader: tensor overrides to CPU are used with mmap enabled
ggml_vulkan: Device memory allocation of size 236464128 failed.
ggml_vulkan: vk::Device::allocateMemory: ErrorOutOfDeviceMemory
0.05.807.297 E ggml_gallocr_reserve_n_impl: failed to allocate Vulkan0 buffer of size 236464128
0.05.824.173 E graph_reserve: failed to allocate compute buffers
0.05.878.514 E llama_init_from_model: failed to initialize the context: failed to allocate compute pp buffers
0.05.899.997 E cmn  common_init_: failed to create context with model 'qwen3-30b-a3b.gguf'
"""
    changes = [remedy.change.label for remedy in explain(text).remedies]
    assert "--no-op-offload" in changes and "-ub 256" in changes
    assert not any(change.startswith(("-np", "-c ")) for change in changes)
    assert any(
        c.startswith("-np") for c in (r.change.label for r in explain(text.replace("-np 1 ", "-np 4 ")).remedies)
    )
