"""Habits of vLLM's model classes that came or went with a release: which parts of a model they build.

A family names the habit on the part it concerns (`Part.only`, `Param.only`); a part without a name is always built.
"""

from __future__ import annotations

from oomph.facts.vllm.versions import Range, select


class Habit(Range, frozen=True):
    name: str


HABITS: tuple[Habit, ...] = (
    # gemma4.py, gemma3n.py: before 0.30.0, layers that read another layer's cache have K, V and k_norm weights too
    Habit("kv of layers that share a cache", until="0.30.0"),
    # qwen3_vl.py:1818 (0.32.0) mrope_positions_factor: Qwen3-VL and Qwen3.5 positions never pass the token count
    Habit("mrope tables four times the longest sequence", until="0.32.0"),
)


def habits(version: str) -> frozenset[str]:
    return frozenset(h.name for h in select(HABITS, version))
