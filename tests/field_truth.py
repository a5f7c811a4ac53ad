"""Start-ups that strangers posted, as figures (tests/truth/field-plans.jsonl), planned and judged.

A row has what was printed: `weights_gib` ("Model loading took"), `kv_gib`, `tokens`, `concurrency`, and where it ended
(`failure`, "none" = it served); and what it was started with: model, release, cards, flags. `config` are the facts of
a model that the catalogue does not have. `half`: the law was mended on the rows of half 1; those of half 2 were only
judged. `open`: why a figure is missed, where it is. `source`: who posted it; file-N where the address was not kept. The
other figures in GiB (graphs, activation, outside PyTorch) were printed too and are not judged.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from oomph.answers.plan import load, run
from oomph.engines.vllm.world import world_size
from oomph.facts import gpus
from oomph.ir.deployment import Deployment, Engine
from oomph.ir.hardware import Device
from oomph.ir.model import Model
from oomph.ir.plan import Plan
from oomph.logs.deployment import parse_flags
from oomph.sources.build import build_model
from oomph.units import GIB

TRUTH = Path(__file__).parent / "truth" / "field-plans.jsonl"
Row = Mapping[str, Any]


class Judged(NamedTuple):
    what: str  # weights, kv, tokens, verdict
    good: bool
    said: str


@cache
def rows() -> tuple[Row, ...]:
    return tuple(json.loads(line) for line in TRUTH.read_text(encoding="utf-8").splitlines())


def model(row: Row) -> Model:
    config = row.get("config")
    return build_model(row["model"], config) if config else load(row["model"])


def device(row: Row) -> Device:
    total = round(row.get("total_gib", 0) * GIB)
    found = gpus.find(row["gpu"], near=total).device(total_bytes=total)
    return replace(found, used_bytes=round(row.get("used_gib", 0) * GIB))


def deployment(row: Row) -> Deployment:
    flags, _, _ = parse_flags(f"vllm serve {row['model']} {row.get('flags', '')}")
    card = device(row)
    made = Deployment(Engine("vllm", row["version"]), row["model"], flags, (card,), environment=row.get("env", {}))
    made = replace(made, usage=row.get("usage", "serve"))
    return replace(made, gpus=(card,) * max(1, world_size(made)))


def judge(row: Row) -> list[Judged]:
    """Every printed figure against the plan. Where nobody said whether the compile cache was empty, either answer
    counts: a second start has more KV memory than the first."""
    made, found = deployment(row), model(row)
    caches = (row["compile_cache"],) if row.get("compile_cache") else ("cold", "warm")
    plans = [run(replace(made, compile_cache=c), found) for c in caches]
    first = plans[0]
    if not first.ranks:
        return [Judged("verdict", False, f"refused: {first.verdict.message[:90]}")]
    out = []
    if "weights_gib" in row:
        ours, want = first.ranks[0].terms["weights"].bytes / GIB, row["weights_gib"]
        out.append(Judged("weights", abs(ours / want - 1) <= 0.01, f"{ours:.2f} against {want} GiB"))
    if "kv_gib" in row:
        out.append(_kv(plans, row["kv_gib"]))
    if "kv_gib" in row and "tokens" in row:
        out.append(_tokens(made, found, row))
    if row.get("judge_failure", True):
        stages = [p.verdict.stage or "none" for p in plans]
        out.append(Judged("verdict", row["failure"] in stages, f"{' or '.join(stages)} against {row['failure']}"))
    return out


def _kv(plans: list[Plan], want: float) -> Judged:
    ours = [p.ranks[0].terms["available_kv"].bytes / GIB for p in plans]
    good = any(abs(x - want) <= max(0.3, 0.03 * abs(want)) for x in ours)
    return Judged("kv", good, " or ".join(f"{x:.2f}" for x in ours) + f" against {want} GiB")


def _tokens(made: Deployment, found: Model, row: Row) -> Judged:
    """The printed tokens from the printed GiB, which are rounded to two decimals."""
    given = [round((row["kv_gib"] + d) * GIB) for d in (-0.005, 0.005)]
    kvs = [run(replace(made, given={"available_kv": n}), found).kv for n in given]
    tokens = [kv.logged_tokens for kv in kvs if kv is not None]
    good = bool(tokens) and min(tokens) <= row["tokens"] <= max(tokens)
    return Judged("tokens", good, f"{tokens} against {row['tokens']}")
