"""Reading: whole, in pieces, packed, hostile; always in bounded memory."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
import time
import tracemalloc
from pathlib import Path

import pytest

from oomph.errors import InputError
from oomph.logs import reader, sift
from oomph.logs.reader import read_paths, read_stream, read_text

LINE = b'(APIServer pid=1) INFO:     10.0.0.1:5 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
NEEDLE = b"(EngineCore pid=2) INFO 05-30 01:45:33 [gpu_worker.py:462] Available KV cache memory: 3.10 GiB\n"


def test_small_logs_are_kept_whole() -> None:
    log = read_text("a\nb\nc")
    assert [(line.number, line.text) for line in log.lines] == [(1, "a"), (2, "b"), (3, "c")]
    assert log.whole


def test_line_numbers_hold_in_a_long_log(tmp_path: Path) -> None:
    lines = [LINE] * 120_000
    for at in (50_000, 90_001):
        lines[at] = NEEDLE
    path = tmp_path / "server.log"
    path.write_bytes(b"".join(lines))
    log = read_paths([str(path)])
    assert not log.whole and len(log.lines) < 100_000
    found = [line.number for line in log.lines if "Available KV" in line.text]
    assert found == [50_001, 90_002]
    assert log.lines[-1].number >= 120_000
    for line in log.lines[:: max(1, len(log.lines) // 500)]:
        assert line.number > 120_000 or line.text == lines[line.number - 1].decode().rstrip("\n")


def test_several_files_are_one_log(tmp_path: Path) -> None:
    a, b = tmp_path / "a.log", tmp_path / "b.log.gz"
    a.write_text("first")
    b.write_bytes(gzip.compress(b"second\nthird"))
    assert [line.text for line in read_paths([str(a), str(b)]).lines if line.text] == ["first", "second", "third"]


def test_a_cut_gzip_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    path = tmp_path / "cut.gz"
    path.write_bytes(gzip.compress(LINE * 5000)[:-20])
    log = read_paths([str(path)])
    assert log.total_lines > 100


def test_powershell_writes_utf16(tmp_path: Path) -> None:
    path = tmp_path / "ps.log"
    path.write_bytes(NEEDLE.decode().encode("utf-16"))
    assert "Available KV cache memory" in read_paths([str(path)]).lines[0].text


def test_a_gigabyte_in_one_line_is_bounded() -> None:
    class Endless(io.RawIOBase):
        left = 1 << 30

        def read(self, n: int = -1) -> bytes:
            n = min(n, self.left)
            self.left -= n
            return b"x" * n

    tracemalloc.start()
    start = time.process_time()
    log = read_stream(Endless())  # type: ignore[arg-type]
    seconds, (_, peak) = time.process_time() - start, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert log.total_bytes == 1 << 30 and len(log.lines[0].text) <= reader.LONGEST
    assert peak < 24 << 20 and seconds < 20


def test_memory_is_bounded_when_every_line_is_wanted() -> None:
    class Many(io.RawIOBase):
        left = 160 << 20

        def read(self, n: int = -1) -> bytes:
            n = min(n, self.left)
            self.left -= n
            return (NEEDLE * (n // len(NEEDLE) + 1))[:n]

    log = read_stream(Many())  # type: ignore[arg-type]
    kept = sum(len(line.text) for line in log.lines)
    assert kept < 2 * sift.HEAD + 2 * sum(sift.POOL.values()) + 2 * sift.TAIL


@pytest.mark.parametrize("data", [bytes(range(256)) * 40, b"\x7fELF\x02\x01\x01" + b"\0" * 4000, b"\0\1\2\3" * 999])
def test_binary_is_refused(data: bytes) -> None:
    with pytest.raises(InputError, match="not text"):
        read_stream(io.BytesIO(data), "core.bin")


@pytest.mark.parametrize(
    "packed", [b"\x28\xb5\x2f\xfd\x04rest", lzma.compress(LINE), bz2.compress(LINE), b"PK\3\4rest"]
)
def test_what_another_program_packed_is_refused_with_the_way_to_unpack_it(packed: bytes) -> None:
    with pytest.raises(InputError, match="is packed by") as refusal:
        read_stream(io.BytesIO(packed), "server.log.zst")
    assert "| oomph explain -" in (refusal.value.hint or "")


def test_noise_behind_a_log_is_passed_by() -> None:
    noise = random.Random(3).randbytes(6 << 20)
    log = read_stream(io.BytesIO(NEEDLE * 20_000 + b"\n" + noise + b"\nKilled\n" + LINE * 20_000))
    assert any(line.text == "Killed" for line in log.lines)
    assert sum(len(line.text) for line in log.lines) < 8 << 20


def test_what_cannot_be_opened(tmp_path: Path) -> None:
    for name in (str(tmp_path), str(tmp_path / "missing")):
        with pytest.raises(InputError):
            read_paths([name])
    with pytest.raises(InputError):
        read_paths([])


def test_wrong_encodings_do_not_matter() -> None:
    log = read_stream(io.BytesIO("Größe: 3 GiB\n".encode("latin-1") + NEEDLE))
    assert "Available KV" in log.lines[1].text
