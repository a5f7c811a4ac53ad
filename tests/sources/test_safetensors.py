import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from oomph.errors import HeaderError, InputError, OomphError
from oomph.facts.dtypes import BITS, nbytes
from oomph.ir.model import Tensor
from oomph.sources import safetensors

A = {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]}
B = {"dtype": "F8_E4M3", "shape": [4], "data_offsets": [12, 16]}


def header(tensors: list[Tensor], metadata: dict[str, str] | None = None) -> bytes:
    entries: dict[str, Any] = {} if metadata is None else {"__metadata__": metadata}
    at = 0
    for t in tensors:
        entries[t.name] = {"dtype": t.dtype, "shape": list(t.shape), "data_offsets": [at, at + t.nbytes]}
        at += t.nbytes
    return json.dumps(entries).encode()


def write(path: Path, raw: bytes, data: int) -> Path:
    with path.open("wb") as f:
        f.write(len(raw).to_bytes(8, "little") + raw)
        f.truncate(8 + len(raw) + data)
    return path


def parse(entries: object, data: int = 16) -> tuple[Tensor, ...]:
    raw = entries if isinstance(entries, bytes) else json.dumps(entries).encode()
    return safetensors.parse_header(raw, 8 + len(raw) + data, "model.safetensors")


def test_a_file(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.safetensors", json.dumps({"__metadata__": {"format": "pt"}, "b": B, "a": A}).encode(), 16
    )
    assert safetensors.read_header(path) == (Tensor("a", (2, 3), "BF16", 12), Tensor("b", (4,), "F8_E4M3", 4))


def test_metadata_may_look_like_a_tensor() -> None:
    assert len(parse({"__metadata__": {"shape": "x", "dtype": "y", "data_offsets": "z"}, "a": A, "b": B})) == 2
    assert parse({"__metadata__": None}, 0) == ()


def test_scalars_empty_tensors_and_packed_dtypes() -> None:
    entries = {
        "none": {"dtype": "F32", "shape": [0, 5], "data_offsets": [0, 0]},
        "scalar": {"dtype": "F32", "shape": [], "data_offsets": [0, 4]},
        "f4": {"dtype": "F4", "shape": [3, 2], "data_offsets": [4, 7]},
    }
    assert [t.nbytes for t in parse(entries, 7)] == [0, 4, 3]


@pytest.mark.parametrize(
    ("entries", "data", "says"),
    [
        ({"a": A, "b": B}, 15, "is cut off"),
        ({"a": A, "b": B}, 17, "1 bytes behind the last tensor"),
        ({"a": A, "b": {**B, "data_offsets": [8, 12]}}, 16, "'b' begins at byte 8 and overlaps"),
        ({"a": A, "b": {**B, "data_offsets": [13, 17]}}, 17, "'b' begins at byte 13 and leaves a gap"),
        ({"a": {**A, "data_offsets": [12, 0]}}, 12, "'a' ends at byte 0, before it begins at 12"),
        ({"a": {**A, "data_offsets": [0, -12]}}, 12, "tensor 'a': Expected int >= 0"),
        ({"a": {**A, "data_offsets": [0]}}, 12, "tensor 'a'"),
        ({"a": {**A, "shape": [-2, -3]}}, 12, "tensor 'a': Expected int >= 0"),
        ({"a": {**A, "shape": [2.0, 3]}}, 12, "tensor 'a'"),
        ({"a": {**A, "shape": [True, 6]}}, 12, "tensor 'a'"),
        ({"a": {**A, "shape": [2**70]}}, 12, "tensor 'a'"),
        ({"a": {**A, "shape": [2**62] * 4}}, 12, "more than any file can hold"),
        ({"a": {**A, "shape": [1] * 100_000}}, 12, "'a' has 100,000 dimensions"),
        ({"a": {**A, "shape": [2, 4]}}, 12, r"'a' has 12 bytes, but BF16 of shape \[2, 4\] is 16 bytes"),
        ({"a": {**A, "dtype": "F4", "shape": [3], "data_offsets": [0, 2]}}, 2, "not a whole number of bytes"),
        ({"a": {**A, "dtype": "Q9"}}, 12, "dtype 'Q9'"),
        ({"a": {**A, "dtype": 7}}, 12, "tensor 'a'"),
        ({"a": {"shape": [6], "data_offsets": [0, 12]}}, 12, "no dtype"),
        ({"a": {"dtype": "F16", "data_offsets": [0, 12]}}, 12, "no shape"),
        ({"a": {"dtype": "F16", "shape": [6]}}, 12, "no data_offsets"),
        ({"a": []}, 0, "tensor 'a'"),
        ({"x" * 5000: []}, 0, r"\.\.\."),
        (b'{"a": 1, "b": NaN}', 0, "not JSON"),
        (b"[]", 0, "not a JSON object"),
        (b"5", 0, "not a JSON object"),
        (b"", 0, "not JSON"),
        (b'{"a": {"dtype": "F16", "x": ' + b"[" * 100_000, 0, "nested too deep"),
        (b'{"a": 5, "b": ' + b"[" * 100_000, 0, "nested too deep"),
        (b'{"\xff": 5}', 0, "not JSON"),
        (b'{"a": {"dtype": "F16", "x": ' + b"9" * 5000 + b"}}", 0, "not JSON"),
    ],
)
def test_headers_that_lie(entries: object, data: int, says: str) -> None:
    with pytest.raises(HeaderError, match=says) as e:
        parse(entries, data)
    assert "model.safetensors" in e.value.message
    assert "\n" not in e.value.message
    assert len(e.value.message) < 300


