"""The block arithmetic against the source's own, line by line: windows, beams, drafts, reuse."""

from __future__ import annotations

from random import Random

import pytest
from literal_blocks import KVCacheManager, LlmRequest

from oomph.engines.trtllm.kv.blocks import CacheRequest, Window, needed_for_start, needed_for_step, needed_to_finish

CASES = 4000


def draw(seed: int) -> tuple[KVCacheManager, LlmRequest, CacheRequest, Window, int]:
    random = Random(seed)
    block = random.choice((16, 32, 64, 128))
    prompt, max_new = random.randint(1, 6000), random.randint(1, 4000)
    size = random.choice((random.randint(64, 4096), prompt + max_new + random.randint(0, 999), 1 << 17))
    spare = random.choice((0, 0, random.randint(1, 2048)))
    slack = random.choice((max_new, random.randint(1, 8192)))
    beams, drafts = random.choice((1, 1, 2, 4, 8)), random.choice((0, 0, 1, 3, 7))
    variable = random.random() < 0.2
    reuse = not variable and random.random() < 0.5
    known = random.randint(0, prompt // block + 1) if reuse else 0
    state = random.choice(("start", "decode", "decode"))
    generated = 0 if state == "start" else random.randint(1, max_new)
    tokens = 0 if state == "start" else prompt + generated
    blocks = 0 if state == "start" else -(-min(tokens, size + spare) // block)
    longest = random.choice((1 << 60, size + spare + block))
    manager = KVCacheManager(block, size, spare, longest, slack, reuse, variable)
    literal = LlmRequest(
        prompt, max_new, beams, drafts, state == "start", state == "start", state == "decode",
        prompt + generated, tokens, blocks, known,
    )  # fmt: skip
    ours = CacheRequest(prompt, max_new, beams, drafts, tokens, blocks, known if state == "start" else 0)
    return manager, literal, ours, Window(size, block, spare, longest), slack


@pytest.mark.parametrize("first", range(0, CASES, 500))
def test_random_requests(first: int) -> None:
    for seed in range(first, first + 500):
        manager, literal, ours, window, slack = draw(seed)
        assert needed_to_finish(ours, window) == manager.get_remaining_blocks_to_completion(literal), seed
        for steps in (1, 2):
            theirs = manager.get_needed_blocks_one_step(literal, steps == 2)
            mine = needed_for_start(ours, window, slack) if not ours.tokens else needed_for_step(ours, window, steps)
            assert mine == theirs, seed


def test_the_kinds_are_all_drawn() -> None:
    drawn = [draw(seed) for seed in range(CASES)]
    assert sum(window.size < ours.prompt + ours.max_new for _, _, ours, window, _ in drawn) > 500  # it slides
    assert sum(ours.beams > 1 for _, _, ours, _, _ in drawn) > 500
    assert sum(ours.drafts > 0 for _, _, ours, _, _ in drawn) > 500
    assert sum(ours.shared > 0 for _, _, ours, _, _ in drawn) > 300


@pytest.mark.parametrize(
    ("request_", "start", "finish"),
    [
        (CacheRequest(100, 28), 4, 4),  # 128 tokens are four blocks of 32
        (CacheRequest(100, 29), 4, 5),
        (CacheRequest(96, 32, beams=4), 3, 3 + 4),  # three full blocks are shared, the fourth is held by each beam
        (CacheRequest(100, 28, beams=4), 3 + 4, 3 + 4),
        (CacheRequest(100, 28, shared=2), 2, 2),
        (CacheRequest(100, 5000), 4, 160),  # by max_tokens, whatever the answer's length
    ],
)
def test_the_table_of_the_docs(request_: CacheRequest, start: int, finish: int) -> None:
    window = Window(1 << 17)
    assert (needed_for_start(request_, window, request_.max_new), needed_to_finish(request_, window)) == (start, finish)
