"""What happens on the GPU between building a module and serving it: tensors that come and go, in order.

A step is (name, bytes) for a tensor that is made and (name, 0) for one that is dropped.
"""

from __future__ import annotations

from oomph.ir.model import Rope

Steps = list[tuple[str, int]]


def rope_steps(rope: Rope, rows: int, nbytes: int) -> Steps:
    """rotary_embedding/base.py:79 (0.21.0): float32 angles, cosines and sines, their concatenation, then the cast."""
    half = rows * (rope.dim // 2) * 4
    steps = [("inv_freq", rope.dim // 2 * 4), ("t", rows * 4), ("freqs", half)]
    if "yarn" in rope.kind:  # yarn_scaling_rope.py: freqs.cos() * mscale
        steps += [("plain", half), ("cos", half), ("plain", 0), ("plain", half), ("sin", half), ("plain", 0)]
    else:
        steps += [("cos", half), ("sin", half)]
    steps += [("cat", 2 * half), ("inv_freq", 0), ("t", 0), ("freqs", 0), ("cos", 0), ("sin", 0)]
    return steps if nbytes == 2 * half else [*steps, ("cache", nbytes), ("cat", 0)]
