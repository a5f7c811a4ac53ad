"""Remedies are planned before they are printed: the rebuilt deployment with one change, observed terms pinned."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import msgspec

from oomph.doctor.case import Case
from oomph.doctor.explain import Explanation
from oomph.doctor.rule import Remedy
from oomph.errors import OomphError
from oomph.facts.gpus import GpuRow, rows
from oomph.facts.vllm.versions import nearest
from oomph.ir.deployment import Deployment, Engine
from oomph.ir.hardware import Device
from oomph.units import GIB

Planner = Callable[[Deployment], Any]
ROUNDING = GIB // 80  # totals are printed in hundredths of a GiB


def planned(case: Case, explanation: Explanation) -> Explanation:
    """With the real planner. A log that does not name model or GPU stays as it is, and a note says what is missing."""
    if explanation.engine.name != "vllm" or not explanation.remedies:
        return explanation
    base = deployment_of(case)
    if base is None:
        missing = "the model" if not case.rebuilt.model else "the GPU (--gpu)"
        note = f"the remedies are not planned: the log does not say {missing}"
        return msgspec.structs.replace(explanation, notes=(*explanation.notes, note))
    try:
        planner = import_module("oomph.plan").plan
    except ImportError:
        return explanation
    return verify(explanation, planner, base, dict(variants(case, explanation, base)))


def deployment_of(case: Case) -> Deployment | None:
    rebuilt = case.rebuilt
    gpus = devices(case)
    if not rebuilt.model or not gpus:
        return None
    try:
        version, _ = nearest(rebuilt.version) if rebuilt.version else nearest("0.32.0")
    except OomphError:
        return None
    engine = Engine("vllm", version, rebuilt.version_from or "newest known")
    flags = {name: value for name, value in rebuilt.flags.items() if value is not None}
    return Deployment(engine, rebuilt.model, flags, gpus, rebuilt.environment, given=observed(case))


def devices(case: Case) -> tuple[Device, ...]:
    """As given, else one GPU per rank with the total that the log prints."""
    count = case.tp * max(1, case.whole("pipeline_parallel_size") or 1)
    if case.gpus:
        return case.gpus if len(case.gpus) >= count else case.gpus[:1] * count
    total = case.total
    if not total:
        return ()
    used = min(case.account.get("others") or 0, total - 1)
    row = gpu_row(total, _capability(case))
    device = row.device(used_bytes=used, total_bytes=total) if row else Device("GPU", total, used_bytes=used)
    return (device,) * count


def gpu_row(total: int, capability: str = "") -> GpuRow | None:
    """The card whose total is the printed one; of several the one with the capability the log mentions."""
    close = [row for row in rows() if abs(row.total_bytes - total) <= ROUNDING]
    same = [row for row in close if capability and "{}.{}".format(*row.capability) == capability]
    found = same or close
    return min(found, key=lambda row: abs(row.total_bytes - total)) if found else None


def _capability(case: Case) -> str:
    o = case.first("capability")
    return str(o.values.get("capability", "")) if o else ""


def observed(case: Case) -> dict[str, int]:
    """Terms that no flag of a remedy moves: what the loaded weights really took."""
    weights = case.value("weights", "weights")
    return {"weights": weights} if weights else {}


def variants(case: Case, explanation: Explanation, base: Deployment) -> Iterator[tuple[str, Deployment]]:
    """change -> the deployment with it, for every remedy that a plan can judge."""
    for remedy in explanation.remedies:
        changed = variant(remedy, base)
        if changed is not None:
            yield remedy.change, changed


def variant(remedy: Remedy, base: Deployment) -> Deployment | None:
    if remedy.kind in ("host", "none") or not (remedy.flags or remedy.environment or remedy.model or remedy.version):
        return None
    flags = {**base.flags, **remedy.flags}
    flags = {name: value for name, value in flags.items() if value is not None}
    moves_weights = (
        remedy.model or remedy.gpus or remedy.lever in ("offload", "dtype", "tp", "pp", "lora", "lora_rank", "no_spec")
    )
    return msgspec.structs.replace(
        base,
        flags=flags,
        model=remedy.model or base.model,
        environment={**base.environment, **remedy.environment},
        engine=Engine("vllm", remedy.version, "remedy") if remedy.version else base.engine,
        gpus=base.gpus[:1] * remedy.gpus if remedy.gpus else base.gpus,
        given={} if moves_weights else base.given,
    )


def verify(explanation: Explanation, planner: Planner, base: Deployment, changed: dict[str, Deployment]) -> Explanation:
    """Those that fit are verified, those that do not are dropped, those that no plan can judge stay unverified."""
    before = _plan(planner, base)
    kept = []
    for remedy in explanation.remedies:
        deployment = changed.get(remedy.change)
        plan = _plan(planner, deployment) if deployment is not None else None
        if plan is None:
            kept.append(remedy)
        elif plan.verdict.fits:
            kept.append(msgspec.structs.replace(remedy, verified=True, gains_bytes=_gain(before, plan, remedy)))
    kept.sort(key=lambda r: (not r.verified, r.rank))
    return msgspec.structs.replace(explanation, remedies=tuple(kept))


def _plan(planner: Planner, deployment: Deployment) -> Any:
    try:
        return planner(deployment)
    except OomphError:
        return None


def _gain(before: Any, after: Any, remedy: Remedy) -> int:
    """What the failing stage needs less; a rule's own arithmetic stands where it has one."""
    if remedy.gains_bytes or before is None or before.verdict.fits:
        return remedy.gains_bytes
    stage = before.verdict.stage
    old, new = _peak(before, stage), _peak(after, stage)
    return max(0, old - new) if old and new else 0


def _peak(plan: Any, stage: str | None) -> int:
    for rank in getattr(plan, "ranks", ())[:1]:
        for s in getattr(rank, "stages", ()):
            if s.name == stage:
                return int(s.peak_bytes)
    return 0
