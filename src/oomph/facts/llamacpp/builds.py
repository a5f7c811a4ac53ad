"""What changes with a llama.cpp build (b9642, b11739, ...): one row per change, and where flags are gone."""

import re

from msgspec import Struct

from oomph.errors import CommandError

NEWEST = 11739


class Compute(Struct, frozen=True):
    """How the compute buffer is laid out, in copies of the hidden state; read off the graph allocator of each build."""

    since: int
    hidden: int  # beside the widest activation, all layers on one GPU
    query: int  # copies of the query beside them
    hidden_host: int  # on the host beside a GPU that has all layers
    hidden_cpu: int  # where everything is on the CPU
    logits: int  # beside the logits, on a GPU
    logits_mask: bool  # the mask is still held while the logits are made
    pipeline_first: int  # the first of several GPUs
    pipeline_host: int
    slot_logits: bool = True  # n_outputs_max: llama-server reserves logits for its slots, not for a micro-batch
    mask_cast: bool = False  # flash attention's mask is made in F32 and cast to F16 in the graph: both are there


# Llama-3.1-8B and Gemma-3-12B shapes, micro-batch 512. b9642 to b11227: 266.5 MiB on the CPU with all logits, at 4k and
# 32k alike; b11391: 112 and 140 MiB on one GPU; b11548 and b11739: 120 and 148 MiB. b8468 and b9014 grow by 4 bytes a
# cell and token on the CPU, b9554 by 2; a GPU's 808.02 MiB and the host's 528.02 MiB at 262,144 cells (llama.cpp PR
# 22546) and 497.00 MiB with all logits (issue 22040) are what the first row says.
COMPUTE = (
    Compute(0, hidden=2, query=1, hidden_host=2, hidden_cpu=4, logits=3, logits_mask=False,
            pipeline_first=6, pipeline_host=5, slot_logits=False, mask_cast=True),  # b9445 has no n_outputs_max
    Compute(9554, hidden=2, query=1, hidden_host=2, hidden_cpu=4, logits=1, logits_mask=False,
            pipeline_first=6, pipeline_host=5),
    Compute(11391, hidden=2, query=1, hidden_host=2, hidden_cpu=4, logits=3, logits_mask=True,
            pipeline_first=6, pipeline_host=5),
    Compute(11548, hidden=4, query=0, hidden_host=4, hidden_cpu=5, logits=4, logits_mask=True,
            pipeline_first=15, pipeline_host=10),
)  # fmt: skip

FLASH_AUTO_SINCE = 6325  # -fa is auto, and with it on wherever the GPU can (PR 15434, August 2025); before it was off
# SYCL: until PR 17566 (28 November 2025; the build is that of the day) a buffer above the 4 GB that Level Zero allows
# failed whatever the environment says.
SYCL_LARGE_BUFFERS_SINCE = 7190
LOAD_MODE_SINCE = 10884  # --load-mode; --mmap, --no-mmap and --mlock are "invalid argument" from here on


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
