"""What vLLM prints when memory runs out before or right after the KV cache is sized, by release."""

from __future__ import annotations

from oomph.facts.changes import Dated, Facts, changes

_FREE = (
    "({free}/{total} GiB) on startup is less than desired GPU memory utilization ({util}, {requested} GiB). "
    "Decrease GPU memory utilization or reduce GPU memory used by other processes."
)
_LOAD = (
    "Failed to load model - not enough GPU memory. Try lowering --gpu-memory-utilization to free memory for weights, "
    "increasing --tensor-parallel-size, or using --quantization. "
    "See https://docs.vllm.ai/en/latest/configuration/conserving_memory/ for more tips. (original error: {original})"
)
_SAMPLER = (
    "CUDA out of memory occurred when warming up sampler with {seqs} dummy requests. Please try lowering "
    "`max_num_seqs` or `gpu_memory_utilization` when initializing the engine."
)

_STATES = (
    "max_num_seqs ({seqs}) exceeds available Mamba cache blocks ({blocks}). Each decode sequence requires one Mamba "
    "cache block, so CUDA graph capture cannot proceed. Please lower max_num_seqs to at most {blocks} or increase "
    "gpu_memory_utilization."
)


class Texts(Facts):
    free_memory = changes(  # worker/utils.py request_memory
        f"Free memory on device {_FREE}", ("0.14.0", f"Free memory on device {{device}} {_FREE}")
    )
    # gpu_model_runner.py load_model (V1 runner); "" = PyTorch's text alone
    load_failed = changes("", ("0.13.0", _LOAD))
    sampler: Dated[str] = changes(_SAMPLER)  # gpu_model_runner.py _dummy_sampler_run
    # config/compilation.py resolve_cudagraph_mode_and_sizes; "" = not checked
    state_blocks = changes("", ("0.20.0", _STATES))
