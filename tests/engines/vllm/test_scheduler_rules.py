"""The rules of vLLM's scheduler that its literal twin shares with it (tests/simulate/reference.py): where a prefill of
recurrent layers stops, and which blocks get a hash. As stored, and in other words.

`python tools/replay.py renew scheduler_rules` stores them again, and a commit that does says why.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product
from typing import Any, get_args

import pytest
from stored_answers import check_table

from oomph.engines.vllm.scheduler.rules import aligned_chunk, cacheable, kept, replayed
from oomph.simulate.config import Config, Group

Row = tuple[str, Any]
SPLITS = get_args(Config.__annotations__["split"])
DRAWS = 60


def config(*groups: Group, budget: int = 64, **more: Any) -> Config:
    return Config(groups, 100, 4, budget, 200, **more)


def chunks() -> Iterator[Row]:
    """What is computed of a prompt in one step, over places in it that lie on, before and behind the end of a block."""
    for split, drop, budget, slice_, inner in product(SPLITS, (False, True), (5, 8, 64), (0, 6), (0, 4)):
        if inner and split != "resend":
            continue  # states inside a chunk came with that rule
        own = config(
            Group("full", 4), Group("align", 8, checkpoint=inner), budget=budget, split=split, drop_last_hit=drop,
            long_prefill_threshold=slice_,
        )  # fmt: skip
        chance = random.Random(f"{split} {drop} {budget} {slice_}")
        sizes = []
        for _ in range(DRAWS):
            prompt = chance.choice((1, 7, 8, 9, 16, 17, 24, 40, 41))
            tokens = prompt + chance.choice((0, 0, 1, 5))
            start = min(chance.choice((0, 0, 3, 8, 8, 12, 16)), tokens - 1)
            new = chance.randint(1, min(budget, tokens - start))
            junction = chance.choice((0, 0, start + 1, start + new, 8, 16, 21))
            sizes.append(aligned_chunk(own, own.block, start, new, prompt, tokens, junction))
        yield f"split {split}, EAGLE {drop}, budget {budget}, threshold {slice_}, states inside {inner}", sizes


def hashes() -> Iterator[Row]:
    """Which blocks of a request get a hash, and up to which token."""
    groups = (Group("full", 4), Group("window", 4, 9), Group("window", 8, 17), Group("align", 8), Group("all", 8))
    for policy, drop, replays, group in product(("all", "reachable", "replay"), (False, True), (1, 2), groups):
        own = config(Group("full", 16), group, kept=policy, drop_last_hit=drop, replays=replays)
        masks = [
            "".join("-+"[flag] for flag in mask) if mask is not None else "all"
            for prompt, junction in product((3, 16, 17, 32, 33, 50), (0, 16, 24))
            for mask in [kept(own, own.block, group, 1, 12, prompt, junction)]
        ]
        ends = [
            cacheable(own, own.block, group, tokens, hybrid)
            for tokens in (0, 15, 16, 19, 33)
            for hybrid in (False, True)
        ]
        states = [replayed(own, own.block, prompt) for prompt in (1, 16, 17, 33)]
        yield (
            f"{policy}, EAGLE {drop}, {replays} replays, {group.kind} {group.block_size} {group.span}",
            [masks, ends, states],
        )


TABLES = {table.__name__: table for table in (chunks, hashes)}


@pytest.mark.parametrize("name", TABLES)
def test_a_rule_is_as_stored(name: str) -> None:
    check_table("scheduler_rules", name, TABLES[name]())


@pytest.mark.parametrize("drop", [False, True], ids=["", "EAGLE"])
@pytest.mark.parametrize("span", range(1, 40))
def test_a_window_keeps_what_a_hit_reads_and_nothing_else(span: int, drop: bool) -> None:
    """A hit ends at a multiple of the longest block; what comes next reads the window before it. EAGLE matches one
    block more, which it computes again."""
    size, block = 4, 16
    own = config(Group("full", block), Group("window", size, span), kept="reachable", drop_last_hit=drop)
    mask = kept(own, block, own.groups[1], 0, 40, 0, 0)
    reads: set[int] = set()
    for hit in range(block, 40 * size + block, block):
        end = hit + size * drop
        first = (hit - (span - 1)) // size  # of the window of the token behind the hit
        reads |= {index for index in range(max(first, 0), end // size) if index < 40}
    if mask is None:
        assert len(reads) >= 39 - drop
    else:
        assert {index for index, flag in enumerate(mask) if flag} == reads


@pytest.mark.parametrize("split", SPLITS)
def test_a_prompt_is_computed_to_its_end(split: str) -> None:
    """Whatever the room of a step, it always gets further, and ends with a block as long as whole ones follow."""
    for drop, prompt, room in product((False, True), range(1, 50), (3, 8, 13, 64)):
        own = config(Group("full", 4), Group("align", 8), budget=max(room, 8), split=split, drop_last_hit=drop)
        start, ends = 0, []
        while start < prompt:
            new = min(max(room, 8), prompt - start)
            size = aligned_chunk(own, own.block, start, new, prompt, prompt, 0)
            assert 0 < size <= new, (drop, prompt, room, start)
            start += size
            ends.append(start)
        whole = prompt // 8 * 8 - 8 * drop
        assert ends[-1] == prompt and all(end % 8 == 0 for end in ends if end < whole), (drop, prompt, room)
