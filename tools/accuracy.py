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
from typing import Any, Literal, NamedTuple

ROOT = Path(__file__).parent.parent
TRUTH = ROOT / "tests" / "truth"
sys.path[:0] = [
    str(ROOT / p)
    for p in ("tools", "tests", "tests/engines/vllm", "tests/engines/sglang", "tests/engines/trtllm", "tests/logs")
]


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


def plans_kept() -> Iterator[Sample]:
    """Whole plans against vLLM's own Python, regressions only: the set keeps what was right."""
    import plan_truth

    for row in plan_truth.rows():
        got = plan_truth.planned(row, row["model"], plan_truth.model(row["model"]))
        yield from _figures(f"plans, vLLM {row['vllm']}", row["id"], plan_truth.figures(row, got))


def _figures(group: str, name: str, figures: dict[str, tuple[Any, Any]]) -> Iterator[Sample]:
    for term, (ours, theirs) in figures.items():
        if term == "created_bytes":
            ours, theirs = sum(ours), sum(theirs)
        yield Sample(group, term, name, ours, theirs)


def oracle(truth: Path, models: Path) -> Iterator[Sample]:
    """Whole plans against the answers of the folder that was given."""
    import tempfile

    import accuracy_oracle

    folders = {"zoo": models, "configs": truth / "configs", "extra": truth / "extra"}
    rows = [json.loads(line) for line in (truth / "oracle.jsonl").read_text().splitlines()]
    with tempfile.TemporaryDirectory() as scratch:
        for row in sorted(rows, key=lambda r: str(r["model"])):
            name = Path(row["model"]).name
            folder = folders[row["src"]] / name
            if (folder / "config.json").exists():
                made = accuracy_oracle.checkpoint(folder, Path(scratch) / row["src"] / name)
                figures = accuracy_oracle.judge(row, made)
                yield from _figures(f"oracle, vLLM {row['vllm']}", row["id"], figures)


def h200_kept() -> Iterator[Sample]:
    """Plans against start-ups measured on one H200 (tests/truth/h200.jsonl)."""
    import h200_truth

    for row in h200_truth.measured():
        plan = h200_truth.planned(row)
        if row["error"] or row["available_kv_bytes"]:
            yield Sample("one H200", "starts or not", row["id"], plan.verdict.fits, row["error"] is None)
        for term, field in h200_truth.FIELDS.items():
            if plan.ranks and row[field]:
                yield Sample("one H200", term, row["id"], plan.ranks[0].terms[term].bytes, row[field])


def traced_kept() -> Iterator[Sample]:
    """Profiling passes of models cut to a few layers (tests/truth/activation.jsonl)."""
    import activation_truth

    for row in activation_truth.rows():
        plan = activation_truth.planned(row)
        for term, field in activation_truth.FIELDS.items():
            if plan.ranks and row[field]:
                group = f"one H200, models cut short, vLLM {row['vllm']}"
                yield Sample(group, term, row["id"], plan.ranks[0].terms[term].bytes, row[field])


def h200(truth: Path) -> Iterator[Sample]:
    """Plans against real start-ups on one H200."""
    import accuracy_h200
    from h200_truth import HOLDER

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
        used = case["used"] and case["used"] + HOLDER
        gpu = Device("H200", total, (9, 0), driver_name="NVIDIA H200", sm_count=132, used_bytes=used)
        cache: Literal["cold", "warm"] = "warm" if case["cache"] == "warm" else "cold"
        engine = Engine("vllm", "0.21.0")
        plan = plan_vllm(model, Deployment(engine, model.name, flags, (gpu,), usage="llm", compile_cache=cache))
        yield Sample("one H200", "starts or not", case["id"], plan.verdict.fits, case["error"] is None)
        for term, field in terms.items():
            if plan.ranks and case[field]:
                yield Sample("one H200", term, case["id"], plan.ranks[0].terms[term].bytes, case[field])


def field_kept() -> Iterator[Sample]:
    """Start-ups that strangers posted: loading GiB within 1 %, KV GiB within 3 % or 0.3, tokens, verdict and stage."""
    import field_truth

    for row in field_truth.rows():
        for what, good, _ in field_truth.judge(row):
            yield Sample("posted start-ups", what, row["id"], good, True)


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


def registry() -> Iterator[Sample]:
    """The architectures of vLLM's newest release: planned, or refused with a sentence that names them."""
    from oomph.errors import OomphError
    from oomph.facts.vllm.architectures import REGISTRY, is_planned
    from oomph.sources.arch import FAMILIES
    from oomph.sources.build import build_model

    for kind, names in REGISTRY.items():
        planned = sum(is_planned(name, FAMILIES) for name in names)
        print(f"\n   {kind}: {planned} of {len(names)} are planned", end="")
        for name in names:
            if is_planned(name, FAMILIES):
                continue
            try:
                build_model("a model", {"architectures": [name]})
                said = ""
            except OomphError as refusal:
                said = str(refusal)
            yield Sample("architectures", f"refused by name, {kind}", name, name in said, True)


def fresh() -> Iterator[Sample]:
    """Deployments that vLLM's own Python answered before oomph saw them, at first sight and today."""
    import fresh_truth

    for name in fresh_truth.sets():
        for row in fresh_truth.lines(f"{name}-plans"):
            wrong = row.get("open", [])
            for term in fresh_truth.terms(row):
                yield Sample(f"vLLM, {name}", f"{term}, today", row["id"], term not in wrong, True)
            yield Sample(f"vLLM, {name}", "all terms at first sight", row["id"], row.get("first", True), True)


