"""accuracy_h200.py TRUTH_DIR [EXTRA_RESULTS_DIR CONFIGS_DIR]: plans against real start-ups on one H200."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from oomph.engines.vllm.planner import plan_vllm
from oomph.ir.deployment import Deployment, Engine
from oomph.ir.hardware import Device
from oomph.sources.build import build_model

TOTAL = 150_109_880_320


def merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    out = dict(base)
    for k, v in over.items():
        out[k] = merge(out[k], v) if isinstance(v, dict) and isinstance(out.get(k), dict) else v
    return out


def row(**fields: Any) -> dict[str, Any]:
    return fields


def rows(truth: Path) -> list[dict[str, Any]]:
    out = []
    with open(truth / "h200-vllm-0.21.0.jsonl") as file:
        for line in file:
            r = json.loads(line)
            out.append(
                row(
                    id=r["id"],
                    folder=truth / "configs" / r["model"],
                    flags=r["flags"],
                    cache=r["compile_cache"],
                    used=int((r.get("ballast_gib") or 0) * 2**30),
                    weights=r["weights"],
                    act=r["activation_peak"],
                    non_torch=r["non_torch"],
                    cg=r["cudagraph_estimate"],
                    kv=r["available_kv"],
                    error=r["error"],
                )
            )
    return out


def extra(results: Path, configs: Path) -> list[dict[str, Any]]:
    out = []
    for path in sorted(results.glob("*.json")):
        r = json.loads(path.read_text())
        if not r.get("ok"):
            continue
        s, d = r["stages"], r["stages"]["determine_available_memory"]
        out.append(
            row(
                id=r["case"]["id"],
                folder=configs / Path(r["case"]["model"]).name,
                flags=r["case"]["flags"],
                cache="warm" if "warm" in r["case"]["id"] else "cold",
                used=0,
                weights=s["load_model"]["model_memory_usage"],
                act=d["peak_activation"],
                non_torch=d["non_torch"],
                cg=d["cudagraph_estimate"],
                kv=d["available_kv"],
                error=None,
            )
        )
    return out


def main() -> None:
    cases = rows(Path(sys.argv[1]))
    if len(sys.argv) > 2:
        cases += extra(Path(sys.argv[2]), Path(sys.argv[3]))
    within2 = within10 = n = 0
    for c in cases:
        config = json.loads((c["folder"] / "config.json").read_text())
        flags = dict(c["flags"])
        config = merge(config, flags.pop("hf_overrides", {}))
        model = build_model(c["folder"].name, config)
        device = Device("H200", TOTAL, (9, 0), driver_name="NVIDIA H200", sm_count=132, used_bytes=c["used"])
        dep = Deployment(
            Engine("vllm", "0.21.0"),
            c["folder"].name,
            flags,
            (device,),
            usage="llm",
            compile_cache="warm" if c["cache"] == "warm" else "cold",
        )
        p = plan_vllm(model, dep)
        if not p.ranks:
            print(f"{c['id']:36s} REFUSED {p.verdict.message[:100]} | {str(c['error'])[:60]}")
            continue
        t = p.ranks[0].terms

        def off(name: str, want: int | None, terms: dict[str, Any] = t) -> str:
            return f"{(terms[name].bytes - want) / want:+.3%}" if want else "-"

        if c["act"]:
            n += 1
            error = abs(t["activation_peak"].bytes - c["act"]) / c["act"]
            within2 += error <= 0.02
            within10 += error <= 0.10
        kv = f"{(t['available_kv'].bytes - c['kv']) / TOTAL:+.4%}" if c["kv"] else "-"
        print(
            f"{c['id']:36s} W {off('weights', c['weights'])} act {off('activation_peak', c['act'])} "
            f"cg {off('cudagraph', c['cg'])} kv/card {kv} {t['activation_peak'].why} | "
            f"{p.verdict.stage} | {str(c['error'])[:50]}"
        )
    print(f"activation within 2 %: {within2}/{n}, within 10 %: {within10}/{n}")


if __name__ == "__main__":
    main()
