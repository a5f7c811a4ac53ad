"""A request inside the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oomph.engines.vllm.scheduler.queue import Key, Tables
from oomph.simulate.config import Config, Job

if TYPE_CHECKING:
    from oomph.engines.vllm.scheduler.runs import Run, Strand


class Live:
    """`lens`/`skips` (counted): blocks of each group, and how many of those were given back; `real`: of align groups,
    which places of the table have a block. `blocks`/`keyed` (one by one): the table, and how much of it has a hash.
    `path`/`runs` (in runs): where its blocks are in the cache, and which it holds, with the end of each."""

    __slots__ = (
        "blocks", "cached", "checkpoints", "chunking", "computed", "decodes", "drafts", "eligible", "fills", "finish",
        "first_token", "frees", "gone", "grows", "in_flight", "job", "junction", "k0", "keyed", "keys", "last_state",
        "lens", "lone", "next_key", "next_skip", "next_slots", "order", "output", "path", "placeholders", "preemptions",
        "quiet", "reached", "real", "retired", "runs", "skips", "stale", "started", "strand", "tails", "tokens",
        "total", "waiting", "warm",
    )  # fmt: skip

    def __init__(self, job: Job, output: int) -> None:
        self.job = job
        self.output = output
        self.tokens = job.prompt  # prompt and known output
        self.total = job.prompt + output
        self.computed = self.placeholders = self.in_flight = self.stale = self.drafts = self.decodes = 0
        self.chunking = False  # its last step did not finish the prompt
        self.junction = 0  # how far others share its prefix, if not all groups have it any more
        self.warm = -1  # decode steps since it was admitted
        self.eligible = 0  # the first step in which it may decode again (asynchronous pipelines)
        self.order = self.preemptions = self.lone = 0
        self.reached = -1
        self.waiting, self.gone = True, False
        self.started = self.first_token = -1
        self.cached = 0
        self.lens: list[int] = []
        self.skips: list[int] = []
        self.real: dict[int, list[int]] = {}
        self.blocks: Tables = []
        self.keyed: list[int] = []
        self.path: list[Strand] = []
        self.runs: list[tuple[Run, int]] = []
        self.strand = 0  # of its path: where its next block gets a hash
        self.fills: list[int] = []
        self.last_state: list[int] = []
        self.retired: list[int] = []
        self.keys: dict[int, list[int]] = {}  # by group: the hashes of its chain's blocks
        self.checkpoints: dict[int, tuple[int, int]] = {}  # by group: the state that this chunk keeps, and its place
        self.tails: list[tuple[int, int, Key]] = []  # states that get their hash again in every step
        self.next_slots = self.next_skip = self.next_key = 0  # until which slot and token nothing changes
        self.quiet = 0  # fewer computed tokens than these change nothing
        self.k0 = 0  # steady: computed = step - k0
        self.finish = 0  # steady: the step that samples the last token
        self.frees = 0  # steady: groups (bits) whose window it has outgrown
        self.grows = 0  # steady: groups (bits) whose window it still fills

    def processed(self, config: Config) -> int:
        """Computed tokens by which blocks leave a window: since 0.26 only those of steps that have ended."""
        return max(0, self.computed - self.in_flight) if config.settled and config.batches > 1 else self.computed
