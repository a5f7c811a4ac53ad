"""The same questions to oomph and to its peers, with their answers and CPU seconds side by side.

    python tools/peers.py --rivals VENV --models FOLDER [--write]

A question is a start-up that somebody published (tests/truth/field-plans.jsonl): did this checkpoint start on these
cards with this context? VENV is a virtual environment with the peers as the registry has them (pip install llmfit kvfit
hf-mem). llmfit brings its own database; kvfit and hf-mem read a hub, which is one on 127.0.0.1 with the checkpoints of
FOLDER (org--name with config.json and tensors.json.gz). What cannot be asked says so. --write puts the table into
docs/peers.md, and its last lines into the README's chart.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import os
import re
import resource
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import peers_chart
from bench_hub import point_at
from loopback_hub import LoopbackHub, Sparse
from msgspec import Struct

ROOT = Path(__file__).parent.parent
TRUTH = ROOT / "tests" / "truth" / "field-plans.jsonl"
PAGE = ROOT / "docs" / "peers.md"
QUESTIONS = 13
DTYPES = {"BF16": 2, "F16": 2, "F32": 4, "F8_E4M3": 1, "F8_E5M2": 1, "U8": 1, "I8": 1, "I32": 4, "I64": 8}  # bytes
_TIMEOUT = 60


class Answer(Struct, frozen=True):
    starts: bool | None  # None: it cannot be asked, `text` says why
    text: str
    seconds: float


def folder_of(models: Path, name: str) -> Path:
    return models / name.replace("/", "--")


def questions(models: Path) -> list[dict[str, Any]]:
    """Every published failure, and as many starts as make thirteen, one of each model and card, of checkpoints whose
    tensors are known: kvfit and hf-mem read them."""
    rows = [json.loads(line) for line in TRUTH.read_text().splitlines()]
    rows = [row for row in rows if (folder_of(models, row["model"]) / "tensors.json.gz").exists()]
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


def timed(words: list[str], environment: dict[str, str]) -> tuple[str, int, float]:
    begin = resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=_TIMEOUT, env=environment)
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


def cards_of(row: dict[str, Any]) -> int:
    return number(row["flags"], "tensor-parallel-size", 1) * number(row["flags"], "pipeline-parallel-size", 1)


def fraction(row: dict[str, Any]) -> float:
    """The share of the card: the flag's, or the release's default."""
    from oomph.facts.vllm.facts import at

    match = re.search(r"--gpu-memory-utilization[ =]([\d.]+)", row["flags"])
    return float(match[1]) if match else at(row["version"]).limits.utilization


def ask_oomph(peers: Peers, row: dict[str, Any]) -> Answer:
    cards = cards_of(row)
    words = [sys.executable, "-m", "oomph", "plan", "--json", "--no-advice", "--gpu", f"{cards}x {row['gpu']}"]
    words += ["--engine", f"vllm=={row['version']}", "--", "vllm", "serve", row["model"], *shlex.split(row["flags"])]
    text, code, seconds = timed(words, peers.environment)
    try:
        verdict = json.loads(text)["verdict"]
    except (ValueError, KeyError):
        return Answer(None, text.strip().splitlines()[-1][:60] if text.strip() else str(code), seconds)
    return Answer(bool(verdict["fits"]), f"{verdict['outcome']} {verdict['stage'] or ''}".strip(), seconds)


def ask_llmfit(peers: Peers, row: dict[str, Any]) -> Answer:
    cards = cards_of(row)
    context = number(row["flags"], "max-model-len", 8192)
    memory = f"{round(card_gib(row) * cards)}G"
    words = [
        *peers.program("llmfit"),
        "--json",
        "--memory",
        memory,
        "--max-context",
        str(context),
        "info",
        row["model"],
    ]
    text, code, seconds = timed(words, peers.environment)
    start = text.find("{")
    try:
        model = json.loads(text[start:])["models"][0]
    except (ValueError, KeyError, IndexError):
        return Answer(None, "does not know the model" if code else text[:40], seconds)
    on_gpu = "gpu" in str(model.get("run_mode", "")).lower() and model["fit_level"] != "Too Tight"
    return Answer(on_gpu, f"{model['fit_level']}, {model.get('run_mode', '')}", seconds)


def ask_kvfit(peers: Peers, row: dict[str, Any]) -> Answer:
    flags, cards = row["flags"], cards_of(row)
    words = [row["model"], "--hardware", f"custom:{card_gib(row):.2f}", "--gpus", str(cards), "--tp", str(cards)]
    words += ["--utilization", str(fraction(row)), "--json"]
    if context := number(flags, "max-model-len", 0):
        words += ["--context", str(context)]
    text, code, seconds = timed([*peers.program("kvfit"), *words], peers.environment)
    if code:
        return Answer(None, text.strip().splitlines()[-1][:60] if text.strip() else "no answer", seconds)
    best = json.loads(text)["concurrency"]["best_any_fabric"]
    users = best["concurrent_users"] if best else 0
    return Answer(users > 0, f"fits, {users} users" if users else "does not fit", seconds)


def ask_hf_mem(peers: Peers, row: dict[str, Any]) -> Answer:
    """It prints a size and no verdict: more than the engine's share of the cards is read as "does not fit"."""
    words = ["--model-id", row["model"], "--experimental", "--json-output"]
    if context := number(row["flags"], "max-model-len", 0):
        words += ["--max-model-len", str(context)]
    text, code, seconds = timed([*peers.program("hf-mem"), *words], peers.environment)
    if code:
        return Answer(None, text.strip().splitlines()[-1][:60] if text.strip() else "no answer", seconds)
    answer = json.loads(text[text.index("{") :])
    size = (answer.get("total_memory") or answer["memory"]) / (1 << 30)
    return Answer(size <= card_gib(row) * cards_of(row) * fraction(row), f"{size:.1f} GiB", seconds)


