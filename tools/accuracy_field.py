"""accuracy_field.py [TRUTH]: plans against start-ups that strangers posted.

Without TRUTH the rows of tests/truth/field-plans.jsonl; with it those of TRUTH/field-logs.jsonl whose model, release
and card are known. A release that is not printed is inferred: from the positions of the log's lines, from what the
poster calls it ("0.24-era"), from the day of a nightly build. Tensor parallelism that is not told is inferred from
rank names, or from the printed loading GiB where one size alone explains it. Inferred rows are counted apart, and the
rest is counted with the reason.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import field_truth
from oomph.answers.plan import run
from oomph.engines.vllm.release import release
from oomph.errors import OomphError
from oomph.facts import gpus
from oomph.facts.vllm.versions import RELEASES, nearest, parse
from oomph.logs.clean import lines
from oomph.logs.parse import observe
from oomph.logs.reader import read_text
from oomph.units import GIB

# When each release was built (the wheels' own dates): a nightly of a day is nearest the release before it.
BUILT = {
    "0.8.5": "2025-04-28", "0.9.2": "2025-07-07", "0.10.2": "2025-09-13", "0.11.0": "2025-10-03",
    "0.11.2": "2025-11-20", "0.12.0": "2025-12-03", "0.13.0": "2025-12-19", "0.14.0": "2026-01-18",
    "0.15.1": "2026-02-04", "0.16.0": "2026-02-25", "0.17.0": "2026-03-06", "0.18.0": "2026-03-20",
    "0.19.0": "2026-04-03", "0.20.0": "2026-04-27", "0.21.0": "2026-05-15", "0.22.0": "2026-05-29",
    "0.23.0": "2026-06-15", "0.24.0": "2026-06-29", "0.25.0": "2026-07-11", "0.26.0": "2026-07-25",
    "0.27.0": "2026-08-10", "0.28.0": "2026-08-25", "0.29.0": "2026-09-09", "0.30.0": "2026-09-22",
    "0.31.0": "2026-10-03", "0.32.0": "2026-10-17",
}  # fmt: skip
FLAGS = ("max_model_len", "gpu_memory_utilization", "max_num_seqs", "max_num_batched_tokens", "kv_cache_dtype",
         "tensor_parallel_size", "pipeline_parallel_size", "enforce_eager")  # fmt: skip
OURS = ("other", "runtime_request", "host_ram")  # ends that no plan foresees


def which_release(row: dict[str, Any]) -> tuple[str, str]:
    """(release, how it is known); ("", why not)."""
    said = str(row.get("engine_version") or "")
    if "patched" in said:
        return "", "a patched build"
    printed = re.fullmatch(r"v?(0\.\d{1,2}\.\d+)(?:\.post\d+)?(?: \(.*\))?", said)
    if printed:
        return _near(printed[1], "printed")
    observations = observe(lines(read_text(row.get("log") or "").lines))
    found = release(observations)[0]
    if found:
        return _near(found, "positions of its lines")
    near = re.search(r"\b0\.(\d{1,2})(?:\.(\d+))?(rc\d+)?(\.dev\d+)?", said)
    if near and near[4]:  # main after 0.19.0 calls itself 0.19.1rc1.devN: what became 0.20
        return _near(f"0.{int(near[1]) + 1}.0", "a build before it")
    if near:
        last = next((v for v in reversed(RELEASES) if v.startswith(f"0.{near[1]}.")), "")
        return _near(f"0.{near[1]}.{near[2]}" if near[2] else last or "0.0.0", "the poster's words")
    day = re.search(r"\b(20\d\d-\d\d)(-\d\d)?\b", said)
    if day and not re.search(r"fork|branch|backport|patched|stack", said):
        before = [v for v, built in BUILT.items() if built <= day[1] + (day[2] or "-15")]
        return (before[-1], "its day") if before else ("", "a release before the V1 engine")
    return "", "no release"


def _near(version: str, how: str) -> tuple[str, str]:
    try:
        if parse(version) < parse("0.8.5"):
            return "", "a release before the V1 engine"
        return nearest(version)[0], how
    except OomphError:
        return "", "no release"


def flag_text(row: dict[str, Any]) -> str | None:
    """The poster's flags in whatever form, as a command line; None where nothing is told."""
    text = str(row.get("flags") or "")
    if not text:
        return None
    if "vllm serve" in text or "api_server" in text:
        return re.sub(r"^.*?(?:vllm serve\s+\S+|api_server)", "", text, flags=re.DOTALL)
    found = {}
    for name in FLAGS:
        pattern = name.replace("_", "[-_ ]") + r"['\"]?\s*[=: ]?\s*['\"]?([\w.]+)"
        match = re.search(pattern, text, re.IGNORECASE)
        if match:
            found[name] = match[1]
    if "enforce_eager" in found and found["enforce_eager"].lower() not in ("false", "0"):
        found["enforce_eager"] = ""
    for field, name in (("max_model_len", "max_model_len"), ("gpu_memory_utilization", "gpu_memory_utilization"),
                        ("tp", "tensor_parallel_size"), ("pp", "pipeline_parallel_size")):  # fmt: skip
        if row.get(field) is not None:
            found[name] = str(row[field])
    return " ".join(f"--{name.replace('_', '-')} {value}".strip() for name, value in found.items())


