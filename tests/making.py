"""Small checkpoints for tests: real headers, and data that is a hole in the file."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

from oomph.facts.dtypes import BLOCKS, GGML, nbytes
from oomph.sources.build import build_model
from oomph.sources.stored import module_tensors

LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "vocab_size": 1000,
    "max_position_embeddings": 4096,
    "torch_dtype": "bfloat16",
    "tie_word_embeddings": False,
    "rope_theta": 10000.0,
}

Tensors = dict[str, tuple[tuple[int, ...], str]]


def tensors_of(config: dict[str, Any]) -> Tensors:
    """The tensors that a config describes, as a checkpoint would name them."""
    model = build_model("made", config)
    places = [("", model.root), *((f"{x.prefix}.", x.block) for x in model.layers)]
    return {
        prefix + name: (shape, dtype)
        for prefix, block in places
        for module in block.modules
        for name, shape, dtype, _, _ in module_tensors(module)
    }


def safetensors(path: Path, tensors: Tensors) -> None:
    at, entries = 0, {}
    for name, (shape, dtype) in tensors.items():
        size = nbytes(dtype, elements(shape))
        entries[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    raw = json.dumps(entries).encode()
    with path.open("wb") as file:
        file.write(len(raw).to_bytes(8, "little") + raw)
        file.truncate(8 + len(raw) + at)


def folder(path: Path, config: dict[str, Any], tensors: Tensors | None = None, *, shards: int = 1) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    (path / "config.json").write_text(json.dumps(config))
    if tensors is None:
        return path
    if shards == 1:
        safetensors(path / "model.safetensors", tensors)
        return path
    names, weight_map = list(tensors), {}
    for n in range(shards):
        part = {name: tensors[name] for name in names[n::shards]}
        file = f"model-{n + 1:05}-of-{shards:05}.safetensors"
        safetensors(path / file, part)
        weight_map |= dict.fromkeys(part, file)
    total = sum(nbytes(d, elements(s)) for s, d in tensors.values())
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (path / "model.safetensors.index.json").write_text(json.dumps(index))
    return path


def elements(shape: tuple[int, ...]) -> int:
    n = 1
    for d in shape:
        n *= d
    return n


def gguf(path: Path, metadata: dict[str, Any], tensors: Tensors) -> Path:
    """Shapes in ggml's order. Integers become UINT32, lists of bools and integers arrays."""
    raw = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    raw += b"".join(_string(key) + _value(value) for key, value in metadata.items())
    ids, at = {name: number for number, name in GGML.items()}, 0
    for name, (shape, dtype) in tensors.items():
        raw += _string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, ids[dtype], at)
        block, size = BLOCKS[dtype]
        at += -(-(elements(shape) // block * size) // 32) * 32
    with path.open("wb") as file:
        file.write(raw)
        file.truncate(-(-len(raw) // 32) * 32 + at)
    return path


def _string(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def _value(value: Any) -> bytes:
    if isinstance(value, str):
        return struct.pack("<I", 8) + _string(value)
    if isinstance(value, list):
        kind, form = (7, "?") if isinstance(value[0], bool) else (5, "i")
        return struct.pack("<IIQ", 9, kind, len(value)) + b"".join(struct.pack("<" + form, v) for v in value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    return struct.pack("<II", 4, value)
