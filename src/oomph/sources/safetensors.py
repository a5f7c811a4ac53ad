"""What a safetensors checkpoint holds, from its headers alone.

A file is 8 bytes of little-endian length, that many bytes of JSON, and the data. The checks are the format's own
(safetensors/src/tensor.rs, `read_metadata` and `validate`): what we refuse, every engine refuses.
"""

import os
from collections.abc import Iterable, Iterator
from math import prod
from pathlib import Path
from typing import Annotated, Any, NoReturn

import msgspec
from msgspec import Meta, Struct

from oomph.errors import HeaderError, InputError
from oomph.facts.dtypes import BITS
from oomph.ir import Tensor
from oomph.sources.json_input import open_regular, read_file, reason
from oomph.text.nesting import bounded
from oomph.text.printable import quoted

MAX_HEADER_BYTES = 100_000_000  # tensor.rs, MAX_HEADER_SIZE
MAX_BYTES = 1 << 63
MAX_DIMENSIONS = 64  # torch and numpy stop there
INDEX = "model.safetensors.index.json"
_CONSOLIDATED_INDEX = "consolidated.safetensors.index.json"

Size = Annotated[int, Meta(ge=0, le=MAX_BYTES - 1)]


class _Info(Struct, gc=False):
    # Defaults, because `__metadata__` passes through the same type; real entries are checked to have all three.
    dtype: str = ""
    shape: tuple[Size, ...] | None = None
    data_offsets: tuple[Size, Size] = (0, -1)


class Index(Struct, frozen=True):
    """model.safetensors.index.json: which shard holds which tensor, and how many bytes they are in all."""

    weight_map: dict[str, str]
    total_size: int | None = None

    @property
    def shards(self) -> tuple[str, ...]:
        return tuple(sorted(set(self.weight_map.values())))


_header = msgspec.json.Decoder(dict[str, _Info])
_raw_header = msgspec.json.Decoder(dict[str, msgspec.Raw])
_info = msgspec.json.Decoder(_Info)


def header_length(prefix: bytes, file_size: int, where: str) -> int:
    """The header's length from a file's first 8 bytes, believed only when the file can hold it."""
    if prefix.startswith(b"version "):
        raise HeaderError(f"{where} is a Git LFS pointer, not the weights", hint="git lfs pull")
    if len(prefix) < 8:
        raise HeaderError(f"{where} has {len(prefix)} bytes: too short for a safetensors header")
    length = int.from_bytes(prefix[:8], "little")
    if length > MAX_HEADER_BYTES:
        raise HeaderError(
            f"{where} is not a safetensors file, or lies: its header would be {length:,} bytes, the format allows "
            f"{MAX_HEADER_BYTES:,}"
        )
    if length + 8 > file_size:
        raise HeaderError(f"{where} is cut off or lies: a header of {length:,} bytes in a file of {file_size:,}")
    return length


def read_header(path: str | os.PathLike[str]) -> tuple[Tensor, ...]:
    """The tensors of one file, in the order of their data. Reads the header and nothing else."""
    where = os.fspath(path)
    try:
        with open_regular(where, HeaderError) as file:
            size = os.fstat(file.fileno()).st_size
            length = header_length(file.read(8), size, where)
            raw = file.read(length)
    except OSError as error:
        raise HeaderError(f"{where} cannot be read: {reason(error)}") from None
    return parse_header(raw, size, where)


def parse_header(raw: bytes, file_size: int, where: str) -> tuple[Tensor, ...]:
    """The header's JSON (without the 8 bytes of length before it) of a file of `file_size` bytes."""
    if len(raw) > MAX_HEADER_BYTES:
        raise HeaderError(f"{where}: a header of {len(raw):,} bytes, the format allows {MAX_HEADER_BYTES:,}")
    try:
        infos = _header.decode(bounded(raw))
        infos.pop("__metadata__", None)
    except msgspec.ValidationError:
        infos = _decode_one_by_one(raw, where)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        _not_json(where, error)
    _check_duplicates(raw, len(infos), where)
    return tuple(_tensors(infos, file_size - 8 - len(raw), where))


