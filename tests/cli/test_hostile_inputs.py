"""Headers, configs and GGUF files that lie, through the command: one sentence, exit code 2, bounded memory."""

from __future__ import annotations

import json
import resource
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import making

MEMORY = 1 << 30  # address space that a refusal may take at most
TENSORS = making.tensors_of(making.LLAMA)


def refused(path: Path, code: int = 2) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "oomph", "inspect", str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)),
    )
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    lines = done.stderr.splitlines()
    assert done.returncode == code, done.stderr
    assert lines[0].startswith("oomph: error: ")
    assert "bug in oomph" not in lines[0]
    assert len(lines) <= 2
    assert len(lines[0]) < 1000
    return lines[0]


def with_header(tmp_path: Path, raw: bytes, *, length: int | None = None, data: int = 0) -> Path:
    making.folder(tmp_path, making.LLAMA)
    with (tmp_path / "model.safetensors").open("wb") as file:
        file.write((len(raw) if length is None else length).to_bytes(8, "little") + raw)
        file.truncate(8 + len(raw) + data)
    return tmp_path


def entry(shape: list[Any], begin: int, end: int, dtype: str = "BF16") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


HEADERS: dict[str, tuple[bytes, dict[str, int]]] = {
    "length beyond the file": (b"{}", {"length": 1 << 20}),
    "length beyond reason": (b"{}", {"length": 1 << 62}),
    "overlapping": (json.dumps({"a": entry([4], 0, 8), "b": entry([4], 4, 12)}).encode(), {"data": 12}),
    "a hole": (json.dumps({"a": entry([4], 0, 8), "b": entry([4], 16, 24)}).encode(), {"data": 24}),
    "negative shape": (json.dumps({"a": entry([-4], 0, 8)}).encode(), {"data": 8}),
    "negative offset": (json.dumps({"a": entry([4], -8, 0)}).encode(), {"data": 8}),
    "shape times dtype is not the size": (json.dumps({"a": entry([5], 0, 8)}).encode(), {"data": 8}),
    "unknown dtype": (json.dumps({"a": entry([4], 0, 8, "F7")}).encode(), {"data": 8}),
    "a name twice": (b'{"a":' + json.dumps(entry([4], 0, 8)).encode() + b',"a":' + json.dumps(entry([4], 0, 8)).encode()
                     + b"}", {"data": 8}),
    "no object": (b"[1,2]", {}),
    "not json": (b"{{{{", {}),
    "deep": (b"[" * 20_000, {}),
    "overflow": (json.dumps({"a": entry([1 << 40, 1 << 40], 0, 8)}).encode(), {"data": 8}),
    "cut off": (json.dumps({"a": entry([1 << 20], 0, 2 << 20)}).encode(), {"data": 8}),
}  # fmt: skip


@pytest.mark.parametrize("name", HEADERS)
def test_headers_that_lie(tmp_path: Path, name: str) -> None:
    raw, more = HEADERS[name]
    assert "model.safetensors" in refused(with_header(tmp_path, raw, **more))


def test_a_hundred_megabytes_of_json(tmp_path: Path) -> None:
    """A valid header of the greatest length: many tensors of nothing, then one that lies."""
    part = b'"%08d":{"dtype":"BF16","shape":[0],"data_offsets":[0,0]},'
    body = b"".join(part % n for n in range(1_000_000))
    raw = b"{" + body + b'"z":{"dtype":"BF16","shape":[4],"data_offsets":[0,9]}}'
    assert len(raw) < 100_000_000
    with_header(tmp_path, raw, data=9)
    refused(tmp_path)


CONFIGS: dict[str, dict[str, Any]] = {
    "no layers": {"num_hidden_layers": 0},
    "more layers than anything": {"num_hidden_layers": 10**9},
    "a negative": {"hidden_size": -1},
    "heads do not divide": {"num_attention_heads": 7},
    "kv heads do not divide": {"num_key_value_heads": 3},
    "a list for a number": {"hidden_size": [256]},
    "text for a number": {"vocab_size": "many"},
    "a float": {"hidden_size": 256.5},
    "huge": {"intermediate_size": 1e308},
    "huge integer": {"intermediate_size": 2**70},
    "dtype": {"torch_dtype": "float7"},
    "quantization is a list": {"quantization_config": [1]},
    "quantization unknown": {"quantization_config": {"quant_method": "magic"}},
    "layer types": {"layer_types": ["full_attention"]},
    "a bad regex": {"quantization_config": {"quant_method": "compressed-tensors", "ignore": ["re:("],
                    "config_groups": {"g": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "int"}}}}},
    "rope": {"rope_scaling": {"rope_type": "yarn", "factor": "much"}},
    "window": {"sliding_window": -5},
}  # fmt: skip


