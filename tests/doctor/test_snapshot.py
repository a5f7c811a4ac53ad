"""`explain snapshot.pickle`: PyTorch's memory snapshot, read without running any of it."""

import os
import pickle
from pathlib import Path
from typing import Any

import pytest
import snapshots

import oomph
from oomph.errors import InputError
from oomph.logs.snapshot import read_snapshot
from oomph.logs.unpickle import WHOLE, summary

GIB, MIB = 1 << 30, 1 << 20


@pytest.mark.parametrize(("trace", "stage"), [
    (snapshots.WEIGHTS, "weights_load"), (snapshots.CACHE, "kv_alloc"), (snapshots.CAPTURE, "cudagraph_capture"),
    (snapshots.PROFILE, "profile_run"),
])  # fmt: skip
def test_the_stage_follows_from_the_frames_of_what_was_asked_for(trace: Any, stage: str, tmp_path: Path) -> None:
    answer = oomph.explain(Path(snapshots.write(tmp_path / "s.pickle", snapshots.dying(trace))), plan=False)
    assert answer.failed
    assert (answer.stage, answer.stage_basis, answer.engine.name) == (stage, "snapshot", "vllm")
    assert answer.question is None


def test_memory_is_told_by_parts_that_sum_up(tmp_path: Path) -> None:
    answer = oomph.explain(Path(snapshots.write(tmp_path / "s.pickle", snapshots.dying(snapshots.PROFILE))), plan=False)
    parts = {entry.term: entry.bytes for entry in answer.ledger}
    assert parts["weights"] == 8 * GIB
    assert parts["weights: experts"] == 6 * GIB
    assert parts["KV cache"] == 4 * GIB
    assert parts["CUDA graphs"] == 64 * MIB
    assert parts["cached, not in use"] == 512 * MIB
    assert parts["before the recording began"] == 32 * MIB
    assert sum(parts.values()) == 18 * GIB + (64 + 512 + 32) * MIB


def test_a_snapshot_in_which_nothing_failed_says_where_the_memory_is(tmp_path: Path) -> None:
    standing = {**snapshots.dying([]), "device_traces": []}
    answer = oomph.explain(Path(snapshots.write(tmp_path / "s.pickle", standing)))
    assert answer.failed is False and answer.cause.sure
    assert "KV cache 4.00 GiB" in answer.cause.text
    assert len(answer.text().splitlines()) <= 14


def test_nothing_of_a_pickle_is_ever_run(tmp_path: Path) -> None:
    class Runs:
        def __reduce__(self) -> Any:
            return os.system, (f"touch {tmp_path / 'ran'}",)

    path = snapshots.write(tmp_path / "s.pickle", {"segments": [Runs()]})
    with pytest.raises(InputError, match="names"):
        read_snapshot(path)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("content", [
    b"\x80\x04segments", b"\x80\x04}\x8c\x08segmentsNs.", b"\x80\x04]\x8c\x08segmentsa.",
    b"\x80\x02}q\x00X\x08\x00\x00\x00segmentsr\xff\xff\xff\x7f.",  # a memo of 2^31 places
])  # fmt: skip
def test_what_is_no_snapshot_is_refused_in_one_sentence(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "s.pickle"
    path.write_bytes(content)
    with pytest.raises(InputError) as refused:
        oomph.explain(path)
    assert "\n" not in refused.value.message


def _standing(folder: Path, protocol: int) -> Path:
    path = folder / "standing.pickle"
    snapshot = snapshots.dying(snapshots.PROFILE, history=8000)
    path.write_bytes(
        pickle.dumps({**snapshot, "device_traces": [snapshot["device_traces"][0][:-1]]}, protocol=protocol)
    )
    return path


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_of_a_long_recording_the_segments_are_read(protocol: int, tmp_path: Path, monkeypatch: Any) -> None:
    """The stream is ended where the history begins, whatever frames it is written in."""
    monkeypatch.setattr("oomph.logs.unpickle.WHOLE", 64 << 10)
    snapshot = snapshots.dying(snapshots.PROFILE, history=8000)
    path = tmp_path / "s.pickle"
    path.write_bytes(pickle.dumps(snapshot, protocol=protocol))
    short = summary(str(path))
    assert not short["whole"]
    assert short["failed"]
    assert not summary(str(_standing(tmp_path, protocol)))["failed"]
    assert short["allocated"] == 18 * GIB + 96 * MIB
    assert path.stat().st_size < WHOLE


def test_a_snapshot_without_an_allocation_is_no_all_clear(tmp_path: Path) -> None:
    path = tmp_path / "empty.pickle"
    path.write_bytes(pickle.dumps({"segments": [{"address": "a", "blocks": [{"size": "x"}]}], "device_traces": [[]]}))
    with pytest.raises(InputError, match="no allocation"):
        oomph.explain(path)
