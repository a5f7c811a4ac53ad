"""Remedies are planned before they are printed: the rebuilt deployment with one change, observed terms pinned."""

import shlex
from collections.abc import Callable
from typing import Any

import msgspec

from oomph.doctor.case import Case
from oomph.doctor.diagnose import explain_case
from oomph.doctor.enrich import names, with_model, with_plan
from oomph.doctor.explanation import Explanation, noted
from oomph.doctor.levers import changes
from oomph.doctor.prior import contradiction, with_prior
from oomph.doctor.reading.meanings import ORDER, TROUBLES
from oomph.doctor.remedies import Run, can_be_planned, judge_remedies
from oomph.engines.common.inferred import by_plan
from oomph.engines.protocol import fills
from oomph.engines.registry import DEFAULT, engine_named
from oomph.errors import OomphError
from oomph.ir import Change, Deployment, Judged, Model

Planner = Callable[[Deployment], Any]
Loader = Callable[[str], Model]


def planned(case: Case, *, planner: Planner | None = None, loader: Loader | None = None) -> Explanation:
    """With the real planner. A log that does not name model or GPU is explained by what it says, and a note says what
    is missing. The rules look once: at the case with its plan, where there is one."""
    engine = engine_named(case.rebuilt.engine or DEFAULT)
    if not case.rebuilt.engine or not fills(engine, "failed_deployment") or case.death.kind in TROUBLES:
        return explain_case(case)  # of a text that names no engine nothing was started that could be planned
    base = engine.failed_deployment(case)
    if base is None:
        explanation = explain_case(case)
        plannable = any(can_be_planned(one.change) for one in explanation.remedies)
        return noted(explanation, _missing(case)) if plannable else explanation
    base = msgspec.structs.replace(base, own_build=True)  # it ran: whatever published packages lack, this build had
    if planner is None or loader is None:
        from oomph.answers.plan import load, run

        planner, loader = planner or run, loader or load
    try:
        model, base = _model(base, loader)
        before = planner(base)
        foreseen = with_prior(with_model(case, model) if model is not None else case, before.verdict)
        pool = observed_pool(foreseen, before)
        exact = planner(_with_pool(base, pool)) if pool is not None else before
    except OomphError as error:
        return noted(explain_case(case), f"not planned: {error.message}")
    case, explanation = foreseen, explain_case(foreseen)
    explanation = _inferred(case, with_plan(case, shown(explanation, base), exact), exact.verdict)
    explanation = noted(explanation, contradiction(case, exact.verdict))
    if not case.failed and any(one.change.lever == "nothing" for one in explanation.remedies):
        return explanation  # a figure was misread: there is nothing to fix, and nothing to judge
    effective = tuple(one for one in explanation.remedies if not in_force(one.change, before))
    explanation = msgspec.structs.replace(explanation, remedies=effective)
    if case.failed and (exact.verdict.fits or case.stage in ("runtime_request", "host_ram")):
        why = (
            "a start-up plan does not see it"
            if case.stage in ("runtime_request", "host_ram")
            else "by the plan it fits"
        )
        return noted(explanation, f"the remedies are not verified: the failure is not reproduced ({why})")
    refused = not exact.verdict.fits and exact.verdict.stage == "other" and case.stage not in ("other", "")
    if case.failed and refused:  # the log got past what the plan is refused for
        reason = " ".join(str(exact.verdict.message).split())[:160]
        return noted(explanation, f"the remedies are not verified: the plan does not start ({reason})")
    if _passed(case, exact.verdict.stage):
        why = "the plan dies before the log did, so that it cannot judge them"
        return noted(explanation, f"the remedies are not verified: {why}")
    failed_run = Run(case, exact, before, model, planner, pool)
    judged = judge_remedies(failed_run, explanation)
    if _passed(case, before.verdict.stage):  # what it says of a change that stays on this card is not to be believed
        judged = _beside_the_judge(explanation, judged)
    return with_warm_start(failed_run, judged)


def shown(explanation: Explanation, base: Deployment) -> Explanation:
    """What was planned is said, also where the log's own lines do not have it: the command, its model and the card."""
    engine = engine_named(base.engine.name)
    command = explanation.command
    if not command:
        try:
            command = shlex.join(engine.write_command(base))
        except OomphError:
            command = ""
    return msgspec.structs.replace(
        explanation,
        model=explanation.model or base.model,
        command=command,
        total_bytes=explanation.total_bytes or (base.gpus[0].total_bytes if base.gpus else 0),
    )


