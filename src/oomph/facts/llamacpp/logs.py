# ruff: noqa: E501 - a row is a line
"""llama.cpp's log lines, old builds (llama_new_context_with_model) to 2026's, and ik_llama.cpp's where they differ."""

from __future__ import annotations

from oomph.facts.loglines import LogRow

ROWS = (
    LogRow("lc_device", "compute capability",
           r"Device (?P<device__int>\d+): (?P<name>[^,]{1,80}), compute capability (?P<capability>\d+\.\d+)", more=(r"VRAM: (?P<total__MiB>\d+) MiB",)),
    LogRow("lc_free", "MiB free", r"using device (?P<buffer>\w+) \((?P<name>[^)]{1,80})\).{0,40}- (?P<free__MiB>\d+) MiB free"),
    LogRow("lc_file", "file size", r"file size\s+= (?P<size__GiB>[\d.]+) GiB"),
    LogRow("lc_layers", "layers to GPU", r"offloaded (?P<on_gpu__int>\d+)/(?P<layers__int>\d+) layers to GPU"),
    LogRow("lc_fit_abort", "already set by user", r"(?P<what>n_gpu_layers|tensor_split|tensor_buft_overrides) already set by user(?: to (?P<value__int>-?\d{1,10}))?, abort"),
    LogRow("lc_fit_abort", "is not implemented for SPLIT_MODE", r"is not implemented for (?P<what>SPLIT_MODE_\w{1,20}), abort"),
    LogRow("lc_fit_context", "context size reduced from", r"context size reduced from (?P<before__int>\d{1,10}) to (?P<after__int>\d{1,10})"),
    LogRow("lc_fit_need", "projected to use", r"projected to use (?P<need__MiB>\d{1,9}) MiB (?:of device memory )?vs\.? (?P<free__MiB>\d{1,9}) MiB"),
    LogRow("lc_weights", "model buffer size", r"\b(?P<buffer>[\w.:\[\]-]{1,40})\s{1,12}model buffer size =\s*(?P<size__MiB>[\d.]+) MiB"),
    LogRow("lc_param", "llama_context:", r"llama_context: (?P<name>n_\w+|flash_attn|kv_unified)\s*= (?P<value>\S+)"),
    LogRow("lc_param", "llama_new_context_with_model:", r"llama_new_context_with_model: (?P<name>n_\w+|flash_attn)\s*= (?P<value>\S+)"),
    LogRow("lc_kv", "KV buffer size", r"\b(?P<buffer>[\w.:\[\]-]{1,40})\s{1,12}KV buffer size =\s*(?P<size__MiB>[\d.]+) MiB"),
    LogRow("lc_kv_total", "KV self size", r"KV self size\s+=\s*(?P<size__MiB>[\d.]+) MiB"),
    LogRow("lc_kv_cells", "kv_size = ", r"kv_size = (?P<cells__int>\d+), type_k = '(?P<k>\w+)', type_v = '(?P<v>\w+)'"),
    LogRow("lc_state", "RS buffer size", r"\b(?P<buffer>[\w.:\[\]-]{1,40})\s{1,12}RS buffer size =\s*(?P<size__MiB>[\d.]+) MiB"),
    LogRow("lc_output", "output buffer size", r"\b(?P<buffer>[\w.:\[\]-]{1,40})\s{1,12}output buffer size =\s*(?P<size__MiB>[\d.]+) MiB"),
    LogRow("lc_compute", "compute buffer size", r"\b(?P<buffer>[\w.:\[\]-]{1,40})\s{1,12}compute buffer size =\s*(?P<size__MiB>[\d.]+) MiB"),
    LogRow("lc_copies", "pipeline parallelism enabled", r"pipeline parallelism enabled(?: \(n_copies=(?P<copies__int>\d+)\))?"),
    LogRow("lc_pipeline_retry", "retrying without pipeline parallelism", r"retrying without pipeline parallelism"),
    LogRow("lc_malloc", "Malloc failed",
           r"allocating (?P<tried__MiB>[\d.]+) MiB on device (?P<device__int>\d+): (?:cuda|hip)Malloc failed: out of memory"),
    LogRow("lc_alloc_weights", "alloc_tensor_range: failed", r"alloc_tensor_range: failed to allocate (?P<buffer>\w+) buffer of size (?P<tried__B>\d+)"),
    LogRow("lc_alloc_compute", "ggml_gallocr_reserve_n",
           r"ggml_gallocr_reserve_n\w{0,12}: failed to allocate (?P<buffer>\w+) buffer of size (?P<tried__B>\d+)"),
    LogRow("lc_no_compute", "failed to allocate compute", r"failed to allocate compute (?:pp )?buffers?"),
    LogRow("lc_no_kv", "failed to allocate", r"failed to allocate (?:buffer for )?(?:KV|kv|rs) (?:cache|buffer)"),
    LogRow("lc_no_kv", "failed to create context", r"failed to create context"),
    LogRow("lc_no_weights", "unable to allocate", r"unable to allocate (?P<buffer>[\w ]{1,24}) buffer"),
    LogRow("lc_no_weights", "ggml_vulkan", r"ggml_vulkan: Device memory allocation of size (?P<tried__B>\d+) failed"),
    LogRow("lc_no_weights", "ErrorOutOfDeviceMemory", r"ErrorOutOfDeviceMemory"),
    LogRow("lc_no_output", "failed to allocate output buffer", r"failed to allocate output buffer of size (?P<tried__MiB>[\d.]+) MiB"),
    LogRow("lc_load_failed", "error loading model", r"llama_model_load: error loading model"),
    LogRow("lc_kv_full", "failed to find a memory slot", r"failed to find a memory slot for batch of size (?P<batch__int>\d+)"),
    LogRow("lc_slots", "initializing", r"n_slots = (?P<slots__int>\d+)"),
    LogRow("lc_prompt_cache", "cache state", r"cache state: (?P<prompts__int>\d+) prompts, (?P<size__MiB>[\d.]+) MiB"),
    LogRow("lc_serving", "server is listening", r"server is listening on"),
    LogRow("lc_breakdown", "|   - ",
           r"\|   - (?P<buffer>\w{1,20}) ?(?:\([^|)]{0,60}\))? {0,40}\| {0,8}(?P<total__MiB>\d{1,9}) = (?P<free__MiB>\d{1,9}) \+ \( {0,8}(?P<own__MiB>\d{1,9}) = {0,8}"
           r"(?P<model__MiB>\d{1,9}) \+ {0,8}(?P<context__MiB>\d{1,9}) \+ {0,8}(?P<compute__MiB>\d{1,9})\) \+ {0,8}(?P<unaccounted__int>-?\d{1,20})"),
)  # fmt: skip
