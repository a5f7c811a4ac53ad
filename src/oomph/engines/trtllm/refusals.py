"""What TensorRT-LLM refuses before anything of a model is on a GPU, in its own words where they were read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oomph.facts.trtllm.facts import Facts
from oomph.ir import Model

POLICIES = ("GUARANTEED_NO_EVICT", "MAX_UTILIZATION", "STATIC_BATCH")
# llmapi/llm_utils.py _update_from_hf_quant_config: what is read of config.json's quantization_config. ModelOpt's
# checkpoints bring a file of their own.
_UNREAD = ("awq", "gptq", "bitsandbytes", "auto-round")
# Compute capability: nvidia.github.io/TensorRT-LLM/reference/support-matrix.html (0.18.2, 0.19.0 and the newest):
# Ampere has FP32, FP16, BF16, INT8 and INT4, Ada (8.9) and Hopper FP8 too, Blackwell FP4 too; older ones are not there.
_OLDEST, _OLDEST_FP8, _OLDEST_FP4 = 80, 89, 100


def refusal(flags: Mapping[str, Any], model: Model, sizes: tuple[int, int, int], sm: int, facts: Facts) -> str:
    """`sizes`: tensor, pipeline and expert parallelism; `sm`: of the first GPU, 0 = not known."""
    tp, pp, ep = sizes
    if ep > tp or tp % ep:  # mapping.py
        return (
            f"ValueError: moe_tp_size * moe_ep_size * moe_cluster_size must equal to moe_world_size, but got "
            f"{tp // ep * ep} != {tp}"
        )
    if model.num_heads and model.num_heads % tp and not flags.get("enable_attention_dp"):
        return f"AssertionError: {model.num_heads} attention heads are not divisible by tp_size {tp}"
    if pp > max(1, len(model.layers)):
        return f"ValueError: pp_size {pp} exceeds the {len(model.layers)} layers of the model"
    policy = str(flags.get("scheduler_config.capacity_scheduler_policy") or POLICIES[0])
    if policy not in POLICIES:
        return f"ValidationError: capacity_scheduler_policy: Input should be one of {', '.join(POLICIES)}"
    return _checkpoint(model, facts) or _card(model, sm)


def _checkpoint(model: Model, facts: Facts) -> str:
    quantization = model.quantization
    if quantization is None:
        return ""
    scheme = quantization.scheme
    is_fp8 = scheme is not None and scheme.method == "fp8"
    per_tensor = quantization.method == "fp8" and scheme is not None and scheme.strategy != "block"
    compressed = quantization.method == "compressed-tensors"
    reads = facts.memory.reads_compressed_tensors
    if quantization.method in _UNREAD or (compressed and not (reads and is_fp8)) or (per_tensor and not reads):
        return (
            f"NotImplementedError: Unsupported quantization_config: {{'quant_method': '{quantization.method}', ...}}."
        )
    return ""


def _card(model: Model, sm: int) -> str:
    method = model.quantization.method if model.quantization is not None else ""
    if not sm:
        return ""
    oldest, what = _OLDEST, "kernels"
    if method in ("fp8", "modelopt"):
        oldest, what = _OLDEST_FP8, "FP8 kernels"
    elif method == "modelopt_fp4":
        oldest, what = _OLDEST_FP4, "FP4 kernels"
    if sm >= oldest:
        return ""
    here, least = (f"{number // 10}.{number % 10}" for number in (sm, oldest))
    return f"TensorRT-LLM has no {what} for compute capability {here}, only from {least} on"
