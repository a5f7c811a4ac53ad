"""What vLLM's scheduler works with: the block pool's groups and its own settings. Built from a plan in build.py."""

from math import lcm
from typing import Literal

from msgspec import Struct

from oomph.units import cdiv

Kind = Literal["full", "window", "chunk", "state", "align", "all"]
Gate = Literal["chunk", "full", "capped"]
Eagle = Literal["each", "spiral", "simple", "once", "past"]


OWN = 1 << 56  # segment ids of what only one request has begin here


class Group(Struct, frozen=True):
    """One KV cache group: the layers that share a block table. Equal groups are written once, with `count`.

    Recurrent layers are `state` (a fixed number of blocks a request: mamba_cache_mode none, and cross attention),
    `align` (the state of the last token, and the one before it until a step has passed) or `all` (a state for every
    block, all but the last given back at once; they stay in the prefix cache)."""

    kind: Kind
    block_size: int
    span: int = 0  # window or chunk, in tokens
    cap: int = 0  # max_admission_blocks_per_request; 0 = none
    count: int = 1
    first: int = 0  # state: blocks of a request
    drafts: int = 0  # align, all: num_speculative_blocks
    checkpoint: int = 0  # align: a prefill's last chunk can keep a state inside itself, at multiples of this (0.32)

    def skipped(self, computed: int) -> int:
        """Whole blocks that no later token reads: get_num_skipped_tokens // block_size."""
        if self.kind == "window":
            return max(0, computed - self.span + 1) // self.block_size
        if self.kind == "chunk":
            return max(0, computed) // self.span * self.span // self.block_size
        if self.kind in ("align", "all"):
            return max(0, computed - 1) // self.block_size
        return 0

    def required(self, tokens: int) -> int:
        """Length of the block table once `tokens` have a slot; of align, drafts have none of their own."""
        return self.first if self.kind == "state" else cdiv(tokens, self.block_size) + self.drafts

    def admission(self, tokens: int, capped: bool) -> int:
        """Blocks that a fresh prompt is asked for, a state kept inside its last chunk aside."""
        if self.kind == "align":
            return 1 + self.drafts
        blocks = self.required(tokens)
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
    stages: int = 1  # pipeline_parallel_size
    batches_in_flight: int = 0  # max_concurrent_batches, if it is not 1 + lag
    refills: bool = True  # the queue of batches is filled up although one of them is empty (0.27+)
    decode_stagger: int = 1  # steps between two decodes of a request (asynchronous pipelines, 0.26+)
    known_end: bool = True  # no step is scheduled for a request whose last token is in flight (0.11.1+)
    settled: bool = False  # blocks leave a window only when the tokens that passed it are known (0.26+)
    stale_waits: bool = False  # preempted with tokens in flight: it waits for them before it starts again (0.27+)
    max_scheduled: int = 0  # max_num_scheduled_tokens; 0 = max_num_batched_tokens
    spec_tokens: int = 0
    lookahead: int = 0  # slots kept for drafts with a KV cache of their own ...
    lookahead_first: bool = False  # ... from the first chunk on (0.23+)
    draft_slots: int = 0  # of the batch, for each request that a draft model works on (0.28+)
    pad_drafts: Literal["no", "running", "any"] = "no"  # who starts with one token gets drafts at once (0.25+)
    drafts_stay: bool = False  # a preempted request keeps its drafts and computes them with its prompt (until 0.14)
    accepted: int = 0  # drafts accepted a step, in thousandths
    prefix_caching: bool = False
    drop_last_hit: bool = False  # EAGLE recomputes the last matched block
    eagle: Eagle = "once"  # how often a hybrid's groups drop it
    kept: Literal["all", "reachable", "replay"] = "all"  # which blocks of a window get a hash (0.23+, 0.29+)
    replays: int = 1  # boundaries kept for EAGLE (2: 0.30+)
    split: Literal["prompt", "block", "common", "stops", "wide", "resend"] = "block"  # where align ends a chunk
    align_frees: Literal["last", "margin", "range"] = "last"  # what align gives back
    same_step_waits: bool = False  # a state that is computed in this step cannot be read in it (0.17+)
    uncached_first: bool = False  # blocks without a hash are reused first (0.24+)
    policy: Literal["fcfs", "priority"] = "fcfs"
    victim_by_place: bool = False  # a victim before the current request moves it, scheduled or not (0.28+)
    long_prefill_threshold: int = 0
    alone_unthrottled: bool = False  # the threshold does not hold for the only request there is

    @property
    def usable(self) -> int:
        return self.num_blocks - 1

    @property
    def batches(self) -> int:
        """max_concurrent_batches: so many are scheduled before the tokens of the first are known."""
        return self.batches_in_flight or 1 + self.lag

    @property
    def budget(self) -> int:
        return self.max_scheduled or self.max_num_batched_tokens

    @property
    def junctions(self) -> bool:
        """Whether a request remembers how far others share its prefix, when not all groups have it any more."""
        return self.split not in ("prompt", "block")

    @property
    def aligned(self) -> bool:
        """Whether prefills are cut where a recurrent state can be kept (_mamba_block_aligned_split)."""
        return any(group.kind == "align" for group in self.groups)

    @property
    def block(self) -> int:
        """scheduler_block_size: prefix hits are multiples of it."""
        return lcm(*(group.block_size for group in self.groups if group.kind != "state"), 1)

    @property
    def regular(self) -> bool:
        """Whether decoding requests take one token each in every step, so that they can be summed."""
        divides = all(group.span % group.block_size == 0 for group in self.groups if group.kind == "chunk")
        plain = not self.spec_tokens and not self.lookahead and not self.long_prefill_threshold and self.known_end
        plain = plain and self.stages == 1
        return divides and plain and self.policy == "fcfs" and self.max_num_seqs <= self.budget

    def expanded(self) -> tuple[Group, ...]:
        return tuple(group for group in self.groups for _ in range(group.count))

    def need(self, tokens: int) -> int:
        """Blocks the gate asks for before a prompt of `tokens` may start, nothing cached."""
        return sum(
            group.count * (group.admission(tokens, self.gate == "capped") + self.inner_state(group, 0, tokens, tokens))
            for group in self.groups
        )

    def checkpoint_position(self, tokens: int) -> int:
        """get_mamba_prefill_checkpoint_position (kv_cache_interface.py:1110, 0.32.0): where the state of a prefill of
        `tokens` is worth keeping. Without EAGLE the last token is left to be computed again."""
        limit = tokens if self.drop_last_hit else tokens - 1
        return max(limit // self.block * self.block - (self.block if self.drop_last_hit else 0), 0)

    def inner_state(self, group: Group, start: int, end: int, prefill_end: int) -> int:
        """1: the chunk from `start` to `end` keeps a state inside itself, which takes a block of its own
        (MambaManager._needs_internal_checkpoint, 0.32.0)."""
        return int(group.checkpoint > 0 and self.keeps_inside(start, end, prefill_end, self.checkpoint_position(end)))

    def keeps_inside(self, start: int, end: int, prefill_end: int, position: int) -> bool:
        """is_mamba_prefill_checkpoint_valid: only the chunk that ends the prefill, from the start of a block, and with
        a whole block between the state it began from and the one it keeps."""
        alignment = next((group.checkpoint for group in self.groups if group.kind == "align"), 0)
        block = self.block
        return (
            alignment > 0
            and end >= prefill_end
            and start % block == 0
            and cdiv(end, block) - 2 > (start - 1) // block
            and start + block <= position < end
            and (position - start) % alignment == 0
        )


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


Outcome = Literal["done", "rejected", "never"]


class Record(Struct, frozen=True):
    """What happened to one request; times are ticks."""

    job: Job
    outcome: Outcome
    started: int = -1  # first scheduled
    first_token: int = -1
    finished: int = -1
    preemptions: int = 0
    cached: int = 0  # prompt tokens found in the prefix cache at the first admission
    output: int = 0


def block_keys(job: Job, block_size: int, tokens: int, group: int = 0) -> list[int]:
    """One hash for every full block of the first `tokens`; a hash stands for all tokens before it, in one group."""
    keys: list[int] = []
    parent, stop = group, 0
    for segment, length in (*job.chain, (OWN + job.id, tokens)):
        stop += length
        ends = range((len(keys) + 1) * block_size, min(stop, tokens) + 1, block_size)
        keys += [hash((parent, segment, end)) for end in ends]
        parent = hash((parent, segment, length))
    return keys
