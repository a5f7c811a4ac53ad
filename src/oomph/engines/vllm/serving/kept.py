"""What the V1 runner's passes leave reserved, played through PyTorch's allocator.

A server does not begin with a full batch: prompts come in as the batch limit lets them, so that the sampler runs for
more sequences from step to step. Tensors that grow fit into no segment that was there before, and every size stays. The
order of the tensors is that of a trace (vLLM 0.26.0, an H200): 3.04 GiB of growth for 512 sequences at 2,048 tokens per
step, to the segment. Prompts of 256 tokens are played first, then short ones that ask for every sampling option, then
images. A pass is played as the tensors of its phases: a phase ends before the next begins, and what it frees is there
for the next.
"""

from collections.abc import Iterator
from functools import lru_cache

from msgspec import Struct

from oomph.engines.common.allocator import Allocator, Block
from oomph.engines.vllm.traits import REMEMBERED
from oomph.units import cdiv

PROMPT, SHORT_PROMPT = 256, 16
_FLOAT, _COUNT = 4, 8
_MOST_STEPS = 40  # a longer ramp is played in strides
Sizes = tuple[int, ...]


class Passes(Struct, frozen=True):
    """What the passes of a server need."""

    profiled: tuple[Sizes, ...]  # the passes of profiling, phase by phase
    forward: tuple[Sizes, ...]  # a batch of max_num_batched_tokens
    scan: Sizes  # of a recurrent layer, when a batch of prompts is read
    short_scan: Sizes  # the same where every sequence's prompt is short
    encoder: tuple[Sizes, ...]
    tokens: int
    sequences: int
    vocabulary: int
    width: int  # bytes of a logit
    drafts: int
    warmed_by_forward: bool  # kernels are tuned on a whole batch before the first request
    warmed_by_sampling: bool
    emptied: bool  # capture follows the warm-up and begins with an empty cache
    v2: bool
    programs: int  # of the top-k and top-p kernel: its buffer has a float32 row for each


class Kept(Struct, frozen=True):
    """Bytes that are reserved beyond what is allocated for good."""

    warmed: int
    loaded: int


@lru_cache(REMEMBERED)
def play(passes: Passes) -> Kept:
    """The buffer of the top-k and top-p kernel is made while profiling and stays: it lies in a block of a larger pass,
    whose segment cannot be given back. The rest of that segment serves later passes."""
    sampler = _Sampler(passes)
    rows = min(passes.sequences, passes.tokens)
    sampler.run(*passes.profiled)
    if not passes.v2:
        sampler.profile(rows, min(1, passes.drafts), passes.programs)
    sampler.memory.empty_cache()
    if passes.warmed_by_forward:
        sampler.run(*passes.forward)
    warm_rows = min(rows, max(1, passes.tokens // (2 + passes.drafts))) if passes.v2 else rows
    if passes.warmed_by_sampling:
        sampler.sample(warm_rows, min(1, passes.drafts))
    if passes.emptied:
        sampler.memory.empty_cache()
    warmed = sampler.cached
    sampler.run(*passes.forward, passes.scan)
    for rows in _growing(passes, PROMPT):
        sampler.sample(rows, passes.drafts)
    sampler.run(passes.short_scan)
    for rows in () if passes.v2 else _growing(passes, SHORT_PROMPT):
        sampler.sample_with_options(rows, passes.drafts)
    sampler.run(*passes.encoder)
    return Kept(warmed, sampler.cached)


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
        self.vocabulary, self.width, self.v2 = passes.vocabulary, passes.width, passes.v2

    def run(self, *phases: Sizes) -> None:
        for phase in phases:
            self.memory.pass_through(size for size in phase if size > 0)

    @property
    def cached(self) -> int:
        return self.memory.reserved - self.memory.allocated

    def profile(self, rows: int, drafts: int, programs: int) -> None:
        """As `sample`, with the kernel's buffer after the logits and their float32 copy."""
        first, second, *others = self._sampled(rows, drafts)
        blocks = [self._take(first), self._take(second)]
        if programs:
            self._take(programs * _FLOAT)
        self._drop(*blocks, *map(self._take, others))

    def sample(self, rows: int, drafts: int) -> None:
        """Logits, a float32 copy, probabilities and noise; with drafts rejection_sampler.py: the logits of every
        drafted token; the last one's, sampled; of the drafted ones a copy, two float32 ones and the probabilities."""
        if not drafts or self.v2:
            self.memory.pass_through(size * self.vocabulary for size in self._sampled(rows, drafts))
            return
        logits = [self._take((1 + drafts) * rows * self.width), self._take(rows * self.width)]
        last = self._take(rows * _FLOAT)
        self._drop(self._take(rows * _FLOAT), self._take(rows * _FLOAT))
        copy = self._take(drafts * rows * self.width)
        verified = [self._take(drafts * rows * _FLOAT)]
        self._drop(copy)
        verified += [self._take(drafts * rows * _FLOAT), self._take(drafts * rows * _FLOAT)]
        self._drop(*logits, last, *verified, self._take(rows * _FLOAT))

    def _sampled(self, rows: int, drafts: int) -> Iterator[int]:
        if self.v2:
            yield from ((1 + drafts) * rows * self.width, (1 + drafts) * rows * self.width)
            yield from (rows * _FLOAT, rows * _FLOAT, rows * _FLOAT)
            return
        yield rows * self.width
        yield from (rows * _FLOAT, rows * _FLOAT, rows * _FLOAT)

    def sample_with_options(self, rows: int, drafts: int) -> None:
        """Log-probabilities, then penalties: two counts of every word in int64, with masks (v1/utils.py)."""
        logits = self._take((1 + drafts) * rows * self.width)
        if drafts:
            others = [
                self._take(rows * self.width),
                self._take((1 + drafts) * rows * _FLOAT),
                self._take(drafts * rows * _FLOAT),
            ]
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