@pytest.mark.parametrize("second", [b'"a"', b'"\\u0061"'])
@pytest.mark.parametrize("key", [b'"data_offsets"', b'"data\\u005foffsets"'])
def test_duplicate_names(second: bytes, key: bytes) -> None:
    entry = b'{"dtype": "U8", "shape": [0], ' + key + b": [0, 0]}"
    with pytest.raises(HeaderError, match="'a' is there twice"):
        parse(b'{"a": ' + entry + b"," + second + b":" + entry + b"}", 0)


def test_a_tensor_called_data_offsets_is_no_duplicate() -> None:
    assert parse({"data_offsets": A}, 12)[0].name == "data_offsets"


@pytest.mark.parametrize(
    ("head", "size", "says"),
    [
        (b"", 0, "0 bytes: too short"),
        (b"abc", 3, "3 bytes: too short"),
        ((1000).to_bytes(8, "little"), 500, "cut off or lies: a header of 1,000 bytes in a file of 500"),
        ((100_000_001).to_bytes(8, "little"), 1 << 40, "the format allows 100,000,000"),
        ((1 << 63).to_bytes(8, "little"), 1 << 40, "the format allows"),
        (b"version https://git-lfs.github.com/spec/v1\n", 130, "Git LFS pointer"),
        (b"PK\x03\x04\0\0\0\0" + b"x" * 100, 1 << 30, "not JSON"),
    ],
)
def test_files_that_lie(tmp_path: Path, head: bytes, size: int, says: str) -> None:
    path = tmp_path / "model.safetensors"
    with path.open("wb") as f:
        f.write(head)
        f.truncate(size)
    with pytest.raises(HeaderError, match=says):
        safetensors.read_header(path)


def test_what_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(HeaderError, match="no such file"):
        safetensors.read_header(tmp_path / "x.safetensors")
    with pytest.raises(HeaderError, match="not a regular file"):
        safetensors.read_header(tmp_path)
    with pytest.raises(InputError, match="no such file"):
        safetensors.read_folder(tmp_path / "nowhere")


names = st.text(st.characters(exclude_categories=["Cs"]), max_size=20).filter(lambda n: n != "__metadata__")


@st.composite
def tensors(draw: st.DrawFn) -> list[Tensor]:
    result = []
    for name in draw(st.lists(names, unique=True, max_size=8)):
        dtype = draw(st.sampled_from(sorted(BITS)))
        shape = (*draw(st.lists(st.integers(0, 9), max_size=4)), 4)  # four elements fill whole bytes in every dtype
        n = 1
        for d in shape:
            n *= d
        result.append(Tensor(name, shape, dtype, nbytes(dtype, n)))
    return result


@given(tensors(), st.none() | st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3))
def test_round_trip(written: list[Tensor], metadata: dict[str, str] | None) -> None:
    raw = header(written, metadata)
    read = safetensors.parse_header(raw, 8 + len(raw) + sum(t.nbytes for t in written), "x")
    assert sorted(read, key=lambda t: t.name) == sorted(written, key=lambda t: t.name)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda x: st.lists(x, max_size=4) | st.dictionaries(st.sampled_from(["dtype", "shape", "data_offsets", "a"]), x),
    max_leaves=20,
)


@given(json_values | st.binary(max_size=100), st.integers(-10, 1 << 70))
def test_anything_is_tensors_or_a_header_error(value: object, size: int) -> None:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    try:
        safetensors.parse_header(raw, size, "x")
        safetensors.parse_index(raw, "x")
    except HeaderError as e:
        assert "\n" not in e.message


def test_many_tensors_are_fast() -> None:
    count = 50_000
    written = [
        Tensor(f"model.layers.{i // 3000}.mlp.experts.{i % 3000}.up_proj.weight", (8, 16), "BF16", 256)
        for i in range(count)
    ]
    raw = header(written)
    begin = time.process_time()
    assert len(safetensors.parse_header(raw, 8 + len(raw) + 256 * count, "x")) == count
    assert time.process_time() - begin < 1.5  # 0.08 s on an idle machine


