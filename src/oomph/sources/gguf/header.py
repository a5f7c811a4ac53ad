"""What a GGUF file holds, from its header alone: a 40 GB file costs as much as its vocabulary is long.

Read front to back through a window, because only the header itself says where it ends. The vocabulary's strings are
stepped over, not kept. The rules are ggml's (ggml/src/gguf.cpp, gguf_init_from_reader): what it refuses, we refuse;
where it would allocate what a file claims, we have limits.

Shapes are in ggml's order, `ne[0]` first: the input features of a matrix come before its output features, the
reverse of safetensors.
"""

import os
import re
import struct
from collections.abc import Collection

from msgspec import Struct

from oomph.errors import HeaderError
from oomph.facts.dtypes import BLOCKS, GGML, GGML_REMOVED
from oomph.ir import Tensor
from oomph.sources.ranges import Cursor, LocalFile, Ranges
from oomph.text.printable import quoted
from oomph.units import round_up

# What real files have, many times over; a header beyond these is refused before it costs time or memory.
MAX_KEYS = 1 << 12  # about 60
MAX_TENSORS = 1 << 17  # about 2,000
MAX_STRINGS = 1 << 22  # in arrays: 262,144 tokens and 514,906 merges of Gemma
MAX_SPLITS = 1 << 12

# What is kept of the metadata: a number per layer, but no vocabulary and no chat template.
KEEP_NUMBERS = 1024
KEEP_STRINGS = 64
KEEP_STRING_BYTES = 1 << 14

MAX_DIMS = 4  # GGML_MAX_DIMS
MAX_NAME = 64  # GGML_MAX_NAME
DEFAULT_ALIGNMENT = 32
_SPLIT_NAME = re.compile(r"(.+)-(\d{5})-of-(\d{5})\.gguf")  # llama_split_path


class Array(Struct, frozen=True):
    """A value that was stepped over: only its type and length are kept."""

    type: str
    length: int


Scalar = int | float | bool | str
Value = Scalar | tuple[Scalar, ...] | Array


class GGUF(Struct, frozen=True):
    version: int
    metadata: dict[str, Value]
    tensors: tuple[Tensor, ...]  # shapes in ggml's order
    offsets: tuple[int, ...]  # where each tensor begins in its file
    data_offset: int  # where the first file's data begins
    file_bytes: int  # all files together
    files: tuple[str, ...]

    @property
    def architecture(self) -> str:
        value = self.metadata.get("general.architecture")
        return value if isinstance(value, str) else ""


# gguf_type: id -> (name, struct format). STRING and ARRAY have no width.
_STRING, _ARRAY = 8, 9
_NAMES = ("UINT8", "INT8", "UINT16", "INT16", "UINT32", "INT32", "FLOAT32", "BOOL", "STRING", "ARRAY", "UINT64",
          "INT64", "FLOAT64")  # fmt: skip
_FORMATS = ("B", "b", "H", "h", "I", "i", "f", "?", "", "", "Q", "q", "d")
_WIDTHS = tuple(struct.calcsize("<" + f) for f in _FORMATS)
_SCALARS = tuple(struct.Struct("<" + f) for f in _FORMATS)
_type_and_offset = struct.Struct("<IQ").unpack_from


def read(source: str | os.PathLike[str] | Ranges, *, arrays: Collection[str] = ()) -> GGUF:
    """One file, or all files of a split one whichever of them is given. `arrays`: long arrays to keep after all."""
    file: Ranges = LocalFile(source) if isinstance(source, (str, os.PathLike)) else source
    first = _read_one(file, arrays)
    count = first.metadata.get("split.count", 1)
    return _read_split(file, first, count, arrays) if isinstance(count, int) and count > 1 else first


