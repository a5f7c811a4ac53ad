import itertools
import struct
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from oomph.errors import HeaderError
from oomph.facts.dtypes import BLOCKS, GGML
from oomph.ir.model import Tensor
from oomph.sources.gguf import header as gguf
from oomph.sources.gguf.header import Array
from oomph.units import round_up

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
FORMATS = {U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32: "f", BOOL: "?", U64: "Q", I64: "q", F64: "d"}


def string(text: str | bytes) -> bytes:
    raw = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(raw)) + raw


def value(kind: int, v: Any) -> bytes:
    return string(v) if kind == STRING else struct.pack("<" + FORMATS[kind], v)


def array(kind: int, values: list[Any]) -> bytes:
    return struct.pack("<IQ", kind, len(values)) + b"".join(value(kind, v) for v in values)


def key(name: str, kind: int, raw: bytes) -> bytes:
    return string(name) + struct.pack("<I", kind) + raw


def info(name: str, shape: tuple[int, ...], kind: int, offset: int) -> bytes:
    return string(name) + struct.pack(f"<I{len(shape)}qIQ", len(shape), *shape, kind, offset)


def header(keys: list[bytes], infos: list[bytes], *, version: int = 3, counts: tuple[int, int] | None = None) -> bytes:
    tensors, metadata = counts or (len(infos), len(keys))
    return b"GGUF" + struct.pack("<IQQ", version, tensors, metadata) + b"".join(keys) + b"".join(infos)


class Memory:
    """Ranges over bytes that counts what was asked of it, and may be mostly a hole."""

    def __init__(self, raw: bytes, size: int | None = None, name: str = "model.gguf") -> None:
        self.raw, self.size, self.name, self.asked = raw, len(raw) if size is None else size, name, 0

    def read(self, offset: int, length: int) -> bytes:
        self.asked += length
        raw = self.raw[offset : offset + length]
        return raw + bytes(max(0, min(length, self.size - offset) - len(raw)))

    def sibling(self, name: str) -> "Memory":
        raise AssertionError("no split file")


def read(raw: bytes, size: int | None = None) -> gguf.GGUF:
    return gguf.read(Memory(raw, size))


def test_a_small_file() -> None:
    keys = [
        key("general.architecture", STRING, string("llama")),
        key("llama.block_count", U32, value(U32, 32)),
        key("llama.rope.freq_base", F32, value(F32, 1e4)),
        key("flag", BOOL, b"\1"),
        key("heads", ARRAY, array(I32, [8, -1])),
        key("names", ARRAY, array(STRING, ["a", "b"])),
        key("none", ARRAY, array(U64, [])),
    ]
    raw = header(keys, [info("a.weight", (64, 3), 2, 0), info("b.bias", (3,), 0, 128)])
    start = round_up(len(raw), 32)
    file = read(raw, start + 128 + 12)
    assert file.architecture == "llama"
    assert file.metadata == {
        "general.architecture": "llama",
        "llama.block_count": 32,
        "llama.rope.freq_base": 1e4,
        "flag": True,
        "heads": (8, -1),
        "names": ("a", "b"),
        "none": (),
    }
    assert file.tensors == (Tensor("a.weight", (64, 3), "Q4_0", 108), Tensor("b.bias", (3,), "F32", 12))
    assert file.offsets == (start, start + 128)
    assert (file.version, file.data_offset, file.file_bytes, file.files) == (3, start, start + 140, ("model.gguf",))


def test_long_arrays_are_stepped_over_unless_asked_for() -> None:
    words = [f"w{i}" for i in range(100)]
    raw = header([key("words", ARRAY, array(STRING, words)), key("scores", ARRAY, array(F32, [0.0] * 5000))], [])
    assert read(raw).metadata == {"words": Array("STRING", 100), "scores": Array("FLOAT32", 5000)}
    kept = gguf.read(Memory(raw), arrays={"words", "scores"})
    assert kept.metadata == {"words": tuple(words), "scores": (0.0,) * 5000}


