"""What SGLang's own Python answered (tests/truth/sglang-*answers.jsonl.gz), and what oomph makes of the same questions.

The answers were made without a GPU: the settings, the pool configurators and their error texts are SGLang's; the two
readings of free memory (`before`, and less the `weights`, in GiB) were given.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from oomph.answers.plan import load
from oomph.engines.sglang.kv.pools import Stage, size_pools
from oomph.engines.sglang.resolve.refusals import refusal_before_load
from oomph.engines.sglang.resolve.steps import resolve
from oomph.engines.sglang.weights.created import RankPlace, created_weights
from oomph.facts.sglang.facts import at
from oomph.ir.deployment import Deployment, Engine
from oomph.ir.hardware import Device
from oomph.ir.model import Model
from oomph.sources.build import build_model
from oomph.units import MIB

TRUTH = Path(__file__).parent.parent.parent / "truth"


@lru_cache(1)
def rows() -> tuple[dict[str, Any], ...]:
    files = sorted(TRUTH.glob("sglang-*answers.jsonl.gz"))
    return tuple(json.loads(line) for file in files for line in gzip.decompress(file.read_bytes()).splitlines())


@lru_cache(1)
def heads() -> dict[str, Any]:
    """Configurations of EAGLE-3 heads, by the names that the answers have for them."""
    return dict(json.loads((TRUTH / "sglang-drafts.json").read_text()))


def drafter(row: dict[str, Any]) -> Model | None:
    name = row["flags"].get("speculative_draft_model_path")
    if name is None:
        return None
    return build_model(name, heads()[name]) if name in heads() else load(name)


def deployment(row: dict[str, Any]) -> Deployment:
    gpu = row["gpu"]
    device = Device(gpu["name"], gpu["total_mib"] * MIB, divmod(gpu["sm"], 10), driver_name=gpu["name"])
    ranks = int(row["flags"].get("tp_size", 1)) * int(row["flags"].get("pp_size", 1))
    return Deployment(Engine("sglang", row["sglang"]), row["model"], row["flags"], (device,) * ranks)


def figures(row: dict[str, Any], model: Model | None = None) -> Iterator[tuple[str, Any, Any]]:
    """(term, ours, SGLang's) of one answer."""
    model = model or load(row["model"])
    question = deployment(row)
    settings, shape = resolve(model, question, drafter(row))
    facts = at(row["sglang"])
    built = refusal_before_load(model, shape, settings, facts, question)
    refusal = settings.refusal or (built if "language_model_only" in row["flags"] else "")
    if "refusal" in row:
        yield "refusal", refusal[:60], row["refusal"][:60]
        return
    yield "refusal", refusal, ""
    ours = {name: getattr(settings, name) for name in row["settings"] if name != "kernels"}
    ours["kernels"] = [settings.prefill_attention_backend, settings.decode_attention_backend]
    for name, theirs in row["settings"].items():
        yield name, ours[name], theirs
    if built:  # the lab builds no model: what SGLang refuses while it does, it cannot know
        return
    stage = Stage(range(len(model.layers)), len(shape.states))
    pools = size_pools(model, shape, settings, facts, stage, row["before"], row["before"] - row["weights"])
    if "error" in row:
        yield "error", pools.refusal, row["error"]
        return
    yield "error", pools.refusal, ""
    for name, theirs in row["pools"].items():
        if name == "state_slots" and not shape.states:
            continue  # an echo of --max-mamba-cache-size
        yield name, getattr(pools, name), theirs


_H100 = Device("NVIDIA H100 80GB HBM3", 85_520_809_984, (9, 0))


def created(model_name: str, flags: dict[str, object]) -> int:
    """Bytes that rank 0 creates."""
    model = load(model_name)
    ranks = int(str(flags.get("tp_size", 1)))
    question = Deployment(Engine("sglang", "0.5.23"), model_name, flags, (_H100,) * ranks)
    settings, shape = resolve(model, question)
    return sum(place.nbytes for place in created_weights(model, shape, settings, at("0.5.23"), RankPlace()))


def created_weights_kept() -> Iterator[tuple[str, int, int]]:
    """(model and flags, ours, SGLang's)."""
    for line in (TRUTH / "sglang-weights.jsonl").read_text().splitlines():
        row = json.loads(line)
        yield f"{row['model']} {row['flags']}", created(row["model"], row["flags"]), row["created"]
