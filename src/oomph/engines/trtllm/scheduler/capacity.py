"""What TensorRT-LLM's schedulers work with: their settings, and a request as the engine holds it."""

from typing import Literal

from msgspec import Struct

from oomph.engines.trtllm.kv.blocks import CacheRequest, Window
from oomph.simulate.config import Job
from oomph.units import cdiv

Policy = Literal["GUARANTEED_NO_EVICT", "MAX_UTILIZATION", "STATIC_BATCH"]


class Capacity(Struct, frozen=True):
    policy: Policy
    windows: tuple[tuple[Window, int], ...]  # pool, its blocks
    max_batch_size: int
    max_num_tokens: int
    max_seq_len: int
    chunked: bool = False
    max_tokens: int = 0  # what every request asks for; 0 = as many as it gets
    slack: str = "new tokens"  # what a window admits beyond itself when a request starts
    beams: int = 1  # of every request
    drafts: int = 0  # tokens that are drafted in a step
    accepted: int = 0  # of them, in thousandths of a token in each step
    reuses: bool = False  # full blocks of prompts and answers are found again (enable_block_reuse)
    counts_shared: bool = False  # the scheduler takes off the blocks of a prompt that others hold right now

    @property
    def slides(self) -> bool:
        return len(self.windows) > 1 or self.windows[0][0].size < self.max_seq_len

    @property
    def step_tokens(self) -> int:
        """Of a decoding request (microBatchScheduler.cpp: getBeamWidthByIter + getNumDraftTokens)."""
        return self.beams + self.drafts


class Live:
    """A request inside the engine."""

    __slots__ = (
        "blocks", "cached", "computed", "cut", "earlier", "first_token", "ids", "job", "keys", "max_new", "new",
        "preemptions", "prompt", "started", "steps", "tokens", "total",
    )  # fmt: skip

    def __init__(self, job: Job, total: int, max_new: int) -> None:
        self.job, self.prompt, self.total, self.max_new = job, job.prompt, total, max_new
        self.new = 0  # tokens of its answer since it last started
        self.earlier = 0  # ... before it was paused
        self.steps = 0  # in which it has decoded: accepted drafts are spread over them
        self.computed = 0  # tokens of its prompt that are in the cache
        self.tokens = 0  # tokens that have a slot: the whole prompt from its first chunk on
        self.blocks: list[int] = []  # in each pool, all beams together
        self.cut: list[int] = []  # in each pool: blocks that have left the window
        self.ids: list[int] = []  # the blocks themselves, where prompts are reused
        self.keys: list[int] | None = None  # what each full block of its prompt and its answer holds
        self.cached = -1  # tokens that were found in the cache when it first started
        self.started = self.first_token = -1
        self.preemptions = 0

    @property
    def decodes(self) -> bool:
        """Every prompt has a token: one that is computed has a slot. Loops over all requests write it out."""
        return self.computed >= self.prompt

    @property
    def has_started(self) -> bool:
        return self.tokens > 0

    @property
    def left(self) -> int:
        """Tokens until its answer is complete."""
        return self.total - self.earlier - self.new

    def as_seen_by(self, capacity: Capacity, window: Window, shared: int = 0) -> CacheRequest:
        """Drafts come with the first answer: a prompt has none (py_executor.py _prepare_draft_requests)."""
        return CacheRequest(
            self.prompt,
            self.max_new,
            beams=capacity.beams,
            drafts=capacity.drafts if self.decodes else 0,
            tokens=self.tokens,
            blocks=cdiv(self.tokens, window.block),
            shared=shared,
            length=self.prompt + self.new,
        )