def test_a_number_per_layer_is_kept() -> None:
    assert read(header([key("heads", ARRAY, array(U32, [8] * 126))], [])).metadata == {"heads": (8,) * 126}


def test_a_chat_template_is_stepped_over() -> None:
    raw = header([key("t", STRING, string("x" * 100_000)), key("n", U8, b"\7")], [])
    assert read(raw).metadata == {"t": Array("STRING", 100_000), "n": 7}


def test_the_window_is_as_long_as_the_header_not_the_file() -> None:
    words = [f"token {i}" * 3 for i in range(200_000)]
    raw = header([key("words", ARRAY, array(STRING, words))], [info("w", (1 << 33,), 24, 0)])
    file = Memory(raw, round_up(len(raw), 32) + (1 << 33))
    assert gguf.read(file).tensors[0].nbytes == 1 << 33
    assert len(raw) > 5 << 20
    assert file.asked < 3 * len(raw)


def test_what_is_stepped_over_is_not_fetched() -> None:
    raw = header([key("scores", ARRAY, struct.pack("<IQ", F32, 1 << 24))], [])
    file = Memory(raw, len(raw) + (4 << 24))
    gguf.read(file)
    assert file.asked <= 1 << 20


def test_forty_gigabytes_answer_at_once(tmp_path: Path) -> None:
    infos, at = [], 0
    for i in range(400):
        infos.append(info(f"blk.{i}.ffn.weight", (8192, 21760), 12, at))
        at += 8192 * 21760 // 256 * 144
    raw = header([key("tokens", ARRAY, array(STRING, [f"token{i}" for i in range(152_064)]))], infos)
    path = tmp_path / "big.gguf"
    with path.open("wb") as f:
        f.write(raw)
        f.truncate(round_up(len(raw), 32) + at)
    assert path.stat().st_size > 40e9 - 1e9
    begin = time.process_time()
    assert sum(t.nbytes for t in gguf.read(path).tensors) == at
    assert time.process_time() - begin < 1  # 0.05 s on an idle machine


BIG = 1 << 40
A = info("a", (32,), 0, 0)


