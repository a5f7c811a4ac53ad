"""The simulated schedulers against the literal ones: every request starts, answers, ends and is paused alike."""

from __future__ import annotations

import os
from collections.abc import Iterator
from random import Random

import pytest
from literal_cache import NoFreeBlocks
from literal_scheduler import LiteralEngine

import oomph
from oomph.engines.trtllm.kv.blocks import Window
from oomph.engines.trtllm.scheduler.capacity import Capacity
from oomph.engines.trtllm.scheduler.loop import CapacityLoop
from oomph.engines.trtllm.simulation import window_of
from oomph.simulate import api
from oomph.simulate.config import Config, Group, Job, Record
from oomph.simulate.timing import StepTime

TIME = StepTime(
    base=1000, sequence=7, token=3, weights=500, linear=11, head=40, head_linear=2, kv=(2,), attention=(1,), request=90,
    prompt_token=1, response=25,
)  # fmt: skip


class Load:
    """Jobs at random times; half of the users ask once more when they have their answer. `shared`: half of the prompts
    begin with the same tokens, and who asks again repeats what was said."""

    def __init__(self, seed: int, count: int, longest: int, shared: bool = False) -> None:
        random = Random(seed)
        at = 0
        self.shared = shared
        self.first = []
        system = random.randint(1, max(1, longest // 2))
        for number in range(count):
            at += random.choice((0, random.randint(0, 4000), random.randint(0, 60000)))
            prompt, output = random.randint(1, longest), random.randint(1, longest)
            chain: tuple[tuple[int, int], ...] = ()
            if shared:
                begins = min(prompt, system) if random.random() < 0.5 else 0
                segments = ((1, begins), (100 + 2 * number, prompt - begins), (101 + 2 * number, output))
                chain = tuple(segment for segment in segments if segment[1])
            self.first.append(Job(number, at, prompt, output, chain))
        self.again = {job.id for job in self.first if random.random() < 0.5}

    def jobs(self) -> Iterator[Job]:
        return iter(self.first)

    def done(self, job: Job, at: int) -> Job | None:
        if job.id not in self.again:
            return None
        if self.shared:  # a second turn: all before it, and a few tokens more
            return Job(job.id + 10_000, at + 500, job.prompt + job.output + 7, job.output, job.chain)
        return Job(job.id + 10_000, at + 500, max(1, job.prompt // 2), job.output)


class Keeper:
    def __init__(self) -> None:
        self.records: list[Record] = []
        self.most = 0

    def record(self, record: Record) -> None:
        self.records.append(record)

    def step(self, now: int, ticks: int, running: int, waiting: int, used: int, binds: str, preemptions: int) -> None:
        self.most = max(self.most, running)


LOADS = int(os.environ.get("OOMPH_SIMULATE_CASES", "90")) // 10  # of each policy and kind
KINDS = ("plain", "window", "beams", "drafts", "reuse")


def capacity_of(seed: int, policy: str, kind: str) -> tuple[Capacity, int]:
    random = Random(seed)
    block = random.choice((16, 32))
    longest = random.choice((60, 200, 500))
    length = 2 * longest + random.randint(0, 200) + (longest if kind == "reuse" else 0)
    tokens = random.choice((longest, 2 * longest, 4000)) + (8 if kind in ("beams", "drafts") else 0)
    beams = random.choice((2, 3, 4)) if kind == "beams" else 1
    whole = (length // block + 2) * beams
    pools = [(Window(length, block, 0, length), random.randint(whole, 8 * whole))]
    if kind == "window":
        size = random.randint(block, length)
        pools.insert(0, (window_of(size, block, length, tokens), random.randint(whole, 6 * whole)))
    if kind == "window" and random.random() < 0.3:
        pools.pop()
    return Capacity(
        policy, tuple(pools), random.choice((2, 5, 64)), tokens, length,  # type: ignore[arg-type]
        chunked=random.random() < 0.5, max_tokens=random.choice((0, longest, length)),
        slack=random.choice(("new tokens", "chunk")), beams=beams,
        drafts=random.choice((1, 3, 7)) if kind == "drafts" else 0, accepted=random.choice((0, 600, 1500)),
        reuses=kind == "reuse" or random.random() < 0.2, counts_shared=random.random() < 0.5,
    ), longest  # fmt: skip


def play(engine: type, seed: int, policy: str, kind: str) -> tuple[object, Keeper, bool]:
    """(the loop, what it recorded, whether its blocks ran out)."""
    capacity, longest = capacity_of(seed, policy, kind)
    config = Config((Group("full", 32),), capacity.windows[-1][1] + 1, 64, 4000, capacity.max_seq_len)
    keeper = Keeper()
    loop = engine(capacity, config, TIME, Load(seed, 40, longest, kind == "reuse"), keeper)
    try:
        loop.run()
    except (oomph.OomphError, NoFreeBlocks):
        return loop, keeper, True
    return loop, keeper, False


@pytest.mark.parametrize("policy", ["GUARANTEED_NO_EVICT", "MAX_UTILIZATION", "STATIC_BATCH"])
@pytest.mark.parametrize("kind", KINDS)
def test_both_schedulers_agree(policy: str, kind: str) -> None:
    compared = 0
    for seed in range(LOADS // 3 if policy == "STATIC_BATCH" else LOADS):
        loop, ours, broke = play(CapacityLoop, seed, policy, kind)
        literal, theirs, literally_broke = play(LiteralEngine, seed, policy, kind)
        assert broke == literally_broke, seed
        if broke:
            continue
        assert ours.records == theirs.records, seed
        assert loop.steps == literal.steps, seed  # type: ignore[attr-defined]
        assert loop.free == [blocks for _, blocks in loop.capacity.windows]  # type: ignore[attr-defined]
        compared += len(ours.records)
    assert compared >= LOADS * (15 if policy == "STATIC_BATCH" else 50)


def test_the_loads_put_both_policies_to_the_test() -> None:
    """Requests are paused, wait for blocks, find prompts again and break the engine in these loads."""
    pauses = waits = found = 0
    for seed in range(6):
        for policy in ("GUARANTEED_NO_EVICT", "MAX_UTILIZATION"):
            for kind in KINDS:
                loop, keeper, _ = play(CapacityLoop, seed, policy, kind)
                pauses += loop.preemptions  # type: ignore[attr-defined]
                waits += sum(r.started > r.job.at + 2000 for r in keeper.records)
                found += sum(r.cached > 0 for r in keeper.records)
                assert policy == "MAX_UTILIZATION" or not loop.preemptions  # type: ignore[attr-defined]
    assert pauses > 40 and waits > 400 and found > 80


def test_a_large_max_tokens_limits_who_runs_not_the_answer() -> None:
    windows = ((Window(8192), 1024),)
    running = {}
    for max_tokens in (0, 4096):
        capacity = Capacity("GUARANTEED_NO_EVICT", windows, 256, 8192, 8192, max_tokens=max_tokens)
        config = Config((Group("full", 32),), 1025, 256, 8192, 8192)
        keeper = Keeper()
        jobs = Load(1, 100, 100)
        jobs.first = [Job(number, 0, 64, 64) for number in range(100)]
        loop = CapacityLoop(capacity, config, TIME, jobs, keeper)
        loop.run()
        running[max_tokens] = keeper.most
    assert running[0] > 20 and running[4096] == 1024 // 130  # 64 + 4096 tokens are 130 blocks


def test_a_deployment_is_simulated() -> None:
    command = "trtllm-serve Qwen/Qwen3-8B --max_batch_size 64 --max_seq_len 8192"
    answer = api.run(command, gpu="H100", users=8, prompt=500, output=100)
    assert answer.result.done == answer.result.requests and answer.result.preemptions == 0
    assert any("reserves blocks up to a request's max_tokens" in note for note in answer.setup.built.notes)


def test_drafts_beams_and_prefixes_are_simulated() -> None:
    def answer(options: str, **load: object) -> object:
        command = f"bash -c 'trtllm-serve Qwen/Qwen3-8B --max_seq_len 8192 --config <(echo \"{{{options}}}\")'"
        return api.run(command, gpu="H100", users=8, prompt=500, output=100, **load).result  # type: ignore[arg-type]

    plain = answer("max_batch_size: 64")
    drafts = answer("speculative_config: {decoding_type: NGram, max_draft_len: 3}")
    beams = answer("max_beam_width: 4")
    assert plain.done == drafts.done == beams.done == plain.requests  # type: ignore[attr-defined]
    assert drafts.steps < plain.steps  # type: ignore[attr-defined]
    assert plain.seconds < beams.seconds  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("max_beam_width: 4, speculative_config: {decoding_type: NGram, max_draft_len: 3}", "removeToken"),
        ("max_beam_width: 4, kv_cache_config: {max_attention_window: [512, 8192]}", "detachBlock"),
    ],
)
def test_what_the_engine_cannot_do_is_refused_in_its_words(options: str, words: str) -> None:
    command = f"bash -c 'trtllm-serve Qwen/Qwen3-8B --max_seq_len 8192 --config <(echo \"{{{options}}}\")'"
    with pytest.raises(oomph.OomphError, match=words):
        api.prepare(command, gpu="H100")
