"""How well `explain` reads real logs: `tools/accuracy_logs.py [TRUTH]` over TRUTH/field-logs.jsonl (log_kind machine).

Without TRUTH over tests/truth, where the same logs are kept as figures and printed again.

Figures, stage and cause are judged twice: from the excerpt alone, and with what its poster said beside it (flags,
version, GPU), which is what `--gpu` and `-- vllm serve ...` are for. A failure that the excerpt does not contain (no
error line at all) is not seen but inferred, from figures and from a plan; those are listed by name, and the stage is
counted both ways: over the failures that were seen, and over all.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from oomph import catalog
from oomph.doctor.case import Case
from oomph.doctor.explain import Explanation, explain_case, read_case
from oomph.doctor.verify import planned
from oomph.errors import OomphError
from oomph.ir.deployment import Deployment, Engine
from oomph.ir.hardware import Device
from oomph.ir.model import Model
from oomph.logs.deployment import parse_flags, value_of
from oomph.sources.gpu import parse_gpus
from oomph.sources.load import load_model
from oomph.units import GIB

ROOT = Path(__file__).parents[1]
# field of the record -> where our observations hold it
FIGURES = {
    "model_loading_gib": ("weights.weights", "v0_terms.weights", "ledger.weights", "sg_weights.weights",
                          "memory_profile.weights"),
    "peak_activation_gib": ("ledger.activation", "v0_terms.activation", "memory_profile.activation",
                            "v0_results.activation"),
    "non_torch_gib": ("ledger.non_torch", "v0_terms.non_torch", "v0_results.non_torch", "memory_profile.non_torch"),
    "cudagraph_gib": ("graphs.graphs", "ledger.graphs", "graph_pool.actual"),
    "available_kv_gib": ("available_kv.available", "kv_need.available", "kv_need_part.available", "v0_terms.available",
                         "v0_results.available", "ledger.available"),
    "kv_tokens": ("kv_tokens.tokens", "kv_need_v0.tokens"),
    "max_concurrency": ("concurrency.concurrency",),
    "gpu_total_gib": ("ledger.total", "free_short.total", "torch_oom.total", "v0_budget.total", "v0_results.total",
                      "tr_total.total"),
    "free_startup_gib": ("ledger.free", "free_short.free"),
    "kv_needed_gib": ("kv_need.need",),
    "estimated_max_len": ("kv_need.estimate",),
    "oom_tried_gib": ("torch_oom.tried", "lc_malloc.tried"),
    "oom_free_gib": ("torch_oom.free",),
    "oom_pytorch_gib": ("torch_oom.allocated",),
    "oom_reserved_unalloc_gib": ("torch_oom.reserved",),
    "consumed_gib": ("ledger.consumed",),
    "cudagraph_est_gib": ("graph_estimate.estimate", "graph_pool.estimate"),
    "kv_cache_memory_suggest_gib": ("ledger.suggest",),
    "num_gpu_blocks": ("v0_blocks.blocks", "mamba_blocks.blocks"),
    "block_size": ("attention_block.block_size",),
}  # fmt: skip


def said(row: dict[str, Any]) -> tuple[Deployment, tuple[Device, ...]]:
    """What the poster wrote beside the log."""
    text = row.get("flags") or ""
    model: str = row.get("model") or ""
    flags: dict[str, Any] = {}
    if "--" in text:
        flags, named, _ = parse_flags(text if "serve" in text else f"vllm serve {text}")
        model = named or model
    elif text.startswith("{"):
        found = re.findall(r"'(\w+)': ('[^']*'|[\d.]+|True|False)", text)
        flags = {name: value_of(value.strip("'")) for name, value in found}
    if row.get("tp"):
        flags.setdefault("tensor_parallel_size", row["tp"])
    for name in ("gpu_memory_utilization", "max_model_len"):
        if row.get(name):
            flags.setdefault(name, row[name])
    version = re.match(r"\d+\.\d+\.\d+(?:\.post\d)?", row.get("engine_version") or "")
    gpu = row.get("gpu") or ""
    devices = _cards(gpu)
    if re.search(r"GB10|Thor|Jetson|Spark", gpu):
        devices = (Device("unified", 120 * GIB, unified=True),)
    engine = Engine("vllm", version[0] if version else "", "the poster")
    return Deployment(engine, model, flags, devices), devices


def _cards(text: str) -> tuple[Device, ...]:
    """ "RTX 3090 x8", "H100 NVL x2 (93.02 GiB)" """
    found = re.match(r"([A-Z][\w ]+?)(?: x(\d+))?(?: \(.*)?$", text)
    try:
        return parse_gpus(f"{found[2] or 1}x {found[1]}") if found else ()
    except OomphError:
        return ()


def in_catalogue(name: str) -> Model:
    if catalog.find(name) is None:
        raise OomphError(f"{name} is not in the catalogue")
    return load_model(name)


def figures(row: dict[str, Any], case: Case) -> Iterator[tuple[str, bool]]:
    for field, places in FIGURES.items():
        wanted = row.get(field)
        if wanted is None or field in row["fields_keyed_by_hand"]:
            continue
        found = []
        for place in places:
            kind, name = place.split(".")
            found += [o.values[name] for o in case.observations if o.kind == kind and name in o.values]
        scale = GIB if field.endswith("gib") else 1
        digits = 2 if field == "kv_cache_memory_suggest_gib" else 4
        yield field, any(round(float(n) / scale, digits) == round(wanted, digits) for n in found)


class Score:
    def __init__(self) -> None:
        self.right = 0
        self.misses: list[str] = []

    def add(self, name: str, right: bool, note: str = "") -> None:
        self.right += right
        if not right:
            self.misses.append(f"{name}: {note}" if note else name)

    def __str__(self) -> str:
        total = self.right + len(self.misses)
        return f"{self.right}/{total} ({100 * self.right / max(1, total):.1f} %)"


def judge(
    rows: list[dict[str, Any]], causes: dict[str, list[str]], beside: bool
) -> tuple[dict[str, Score], Counter[str]]:
    names = ("figures", "stage", "stage, seen and inferred", "cause", "no false alarm", "no rejected remedy")
    scores = {name: Score() for name in names}
    table: Counter[str] = Counter()
    unseen: list[str] = []
    for row in rows:
        try:
            deployment, devices = said(row)
            case = read_case(row["log"], deployment=deployment if beside else None, gpus=devices if beside else ())
        except OomphError as error:
            table[f"{row['failure']} -> refused"] += 1
            scores["no false alarm"].add(row["id"], True)
            if row["failure"] != "none":
                scores["stage"].add(row["id"], False, error.message[:60])
                scores["stage, seen and inferred"].add(row["id"], False, error.message[:60])
            continue
        result = explain_case(case)
        for field, right in figures(row, case):
            scores["figures"].add(f"{row['id']}.{field}", right)
        levers = {r.change.lever for r in result.rejected}
        scores["no rejected remedy"].add(row["id"], not any(r.change.lever in levers for r in result.remedies))
        if row["failure"] == "none":
            scores["no false alarm"].add(row["id"], not result.failed, f"{result.stage} {result.cause.id}")
            continue
        seen = result.failed or case.has("mm_worst_case", "capture_begin", "lc_pipeline_retry")
        if not seen:
            result = planned(case, loader=in_catalogue)
        right = result.stage == row["failure"]
        unknown = " (its record does not know the stage)" if row["failure"] == "other" and not seen else ""
        note = f"{row['failure']}, said {result.stage}{unknown}"
        scores["stage, seen and inferred"].add(row["id"], right, note)
        if not seen:
            how = "inferred" if result.inferred_stage else "ends in"
            unseen.append(f"{row['id']} ({row['failure']}; {how} {result.stage})")
            continue
        table[f"{row['failure']} -> {result.stage}"] += 1
        scores["stage"].add(row["id"], result.stage == row["failure"], f"{row['failure']}, said {result.stage}")
        if row["id"] in causes:
            right = result.cause.id in causes[row["id"]]
            scores["cause"].add(row["id"], right, f"{'/'.join(causes[row['id']])}, said {_shown(result)}")
    scores["failure not in the excerpt"] = Score()
    scores["failure not in the excerpt"].misses = unseen
    return scores, table


def _shown(result: Explanation) -> str:
    return ", ".join([result.cause.id, *(c.id for c in result.candidates)])


def read(truth: Path) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in (truth / "field-logs.jsonl").read_text(encoding="utf-8").splitlines()]
    if rows and "lines" in rows[0]:
        sys.path.insert(0, str(ROOT / "tests" / "logs"))
        from printed import line as print_line

        def text(row: dict[str, Any]) -> str:
            keys = ("process", "rank", "source")
            return "\n".join(
                print_line(e["kind"], e["values"], **{k: e[k] for k in keys if k in e}) for e in row["lines"]
            )

        return [{"fields_keyed_by_hand": [], "engine_version": r.get("version"), **r, "log": text(r)} for r in rows]
    return [row for row in rows if row["log_kind"] == "machine"]


def main(truth: Path) -> int:
    rows = read(truth)
    causes = json.loads((ROOT / "tests/truth/field-causes.json").read_text(encoding="utf-8"))
    for beside in (False, True):
        scores, table = judge(rows, causes, beside)
        print("\nwith what was said beside the log" if beside else "the log alone")
        for name, score in scores.items():
            print(f"  {name:28} {score if name != 'failure not in the excerpt' else len(score.misses)}")
            for miss in score.misses:
                print(f"      {miss}")
        print("  true stage -> said stage")
        for pair, count in sorted(table.items()):
            print(f"    {count:4} {pair}")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "tests/truth"))