@pytest.mark.parametrize(
    ("raw", "size", "says"),
    [
        (b"", None, "0 bytes: too short"),
        (b"GGUF", None, "4 bytes: too short"),
        (b"PK\3\4" + bytes(100), None, "not a GGUF file"),
        (b"version https://git-lfs.github.com/spec/v1\n", None, "Git LFS pointer"),
        (header([], [], version=1), None, "GGUF version 1"),
        (header([], [], version=0), None, "GGUF version 0"),
        (header([], [], version=4), None, "GGUF version 4"),
        (header([], [], version=3 << 24), None, "big-endian"),
        (header([], [], counts=(1 << 60, 0)), BIG, "claims 1,152,921,504,606,846,976 tensors"),
        (header([], [], counts=(1 << 20, 0)), BIG, "more than any model has"),
        (header([], [], counts=(0, 1 << 63)), BIG, "metadata keys"),
        (header([], [], counts=(0, 5)), None, "claims 5 metadata keys, with 0 bytes left"),
        (header([struct.pack("<Q", 1 << 63)], []), BIG, "claims 9,223,372,036,854,775,808 characters"),
        (header([struct.pack("<Q", 1 << 20)], []), BIG, "longer than 16 KiB"),
        (header([key("", U8, b"\0")], []), BIG, "has no name"),
        (header([key("a", U8, b"\0"), key("a", U8, b"\0")], []), None, "'a' is there twice"),
        (header([key("a", 13, b"\0")], []), BIG, "'a' has the type 13"),
        (header([key("a", ARRAY, struct.pack("<IQ", 99, 1))], []), BIG, "'a' has the type 99"),
        (header([key("a", STRING, struct.pack("<Q", (1 << 64) - 1))], []), BIG, "'a' claims"),
        (header([key("a", ARRAY, struct.pack("<IQ", U8, 1 << 60))], []), BIG, "'a' claims"),
        (header([key("a", ARRAY, struct.pack("<IQ", STRING, 1 << 60))], []), BIG, "'a' claims"),
        (header([key("a", ARRAY, struct.pack("<IQ", STRING, 1 << 30))], []), BIG, "more than any vocabulary has"),
        (header([key("a", ARRAY, struct.pack("<IQQ", STRING, 100, 2**64 - 1))], []), BIG, "cut off"),
        (header([key("a", ARRAY, struct.pack("<IQ", STRING, 100) + struct.pack("<Q", 1 << 63))], []), BIG, "cut off"),
        (header([key("a", ARRAY, struct.pack("<I", STRING) + struct.pack("<Q", 100) + string("x") * 99
                     + struct.pack("<Q", 1000))], []), None, "beyond the end"),
        (header([key("a", ARRAY, struct.pack("<IQ", ARRAY, 1) * 10_000)], []), BIG, "an array of arrays"),
        (header([key("general.alignment", U32, value(U32, 0))], []), None, "not a power of two"),
        (header([key("general.alignment", U32, value(U32, 48))], []), None, "not a power of two"),
        (header([key("general.alignment", STRING, string("32"))], []), None, "not of type UINT32"),
        (header([], [info("x" * 64, (32,), 0, 0)]), BIG, "64 characters or more"),
        (header([], [A, A]), BIG, "'a' is there twice"),
        (header([], [info("a", (1,) * 5, 0, 0)]), BIG, "5 dimensions"),
        (header([], [string("a") + struct.pack("<I", 0xFFFFFFFF)]), BIG, "4,294,967,295 dimensions"),
        (header([], [info("a", (-1,), 0, 0)]), BIG, "a dimension of -1"),
        (header([], [info("a", (1 << 32, 1 << 32), 0, 0)]), BIG, "more values than 64 bits"),
        (header([], [info("a", (33,), 2, 0)]), BIG, "rows of 33 values"),
        (header([], [info("a", (32,), 999, 0)]), BIG, "ggml type 999"),
        (header([], [info("a", (32,), 31, 0)]), BIG, "'a' is Q4_0_4_4, which engines no longer load"),
        (header([], [info("a", (32,), 0, 64)]), BIG, "'a' is at byte 64 of the data where 0 is due"),
        (header([], [A, info("b", (32,), 0, 0)]), BIG, "'b' is at byte 0 of the data where 128 is due"),
        (header([], [info("a", (1 << 40,), 0, 0)]), 1 << 20, "is cut off: its tensors end"),
        (header([], [A]), None, "is cut off"),
        (header([], [A])[:-1], None, "cut off inside its header"),
    ],
)  # fmt: skip
def test_files_that_lie(raw: bytes, size: int | None, says: str) -> None:
    file = Memory(raw, size)
    begin = time.process_time()
    with pytest.raises(HeaderError, match=says) as e:
        gguf.read(file)
    assert time.process_time() - begin < 0.5  # milliseconds on an idle machine
    assert file.asked <= 2 << 20
    assert "model.gguf" in e.value.message
    assert "\n" not in e.value.message
    assert len(e.value.message) < 250


def test_a_file_of_zero_length_strings_ends() -> None:
    raw = header([key("a", ARRAY, struct.pack("<IQ", STRING, 1 << 22))] * 2, [])
    with pytest.raises(HeaderError):
        read(raw, BIG)


def test_a_source_that_ends_early() -> None:
    file = Memory(header([key("a", U8, b"\0")], []))
    file.read = lambda offset, length: b"GGUF"  # type: ignore[method-assign]
    with pytest.raises(HeaderError, match="ends at byte 4 of"):
        gguf.read(file)


def test_what_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(HeaderError, match="no such file"):
        gguf.read(tmp_path / "x.gguf")
    with pytest.raises(HeaderError, match="not a regular file"):
        gguf.read(tmp_path)


# --- split files


def write_split(
    folder: Path, number: int, count: int, infos: list[bytes], data: int, total: int, name: str = "m"
) -> Path:
    keys = [key("split.no", U16, value(U16, number - 1)), key("split.count", U16, value(U16, count)),
            key("split.tensors.count", I32, value(I32, total)), key("part", U8, value(U8, number))]  # fmt: skip
    raw = header(keys, infos)
    path = folder / f"{name}-{number:05}-of-{count:05}.gguf"
    with path.open("wb") as f:
        f.write(raw)
        f.truncate(round_up(len(raw), 32) + data)
    return path


