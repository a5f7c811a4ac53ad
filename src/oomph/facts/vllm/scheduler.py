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
    gate: Gate
    watermark: bool
    settled: bool
    uncached_first: bool
    alone_unthrottled: bool
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
        uncached_first=bool(pick(UNCACHED_FIRST, version).value),
        alone_unthrottled=bool(pick(ALONE_UNTHROTTLED, version).value),
        too_long=str(pick(TOO_LONG, version).value),
    )
