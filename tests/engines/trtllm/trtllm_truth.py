"""What start-ups of TensorRT-LLM that strangers posted print (tests/truth/trtllm.jsonl), and what oomph makes of them.

Every figure is compared at the width that the log prints it with: two decimals of a GiB. A row's peak is given, as a
user would with `--given peak=...`; everything else follows from the command and the options file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from oomph.answers.plan import load
from oomph.engines.trtllm.planner import plan_trtllm, rank_states
from oomph.engines.trtllm.resolve import resolve
from oomph.engines.trtllm.timeline import RankState
from oomph.facts.trtllm.facts import at
from oomph.facts.trtllm.versions import nearest
from oomph.ir.deployment import Deployment, Engine
from oomph.ir.hardware import Device
from oomph.ir.model import Model
from oomph.sources.build import build_model
from oomph.units import GIB

TRUTH = Path(__file__).parent.parent.parent / "truth"
CARDS = {
    "B200": (10, 0),
    "B300": (10, 3),
    "GB10": (12, 1),
    "H100": (9, 0),
    "H200": (9, 0),
    "H20": (9, 0),
    "A100": (8, 0),
}


class Figure(Struct, frozen=True):
    """One printed figure. `off`: how far apart the two may be because of what the log rounds."""

    row: str
    term: str
    ours: float
    printed: float
    off: float = 0.0

    @property
    def agrees(self) -> bool:
        return abs(self.ours - self.printed) <= self.off + 1e-9


@lru_cache(8)
def rows(name: str = "trtllm.jsonl") -> tuple[dict[str, Any], ...]:
    return tuple(json.loads(line) for line in (TRUTH / name).read_text().splitlines())


@lru_cache(1)
def _shapes() -> dict[str, Any]:
    shapes: dict[str, Any] = json.loads((TRUTH / "trtllm-models.json").read_text())
    return shapes


@lru_cache(32)
def model_of(name: str) -> Model:
    return build_model(name, _shapes()[name]) if name in _shapes() else load(name)


def total_bytes(row: dict[str, Any]) -> int:
    figures = row["figures"]
    return round((figures.get("total_exact_gib") or figures.get("total_gib") or 80.0) * GIB)


def deployment(row: dict[str, Any]) -> Deployment:
    name = next((card for card in CARDS if card in (row["gpu"] or "")), "")
    device = Device(row["gpu"] or "a card", total_bytes(row), CARDS.get(name, (9, 0)), unified=name == "GB10")
    given = {}
    if "peak_gib" in row["figures"]:
        given["peak"] = round(row["figures"]["peak_gib"] * GIB)
    flags = row["flags"] or {}
    ranks = int(flags.get("tensor_parallel_size", 1)) * int(flags.get("pipeline_parallel_size", 1))
    return Deployment(Engine("trtllm", nearest(row["release"])[0]), row["model"], flags, (device,) * ranks, given=given)


def state_of(row: dict[str, Any]) -> RankState:
    question, facts = deployment(row), at(row["release"])
    model = model_of(row["model"])
    return rank_states(model, question, resolve(model, question, facts), facts)[0]


def peak_interval(row: dict[str, Any]) -> tuple[float, float]:
    """The peak that a plan foresees without the log, in GiB."""
    plan = plan_trtllm(model_of(row["model"]), replace(deployment(row), given={}))
    term = plan.ranks[0].terms["peak"]
    return term.low / GIB, term.high / GIB


def figures(row: dict[str, Any]) -> Iterator[Figure]:
    """Every printed figure that the row's options (and its peak) determine."""
    if row["backend"] != "pytorch" or row["model"] is None or row["flags"] is None:
        return
    state, printed, name = state_of(row), row["figures"], row["id"]
    settings, cells = state.settings, state.cells
    per_token, block = cells.estimated, settings.tokens_per_block
    if "kv_bytes_per_token" in printed:
        yield Figure(name, "bytes per token", per_token, printed["kv_bytes_per_token"])
    if "peak_gib" in printed and "available_kv_gib" in printed:
        off = 0.005 + 0.005 * settings.free_gpu_memory_fraction * (1 if "total_exact_gib" in printed else 2)
        yield Figure(name, "budget, GiB", state.pool.budget / GIB, printed["available_kv_gib"], off)
        if "estimated_tokens" in printed:
            yield Figure(
                name, "tokens", state.pool.estimated_tokens, printed["estimated_tokens"], off * GIB / per_token
            )
    if "final_tokens" in printed:
        tokens = printed["final_tokens"]
        if "estimated_tokens" in printed:
            rounding = state.facts.memory.rounding
            estimated = printed["estimated_tokens"]
            whole = estimated // block if rounding == "floor" else -(-estimated // block)
            yield Figure(name, "tokens in whole blocks", whole * block, tokens)
        if printed.get("final_kv_gib"):
            yield Figure(name, "pool, GiB", tokens * cells.pool / GIB, printed["final_kv_gib"], 0.005)
        if "final_blocks" in printed:
            yield Figure(name, "blocks", tokens // block, printed["final_blocks"])
    yield from _temporary(row, state)
    if "weights_line_gib" in printed:
        ours = state.terms.printed_weights / GIB
        yield Figure(name, "weights, GiB", ours, printed["weights_line_gib"], 0.02 * printed["weights_line_gib"])
    elif "inside_torch_gib" in printed:  # weights, buffers and graph pools: two percent of all of them
        inside = (state.terms.weights.bytes + state.terms.runner.bytes) / GIB
        yield Figure(name, "inside torch, GiB", inside, printed["inside_torch_gib"], 0.02 * printed["inside_torch_gib"])


def _temporary(row: dict[str, Any], state: RankState) -> Iterator[Figure]:
    printed, name = row["figures"], row["id"]
    block = state.settings.tokens_per_block
    if "temp_kv_tokens" in printed:
        yield Figure(name, "temporary tokens", state.temporary_blocks * block, printed["temp_kv_tokens"])
    if isinstance(printed.get("temp_blocks"), dict):
        for window, blocks in printed["temp_blocks"].items():
            yield Figure(name, f"temporary blocks of window {window}", state.temporary_blocks, blocks)
    if "temp_kv_gib" in printed:
        yield Figure(name, "temporary pool, GiB", state.temporary_bytes / GIB, printed["temp_kv_gib"], 0.005)
    if "first_pass_max_seq_len" in printed:
        ours = min(state.settings.printed_seq_len, state.temporary_blocks * block)
        yield Figure(name, "first pass's max_seq_len", ours, printed["first_pass_max_seq_len"])
    if "max_seq_len_served" in printed and "final_tokens" in printed:
        ours = min(state.settings.max_seq_len, printed["final_tokens"])
        yield Figure(name, "served max_seq_len", ours, printed["max_seq_len_served"])
