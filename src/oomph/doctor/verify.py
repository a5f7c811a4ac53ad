"""Remedies are planned before they are printed: the rebuilt deployment with one change, observed terms pinned."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from msgspec import Struct

from oomph.doctor import advice
from oomph.doctor.advice import floor2
from oomph.doctor.case import Case
from oomph.doctor.diagnose import command_of, explain_case
from oomph.doctor.enrich import names, with_model, with_plan
from oomph.doctor.explanation import Explanation, noted
from oomph.doctor.inferred_vllm import by_plan
from oomph.doctor.meanings import ORDER, TROUBLES
from oomph.doctor.prior import contradiction, with_prior
from oomph.doctor.rule import Remedy, Tier
from oomph.engines.protocol import fills
from oomph.engines.registry import engine_named
from oomph.errors import OomphError
from oomph.facts.vllm.facts import at
from oomph.facts.vllm.outside import context_bytes
from oomph.facts.vllm.versions import NEWEST
from oomph.ir.deployment import Deployment, Engine
from oomph.ir.model import Model
from oomph.units import GIB, gib

Planner = Callable[[Deployment], Any]
Loader = Callable[[str], Model]

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


def planned(
    case: Case, explanation: Explanation, *, planner: Planner | None = None, loader: Loader | None = None
) -> Explanation:
    """With the real planner. A log that does not name model or GPU stays as it is, and a note says what is missing."""
    engine = engine_named(explanation.engine.name)
    if not fills(engine, "failed_deployment") or case.death.kind in TROUBLES:
        return explanation
    base = engine.failed_deployment(case)
    if base is None:
        plannable = any(r.flags or r.model or r.version or r.gpus for r in explanation.remedies)
        return noted(explanation, _missing(case)) if plannable else explanation
    if planner is None or loader is None:
        from oomph.plan import load, plan

        planner, loader = planner or plan, loader or load
    try:
        model, base = _model(base, loader)
        before = planner(base)
        case = with_prior(with_model(case, model), before.verdict)
        explanation = explain_case(case)
        pool = observed_pool(case, before)
        exact = planner(_with_pool(base, pool)) if pool is not None else before
    except OomphError as error:
        return noted(explanation, f"not planned: {error.message}")
    explanation = _inferred(case, with_plan(case, explanation, exact), exact.verdict)
    explanation = noted(explanation, contradiction(case, exact.verdict))
    kept = tuple(r for r in explanation.remedies if not in_force(r, before))
    explanation = msgspec.structs.replace(explanation, remedies=kept)
    if case.failed and (exact.verdict.fits or case.stage in ("runtime_request", "host_ram")):
        why = (
            "a start-up plan does not see it"
            if case.stage in ("runtime_request", "host_ram")
            else "by the plan it fits"
        )
        return noted(explanation, f"the remedies are not verified: the failure is not reproduced ({why})")
    judge = Judge(case, planner, base, before, pool)
    return with_warm_start(judge, verify(case, explanation, judge))


def in_force(remedy: Remedy, plan: Any) -> bool:
    """What the remedy sets is what the engine has resolved already: the default, or what the command says."""
    settings = plan.resolved if isinstance(plan.resolved, dict) else msgspec.to_builtins(plan.resolved)
    if remedy.kind != "flag" or not remedy.flags:
        return False
    return all(value is not None and settings.get(name) == value for name, value in remedy.flags.items())


def with_warm_start(judge: Judge, explanation: Explanation) -> Explanation:
    """The KV check failed on a first start: what torch.compile took for tuning is not taken the next time."""
    case, pool = judge.case, judge.pool
    if not case.failed or case.stage != "kv_check" or pool is None or not case.has("compiled_cold"):
        return explanation
    warm = msgspec.structs.replace(judge.base, compile_cache="warm")
    plan = judge.plan(warm)
    if plan is None or not plan.verdict.fits or not plan.kv or not judge.before.kv:
        return explanation
    again = Remedy("again", "start it again as it is", "none", rank=0, verified=True,
                   gains_bytes=max(0, plan.kv.available_bytes - pool),
                   costs="torch.compile's cache is filled now (in a container: keep ~/.cache/vllm)",
                   command=command_of(case.rebuilt, Remedy("again", "")))  # fmt: skip
    return msgspec.structs.replace(explanation, remedies=(again, *explanation.remedies))


def _missing(case: Case) -> str:
    gpu, model = bool(case.gpus or case.account.total or case.named_gpu), bool(case.rebuilt.model)
    what = " and ".join(name for name, known in (("the model", model), ("the GPU", gpu)) if not known) or "the release"
    given = " ".join(
        word for word, known in (('--gpu "RTX 4090"', gpu), ("-- vllm serve MODEL ...", model)) if not known
    )
    return f"not planned: the log does not say {what}; oomph explain LOG {given}".rstrip()


def _inferred(case: Case, explanation: Explanation, verdict: Any) -> Explanation:
    """A log without an error: where the plan of the same deployment dies, if the run had not got that far."""
    told = (
        None
        if verdict.fits or explanation.cause.id != "none"
        else by_plan(case, verdict.stage, verdict.short_bytes, verdict.message)
    )
    if told is None:
        return explanation
    stage, reason = told
    return msgspec.structs.replace(
        explanation, stage=stage, stage_basis="inferred", inferred_stage=stage, inferred_reason=reason
    )


def _model(base: Deployment, load: Loader) -> tuple[Model, Deployment]:
    refused: OomphError | None = None
    for name in names(base.model):
        try:
            return load(name), msgspec.structs.replace(base, model=name)
        except OomphError as error:
            refused = refused or error
    assert refused is not None
    raise refused


def observed_pool(case: Case, before: Any) -> int | None:
    """What the log says is left for KV."""
    blocks = case.value("mamba_blocks", "blocks")
    if blocks and before.kv:
        return int(blocks * before.kv.bytes_per_block)
    for kind in ("available_kv", "kv_need", "v0_terms"):
        value = case.value(kind, "available")
        if value is not None:
            return value
    return None


def variant(remedy: Remedy, base: Deployment, before: Any = None) -> Deployment | None:
    """The deployment with the change; None where no plan can judge it."""
    if remedy.kind in ("host", "none") or not (remedy.flags or remedy.environment or remedy.model or remedy.version):
        return None
    flags = {name: value for name, value in {**base.flags, **remedy.flags}.items() if value is not None}
    given = {k: v for k, v in base.given.items() if k not in MOVES.get(remedy.lever, ())}
    if remedy.lever == "offload" and before is not None and before.ranks:
        # offloader/uva.py moves each layer's parameters right after it was built, so the peak falls with the weights
        before_it = base.flags.get("cpu_offload_gb") or 0  # the observed weights are without what is offloaded already
        moved = round((remedy.flags["cpu_offload_gb"] - before_it) * GIB)
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


class Judge(Struct, frozen=True):
    """Plans one change at a time against the failed run."""

    case: Case
    planner: Planner
    base: Deployment
    before: Any
    pool: int | None  # observed: a change moves it by as much as it moves the planned one

    def plan(self, deployment: Deployment) -> Any:
        try:
            plan = self.planner(deployment)
            if self.pool is None or self.case.stage != "kv_check" or not plan.kv or not self.before.kv:
                return plan
            left = self.pool + plan.kv.available_bytes - self.before.kv.available_bytes
            return self.planner(_with_pool(deployment, left))
        except OomphError:
            return None


def _with_pool(deployment: Deployment, pool: int) -> Deployment:
    return msgspec.structs.replace(deployment, given={**deployment.given, "available_kv": pool})


def verify(case: Case, explanation: Explanation, judge: Judge) -> Explanation:
    """Those that fit are verified, those that do not are dropped, those that no plan can judge stay unverified."""
    kept: list[Remedy] = []
    for remedy in explanation.remedies:
        kept += _checkpoints(judge, remedy) or [remedy] if remedy.lever == "checkpoint" else _judged(judge, remedy)
    if not kept and explanation.remedies:
        said = explanation.cause.score >= Tier.SAID
        why = "the remedies are the engine's own; the plan does not confirm them"
        return noted(explanation, why if said else "by the plan none of these is enough alone: take several together")
    kept.sort(key=lambda r: (not r.verified, r.rank))
    rejected = explanation.rejected
    if any("gpu_memory_utilization" in r.flags and r.lever != "util_up" for r in kept):
        rejected = tuple(
            msgspec.structs.replace(r, advice=f"{r.advice} alone") if r.lever == "util_up" else r for r in rejected
        )
    return msgspec.structs.replace(explanation, remedies=tuple(kept), rejected=rejected)


def _judged(judge: Judge, remedy: Remedy) -> Iterator[Remedy]:
    case = judge.case
    for _ in range(4):
        deployment = variant(remedy, judge.base, judge.before)
        plan = judge.plan(deployment) if deployment is not None else None
        if deployment is None or plan is None:
            yield remedy
            return
        if plan.verdict.fits:
            yield msgspec.structs.replace(remedy, verified=True, gains_bytes=_gain(judge.before, plan, remedy))
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
    if remedy.lever == "util_up" and verdict.stage == "kv_check" and set(remedy.flags) == {"gpu_memory_utilization"}:
        return _more_utilization(case, remedy, deployment)
    if remedy.lever == "offload":
        size = int(remedy.flags["cpu_offload_gb"]) + max(1, math.ceil(verdict.short_bytes / GIB))
        if size * GIB > deployment.gpus[0].total_bytes:
            return None
        more = advice.offload(case, (size - (case.whole("cpu_offload_gb") or 0)) * GIB)
        return msgspec.structs.replace(more, command=command_of(case.rebuilt, more, remedy.model))
    if verdict.stage == "kv_check" and remedy.lever not in ("util_up", "util_down"):
        return with_utilization(case, remedy, deployment, verdict.short_bytes)
    return None


def _more_utilization(case: Case, remedy: Remedy, deployment: Deployment) -> Remedy | None:
    """The same remedy a step higher, as far as the card's free memory goes."""
    now, most = float(remedy.flags["gpu_memory_utilization"]), most_utilization(deployment)
    if now + 0.01 > most:
        return None
    more = advice.utilization(case, min(most, now + 0.04), remedy.costs)
    return msgspec.structs.replace(more, command=command_of(case.rebuilt, more, remedy.model))


