"""A fit as JSON: the contract's style. Additions are fine, renames are not."""

from __future__ import annotations

from typing import Any

from oomph.commands import to_command, to_shell
from oomph.report.plan_json import plan_json
from oomph.search.fit import Answer, Fit


def fit_json(fit: Fit) -> dict[str, Any]:
    want = fit.want
    return {
        "schema": 1,
        "model": fit.model,
        "gpus": [{"name": g.name, "total_bytes": g.total_bytes, "used_bytes": g.used_bytes} for g in fit.gpus],
        "asked": {"context": want.context or None, "users": want.users or None, "prefer": want.prefer or None},
        "met": fit.met,
        "close": fit.close,
        "pick": None if fit.pick is None else {**answer_json(fit.pick), "plan": plan_json(fit.pick.plan)},
        "front": [answer_json(a) for a in fit.front],
        "nearest": [answer_json(a) for a in fit.nearest],
        "neighbours": [{"change": n.change, "why": n.why} for n in fit.neighbours],
        "refused": [{"checkpoint": r.checkpoint, "why": r.why} for r in fit.refused],
        "plans": fit.plans,
        "notes": list(fit.notes),
    }


def answer_json(answer: Answer) -> dict[str, Any]:
    point, kv = answer.point, answer.plan.kv
    return {
        "checkpoint": point.arm.model,
        "precision": answer.precision,
        "context": point.context,
        "users": point.users,
        "quality_loss": point.quality,
        "relative_speed": answer.relative_speed,
        "gives_up": list(answer.gives_up),
        "gpus": point.arm.layout.gpus,
        "flags": answer.plan.deployment.flags,
        "command": to_shell(answer.plan.deployment),
        "args": to_command(answer.plan.deployment),
        "kv_tokens": kv.logged_tokens if kv else 0,
        "concurrency": kv.max_concurrency if kv else 0.0,
        "concurrency_at_worst": point.concurrency,
        "tokens_per_second": round(answer.speed.one_user, 1) if answer.speed else None,
        "tokens_per_second_all": round(answer.speed.all_users, 1) if answer.speed else None,
        "first_token_seconds": round(answer.speed.first_token_seconds, 3) if answer.speed else None,
        "speed_within_factor": answer.speed.factor if answer.speed else None,
    }
