"""build_catalog.py MODELS_DIR: write src/oomph/catalog/models.jsonl and tests/truth/zoo.jsonl.

MODELS_DIR holds folders org--name with config.json, hf_quant_config.json where there is one, and tensors.json.gz
([[name, shape, dtype], ...]) where the checkpoint's headers are known. Of a config only the keys are kept that the
model's template reads; the result must build the very same Model, or nothing is written.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections import Counter
from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from math import prod
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from oomph.catalog import FILE, Line, Row
from oomph.catalog.names import family
from oomph.catalog.pack import pack, unpack
from oomph.errors import OomphError
from oomph.facts.dtypes import nbytes
from oomph.ir.model import Model, Tensor
from oomph.sources.build import build_model

ZOO = Path(__file__).parent.parent / "tests" / "truth" / "zoo.jsonl"
# Tensor lists that are themselves estimates: their makers could not model FP4 experts or Kimi's towers.
ESTIMATES = ("DeepSeek-V4", "Kimi-K2.5", "Kimi-K2.6", "Kimi-K2.7")


class Reading(dict[str, Any]):
    """A JSON object that remembers which of its keys were looked at."""

    def __init__(self, raw: dict[str, Any]) -> None:
        super().__init__({k: Reading(v) if isinstance(v, dict) else v for k, v in raw.items()})
        self.seen: set[str] = set()

    def __getitem__(self, key: str) -> Any:
        self.seen.add(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self.seen.add(str(key))
        return super().__contains__(key)

    def __iter__(self) -> Iterator[str]:
        self.seen |= set(super().keys())
        return super().__iter__()

    def get(self, key: str, default: Any = None) -> Any:
        self.seen.add(key)
        return super().get(key, default)

    def keys(self) -> KeysView[str]:  # type: ignore[override]
        self.seen |= set(super().keys())
        return super().keys()

    def values(self) -> ValuesView[Any]:  # type: ignore[override]
        self.seen |= set(super().keys())
        return super().values()

    def items(self) -> ItemsView[str, Any]:  # type: ignore[override]
        self.seen |= set(super().keys())
        return super().items()

    def kept(self) -> dict[str, Any]:
        # An object whose inside was not looked at counts by being there: one key of it is enough.
        seen = self.seen & set(super().keys()) or set(list(super().keys())[:1])
        return {k: v.kept() if isinstance(v, Reading) else v for k, v in super().items() if k in seen}


def tensors(folder: Path) -> tuple[Tensor, ...] | None:
    path = folder / "tensors.json.gz"
    if not path.exists():
        return None
    with gzip.open(path) as file:
        return tuple(Tensor(n, tuple(s), d, nbytes(d, prod(s))) for n, s, d in json.load(file))


def same(a: Model, b: Model) -> bool:
    """Equal but for the order of an ignore list."""

    def plain(m: Model) -> Model:
        q = m.quantization
        return m if q is None else replace(m, quantization=replace(q, ignore=tuple(sorted(set(q.ignore)))))

    return plain(a) == plain(b)


def pruned(name: str, config: dict[str, Any], quant: Any, told: dict[str, bool]) -> tuple[Any, Any]:
    raw = Reading(config)
    raw_quant = None if quant is None else Reading(quant)
    build_model(name, raw, hf_quant_config=raw_quant, told=dict(told))
    if config.get("quantization_config"):
        raw_quant = None  # config.json's own beats the file beside it
    return raw.kept(), None if raw_quant is None else raw_quant.kept()


def entry(folder: Path) -> tuple[str, Line, dict[str, Any] | None]:
    name = folder.name.replace("--", "/")
    config = json.loads((folder / "config.json").read_text())
    path = folder / "hf_quant_config.json"
    quant = json.loads(path.read_text()) if path.exists() else None
    listed = tensors(folder)
    estimate = any(word in name for word in ESTIMATES)
    told: dict[str, bool] = {}
    if listed is not None and not estimate:
        build_model(name, config, hf_quant_config=quant, tensors=listed, told=told)
    whole = build_model(name, config, hf_quant_config=quant, told=dict(told))
    kept, kept_quant = pruned(name, config, quant, told)
    line = Line(pack(kept), None if kept_quant is None else pack(kept_quant), told, whole.nbytes)
    again = build_model(name, unpack(line.c), hf_quant_config=line.q and unpack(line.q), told=dict(told))
    if not same(whole, again):
        raise SystemExit(f"{name}: the catalogue's entry does not build the same model")
    return name, line, None if listed is None else truth(name, listed, estimate)


def truth(name: str, listed: tuple[Tensor, ...], estimate: bool) -> dict[str, Any]:
    per: Counter[str] = Counter()
    for t in listed:
        per[t.dtype] += t.elements
    row = {"id": name, "bytes": sum(t.nbytes for t in listed), "elements": dict(sorted(per.items()))}
    return row | {"estimate": True} if estimate else row


def write(entries: Mapping[str, tuple[Line, str]]) -> None:
    """The catalogue's file, from each model's shape and where it is from."""
    sources = sorted({source for _, source in entries.values()} | {""})
    lines: dict[bytes, tuple[int, int]] = {}
    rows, at = [], 0
    for name, (line, source) in sorted(entries.items()):
        raw = msgspec.json.encode(line) + b"\n"
        if raw not in lines:
            lines[raw] = (at, len(raw))
            at += len(raw)
        rows.append(Row(name, family(name), *lines[raw], sources.index(source)))
    Path(FILE).write_bytes(msgspec.json.encode(rows) + b"\n" + b"".join(lines) + msgspec.json.encode(sources) + b"\n")


def main() -> None:
    entries: dict[str, tuple[Line, str]] = {}
    zoo: list[str] = []
    for folder in sorted(p for p in Path(sys.argv[1]).iterdir() if (p / "config.json").exists()):
        try:
            name, line, row = entry(folder)
        except OomphError as refused:
            print(f"{folder.name}: left out: {refused}")
            continue
        entries[name] = (line, "")
        if row is not None:
            zoo.append(json.dumps(row))
    write(entries)
    ZOO.write_text("\n".join(zoo) + "\n")
    print(f"{len(entries)} models, {Path(FILE).stat().st_size:,} bytes; {len(zoo)} with a tensor list")


if __name__ == "__main__":
    main()
