"""What `explain` answers: the stage, the cause, the ledger, what fixes it, what does not, and what each rests on."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from oomph.doctor.ledger import Entry
from oomph.doctor.rule import Rejected, Remedy
from oomph.ir.advice import Advice, advice_fields


class EngineInfo(Struct, frozen=True):
    name: str
    version: str = ""
    version_from: str = ""


class Cause(Struct, frozen=True):
    id: str
    title: str
    text: str
    sure: bool = True
    score: int = 0  # the tier's number
    tier: str = ""  # "said", "computed", "likely", "possible", "remark"; "" where no rule speaks


class Possible(Struct, frozen=True):
    id: str
    title: str
    score: int
    text: str
    settle: str = ""
    tier: str = ""


class Evidence(Struct, frozen=True):
    line: int
    text: str


class Explanation(Struct, frozen=True):
    engine: EngineInfo
    failed: bool | None  # None: the text does not tell; `settle` says what would
    stage: str | None
    cause: Cause
    ledger: tuple[Entry, ...] = ()
    unaccounted_bytes: int | None = None
    remedies: tuple[Remedy, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    candidates: tuple[Possible, ...] = ()
    settle: str = ""  # what would decide between the candidates, or whether it failed at all
    stage_basis: str = ""
    model: str = ""
    command: str = ""
    total_bytes: int = 0
    notes: tuple[str, ...] = ()
    inferred_stage: str | None = None  # of a log without an error: where it would have died, never a failure
    inferred_reason: str = ""
    advice: Advice | None = None  # planned; `remedies` and `rejected` are views of it, with what no plan can judge


def noted(explanation: Explanation, *notes: str) -> Explanation:
    """With these notes behind those it has."""
    more = tuple(note for note in notes if note and note not in explanation.notes)
    return msgspec.structs.replace(explanation, notes=(*explanation.notes, *more)) if more else explanation


def to_json(explanation: Explanation) -> dict[str, Any]:
    """The contract of the command line: schema 1."""
    built: dict[str, Any] = msgspec.to_builtins(explanation)
    built["remedies"] = [
        {k: r[k] for k in ("change", "kind", "gains_bytes", "verified", "costs", "command")} | {"lever": r["lever"]}
        for r in built["remedies"]
    ]
    built.pop("advice")
    advice = {} if explanation.advice is None else {"advice": advice_fields(explanation.advice)}
    return {"schema": 1, **built, **advice}