def test_split_files_are_one(tmp_path: Path) -> None:
    paths = [write_split(tmp_path, n, 3, [info(f"t{n}", (32,), 0, 0)], 128, 3) for n in (1, 2, 3)]
    for path in paths:
        file = gguf.read(path)
        assert [t.name for t in file.tensors] == ["t1", "t2", "t3"]
        assert file.metadata["part"] == 1
        assert file.file_bytes == sum(p.stat().st_size for p in paths)
        assert file.files == tuple(str(p) for p in paths)


def test_split_files_that_lie(tmp_path: Path) -> None:
    first = write_split(tmp_path, 1, 2, [info("t", (32,), 0, 0)], 128, 2)
    with pytest.raises(HeaderError, match=r"m-00002-of-00002\.gguf cannot be read: no such file"):
        gguf.read(first)
    second = write_split(tmp_path, 2, 2, [info("t", (32,), 0, 0)], 128, 2)
    with pytest.raises(HeaderError, match="its 2 files hold 1 tensors"):
        gguf.read(first)
    write_split(tmp_path, 2, 2, [], 0, 2)
    with pytest.raises(HeaderError, match="its 2 files hold 1 tensors, not 2"):
        gguf.read(first)
    for name in ("m.gguf", "m-00001-of-00003.gguf"):
        with pytest.raises(HeaderError, match="not named so"):
            gguf.read(second.rename(tmp_path / name) if second.exists() else first.rename(tmp_path / name))


# --- against the gguf package


