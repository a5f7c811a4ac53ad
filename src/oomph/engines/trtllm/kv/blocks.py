"""The scheduler's block arithmetic: what a request needs for its next step, and what it needs until it is done.

`cpp/tensorrt_llm/batch_manager/kvCacheManager.cpp`, getNeededBlocksOneStep and getRemainingBlocksToCompletion. Full
blocks of a prompt are shared by all beams; everything behind them is held once for each beam. docs/trtllm.md has the
same as a table.
"""

from msgspec import Struct

from oomph.units import cdiv


class Window(Struct, frozen=True):
    """One pool: the layers that look back so far."""

    size: int
    block: int = 32  # tokens
    spare: int = 0  # tokens that a chunk of a prompt may hold beyond the window (temporaryAttentionWindow)
    longest: int = 1 << 60  # maxTokenNum, the longest sequence: one that would grow beyond it gets no further block


class CacheRequest(Struct, frozen=True):
    """A request as the pool sees it."""

    prompt: int
    max_new: int
    beams: int = 1
    drafts: int = 0
    tokens: int = 0  # in the cache: 0 before its first chunk
    blocks: int = 0  # of each beam, those that have left a window included (getCacheBlockIds)
    shared: int = 0  # blocks of its prompt that others hold right now, and that it would use too (block reuse)
    length: int = 0  # prompt and answer so far, the last token included, which has no slot yet; 0 = the same as tokens


def needed_for_start(request: CacheRequest, window: Window, slack: int) -> int:
    """One step of a request whose first chunk is next. `slack`: what the window admits beyond itself here."""
    tokens = min(request.prompt + request.drafts, window.size + slack)
    whole, rest = divmod(tokens, window.block)
    return whole + (request.beams if rest else 0) - min(request.shared, whole)


def needed_for_step(request: CacheRequest, window: Window, steps: int = 1) -> int:
    """One decoding step, or two where two batches are in flight: a draft needs a slot as a token does."""
    left = request.max_new - (request.tokens - request.prompt)
    grown = request.tokens + min(steps * (1 + request.drafts), left)
    if grown > window.longest:
        return 0
    return (cdiv(grown, window.block) - cdiv(request.tokens, window.block)) * request.beams


def needed_to_finish(request: CacheRequest, window: Window) -> int:
    """All blocks until max_new tokens are made, those that it holds taken off."""
    limit, last = window.size + window.spare, request.prompt + request.max_new
    of_prompt = min(request.prompt, limit) // window.block
    in_all = cdiv(min(last, limit), window.block)
    reused = min(request.shared, of_prompt) if not request.blocks else 0
    behind = in_all - of_prompt + _sliding(request, window, in_all)
    if request.blocks < of_prompt - reused:
        return of_prompt - reused - request.blocks + behind * request.beams
    return (of_prompt - reused - request.blocks + behind) * request.beams


def _sliding(request: CacheRequest, window: Window, in_all: int) -> int:
    """A window that slides takes its next block before it gives the oldest back."""
    last = cdiv(request.prompt + request.max_new, window.block)
    now = cdiv(request.length or max(request.tokens, request.prompt), window.block)
    return int(request.prompt + request.max_new > window.size and last > now and last > in_all)
