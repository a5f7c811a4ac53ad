"""SGLang's scheduler: many steps at once are what one by one would be, and the pool is never given away twice."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings, strategies as st

import oomph
from oomph.engines.sglang.scheduler.loop import Loop
from oomph.engines.sglang.scheduler.radix import Node, RadixTree
from oomph.engines.sglang.scheduler.sequence import Sequence
from oomph.engines.sglang.scheduler.settings import Settings
from oomph.errors import CannotPlan, OomphError
from oomph.facts.sglang.facts import at
from oomph.simulate.build import prepare
from oomph.simulate.config import Config, Group, Job, Record
from oomph.simulate.timing import MILLISECOND, StepTime


class Listed:
    shared = True

    def __init__(self, jobs: list[Job]) -> None:
        self.list = jobs

    def jobs(self) -> Iterator[Job]:
        return iter(sorted(self.list, key=lambda job: (job.at, job.id)))

    def done(self, job: Job, at: int) -> Job | None:
        return None


class Seen:
    def __init__(self) -> None:
        self.records: list[Record] = []
        self.ticks = self.peak = 0

    def record(self, record: Record) -> None:
        self.records.append(record)

    def step(self, now: int, ticks: int, running: int, waiting: int, used: int, binds: str, preemptions: int) -> None:
        self.ticks += ticks
        self.peak = max(self.peak, used)


TIME = StepTime(
    4 * MILLISECOND, sequence=10**9, token=10**8, weights=5 * MILLISECOND, linear=10**8, kv=(10**6, 10**6),
    attention=(10**5, 10**5), request=MILLISECOND, response=MILLISECOND,
)  # fmt: skip


@st.composite
def setting(draw: st.DrawFn) -> Settings:
    page = draw(st.sampled_from([1, 1, 16, 64]))
    chunk = draw(st.sampled_from([0, 128, 512]))
    policy = draw(st.sampled_from(["fcfs", "lpm", "dfs-weight", "lof", "hrrn"]))
    return Settings(
        rules=at(draw(st.sampled_from(["0.5.12", "0.5.17", "0.5.20", "0.5.22", "0.5.23"]))).scheduler,
        tokens=draw(st.sampled_from([640, 1280, 4096])),
        page_size=page,
        max_running_requests=draw(st.sampled_from([2, 5, 32])),
        max_prefill_tokens=draw(st.sampled_from([512, 8192])),
        context_length=2048,
        chunk=chunk,
        mixed=bool(chunk) and draw(st.booleans()),
        policy=policy,
        conservativeness=draw(st.sampled_from([1.0, 0.3, 0.05])),
        radix=draw(st.booleans()),
        eviction=draw(st.sampled_from(["lru", "lfu", "fifo", "mru", "filo", "priority", "slru"])),
        priority=policy in ("fcfs", "lof") and draw(st.booleans()),  # SGLang refuses it with another policy
        preempts=draw(st.booleans()),
        preemption_threshold=draw(st.sampled_from([0, 1])),
        overlap=draw(st.booleans()),
    )


@st.composite
def workload(draw: st.DrawFn) -> list[Job]:
    jobs, time = [], 0
    for number in range(draw(st.integers(1, 14))):
        time += draw(st.sampled_from([0, 0, MILLISECOND // 3, 7 * MILLISECOND, 300 * MILLISECOND]))
        segments = draw(st.lists(st.tuples(st.integers(1, 2), st.sampled_from([16, 70, 200])), max_size=2))
        prompt, output = draw(st.integers(1, 500)), draw(st.integers(1, 120))
        jobs.append(Job(number, time, prompt, output, tuple(segments), draw(st.integers(0, 2))))
    return jobs


def play(chosen: Settings, jobs: list[Job], *, leaps: bool) -> tuple[Loop, Seen, str]:
    """With the words in which the server itself dies, which only a release without `checks_mixed` does."""
    groups = (Group("full", chosen.page_size), Group("window", chosen.page_size, 96))
    config = Config(groups, chosen.pages + 1, chosen.max_running_requests, 512, chosen.context_length)
    seen = Seen()
    loop = Loop(chosen, config, TIME, Listed(jobs), seen)
    loop.leaps = leaps
    try:
        assert not loop.run(100_000)
    except OomphError as error:
        assert chosen.mixed and not chosen.rules.checks_mixed
        return loop, seen, str(error)
    return loop, seen, ""


@given(setting(), workload())
@settings(max_examples=150, deadline=None)
def test_many_steps_at_once_are_what_one_by_one_would_be(chosen: Settings, jobs: list[Job]) -> None:
    fast, seen, death = play(chosen, jobs, leaps=True)
    literal, expected, literal_death = play(chosen, jobs, leaps=False)
    assert death == literal_death
    assert seen.records == expected.records
    assert (fast.now, fast.steps, fast.preemptions, fast.ratio) == (
        literal.now, literal.steps, literal.preemptions, literal.ratio,
    )  # fmt: skip
    assert (fast.free, fast.tree.evictable, seen.ticks) == (literal.free, literal.tree.evictable, expected.ticks)


@given(setting(), workload())
@settings(max_examples=60, deadline=None)
def test_everything_is_answered_and_the_pool_is_whole_again(chosen: Settings, jobs: list[Job]) -> None:
    loop, seen, death = play(chosen, jobs, leaps=True)
    if death:
        return
    requeued = loop.settings.rules.requeues or not chosen.priority
    assert len(seen.records) == len(jobs) or not requeued  # until 0.5.21 a preempted request could be lost
    assert all(record.output == min(record.job.output, record.output) for record in seen.records)
    if requeued:
        assert loop.free + loop.tree.evictable == chosen.pages * chosen.page_size
        assert loop.rows == chosen.max_running_requests


def test_a_mixed_step_that_runs_out_ends_the_server_in_the_words_of_sglang() -> None:
    """Found by the property above: 0.5.17 gives the last pages to a prompt, and its decodes have none."""
    jobs = [Job(0, 0, 125, 5), *(Job(number, 0, 1, 1) for number in (1, 2, 3)), Job(4, 0, 315, 6), Job(5, 0, 59, 6)]
    jobs += [Job(6, 0, 1, 1), Job(7, 0, 1, 4), *(Job(number, 0, 1, 1) for number in (8, 9, 10, 11))]

    def death(version: str) -> str:
        chosen = Settings(
            at(version).scheduler, 640, 64, 5, 512, 2048, chunk=128, mixed=True, policy="lpm", radix=False
        )
        return play(chosen, jobs, leaps=True)[2]

    assert "Decode out of memory" in death("0.5.17")
    assert not death("0.5.23")


def test_priorities_want_an_order_that_knows_them() -> None:
    command = "python -m sglang.launch_server --model-path Qwen/Qwen3-8B --enable-priority-scheduling"
    assert oomph.plan(command, gpu="H100").fits
    refused = oomph.plan(f"{command} --schedule-policy lpm", gpu="H100")
    assert "schedule_policy must be 'fcfs' or 'lof'" in refused.verdict.message


@pytest.mark.parametrize(
    "flags",
    ["--pp-size 2", "--schedule-policy routing-key", "--radix-eviction-policy tlru", "--schedule-policy random"],
)
def test_what_is_not_played_is_refused_in_one_sentence(flags: str) -> None:
    with pytest.raises(CannotPlan, match="is not written down here"):
        prepare(f"python -m sglang.launch_server --model-path Qwen/Qwen3-8B {flags}", gpu="2x H100")


def tokens_of(tree: RadixTree) -> int:
    total, nodes = 0, [tree.root]
    while nodes:
        node: Node = nodes.pop()
        total += node.size
        nodes += node.children.values()
    return total


@given(workload(), st.sampled_from([1, 16]), st.integers(0, 600))
@settings(max_examples=60, deadline=None)
def test_a_tree_finds_what_was_put_into_it_and_evicts_what_it_counts(jobs: list[Job], page: int, short: int) -> None:
    tree = RadixTree(page)
    for job in jobs:
        tokens = job.prompt // page * page
        known, node = tree.insert(Sequence(job), tokens)
        assert known <= tokens == node.end
        assert tree.match(Sequence(job), tokens).end == tokens
    assert tree.evictable == tokens_of(tree)
    before = tree.evictable
    done = tree.evict(short)
    assert done >= min(short, before) and tree.evictable == before - done == tokens_of(tree)
