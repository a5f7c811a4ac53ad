# ruff: noqa: E501 - a line is a line
"""The engines' lines, printed again from figures: the way back from an observation to a log line.

tests/truth/field-logs.jsonl holds what real logs said as kinds and figures; this turns it into text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from oomph.units import GIB, KIB, MIB

Values = Mapping[str, Any]


def g(n: int, digits: int = 2) -> str:
    return f"{n / GIB:.{digits}f}"


def m(n: int) -> str:
    return f"{n / MIB:.2f}"


def size(n: int) -> str:
    """As PyTorch's format_size."""
    if n <= 1024:
        return f"{n} bytes"
    if n <= MIB:
        return f"{n / KIB:.2f} KiB"
    return f"{n / MIB:.2f} MiB" if n <= GIB else f"{n / GIB:.2f} GiB"


def human(n: int) -> str:
    """As Ollama's."""
    return f"{n / GIB:.1f} GiB"


def torch_oom(v: Values) -> str:
    text = f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {size(v['tried'])}."
    if "gpu" in v:
        text += f" GPU {v['gpu']} has"
    if "total" in v:
        text += f" a total capacity of {size(v['total'])}"
    if "free" in v:
        text += f" of which {size(v['free'])} is free."
    if "others" in v:
        text += f" Process 7 has {size(v['others'])} memory in use."
    if "in_use" in v:
        text += f" Including non-PyTorch memory, this process has {size(v['in_use'])} memory in use."
    if "allocated" in v:
        text += f" Of the allocated memory {size(v['allocated'])} is allocated by PyTorch"
        text += f", with {size(v['pools'])} allocated in private pools (e.g., CUDA Graphs)" if "pools" in v else ""
        text += f", and {size(v.get('reserved', 0))} is reserved by PyTorch but unallocated."
    return text


def ledger(v: Values) -> str:
    text = f"Free memory on device ({g(v['free'])}/{g(v['total'])} GiB) on startup."
    if "util" in v:
        text += f" Desired GPU memory utilization is ({v['util']}, {g(v['requested'])} GiB)."
    text += " Actual usage is"
    text += f" {g(v['weights'])} GiB for weight," if "weights" in v else ""
    text += f" {g(v['consumed'])} GiB for consumed memory (weights + non-torch)," if "consumed" in v else ""
    text += f" {g(v['activation'])} GiB for peak activation," if "activation" in v else ""
    text += f" {g(v['non_torch'])} GiB for non-torch memory," if "non_torch" in v else ""
    text += f" and {g(v['graphs'])} GiB for CUDAGraph memory." if "graphs" in v else ""
    if "suggest" in v:
        text += f" Replace gpu_memory_utilization config with `--kv-cache-memory={v['suggest']}`"
    return text + (f" Current kv cache memory in use is {g(v['available'])} GiB." if "available" in v else "")


def kv_need(v: Values) -> str:
    text = (
        f"ValueError: To serve at least one request with the model's max seq len ({v['max_model_len']}), "
        f"({g(v['need'])} GiB KV cache is needed, which is larger than the available KV cache memory "
        f"({g(v['available'])} GiB)."
    )
    if "estimate" in v:
        text += f" Based on the available memory, the estimated maximum model length is {v['estimate']}."
    return text


def free_short(v: Values) -> str:
    if "free" not in v:
        return "ValueError: Free memory on device on startup is less than desired GPU memory utilization."
    device = f"{v['device']} " if "device" in v else ""
    return (
        f"ValueError: Free memory on device {device}({g(v['free'])}/{g(v['total'])} GiB) on startup is less than desired"
        f" GPU memory utilization ({v['util']}, {g(v['requested'])} GiB)."
    )


def v0_results(v: Values) -> str:
    names = {"total": "total_gpu_memory", "initial": "initial_memory_usage", "torch_peak": "peak_torch_memory",
             "non_torch": "non_torch_memory", "available": "kv_cache_size"}  # fmt: skip
    text = " ".join(f"{name}={g(v[key])}GiB" for key, name in names.items() if key in v)
    if "total" not in v:  # an older table, a value a line
        table = (("activation", "max_inference_spike"), ("available", "kv_cache_size"))
        return next(f"{name}  {g(v[key])}GiB" for key, name in table if key in v)
    return f"Memory profiling results: {text}" + (f" gpu_memory_utilization={v['util']}" if "util" in v else "")


