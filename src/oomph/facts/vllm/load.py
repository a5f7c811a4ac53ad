"""How vLLM's releases load a model: the allocator's settings, and what happens to the weights on the way."""

from __future__ import annotations

from functools import cache

from oomph.facts.vllm.versions import Range, pick
from oomph.units import MIB


class LoadRules(Range, frozen=True):
    max_split: int  # blocks of this size and more are not split while the model loads


LOAD: tuple[LoadRules, ...] = (
    LoadRules(20 * MIB, since="0.21.0"),  # gpu_worker.py:215 (0.21.0) _scoped_allocator_max_split
    LoadRules(1 << 62),
)


@cache
def load_rules(version: str) -> LoadRules:
    return pick(LOAD, version)
