"""What vLLM prints when memory runs out before or right after the KV cache is sized, by release."""

from __future__ import annotations

from oomph.facts.vllm.versions import Range


class Texts(Range, frozen=True):
    free_memory: str  # worker/utils.py request_memory
    load_failed: str  # gpu_model_runner.py load_model (V1 runner); "" = PyTorch's text alone
    sampler: str  # gpu_model_runner.py _dummy_sampler_run
    state_blocks: str = ""  # config/compilation.py resolve_cudagraph_mode_and_sizes; "" = not checked


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

_NAMED, _UNNAMED = f"Free memory on device {{device}} {_FREE}", f"Free memory on device {_FREE}"

TEXTS: tuple[Texts, ...] = (
    Texts(free_memory=_NAMED, load_failed=_LOAD, sampler=_SAMPLER, state_blocks=_STATES, since="0.20.0"),
    Texts(free_memory=_NAMED, load_failed=_LOAD, sampler=_SAMPLER, since="0.14.0", until="0.20.0"),
    Texts(free_memory=_UNNAMED, load_failed=_LOAD, sampler=_SAMPLER, since="0.13.0", until="0.14.0"),
    Texts(free_memory=_UNNAMED, load_failed="", sampler=_SAMPLER, until="0.13.0"),
)
