"""What moves vLLM's memory, in a log that no plan is made of: the rows of levers.py and those that only a rule names,
with what they cost, their order and their ceiling. Where there is a plan, its own table decides about the rows of both.
"""

import math
from typing import TYPE_CHECKING

from msgspec.structs import replace

from oomph.engines.common.case_levers import CaseRow, Figure
from oomph.engines.vllm.serving.safe_utilization import unplanned_utilization
from oomph.ir import Lever
from oomph.units import GIB

if TYPE_CHECKING:
    from oomph.doctor.case import Case

_UTILIZATION = "gpu_memory_utilization"
_PEAKS = ("activation_peak", "cudagraph", "peak", "temporary_kv")
_WEIGHTS = ("weights", "load_peak", "activation_peak", "non_torch")
_MIXED = ("weights", "activation_peak")
_STEPS = "long prompts are prefilled in more steps"
_CHUNKED = {"enable_chunked_prefill": True, "max_num_batched_tokens": 2048}

ROWS: dict[str, CaseRow] = {
    "share_up": CaseRow(
        "--gpu-memory-utilization {n}", "less room for run-time peaks", 3, "gpu_memory_utilization_up",
        field=_UTILIZATION, popular="raise --gpu-memory-utilization",
    ),
    "share_down": CaseRow(
        "--gpu-memory-utilization {n}", "a smaller KV cache", 2, "gpu_memory_utilization_down", field=_UTILIZATION,
        popular="lower --gpu-memory-utilization",
    ),
    "context": CaseRow(
        "--max-model-len {n}", "requests longer than {n} tokens are refused", 3, "", 8192, "max_model_len",
        popular="shorten --max-model-len",
    ),
    "sequences": CaseRow(
        "--max-num-seqs {n}", "at most {n} requests run at once", 2, "", 16, "max_num_seqs", moves=_PEAKS,
        popular="lower --max-num-seqs",
    ),
    "batch": CaseRow(
        "--max-num-batched-tokens {n}", _STEPS, 1, field="max_num_batched_tokens", moves=_PEAKS,
        popular="lower --max-num-batched-tokens",
    ),
    "batch_v0": CaseRow(
        "--enable-chunked-prefill --max-num-batched-tokens 2048", _STEPS, 1, "max_num_batched_tokens", flags=_CHUNKED,
        moves=_PEAKS, popular="lower --max-num-batched-tokens",
    ),
    "batch_up": CaseRow(
        "--max-num-batched-tokens {n}", "more activation memory", 2, "max_num_batched_tokens_up",
        field="max_num_batched_tokens", moves=_PEAKS,
    ),
    "chunked_prefill": CaseRow(
        "--enable-chunked-prefill --max-num-batched-tokens 2048", "long prompts in more steps", 0,
        "enable_chunked_prefill", flags=_CHUNKED, moves=_PEAKS,
    ),
    "kv_dtype": CaseRow(
        "--kv-cache-dtype fp8", "KV values are kept in 8 bits", 3, "kv_cache_dtype", flags={"kv_cache_dtype": "fp8"},
        popular="--kv-cache-dtype fp8",
    ),
    "kv_auto": CaseRow(
        "--kv-cache-dtype auto", "a 16-bit KV cache", 1, "kv_cache_dtype_auto", flags={"kv_cache_dtype": None}
    ),
    "kv_bytes": CaseRow(
        "--kv-cache-memory-bytes", "the KV cache keeps this size; utilization is no longer read", 4,
        "kv_cache_memory_bytes_set",
    ),
    "no_kv_bytes": CaseRow(
        "drop --kv-cache-memory-bytes", "measured again", 1, "kv_cache_memory_bytes",
        flags={"kv_cache_memory_bytes": None},
    ),
    "no_block_override": CaseRow(
        "drop --num-gpu-blocks-override", "vLLM sizes the pool by the memory there is", 1, "num_gpu_blocks_override",
        flags={"num_gpu_blocks_override": None},
    ),
    "hybrid_manager": CaseRow(
        "drop --disable-hybrid-kv-cache-manager", "none", 0, flags={"disable_hybrid_kv_cache_manager": None},
        popular="--disable-hybrid-kv-cache-manager",
    ),
    "no_connector": CaseRow(
        "drop --kv-transfer-config", "no KV connector", 2, "kv_transfer_config", flags={"kv_transfer_config": None}
    ),
    "connector_pool": CaseRow("a smaller host_pool_gib of the connector", "fewer tokens are kept on the host", 1),
    "offload_pool": CaseRow(
        "--kv-offloading-size {n}", "fewer prefixes are kept", 1, "", field="kv_offloading_size",
        popular="--kv-offloading-size",
    ),
    "no_graphs": CaseRow(
        "--enforce-eager", "slower decoding", 6, "enforce_eager", flags={"enforce_eager": True}, moves=("cudagraph",),
        popular="--enforce-eager",
    ),
    "fewer_graphs": CaseRow(
        "--max-cudagraph-capture-size {n}", "batches above {n} tokens run without graphs", 1, "", 64,
        "max_cudagraph_capture_size", moves=("cudagraph",),
    ),
    "piecewise_graphs": CaseRow(
        "-O.cudagraph_mode=PIECEWISE", "a little slower decoding", 3, "cudagraph_mode",
        flags={"compilation_config": {"cudagraph_mode": "PIECEWISE"}}, moves=("cudagraph",),
    ),
    "graph_estimate": CaseRow(
        "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0", "no reserve for graphs: lower utilization a little", 1,
        kind="environment",
        popular="VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0",
    ),
    "prefix_caching": CaseRow(
        "--no-enable-prefix-caching", "no reuse of common prefixes", 3, "enable_prefix_caching",
        flags={"enable_prefix_caching": False}, popular="turn prefix caching off",
    ),
    "state_dtype": CaseRow(
        "--mamba-ssm-cache-dtype bfloat16", "recurrent states in 16 bits", 3, "mamba_ssm_cache_dtype",
        flags={"mamba_ssm_cache_dtype": "bfloat16"},
    ),
    "no_drafts": CaseRow(
        "drop --speculative-config", "no speculative decoding", 3, "speculative_config",
        flags={"speculative_config": None}, moves=("weights",), popular="turn speculative decoding off",
    ),
    "text_only": CaseRow(
        "--language-model-only", "text only", 3, "language_model_only", flags={"language_model_only": True},
        moves=_MIXED,
    ),
    "fewer_images": CaseRow(
        "--limit-mm-per-prompt '{\"image\": 1, \"video\": 0}'", "one image per request, no video", 3,
        "limit_mm_per_prompt", flags={"limit_mm_per_prompt": {"image": 1, "video": 0}}, moves=_MIXED,
    ),
    "smaller_images": CaseRow(
        "--mm-processor-kwargs '{\"max_pixels\": 1003520}'", "images are scaled down", 2, "mm_processor_kwargs",
        flags={"mm_processor_kwargs": {"max_pixels": 1003520}}, moves=("activation_peak",),
    ),
    "vision_backend": CaseRow(
        "--mm-encoder-attn-backend FLASH_ATTN", "none", 0, "mm_encoder_attn_backend",
        flags={"mm_encoder_attn_backend": "FLASH_ATTN"}, moves=("activation_peak",),
    ),
    "no_image_cache": CaseRow(
        "--mm-processor-cache-gb 0", "multi-modal inputs are processed again", 2, "mm_processor_cache_gb",
        flags={"mm_processor_cache_gb": 0},
    ),
    "no_gpu_decoding": CaseRow(
        "a smaller --mm-ipc-gpu-memory-gb", "fewer images and videos are decoded on the GPU at once", 1,
        "mm_ipc_gpu_memory_gb", moves=("available_kv",),
    ),
    "gpu_decoding": CaseRow(
        "a larger --mm-ipc-gpu-memory-gb", "less KV cache", 1, "mm_ipc_gpu_memory_gb", moves=("available_kv",)
    ),
    "one_adapter": CaseRow(
        "--max-loras 1", "one adapter at a time", 2, "max_loras", flags={"max_loras": 1}, moves=("weights",)
    ),
    "adapter_rank": CaseRow(
        "--max-lora-rank 16", "adapters of a higher rank are refused", 2, "max_lora_rank",
        flags={"max_lora_rank": 16}, moves=("weights",),
    ),
    "sharded_adapters": CaseRow(
        "--fully-sharded-loras", "none", 1, "fully_sharded_loras", flags={"fully_sharded_loras": True},
        moves=("weights",),
    ),
    "dtype": CaseRow("--dtype {n}", "none for nearly all models", 0, "", "bfloat16", "dtype", moves=_WEIGHTS[:3]),
    "offload": CaseRow(
        "--cpu-offload-gb {n}", "every step reads {n} GiB per GPU over PCIe; pinned host memory", 6, "", 2,
        "cpu_offload_gb", kind="offload", moves=("weights", "load_peak"),
    ),
    "less_offload": CaseRow(
        "--cpu-offload-gb {n}", "more must fit on the GPU", 3, "cpu_offload_gb_down", field="cpu_offload_gb",
        kind="offload", moves=("weights", "load_peak"),
    ),
    "checkpoint": CaseRow(
        "a smaller quantisation of the same model", "another checkpoint to download; some quality", 5,
        kind="checkpoint", moves=_WEIGHTS,
    ),
    "more_gpus": CaseRow(
        "--tensor-parallel-size {n}", "needs {n} GPUs", 8, "more_gpus", field="tensor_parallel_size", kind="hardware",
        popular="a larger --tensor-parallel-size",
    ),
    "fewer_ranks": CaseRow(
        "--tensor-parallel-size {n}", "fewer GPUs used", 2, "tensor_parallel_size_down", field="tensor_parallel_size",
        moves=_MIXED,
    ),
    "stages": CaseRow(
        "--pipeline-parallel-size", "pipeline bubbles", 3, "pipeline_parallel_size",
        moves=_MIXED,
    ),
    "gpu_slice": CaseRow("a larger MIG profile", "a larger share of the board", 6, kind="hardware"),
    "moe_backend": CaseRow("another --moe-backend", "other kernels, other speed", 3),
    "backend": CaseRow("another --attention-backend", "other kernels", 3),
    "workspace": CaseRow(
        "VLLM_FLASHINFER_WORKSPACE_BUFFER_SIZE={n}", "so many bytes of the card", 0, kind="environment"
    ),
    "no_autotune": CaseRow(
        "--kernel-config '{\"enable_flashinfer_autotune\": false}'", "kernels run untuned", 1, "kernel_config",
        flags={"kernel_config": {"enable_flashinfer_autotune": False}},
    ),
    "no_deep_gemm_warmup": CaseRow(
        "VLLM_DEEP_GEMM_WARMUP=skip", "the first requests are slower", 3, kind="environment",
    ),
    "fewer_channels": CaseRow(
        "NCCL_MAX_NCHANNELS=4", "slower collectives", 3, kind="environment"
    ),
    "nccl_cumem": CaseRow(
        "NCCL_CUMEM_ENABLE=0", "none known", 3, kind="environment"
    ),
    "layer_partition": CaseRow(
        "VLLM_PP_LAYER_PARTITION=fewer layers on the smaller card", "pipeline parallel only", 3, kind="environment"
    ),
    "ray_monitor": CaseRow(
        "RAY_memory_monitor_refresh_ms=0", "Ray no longer protects the node", 0, "ray_memory_monitor_refresh_ms",
        kind="environment",
    ),
    "expandable": CaseRow(
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", "not together with sleep mode", 0,
        "expandable_segments", kind="environment",
        popular="PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
    ),
    "no_expandable": CaseRow(
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False", "", 2, kind="environment",
    ),
    "swap": CaseRow(
        "--swap-space 16", "host memory; V0 only", 1, "swap_space", flags={"swap_space": 16}, popular="--swap-space"
    ),
    "no_swap": CaseRow("drop --swap-space", "none: it did nothing", 0, "no_swap_space", flags={"swap_space": None}),
    "no_sleep_mode": CaseRow(
        "without --enable-sleep-mode", "the server cannot sleep", 0, "enable_sleep_mode",
        flags={"enable_sleep_mode": None}, moves=("weights", "load_peak"),
    ),
    "block_size": CaseRow("another --block-size", popular="--block-size"),
    "release": CaseRow(
        "vLLM {n} or newer", "an upgrade", 4, "upgrade", kind="release",
        moves=("activation_peak", "cudagraph", "non_torch"),
    ),
}  # fmt: skip

