"""Random deployments, planned: does every plan agree with itself, in JSON and in text?

    python tools/random_plans.py COUNT [SEED]      what is wrong with each of COUNT plans; exit code 1 if anything is

Every model of the catalogue, every card, every release of vLLM and the flags of the replayed cases, SGLang, llama.cpp
and Ollama besides. A plan must not end in a traceback; the terms must add up to the budget; a plan that fits must not
show a peak above its card, in the JSON or in the picture; text and JSON must have the same outcome.
"""

from __future__ import annotations

import json
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from replay_cases import plan_cases

from oomph import catalog
from oomph.answers.plan import plan
from oomph.errors import OomphError
from oomph.ir.plan import Plan
from oomph.report.bars import sizes

HEADLINES = {
    "fits": ("FITS", "RUNS"),
    "at_risk": ("STARTS, AT RISK", "RUNS, AT RISK"),
    "close": ("TOO CLOSE TO CALL",),
    "fails": ("WILL NOT START", "WILL NOT RUN", "WILL NOT LOAD"),
}


def sglang_cases(count: int, seed: int) -> Iterator[list[str]]:
    draw = random.Random(seed)
    models, cards = list(catalog.ids()), ("H100", "2x H100", "8x H200", "RTX 4090", "A100 80GB", "L40S", "B200")
    flags = (
        (), ("--mem-fraction-static", "0.8"), ("--context-length", "8192"), ("--max-running-requests", "32"),
        ("--disable-cuda-graph",), ("--kv-cache-dtype", "fp8_e4m3"), ("--chunked-prefill-size", "2048"),
    )  # fmt: skip
    for _ in range(count):
        gpu = draw.choice(cards)
        width = gpu.split("x ")[0] if "x " in gpu else "1"
        words = [word for flag in draw.sample(flags, 2) for word in flag]
        yield ["--gpu", gpu, "--", "sglang", "serve", draw.choice(models), "--tp-size", width, *words]


def cases(count: int, seed: int) -> Iterator[list[str]]:
    others = count // 12
    yield from sglang_cases(others, seed)
    yield from plan_cases(count - others, seed)


def split_case(case: list[str]) -> tuple[dict[str, str], list[str]]:
    at = case.index("--")
    return dict(zip(case[:at:2], case[1:at:2], strict=True)), case[at + 1 :]


def answer(case: list[str]) -> Plan | None:
    """None: refused in one sentence."""
    named, words = split_case(case)
    try:
        return plan(words, gpu=named["--gpu"], engine=named.get("--engine", ""), advise=False)
    except OomphError:
        return None


def contradictions(of: Plan) -> Iterator[str]:
    """What the plan says in one place and denies in another."""
    fields = json.loads(json.dumps(of.to_dict()))
    outcome = fields["verdict"]["outcome"]
    for rank in fields["ranks"]:
        yield from _in_terms(rank)
        yield from _in_stages(rank, outcome)
    yield from _in_pictures(of)
    text = of.text(width=110)
    if not any(re.search(rf"^  {re.escape(word)}\b", text, re.MULTILINE) for word in HEADLINES[outcome]):
        yield f"the text does not say {outcome}"
    if outcome == "fits" and "!!" in text:
        yield "a bar is marked as too long under FITS"


def _in_terms(rank: dict[str, Any]) -> Iterator[str]:
    terms = rank["terms"]
    for name, term in terms.items():
        if not term["low"] <= term["bytes"] <= term["high"]:
            yield f"{name}: {term['bytes']} is not within {term['low']} to {term['high']}"
        if name not in ("available_kv", "load_peak") and term["parts"] and sum(term["parts"].values()) != term["bytes"]:
            yield f"{name}: its parts make {sum(term['parts'].values())}, not {term['bytes']}"
    kv = terms.get("available_kv")
    if kv is None or "requested" not in kv["parts"]:
        return
    if max(0, sum(kv["parts"].values())) != kv["bytes"] or kv["parts"]["requested"] != rank["requested_bytes"]:
        yield f"the terms do not add up to the budget: {kv['parts']} and {kv['bytes']}"
    for name, size in kv["parts"].items():
        if name not in ("requested", "others") and (name not in terms or terms[name]["bytes"] != -size):
            yield f"the budget has {name} {-size}, which is no term of the plan"


def _in_stages(rank: dict[str, Any], outcome: str) -> Iterator[str]:
    for stage in rank["stages"]:
        if stage["peak_bytes"] < stage["resident_bytes"]:
            yield f"{stage['name']}: its peak is below what stays"
        is_checked = outcome == "fits" or (outcome == "at_risk" and stage["name"] != "runtime_request")
        if is_checked and stage["peak_bytes"] > rank["total_bytes"]:
            yield f"{stage['name']}: its peak is above the card's {rank['total_bytes']} bytes in a plan that fits"


def _in_pictures(of: Plan) -> Iterator[str]:
    for rank in of.ranks:
        parts = sizes(rank, of)
        if any(size < 0 for _, size in parts):
            yield f"a part of the bar of GPU {rank.rank} is negative"
        if of.verdict.outcome == "fits" and sum(size for _, size in parts) > rank.total_bytes:
            yield f"the bar of GPU {rank.rank} is longer than the card in a plan that fits"


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    outcomes: Counter[str] = Counter()
    wrong = 0
    for case in cases(count, seed):
        try:
            answered = answer(case)
            problems = list(contradictions(answered)) if answered is not None else []
        except Exception as error:  # whatever it is, it is a bug that this tool looks for
            answered, problems = None, [f"a traceback: {error!r}"]
        outcomes[answered.verdict.outcome if answered is not None else "no plan"] += 1
        wrong += bool(problems)
        for problem in problems[:2]:
            print(f"{problem}: {' '.join(case)}")
    judged = count - outcomes["no plan"]
    words = ", ".join(f"{name} {number}" for name, number in outcomes.most_common())
    print(f"{count} deployments (seed {seed}): {words}; close {outcomes['close'] / max(1, judged):.1%}; {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
