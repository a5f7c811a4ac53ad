"""accuracy.py [TRUTH_DIR [MODELS_DIR]]: oomph against what engines and checkpoints really say.

Every set under tests/truth is run; with TRUTH_DIR (oracle.jsonl, h200-*.jsonl, field-logs.jsonl, configs/) and
MODELS_DIR (folders with config.json and tensors.json.gz) those too. Per set and term: how many, the exact share, the
median and the worst relative error of figures, and the worst five by name.
"""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
TRUTH = ROOT / "tests" / "truth"
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests" / "engines" / "vllm"), str(ROOT / "tests" / "logs")]


class Sample(NamedTuple):
    group: str  # the set
    term: str
    name: str
    ours: Any
    truth: Any

    @property
    def exact(self) -> bool:
        return bool(self.ours == self.truth)

    @property
    def error(self) -> float | None:
        """Relative, for figures."""
        if isinstance(self.ours, bool) or isinstance(self.truth, bool):
            return None
        if not isinstance(self.ours, (int, float)) or not isinstance(self.truth, (int, float)) or not self.truth:
            return None
        return abs(self.ours - self.truth) / abs(self.truth)


def zoo() -> Iterator[Sample]:
    """Stored bytes of the catalogue's models against their tensor lists."""
    from oomph import catalog
    from oomph.sources.build import build_model

    for line in (TRUTH / "zoo.jsonl").read_text().splitlines():
        row = json.loads(line)
        entry = catalog.find(row["id"])
        assert entry is not None
        for term, told in (("config alone", None), ("with what headers tell", dict(entry.told))):
            model = build_model(entry.id, entry.config, hf_quant_config=entry.quant_config, told=told)
            elements: Counter[str] = Counter()
            for s in model.stored:
                elements[s.dtype] += s.elements
            if not row.get("estimate"):
                yield Sample("checkpoints", f"bytes, {term}", row["id"], model.nbytes, row["bytes"])
                yield Sample("checkpoints", f"elements, {term}", row["id"], dict(elements), row["elements"])
            elif told is None:
                group = "checkpoints whose list is its maker's estimate, not comparable"
                yield Sample(group, "bytes", row["id"], model.nbytes, row["bytes"])


def kv_kept() -> Iterator[Sample]:
    """Settings and KV cache against vLLM's own Python, 0.11 to 0.32 (tests/truth/kv-*.jsonl.gz)."""
    import kv_truth

    for row in kv_truth.rows():
        r, plan = kv_truth.planned(row)
        group = f"vLLM {row['vllm']}"
        refusal = r.refusal or (plan.refusal if plan else None)
        yield Sample(group, "refused or not", row["id"], refusal is None, "refusal" not in row)
        if plan is None or refusal is not None:
            continue
        told = [[g.kind, g.layers, g.block_size, g.page_bytes] for g in plan.groups]
        theirs = row.get("groups") and [g[:4] for g in row["groups"] for _ in range(g[4])]
        figures = {
            "max_model_len": (plan.max_model_len, row["settings"].get("length")),
            "groups": (told, theirs),
            "bytes per block": (plan.pool_all_bytes, row.get("block_bytes")),
            "blocks": (plan.num_blocks, row.get("blocks")),
            "printed tokens": (plan.logged_tokens, row.get("logged_tokens")),
            "printed concurrency": (round(plan.max_concurrency, 6), row.get("concurrency")),
        }
        for term, (got, wanted) in figures.items():
            if wanted is not None:
                yield Sample(group, term, row["id"], got, wanted)


def logs(truth: Path) -> Iterator[Sample]:
    """What explain reads in real logs: figures, the stage of the failure, its cause."""
    import accuracy_logs

    causes = json.loads((TRUTH / "field-causes.json").read_text())
    rows = accuracy_logs.read(truth)
    for beside, group in ((False, "field logs alone"), (True, "field logs and what was said beside them")):
        scores, _ = accuracy_logs.judge(rows, causes, beside)
        for term, score in scores.items():
            if term == "failure not in the excerpt":
                continue
            yield from (Sample(group, term, "", True, True) for _ in range(score.right))
            yield from (Sample(group, term, miss, False, True) for miss in score.misses)


