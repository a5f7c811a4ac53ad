"""A memory snapshot of PyTorch, read by a process of its own: `python -m oomph.logs.unpickle FILE`, a summary as JSON.

A pickle can run any code; this one may name no class at all, so that nothing but plain containers can be built. Time
and memory are bounded by the operating system: the process gives itself a limit of address space, and whoever starts it
a limit of time. Of a long recording only the segments are read, by ending the stream where the history begins.
"""

import io
import json
import mmap
import pickle
import struct
import sys
from pathlib import Path
from typing import Any, BinaryIO

Frame = tuple[str, int, str]  # file, line, function
MEMORY = 1 << 30
LARGEST = 500 << 20
WHOLE = 80 << 20  # of a file whose history is built too: about five times that in Python's objects
MOST_GROUPS = 4000
DEEPEST = 64  # frames of one allocation
_KEYS = (b"\x8c\x0ddevice_traces", b"X\x0d\x00\x00\x00device_traces")  # as pickle protocols 4 and 2 write it
_FRAME = 0x95  # pickle.FRAME, with its length in the eight bytes behind it
_END = b"u."  # SETITEMS, STOP


class Plain(pickle.Unpickler):
    """Refuses every name of a module: there is no class and no function in a snapshot."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it names {module}.{name}, which no memory snapshot does")


def summary(path: str) -> dict[str, Any]:
    with Path(path).open("rb") as file:
        size = file.seek(0, 2)
        file.seek(0)
        whole = size <= WHOLE
        failed = not whole and _names_oom(file)
        snapshot = _load(file if whole else _segments_alone(file))
    if not isinstance(snapshot, dict) or not isinstance(snapshot.get("segments"), list):
        raise pickle.UnpicklingError("it has no segments")
    oom = _last_oom(snapshot)
    return {"bytes": size, "whole": whole, **_segments(snapshot["segments"]), "oom": oom, "failed": failed or bool(oom)}


def _load(stream: BinaryIO) -> Any:
    return Plain(stream).load()


def _names_oom(file: BinaryIO) -> bool:
    """Whether the history, which is not built, has an entry of a failed allocation: a string is spelled once."""
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return any(data.find(word) > 0 for word in (b"\x8c\x03oom", b"X\x03\x00\x00\x00oom"))


def _segments_alone(file: BinaryIO) -> BinaryIO:
    """The beginning of the stream, up to the key of the history, closed as a pickle of its own."""
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        places = [place for key in _KEYS if (place := data.find(key, 0, LARGEST)) > 0]
        end = min(places, default=0)
        if not 0 < end <= WHOLE:
            raise pickle.UnpicklingError("its segments alone are larger than what is read")
        head = bytearray(data[:end])
    place = 2  # behind the protocol
    while place < end and head[place] == _FRAME:
        (length,) = struct.unpack_from("<Q", head, place + 1)
        if place + 9 + length >= end:
            struct.pack_into("<Q", head, place + 1, end - place - 9 + len(_END))
            break
        place += 9 + length
    return io.BytesIO(bytes(head) + _END)


def _segments(segments: list[Any]) -> dict[str, Any]:
    """Sizes, and what is allocated by the frames that asked for it."""
    groups: dict[tuple[tuple[Frame, ...], bool], dict[str, Any]] = {}
    reserved = allocated = largest = 0
    for segment in segments:
        reserved += _number(segment, "total_size")
        private = tuple(segment.get("segment_pool_id") or (0, 0)) != (0, 0)  # a graph's own pool
        for block in segment.get("blocks") or ():
            if block.get("state") == "inactive":
                largest = max(largest, _number(block, "size"))
                continue
            allocated += _number(block, "size")
            frames = _names(block.get("frames") or [])
            group = groups.setdefault(
                (frames, private), {"bytes": 0, "blocks": 0, "frames": frames, "private": private}
            )
            group["bytes"] += _number(block, "size")
            group["blocks"] += 1
    largest_first = sorted(groups.values(), key=lambda group: -int(group["bytes"]))[:MOST_GROUPS]
    return {"reserved": reserved, "allocated": allocated, "largest_free_block": largest, "groups": largest_first}


def _last_oom(snapshot: dict[str, Any]) -> dict[str, Any] | None:
    entries = [
        entry for trace in snapshot.get("device_traces") or () for entry in trace if entry.get("action") == "oom"
    ]
    if not entries:
        return None
    last = entries[-1]
    return {"size": _number(last, "size"), "free": last.get("device_free"), "frames": _names(last.get("frames") or [])}


def _names(frames: list[Any]) -> tuple[Frame, ...]:
    """Innermost first."""
    return tuple(
        (str(frame.get("filename", ""))[:300], _number(frame, "line"), str(frame.get("name", ""))[:120])
        for frame in frames[:DEEPEST]
    )


def _number(values: dict[str, Any], name: str) -> int:
    value = values.get(name)
    return value if isinstance(value, int) and 0 <= value < 1 << 62 else 0


def main() -> int:
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    except (ImportError, OSError, ValueError):  # not on Windows, and not below what is in use
        pass
    try:
        json.dump(summary(sys.argv[1]), sys.stdout)
    except MemoryError:
        print("it needs more than 1 GiB of memory to be read", file=sys.stderr)
        return 2
    except Exception as error:  # whatever a stranger's pickle does: one sentence
        print(f"it is no memory snapshot of PyTorch: {str(error)[:200] or type(error).__name__}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
