"""Remedies and rejected advice that several rules share, each with the figure it rests on.

A lever is one way to move memory. Which term it moves is a fact of the engine's source; a stage reads only some
terms, so for every stage there is advice that cannot help, and `useless` says why.
"""

import math

from oomph.doctor.case import Case
from oomph.doctor.rule import Rejected, Remedy
from oomph.engines.registry import DEFAULT, engine_named
from oomph.units import GIB, gib

LEVERS = {
    "util_down": "lower --gpu-memory-utilization",
    "util_up": "raise --gpu-memory-utilization",
    "max_model_len": "shorten --max-model-len",
    "max_num_seqs": "lower --max-num-seqs",
    "batched_tokens": "lower --max-num-batched-tokens",
    "kv_dtype": "--kv-cache-dtype fp8",
    "eager": "--enforce-eager",
    "expandable": "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
    "swap": "--swap-space",
    "quantize_flag": "--quantization on a checkpoint that is already quantised",
    "full_precision_first": "wait until vLLM stops loading full-precision weights first",
    "prefix_caching": "turn prefix caching off",
    "no_spec": "turn speculative decoding off",
    "shm": "a larger --shm-size",
    "graph_estimate_off": "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0",
    "block_size": "--block-size",
    "reboot": "restart the container or the machine",
    "gpu_flags": "GPU memory flags",
    "tp_up": "a larger --tensor-parallel-size",
    "fraction_up": "raise --mem-fraction-static",
    "fraction_down": "lower --mem-fraction-static",
    "context": "a smaller context",
    "layers": "fewer layers on the GPU",
    "empty_cache": "torch.cuda.empty_cache()",
    "spec_tokens": "fewer speculative tokens",
    "offloading": "--kv-offloading-size",
}


def reject(lever: str, why: str) -> Rejected:
    return Rejected(lever, LEVERS[lever], why)


_NOT_READ = {
    "weights_load": {
        "util_down": "utilization is read before the load (the start-up check) and after it (the KV budget), never"
                     " while weights are created; a lower value only leaves less for KV",
        "util_up": "it does not limit the load, so it cannot make room for it",
        "max_model_len": "context length is not read before the weights are loaded",
        "max_num_seqs": "the number of sequences is not read before the weights are loaded",
        "kv_dtype": "no KV cache exists yet",
        "eager": "CUDA graphs are captured long after the weights are loaded",
        "swap": "vLLM's V1 engine never swaps; the flag did nothing and is gone since 0.18",
    },
    "startup_free_memory": {
        "max_model_len": "free memory is compared with utilization x total before anything of the model is known",
        "quantize_flag": "no weight has been loaded; the check does not look at the model",
        "eager": "CUDA graphs play no part in this check",
    },
    "profile_run": {
        "util_down": "the profiling run takes what it needs; utilization is applied afterwards",
        "util_up": "the profiling run takes what it needs; utilization is applied afterwards",
        "max_model_len": "with chunked prefill the profiling batch is max_num_batched_tokens long, whatever the length",
        "kv_dtype": "the KV cache does not exist yet",
    },
    "cudagraph_profile": {
        "util_up": "the throw-away KV cache is sized by the number of captured tokens; utilization is not read here",
        "util_down": "the throw-away KV cache is sized by the number of captured tokens; utilization is not read here",
        "max_model_len": "the throw-away KV cache does not depend on the context length",
        "prefix_caching": "the same number of blocks of the same size is built without it",
        "graph_estimate_off": "it only stops the estimate from being subtracted; the pass runs all the same",
    },
    "kv_check": {
        "util_down": "it shrinks the very budget that is too small",
        "swap": "vLLM's V1 engine never swaps; one request must fit on the GPU",
        "offloading": "a host tier keeps finished prefixes; one request must still fit on the GPU",
        "expandable": "this is a comparison of two figures, not an allocation: nothing is fragmented",
    },
    "kv_alloc": {
        "max_model_len": "the pool is sized by the budget; the context length is only checked against it",
    },
    "cudagraph_capture": {
        "util_up": "it gives the KV cache more and leaves the graphs less",
        "max_model_len": "the KV pool keeps its size whatever the context length",
    },
    "sampler_warmup": {
        "max_model_len": "the sampler's buffers are sequences x vocabulary; the context length is not in them",
        "kv_dtype": "the pool is refilled up to the same budget; the sampler's buffers stay as large",
    },
    "runtime_request": {
        "swap": "vLLM's V1 engine never swaps; the flag did nothing and is gone since 0.18",
        "util_up": "it takes away the room that the request lacked",
    },
    "host_ram": {
        "util_down": "the host's memory ran out, not the GPU's",
        "swap": "it reserves host memory, which is what ran out; the V1 engine never used it",
    },
}  # fmt: skip


def useless(case: Case, *extra: Rejected, keep: tuple[str, ...] = ()) -> tuple[Rejected, ...]:
    """What is widely advised for this symptom and not read by the stage that failed; `keep` are levers that do work."""
    own = {r.lever for r in extra}
    if engine_named(case.rebuilt.engine or DEFAULT).lever_words(case):
        return extra  # the table below is vLLM's
    table = _NOT_READ.get(case.stage, {})
    if case.v0 and case.stage == "profile_run":
        keep = (*keep, "max_model_len")
    useless = [reject(lever, why) for lever, why in table.items() if lever not in own and lever not in keep]
    oom = case.oom
    tried, reserved = case.oom_value("tried"), case.oom_value("reserved")
    if oom is not None and tried and reserved is not None and reserved < tried and "expandable" not in own | set(keep):
        why = (
            f"only {gib(reserved)} is cached and unused, less than the {gib(tried)} asked for: this is no fragmentation"
        )
        useless.append(reject("expandable", why))
    return (*extra, *useless)


