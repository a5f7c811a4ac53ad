import struct

import atheris

with atheris.instrument_imports(include=["oomph"]):
    from oomph.sources.gguf import header as gguf

from common import run


class Memory:
    """The input as a file that is longer than what the fuzzer wrote."""

    name = "model.gguf"

    def __init__(self, raw: bytes) -> None:
        self.raw, self.size = raw, len(raw) + (1 << 16)

    def read(self, offset: int, length: int) -> bytes:
        part = self.raw[offset : offset + length]
        return part + bytes(max(0, min(length, self.size - offset) - len(part)))

    def sibling(self, name: str) -> "Memory":
        return Memory(self.raw)


def text(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value


START = b"GGUF" + struct.pack("<I", 3)
SEEDS = [
    START
    + struct.pack("<QQ", 2, 3)
    + text(b"general.architecture") + struct.pack("<I", 8) + text(b"llama")
    + text(b"words") + struct.pack("<IIQ", 9, 8, 70) + text(b"w") * 70
    + text(b"general.alignment") + struct.pack("<II", 4, 32)
    + text(b"a") + struct.pack("<IqIQ", 1, 32, 2, 0)
    + text(b"b") + struct.pack("<IqqIQ", 2, 256, 3, 12, 32),
    START + struct.pack("<QQ", 0, 1) + text(b"split.count") + struct.pack("<IH", 2, 3),
]  # fmt: skip


def one(data: bytes) -> None:
    gguf.read(Memory(data))


if __name__ == "__main__":
    run(one, SEEDS)
