"""From resolved settings to what decides the created weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oomph.engines.vllm.expert_kernel import expert_setting
from oomph.engines.vllm.shard import Layout
from oomph.engines.vllm.traits import text_only
from oomph.engines.vllm.weights import Build
from oomph.facts.dtypes import TORCH, nbytes
from oomph.facts.vllm.create_weights import mla_kv_scales
from oomph.facts.vllm.facts import Facts
from oomph.ir.model import Attention, Model


def scaled_rotary(model: Model) -> bool:
    """Only DeepSeek's scaled rotary tables depend on the operators that turn the heads (weights.py _rope_dtype)."""
    mixers = (m for layer in model.layers[:8] for m in layer.mixers if isinstance(m, Attention))
    return any(m.rope is not None and m.rope.kind == "deepseek_yarn" for m in mixers)


def _redundant_experts(flags: Mapping[str, Any]) -> int:
    """config/parallel.py EPLBConfig: spare experts, only with --enable-eplb."""
    config = flags.get("eplb_config")
    told = config.get("num_redundant_experts") if isinstance(config, Mapping) else flags.get("num_redundant_experts")
    return told if flags.get("enable_eplb") and isinstance(told, int) else 0


def build_for(
    model: Model,
    facts: Facts,
    sm: int,
    flags: Mapping[str, Any],
    resolved: Mapping[str, Any],
    *,
    tp_rank: int = 0,
    pp_rank: int = 0,
    environment: Mapping[str, str] | None = None,
) -> Build:
    method = model.quantization.method if model.quantization else ""
    scaled = method or (str(resolved.get("quantization") or "") if facts.weights.online_scales else "")
    if model.architecture in facts.weights.unscaled:
        scaled = ""
    known = facts.structure.habits(sm)
    borrowed = f"{model.architecture} by transformers" in known
    if borrowed and "attention in the tree of transformers' modules" not in known:
        known, scaled = known - {"attention scales as buffers"}, ""
    kv = model.quantization.kv_cache if model.quantization else ""
    tp, dp = int(flags.get("tensor_parallel_size", 1)), int(flags.get("data_parallel_size", 1))
    expert_parallel = bool(flags.get("enable_expert_parallel", False))
    layout = Layout(
        tp=tp,
        pp=int(flags.get("pipeline_parallel_size", 1)),
        dp=dp,
        expert_parallel=expert_parallel,
        # config/parallel.py use_sequence_parallel_moe; every all2all backend but "naive" and "pplx" does so
        sequence_parallel_moe=expert_parallel
        and tp > 1
        and dp > 1
        and flags.get("all2all_backend") not in ("naive", "pplx"),
        tp_rank=tp_rank,
        pp_rank=pp_rank,
        redundant_experts=_redundant_experts(flags),
        data_parallel_towers=flags.get("mm_encoder_tp_mode") == "data",
    )
    dtype = TORCH[str(resolved["dtype"])]
    return Build(
        facts.creation,
        layout,
        dtype,
        towers=not text_only(model, flags),
        drafts=False,
        kv_scales=facts.creation.kv_scales(scaled, nbytes(dtype, 1), kv),
        mla_kv_scales=mla_kv_scales(scaled, nbytes(dtype, 1)),
        rotary_kernels=bool(flags.get("enforce_eager")) and scaled_rotary(model),
        habits=known,
        separate_tied_head=facts.weights.separate_tied_head,
        head_quantised=method in facts.weights.quantised_heads,
        experts=expert_setting(facts, sm, flags, environment or {}),
    )
