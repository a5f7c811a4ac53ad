"""A memory snapshot of PyTorch as a log of its own.

Every allocation has its frames, so that the stage of a failure and the parts of the memory are known, not read out of
words."""

from msgspec.structs import replace

from oomph.doctor.explanation import Cause, Explanation
from oomph.doctor.ledger import Entry
from oomph.doctor.reading.places import place_stage
from oomph.doctor.reading.prose import probability
from oomph.doctor.reading.tracebacks import frame_stage
from oomph.errors import InputError
from oomph.ir import Deployment, Engine, StageName
from oomph.ir.evidence import StageBasis, StageChance
from oomph.logs.snapshot import Frame, Oom, Snapshot
from oomph.units import gib, human

BASIS = "the snapshot"
SHOWN = 6  # parts that the sentence names
UNREAD = "the snapshot's history is longer than what is read: what is allocated is known, and not in which order"


def with_parts(explanation: Explanation, snapshot: Snapshot, oom: Oom) -> Explanation:
    """What a log of the same failure says, with the memory by its parts and the stage of what was asked for."""
    explanation = replace(explanation, ledger=_ledger(snapshot), unaccounted_bytes=None)
    stage = _stage(oom.frames)
    if stage is None:
        return explanation
    sure = (StageChance(stage, probability("traceback")),)
    return replace(explanation, stage=stage, stage_basis="snapshot", stages=sure, question=None)


def explain_standing(snapshot: Snapshot, deployment: Deployment | None, notes: tuple[str, ...]) -> Explanation:
    """Where the memory is: of a snapshot without a failed allocation, or with a history that is too long to be read."""
    engine = deployment.engine if deployment is not None else _engine(snapshot)
    size = f"{human(snapshot.allocated)} are allocated"
    if not snapshot.failed and not snapshot.allocated:
        raise InputError("the snapshot holds no allocation: nothing was recorded, or it is of another process")
    if snapshot.failed:
        cause = Cause("M01", "Memory ran out", f"An allocation failed. {_parts(snapshot)}", False)
    elif snapshot.whole:
        cause = Cause("none", f"{size}, and nothing failed", f"No allocation failed. {_parts(snapshot)}", True)
    else:
        cause = Cause("unclear", size, _parts(snapshot), False)
    failed = snapshot.failed or (False if snapshot.whole else None)
    basis: StageBasis = "snapshot" if snapshot.whole else "guess"
    return Explanation(
        engine, failed=failed, stage=None, cause=cause, ledger=_ledger(snapshot), stage_basis=basis, notes=notes,
        settle="" if snapshot.whole else "a shorter recording (max_entries=100000)",
    )  # fmt: skip


def _engine(snapshot: Snapshot) -> Engine:
    from oomph.engines.registry import all_engines

    files = {file for group in snapshot.groups[:200] for file, _, _ in group.frames}
    named = (e.name for e in reversed(all_engines()) if any(part in file for part in e.frame_paths for file in files))
    return Engine(next(named, ""), "")


def _stage(frames: tuple[Frame, ...]) -> StageName | None:
    functions = [function for _, _, function in reversed(frames)]
    files = [file for file, _, _ in reversed(frames)]
    return frame_stage(functions, files) or place_stage(functions, files)


def as_log(snapshot: Snapshot, oom: Oom) -> str:
    """The same as Python and PyTorch would have printed it."""
    frames = "".join(f'  File "{file}", line {line}, in {function}\n' for file, line, function in reversed(oom.frames))
    cached = max(0, snapshot.reserved - snapshot.allocated)
    return (
        f"Traceback (most recent call last):\n{frames}torch.OutOfMemoryError: CUDA out of memory. "
        f"Tried to allocate {gib(oom.size)}. Of the allocated memory {gib(snapshot.allocated)} is allocated by "
        f"PyTorch, and {gib(cached)} is reserved by PyTorch but unallocated.\n"
    )


def _ledger(snapshot: Snapshot) -> tuple[Entry, ...]:
    entries = [Entry(part, size, BASIS) for part, size in snapshot.parts.items()]
    cached = snapshot.reserved - snapshot.allocated
    return (*entries, *([Entry("cached, not in use", cached, BASIS)] if cached > 0 else []))


def _parts(snapshot: Snapshot) -> str:
    parts = [f"{part} {gib(size)}" for part, size in list(snapshot.parts.items())[:SHOWN]]
    cached = snapshot.reserved - snapshot.allocated
    text = f"PyTorch holds {gib(snapshot.reserved)}: {', '.join(parts)}."
    if cached > 0:
        text += f" {gib(cached)} of it are cached and not in use, the largest piece {gib(snapshot.largest_free_block)}."
    return text
