"""What SGLang's scheduler and its tree cache do differently from release to release, read in the wheels of 0.5.12 to
0.5.23 (managers/scheduler.py, schedule_policy.py, mem_cache/) and compared with the real ones of 0.5.17, 0.5.20 and
0.5.23 (tools/real_sglang_scheduler)."""

from typing import Literal

from oomph.facts.changes import Facts, changes, since

_Split = Literal["never", "end", "always"]
_Hits = Literal["whole", "once"]
_NEVER: _Split = "never"
_END: _Split = "end"
_ALWAYS: _Split = "always"
_WHOLE: _Hits = "whole"
_ONCE: _Hits = "once"


class Scheduling(Facts):
    unified = since("0.5.19")  # UnifiedRadixCache for every model: a match leaves the end of a path the youngest
    splits_prompt = changes(_NEVER, ("0.5.20", _END), ("0.5.22", _ALWAYS))  # what it leaves ends where its prompt does
    hits = changes(_WHOLE, ("0.5.22", _ONCE))  # which inserts lfu and slru count: no chunks, or each request's first
    known_end = since("0.5.22")  # no decode of a request whose last token is in flight
    filters_first = since("0.5.23")  # who ended leaves the running batch before a prefill is looked for
    full_if_served = since("0.5.22")  # a batch is full for want of tokens only while somebody runs
    counts_held = since("0.5.23")  # a chunked request takes no second place among those that may run
    looks_at_budget = since("0.5.23")  # nobody is matched once the pass's own budget is spent
    requeues = since("0.5.22")  # who was preempted for a request that did not get in waits again; before, it was lost
    refreshes = since("0.5.22")  # what waits keeps its prefix young
    fixed_ratio = since("0.5.22")  # a request that ignores the end of its text is counted in full
    fixed_page = since("0.5.21")  # ... with the page more that its last tokens may take
    checks_mixed = since("0.5.22")  # decodes sit a mixed step out if they do not fit
