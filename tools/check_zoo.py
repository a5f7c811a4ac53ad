"""check_zoo.py MODELS_DIR [NAME...]: synthesis from config.json alone against each model's tensor list.

MODELS_DIR holds folders with config.json and tensors.json.gz ([[name, shape, dtype], ...]).
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from collections import Counter
from math import prod
from pathlib import Path

from oomph.errors import OomphError
from oomph.facts.dtypes import nbytes
from oomph.sources.build import build_model
from oomph.sources.stored import module_tensors


def truth(folder: Path) -> tuple[Counter[str], int, list[tuple[str, list[int], str]]]:
    with gzip.open(folder / "tensors.json.gz") as file:
        rows = json.load(file)
    per: Counter[str] = Counter()
    for _, shape, dtype in rows:
        per[dtype] += prod(shape)
    return per, sum(nbytes(d, prod(s)) for _, s, d in rows), rows


def load(folder: Path) -> tuple[dict[str, object], object]:
    config = json.loads((folder / "config.json").read_text())
    quant = folder / "hf_quant_config.json"
    return config, json.loads(quant.read_text()) if quant.exists() else None


def names(model: object) -> Counter[tuple[str, tuple[int, ...], str]]:
    """Every synthesised tensor with layer and expert numbers starred."""
    out: Counter[tuple[str, tuple[int, ...], str]] = Counter()
    places = [("", model.root), ("", model.draft_root)]  # type: ignore[attr-defined]
    places += [(f"{x.prefix}.", x.block) for x in (*model.layers, *model.drafts)]  # type: ignore[attr-defined]
    for tower in model.towers:  # type: ignore[attr-defined]
        for times, block in tower.blocks:
            places += [(f"{tower.prefix}.", block)] * times
    for prefix, block in places:
        for module in block.modules:
            for name, shape, dtype, _, times in module_tensors(module):
                out[(re.sub(r"\.\d+(?=\.|$)", ".*", prefix + name), tuple(shape), dtype)] += times
    return out


def main() -> None:
    root, only = Path(sys.argv[1]), sys.argv[2:]
    good = bad = 0
    for folder in sorted(p for p in root.iterdir() if (p / "tensors.json.gz").exists()):
        if only and not any(o in folder.name for o in only):
            continue
        per, total, rows = truth(folder)
        config, quant = load(folder)
        try:
            model = build_model(folder.name.replace("--", "/"), config, hf_quant_config=quant)
        except OomphError as refused:
            bad += 1
            print(f"{folder.name}: {refused}")
            continue
        got: Counter[str] = Counter()
        for s in model.stored:
            got[s.dtype] += s.elements
        if got == per and model.nbytes == total:
            good += 1
            continue
        bad += 1
        print(f"{folder.name}: bytes {model.nbytes} against {total} ({model.nbytes - total:+d})")
        if only:
            want = Counter((re.sub(r"\.\d+(?=\.|$)", ".*", n), tuple(s), d) for n, s, d in rows)
            have = names(model)
            for key in sorted(want.keys() | have.keys()):
                if want[key] != have[key]:
                    print("   ", key, "file", want[key], "ours", have[key])
    print(f"{good} exact, {bad} not")


if __name__ == "__main__":
    main()
