"""What vLLM's scheduler works with: the block pool's groups and its own settings. Built from a plan in build.py."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from oomph.units import cdiv

Kind = Literal["full", "window", "chunk", "state"]
Gate = Literal["chunk", "full", "capped"]


OWN = 1 << 56  # segment ids of what only one request has begin here


class Group(Struct, frozen=True):
    """One KV cache group: the layers that share a block table. Equal groups are written once, with `count`."""

    kind: Kind
    block_size: int
    span: int = 0  # window or chunk, in tokens
    cap: int = 0  # max_admission_blocks_per_request; 0 = none
    count: int = 1
    first: int = 0  # state: blocks at the first step ...
    later: int = 0  # ... and from the second on

    def skipped(self, computed: int) -> int:
        """Whole blocks that no later token reads: get_num_skipped_tokens // block_size."""
        if self.kind == "window":
            return max(0, computed - self.span + 1) // self.block_size
        if self.kind == "chunk":
            return max(0, computed) // self.span * self.span // self.block_size
        return 0

    def admission(self, tokens: int, capped: bool) -> int:
        """Blocks that a fresh prompt is asked for."""
        if self.kind == "state":
            return self.first
        blocks = cdiv(tokens, self.block_size)
        return min(blocks, self.cap) if capped and self.cap else blocks


class Config(Struct, frozen=True):
    groups: tuple[Group, ...]
    num_blocks: int  # the null block included
    max_num_seqs: int
    max_num_batched_tokens: int
    max_model_len: int
    gate: Gate = "capped"
    watermark_blocks: int = 0
    lag: int = 0  # 1: the next step is scheduled before this one's tokens are known (async scheduling)
    settled: bool = False  # blocks leave a window only when the tokens that passed it are known (0.26+)
    spec_tokens: int = 0
    lookahead: int = 0  # slots kept for drafts with a KV cache of their own
    accepted: int = 0  # drafts accepted a step, in thousandths
    prefix_caching: bool = False
    drop_last_hit: bool = False  # EAGLE recomputes the last matched block
    uncached_first: bool = False  # blocks without a hash are reused first (0.24+)
    policy: Literal["fcfs", "priority"] = "fcfs"
    long_prefill_threshold: int = 0
    alone_unthrottled: bool = False  # the threshold does not hold for the only request there is

    @property
    def usable(self) -> int:
        return self.num_blocks - 1

    @property
    def regular(self) -> bool:
        """Whether decoding requests take one token each in every step, so that they can be summed."""
        divides = all(g.span % g.block_size == 0 for g in self.groups if g.kind == "chunk")
        plain = not self.spec_tokens and not self.lookahead and not self.long_prefill_threshold
        return divides and plain and self.policy == "fcfs" and self.max_num_seqs <= self.max_num_batched_tokens

    def expanded(self) -> tuple[Group, ...]:
        return tuple(g for g in self.groups for _ in range(g.count))

    def need(self, tokens: int) -> int:
        """Blocks the gate asks for before a prompt of `tokens` may start, nothing cached."""
        return sum(g.count * g.admission(tokens, self.gate == "capped") for g in self.groups)


class Job(Struct, frozen=True):
    """One request. `chain`: (segment id, tokens) pairs that other requests may share; what follows them is unique
    (and still found again by the request itself, once it was preempted)."""

    id: int
    at: int  # arrival, in ticks
    prompt: int
    output: int
    chain: tuple[tuple[int, int], ...] = ()
    priority: int = 0
    user: int = -1
    turn: int = 0


class Record(Struct, frozen=True):
    """What happened to one request; times are ticks."""

    job: Job
    outcome: Literal["done", "rejected", "never"]
    started: int = -1  # first scheduled
    first_token: int = -1
    finished: int = -1
    preemptions: int = 0
    cached: int = 0  # prompt tokens found in the prefix cache at the first admission
    output: int = 0


def block_keys(job: Job, block_size: int, tokens: int) -> list[int]:
    """One hash for every full block of the first `tokens`; a hash stands for all tokens before it."""
    keys: list[int] = []
    end, parent, start = block_size, 0, 0
    for segment, length in (*job.chain, (OWN + job.id, tokens)):
        stop = start + length
        while end <= min(stop, tokens):
            keys.append(hash((parent, segment, end)))
            end += block_size
        parent = hash((parent, segment, length))
        start = stop
    return keys