def most_utilization(deployment: Deployment) -> float:
    """What is free on the card as the log shows it, less a context and a little for what grows."""
    gpu = deployment.gpus[0]
    outside = deployment.given.get("context", context_bytes(gpu.sm_count)) + gpu.used_bytes
    return min(0.95, floor2((gpu.total_bytes - outside - 0.3 * GIB) / gpu.total_bytes))


def _checkpoints(judge: Judge, remedy: Remedy) -> list[Remedy]:
    """Other checkpoints of the same model that fit, the largest (least quantised) first."""
    from oomph import catalog

    found = []
    for name in catalog.variants(judge.base.model):
        if name.lower() == judge.base.model.lower():
            continue
        flags = dict.fromkeys(("quantization", "load_format", "dtype"))
        other = msgspec.structs.replace(remedy, change=name, model=name, flags=flags)
        for judged in _judged(judge, other):
            if judged.verified:
                entry = catalog.find(name)
                size = entry.bytes if entry else 0
                costs = f"another checkpoint to download ({size / GIB:.1f} GiB)" if size else remedy.costs
                command = command_of(judge.case.rebuilt, judged, name)
                found.append((size, msgspec.structs.replace(judged, command=command, costs=costs)))
    return [r for _, r in sorted(found, key=lambda pair: -pair[0])[:3]]


def with_utilization(case: Case, remedy: Remedy, deployment: Deployment, short: int) -> Remedy | None:
    """The change alone gets past the failed stage and then has too little KV cache: with more utilization."""
    gpu, most = deployment.gpus[0], most_utilization(deployment)
    now = float(remedy.flags.get("gpu_memory_utilization", case.util))
    value = min(most, max(at(NEWEST).limits.utilization, floor2(now + (short + GIB) / gpu.total_bytes)))
    if value <= now + 0.01 or "gpu_memory_utilization" in remedy.flags:
        return None
    flags = {**remedy.flags, "gpu_memory_utilization": value}
    change = f"{remedy.change} --gpu-memory-utilization {value}"
    costs = f"{remedy.costs}; alone it leaves {gib(short)} too little KV cache on a first start"
    both = msgspec.structs.replace(remedy, change=change, flags=flags, costs=costs)
    return msgspec.structs.replace(both, command=command_of(case.rebuilt, both, remedy.model))


def _passed(case: Case, stage: str | None) -> bool:
    """The real run was already beyond this stage when it died."""
    if stage is None or not case.stage or stage not in ORDER or case.stage not in ORDER:
        return False
    return ORDER.index(stage) < ORDER.index(case.stage) and stage != "other"


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
