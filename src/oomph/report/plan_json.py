"""A plan as JSON: the contract. Additions are fine, renames are not."""

from __future__ import annotations

from typing import Any

from oomph.ir.advice import advice_fields
from oomph.ir.ledger import Term
from oomph.ir.plan import Plan, RankPlan
from oomph.ir.timeline import Verdict

SCHEMA = 1


def plan_json(plan: Plan) -> dict[str, Any]:
    engine = plan.deployment.engine
    return {
        "schema": SCHEMA,
        "engine": {"name": engine.name, "version": engine.version, "version_from": engine.version_from},
        "model": plan.model,
        "verdict": _verdict(plan.verdict),
        "ranks": [_rank(r) for r in plan.ranks],
        "kv": _kv(plan),
        "resolved": plan.resolved,
        "assumptions": list(plan.assumptions),
        "warnings": list(plan.warnings),
        **({} if plan.advice is None else {"advice": advice_fields(plan.advice)}),
    }  # fmt: skip


def _verdict(v: Verdict) -> dict[str, Any]:
    margin = v.margin
    return {
        "outcome": v.outcome, "fits": v.fits, "stage": v.stage, "short_bytes": v.short_bytes, "message": v.message,
        "rank": v.rank, "sure": v.outcome in ("fits", "fails"), "first_to_break": v.first_to_break, "risk": v.risk,
        "margin_bytes": {"low": margin.low, "expected": margin.expected, "high": margin.high} if margin else None,
        "deciding_term": v.deciding_term, "asked_margin_bytes": v.asked_bytes,
    }  # fmt: skip


def _rank(r: RankPlan) -> dict[str, Any]:
    terms = {name: _term(t) for name, t in r.terms.items()}
    terms["weights"]["created_bytes"] = r.created_bytes
    return {
        "rank": r.rank,
        "gpu": r.gpu,
        "total_bytes": r.total_bytes,
        "used_by_others_bytes": r.used_by_others_bytes,
        "requested_bytes": r.requested_bytes,
        "terms": terms,
        "stages": [
            {"name": s.name, "resident_bytes": s.resident_bytes, "peak_bytes": s.peak_bytes, "note": s.note}
            for s in r.stages
        ],
    }


def _term(t: Term) -> dict[str, Any]:
    return {"bytes": t.bytes, "low": t.low, "high": t.high, "basis": t.basis, "parts": t.parts, "why": t.why}


def _kv(plan: Plan) -> dict[str, Any] | None:
    kv = plan.kv
    if kv is None:
        return None
    return {
        "available_bytes": kv.available_bytes, "num_blocks": kv.num_blocks, "bytes_per_block": kv.bytes_per_block,
        "block_size": kv.block_size, "logged_tokens": kv.logged_tokens, "max_concurrency": kv.max_concurrency,
        "need_bytes": kv.need_bytes, "longest_request": kv.longest_request,
        "groups": [
            {"kind": g.kind, "layers": g.layers, "block_size": g.block_size, "page_bytes": g.page_bytes,
             "blocks_per_request": g.blocks_per_request}
            for g in kv.groups
        ],
        "log_lines": list(kv.log_lines),
    }  # fmt: skip