def _read_split(file: Ranges, first: GGUF, count: int, arrays: Collection[str]) -> GGUF:
    match = _SPLIT_NAME.fullmatch(re.split(r"[/\\]", file.name)[-1])
    if match is None or int(match[3]) != count or count > MAX_SPLITS:
        raise HeaderError(f"{file.name} is one of {count} files of a model, but not named so (...-of-{count:05}.gguf)")
    parts: list[GGUF] = []
    for number in range(1, count + 1):
        if number == int(match[2]):
            parts.append(first)
            continue
        parts.append(_read_one(file.sibling(f"{match[1]}-{number:05}-of-{match[3]}.gguf"), arrays))
    tensors = {tensor.name: tensor for part in parts for tensor in part.tensors}
    total = sum(len(part.tensors) for part in parts)
    stated = parts[0].metadata.get("split.tensors.count", total)
    if len(tensors) != total or stated != total:
        raise HeaderError(f"{file.name}: its {count} files hold {len(tensors):,} tensors, not {stated!r} as it says")
    return GGUF(
        version=parts[0].version,
        metadata=parts[0].metadata,
        tensors=tuple(tensors.values()),
        offsets=tuple(o for part in parts for o in part.offsets),
        data_offset=parts[0].data_offset,
        file_bytes=sum(part.file_bytes for part in parts),
        files=tuple(f for part in parts for f in part.files),
    )


def _read_one(source: Ranges, arrays: Collection[str]) -> GGUF:
    cursor = Cursor(source)
    version = _read_start(cursor)
    tensor_count = _count(cursor, "tensors", MAX_TENSORS, 24)  # empty name, no dimensions, type, offset
    key_count = _count(cursor, "metadata keys", MAX_KEYS, 13)  # a key's length, its type and one byte of value
    metadata: dict[str, Value] = {}
    for _ in range(key_count):
        _read_key(cursor, metadata, arrays)
    alignment = metadata.get("general.alignment", DEFAULT_ALIGNMENT)
    if not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1):
        cursor.refuse(f"general.alignment is {alignment!r}, which is not a power of two")
    infos = _read_infos(cursor, tensor_count)
    data_offset = round_up(cursor.position, alignment)
    tensors, offsets = _place(cursor, infos, data_offset, alignment)
    return GGUF(version, metadata, tensors, offsets, data_offset, source.size, files=(source.name,))


def _read_start(cursor: Cursor) -> int:
    name = cursor.source.name
    if cursor.source.size < 24:
        raise HeaderError(f"{name} has {cursor.source.size} bytes: too short for a GGUF header")
    cursor.need(8)
    if cursor.buffer[:4] != b"GGUF":
        if cursor.buffer.startswith(b"version "):
            raise HeaderError(f"{name} is a Git LFS pointer, not the weights", hint="git lfs pull")
        raise HeaderError(f"{name} is not a GGUF file: it begins with {cursor.buffer[:4]!r}")
    cursor.at = 4
    version = cursor.u32()
    if version & 0xFFFF == 0 and version:
        raise HeaderError(f"{name} is a big-endian GGUF file, which no engine on this kind of machine loads")
    if version not in (2, 3):
        raise HeaderError(f"{name} is GGUF version {version}; versions 2 and 3 are in use")
    return version


def _count(cursor: Cursor, what: str, most: int, smallest: int) -> int:
    count = cursor.u64()
    if count * smallest > cursor.left:
        cursor.refuse(f"claims {count:,} {what}, with {cursor.left:,} bytes left in the file")
    if count > most:
        cursor.refuse(f"claims {count:,} {what}, more than any model has")
    return count


def _read_key(cursor: Cursor, metadata: dict[str, Value], arrays: Collection[str]) -> None:
    key = cursor.string(KEEP_STRING_BYTES, "the name of a metadata key")
    if not key:
        cursor.refuse("a metadata key has no name" if key == "" else "a metadata key's name is longer than 16 KiB")
    if key in metadata:
        cursor.refuse(f"the metadata key {quoted(key)} is there twice")
    kind = cursor.u32()
    if kind == _ARRAY:
        metadata[key] = _read_array(cursor, key, key in arrays)
    elif kind == _STRING:
        at = cursor.position
        text = cursor.string(KEEP_STRING_BYTES, f"the metadata key {quoted(key)}")
        metadata[key] = Array("STRING", cursor.position - at - 8) if text is None else text
    else:
        metadata[key] = _numbers(cursor, _type(cursor, kind, key), 1)[0]
    if key == "general.alignment" and kind != 4:
        cursor.refuse("general.alignment is not of type UINT32")


def _type(cursor: Cursor, kind: int, key: str) -> int:
    if kind >= len(_NAMES):
        cursor.refuse(f"the metadata key {quoted(key)} has the type {kind}, which GGUF has not")
    return kind


