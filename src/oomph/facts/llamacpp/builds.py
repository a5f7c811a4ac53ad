"""What changes with a llama.cpp build (b9642, b11739, ...): one row per change, and where flags are gone."""

import re
from typing import Final, Literal, Protocol

from msgspec import Struct

from oomph.errors import CommandError

NEWEST = 11739
LOOKED_AT: Final = "2026-11-15"  # the day on which it was the newest


class GraphFacts(Struct, frozen=True):
    """How llama.cpp builds a micro-batch's graph, where that decides memory."""

    since: int
    # llama-graph.cpp, build_inp_embd: what it looks up and what it only reserves
    embedding: Literal["select", "mixed", "mixed, rows first"] = "select"
    slot_logits: bool = True  # n_outputs_max: llama-server reserves logits for its slots, not for a micro-batch
    mask_cast: bool = False  # flash attention's mask is made in F32 and cast to F16 in the graph: both are there
    all_inputs: bool = False  # ggml-backend.cpp, pass 6: with pipeline parallelism every input is there four times


# The first builds whose published source has it; the one before that was looked at is 20 to 60 builds older.
GRAPHS = (
    GraphFacts(0, slot_logits=False, mask_cast=True),
    GraphFacts(9442, slot_logits=False),
    GraphFacts(9479),
    GraphFacts(11269, all_inputs=True),
    GraphFacts(11401, embedding="mixed", all_inputs=True),
    GraphFacts(11548, embedding="mixed, rows first", all_inputs=True),
)
NEWEST_GRAPH = GRAPHS[-1]

# CUDA: graph_optimize keeps the experts' outputs for a fused sum; flash attention's F16 copy of a quantised cache is in
# the compute buffer (before: in the pool).
FUSED_EXPERTS_SINCE = 10752
FLASH_COPY_SINCE = 9785
SNAPSHOTS_SINCE = 9246  # n_rs_seq: recurrent states for each token that a draft may be taken back by
# -md alone no longer means draft-simple (in b9437 it did): the model is loaded, and given back as nothing asks for it
SPEC_TYPE_NEEDED_SINCE = 9464
# common/fit.cpp, -c not given: what the trained context is multiplied with
CONTEXT_PER_STREAM_SINCE = (10588, 11205)
CONTEXT_PER_SLOT_SINCE = 11003  # until b11200, unified or not

SLOTS_READ = 11181  # the build (v0.5.0) whose tools/server/server-context.cpp the simulated slots follow

FLASH_AUTO_SINCE = 6325  # -fa is auto, and with it on wherever the GPU can (PR 15434, August 2025); before it was off
# Quantised values turn flash attention on where it is auto; it then runs on the CPU where a GPU has no kernel for
# it; builds before (b10204 was read) probe first and give up where it would move.
FLASH_FOR_QUANTISED_VALUES_SINCE = 10216
# SYCL: until PR 17566 (28 November 2025; the build is that of the day) a buffer above the 4 GB that Level Zero allows
# failed whatever the environment says.
SYCL_LARGE_BUFFERS_SINCE = 7190
LARGE_ALLOCATIONS = "UR_L0_ENABLE_RELAXED_ALLOCATION_LIMITS"  # of Intel's Level Zero runtime
LOAD_MODE_SINCE = 10884  # --load-mode; --mmap, --no-mmap and --mlock are "invalid argument" from here on


def contexts_for(build: int, slots: "Slots") -> int:
    """How many trained contexts --fit begins with where -c is not given."""
    if CONTEXT_PER_SLOT_SINCE <= build < CONTEXT_PER_STREAM_SINCE[1]:
        return slots.n_seq_max
    return slots.n_stream if build >= CONTEXT_PER_STREAM_SINCE[0] else 1


class Slots(Protocol):
    @property
    def n_seq_max(self) -> int: ...
    @property
    def n_stream(self) -> int: ...


def graph_facts(build: int) -> GraphFacts:
    return [row for row in GRAPHS if row.since <= build][-1]


# Semantic versions (since August 2026): the build whose source a release is; what the CMakeLists.txt of a build says is
# the next one.
RELEASES: Final = {
    "0.1.0": 10405, "0.1.2": 10499, "0.2.0": 10588, "0.3.0": 10630, "0.4.0": 10816, "0.4.1": 10970, "0.5.0": 11181,
    "0.6.0": 11434,
}  # fmt: skip


def parse_build(text: str) -> int:
    """'b11739', '11739', 'v0.5.0', '0.6.0' or '' (the newest known)."""
    if not text:
        return NEWEST
    if release := re.fullmatch(r"v?(\d{1,4}(?:\.\d{1,4}){1,2})(?:[-+].*)?", text):
        return _released(text, release[1])
    match = re.fullmatch(r"b?(\d{1,6})(?:[-.].*)?", text)
    if match is None:
        raise CommandError(f"{text[:40]!r} is not a llama.cpp build such as b{NEWEST} or a release such as v0.6.0")
    return int(match[1])


def _released(text: str, numbers: str) -> int:
    builds = {tuple(map(int, name.split("."))): build for name, build in RELEASES.items()}
    wanted = (*map(int, numbers.split(".")), 0, 0)[:3]
    if wanted in builds:
        return builds[wanted]
    if wanted > max(builds):
        return NEWEST
    names = ", ".join(RELEASES)
    raise CommandError(
        f"llama.cpp {text[:40]!r} is not a known release: those are {names}, or a build such as b{NEWEST}"
    )


def unknown_release(text: str) -> str:
    """A sentence for a version that is newer than what is known; empty otherwise."""
    release = re.fullmatch(r"v?(\d{1,4}(?:\.\d{1,4}){1,2})(?:[-+].*)?", text)
    newer = release is not None and (*map(int, release[1].split(".")), 0, 0)[:3] > max(
        tuple(map(int, name.split("."))) for name in RELEASES
    )
    build = re.fullmatch(r"b?(\d{1,6})", text)
    if newer or (build is not None and int(build[1]) > NEWEST):
        return f"llama.cpp {text[:40]} is newer than what is known here: planned as b{NEWEST}"
    return ""