def tensor_parallel(case: Case) -> Remedy:
    n = case.tp * 2
    flag = engine_named(case.rebuilt.engine or DEFAULT).words.parallel_flag
    return Remedy("tp_up", f"{flag} {n}", "hardware", {"tensor_parallel_size": n}, gpus=n,
                  costs=f"needs {n} GPUs", rank=8)  # fmt: skip


def offload(case: Case, need: int | None = None) -> Remedy:
    size = (case.whole("cpu_offload_gb") or 0) + max(1, math.ceil((need or 2 * GIB) / GIB))  # more than there is
    return Remedy("offload", f"--cpu-offload-gb {size}", "flag", {"cpu_offload_gb": size},
                  costs=f"every step reads {size} GiB per GPU over PCIe; pinned host memory", rank=6)  # fmt: skip


def checkpoint(case: Case, what: str = "a smaller quantisation of the same model") -> Remedy:
    return Remedy("checkpoint", what, "model", costs="another checkpoint to download; some quality", rank=5)


def utilization(case: Case, value: float, why: str = "") -> Remedy:
    value = max(0.05, min(0.99, math.floor(value * 100) / 100))
    up = value >= case.util
    return Remedy("util_up" if up else "util_down", f"--gpu-memory-utilization {value}", "flag",
                  {"gpu_memory_utilization": value}, rank=1 if up else 2,
                  costs=why or ("less room for run-time peaks" if up else "a smaller KV cache"))  # fmt: skip


def sequences(n: int, gain: int = 0) -> Remedy:
    return Remedy("max_num_seqs", f"--max-num-seqs {n}", "flag", {"max_num_seqs": n}, gains_bytes=gain,
                  costs=f"at most {n} requests run at once", rank=2)  # fmt: skip


def capture(n: int, gain: int = 0) -> Remedy:
    return Remedy("capture", f"--max-cudagraph-capture-size {n}", "flag", {"max_cudagraph_capture_size": n},
                  gains_bytes=gain, costs=f"batches above {n} tokens run without graphs", rank=1)  # fmt: skip


def batch(n: int) -> Remedy:
    return Remedy("batched_tokens", f"--max-num-batched-tokens {n}", "flag", {"max_num_batched_tokens": n},
                  costs="long prompts are prefilled in more steps", rank=1)  # fmt: skip


# arg_utils.py get_batch_defaults: `vllm serve` on cards of 70 GiB and more, and on all others
LARGE_CARD, LARGE_BATCH, BATCH = 70 * GIB, 8192, 2048


def smaller_batch(case: Case) -> Remedy:
    """Half of what is in force, which is the release's default where nobody set it; V0 has to be told to chunk."""
    if case.v0:
        flags = {"enable_chunked_prefill": True, "max_num_batched_tokens": 2048}
        return Remedy("batched_tokens", "--enable-chunked-prefill --max-num-batched-tokens 2048", "flag", flags,
                      costs="long prompts are prefilled in more steps", rank=1)  # fmt: skip
    default = LARGE_BATCH if (case.total or 0) >= LARGE_CARD else BATCH
    return batch(max(256, min(2048, (case.whole("max_num_batched_tokens") or default) // 2)))


def context(n: int) -> Remedy:
    return Remedy("max_model_len", f"--max-model-len {n}", "flag", {"max_model_len": n},
                  costs=f"requests longer than {n:,} tokens are refused", rank=3)  # fmt: skip


def eager() -> Remedy:
    return Remedy("eager", "--enforce-eager", "flag", {"enforce_eager": True}, costs="slower decoding", rank=6)


def kv_dtype(dtype: str = "fp8") -> Remedy:
    return Remedy("kv_dtype", f"--kv-cache-dtype {dtype}", "flag", {"kv_cache_dtype": dtype},
                  costs="KV values are kept in 8 bits", rank=3)  # fmt: skip


def kv_bytes(n: int) -> Remedy:
    size = max(1, n // GIB)
    return Remedy("kv_bytes", f"--kv-cache-memory-bytes {size}G", "flag", {"kv_cache_memory_bytes": size * GIB},
                  costs="the KV cache keeps this size; utilization is no longer read", rank=4)  # fmt: skip


def text_only() -> Remedy:
    return Remedy(
        "multimodal", "--language-model-only", "flag", {"language_model_only": True}, costs="text only", rank=3
    )


def mm_limit(limit: str = '{"image": 1, "video": 0}') -> Remedy:
    flags = {"limit_mm_per_prompt": {"image": 1, "video": 0}}
    return Remedy("multimodal", f"--limit-mm-per-prompt '{limit}'", "flag", flags,
                  costs="one image a request, no video", rank=3)  # fmt: skip


def upgrade(version: str, why: str = "") -> Remedy:
    return Remedy("upgrade", f"vLLM {version} or newer", "version", version=version, costs=why or "an upgrade", rank=4)


def host(change: str, costs: str = "", lever: str = "host", rank: int = 1) -> Remedy:
    return Remedy(lever, change, "host", costs=costs, rank=rank)


def env(name: str, value: str, costs: str = "", lever: str = "", rank: int = 3) -> Remedy:
    return Remedy(lever or name.lower(), f"{name}={value}", "env", environment={name: value}, costs=costs, rank=rank)


def drop_flag(flag: str, costs: str, lever: str = "", rank: int = 1) -> Remedy:
    name = flag.lstrip("-").replace("-", "_")
    return Remedy(lever or name, f"drop {flag}", "flag", {name: None}, costs=costs, rank=rank)