# What guides list and the stage that failed cannot profit from: it has not read the setting yet, or no longer, or the
# setting takes away what is short.
AGAINST: dict[str, dict[str, str]] = {
    "weights_load": {
        "share_down": "utilization is read before the load (the start-up check) and after it (the KV budget), never"
                      " while weights are created; a lower value only leaves less for KV",
        "share_up": "it does not limit the load, so it cannot make room for it",
        "context": "context length is not read before the weights are loaded",
        "sequences": "the number of sequences is not read before the weights are loaded",
        "kv_dtype": "no KV cache exists yet",
        "no_graphs": "CUDA graphs are captured long after the weights are loaded",
    },
    "startup_free_memory": {
        "context": "free memory is compared with utilization x total before anything of the model is known",
        "quantize_flag": "no weight has been loaded; the check does not look at the model",
        "no_graphs": "CUDA graphs play no part in this check",
    },
    "profile_run": {
        "share_down": "the profiling run takes what it needs; utilization is applied afterwards",
        "share_up": "the profiling run takes what it needs; utilization is applied afterwards",
        "context": "with chunked prefill the profiling batch is max_num_batched_tokens long, whatever the length",
        "kv_dtype": "the KV cache does not exist yet",
    },
    "cudagraph_profile": {
        "share_up": "the throw-away KV cache is sized by the number of captured tokens; utilization is not read here",
        "share_down": "the throw-away KV cache is sized by the number of captured tokens; utilization is not read here",
        "context": "the throw-away KV cache does not depend on the context length",
        "prefix_caching": "the same number of blocks of the same size is built without it",
        "graph_estimate": "it only stops the estimate from being subtracted; the pass runs all the same",
    },
    "kv_check": {
        "share_down": "it shrinks the very budget that is too small",
        "swap": "vLLM's V1 engine never swaps; one request must fit on the GPU",
        "offload_pool": "a host tier keeps finished prefixes; one request must still fit on the GPU",
        "expandable": "this is a comparison of two figures, not an allocation: nothing is fragmented",
    },
    "kv_alloc": {"context": "the pool is sized by the budget; the context length is only checked against it"},
    "cudagraph_capture": {
        "share_up": "it gives the KV cache more and leaves the graphs less",
        "context": "the KV pool keeps its size whatever the context length",
    },
    "sampler_warmup": {
        "context": "the sampler's buffers are sequences x vocabulary; the context length is not in them",
        "kv_dtype": "the pool is refilled up to the same budget; the sampler's buffers stay as large",
    },
    "runtime_request": {
        "share_up": "it takes away the room that the request lacked",
    },
    "host_ram": {
        "share_down": "the host's memory ran out, not the GPU's",
    },
}  # fmt: skip

