"""The simulated schedulers against the literal ones: every request starts, answers, ends and is paused alike."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
from literal_scheduler import LiteralEngine

import oomph
from oomph.engines.trtllm.blocks import Window
from oomph.engines.trtllm.capacity_loop import Capacity, CapacityLoop
from oomph.simulate import api
from oomph.simulate.config import Config, Group, Job, Record
from oomph.simulate.timing import StepTime

TIME = StepTime(
    base=1000, sequence=7, token=3, weights=500, linear=11, head=40, head_linear=2, kv=(2,), attention=(1,), request=90,
    prompt_token=1, response=25,
)  # fmt: skip


class Load:
    """Jobs at random times; half of the users ask once more when they have their answer."""

    def __init__(self, seed: int, count: int, longest: int) -> None:
        random = Random(seed)
        at = 0
        self.first = []
        for number in range(count):
            at += random.choice((0, random.randint(0, 4000), random.randint(0, 60000)))
            self.first.append(Job(number, at, random.randint(1, longest), random.randint(1, longest)))
        self.again = {job.id for job in self.first if random.random() < 0.5}

    def jobs(self) -> Iterator[Job]:
        return iter(self.first)

    def done(self, job: Job, at: int) -> Job | None:
        if job.id not in self.again:
            return None
        return Job(job.id + 10_000, at + 500, max(1, job.prompt // 2), job.output)


class Keeper:
    def __init__(self) -> None:
        self.records: list[Record] = []
        self.most = 0

    def record(self, record: Record) -> None:
        self.records.append(record)

    def step(self, now: int, ticks: int, running: int, waiting: int, used: int, binds: str, preemptions: int) -> None:
        self.most = max(self.most, running)


def capacity_of(seed: int, policy: str) -> tuple[Capacity, int]:
    random = Random(seed)
    block = random.choice((16, 32))
    longest = random.choice((60, 200, 500))
    length = 2 * longest + random.randint(0, 200)
    pools = [(Window(length, block), random.randint(length // block + 2, 8 * (length // block + 2)))]
    if random.random() < 0.3:
        window = random.randint(block, length)
        pools.insert(0, (Window(window, block), random.randint(length // block + 2, 6 * (length // block + 2))))
    return Capacity(
        policy, tuple(pools), random.choice((2, 5, 64)), random.choice((longest, 2 * longest, 4000)), length,  # type: ignore[arg-type]
        chunked=random.random() < 0.5, max_tokens=random.choice((0, longest, length)),
        slack=random.choice(("new tokens", "chunk")),
    ), longest  # fmt: skip


@pytest.mark.parametrize("policy", ["GUARANTEED_NO_EVICT", "MAX_UTILIZATION"])
@pytest.mark.parametrize("first", range(0, 60, 10))
def test_both_schedulers_agree(policy: str, first: int) -> None:
    for seed in range(first, first + 10):
        capacity, longest = capacity_of(seed, policy)
        config = Config((Group("full", 32),), capacity.windows[-1][1] + 1, 64, 4000, capacity.max_seq_len)
        ours, theirs = Keeper(), Keeper()
        loop = CapacityLoop(capacity, config, TIME, Load(seed, 40, longest), ours)
        loop.run()
        literal = LiteralEngine(capacity, config, TIME, Load(seed, 40, longest), theirs)
        literal.run()
        assert ours.records == theirs.records, seed
        assert loop.steps == literal.steps
        assert loop.free == [blocks for _, blocks in capacity.windows]  # everything is given back


def test_both_policies_are_put_to_the_test() -> None:
    """Requests are paused, wait for blocks, are chunked and slide over windows in these loads."""
    pauses = waits = 0
    for seed in range(60):
        for policy in ("GUARANTEED_NO_EVICT", "MAX_UTILIZATION"):
            capacity, longest = capacity_of(seed, policy)
            config = Config((Group("full", 32),), capacity.windows[-1][1] + 1, 64, 4000, capacity.max_seq_len)
            keeper = Keeper()
            loop = CapacityLoop(capacity, config, TIME, Load(seed, 40, longest), keeper)
            loop.run()
            pauses += loop.preemptions
            waits += sum(r.started > r.job.at + 2000 for r in keeper.records)
            assert policy == "MAX_UTILIZATION" or not loop.preemptions
    assert pauses > 50 and waits > 500


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
    with pytest.raises(oomph.OomphError, match="drafts are not simulated"):
        api.prepare(
            "bash -c 'trtllm-serve deepseek-ai/DeepSeek-R1 --tp_size 8 --config "
            '<(echo "{speculative_config: {decoding_type: MTP, num_nextn_predict_layers: 1}}")'
            "'",
            gpu="8x B200",
        )
