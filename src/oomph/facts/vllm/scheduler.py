"""What vLLM's scheduler does differently from release to release. Read in v1/core/sched/scheduler.py,
kv_cache_manager.py, single_type_kv_cache_manager.py and block_pool.py of each release."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

from msgspec import Struct

from oomph.facts.vllm.versions import Range, pick

Gate = Literal["chunk", "full", "capped"]


class Row(Range, frozen=True, kw_only=True):
    value: str | int


class SchedulerRules(Struct, frozen=True):
    """The names are those of simulate/config.py, which says what each means."""

    gate: Gate
    watermark: bool
    settled: bool
    stale_waits: bool
    known_end: bool
    uncached_first: bool
    alone_unthrottled: bool
    victim_by_place: bool
    lookahead_first: bool
    draft_slots: Literal["no", "seqs", "step"]
    drafts_stay: bool
    pad_drafts: Literal["no", "running", "any"]
    eagle: Literal["each", "spiral", "simple", "once", "past"]
    kept: Literal["all", "reachable", "replay"]
    replays: int
    split: Literal["prompt", "block", "common", "stops", "wide", "resend"]
    align_frees: Literal["last", "margin", "range"]
    same_step_waits: bool
    too_long: str


# Waiting -> running. "chunk": the next chunk must fit. "full" (0.19, can_fit_full_sequence): the whole prompt, windows
# ignored. "capped" (PR 39866): a window group asks for no more than it can ever hold.
GATE = (
    Row(value="chunk", until="0.19.0"),
    Row(value="full", since="0.19.0", until="0.20.0"),
    Row(value="capped", since="0.20.0"),
)
# --watermark: free blocks that admission leaves alone while something runs (kv_cache_manager.py:363, 0.24.0).
WATERMARK = (Row(value=0, until="0.24.0"), Row(value=1, since="0.24.0"))
# Blocks leave a window on processed tokens, not on scheduled ones (kv_cache_manager.py, num_in_flight_tokens).
SETTLED = (Row(value=0, until="0.26.0"), Row(value=1, since="0.26.0"))
# free_blocks: blocks without a hash go to the head of the free queue (block_pool.py:622, 0.24.0; 0.23: windows only).
UNCACHED_FIRST = (Row(value=0, until="0.24.0"), Row(value=1, since="0.24.0"))
# --long-prefill-token-threshold is left aside while there is only one request (scheduler.py:640, 0.32.0).
ALONE_UNTHROTTLED = (Row(value=0, until="0.31.0"), Row(value=1, since="0.31.0"))

# A preempted request waits for the tokens it has in flight (scheduler.py, num_stale_output_tokens).
STALE_WAITS = (Row(value=0, until="0.27.0"), Row(value=1, since="0.27.0"))
# Asynchronous scheduling knows that the step in flight samples the last token (scheduler.py:287, 0.14.1).
KNOWN_END = (Row(value=0, until="0.11.1"), Row(value=1, since="0.11.1"))
# Priority: a victim that stood before the current request moves the scan, scheduled or not (victim_index).
VICTIM_BY_PLACE = (Row(value=0, until="0.28.0"), Row(value=1, since="0.28.0"))

# --- speculation
# effective_lookahead_tokens: slots for drafts from the first chunk on.
LOOKAHEAD_FIRST = (Row(value=0, until="0.23.0"), Row(value=1, since="0.23.0"))
# What a draft model adds to a batch is taken off for max_num_seqs requests (config/vllm.py:1426, 0.21.0), then for each
# scheduled one (scheduler.py:613, 0.32.0, max_num_new_slots_for_drafting).
DRAFT_SLOTS = (
    Row(value="no", until="0.17.0"), Row(value="seqs", since="0.17.0", until="0.28.0"),
    Row(value="step", since="0.28.0"),
)  # fmt: skip
# _preempt_request forgets the drafts.
DRAFTS_STAY = (Row(value=1, until="0.14.0"), Row(value=0, since="0.14.0"))
# pad_spec_decode: a request that starts with one token gets drafts, if others run; since 0.30 also alone, on a hit.
PAD_DRAFTS = (
    Row(value="no", until="0.25.0"), Row(value="running", since="0.25.0", until="0.30.0"),
    Row(value="any", since="0.30.0"),
)  # fmt: skip
# HybridKVCacheCoordinator.find_longest_cache_hit: EAGLE's dropped block. Once for each group; again and again until
# all groups agree (issue 32802); once if there are two kinds; looked for beyond the hit, so that nothing is lost.
EAGLE = (
    Row(value="each", until="0.14.0"), Row(value="spiral", since="0.14.0", until="0.15.1"),
    Row(value="simple", since="0.15.1", until="0.20.0"), Row(value="once", since="0.20.0", until="0.32.0"),
    Row(value="past", since="0.32.0"),
)  # fmt: skip

# --- prefix caching of windows and recurrent layers
# reachable_block_mask; prefix_cache_retention_interval is 0 since 0.29.
KEPT = (
    Row(value="all", until="0.23.0"), Row(value="reachable", since="0.23.0", until="0.29.0"),
    Row(value="replay", since="0.29.0"),
)  # fmt: skip
REPLAYS = (Row(value=1, until="0.30.0"), Row(value=2, since="0.30.0"))  # replay_boundaries with EAGLE
# _mamba_block_aligned_split: of prompts only; of what a preempted request computes again too; where others branch off.
SPLIT = (
    Row(value="prompt", until="0.17.0"), Row(value="block", since="0.17.0", until="0.24.0"),
    Row(value="common", since="0.24.0", until="0.26.0"),
    Row(value="stops", since="0.26.0", until="0.27.0"), Row(value="wide", since="0.27.0", until="0.32.0"),
    Row(value="resend", since="0.32.0"),
)  # fmt: skip
# MambaManager.remove_skipped_blocks: the state before the last; with room for rejected drafts; all before the last.
ALIGN_FREES = (
    Row(value="last", until="0.17.0"), Row(value="margin", since="0.17.0", until="0.26.0"),
    Row(value="last", since="0.26.0", until="0.30.0"), Row(value="range", since="0.30.0"),
)  # fmt: skip
# cached_blocks_this_step: a recurrent state is not read in the step that computes it.
SAME_STEP_WAITS = (Row(value=0, until="0.17.0"), Row(value=1, since="0.17.0"))

# What the server answers to a prompt that leaves no room for one token: entrypoints/openai serving_engine.py:676
# (0.11.0), renderers/params.py:419 (0.21.0) and :528 (0.32.0).
TOO_LONG = (
    Row(
        until="0.18.0",
        value="This model's maximum context length is {length} tokens. However, your request has {prompt} input "
        "tokens. Please reduce the length of the input messages.",
    ),
    Row(
        since="0.18.0", until="0.32.0",
        value="This model's maximum context length is {length} tokens. However, you requested {output} output tokens "
        "and your prompt contains {prompt} input tokens, for a total of {total} tokens. Please reduce the length of "
        "the input prompt or the number of requested output tokens.",
    ),
    Row(
        since="0.32.0",
        value="This model's maximum context length is {length} tokens. However, your prompt contains {prompt} input "
        "tokens, which exceeds this limit even without any output tokens. Please reduce the length of the input "
        "prompt.",
    ),
)  # fmt: skip


@lru_cache(maxsize=64)
def rules(version: str) -> SchedulerRules:
    return SchedulerRules(
        gate=pick(GATE, version).value,  # type: ignore[arg-type]
        watermark=bool(pick(WATERMARK, version).value),
        settled=bool(pick(SETTLED, version).value),
        stale_waits=bool(pick(STALE_WAITS, version).value),
        known_end=bool(pick(KNOWN_END, version).value),
        uncached_first=bool(pick(UNCACHED_FIRST, version).value),
        alone_unthrottled=bool(pick(ALONE_UNTHROTTLED, version).value),
        victim_by_place=bool(pick(VICTIM_BY_PLACE, version).value),
        lookahead_first=bool(pick(LOOKAHEAD_FIRST, version).value),
        draft_slots=pick(DRAFT_SLOTS, version).value,  # type: ignore[arg-type]
        drafts_stay=bool(pick(DRAFTS_STAY, version).value),
        pad_drafts=pick(PAD_DRAFTS, version).value,  # type: ignore[arg-type]
        eagle=pick(EAGLE, version).value,  # type: ignore[arg-type]
        kept=pick(KEPT, version).value,  # type: ignore[arg-type]
        replays=int(pick(REPLAYS, version).value),
        split=pick(SPLIT, version).value,  # type: ignore[arg-type]
        align_frees=pick(ALIGN_FREES, version).value,  # type: ignore[arg-type]
        same_step_waits=bool(pick(SAME_STEP_WAITS, version).value),
        too_long=str(pick(TOO_LONG, version).value),
    )
