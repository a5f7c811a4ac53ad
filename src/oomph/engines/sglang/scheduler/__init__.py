"""SGLang's scheduler over time, which `oomph simulate` plays.

settings.py   what it works with; sequence.py: what a request's tokens are, without the tokens
radix.py      the tree of what was computed, and what leaves it first
live.py       a request, as the scheduler keeps it; policy.py: in which order those that wait are looked at
admission.py  who joins the next prefill (PrefillAdder)
scheduler.py  one step: prefill before decode, chunks, mixed batches, retraction; loop.py: steps over time
"""
