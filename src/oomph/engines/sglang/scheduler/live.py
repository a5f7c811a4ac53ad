"""A request, as SGLang's scheduler keeps it (managers/schedule_batch.py Req)."""

from oomph.engines.sglang.scheduler.radix import Node
from oomph.engines.sglang.scheduler.sequence import Sequence
from oomph.simulate.config import Job


class Live:
    __slots__ = (
        "aborted", "allocated", "arrived_at", "cached", "entry", "extend_end", "filled", "finished", "first_token",
        "fixed", "holds", "in_flight_chunks", "inserted", "job", "lock", "matched", "max_new", "new", "node",
        "preemptions", "prefix", "protected", "retracted", "sequence", "started",
    )  # fmt: skip

    def __init__(self, job: Job, max_new: int, fixed: bool = False) -> None:
        self.job, self.max_new, self.fixed = job, max_new, fixed
        self.sequence = Sequence(job)
        self.new = 0  # len(output_ids)
        self.prefix = 0  # tokens that the next prefill does not compute
        self.extend_end = 0  # where it ends
        self.filled = 0  # len(full_untruncated_fill_ids): its length when it was last looked at
        self.allocated = 0  # tokens that have a slot
        self.protected = 0  # of them, those that are the tree's
        self.inserted = 0
        self.matched = 0  # num_matched_prefix_tokens
        self.node: Node | None = None  # last_node
        self.lock: Node | None = None  # the path that it reads
        self.holds = False  # a row of req_to_token
        self.finished = self.retracted = self.aborted = False
        self.in_flight_chunks = 0  # inflight_middle_chunks
        self.entry = 0  # when it joined the queue
        self.arrived_at = 0  # tokens of all prefills until then (hrrn)
        self.started = self.first_token = self.cached = -1
        self.preemptions = 0

    @property
    def prompt(self) -> int:
        return self.job.prompt

    @property
    def length(self) -> int:
        """full_untruncated_fill_ids."""
        return self.job.prompt + self.new