def sglang_kept() -> Iterator[Sample]:
    """SGLang: settings, pools and created weights against its own Python (tests/truth/sglang-*)."""
    import sglang_truth

    for row in sglang_truth.rows():
        for term, ours, truth in sglang_truth.figures(row):
            yield Sample(f"SGLang {row['sglang']}", term, row["id"], ours, truth)
    for name, ours, truth in sglang_truth.created_weights_kept():
        yield Sample("SGLang 0.5.23", "created weights", name, ours, truth)


def sglang_posted() -> Iterator[Sample]:
    """SGLang start-ups that strangers posted: tokens within 1 % (tests/truth/sglang-posts.jsonl)"""
    import posted_starts as posted

    known = [row for row in posted.ROWS if not row.get("outside") and "tokens" in row]
    inferred = [row["id"] for row in known if row["inferred"]]
    print(f"\n   {len(known)} start-ups; something was inferred in {len(inferred)}:", end="")
    for row in known:
        if row["inferred"]:
            print(f"\n      {row['id']}: {'; '.join(row['inferred'])}", end="")
        for pinned in (True, False):
            if (not pinned and row["id"] in posted.NOT_WITHOUT_READINGS) or (pinned and not posted.readings(row)):
                continue
            how = "with the log's readings" if pinned else "from the command alone"
            for term, ours, truth in posted.figures(row, posted.planned(row, pinned=pinned)):
                near = abs(ours - truth) <= max(0.01 * truth, 1 if term in ("slots", "requests") else 0)
                yield Sample("SGLang, posted: within 1 %", f"{term}, {how}", row["id"], near, True)


def served_kept() -> Iterator[Sample]:
    """vLLM 0.26.0 and SGLang 0.5.17 on an H200, under load (tests/truth/h200-served.jsonl, h200-sglang.jsonl)."""
    import test_served as served
    import test_sglang_h200 as sglang

    group = "vLLM 0.26.0 under load, H200: within 0.4 % of the card"
    for i in served.READY:
        row, near = served.ROWS[i], served.CARD * served.TOTAL
        off = served.stage(i, "sampler_warmup").peak_bytes - row["ready_bytes"]
        yield Sample(group, "memory after warm-up", row["id"], abs(off) <= near, True)
        if i in served.HEAVY:
            off = served.stage(i, "runtime_request").peak_bytes - served.served_bytes(row)
            yield Sample(group, "memory after the heavy load", row["id"], abs(off) <= near, True)
    for row in sglang.SERVING:
        kv = sglang.planned(row, weights=True).kv
        yield Sample("SGLang 0.5.17 on an H200", "tokens", row["id"], kv.logged_tokens if kv else 0,
                     row["max_total_num_tokens"])  # fmt: skip


def trtllm_kept() -> Iterator[Sample]:
    """TensorRT-LLM: posted start-ups, each figure at the width that the log prints (tests/truth/trtllm*.jsonl)"""
    import trtllm_truth

    for name, what in (("trtllm.jsonl", "posted"), ("trtllm-own.jsonl", "posted, 12 of 19 by one author")):
        for row in trtllm_truth.rows(name):
            for figure in trtllm_truth.figures(row):
                term = figure.term.partition(" of window")[0]
                yield Sample(f"TensorRT-LLM, {what}", term, figure.row, figure.agrees, True)
            if (
                row["backend"] == "pytorch"
                and row["model"]
                and row["flags"] is not None
                and "peak_gib" in row["figures"]
            ):
                low, high = trtllm_truth.peak_interval(row)
                inside = low <= row["figures"]["peak_gib"] <= high
                yield Sample(f"TensorRT-LLM, {what}", "peak inside its interval", row["id"], inside, True)


def main() -> None:
    given = [Path(a) for a in sys.argv[1:3]]
    runs: list[Callable[[], Iterator[Sample]]] = [
        registry,
        fresh,
        zoo,
        kv_kept,
        plans_kept,
        h200_kept,
        served_kept,
        traced_kept,
        field_kept,
        sglang_kept,
        sglang_posted,
        trtllm_kept,
    ]
    runs.append(partial(logs, TRUTH))
    if given:
        truth, models = given[0], given[1] if len(given) > 1 else given[0].parent / "models"
        runs += [partial(oracle, truth, models)] if (truth / "oracle.jsonl").exists() else []
        runs += [partial(h200, truth)] if (truth / "h200-vllm-0.21.0.jsonl").exists() else []
        runs += [partial(logs, truth)] if (truth / "field-logs.jsonl").exists() else []
    import field_reports

    print("\n== Public reports explained: first sight apart from in-sample", *field_reports.lines(), sep="\n  ")
    import accuracy_intervals

    print("\n== Intervals: how many measured values lie inside them", end="")
    accuracy_intervals.report()
    import accuracy_fixes

    print("\n== Fixes that worked for those who posted them")
    accuracy_fixes.show()
    import accuracy_machines

    print("\n== Machines as posted: unified memory, AMD, Intel, cards that are shared")
    accuracy_machines.show()
    import accuracy_offload

    print("\n== Weights in host memory: one user's tokens per second, published and computed")
    accuracy_offload.show()
    import accuracy_questions

    print("\n== Questions that people ask, and what an expert would answer")
    accuracy_questions.show()
    for run in runs:
        what = run.func if isinstance(run, partial) else run
        print(f"\n== {(what.__doc__ or '').strip()}", end="")
        report(run())


if __name__ == "__main__":
    main()
