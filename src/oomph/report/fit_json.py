"""A fit as JSON: the contract's style. Additions are fine, renames are not."""

from __future__ import annotations

from typing import Any

from oomph.commands import to_command, to_shell
from oomph.report.plan_json import plan_json
from oomph.search.fit import Answer, Fit


def fit_json(found: Fit) -> dict[str, Any]:
    want = found.want
    return {
        "schema": 1,
        "model": found.model,
        "gpus": [{"name": g.name, "total_bytes": g.total_bytes, "used_bytes": g.used_bytes} for g in found.gpus],
        "asked": {"context": want.context or None, "users": want.users or None, "prefer": want.prefer or None},
        "met": found.met,
        "close": found.close,
        "pick": None if found.pick is None else {**answer_json(found.pick), "plan": plan_json(found.pick.plan)},
        "front": [answer_json(a) for a in found.front],
        "nearest": [answer_json(a) for a in found.nearest],
        "neighbours": [{"change": n.change, "why": n.why} for n in found.neighbours],
        "refused": [{"checkpoint": r.checkpoint, "why": r.why} for r in found.refused],
        "plans": found.plans,
        "notes": list(found.notes),
    }


def answer_json(answer: Answer) -> dict[str, Any]:
    p, kv = answer.point, answer.plan.kv
    return {
        "checkpoint": p.arm.model,
        "precision": answer.precision,
        "context": p.context,
        "users": p.users,
        "quality_loss": p.quality,
        "relative_speed": answer.relative_speed,
        "gives_up": list(answer.gives_up),
        "gpus": p.arm.layout.gpus,
        "flags": answer.plan.deployment.flags,
        "command": to_shell(answer.plan.deployment),
        "args": to_command(answer.plan.deployment),
        "kv_tokens": kv.logged_tokens if kv else 0,
        "concurrency": kv.max_concurrency if kv else 0.0,
        "concurrency_at_worst": p.concurrency,
        "tokens_per_second": round(answer.speed.one_user, 1) if answer.speed else None,
        "tokens_per_second_all": round(answer.speed.all_users, 1) if answer.speed else None,
        "first_token_seconds": round(answer.speed.first_token_seconds, 3) if answer.speed else None,
        "speed_within_factor": answer.speed.factor if answer.speed else None,
    }
