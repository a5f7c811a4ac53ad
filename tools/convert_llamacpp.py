"""Rows of a llama.cpp lab (loads, no-alloc measurements, --fit decisions) -> tests/truth/llamacpp, in our own form.

    python tools/convert_llamacpp.py MODELS_DIR ROWS.jsonl...          all rows anew
    python tools/convert_llamacpp.py --add MODELS_DIR ROWS.jsonl...    beside what is stored

MODELS_DIR has the GGUF files that were loaded. A row has `id`, `flags`, `gpus`, `real` (the printed lines), and the
model's file as `model`, `family` or `generator.make_gguf`. Kept are the buffers in MiB, and of a model its header
without the vocabulary: the test writes the file again, with holes for weights.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from pathlib import Path
from typing import Any

from oomph.sources.gguf.header import read

TRUTH = Path(__file__).parent.parent / "tests" / "truth" / "llamacpp"
BUFFER = re.compile(r"(\S+)\s+(model|KV|RS|output|compute) buffer size =\s+([\d.]+)")
MEASURED = re.compile(r"(Vulkan\d|CUDA\d|Host) +(\d+) +(\d+) +(\d+)")
FIT = re.compile(r"FIT: status=\d+ c=(\d+) ngl=(-?\d+) ts=(\S*) ot=(.*)")
CUT = 400
USED = re.compile(r"MEM: (\w+) nvml_used=(\d+)")


def main(models: Path, sources: list[Path], *, add: bool) -> None:
    rows, names = [], set()
    stored = read_stored("rows.jsonl.gz") if add else []
    headers = {row["name"]: row for row in read_stored("models.jsonl.gz")} if add else {}
    for source in sources:
        for line in source.read_text().splitlines():
            row = json.loads(line)
            model = row.get("model") or (row.get("generator") or {}).get("make_gguf") or row["family"]
            path = models / f"{model}.gguf"
            converted = convert(row)
            if converted and path.exists():
                rows.append({"id": row["id"], "model": model, "flags": row["flags"], **converted})
                names.add(model)
                names |= {Path(word).stem for word in row["flags"] if word.startswith("m/")}  # draft models
    TRUTH.mkdir(exist_ok=True)
    new = {row["id"] for row in rows}
    headers |= {name: header(models / f"{name}.gguf", name) for name in names}
    write(TRUTH / "rows.jsonl.gz", [row for row in stored if row["id"] not in new] + rows)
    write(TRUTH / "models.jsonl.gz", [headers[name] for name in sorted(headers)])
    print(len(rows), "rows of", len(names), "models beside", len(stored))


def read_stored(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.decompress((TRUTH / name).read_bytes()).splitlines()]


def convert(row: dict[str, Any]) -> dict[str, Any]:
    real = row.get("real") or []
    if row.get("rc") not in (0, None) or not row.get("gpus", 1):
        return {}
    gpus, mib = row.get("gpus", 1), row.get("gpu_mib") or row.get("mib") or 0
    if held := re.search(r"free_mib=(\d+)", row.get("hog", "")):  # another process left so much of the card
        mib = int(held[1])
    about = {"gpus": gpus, "mib": mib, "backend": "CUDA" if "smi_before" in row else "Vulkan"}
    if row.get("opt"):  # without GGML_VK_DISABLE_GRAPH_OPTIMIZE
        about["reordered"] = True
    if fit := next((match for text in real if (match := FIT.search(text))), None):
        split = [int(float(x)) for x in fit[3].split(",") if x][:gpus]
        overrides = [word for word in fit[4].split(",") if word]
        if len(fit[0]) >= CUT - 1:  # the lab cut the line
            overrides[-1] = "..."
        return {
            **about, "kind": "fit", "context": int(fit[1]), "layers": int(fit[2]), "split": split,
            "overrides": overrides,
        }  # fmt: skip
    if any(MEASURED.match(text) for text in real):
        found = {m[1]: [int(m[2]), int(m[3]), int(m[4])] for text in real if (m := MEASURED.match(text))}
        return {**about, "kind": "measured", "mib_of": found}
    buffers: dict[str, float] = {}
    for text in real:
        if match := BUFFER.search(text):
            key = f"{match[1]} {match[2]}"
            buffers[key] = round(buffers.get(key, 0.0) + float(match[3]), 2)
    if not any("compute" in key for key in buffers):
        return {}
    used = {match[1]: int(match[2]) for text in real if (match := USED.match(text))}
    return {**about, "kind": "load", "buffers": buffers, **({"used": used} if used else {})}


def header(path: Path, name: str) -> dict[str, Any]:
    file = read(path)
    keep = {k: v for k, v in file.metadata.items() if not k.startswith("tokenizer.") and v is not None}
    tensors = [(tensor.name, tensor.shape, tensor.dtype) for tensor in file.tensors]
    return {"name": name, "metadata": keep, "tensors": tensors}


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    text = "\n".join(json.dumps(row, separators=(",", ":")) for row in rows) + "\n"
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "--add"]
    main(Path(words[0]), [Path(word) for word in words[1:]], add="--add" in sys.argv)
