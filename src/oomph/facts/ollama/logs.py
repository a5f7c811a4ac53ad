# ruff: noqa: E501 - a row is a line
"""Ollama's log lines: slog key=value pairs around llama.cpp's own lines."""

from __future__ import annotations

from oomph.facts.loglines import LogRow

_S = r'"?\[?(?P<{0}__size>[\d.]+ [KMGT]?i?B)\]?"?'

ROWS = (
    LogRow("ol_server", "starting llama-server", r'msg="starting llama-server" cmd="(?P<command>.*)"'),
    LogRow("ol_default_context", "vram-based default context", r"default_num_ctx=(?P<num_ctx__int>\d+)"),
    LogRow("ol_offload", "memory.required", r"layers\.model=(?P<layers__int>\d+) layers\.offload=(?P<on_gpu__int>\d+)",
           more=tuple(rf"{key}={_S.format(name)}" for key, name in (
               (r"memory\.available", "available"), (r"memory\.required\.full", "full"), (r"memory\.required\.partial", "partial"),
               (r"memory\.required\.kv", "kv"), (r"memory\.required\.allocations", "allocations"),
               (r"memory\.weights\.total", "weights"), (r"memory\.graph\.full", "graph")))),
    LogRow("ol_fits", "will fit in available VRAM", r'will fit in available VRAM.{0,200}required="(?P<required__size>[\d.]+ [KMGT]iB)"'),
    LogRow("ol_weights", 'msg="model weights"', r'msg="model weights" (?:buffer|device)=(?P<buffer>\w+) size="(?P<size__size>[\d.]+ [KMGT]iB)"'),
    LogRow("ol_kv", 'msg="kv cache"', r'msg="kv cache" device=(?P<buffer>\w+) size="(?P<size__size>[\d.]+ [KMGT]iB)"'),
    LogRow("ol_graph", 'msg="compute graph"', r'msg="compute graph" (?:backend|device)=(?P<buffer>\w+).{0,60}size="(?P<size__size>[\d.]+ [KMGT]?i?B)"'),
    LogRow("ol_system", 'msg="system memory"', r'total="(?P<total__size>[\d.]+ [KMGT]iB)" free="(?P<free__size>[\d.]+ [KMGT]iB)"'),
    LogRow("ol_gpu", 'msg="gpu memory"', r'available="(?P<available__size>[\d.]+ [KMGT]iB)" free="(?P<free__size>[\d.]+ [KMGT]iB)"'),
    LogRow("ol_host_refused", "requires more system memory",
           r"model requires more system memory \((?P<need__size>[\d.]+ [KMGT]iB)\) than is available \((?P<free__size>[\d.]+ [KMGT]iB)\)"),
    LogRow("ol_layout", "memory layout cannot be allocated", r"memory layout cannot be allocated(?: with num_gpu = (?P<num_gpu__int>\d+))?"),
    LogRow("ol_runner_died", "llama runner process has terminated", r"llama runner process has terminated: (?P<why>.{1,200})"),
    LogRow("ol_retry_context", "reducing automatic context", r"old_num_ctx=(?P<before__int>\d+).{0,40}new_num_ctx=(?P<after__int>\d+)"),
    LogRow("ol_evict", "evicting all other models", r"evicting all other models and retrying once"),
    LogRow("ol_parallel", "OLLAMA_NUM_PARALLEL", r"OLLAMA_NUM_PARALLEL[:=](?P<parallel__int>\d+)"),
    LogRow("ol_line", "level=", r'\blevel=(?:INFO|WARN|ERROR|DEBUG) source=\w+\.go:\d+'),
)  # fmt: skip
