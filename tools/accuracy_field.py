"""accuracy_field.py TRUTH: plans against start-ups that strangers posted (TRUTH/field-logs.jsonl).

Judged are the rows whose model, release and GPU are known: loading GiB, KV GiB, verdict and stage; and, with the
printed KV memory given, printed tokens and concurrency. The rest is counted with the reason.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from msgspec.structs import replace

sys.path.insert(0, str(Path(__file__).parent))
os.environ.setdefault("HF_HUB_OFFLINE", "1")

from accuracy_logs import said

from oomph.errors import OomphError
from oomph.facts import gpus
from oomph.facts.vllm.versions import nearest, parse
from oomph.ir.deployment import Deployment, Engine
from oomph.ir.hardware import Device
from oomph.plan import load, run, world_size
from oomph.units import GIB


def device(row: dict[str, Any]) -> Device | None:
    text = str(row.get("gpu") or "")
    name = re.split(r"\s+x\d|\s*\(|,|;", text)[0].strip()
    total = row.get("gpu_total_gib")
    try:
        found = gpus.find(name, near=round(total * GIB) if total else 0)
    except OomphError:
        return Device(name or "GPU", round(total * GIB)) if total else None
    return found.device(total_bytes=round(total * GIB) if total else 0) if total else found.device()


def deployment(row: dict[str, Any]) -> Deployment | str:
    version = re.search(r"\b0\.\d{1,2}\.\d", str(row.get("engine_version") or ""))
    if version is None:
        return "no release"
    if parse(version[0]) < parse("0.8.5"):
        return "a release before the V1 engine"
    if not row.get("flags"):
        return "flags not known"
    gpu = device(row)
    if gpu is None:
        return "GPU not known"
    made, _ = said(row)
    flags = dict(made.flags)
    for field, key in (("max_model_len", "max_model_len"), ("gpu_memory_utilization", "gpu_memory_utilization"),
                       ("tp", "tensor_parallel_size"), ("pp", "pipeline_parallel_size")):  # fmt: skip
        if row.get(field) is not None:
            flags[key] = row[field]
    model = made.model or row.get("model") or ""
    made = Deployment(Engine("vllm", nearest(version[0])[0] if isinstance(nearest(version[0]), tuple) else version[0]),
                      model.split("/models/")[-1], flags, (gpu,))  # fmt: skip
    return replace(made, gpus=(gpu,) * max(1, world_size(made)))


def main() -> int:
    reasons: Counter[str] = Counter()
    loads: list[tuple[float, str]] = []
    kvs: list[tuple[bool, str]] = []
    verdicts: list[tuple[bool, str]] = []
    printed: list[tuple[bool, str]] = []
    with open(Path(sys.argv[1]) / "field-logs.jsonl") as file:
        rows = [json.loads(line) for line in file]
    for row in rows:
        if row["engine"] != "vllm":
            continue
        made = deployment(row)
        if isinstance(made, str):
            reasons[made] += 1
            continue
        try:
            model = load(row.get("model") or made.model)
            plan = run(made, model)
        except OomphError as refused:
            reasons[refused.message[:60]] += 1
            continue
        if not plan.ranks:
            verdicts.append((False, f"{row['id']}: refused: {plan.verdict.message[:90]}"))
            continue
        t = plan.ranks[0].terms
        if row.get("model_loading_gib"):
            off = t["weights"].bytes / GIB / row["model_loading_gib"] - 1
            loads.append(
                (
                    abs(off),
                    f"{row['id']}: {t['weights'].bytes / GIB:.2f} against {row['model_loading_gib']} ({off:+.2%})",
                )
            )
        if row.get("available_kv_gib"):
            ours = t["available_kv"].bytes / GIB
            other = run(replace(made, compile_cache="warm"), model).ranks[0].terms["available_kv"].bytes / GIB
            want = row["available_kv_gib"]
            good = any(abs(x - want) <= max(0.3, 0.03 * want) for x in (ours, other))
            kvs.append((good, f"{row['id']}: {ours:.2f} cold, {other:.2f} warm against {want}"))
            if row.get("kv_tokens"):
                lows = [round((want + d) * GIB) for d in (-0.005, 0, 0.005)]
                tokens = [run(replace(made, given={"available_kv": n}), model).kv for n in lows]
                got = [k.logged_tokens for k in tokens if k is not None]
                good = min(got) <= row["kv_tokens"] <= max(got)
                printed.append((good, f"{row['id']} {made.engine.version}: {got} against {row['kv_tokens']}"))
        failure = row.get("failure")
        if failure and failure not in ("other", "runtime_request", "host_ram"):
            stage = plan.verdict.stage or "none"
            verdicts.append(
                (stage == failure, f"{row['id']} {row.get('model')} on {row.get('gpu')}: {stage} against {failure}")
            )
    _show("loading GiB within 1 %", [(e <= 0.01, s) for e, s in loads])
    _show("available KV within 3 % or 0.3 GiB", kvs)
    _show("verdict and stage", verdicts)
    _show("printed tokens with the printed KV given", printed)
    print("not judged:", dict(reasons.most_common()))
    return 0


def _show(what: str, judged: list[tuple[bool, str]]) -> None:
    good = sum(ok for ok, _ in judged)
    print(f"{what}: {good} of {len(judged)}" + (f" ({good / len(judged):.0%})" if judged else ""))
    for ok, line in judged:
        if not ok:
            print("    ", line)


if __name__ == "__main__":
    sys.exit(main())