def test_the_worst_header_stays_in_bounded_memory(tmp_path: Path) -> None:
    raw = b'{"a":{"dtype":"U8","shape":[' + b"9999," * 19_000_000 + b'1],"data_offsets":[0,1]}}'
    path = write(tmp_path / "model.safetensors", raw, 1)
    limited = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))\n"
        "from oomph.sources import safetensors\nfrom oomph.errors import HeaderError\n"
        "try: safetensors.read_header(sys.argv[1])\nexcept HeaderError as e: print(e.message)"
    )
    done = subprocess.run([sys.executable, "-c", limited, path], capture_output=True, text=True, check=True)
    assert "19,000,001 dimensions" in done.stdout


# --- folders


def shard(folder: Path, name: str, *tensors: Tensor) -> None:
    write(folder / name, header(list(tensors)), sum(t.nbytes for t in tensors))


def index(folder: Path, weight_map: object, name: str = safetensors.INDEX, **metadata: object) -> None:
    (folder / name).write_text(json.dumps({"metadata": metadata, "weight_map": weight_map}))


X, Y, Z = (Tensor(n, (4,), "F16", 8) for n in "xyz")


def test_folder_without_weights(tmp_path: Path) -> None:
    assert safetensors.read_folder(tmp_path) is None
    index(tmp_path, {"x": "model-00001-of-00002.safetensors"}, total_size=16)
    assert safetensors.read_folder(tmp_path) is None
    found = safetensors.find_index(tmp_path)
    assert found is not None
    assert (found.total_size, found.shards) == (16, ("model-00001-of-00002.safetensors",))


def test_index_decides_which_files_count(tmp_path: Path) -> None:
    shard(tmp_path, "model-00001-of-00002.safetensors", X)
    shard(tmp_path, "model-00002-of-00002.safetensors", Y)
    shard(tmp_path, "consolidated.safetensors", X, Y)
    shard(tmp_path, "adapter_model.safetensors", Z)
    index(tmp_path, {"x": "model-00001-of-00002.safetensors", "y": "model-00002-of-00002.safetensors"})
    assert safetensors.read_folder(tmp_path) == (X, Y)


def test_without_an_index_every_file_counts_but_consolidated_copies(tmp_path: Path) -> None:
    shard(tmp_path, "model-00001-of-00002.safetensors", X)
    shard(tmp_path, "model-00002-of-00002.safetensors", Y)
    shard(tmp_path, "consolidated.safetensors", X, Y)
    assert safetensors.read_folder(tmp_path) == (X, Y)


def test_consolidated_alone(tmp_path: Path) -> None:
    shard(tmp_path, "consolidated.safetensors", X, Y)
    assert safetensors.read_folder(tmp_path) == (X, Y)


def test_the_same_tensor_in_two_files(tmp_path: Path) -> None:
    shard(tmp_path, "model.safetensors", X, Y)
    shard(tmp_path, "more.safetensors", X, Z)
    assert safetensors.read_folder(tmp_path) == (X, Y, Z)
    shard(tmp_path, "more.safetensors", Tensor("x", (5,), "F16", 10))
    with pytest.raises(HeaderError, match=r"'x' differs between model\.safetensors and more\.safetensors"):
        safetensors.read_folder(tmp_path)


def test_half_a_checkpoint(tmp_path: Path) -> None:
    shard(tmp_path, "a.safetensors", X)
    index(tmp_path, {"x": "a.safetensors", "y": "b.safetensors"})
    with pytest.raises(HeaderError, match=r"1 of the 2 shards that its index names: b\.safetensors is missing"):
        safetensors.read_folder(tmp_path)


@pytest.mark.parametrize("name", ["../a.safetensors", "/etc/passwd", "", "..", "a\n.safetensors", "b\\..\\c"])
def test_index_that_leads_out_of_the_folder(tmp_path: Path, name: str) -> None:
    shard(tmp_path, "a.safetensors", X)
    index(tmp_path, {"x": name})
    with pytest.raises(HeaderError, match="not a file beside it"):
        safetensors.read_folder(tmp_path)


@pytest.mark.parametrize(
    "raw", [b"", b"[]", b"{}", b'{"weight_map": 5}', b'{"weight_map": {"x": 5}}', b'{"weight_map": ' * 9999]
)
def test_index_that_lies(raw: bytes) -> None:
    with pytest.raises(HeaderError, match="not an index"):
        safetensors.parse_index(raw, "index")


@pytest.mark.parametrize(("total", "size"), [(16, 16), (16.0, 16), ("16", None), (-1, None), (1e300, None), ([], None)])
def test_total_size(total: object, size: int | None) -> None:
    raw = json.dumps({"metadata": {"total_size": total}, "weight_map": {}}).encode()
    assert safetensors.parse_index(raw, "index").total_size == size


def test_errors_are_ours(tmp_path: Path) -> None:
    assert issubclass(HeaderError, OomphError)
    assert HeaderError.exit_code == 2