PRINT: dict[str, Callable[[Values], str]] = {
    "weights": lambda v: f"Model loading took {g(v['weights'], 4)} GiB memory and 3.100000 seconds",
    "available_kv": lambda v: f"Available KV cache memory: {g(v['available'])} GiB",
    "kv_tokens": lambda v: f"GPU KV cache size: {v['tokens']:,} tokens",
    "concurrency": lambda v: f"Maximum concurrency for {v['max_model_len']:,} tokens per request: {v['concurrency']:.2f}x",
    "torch_oom": torch_oom,
    "kv_need": kv_need,
    "free_short": free_short,
    "frame": lambda v: f'  File "{v["path"]}", line {v["at"]}, in {v["function"]}',
    "ledger": ledger,
    "mamba_blocks": lambda v: f"ValueError: max_num_seqs ({v['seqs']}) exceeds available Mamba cache blocks ({v['blocks']}).",
    "graphs": lambda v: f"Graph capturing finished in {v['seconds']:.0f} secs, took {g(v['graphs'])} GiB",
    "v0_results": v0_results,
    "v0_blocks": lambda v: f"# GPU blocks: {v['blocks']}, # CPU blocks: 0",
    "graph_estimate": lambda v: f"Estimated CUDA graph memory: {g(v['estimate'])} GiB total",
    "graph_pool": lambda v: f"CUDA graph pool memory: {g(v['actual'])} GiB (actual), {g(v['estimate'])} GiB (estimated)",
    "encoder_budget": lambda v: f"Encoder cache will be initialized with a budget of {v['budget']} tokens, and profiled with"
                                f" {v['items']} {v['modality']} items of the maximum feature size.",
    "v0_budget": lambda v: f"the current vLLM instance can use total_gpu_memory ({g(v['total'])}GiB) x gpu_memory_utilization"
                           f" ({v['util']:.2f}) = {g(v['requested'])}GiB",
    "v0_terms": lambda v: (f"model weights take {g(v['weights'])}GiB; " if "weights" in v else "")
                          + f"non_torch_memory takes {g(v['non_torch'])}GiB; PyTorch activation peak memory takes"
                          f" {g(v['activation'])}GiB; the rest of the memory reserved for KV Cache is {g(v['available'])}GiB.",
    "kv_need_v0": lambda v: f"The model's max seq len ({v['max_model_len']}) is larger than the maximum number of tokens that can"
                            f" be stored in KV cache ({v['tokens']}).",
    "graph_util": lambda v: f"The current --gpu-memory-utilization={v['util']:.4f} is equivalent to"
                            f" --gpu-memory-utilization={v['effective']:.4f} without CUDA graph memory profiling."
                            + (f" To keep it, increase --gpu-memory-utilization to {v['raised']:.4f}." if "raised" in v else ""),
    "graph_estimate_off": lambda v: "CUDA graph memory profiling is disabled. Consider increasing --gpu-memory-utilization from"
                                    f" {v['util']:.4f} to {v['raised']:.4f}.",
    "engine_failed": lambda v: f"Exception in worker Worker while processing method {v['method']}." if "method" in v
                     else "WorkerProc failed to start.",
    "attention_block": lambda v: f"Setting attention block size to {v['block_size']} tokens to ensure that attention page size",
    "page_padding": lambda v: f"Padding mamba page size by {v['percent']:.2f}% to ensure that both page sizes are equal.",
    "graph_profile": lambda v: f"Profiling CUDA graph memory: {v['what']}",
    "checkpoint_size": lambda v: f"Checkpoint size: {g(v['size'])} GiB.",
    "load_oom": lambda v: "Failed to load model - not enough GPU memory.",
    "mm_worst_case": lambda v: f"The sequence length used for profiling (max_num_batched_tokens / max_num_seqs = {v['seq']}) is too"
                               f" short to hold the multi-modal embeddings in the worst case ({v['tokens']} tokens in total",
    "max_model_len": lambda v: f"Using max model len {v['max_model_len']}",
    "draft_shares": lambda v: f"Detected {v['method']} model. Sharing target model {v['what']} weights with the draft model.",
    "draft_load": lambda v: "Loading drafter model...",
    "chunked_prefill": lambda v: f"Chunked prefill is enabled with max_num_batched_tokens={v['max_num_batched_tokens']}.",
    "memory_profile": lambda v: f"Total non KV cache memory: {g(v['non_kv'])}GiB; torch peak memory increase: {g(v['activation'])}GiB;"
                                f" non-torch forward increase memory: {g(v['non_torch'])}GiB; weights memory: {g(v['weights'])}GiB.",
    "kv_none": lambda v: "ValueError: No available memory for the cache blocks.",
    "kv_need_part": lambda v: f"available KV cache memory ({g(v['available'])} GiB)",
    "kv_len_part": lambda v: f"max seq len ({v['max_model_len']})",
    "capture_begin": lambda v: "CUDA graphs can take additional 1~3 GiB memory per GPU.",
    "pin_memory_off": lambda v: "Using 'pin_memory=False' as WSL is detected.",
    "version": lambda v: f"vLLM API server version {v['version']}",
    "kv_alloc_failed": lambda v: "KVCache allocation failed: Insufficient GPU memory for KVCache allocation.",
    "ray_kill": lambda v: "1 worker(s) were killed due to the node running low on memory. Memory on the node was "
                          f"{g(v['used'])}GB / {g(v['total'])}GB",
    "cuda_error_oom": lambda v: "CUDA error: out of memory",
    "lc_param": lambda v: f"llama_context: {v['name']} = {v['value']}",
    "lc_malloc": lambda v: f"ggml_backend_cuda_buffer_type_alloc_buffer: allocating {m(v['tried'])} MiB on device {v['device']}:"
                           " cudaMalloc failed: out of memory" if "device" in v
                 else f"ggml_vulkan: Device memory allocation of size {v['tried']} failed.",
    "lc_kv_total": lambda v: f"llama_new_context_with_model: KV self size  = {m(v['size'])} MiB",
    "lc_copies": lambda v: f"pipeline parallelism enabled (n_copies={v['copies']})",
    "lc_no_weights": lambda v: f"unable to allocate {v['buffer']} buffer",
    "lc_alloc_compute": lambda v: f"ggml_gallocr_reserve_n: failed to allocate {v['buffer']} buffer of size {v['tried']}",
    "lc_alloc_weights": lambda v: f"alloc_tensor_range: failed to allocate {v['buffer']} buffer of size {v['tried']}",
    "lc_no_compute": lambda v: "graph_reserve: failed to allocate compute buffers",
    "lc_pipeline_retry": lambda v: "compute buffer allocation failed, retrying without pipeline parallelism",
    "lc_slots": lambda v: f"srv    load_model: initializing, n_slots = {v['slots']}",
    "lc_prompt_cache": lambda v: f"cache state: {v['prompts']} prompts, {m(v['size'])} MiB",
    "lc_kv_cells": lambda v: f"kv_size = {v['cells']}, type_k = '{v['k']}', type_v = '{v['v']}'",
    "lc_kv": lambda v: f"{v['buffer']} KV buffer size = {m(v['size'])} MiB",
    "ol_offload": lambda v: f"level=INFO source=server.go:138 msg=offload layers.model={v['layers']} layers.offload={v['on_gpu']} "
                  + " ".join(f'memory.{name}="[{human(v[key])}]"' for key, name in (
                      ("available", "available"), ("full", "required.full"), ("kv", "required.kv"),
                      ("weights", "weights.total")) if v.get(key)),
    "ol_fits": lambda v: f"level=INFO source=sched.go:715 msg=\"new model will fit in available VRAM\" required=\"{human(v['required'])}\"",
    "ol_system": lambda v: f"level=INFO source=server.go:105 msg=\"system memory\" total=\"{human(v['total'])}\" free=\"{human(v['free'])}\"",
    "ol_weights": lambda v: f"level=INFO source=ggml.go:298 msg=\"model weights\" buffer={v['buffer']} size=\"{human(v['size'])}\"",
    "ol_runner_died": lambda v: f"Error: llama runner process has terminated: {v['why']}",
    "sg_weights": lambda v: f"Load weight end. avail mem={g(v['avail'])} GB, mem usage={g(v['weights'])} GB.",
    "sg_no_pool": lambda v: f"ValueError: Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static={v['fraction']}.",
    "sg_capture_failed": lambda v: "Exception: Capture cuda graph failed:",
}  # fmt: skip


def line(kind: str, values: Values, process: str = "", rank: int | None = None, source: str = "") -> str:
    head = ""
    if process:
        head = f"({process}_TP{rank} pid=7) " if rank is not None else f"({process} pid=7) "
    if source:
        head += f"INFO 05-30 01:45:33 [{source}] "
    return head + PRINT[kind](values)


def text_of(record: dict[str, Any]) -> str:
    """A posted log again, from its kinds and figures (tests/truth/field-logs.jsonl)."""
    return "\n".join(
        line(e["kind"], e["values"], e.get("process", ""), e.get("rank"), e.get("source", "")) for e in record["lines"]
    )
