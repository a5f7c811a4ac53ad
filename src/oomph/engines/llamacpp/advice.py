"""What would help a llama.cpp or Ollama plan, each change planned; and what of it would not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from oomph.errors import OomphError
from oomph.facts.llamacpp.flags import EXPERTS
from oomph.ir.deployment import Deployment
from oomph.ir.plan import Plan, RankPlan
from oomph.units import MIB

Planner = Callable[[Deployment], Plan]
_SHARES = ((3.0, 2.0), (2.0, 1.0), (3.0, 1.0))
_SMALLER = ("Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "IQ4_XS", "Q3_K_M", "IQ3_XS")


class Advice(Struct, frozen=True):
    label: str
    fits: bool
    on_cpu: int  # layers left on the CPU
    context: int
    gain_bytes: int  # on the fullest GPU
    host_weights: int
    cost: str


def advice(plan: Plan, run: Planner) -> list[Advice]:
    """In the order of what they cost the user."""
    out = []
    before = _own(plan)
    for label, flags, model, cost in _changes(plan):
        try:
            made = run(replace(plan.deployment, flags=flags, model=model or plan.deployment.model))
        except OomphError:
            continue
        on_cpu = made.resolved.get("layers", 0) - made.resolved.get("offloaded", 0)
        host = made.resolved.get("host", {}).get("weights", 0)
        context = made.resolved.get("n_ctx_seq", 0)
        out.append(Advice(label, made.fits, on_cpu, context, before - _own(made), host, cost))
    return out


def _own(plan: Plan) -> int:
    return max((_rank_own(r) for r in plan.ranks), default=0)


def _rank_own(rank: RankPlan) -> int:
    return sum(t.bytes for t in rank.terms.values())


def _changes(plan: Plan) -> Iterator[tuple[str, dict[str, Any], str, str]]:
    flags = plan.deployment.flags
    ollama = plan.deployment.engine.name == "ollama"
    resolved = plan.resolved

    def with_(**more: Any) -> dict[str, Any]:
        return {**flags, **more}

    def without(*names: str) -> dict[str, Any]:
        return {k: v for k, v in flags.items() if k not in names}

    if not ollama and flags.get("flash_attn") == "off":
        yield "-fa on", with_(flash_attn="on"), "", "no cost"
    if flags.get("swa_full"):
        yield "without --swa-full", without("swa_full"), "", "a prompt's old part cannot be reused"
    if not ollama and "n_gpu_layers" in flags:
        yield "without -ngl", without("n_gpu_layers", "tensor_split"), "", "--fit then moves layers to the CPU"
    elif not ollama and "tensor_split" in flags:
        yield "without -ts", without("tensor_split"), "", "layers by free memory, and --fit where that is too much"
    if not ollama and len(plan.ranks) == 2 and "tensor_split" not in flags and flags.get("override_tensor"):
        # layers are dealt out by count: a GPU whose layers keep their experts gets more than its share
        first_fuller = _rank_own(plan.ranks[0]) > _rank_own(plan.ranks[1])
        for share in (s[::-1] if first_fuller else s for s in _SHARES):
            yield f"-ts {share[0]:g},{share[1]:g}", with_(tensor_split=list(share)), "", "layers dealt out otherwise"
    if not ollama and resolved.get("n_ubatch", 0) > 256:
        yield "-ub 256", with_(ubatch_size=256), "", "slower prompts"
    if resolved.get("type_k") == "f16" and resolved.get("flash_attn"):
        if ollama:
            yield "OLLAMA_KV_CACHE_TYPE=q8_0", with_(kv_cache_type="q8_0"), "", "8.5 bits a value"
        else:
            yield "-ctk q8_0 -ctv q8_0", with_(cache_type_k="q8_0", cache_type_v="q8_0"), "", "8.5 bits a value"
    context = resolved.get("n_ctx_seq", 0)
    for smaller in (context // 2, context // 4, 8192, 4096):
        if 4096 <= smaller < context:
            key, label = ("num_ctx", "num_ctx") if ollama else ("ctx_size", "-c")
            slots = 1 if ollama or resolved.get("kv_unified") else resolved.get("n_seq_max", 1)
            value = smaller // 256 * 256 * slots
            yield f"{label} {value}", with_(**{key: value}), "", "a shorter context"
    given = flags.get("override_tensor", ())
    if resolved.get("host") is not None and _has_experts(plan) and not ollama and list(given) == _experts(len(given)):
        layers = resolved["layers"] - 1
        for count in sorted({max(layers // 4, 1), layers // 2, 3 * layers // 4, layers}):
            if count > len(given):
                more = with_(override_tensor=_experts(count), n_gpu_layers=999)
                yield f"--n-cpu-moe {count}", more, "", "experts run on the CPU"
    name, _, quant = plan.model.rpartition(":")
    if quant in _SMALLER and not ollama:
        for lower in _SMALLER[_SMALLER.index(quant) + 1 :]:
            yield f"{lower} instead of {quant}", flags, f"{name}:{lower}", "a smaller file, less exact"


def _experts(count: int) -> list[tuple[str, str]]:
    """What --n-cpu-moe stands for."""
    return [(rf"blk\.{i}{EXPERTS}", "CPU") for i in range(count)]


def _has_experts(plan: Plan) -> bool:
    return any(r.terms["weights"].parts.get("experts", 0) > MIB for r in plan.ranks)