# arg_utils.py get_batch_defaults: `vllm serve` on cards of 70 GiB and more, and on all others
LARGE_CARD, LARGE_BATCH, BATCH = 70 * GIB, 8192, 2048


def case_lever(case: "Case", name: str, figure: "Figure | None" = None) -> Lever | None:
    if name in ("share_up", "share_down"):
        return _share(case, name, figure)
    if name == "batch" and figure is None:
        if case.v0:
            return ROWS["batch_v0"].of(name, case)
        default = LARGE_BATCH if (case.total or 0) >= LARGE_CARD else BATCH
        figure = max(256, min(2048, (case.whole("max_num_batched_tokens") or default) // 2))
    if name == "more_gpus" and figure is None:
        figure = case.tp * 2
    if name == "offload":  # more than there is
        need = figure if isinstance(figure, int | float) else 2 * GIB
        figure = (case.whole("cpu_offload_gb") or 0) + max(1, math.ceil(need / GIB))
    if name == "stages" and isinstance(figure, int):
        ranks = {"tensor_parallel_size": figure, "pipeline_parallel_size": max(2, case.tp // max(1, figure))}
        label = " ".join(f"--{flag.replace('_', '-')} {size}" for flag, size in ranks.items())
        return replace(ROWS[name], label=label, flags=ranks).of(name, case)
    if name == "kv_bytes" and isinstance(figure, int):
        size = f"{figure // GIB}G" if figure >= GIB else f"{figure >> 20}M"
        order = {"kv_cache_memory_bytes": figure // GIB * GIB or figure >> 20 << 20}
        return replace(ROWS[name], label=f"--kv-cache-memory-bytes {size}", flags=order).of(name, case)
    row = ROWS.get(name)
    return row.of(name, case, figure) if row is not None else None


_MOST_OF_POOL = 0.9  # that a lower share may take from the KV cache


def _share(case: "Case", name: str, figure: Figure | None) -> Lever | None:
    """The share that a log proves to be enough, never above the ceiling; a step where it proves none."""
    ceiling = unplanned_utilization(case.unified)
    up = name == "share_up"
    if not isinstance(figure, float):
        free, total = case.value("free_short", "free"), case.value("free_short", "total")
        step = 0.1 if case.unified else 0.05
        figure = min(ceiling, case.util + 0.05) if up else case.util - step
        if not up and free is not None and total:
            figure = (free - 0.2 * GIB) / total
    value = max(0.05, math.floor(figure * 100 + 1e-9) / 100)
    if value > ceiling or (up and value <= case.util) or (not up and value >= case.util):
        return None
    pool = case.value("available_kv", "available")
    if not up and case.total and pool is not None and (case.util - value) * case.total > _MOST_OF_POOL * pool:
        return None  # the next start would end at the KV check
    return ROWS[name].of(name, case, value)


def against(case: "Case") -> dict[str, str]:
    """What does not help at the stage at which a run failed, and why."""
    reasons = dict(AGAINST.get(case.stage, {}))
    if case.v0 and case.stage == "profile_run":
        del reasons["context"]
    if case.unified and case.stage == "host_ram":
        del reasons["share_down"]  # what the GPU takes is the host's
    return reasons