def oracle(truth: Path, models: Path) -> Iterator[Sample]:
    """Created weights, settings and KV cache against the oracle's rows."""
    import accuracy_kv
    import accuracy_weights

    from oomph.errors import OomphError

    for line in (truth / "oracle.jsonl").read_text().splitlines():
        row = json.loads(line)
        group, name = f"oracle, vLLM {row['vllm']}", row["id"]
        folder = accuracy_kv.folder_of(row, truth, models)
        if not (folder / "config.json").exists():
            continue
        try:
            if row.get("weights") and not row.get("suspect"):
                ours, theirs = accuracy_weights.check(row, folder, False)
                yield Sample(group, "weights, bytes created", name, ours, theirs)
            if not isinstance(row["kv_bytes"], int):
                row["kv_bytes"] = 1 << 40
            for term, wanted, got in accuracy_kv.judge(row, accuracy_kv.load(folder)):
                yield Sample(group, term, name, got, wanted)
        except OomphError as refused:
            yield Sample(group, "planned", name, str(refused), "")


def h200(truth: Path) -> Iterator[Sample]:
    """Plans against real start-ups on one H200."""
    import accuracy_h200

    from oomph.engines.vllm.planner import plan_vllm
    from oomph.ir.deployment import Deployment, Engine
    from oomph.ir.hardware import Device
    from oomph.sources.build import build_model

    terms = {"weights": "weights", "activation_peak": "act", "cudagraph": "cg", "non_torch": "non_torch",
             "available_kv": "kv"}  # fmt: skip
    for case in accuracy_h200.rows(truth):
        flags = dict(case["flags"])
        config = json.loads((case["folder"] / "config.json").read_text())
        model = build_model(case["folder"].name, accuracy_h200.merge(config, flags.pop("hf_overrides", {})))
        total = accuracy_h200.TOTAL
        gpu = Device("H200", total, (9, 0), driver_name="NVIDIA H200", sm_count=132, used_bytes=case["used"])
        cache = "warm" if case["cache"] == "warm" else "cold"
        engine = Engine("vllm", "0.21.0")
        plan = plan_vllm(model, Deployment(engine, model.name, flags, (gpu,), usage="llm", compile_cache=cache))
        yield Sample("one H200", "starts or not", case["id"], plan.verdict.fits, case["error"] is None)
        for term, field in terms.items():
            if plan.ranks and case[field]:
                yield Sample("one H200", term, case["id"], plan.ranks[0].terms[term].bytes, case[field])


def report(samples: Iterator[Sample]) -> None:
    sets: dict[str, dict[str, list[Sample]]] = defaultdict(lambda: defaultdict(list))
    for sample in samples:
        sets[sample.group][sample.term].append(sample)
    for group, terms in sets.items():
        print(f"\n{group}\n  {'':<34}{'count':>7}{'exact':>9}{'median':>9}{'worst':>9}")
        for term, found in terms.items():
            share = sum(s.exact for s in found) / len(found)
            errors = [s.error for s in found if s.error is not None]
            middle, worst = (f"{median(errors):.2%}", f"{max(errors):.2%}") if errors else ("", "")
            print(f"  {term:<34}{len(found):>7,}{share:>9.2%}{middle:>9}{worst:>9}")
            misses = sorted((s for s in found if not s.exact), key=lambda s: -(s.error or 0))
            for miss in misses[:5]:
                off = f": {miss.ours - miss.truth:+,} ({miss.error:.2%})" if miss.error is not None else ""
                print(f"      {miss.name}{off}"[:150])


def main() -> None:
    given = [Path(a) for a in sys.argv[1:3]]
    runs: list[Callable[[], Iterator[Sample]]] = [zoo, kv_kept, partial(logs, TRUTH)]
    if given:
        truth, models = given[0], given[1] if len(given) > 1 else given[0].parent / "models"
        runs += [partial(oracle, truth, models)] if (truth / "oracle.jsonl").exists() else []
        runs += [partial(h200, truth)] if (truth / "h200-vllm-0.21.0.jsonl").exists() else []
        runs += [partial(logs, truth)] if (truth / "field-logs.jsonl").exists() else []
    for run in runs:
        what = run.func if isinstance(run, partial) else run
        print(f"\n== {(what.__doc__ or '').strip()}", end="")
        report(run())


if __name__ == "__main__":
    main()
