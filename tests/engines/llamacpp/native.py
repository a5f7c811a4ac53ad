"""The real llama.cpp as an oracle: a prebuilt CPU build, with GPUs played by its RPC backend on loopback.

The wheel is linked against glibc 2.38. On an older glibc a copy of it is used in which the four C23 names
(`__isoc23_strtol`, ...) are the ones that every glibc has; nothing else in it is touched.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

LIBRARIES = ("libggml-base.so.0", "libggml-cpu.so.0", "libggml-rpc.so.0", "libggml.so.0", "libllama.so.0")
C23 = b"__isoc23_"


def without_c23(data: bytes) -> bytes:
    """Undefined `__isoc23_x@GLIBC_2.38` becomes `x@GLIBC_2.2.5`; the need for 2.38 becomes a weak one."""
    out = bytearray(data)
    (table,) = struct.unpack_from("<Q", out, 40)
    size, count = struct.unpack_from("<HH", out, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", out, table + i * size) for i in range(count)]
    by_kind = {s[1]: s for s in sections}
    symbols, versions, needs = by_kind[11], by_kind[0x6FFFFFFF], by_kind[0x6FFFFFFE]
    strings = sections[symbols[6]][4]
    base, at = 0, needs[4]
    for _ in range(needs[7]):
        _, entries, _, aux, following = struct.unpack_from("<HHIII", out, at)
        entry = at + aux
        for _ in range(entries):
            _, flags, index, name, step = struct.unpack_from("<IHHII", out, entry)
            label = bytes(out[strings + name : out.index(b"\0", strings + name)])
            if label == b"GLIBC_2.2.5":
                base = base or index
            if label == b"GLIBC_2.38":
                struct.pack_into("<H", out, entry + 4, flags | 2)
            entry += step
        at += following
    for i in range(symbols[5] // 24):
        (name,) = struct.unpack_from("<I", out, symbols[4] + i * 24)
        if out[strings + name : strings + name + len(C23)] == C23:
            struct.pack_into("<I", out, symbols[4] + i * 24, name + len(C23))
            struct.pack_into("<H", out, versions[4] + i * 2, base)
    return bytes(out)


def prepare(folder: Path) -> Path:
    """The folder with loadable libraries: the package's own, or corrected copies in `folder`."""
    import ctypes
    from importlib.util import find_spec

    spec = find_spec("llama_cpp_py_sync")
    if spec is None or spec.origin is None:
        raise OSError("llama-cpp-py-sync is not installed")
    home = Path(spec.origin).parent
    try:
        ctypes.CDLL(str(home / "libggml-base.so.0"))
        return home
    except OSError as refused:
        if "GLIBC_2.38" not in str(refused):
            raise
    for name in LIBRARIES:
        (folder / name).write_bytes(without_c23((home / name).read_bytes()))
    return folder


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


class Native:
    """One process that loads models, and one RPC server per emulated GPU."""

    def __init__(self, gpus: int = 2) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.home = prepare(Path(self.folder.name))
        self.gpus = gpus
        self.start()

    def start(self) -> None:
        self.ports = [free_port() for _ in range(self.gpus)]
        self.servers = [self._start("serve", str(port)) for port in self.ports]
        for port in self.ports:
            self._await(port)
        self.worker = self._start("work", *map(str, self.ports))

    def _start(self, *words: str) -> subprocess.Popen[str]:
        worker = str(Path(__file__).with_name("native_worker.py"))
        environment = {**os.environ, "LD_LIBRARY_PATH": str(self.home)}
        return subprocess.Popen(
            [sys.executable, worker, str(self.home), *words],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment,
        )  # fmt: skip

    def _await(self, port: int) -> None:
        until = time.monotonic() + 20
        while time.monotonic() < until:
            with socket.socket() as s:
                if s.connect_ex(("127.0.0.1", port)) == 0:
                    return
            time.sleep(0.05)
        raise OSError("the RPC server of llama.cpp does not answer")

    def ask(self, **config: Any) -> dict[str, Any]:
        assert self.worker.stdin is not None and self.worker.stdout is not None
        self.worker.stdin.write(json.dumps(config) + "\n")
        self.worker.stdin.flush()
        line = self.worker.stdout.readline()
        if line:
            return dict(json.loads(line))
        self.stop()
        self.start()
        return {"error": "llama.cpp aborted", "lines": []}

    def stop(self) -> None:
        for process in (self.worker, *self.servers):
            process.kill()
            process.wait()

    def close(self) -> None:
        self.stop()
        self.folder.cleanup()
