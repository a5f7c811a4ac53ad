"""convert_fresh.py NAME ANSWERS.jsonl...: answers of tools/vllm_oracle -> tests/truth/NAME-plans and NAME-models.

One row per question, and the models that the catalogue lacks, packed as it packs. A row keeps the terms in which oomph
differs from the engine (`open`): the test fails where a row that was right becomes wrong, and where an open one was
closed. MISSED.txt beside the answers, if there is one, lists the ids that were wrong at first sight.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests")]

from build_catalog import pruned  # noqa: E402
from convert_oracle import plan_row  # noqa: E402
from msgspec import to_builtins  # noqa: E402

import fresh_truth  # noqa: E402
from oomph.catalog.pack import pack  # noqa: E402
from oomph.errors import OomphError  # noqa: E402
from oomph.facts.vllm.facts import at  # noqa: E402
from oomph.sources import safetensors  # noqa: E402
from oomph.sources.build import build_model  # noqa: E402
from oomph.sources.folder import CONFIG, POOLING, QUANT_CONFIG  # noqa: E402
from oomph.sources.json_input import read_object  # noqa: E402
from plan_truth import planned  # noqa: E402

# what the pretended machine cannot do: no answer of vLLM's
ARTEFACTS = (
    "Invalid repository", "custom code", "does not appear to have a file", "WorkspaceManager", "unsupported operand",
    "StubConfig", "has no attribute", "failed to be inspected", "libcuda", "Cannot access acc", "timm",
    "is not subscriptable", "unhashable", "PreTrainedConfig", "PretrainedConfig", "not compiled with CUDA",
    "can't allocate memory", "Can't load image processor", "Can't load the configuration", "Found unknown kwargs",
    "Can't load feature extractor", "Unrecognized processing class", "Can't load video processor",
    # packages that are not installed there, and remote code that the folders lack
    "Failed to import Ray", "Arctic Inference is required", "' is not defined", "Install a FlashInfer build",
    "but Transformers does not recognize this architecture",
    # transformers newer than the release, and layers cut off a model
    "per-layer attribute and may vary", "does not support non-default RoPE", "'full_attention' is not in list",
)  # fmt: skip


def usable(answer: dict[str, Any]) -> bool:
    text = str((answer.get("error") or {}).get("text", ""))
    if answer.get("oracle_error") or "target_model_config" in json.dumps(answer["flags"]):
        return False
    if (answer["flags"].get("speculative_config") or {}).get("model"):
        return False  # a draft model is a folder of the machine that answered
    without = at(answer["vllm"]).lora.without
    if answer["flags"].get("enable_lora") and (answer.get("resolved") or {}).get("architecture") in without:
        return False  # that lab builds the class, and does not wrap it in adapters
    if not answer.get("ok"):
        blank = not text.strip() and answer["error"]["type"] != "AssertionError"
        return not blank and not any(word in text for word in ARTEFACTS)
    return "num_blocks" in answer


def packed(folder: Path) -> dict[str, Any]:
    """The keys that the templates read, and what the headers say against them."""
    config = read_object(folder / CONFIG)
    quant = read_object(folder / QUANT_CONFIG) if (folder / QUANT_CONFIG).is_file() else None
    told: dict[str, bool] = {} if (folder / POOLING).is_file() else {POOLING: False}
    headers = safetensors.read_folder(folder)
    if headers is not None:
        build_model(folder.name, config, hf_quant_config=quant, tensors=headers, told=told)
    keys, quant_keys = pruned(folder.name, config, quant, told)
    return {
        "id": folder.name,
        "c": to_builtins(pack(keys)),
        **({} if quant_keys is None else {"q": to_builtins(pack(quant_keys))}),
        "told": told,
    }


class Rows:
    def __init__(self, missed: frozenset[str]) -> None:
        self.rows: list[dict[str, Any]] = []
        self.models: dict[str, dict[str, Any]] = {}
        self.missed = missed
        self.count: Counter[str] = Counter()

    def add(self, answer: dict[str, Any]) -> None:
        if not usable(answer):
            self.count["left out"] += 1
            return
        folder = Path(answer["model"])
        answer = {**answer, "kv_bytes": answer.get("kv_bytes") or 1 << 40}
        answer["groups"] = [[*group, 1] for group in answer.get("groups", [])]
        if not answer.get("ok") and answer["error"]["stage"] != "kv_cache_config":
            answer.pop("weights", None)
        row = plan_row(answer, folder.name)
        if not answer.get("ok"):
            row["stage"] = answer["error"]["stage"]
        if answer["id"] in self.missed:
            row["first"] = False
        name = folder.name
        try:
            if name not in self.models:
                self.models[name] = packed(folder)
            model = fresh_truth.build(self.models[name])
            wrong = fresh_truth.wrong_terms(row, planned(row, name, model))
        except OomphError as refusal:
            wrong = ["not planned"]
            print(f"{answer['vllm']} {answer['id']}: {refusal}")
        self.count["rows"] += 1
        if wrong:
            row["open"] = wrong
            print(f"{answer['vllm']} {answer['id']}: {', '.join(wrong)}")
        if "not planned" not in wrong:
            self.rows.append(row)


def main() -> None:
    name, files = sys.argv[1], [Path(word) for word in sys.argv[2:]]
    missed = frozenset(
        word for file in files if (file.parent / "MISSED.txt").exists()
        for word in (file.parent / "MISSED.txt").read_text().split()
    )  # fmt: skip
    rows = Rows(missed)
    for file in files:
        for line in file.read_text().splitlines():
            rows.add(json.loads(line))
    used = {row["model"] for row in rows.rows}
    models = [model for key, model in sorted(rows.models.items()) if key in used]
    for stem, lines in ((f"{name}-models", models), (f"{name}-plans", rows.rows)):
        text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
        raw = gzip.compress(text.encode(), 9, mtime=0)
        (ROOT / "tests" / "truth" / f"{stem}.jsonl.gz").write_bytes(raw)
        print(f"{stem}: {len(lines)} rows, {len(raw):,} bytes")
    print(dict(rows.count))


if __name__ == "__main__":
    main()
