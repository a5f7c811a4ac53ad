"""accuracy_oracle.py TRUTH MODELS_DIR [--all] [NAME...]: whole plans by the public JSON against vLLM's own answers.

Each case goes the way of a user: a command line, a GPU, the KV bytes given; the plan's JSON is compared with what
vLLM's Python decided. MODELS_DIR holds model folders with tensor lists; stand-in checkpoints are made in a temporary
folder (headers only, no data). TRUTH is a file of answers, or a folder with oracle.jsonl; configs/ and extra/ beside it
hold the models of its rows of those sources. --all lists every miss by model and term.
"""

from __future__ import annotations

import gzip
import json
import struct
import sys
import tempfile
from collections import Counter, defaultdict
from math import prod
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent / "tests")]
from convert_oracle import plan_row  # noqa: E402

from oomph.errors import OomphError  # noqa: E402
from oomph.facts.dtypes import nbytes  # noqa: E402
from plan_truth import figures, planned  # noqa: E402


def checkpoint(source: Path, into: Path) -> Path:
    """config files, and a sparse safetensors file with the real header where there is a tensor list."""
    if not (source / "tensors.json.gz").exists():
        return source
    if into.exists():
        return into
    into.mkdir(parents=True)
    for name in ("config.json", "hf_quant_config.json"):
        if (source / name).exists():
            (into / name).write_bytes((source / name).read_bytes())
    header: dict[str, Any] = {}
    at = 0
    with gzip.open(source / "tensors.json.gz") as file:
        for name, shape, dtype in json.load(file):
            size = nbytes(dtype, prod(shape))
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
            at += size
    text = json.dumps(header).encode()
    with open(into / "model.safetensors", "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        out.truncate(8 + len(text) + at)
    return into


def judge(row: dict[str, Any], folder: Path) -> dict[str, tuple[Any, Any]]:
    """term -> (ours, theirs), the plan made the way of a user."""
    told = plan_row(row, row["model"])
    try:
        return {"planned": ("", ""), **figures(told, planned(told, str(folder)))}
    except OomphError as refused:
        return {"planned": (str(refused), "")}


def main() -> None:
    words_ = [a for a in sys.argv[1:] if a != "--all"]
    everything, truth, models, only = "--all" in sys.argv, Path(words_[0]), Path(words_[1]), words_[2:]
    file = truth if truth.is_file() else truth / "oracle.jsonl"
    folders = {"zoo": models, "configs": file.parent / "configs", "extra": file.parent / "extra"}
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    # one model after the other: each is read once
    rows = sorted((r for r in rows if not only or any(o in r["model"] for o in only)), key=lambda r: str(r["model"]))
    exact: Counter[tuple[str, str]] = Counter()
    total: Counter[tuple[str, str]] = Counter()
    misses: dict[tuple[str, str], list[str]] = defaultdict(list)
    by_model: dict[tuple[str, str], list[str]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as scratch:
        for row in rows:
            name = Path(row["model"]).name
            folder = checkpoint(folders[row["src"]] / name, Path(scratch) / row["src"] / name)
            for term, (ours, theirs) in judge(row, folder).items():
                key = (row["vllm"], term)
                total[key] += 1
                if ours == theirs:
                    exact[key] += 1
                else:
                    told = f"{row['vllm']} {row['id']}: {str(ours)[:200]} against {str(theirs)[:200]}"
                    misses[key].append(told)
                    by_model[(row["model"], term)].append(told)
    for key in sorted(total):
        print(f"vLLM {key[0]} {key[1]:<24} {exact[key]:>5} of {total[key]:>5} ({exact[key] / total[key]:.1%})")
        for line in misses[key][: 0 if everything else 5]:
            print("      ", line)
    for (model, term), lines in sorted(by_model.items()) if everything else ():
        print(f"{model}: {term}, {len(lines)}")
        for line in lines:
            print("      ", line)


if __name__ == "__main__":
    main()
