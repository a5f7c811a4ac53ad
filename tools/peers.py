"""peers.py [--write]: the same questions to oomph and to its peers, with their answers and CPU seconds side by side.

A question is a start-up that somebody published (tests/truth/field-plans.jsonl): did this checkpoint start on these
cards with this context? Peers are run as they are installed from the registry, found on PATH: llmfit (own database),
kvfit and hf-mem (they read the hub, at HF_ENDPOINT where one is set). What cannot be asked says so. --write puts the
table into docs/peers.md.
"""

from __future__ import annotations

import json
import re
import resource
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct

ROOT = Path(__file__).parent.parent
TRUTH = ROOT / "tests" / "truth" / "field-plans.jsonl"
PAGE = ROOT / "docs" / "peers.md"
QUESTIONS = 13
_TIMEOUT = 60


class Answer(Struct, frozen=True):
    starts: bool | None  # None: it cannot be asked, `text` says why
    text: str
    seconds: float


def questions() -> list[dict[str, Any]]:
    """Every published failure, and as many starts as make thirteen, one of each model and card."""
    rows = [json.loads(line) for line in TRUTH.read_text().splitlines()]
    failed = [row for row in rows if row["failure"] != "none"]
    started: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        if row["failure"] == "none":
            started.setdefault((row["model"], row["gpu"]), row)
    small = sorted(started.values(), key=lambda row: (card_gib(row), row["model"]))
    return [*failed, *small[: QUESTIONS - len(failed)]]


def card_gib(row: dict[str, Any]) -> float:
    from oomph.facts.gpus import find
    from oomph.units import GIB

    return float(row.get("total_gib") or find(row["gpu"]).total_bytes / GIB)


def timed(words: list[str]) -> tuple[str, int, float]:
    begin = resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=_TIMEOUT)
        text, code = done.stdout or done.stderr, done.returncode
    except (OSError, subprocess.TimeoutExpired) as error:
        text, code = str(error), -1
    end = resource.getrusage(resource.RUSAGE_CHILDREN)
    return text, code, end.ru_utime + end.ru_stime - begin.ru_utime - begin.ru_stime


def number(flags: str, name: str, default: int) -> int:
    match = re.search(rf"--{name}[ =](\d+)", flags) or (
        re.search(r"-tp[ =](\d+)", flags) if name == "tensor-parallel-size" else None
    )
    return int(match[1]) if match else default


def ask_oomph(row: dict[str, Any]) -> Answer:
    cards = number(row["flags"], "tensor-parallel-size", 1) * number(row["flags"], "pipeline-parallel-size", 1)
    words = [sys.executable, "-m", "oomph", "plan", "--json", "--no-advice", "--gpu", f"{cards}x {row['gpu']}"]
    words += ["--engine", f"vllm=={row['version']}", "--", "vllm", "serve", row["model"], *shlex.split(row["flags"])]
    text, code, seconds = timed(words)
    try:
        verdict = json.loads(text)["verdict"]
    except (ValueError, KeyError):
        return Answer(None, text.strip().splitlines()[-1][:60] if text.strip() else str(code), seconds)
    return Answer(bool(verdict["fits"]), f"{verdict['outcome']} {verdict['stage'] or ''}".strip(), seconds)


def ask_llmfit(row: dict[str, Any]) -> Answer:
    if shutil.which("llmfit") is None:
        return Answer(None, "not installed", 0.0)
    cards = number(row["flags"], "tensor-parallel-size", 1) * number(row["flags"], "pipeline-parallel-size", 1)
    context = number(row["flags"], "max-model-len", 8192)
    memory = f"{round(card_gib(row) * cards)}G"
    words = ["llmfit", "--json", "--memory", memory, "--max-context", str(context), "info", row["model"]]
    text, code, seconds = timed(words)
    start = text.find("{")
    try:
        model = json.loads(text[start:])["models"][0]
    except (ValueError, KeyError, IndexError):
        return Answer(None, "does not know the model" if code else text[:40], seconds)
    on_gpu = "gpu" in str(model.get("run_mode", "")).lower() and model["fit_level"] != "Too Tight"
    return Answer(on_gpu, f"{model['fit_level']}, {model.get('run_mode', '')}", seconds)


def ask_hub_reader(tool: str, row: dict[str, Any]) -> Answer:
    if shutil.which(tool) is None:
        return Answer(None, "not installed", 0.0)
    words = (
        [tool, "--model-id", row["model"]] if tool == "hf-mem" else [tool, "check", row["model"], "--gpu", row["gpu"]]
    )
    text, code, seconds = timed(words)
    if code:
        return Answer(None, "needs the hub", seconds)
    says = re.search(r"(?i)does not fit|oom|fits", text)
    verdict = None if says is None else says[0].lower() == "fits"
    return Answer(verdict, says[0] if says else "no verdict", seconds)


def main() -> int:
    tools: dict[str, Callable[[dict[str, Any]], Answer]] = {
        "oomph": ask_oomph, "llmfit": ask_llmfit, "kvfit": lambda row: ask_hub_reader("kvfit", row),
        "hf-mem": lambda row: ask_hub_reader("hf-mem", row),
    }  # fmt: skip
    rows = questions()
    lines = ["| question | really | " + " | ".join(tools) + " |", "|" + "---|" * (len(tools) + 2)]
    right = dict.fromkeys(tools, 0)
    seconds = dict.fromkeys(tools, 0.0)
    for row in rows:
        starts = row["failure"] == "none"
        cells = []
        for name, ask in tools.items():
            answer = ask(row)
            right[name] += answer.starts == starts
            seconds[name] += answer.seconds
            mark = "?" if answer.starts is None else "right" if answer.starts == starts else "wrong"
            cells.append(f"{mark}: {answer.text}")
        cards = number(row["flags"], "tensor-parallel-size", 1) * number(row["flags"], "pipeline-parallel-size", 1)
        length = number(row["flags"], "max-model-len", 0)
        what = f"{row['model'].rpartition('/')[2]} on {cards} x {row['gpu']}" + (f", {length:,}" if length else "")
        lines.append(f"| {what} | {'starts' if starts else row['failure']} | " + " | ".join(cells) + " |")
    counts = " | ".join(f"{right[name]} of {len(rows)}" for name in tools)
    lines.append(f"| **right** | | {counts} |")
    lines.append("| **CPU seconds each** | | " + " | ".join(f"{seconds[n] / len(rows):.2f}" for n in tools) + " |")
    print("\n".join(lines))
    if "--write" in sys.argv:
        head = PAGE.read_text().split("<!-- table -->")[0]
        PAGE.write_text(head + "<!-- table -->\n\n" + "\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