def write_with_the_package(path: Path, **options: Any) -> None:
    package, np = pytest.importorskip("gguf"), pytest.importorskip("numpy")
    writer = package.GGUFWriter(path, "llama", **options)
    writer.add_block_count(4)
    writer.add_head_count_kv([8, 4, 8, 4])
    writer.add_rope_freq_base(5e5)
    writer.add_bool("some.flag", True)
    writer.add_chat_template("{{ x }}" * 10_000)
    writer.add_token_list([f"tok{i}" for i in range(1000)])
    writer.add_token_scores([0.5] * 1000)
    for n, kind in enumerate(package.GGMLQuantizationType):
        block, size = package.GGML_QUANT_SIZES[kind]
        if kind.name in ("Q8_1", "Q8_K"):  # never in a file
            continue
        data = np.zeros((3, size * 2), dtype=np.uint8) if block > 1 else np.zeros((3, 5 * size), dtype=np.uint8)
        writer.add_tensor(f"blk.{n}.weight", data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.mark.parametrize("alignment", [None, 8, 256])
def test_the_package_reads_the_same(tmp_path: Path, alignment: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    package = pytest.importorskip("gguf")
    path = tmp_path / "m.gguf"
    if alignment:
        original = package.GGUFWriter.add_architecture
        monkeypatch.setattr(package.GGUFWriter, "add_architecture",
                            lambda w: (original(w), w.add_custom_alignment(alignment)))  # fmt: skip
    write_with_the_package(path)
    ours, theirs = gguf.read(path), package.GGUFReader(path)
    assert [(t.name, t.dtype, list(t.shape), t.nbytes) for t in ours.tensors] == [
        (t.name, t.tensor_type.name, t.shape.tolist(), t.n_bytes) for t in theirs.tensors
    ]
    assert list(ours.offsets) == [t.data_offset for t in theirs.tensors]
    assert ours.data_offset == theirs.data_offset
    for name, field in theirs.fields.items():
        if name.startswith("GGUF."):
            continue
        their, our = field.contents(), ours.metadata[name]
        if isinstance(our, Array):
            assert our.length == len(their)
        else:
            assert our == (tuple(their) if isinstance(their, list) else their)


def test_the_package_splits_the_same(tmp_path: Path) -> None:
    write_with_the_package(tmp_path / "m.gguf", split_max_tensors=10)
    parts = sorted(tmp_path.glob("m-*.gguf"))
    assert len(parts) > 2
    whole = tmp_path / "whole"
    whole.mkdir()
    write_with_the_package(whole / "m.gguf")
    assert gguf.read(parts[-1]).tensors == gguf.read(whole / "m.gguf").tensors


# --- properties

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=15)
scalars = st.one_of(
    *(st.tuples(st.just(kind), st.integers(lo, hi)) for kind, lo, hi in (
        (U8, 0, 255), (I8, -128, 127), (U16, 0, 65535), (I16, -32768, 32767), (U32, 0, 2**32 - 1),
        (I32, -(2**31), 2**31 - 1), (U64, 0, 2**64 - 1), (I64, -(2**63), 2**63 - 1))),
    st.tuples(st.just(F32), st.floats(width=32, allow_nan=False)),
    st.tuples(st.just(F64), st.floats(allow_nan=False)),
    st.tuples(st.just(BOOL), st.booleans()),
    st.tuples(st.just(STRING), st.text(st.characters(exclude_categories=["Cs"]), max_size=30)),
)  # fmt: skip


@given(
    st.dictionaries(
        names.filter(lambda n: not n.startswith(("general.", "split."))),
        st.tuples(scalars, st.integers(0, 70)),
        max_size=6,
    ),
    st.dictionaries(
        names, st.tuples(st.sampled_from(sorted(GGML)), st.lists(st.integers(0, 5), max_size=3)), max_size=6
    ),
    st.sampled_from([1, 8, 32, 4096]),
)
@settings(max_examples=100)
def test_round_trip(metadata: dict[str, Any], tensors: dict[str, Any], alignment: int) -> None:
    keys, expected = [key("general.alignment", U32, value(U32, alignment))], {"general.alignment": alignment}
    for name, ((kind, v), length) in metadata.items():
        if length:  # an array of that many equal values
            keys.append(key(name, ARRAY, array(kind, [v] * length)))
            expected[name] = Array("STRING", length) if kind == STRING and length > 64 else (v,) * length
        else:
            keys.append(key(name, kind, value(kind, v)))
            expected[name] = v
    infos, written, at = [], [], 0
    for name, (kind, dims) in tensors.items():
        block, size = BLOCKS[GGML[kind]]
        shape = (dims[0] * block, *dims[1:]) if dims else (block,)
        n = 1
        for d in shape:
            n *= d
        written.append(Tensor(name, shape, GGML[kind], n // block * size))
        infos.append(info(name, shape, kind, at))
        at = round_up(at + n // block * size, alignment)
    raw = header(keys, infos)
    file = read(raw, round_up(len(raw), alignment) + at)
    assert file.metadata == expected
    assert list(file.tensors) == written


@given(st.binary(max_size=300), st.integers(0, 1 << 64) | st.none())
def test_any_bytes_behind_the_magic(raw: bytes, size: int | None) -> None:
    for start in (b"", header([], [])[:8], header([], [], counts=(1, 1)), header([], [], counts=(2, 0))):
        try:
            read(start + raw, size)
        except HeaderError as e:
            assert "\n" not in e.message


VALID = header([key("general.architecture", STRING, string("llama")), key("w", ARRAY, array(STRING, ["a"] * 70)),
                key("n", ARRAY, array(U32, [1, 2]))], [A, info("b", (32,), 2, 128)])  # fmt: skip


@given(st.lists(st.tuples(st.integers(0, len(VALID) - 1), st.integers(0, 255)), min_size=1, max_size=4))
def test_any_change_to_a_valid_header(changes: list[tuple[int, int]]) -> None:
    raw = bytearray(VALID)
    for at, byte in changes:
        raw[at] = byte
    try:
        read(bytes(raw), 1 << 16)
    except HeaderError as e:
        assert "\n" not in e.message


def test_any_cut_of_a_valid_header() -> None:
    for length in itertools.chain(range(len(VALID))):
        with pytest.raises(HeaderError):
            read(VALID[:length])