class Peers:
    """Where the peers are, with a hub of their own."""

    def __init__(self, venv: Path, models: Path, hub: LoopbackHub, folder: Path) -> None:
        self.venv, self.models = venv, models
        point_at(venv, hub.url, folder / "code")
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")},
            "HF_ENDPOINT": hub.url, "HF_HOME": str(folder / "home"), "PYTHONPATH": str(folder / "code"),
            "NO_COLOR": "1", "PATH": f"{venv / 'bin'}:{os.environ.get('PATH', '')}",
        }  # fmt: skip
        self.environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def program(self, name: str) -> list[str]:
        return [str(self.venv / "bin" / name)]


def repository(folder: Path) -> dict[str, bytes | Sparse]:
    """The files of a checkpoint as a hub has them; one file of tensors, of which only the header is there."""
    entries: dict[str, object] = {}
    end = 0
    for name, shape, dtype in json.loads(gzip.decompress((folder / "tensors.json.gz").read_bytes())):
        begin, end = end, end + math.prod(shape) * DTYPES[dtype]
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
    header = json.dumps(entries).encode()
    head = len(header).to_bytes(8, "little") + header
    return {"config.json": (folder / "config.json").read_bytes(), "model.safetensors": Sparse(head, len(head) + end)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rivals", type=Path, required=True)
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    rows = questions(options.models)
    with LoopbackHub() as hub, tempfile.TemporaryDirectory() as folder:
        for name in {row["model"] for row in rows}:
            hub.add(name, repository(folder_of(options.models, name)))
        table = compared(rows, Peers(options.rivals.resolve(), options.models, hub, Path(folder)))
    print(table)
    if options.write:
        head = PAGE.read_text().split("<!-- table -->")[0]
        PAGE.write_text(f"{head}<!-- table -->\n\n{table}\n")
        peers_chart.PICTURE.write_text(peers_chart.chart(peers_chart.figures(PAGE.read_text())))
    return 0


def compared(rows: list[dict[str, Any]], peers: Peers) -> str:
    """The table of docs/peers.md."""
    tools: dict[str, Callable[[Peers, dict[str, Any]], Answer]] = {
        "oomph": ask_oomph, "llmfit": ask_llmfit, "kvfit": ask_kvfit, "hf-mem": ask_hf_mem,
    }  # fmt: skip
    lines = ["| question | really | " + " | ".join(tools) + " |", "|" + "---|" * (len(tools) + 2)]
    right = dict.fromkeys(tools, 0)
    seconds = dict.fromkeys(tools, 0.0)
    for row in rows:
        starts = row["failure"] == "none"
        cells = []
        for name, ask in tools.items():
            answer = ask(peers, row)
            right[name] += answer.starts == starts
            seconds[name] += answer.seconds
            mark = "?" if answer.starts is None else "right" if answer.starts == starts else "wrong"
            cells.append(f"{mark}: {answer.text}")
        cards = cards_of(row)
        length = number(row["flags"], "max-model-len", 0)
        what = f"{row['model'].rpartition('/')[2]} on {cards} x {row['gpu']}" + (f", {length:,}" if length else "")
        lines.append(f"| {what} | {'starts' if starts else row['failure']} | " + " | ".join(cells) + " |")
    counts = " | ".join(f"{right[name]} of {len(rows)}" for name in tools)
    lines.append(f"| **right** | | {counts} |")
    lines.append("| **CPU seconds each** | | " + " | ".join(f"{seconds[n] / len(rows):.2f}" for n in tools) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
