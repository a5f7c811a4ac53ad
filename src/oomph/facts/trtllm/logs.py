# ruff: noqa: E501 - a row is a line
"""TensorRT-LLM's log lines (PyTorch backend)."""

from __future__ import annotations

from oomph.facts.loglines import LogRow

ROWS = (
    LogRow("tr_version", "TensorRT-LLM version", r"TensorRT-LLM version: (?P<version>\d[\w.]*)"),
    LogRow("tr_weights", "after loading model weights", r"after loading model weights \(inside torch\).{0,40}: (?P<weights__GiB>[\d.]+) GiB"),
    LogRow("tr_weights", "for model weights", r"Rank \d+ uses (?P<weights__GB>[\d.]+) GB for model weights"),
    LogRow("tr_weights", "Loaded engine size", r"Loaded engine size: (?P<weights__MiB>\d+) MiB"),
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
    LogRow("tr_oom", "[TensorRT-LLM][ERROR]", r"\[TensorRT-LLM\]\[ERROR\].{0,200}[Oo]ut of memory"),
    LogRow("tr_line", "TRT-LLM", r"\[TRT-LLM\]|\[TensorRT-LLM\]"),
)  # fmt: skip
