"""llama-server's slots: turn by turn as a real server took them, and many turns at once as one by one."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from msgspec.structs import replace
from slot_player import first_difference, slots_for, with_chains, write_tiny

import oomph
from oomph.engines.llamacpp.scheduler.loop import SlotLoop
from oomph.engines.llamacpp.scheduler.micro_batches import micro_batches
from oomph.engines.llamacpp.scheduler.slots import Slots
from oomph.simulate.config import Config, Group, Record
from oomph.simulate.timing import MILLISECOND, StepTime
from oomph.simulate.workloads import Arrivals, Drawn, Shape

TRUTH = Path(__file__).parents[2] / "truth" / "llamacpp" / "slots.jsonl.gz"
ROWS = [json.loads(line) for line in gzip.decompress(TRUTH.read_bytes()).splitlines()]
# Slots that share the cells of a sliding window overwrite each other's: how far back a slot still sees is not followed.
DIFFERENT = {"window5"}
TIME = StepTime(MILLISECOND, weights=4 * MILLISECOND, linear=28 * 10**9, kv=(41 * 10**6,), attention=(10**6,))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_every_turn_is_that_of_the_real_server(row: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    write_tiny(path, 64 if row["id"].startswith("window") else 0)
    difference = first_difference(with_chains(row), slots_for(path, row["flags"]))
    assert bool(difference) == (row["id"] in DIFFERENT), difference


class Kept:
    def __init__(self) -> None:
        self.records: list[Record] = []

    def record(self, record: Record) -> None:
        self.records.append(record)

    def step(self, *_: object) -> None:
        return None


def play(slots: Slots, shape: Shape, arrivals: Arrivals, requests: int, *, leaps: bool) -> tuple[list[Record], int]:
    kept = Kept()
    config = Config((Group("full", 1),), slots.cells + 1, slots.count, slots.batch, slots.context)
    loop = SlotLoop(slots, config, TIME, Drawn(shape, arrivals, requests, seed=1), kept)
    loop.leaps = leaps
    assert not loop.run()
    return kept.records, loop.steps


@st.composite
def servers(draw: st.DrawFn) -> Slots:
    count, each = draw(st.integers(1, 5)), draw(st.sampled_from((256, 512, 1024)))
    unified = draw(st.booleans())
    return Slots(
        count=count, cells=each * count, context=each * count if unified else each,
        batch=draw(st.sampled_from((16, 64, 512))), micro_batch=16, unified=unified,
        split="simple" if unified else "sequential", mixes=draw(st.booleans()), shifts=draw(st.booleans()),
        similarity=draw(st.sampled_from((0.0, 0.1))), cache_bytes=draw(st.sampled_from((0, -1, 1 << 20))),
        in_order=draw(st.booleans()), token_bytes=1024,
    )  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(servers(), st.integers(1, 12), st.booleans(), st.integers(1, 300), st.integers(1, 80))
def test_many_turns_at_once_are_what_they_are_one_by_one(
    slots: Slots, users: int, talks: bool, prompt: int, output: int
) -> None:
    shape = Shape(prompt, output, 0.6, 0.6, shared=20 if talks else 0, turns=3 if talks else 1, turn_prompt=30)
    for arrivals in (Arrivals(users=users, spread=0.2), Arrivals(rate=20.0)):
        fast = play(slots, shape, arrivals, 40, leaps=True)
        assert fast == play(slots, shape, arrivals, 40, leaps=False)
        assert sorted(record.job.id for record in fast[0]) == list(range(1, 41))


def test_slots_that_do_not_follow_each_other_are_computed_one_after_the_other() -> None:
    apart = Slots(count=4, cells=4096, context=1024, batch=512, micro_batch=64, split="sequential")
    assert micro_batches(apart, [(0, 1), (1, 1)]) == [2]
    assert micro_batches(apart, [(1, 1), (3, 1)]) == [1, 1]
    assert micro_batches(apart, [(0, 1), (1, 130)]) == [2, 64, 64, 1]
    assert micro_batches(replace(apart, split="simple"), [(1, 1), (3, 129)]) == [64, 64, 2]


def test_a_cache_that_all_slots_share_and_fill_ends_every_request() -> None:
    slots = Slots(count=4, cells=1024, context=1024, batch=512, micro_batch=64, unified=True, cache_bytes=0)
    records, _ = play(slots, Shape(400, 200), Arrivals(users=4, at_once=True), 4, leaps=True)
    assert [record.outcome for record in records] == ["rejected"] * 4
    apart = replace(slots, cells=4096, unified=False, split="sequential")
    records, _ = play(apart, Shape(400, 200), Arrivals(users=4, at_once=True), 4, leaps=True)
    assert [record.outcome for record in records] == ["done"] * 4


def test_a_conversation_finds_its_own_slot() -> None:
    slots = Slots(count=2, cells=8192, context=4096, batch=512, micro_batch=64, split="sequential")
    shape = Shape(300, 20, turns=3, turn_prompt=50)
    records, _ = play(slots, shape, Arrivals(users=2, at_once=True), 6, leaps=True)
    assert [record.cached for record in records[2:]] == [319, 319, 389, 389]  # all but the last token


def test_more_slots_wait_less_and_ollama_takes_one_at_a_time() -> None:
    command = "llama-server -hf Qwen/Qwen3-8B-GGUF:Q4_K_M -c 32768 -np"
    few, many = (
        oomph.simulate(f"{command} {slots}", gpu="RTX 4090", users=8, prompt=500, output=100).result for slots in (2, 8)
    )
    assert many.queue.p95 < few.queue.p95 and many.output_tokens_per_second > few.output_tokens_per_second
    alone = oomph.simulate("ollama run qwen3:8b", gpu="RTX 4090", users=4, prompt=500, output=100).result
    assert alone.max_running == 1 and set(alone.binds) == {"slots"}
