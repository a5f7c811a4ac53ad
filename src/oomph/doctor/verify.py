"""Remedies are planned before they are printed: the rebuilt deployment with one change, observed terms pinned."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from oomph.doctor import advice
from oomph.doctor.advice import floor2
from oomph.doctor.case import Case
from oomph.doctor.enrich import names, with_model, with_plan
from oomph.doctor.explain import Explanation, command_of, explain_case
from oomph.doctor.rule import Remedy
from oomph.doctor.stages import ORDER
from oomph.errors import OomphError
from oomph.facts.gpus import GpuRow, rows
from oomph.facts.vllm.activation import CONTEXT_H200, NCCL_BYTES
from oomph.facts.vllm.versions import NEWEST, nearest
from oomph.ir.deployment import Deployment, Engine
from oomph.ir.hardware import Device
from oomph.ir.model import Model
from oomph.units import GIB

Planner = Callable[[Deployment], Any]
Loader = Callable[[str], Model]
ROUNDING = GIB // 80  # totals are printed in hundredths of a GiB

# a remedy that pulls this lever moves these terms: they are not pinned for it
MOVES = {
    "offload": ("weights", "load_peak"), "dtype": ("weights", "load_peak", "activation_peak"), "no_spec": ("weights",),
    "checkpoint": ("weights", "load_peak", "activation_peak", "non_torch"), "tp_up": ("weights", "activation_peak"),
    "tp": ("weights", "activation_peak"), "pp": ("weights", "activation_peak"), "lora": ("weights",),
    "lora_rank": ("weights",), "lora_sharded": ("weights",), "max_num_seqs": ("activation_peak", "cudagraph"),
    "batched_tokens": ("activation_peak",), "chunked": ("activation_peak",),
    "multimodal": ("weights", "activation_peak"), "pixels": ("activation_peak",), "capture": ("cudagraph",),
    "graph_mode": ("cudagraph",), "eager": ("cudagraph",),
    "upgrade": ("activation_peak", "cudagraph", "non_torch"), "mm_cache": (),
}  # fmt: skip
# they change what a request needs, not what is left for it
SAME_POOL = frozenset({"max_model_len", "kv_dtype", "hybrid_on", "kv_e5m2", "kv_auto", "state_dtype", "prefix_off"})


def planned(
    case: Case, explanation: Explanation, *, planner: Planner | None = None, loader: Loader | None = None
) -> Explanation:
    """With the real planner. A log that does not name model or GPU stays as it is, and a note says what is missing."""
    if explanation.engine.name != "vllm" or (not explanation.remedies and explanation.failed):
        return explanation
    base = deployment_of(case)
    if base is None:
        return _noted(
            explanation, f"not planned: the log does not say {'the GPU (--gpu)' if case.rebuilt.model else 'the model'}"
        )
    if planner is None or loader is None:
        from oomph import plan as real

        planner, loader = planner or real.plan, loader or real.load
    try:
        model, base = _model(base, loader)
        case = with_model(case, model)
        explanation = explain_case(case)
        before = planner(base)
    except OomphError as error:
        return _noted(explanation, f"not planned: {error.message}")
    pool = observed_pool(case)
    exact = planner(msgspec.structs.replace(base, given={**base.given, "available_kv": pool})) if pool else before
    return verify(case, with_plan(case, explanation, exact), planner, base, before)


def _noted(explanation: Explanation, note: str) -> Explanation:
    return msgspec.structs.replace(explanation, notes=(*explanation.notes, note))


def _model(base: Deployment, load: Loader) -> tuple[Model, Deployment]:
    refused: OomphError | None = None
    for name in names(base.model):
        try:
            return load(name), msgspec.structs.replace(base, model=name)
        except OomphError as error:
            refused = refused or error
    assert refused is not None
    raise refused


def deployment_of(case: Case) -> Deployment | None:
    rebuilt = case.rebuilt
    gpus = devices(case)
    if not rebuilt.model or not gpus:
        return None
    try:
        version, _ = nearest(rebuilt.version or NEWEST)
    except OomphError:
        return None
    engine = Engine("vllm", version, rebuilt.version_from or "newest known")
    flags = {name: value for name, value in rebuilt.flags.items() if value is not None}
    return Deployment(engine, rebuilt.model, flags, gpus, rebuilt.environment, given=observed(case))


def devices(case: Case) -> tuple[Device, ...]:
    """As given, else one GPU per rank with the total that the log prints, else the GPU that the text names."""
    count = case.tp * max(1, case.whole("pipeline_parallel_size") or 1)
    if case.gpus:
        return case.gpus if len(case.gpus) >= count else case.gpus[:1] * count
    total = case.account.total
    row = gpu_row(total, case.capability, case.named_gpu)
    if not total and row is None:
        return ()
    used = min(case.account.get("others") or 0, total - 1) if total else 0
    if row is None:
        return (Device("GPU", total, used_bytes=used),) * count
    return (row.device(used_bytes=used, total_bytes=total),) * count


def gpu_row(total: int, capability: str = "", named: str = "") -> GpuRow | None:
    """The card whose total is the printed one; of several the one that is named or has the capability mentioned."""
    close = [row for row in rows() if abs(row.total_bytes - total) <= ROUNDING] if total else []
    by_name = [row for row in (close or ([] if total else rows())) if named and row.name == named]
    same = [row for row in close if capability and "{}.{}".format(*row.capability) == capability]
    found = by_name or same or close
    return min(found, key=lambda row: abs(row.total_bytes - total)) if found else None


def observed(case: Case) -> dict[str, int]:
    """Terms as the log has them: what the loaded weights really took, what is on the card outside of PyTorch."""
    given = {}
    if weights := case.value("weights", "weights"):
        given["weights"] = weights
    outside = case.account.get("context")
    if case.oom is not None and outside is not None:
        own = CONTEXT_H200 + (NCCL_BYTES if case.tp > 1 else 0)
        if case.stage == "weights_load":
            given["context"] = outside
        elif case.before("weights") and outside > 2 * own:
            given["non_torch"] = outside - own
    return given


def observed_pool(case: Case) -> int | None:
    for kind in ("available_kv", "kv_need", "v0_terms"):
        value = case.value(kind, "available")
        if value is not None:
            return value
    return None


def variant(case: Case, remedy: Remedy, base: Deployment, before: Any = None) -> Deployment | None:
    """The deployment with the change; None where no plan can judge it."""
    if remedy.kind in ("host", "none") or not (remedy.flags or remedy.environment or remedy.model or remedy.version):
        return None
    flags = {name: value for name, value in {**base.flags, **remedy.flags}.items() if value is not None}
    given = {k: v for k, v in base.given.items() if k not in MOVES.get(remedy.lever, ())}
    pool = observed_pool(case)
    if pool is not None and case.stage == "kv_check":
        if remedy.lever in SAME_POOL:
            given["available_kv"] = pool
        elif remedy.lever in ("util_up", "util_down"):
            step = remedy.flags["gpu_memory_utilization"] - case.util
            given["available_kv"] = pool + round(step * base.gpus[0].total_bytes)
    if remedy.lever == "offload" and before is not None and before.ranks:
        # offloader/uva.py moves each layer's parameters right after it was built, so the peak falls with the weights
        moved = round(remedy.flags["cpu_offload_gb"] * GIB)
        terms = before.ranks[0].terms
        given |= {name: max(0, terms[name].bytes - moved) for name in ("weights", "load_peak") if name in terms}
    return msgspec.structs.replace(
        base,
        flags=flags,
        given=given,
        model=remedy.model or base.model,
        environment={**base.environment, **remedy.environment},
        engine=Engine("vllm", remedy.version, "remedy") if remedy.version else base.engine,
        gpus=base.gpus[:1] * remedy.gpus if remedy.gpus else base.gpus,
    )


def verify(case: Case, explanation: Explanation, planner: Planner, base: Deployment, before: Any) -> Explanation:
    """Those that fit are verified, those that do not are dropped, those that no plan can judge stay unverified."""
    kept: list[Remedy] = []
    for remedy in explanation.remedies:
        if remedy.lever == "checkpoint":
            kept += _checkpoints(case, remedy, planner, base, before) or [remedy]
        else:
            kept += _judged(case, remedy, planner, base, before)
    kept.sort(key=lambda r: (not r.verified, r.rank))
    rejected = explanation.rejected
    if any(
        "gpu_memory_utilization" in r.flags and r.lever != "util_up" for r in kept
    ):  # right only with the other change
        rejected = tuple(
            msgspec.structs.replace(r, advice=f"{r.advice} alone") if r.lever == "util_up" else r for r in rejected
        )
    return msgspec.structs.replace(explanation, remedies=tuple(kept), rejected=rejected)


def _judged(case: Case, remedy: Remedy, planner: Planner, base: Deployment, before: Any) -> Iterator[Remedy]:
    for _ in range(4):
        deployment = variant(case, remedy, base, before)
        plan = _plan(planner, deployment) if deployment is not None else None
        if deployment is None or plan is None:
            yield remedy
            return
        if plan.verdict.fits:
            yield msgspec.structs.replace(remedy, verified=True, gains_bytes=_gain(before, plan, remedy))
            return
        if _passed(case, plan.verdict.stage):
            yield remedy  # the plan dies where the real run did not: it is no judge here
            return
        again = _once_more(case, remedy, deployment, plan.verdict)
        if again is None:
            return
        remedy = again


def _once_more(case: Case, remedy: Remedy, deployment: Deployment, verdict: Any) -> Remedy | None:
    """The same remedy, stronger: more offloaded, or together with more utilization where only KV is short."""
    if remedy.lever == "offload":
        size = int(remedy.flags["cpu_offload_gb"]) + max(1, math.ceil(verdict.short_bytes / GIB))
        if size * GIB > deployment.gpus[0].total_bytes:
            return None
        more = advice.offload(case, size * GIB)
        return msgspec.structs.replace(more, command=command_of(case.rebuilt, more, remedy.model))
    if verdict.stage == "kv_check" and remedy.lever not in ("util_up", "util_down"):
        return with_utilization(case, remedy, deployment, verdict.short_bytes)
    return None


def _checkpoints(case: Case, remedy: Remedy, planner: Planner, base: Deployment, before: Any) -> list[Remedy]:
    """Other checkpoints of the same model that fit, the largest (least quantised) first."""
    from oomph import catalog

    found = []
    for name in catalog.variants(base.model):
        if name.lower() == base.model.lower():
            continue
        flags = dict.fromkeys(("quantization", "load_format", "dtype"))
        other = msgspec.structs.replace(remedy, change=name, model=name, flags=flags)
        for judged in _judged(case, other, planner, base, before):
            if judged.verified:
                entry = catalog.find(name)
                command = command_of(case.rebuilt, judged, name)
                size = entry.bytes if entry else 0
                costs = f"another checkpoint to download ({size / GIB:.1f} GiB)" if size else remedy.costs
                found.append((size, msgspec.structs.replace(judged, command=command, costs=costs)))
    return [r for _, r in sorted(found, key=lambda pair: -pair[0])[:3]]


def with_utilization(case: Case, remedy: Remedy, deployment: Deployment, short: int) -> Remedy | None:
    """The change alone gets past the failed stage and then has too little KV cache: with more utilization."""
    gpu = deployment.gpus[0]
    outside = deployment.given.get("context", CONTEXT_H200) + gpu.used_bytes
    most = min(0.95, floor2((gpu.total_bytes - outside - 0.3 * GIB) / gpu.total_bytes))
    now = float(remedy.flags.get("gpu_memory_utilization", case.util))
    value = min(most, max(0.92, floor2(now + (short + GIB) / gpu.total_bytes)))  # 0.92: the default since 0.20
    if value <= now + 0.01 or "gpu_memory_utilization" in remedy.flags:
        return None
    flags = {**remedy.flags, "gpu_memory_utilization": value}
    both = msgspec.structs.replace(remedy, change=f"{remedy.change} --gpu-memory-utilization {value}", flags=flags)
    return msgspec.structs.replace(both, command=command_of(case.rebuilt, both, remedy.model))


def _passed(case: Case, stage: str | None) -> bool:
    """The real run was already beyond this stage when it died."""
    if stage is None or not case.stage or stage not in ORDER or case.stage not in ORDER:
        return False
    return ORDER.index(stage) < ORDER.index(case.stage) and stage != "other"


def _plan(planner: Planner, deployment: Deployment | None) -> Any:
    try:
        return planner(deployment) if deployment is not None else None
    except OomphError:
        return None


def _gain(before: Any, after: Any, remedy: Remedy) -> int:
    """What the failing stage needs less; a rule's own arithmetic stands where it has one."""
    if remedy.gains_bytes or before is None or before.verdict.fits:
        return remedy.gains_bytes
    stage = before.verdict.stage
    if stage == "kv_check" and before.kv and after.kv:
        old, new = (p.kv.available_bytes - p.kv.need_bytes for p in (before, after))
        return max(0, int(new - old))
    old, new = _peak(before, stage), _peak(after, stage)
    return max(0, old - new) if old and new else 0


def _peak(plan: Any, stage: str | None) -> int:
    return next((int(s.peak_bytes) for rank in plan.ranks[:1] for s in rank.stages if s.name == stage), 0)
