# ruff: noqa: E501 - a row is a line
"""TensorRT-LLM's log lines (PyTorch backend)."""

from __future__ import annotations

from oomph.facts.loglines import LogRow

ROWS = (
    LogRow("tr_version", "TensorRT-LLM version", r"TensorRT-LLM version: (?P<version>\d[\w.]*)"),
    LogRow("tr_weights", "after loading model weights", r"after loading model weights \(inside torch\).{0,40}: (?P<weights__GiB>[\d.]+) GiB"),
    LogRow("tr_weights", "for model weights", r"Rank \d+ uses (?P<weights__GB>[\d.]+) GB for model weights"),
    LogRow("tr_engine", "Loaded engine size", r"Loaded engine size: (?P<weights__MiB>\d+) MiB"),  # printed before it is on the GPU
    LogRow("tr_context", "execution context memory", r"Allocated (?P<activation__MiB>[\d.]+) MiB for execution context memory"),
    LogRow("tr_context", "IExecutionContext creation", r"TensorRT-managed allocation in IExecutionContext creation"),
    LogRow("tr_non_torch", "after loading model weights", r"after loading model weights \(outside torch\).{0,40}: (?P<non_torch__GiB>[\d.]+) GiB"),
    LogRow("tr_activation", "dynamically allocated during inference", r"during inference \(inside torch\).{0,40}: (?P<activation__GiB>[\d.]+) GiB"),
    LogRow("tr_budget", "Peak memory during memory usage profiling",
           r"\(torch \+ non-torch\): (?P<peak__GiB>[\d.]+) GiB, available KV cache memory when calculating max tokens: (?P<available__GiB>[\d.]+) GiB",
           more=(r"fraction is set (?P<fraction__float>[\d.]*\d)", r"kv size per token is (?P<per_token__int>\d+)",
                 r"device total memory (?P<total__GiB>[\d.]+) GiB", r"temporary kv cache memory during profiling (?P<temporary__GiB>[\d.]+) GiB")),
    LogRow("tr_estimate", "Estimated max memory in KV cache", r"Estimated max memory in KV cache : (?P<kv__GiB>[\d.]+) GiB"),
    LogRow("tr_kv", "max tokens in paged KV cache", r"Allocated (?P<kv__GiB>[\d.]+) GiB for max tokens in paged KV cache \((?P<tokens__int>\d+)\)"),
    LogRow("tr_window_cut", "exceeds upper bound", r"Attention window size (?P<window__int>\d+) exceeds upper bound (?P<bound__int>\d+)"),
    LogRow("tr_seq_cut", "Adjusted max_seq_len", r"Adjusted max_seq_len to (?P<length__int>\d+)"),
    LogRow("tr_no_sequence", "to fit in any sequence", r"Impossi?ble? to fit in any sequence in kvCache"),
    LogRow("tr_kv", "Max tokens in paged KV cache", r"Max tokens in paged KV cache: (?P<tokens__int>\d+)\. Allocating (?P<kv__B>\d+) bytes"),
    # _torch/pyexecutor/py_executor_creator.py, since 1.0: the message is several lines
    LogRow("tr_executor", "Executor creation failed", r"Executor creation failed due to insufficient GPU memory"),
    LogRow("tr_component", "component could not be created", r"The following component could not be created: (?P<component>.{1,80}?)\s*$"),
    LogRow("tr_total", "Total GPU memory (GiB)", r"Total GPU memory \(GiB\): (?P<total__GiB>[\d.]+)"),
    LogRow("tr_free", "before component creation", r"Free GPU memory before component creation attempt \(GiB\): (?P<free__GiB>[\d.]+)"),
    LogRow("tr_step", " / ", r"^(?P<component>Model|Sampler|Drafter|KV cache|Initial KV cache \(.{1,60}\)|Additional executor resources.{0,60}|"
           r"Model resources created during usage|Draft model for speculative decoding): (?P<before__GiB>[\d.]+) / (?P<after__GiB>[\d.]+)\s*$"),
    LogRow("tr_no_engine", "deserialize", r"Failed to deserialize cuda engine|deserialize\.cpp.{0,60}OutOfMemory"),
    LogRow("tr_late", "batch_manager::", r"RuntimeBuffers::(?:reshape|prepareStep)|TrtGptModelInflightBatching::forward"),
    LogRow("tr_oom", "CUDA runtime error in", r"CUDA runtime error in (?:::)?cudaMalloc"),
    LogRow("tr_oom", "could not be allocated", r"Requested amount of GPU memory \((?P<tried__B>\d+) bytes\) could not be allocated"),
    LogRow("tr_load_oom", "load_single_module", r"Error executing load_single_module.{0,4000}out of memory"),
    LogRow("tr_oom", "[TensorRT-LLM][ERROR]", r"\[TensorRT-LLM\]\[ERROR\].{0,200}[Oo]ut of memory"),
    LogRow("tr_line", "TRT-LLM", r"\[TRT-LLM\]|\[TensorRT-LLM\]"),
)  # fmt: skip
