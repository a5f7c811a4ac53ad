"""What changes with a llama.cpp build (b9642, b11739, ...): one row per change, never an `if`."""

from __future__ import annotations

import re

from msgspec import Struct

from oomph.errors import CommandError

NEWEST = 11739


class Compute(Struct, frozen=True):
    """How the compute buffer is laid out; measured on the builds named in `since` (sizes of the graph allocator)."""

    since: int
    hidden: int  # copies of the hidden state beside the largest activation, layers on a GPU
    hidden_cpu: int  # the same where everything is on the CPU
    mask_overlaps: bool  # the mask lies where later tensors are


# b9642: CPU-only Llama-3-8B 266.5 MiB = logits 250.5 + 2 x 8, at 4k and 32k alike. b11739: 294.5 / 330.5.
COMPUTE = (
    Compute(0, hidden=2, hidden_cpu=2, mask_overlaps=True),
    Compute(11739, hidden=4, hidden_cpu=5, mask_overlaps=False),
)

# A build knows n_outputs_max: llama-server reserves logits for its slots only, not for a whole micro-batch.
OUTPUTS_MAX_SINCE = 11000  # between b9642 and b11549; the bindings of both still reserve a whole micro-batch


def compute_row(build: int) -> Compute:
    return [row for row in COMPUTE if row.since <= build][-1]


def parse_build(text: str) -> int:
    """'b11739', '11739' or '' (the newest known)."""
    if not text:
        return NEWEST
    match = re.fullmatch(r"b?(\d{1,6})(?:[-.].*)?", text)
    if match is None:
        raise CommandError(f"{text[:40]!r} is not a llama.cpp build such as b{NEWEST}")
    return int(match[1])
