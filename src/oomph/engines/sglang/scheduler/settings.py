"""What SGLang's scheduler works with: its settings, the tokens of its pool, and the rules of its release."""

from typing import Literal

from msgspec import Struct

from oomph.facts.sglang.scheduler import Scheduling

Policy = Literal["lpm", "fcfs", "dfs-weight", "lof", "hrrn"]
Eviction = Literal["lru", "lfu", "fifo", "mru", "filo", "priority", "slru"]

INIT_NEW_TOKEN_RATIO = 0.7  # environ.py SGLANG_INIT_NEW_TOKEN_RATIO, and the three after it
MIN_NEW_TOKEN_RATIO_FACTOR = 0.14
NEW_TOKEN_RATIO_DECAY_STEPS = 600
RETRACT_DECODE_STEPS = 20
CLIP_MAX_NEW_TOKENS = 4096  # schedule_policy.py: a request's own limit counts no further than this
IN_BATCH_PREFIX = 32  # IN_BATCH_PREFIX_CACHING_CHECK_THRESHOLD and ..._DEPRIORITIZE_THRESHOLD
MOST_MATCHED = 128  # requests that wait, beyond which lpm and hrrn are fcfs
REFRESH_INTERVAL = 32  # WAITING_PREFIX_REFRESH_INTERVAL


class Settings(Struct, frozen=True):
    rules: Scheduling  # of its release
    tokens: int  # max_total_num_tokens
    page_size: int
    max_running_requests: int
    max_prefill_tokens: int
    context_length: int
    chunk: int = 0  # chunked_prefill_size; 0 = off
    mixed: bool = False
    policy: Policy = "fcfs"
    conservativeness: float = 1.0
    radix: bool = True
    eviction: Eviction = "lru"
    priority: bool = False  # enable_priority_scheduling
    low_first: bool = False
    preempts: bool = True  # where priorities count: not disable_priority_preemption
    preemption_threshold: int = 10
    overlap: bool = True

    @property
    def preemption(self) -> bool:
        """enable_priority_preemption."""
        return self.priority and self.preempts

    @property
    def pages(self) -> int:
        return self.tokens // self.page_size

    @property
    def first_ratio(self) -> float:
        return min(INIT_NEW_TOKEN_RATIO * self.conservativeness, 1.0)

    @property
    def least_ratio(self) -> float:
        return min(self.first_ratio * MIN_NEW_TOKEN_RATIO_FACTOR, 1.0)

    @property
    def decay(self) -> float:
        return (self.first_ratio - self.least_ratio) / NEW_TOKEN_RATIO_DECAY_STEPS

    @property
    def longest(self) -> int:
        """max_req_len (managers/tp_worker.py)."""
        return min(self.context_length - 1, self.tokens - 1)