def as_row(row: dict[str, Any]) -> dict[str, Any] | str:
    version, how = which_release(row)
    if not version:
        return how
    text = str(row.get("gpu") or "")
    name = re.split(r"\s+x\d|\s*\(|,|;", text)[0].strip()
    total = row.get("gpu_total_gib")
    try:
        card = gpus.find(name, near=round(total * GIB) if total else 0)
    except OomphError:
        same = [r for r in gpus.rows() if total and abs(r.total_bytes / GIB - total) <= 0.03]
        if len({r.capability for r in same}) != 1:
            return "card not named"
        card, name = same[0], same[0].name
    if card.vendor != "nvidia" or card.unified:
        return "not a card with memory of its own"
    if not row.get("model"):
        return "model not named"
    flags = flag_text(row)
    made: dict[str, Any] = {"id": row["id"], "version": version, "model": row["model"], "gpu": name,
                            "flags": flags or "", "failure": row["failure"]}  # fmt: skip
    if how != "printed":
        made["inferred"] = f"release from {how}"
    if total:
        made["total_gib"] = total
    held = re.search(r"holding (\d[\d ]*) Mio", text)
    if held:
        made["used_gib"] = int(held[1].replace(" ", "")) / 1024
    wanted = ("weights_gib", "model_loading_gib"), ("kv_gib", "available_kv_gib"), ("tokens", "kv_tokens")
    for ours, theirs in wanted:
        if row.get(theirs) is not None and (flags is not None or ours == "weights_gib"):
            made[ours] = row[theirs]
    made["judge_failure"] = flags is not None and row["failure"] not in OURS
    return _parallel(made, row)


def _parallel(made: dict[str, Any], row: dict[str, Any]) -> dict[str, Any] | str:
    """Tensor parallelism that nobody told: from rank names, or from the loading GiB if one size alone explains it.
    A loading GiB far below that of one GPU, and of no other number either, shows that flags were left out."""
    if "parallel" in made["flags"] or row.get("tp"):
        return made
    ranks = [int(n) for n in re.findall(r"Worker_TP(\d+)", row.get("log") or "")]
    top = max(ranks, default=0)
    sizes = [1 << top.bit_length()] if top else []
    alone = 0.0
    if not sizes and "weights_gib" in made:
        for tp in (1, 2, 4, 8):
            trial = {**made, "flags": f"{made['flags']} --tensor-parallel-size {tp}"}
            try:
                plan = run(field_truth.deployment(trial), field_truth.model(trial))
            except OomphError:
                break
            off = plan.ranks[0].terms["weights"].bytes / GIB / made["weights_gib"] if plan.ranks else 0.0
            alone = alone or off
            if abs(off - 1) <= 0.01:
                sizes.append(tp)
        if not sizes and alone > 1.5:
            return "spread over GPUs by flags that are not told"
    if sizes and sizes != [1] and len(sizes) == 1:
        made["flags"] += f" --tensor-parallel-size {sizes[0]}"
        made["inferred"] = "; ".join(filter(None, (made.get("inferred"), f"tensor parallel size {sizes[0]}")))
    return made


def main() -> int:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    reasons: Counter[str] = Counter()
    rows: list[Any] = list(field_truth.rows())
    if len(sys.argv) > 1:
        path = Path(sys.argv[1]) / "field-logs.jsonl"
        posted = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        made = [as_row(row) for row in posted if row["engine"] == "vllm"]
        reasons.update(m for m in made if isinstance(m, str))
        rows = [m for m in made if not isinstance(m, str)]
    tally: dict[tuple[str, bool], list[tuple[bool, str]]] = defaultdict(list)
    for row in rows:
        try:
            judged = field_truth.judge(row)
        except OomphError as refused:
            reasons["no such model" if "catalogue" in refused.message else refused.message[:60]] += 1
            continue
        for what, good, said in judged:
            tally[what, "inferred" in row].append((good, f"{row['id']} {row['version']}: {said}"))
    for what in ("weights", "kv", "verdict", "tokens"):
        for inferred in (False, True):
            _show(what + (" (release or layout inferred)" if inferred else ""), tally[what, inferred])
    print("not judged:", dict(reasons.most_common()))
    return 0


def _show(what: str, judged: list[tuple[bool, str]]) -> None:
    good = sum(ok for ok, _ in judged)
    if judged:
        print(f"{what}: {good} of {len(judged)} ({good / len(judged):.0%})")
    for ok, line in judged:
        if not ok:
            print("    ", line)


if __name__ == "__main__":
    assert set(BUILT) <= set(RELEASES)
    sys.exit(main())