def _tensors(infos: dict[str, _Info], data_bytes: int, where: str) -> Iterator[Tensor]:
    end = 0
    for name, info in sorted(infos.items(), key=lambda item: item[1].data_offsets):
        begin, stop = info.data_offsets
        if begin != end or stop < begin:
            _bad_offsets(name, info, end, where)
        shape = info.shape
        bits = BITS.get(info.dtype)
        if bits is None or shape is None or len(shape) > MAX_DIMENSIONS:
            _bad_entry(name, info, where)
        bits *= prod(shape)
        if bits != (stop - begin) * 8:
            raise HeaderError(
                f"{where}: tensor {quoted(name)} has {stop - begin:,} bytes, but {info.dtype} of shape "
                f"{_shape(shape)} is {_size(bits)}"
            )
        end = stop
        yield Tensor(name, shape, info.dtype, stop - begin)
    if end > data_bytes:
        raise HeaderError(f"{where} is cut off: its tensors end at byte {end:,} of its data, which has {data_bytes:,}")
    if end < data_bytes:
        raise HeaderError(f"{where}: {data_bytes - end:,} bytes behind the last tensor belong to none")


def _bad_offsets(name: str, info: _Info, expected: int, where: str) -> NoReturn:
    begin, stop = info.data_offsets
    if stop == -1 and begin == 0:
        raise HeaderError(f"{where}: tensor {quoted(name)} has no data_offsets")
    if stop < begin:
        raise HeaderError(f"{where}: tensor {quoted(name)} ends at byte {stop:,}, before it begins at {begin:,}")
    what = "overlaps the tensor before it" if begin < expected else "leaves a gap before it"
    raise HeaderError(f"{where}: tensor {quoted(name)} begins at byte {begin:,} and {what}, which ends at {expected:,}")


def _bad_entry(name: str, info: _Info, where: str) -> NoReturn:
    if info.shape is None:
        raise HeaderError(f"{where}: tensor {quoted(name)} has no shape")
    if len(info.shape) > MAX_DIMENSIONS:
        raise HeaderError(f"{where}: tensor {quoted(name)} has {len(info.shape):,} dimensions")
    if not info.dtype:
        raise HeaderError(f"{where}: tensor {quoted(name)} has no dtype")
    raise HeaderError(f"{where}: tensor {quoted(name)} has the dtype {quoted(info.dtype)}, which safetensors has not")


def _decode_one_by_one(raw: bytes, where: str) -> dict[str, _Info]:
    """After a type error: either only `__metadata__` looked like a tensor, or this finds the tensor that is wrong."""
    try:
        entries = _raw_header.decode(raw)
    except msgspec.ValidationError:
        raise HeaderError(f"{where} is not a safetensors file: its header is not a JSON object") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        _not_json(where, error)
    entries.pop("__metadata__", None)
    infos: dict[str, _Info] = {}
    for name, entry in entries.items():
        try:
            infos[name] = _info.decode(entry)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise HeaderError(f"{where}: tensor {quoted(name)}: {_readable(error)}") from None
    return infos


def _check_duplicates(raw: bytes, tensors: int, where: str) -> None:
    """A JSON decoder keeps the last of two equal keys in silence. Every entry has one "data_offsets", so counting
    finds them for nothing; the exact look is for headers where counting is not proof."""
    if raw.count(b'"data_offsets"') == tensors and b"\\u" not in raw:
        return
    try:
        repeated = _repeated(raw)
    except (ValueError, RecursionError) as error:
        _not_json(where, error)
    if repeated:
        raise HeaderError(f"{where}: tensor {quoted(repeated[0])} is there twice")


def _repeated(raw: bytes) -> list[str]:
    import json

    top: list[str] = []

    def names(pairs: list[tuple[str, Any]]) -> None:
        top[:] = [key for key, _ in pairs]  # the outermost object is the last to be complete

    json.loads(raw.decode(), object_pairs_hook=names)
    seen: set[str] = set()
    return [name for name in top if name in seen or seen.add(name)]  # type: ignore[func-returns-value]