def _read_array(cursor: Cursor, key: str, wanted: bool) -> Value:
    kind = _type(cursor, cursor.u32(), key)
    count = cursor.u64()
    if kind == _ARRAY:
        cursor.refuse(f"the metadata key {quoted(key)} is an array of arrays, which engines do not load")
    width = 8 if kind == _STRING else _WIDTHS[kind]
    if count * width > cursor.left:
        cursor.refuse(f"the metadata key {quoted(key)} claims {count:,} values, with {cursor.left:,} bytes left")
    if kind != _STRING:
        if wanted or count <= KEEP_NUMBERS:
            return _numbers(cursor, kind, count)
        cursor.at += count * width
        return Array(_NAMES[kind], count)
    cursor.strings += count
    if cursor.strings > MAX_STRINGS:
        cursor.refuse(f"the metadata key {quoted(key)} claims {count:,} strings, more than any vocabulary has")
    if wanted or count <= KEEP_STRINGS:
        what = f"the metadata key {quoted(key)}"
        return tuple(cursor.string(KEEP_STRING_BYTES, what) or "" for _ in range(count))
    cursor.step_over_strings(count)
    return Array("STRING", count)


def _numbers(cursor: Cursor, kind: int, count: int) -> tuple[Scalar, ...]:
    length = count * _WIDTHS[kind]
    cursor.need(length)
    raw = cursor.buffer[cursor.at : cursor.at + length]
    cursor.at += length
    return tuple(value for (value,) in _SCALARS[kind].iter_unpack(raw))


Info = tuple[str, tuple[int, ...], str, int, int]  # name, shape, dtype, bytes, offset


def _read_infos(cursor: Cursor, count: int) -> dict[str, Info]:
    infos: dict[str, Info] = {}
    for _ in range(count):
        name = cursor.string(MAX_NAME - 1, "the name of a tensor")
        if name is None:
            cursor.refuse(f"the name of tensor {len(infos)} has {MAX_NAME} characters or more")
        if name in infos:
            cursor.refuse(f"tensor {quoted(name)} is there twice")
        dims = cursor.u32()
        if dims > MAX_DIMS:
            cursor.refuse(f"tensor {quoted(name)} has {dims:,} dimensions, more than the {MAX_DIMS} that ggml has")
        cursor.need(dims * 8 + 12)
        shape = struct.unpack_from(f"<{dims}q", cursor.buffer, cursor.at)
        kind, offset = _type_and_offset(cursor.buffer, cursor.at + dims * 8)
        cursor.at += dims * 8 + 12
        infos[name] = (name, shape, *_size(cursor, name, shape, kind), offset)
    return infos


def _size(cursor: Cursor, name: str, shape: tuple[int, ...], kind: int) -> tuple[str, int]:
    dtype = GGML.get(kind)
    if dtype is None:
        if kind in GGML_REMOVED:
            cursor.refuse(f"tensor {quoted(name)} is {GGML_REMOVED[kind]}, which engines no longer load")
        cursor.refuse(f"tensor {quoted(name)} has the ggml type {kind}, which is not known")
    elements = 1
    for dim in shape:
        if dim < 0:
            cursor.refuse(f"tensor {quoted(name)} has a dimension of {dim:,}")
        elements *= dim
    if elements >= 1 << 63:
        cursor.refuse(f"tensor {quoted(name)} of shape {list(shape)} has more values than 64 bits can count")
    block, size = BLOCKS[dtype]
    row = shape[0] if shape else 1
    if row % block:
        cursor.refuse(f"tensor {quoted(name)} has rows of {row:,} values, which do not fill {dtype} blocks of {block}")
    return dtype, elements // block * size


def _place(
    cursor: Cursor, infos: dict[str, Info], data_offset: int, alignment: int
) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
    """Tensors follow each other, each padded to the alignment (gguf.cpp: "has offset %, expected %")."""
    tensors: list[Tensor] = []
    offsets: list[int] = []
    end = expected = 0
    for name, shape, dtype, size, offset in infos.values():
        if offset != expected:
            cursor.refuse(f"tensor {quoted(name)} is at byte {offset:,} of the data where {expected:,} is due")
        end = offset + size
        expected = round_up(end, alignment)
        tensors.append(Tensor(name, shape, dtype, size))
        offsets.append(data_offset + offset)
    if data_offset + end > cursor.source.size and tensors:
        cursor.refuse(f"is cut off: its tensors end at byte {data_offset + end:,}, the file at {cursor.source.size:,}")
    return tuple(tensors), tuple(offsets)