@pytest.mark.parametrize("name", CONFIGS)
def test_configs_that_lie(tmp_path: Path, name: str) -> None:
    refused(making.folder(tmp_path, making.LLAMA | CONFIGS[name]))


RAW_CONFIGS: dict[str, bytes] = {
    "NaN": json.dumps(making.LLAMA).encode().replace(b"10000.0", b"NaN"),
    "Infinity": json.dumps(making.LLAMA).encode().replace(b"10000.0", b"Infinity"),
    "1e999": json.dumps(making.LLAMA).encode().replace(b"10000.0", b"1e999"),
    "nested 10,000 deep": b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
    "lists 10,000 deep": b'{"a":' + b"[" * 10_000 + b"]" * 10_000 + b"}",
    "empty": b"",
    "null": b"null",
    "half a character": b'{"architectures": ["\\ud800"]}',
    "not utf-8": b"\xff\xfe{\x00}\x00",
    "a pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
}


@pytest.mark.parametrize("name", RAW_CONFIGS)
def test_configs_that_are_no_json(tmp_path: Path, name: str) -> None:
    (tmp_path / "config.json").write_bytes(RAW_CONFIGS[name])
    refused(tmp_path)


def test_a_config_of_a_hundred_megabytes(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(b'{"a": "' + b"x" * 100_000_000 + b'"}')
    assert "more than the" in refused(tmp_path)


def test_an_architecture_that_nobody_knows_is_refused_with_3(tmp_path: Path) -> None:
    assert "is not known" in refused(making.folder(tmp_path, making.LLAMA | {"architectures": ["X"]}), 3)


def _gguf(counts: tuple[int, int], rest: bytes = b"") -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, *counts) + rest + bytes(64)


_KEY = struct.pack("<Q", 1) + b"k"
GGUFS: dict[str, bytes] = {
    "tensors": _gguf((1 << 60, 0)),
    "keys": _gguf((0, 1 << 60)),
    "all ones": b"GGUF" + b"\xff" * 100,
    "a long key": _gguf((0, 1), struct.pack("<Q", 1 << 50)),
    "a long array": _gguf((0, 1), _KEY + struct.pack("<IIQ", 9, 4, 1 << 50)),
    "many strings": _gguf((0, 1), _KEY + struct.pack("<IIQ", 9, 8, 1 << 50)),
    "arrays of arrays": _gguf((0, 1), _KEY + struct.pack("<IIQ", 9, 9, 1)),
    "a type that is none": _gguf((0, 1), _KEY + struct.pack("<I", 99)),
    "dimensions": _gguf((1, 0), struct.pack("<Q", 1) + b"t" + struct.pack("<I", 1 << 31)),
    "short": b"GGUF",
    "another file": b"PK\x03\x04" + bytes(100),
}


@pytest.mark.parametrize("name", GGUFS)
def test_gguf_with_hostile_counts(tmp_path: Path, name: str) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(GGUFS[name])
    assert "model.gguf" in refused(path)


def _pipe(path: Path) -> None:
    import os

    os.mkfifo(path)


def _loop(path: Path) -> None:
    path.symlink_to(path)


def _dangling(path: Path) -> None:
    path.symlink_to(path.parent / "nothing")


def _folder(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize("make", [_pipe, _loop, _dangling, _folder])
def test_config_json_that_is_no_file(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "config.json")
    refused(tmp_path)
    if make is _pipe:
        refused(tmp_path / "config.json")


def test_an_index_that_leads_out_of_the_folder(tmp_path: Path) -> None:
    making.folder(tmp_path, making.LLAMA)
    index = {"weight_map": {"a": "../../etc/passwd"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert "not a file beside it" in refused(tmp_path)
