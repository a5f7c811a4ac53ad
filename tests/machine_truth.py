"""Posted starts on machines other than a clean NVIDIA card (tests/truth/machines.jsonl), and our plan of each.

A row has what a post says: the machine as --gpu takes it, the command (with a stand-in of the same shape where the
checkpoint is in no catalogue), whether the server started, where it died, whether the host was lost, and KV memory.
Rows without a command say why in `note`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from oomph.answers.plan import plan
from oomph.ir.plan import Plan
from oomph.units import GIB

FILE = Path(__file__).parent / "truth" / "machines.jsonl"
ROUNDING = 0.01 * GIB


def rows() -> list[dict[str, Any]]:
    return [json.loads(line) for line in FILE.read_text().splitlines()]


def planned(row: dict[str, Any]) -> Plan:
    names = {"llama.cpp": "llamacpp", "vllm": "vllm", "sglang": "sglang", "ollama": "ollama"}
    engine = f"{names[row['engine']]}=={row['release']}" if row["release"] else ""
    return plan(row["command"], gpu=row["gpu"], engine=engine, ram=row.get("ram", ""), advise=False)


def grade(row: dict[str, Any], foreseen: Plan) -> str:
    """right, unsure or wrong; "" where the run ended for another reason than memory. A start that killed or swapped its
    host, or died of a later request, is `at_risk`; one that held may be called at_risk or close, but not refused."""
    outcome = foreseen.verdict.outcome
    if row["outcome"] == "not_memory":
        return ""
    if outcome == "close":
        return "unsure"
    if row["outcome"] in ("started", "figures_only"):
        if row["host_lost"]:
            return "right" if outcome == "at_risk" else "wrong"
        return {"fits": "right", "at_risk": "unsure", "fails": "wrong"}[outcome]
    if row["outcome"] == "started_then_failed" or row["host_lost"]:
        return "right" if outcome in ("at_risk", "fails") else "wrong"
    return {"fails": "right", "at_risk": "unsure", "fits": "wrong"}[outcome]


def kv_inside(row: dict[str, Any], foreseen: Plan) -> bool | None:
    """None: the post has no figure, or the plan does not get that far."""
    term = foreseen.ranks[0].terms.get("available_kv") if foreseen.ranks else None
    if row["kv_gib"] is None or term is None or term.basis == "given":
        return None
    return term.low - ROUNDING <= row["kv_gib"] * GIB <= term.high + ROUNDING
