"""What the V1 runner's sampler leaves reserved, played through PyTorch's allocator.

A server does not begin with a full batch: prompts come in as the batch limit lets them, so that the sampler runs for
more sequences from step to step. Tensors that grow fit into no segment that was there before, and every size stays. The
order of the tensors is that of a trace (vLLM 0.26.0, an H200): 3.04 GiB of growth for 512 sequences at 2,048 tokens per
step, to the segment. Prompts of 256 tokens are played first, then short ones that ask for every sampling option.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from msgspec import Struct

from oomph.engines.vllm.allocator import Allocator, Block
from oomph.units import MIB, cdiv

_PROMPT, _SHORT_PROMPT = 256, 16
_FLOAT, _COUNT = 4, 8
_MOST_STEPS = 40  # a longer ramp is played in strides
# The tensors of a forward pass by their share of its peak; together they leave 1.3 of it. Chosen, not derived: a gated
# MLP's projection is about half of the peak and its activation a quarter.
_FORWARD = (0.5, 0.25, 0.25, 0.15, 0.15)


class Passes(Struct, frozen=True):
    """What the passes of a server need."""

    forward: int  # a batch of max_num_batched_tokens
    scan: int  # of recurrent layers, beside it, when prompts are real
    encoder: int
    tokens: int
    sequences: int
    vocabulary: int
    width: int  # bytes of a logit
    drafts: int = 0
    warmed_by_forward: bool = False  # kernels are tuned on a whole batch before the first request


@lru_cache(maxsize=4096)
def kept_after_load(passes: Passes) -> int:
    """Bytes that stay reserved after both loads."""
    sampler = _Sampler(passes)
    rows = min(passes.sequences, passes.tokens)
    if passes.warmed_by_forward:
        sampler.forward(passes.forward)
    sampler.sample(rows, min(1, passes.drafts))
    sampler.forward(passes.forward + passes.scan)
    for rows in _growing(passes, _PROMPT):
        sampler.sample(rows, passes.drafts)
    for rows in _growing(passes, _SHORT_PROMPT):
        sampler.sample_with_options(rows, passes.drafts)
    if passes.encoder:
        sampler.forward(passes.encoder)
    return sampler.memory.reserved


def _growing(passes: Passes, prompt: int) -> list[int]:
    """Sequences of each step until all run: those that decode take their tokens first. A prompt that is cut counts."""
    query, running, rows = 1 + passes.drafts, 0, []
    while running < passes.sequences and passes.tokens > running * query:
        running = min(passes.sequences, running + cdiv(passes.tokens - running * query, prompt))
        rows.append(running)
    stride = cdiv(len(rows), _MOST_STEPS)
    return rows[::-1][::stride][::-1] if rows else []


class _Sampler:
    def __init__(self, passes: Passes) -> None:
        self.memory = Allocator()
        self.vocabulary, self.width = passes.vocabulary, passes.width

    def forward(self, size: int) -> None:
        self._drop(*[self.memory.alloc(max(2 * MIB, round(share * size))) for share in _FORWARD])

    def sample(self, rows: int, drafts: int) -> None:
        """Logits, a float32 copy, probabilities and noise; with drafts rejection_sampler.py: the logits of every
        drafted token, the last one's, the drafted ones' copy, its float32 form and probabilities."""
        self._drop(*map(self._take, self._sampled(rows, drafts)))

    def _sampled(self, rows: int, drafts: int) -> Iterator[int]:
        yield (1 + drafts) * rows * self.width
        if drafts:
            yield rows * self.width
        yield rows * _FLOAT
        if drafts:
            yield drafts * rows * self.width
            yield from (drafts * rows * _FLOAT, drafts * rows * _FLOAT)
        yield from (rows * _FLOAT, rows * _FLOAT)

    def sample_with_options(self, rows: int, drafts: int) -> None:
        """Log-probabilities, then penalties: two counts of every word in int64, with masks (v1/utils.py)."""
        logits = self._take((1 + drafts) * rows * self.width)
        if drafts:
            others = [self._take(rows * self.width), self._take((1 + drafts) * rows * _FLOAT)]
            others.append(self._take(drafts * rows * _FLOAT))
        else:
            copy, logprobs = self._take(rows * _FLOAT), self._take(rows * _FLOAT)
            self._drop(copy)
            others = [logprobs, self._take(rows * _FLOAT)]
        verified = max(1, drafts) * rows
        counts = [self._take(verified * size) for size in (_COUNT, 1, _COUNT, 1)]
        self._drop(self._take(verified * _FLOAT))
        self._drop(*counts)
        self._drop(self._take(verified * _FLOAT), self._take(verified * _FLOAT))
        self._drop(logits, *others)

    def _take(self, size: int) -> Block:
        return self.memory.alloc(size * self.vocabulary)

    def _drop(self, *blocks: Block) -> None:
        for block in blocks:
            self.memory.free(block)
