"""accuracy_weights.py TRUTH_DIR MODELS_DIR [NAME...]: created weight bytes per rank against vLLM's own code.

Prints count, exact share, worst error, and the misses by model; with names, the parts that differ.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections import Counter, defaultdict
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

from oomph.engines.vllm.settings import build_for
from oomph.engines.vllm.weights import by_part, created
from oomph.errors import OomphError
from oomph.facts.dtypes import nbytes
from oomph.ir.model import Model, Tensor
from oomph.sources.build import build_model


@cache
def load(folder: Path) -> Model:
    config = json.loads((folder / "config.json").read_text())
    quant = folder / "hf_quant_config.json"
    hf_quant = json.loads(quant.read_text()) if quant.exists() else None
    tensors = None
    if (folder / "tensors.json.gz").exists():
        with gzip.open(folder / "tensors.json.gz") as file:
            tensors = tuple(Tensor(n, tuple(s), d, nbytes(d, prod(s))) for n, s, d in json.load(file))
    return build_model(folder.name, config, hf_quant_config=hf_quant, tensors=tensors)


def check(row: dict[str, Any], folder: Path, verbose: bool) -> tuple[int, int]:
    """(ours, theirs) for rank 0 of each stage, summed."""
    model = load(folder)
    weights = row["weights"]
    sizes = weights.get("stages") or [weights["bytes"]]
    ours = theirs = 0
    for rank, size in enumerate(sizes):
        build = build_for(model, row["vllm"], row["gpu"]["sm"], row["flags"], row["resolved"], pp_rank=rank)
        places = created(model, build)
        got = by_part(places)
        ours += sum(got.values())
        theirs += size
        if verbose and rank == 0:
            want = weights.get("by_category") or {}
            for part in sorted(got.keys() | want.keys()):
                if got.get(part, 0) != want.get(part, 0):
                    print(
                        "     ",
                        rank,
                        part,
                        "ours",
                        got.get(part, 0),
                        "theirs",
                        want.get(part, 0),
                        got.get(part, 0) - want.get(part, 0),
                    )
    return ours, theirs


def main() -> None:
    truth, models, only = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]
    exact: Counter[str] = Counter()
    total: Counter[str] = Counter()
    misses: dict[str, list[str]] = defaultdict(list)
    with open(truth / "oracle.jsonl") as file:
        rows = [json.loads(line) for line in file]
    for row in rows:
        if row.get("suspect") or not row.get("weights") or (only and not any(o in row["model"] for o in only)):
            continue
        folder = (models if row["src"] == "zoo" else truth / "configs") / row["model"]
        total[row["vllm"]] += 1
        try:
            ours, theirs = check(row, folder, False)
        except OomphError as refused:
            misses[row["model"]].append(f"{row['vllm']} {row['id'].split('/')[-1]}: {refused}")
            continue
        if ours == theirs:
            exact[row["vllm"]] += 1
            continue
        misses[row["model"]].append(
            f"{row['vllm']} sm{row['gpu']['sm']} {row['id'].split('/')[-1]} {row['flags']}: "
            f"{ours} against {theirs} ({ours - theirs:+d}, {(ours - theirs) / theirs:+.4%})"
        )
        if only:
            print(misses[row["model"]][-1])
            check(row, folder, True)
    for model, lines in sorted(misses.items()):
        print(f"{model}: {len(lines)} misses; first: {lines[0]}")
    for version in total:
        print(f"vLLM {version}: {exact[version]} of {total[version]} exact ({exact[version] / total[version]:.1%})")


if __name__ == "__main__":
    main()