def _not_json(where: str, error: Exception) -> NoReturn:
    if isinstance(error, RecursionError):
        raise HeaderError(f"{where} is not a safetensors file: its header is nested too deep") from None
    raise HeaderError(f"{where} is not a safetensors file: its header is not JSON ({_readable(error)})") from None


def _readable(error: Exception) -> str:
    return str(error).removeprefix("JSON is malformed: ").split("\n")[0].split(";")[0].replace("`", "")


def _shape(shape: tuple[int, ...]) -> str:
    text = str(list(shape[:9]))
    return text if len(shape) <= 9 else f"{text[:-1]}, ...] ({len(shape)} dimensions)"


def _size(bits: int) -> str:
    if bits >= MAX_BYTES * 8:
        return "more than any file can hold"
    return f"{bits // 8:,} bytes" if bits % 8 == 0 else "not a whole number of bytes"


# --- a folder of files


def parse_index(raw: bytes, where: str) -> Index:
    try:
        file = msgspec.json.decode(bounded(raw), type=_IndexFile)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise HeaderError(f"{where} is not an index of shards: {_readable(error)}") from None
    for shard in set(file.weight_map.values()):
        if not is_plain_name(shard):
            raise HeaderError(f"{where} names the shard {quoted(shard)}, which is not a file beside it")
    total = file.metadata.get("total_size")
    # Some writers put a float there (transformers sums half bytes of packed dtypes).
    whole = int(total) if isinstance(total, (int, float)) and 0 < total < MAX_BYTES else None
    return Index(file.weight_map, whole)


class _IndexFile(Struct):
    weight_map: dict[str, str]
    metadata: dict[str, Any] = {}


def is_plain_name(name: str) -> bool:
    """A file in this very folder: no path that leads out of it, nothing a terminal would act on."""
    return bool(name) and name.isprintable() and "/" not in name and "\\" not in name and name not in (".", "..")


def weight_files(names: Iterable[str], index: Index | None) -> tuple[str, ...]:
    """Which of a folder's files an engine loads: the index's shards if there is an index; else every *.safetensors,
    of which Mistral's consolidated copies count only where there is nothing else."""
    if index is not None:
        return index.shards
    files = sorted(n for n in names if n.endswith(".safetensors"))
    others = tuple(n for n in files if not n.startswith("consolidated"))
    return others or tuple(files)


def merge(parts: Iterable[tuple[str, tuple[Tensor, ...]]]) -> tuple[Tensor, ...]:
    """The tensors of several files. One that two files hold in the same form is one tensor."""
    seen: dict[str, tuple[str, Tensor]] = {}
    for where, tensors in parts:
        for tensor in tensors:
            first = seen.setdefault(tensor.name, (where, tensor))
            if first[1] is not tensor and first[1] != tensor:
                raise HeaderError(f"tensor {quoted(tensor.name)} differs between {first[0]} and {where}")
    return tuple(tensor for _, tensor in seen.values())


def find_index(folder: str | os.PathLike[str]) -> Index | None:
    for name in (INDEX, _CONSOLIDATED_INDEX):
        path = Path(folder, name)
        if path.is_file():
            return parse_index(read_file(path, limit=MAX_HEADER_BYTES, error=HeaderError), os.fspath(path))
    return None


def read_folder(folder: str | os.PathLike[str]) -> tuple[Tensor, ...] | None:
    """The tensors of every weight file of a folder; None where there is no weight file (`find_index` may still know
    the total). A folder with only some of the shards is refused: half a checkpoint has no size worth telling."""
    try:
        names = set(os.listdir(folder))
    except OSError as error:
        raise InputError(f"{os.fspath(folder)} cannot be read: {reason(error)}") from None
    if not any(n.endswith(".safetensors") for n in names):
        return None
    files = weight_files(names, find_index(folder))
    missing = [n for n in files if n not in names]
    if len(missing) == len(files):
        return None
    if missing:
        raise HeaderError(
            f"{os.fspath(folder)} has {len(files) - len(missing)} of the {len(files)} shards that its index names: "
            f"{missing[0]} is missing",
            hint="finish the download, or give the config.json alone",
        )
    return merge((name, read_header(Path(folder, name))) for name in files)
