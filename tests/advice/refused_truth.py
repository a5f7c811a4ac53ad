"""Every command of the truth sets that an engine refuses before any memory is touched, as oomph plans it."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any, NamedTuple

from msgspec.structs import replace

import plan_truth
from engines.sglang import sglang_truth
from engines.vllm import kv_truth
from oomph.answers.plan import load, parse, plan, with_advice, with_gpus
from oomph.errors import OomphError
from oomph.ir.deployment import Deployment
from oomph.ir.model import Model
from oomph.ir.plan import Plan

_SIZES = ("tensor_parallel_size", "pipeline_parallel_size", "prefill_context_parallel_size", "data_parallel_size")


class Refused(NamedTuple):
    id: str
    deployment: Deployment
    model: Model


def _world(flags: dict[str, Any]) -> int:
    return prod(size for field in _SIZES if isinstance(size := flags.get(field, 1), int) and size > 0)


def _of_vllm() -> Iterator[Refused]:
    """Whole plans of vLLM's own Python."""
    for row in plan_truth.rows():
        if "message" not in row:
            continue
        card, sm, total = row["gpu"]
        gpu = {"name": card, "count": _world(row["flags"]), "total_bytes": total}
        command = plan_truth.words(row["model"], row["flags"], row.get("usage", "serve"))
        deployment = parse(command, f"vllm=={row['vllm']}")
        placed = with_gpus(deployment, {**gpu, "compute_capability": f"{sm // 10}.{sm % 10}"})
        yield Refused(f"{row['vllm']} {row['id']}", placed, plan_truth.model(row["model"]))


def _of_vllm_settings() -> Iterator[Refused]:
    """Settings and caches of models that consist of nothing else."""
    for row in kv_truth.rows():
        if "refusal" in row:
            deployment = replace(kv_truth.deployment(row), model=row["model"])
            deployment = replace(deployment, gpus=deployment.gpus * min(_world(row["flags"]), 64))
            yield Refused(f"{row['vllm']} {row['id']}", deployment, kv_truth.models()[row["model"]])


def _of_sglang() -> Iterator[Refused]:
    for row in sglang_truth.rows():
        if "refusal" in row:
            yield Refused(f"{row['sglang']} {row['id']}", sglang_truth.deployment(row), load(row["model"]))


def refusals() -> Iterator[Refused]:
    yield from _of_vllm()
    yield from _of_vllm_settings()
    yield from _of_sglang()


def answer(case: Refused) -> Plan | None:
    """None: not refused before memory is looked at, or not to be planned at all."""
    try:
        foreseen = plan(case.deployment, model=case.model, advise=False)
    except OomphError:
        return None
    return with_advice(foreseen, case.model) if foreseen.verdict.refusal else None
