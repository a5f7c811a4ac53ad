"""Models as JSON: the contract's style. Additions are fine, renames are not."""

from __future__ import annotations

from typing import Any

import msgspec

from oomph.commands import to_command
from oomph.search.models import Models
from oomph.search.picks import Pick


def models_json(answer: Models) -> dict[str, Any]:
    return {
        "schema": 1,
        "gpus": [{"name": g.name, "total_bytes": g.total_bytes, "used_bytes": g.used_bytes} for g in answer.gpus],
        "asked": {
            "for": answer.purpose, "context": answer.context if answer.context_asked else None,
            "users": answer.users, "prefer": answer.prefer,
        },
        "least_context": answer.context,
        "why": answer.why,
        "picks": [pick_json(pick) for pick in answer.picks],
        "looked_at": answer.looked_at,
        "possible": answer.possible,
        "plans": answer.plans,
        "more": answer.more,
        "interrupted": answer.interrupted,
    }  # fmt: skip


def pick_json(pick: Pick) -> dict[str, Any]:
    speed = pick.speed
    return {
        "model": pick.model,
        "checkpoint": pick.checkpoint,
        "quantization": pick.quantization,
        "engine": pick.engine,
        "context": pick.context,
        "users": pick.users,
        "users_held": pick.capacity,
        "tokens_per_second": round(speed.one_user, 1) if speed else None,
        "tokens_per_second_all": round(speed.all_users, 1) if speed else None,
        "first_token_seconds": round(speed.first_token_seconds, 3) if speed else None,
        "prompt_tokens": speed.prompt if speed else None,
        "speed_within_factor": speed.factor if speed else None,
        "quality": {
            "grade": pick.quality.grade, "value": pick.quality.value, "low": pick.quality.low,
            "high": pick.quality.high, "published": pick.quality.published, "source": pick.quality.source,
            "kept": list(pick.quality.recovery),
        },
        "room_bytes": pick.room_bytes,
        "parameters": pick.parameters,
        "active_parameters": pick.active,
        "date": pick.date or None,
        "licence": pick.licence or None,
        "command": pick.command,
        "args": to_command(pick.plan.deployment),
        "outcome": pick.plan.verdict.outcome,
        "traded": pick.traded,
        "others": msgspec.to_builtins(pick.others),
    }  # fmt: skip