def _beside_the_judge(explanation: Explanation, judged: Explanation) -> Explanation:
    """The rule's own remedies stay, unverified, among those that fit: the cheapest first, other cards last."""
    names = {one.change.lever for one in judged.remedies}
    own = [one for one in explanation.remedies if one.change.lever not in names]
    remedies = sorted(
        (*judged.remedies, *own), key=lambda one: (one.change.kind == "hardware", one.change.rank, not one.verified)
    )
    return msgspec.structs.replace(judged, remedies=tuple(remedies))


def in_force(change: Change, plan: Any) -> bool:
    """What the remedy sets is what the engine has resolved already: the default, or what the command says."""
    settings = plan.resolved if isinstance(plan.resolved, dict) else msgspec.to_builtins(plan.resolved)
    if change.kind != "flag" or not change.flags:
        return False
    return all(value is not None and settings.get(name) == value for name, value in change.flags.items())


def with_warm_start(run: Run, explanation: Explanation) -> Explanation:
    """The KV check failed on a first start: what torch.compile took for tuning is not taken the next time."""
    case, pool = run.case, run.pool
    if not case.failed or case.stage != "kv_check" or pool is None or not case.has("compiled_cold"):
        return explanation
    try:
        plan = run.plan_changed(msgspec.structs.replace(run.plan.deployment, compile_cache="warm"))
    except OomphError:
        return explanation
    if plan.verdict.outcome != "fits" or not plan.kv:
        return explanation
    (change,) = changes(case, ("again",))
    cost = "torch.compile's cache is filled now (in a container: keep ~/.cache/vllm)"
    gain = max(0, plan.kv.available_bytes - pool)
    change = msgspec.structs.replace(change, cost=cost)
    again = Judged(change, "fixes", "fits", gain_bytes=gain, command=run.write(run.plan.deployment))
    return msgspec.structs.replace(explanation, remedies=(again, *explanation.remedies))


def _missing(case: Case) -> str:
    gpu, model = bool(case.gpus or case.account.total or case.named_gpu), bool(case.rebuilt.model)
    what = " and ".join(name for name, value in (("the model", model), ("the GPU", gpu)) if not value) or "the release"
    engine = engine_named(case.rebuilt.engine or DEFAULT)
    words_of_start = engine.serve_command("MODEL") if fills(engine, "serve_command") else [engine.programs[0], "MODEL"]
    command = shlex.join(words_of_start)
    words = (('--gpu "RTX 4090"', gpu), (f"-- {command} ...", model))
    missing = " ".join(word for word, value in words if not value)
    return f"not planned: the log does not say {what}; oomph explain LOG {missing}".rstrip()


def _inferred(case: Case, explanation: Explanation, verdict: Any) -> Explanation:
    """A log without an error: where the plan of the same deployment dies, if the run had not got that far."""
    sentence = (
        None
        if verdict.fits or explanation.cause.id != "none"
        else by_plan(case, verdict.stage, verdict.short_bytes, verdict.message)
    )
    if sentence is None:
        return explanation
    stage, reason = sentence
    return msgspec.structs.replace(
        explanation, stage=stage, stage_basis="inferred", inferred_stage=stage, inferred_reason=reason
    )


def _model(base: Deployment, load: Loader) -> tuple[Model | None, Deployment]:
    """None for engines that place the layers of a GGUF file: their planner finds the file by the command's own name."""
    if engine_named(base.engine.name).layout == "placed":
        return None, base
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
    tokens = case.value("kv_need_v0", "tokens")  # the old engine counts what is left in tokens
    return int(tokens // before.kv.block_size * before.kv.bytes_per_block) if tokens and before.kv else None


def _with_pool(deployment: Deployment, pool: int) -> Deployment:
    return msgspec.structs.replace(deployment, given={**deployment.given, "available_kv": pool})


def _passed(case: Case, stage: str | None) -> bool:
    """The real run was already beyond this stage when it died."""
    if stage is None or not case.stage or stage not in ORDER or case.stage not in ORDER:
        return False
    return ORDER.index(stage) < ORDER.index(case.stage) and stage != "other"
