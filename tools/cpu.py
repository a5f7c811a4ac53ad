"""cpu.py [--runs N] [--only WORD] [--fit] [--batch]: CPU time of the commands, beside that of a bare Python.

    python tools/cpu.py                  every command; exit code 1 where one takes longer than it may
    python tools/cpu.py --only what-if   those whose name has the word
    python tools/cpu.py --fit --batch    also fits, searches and plans a second (two minutes)

User and system time of each process from the kernel, with compiled bytecode, once with an empty cache folder and once
with the folder that the first run left. A bare Python runs before and after each, and the best of N is compared with
the best of N: what else the machine does only ever adds.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
OOMPH = str(Path(sys.executable).parent / "oomph")
BARE = [sys.executable, "-c", "pass"]
PLAN_LIMIT, ADVICE_LIMIT, WHAT_IF_LIMIT, HELP_LIMIT = 9.0, 4.5, 13.0, 6.0  # times a bare Python
FIT_SECONDS, TYPICAL_FIT_SECONDS, BATCH_RATE = 2.0, 0.4, 2000.0

# (what it stands for, GPUs, the serve command, whether it fails)
DEPLOYMENTS: tuple[tuple[str, str, str, bool], ...] = (
    ("fits: Qwen3-8B", "RTX 4090", "vllm serve Qwen/Qwen3-8B --max-model-len 8192", False),
    ("README: Gemma 4 NVFP4", "2x RTX 5070 Ti", "vllm serve nvidia/Gemma-4-31B-IT-NVFP4 -tp 2", True),
    ("KV check: Qwen3-32B", "RTX 4090", "vllm serve Qwen/Qwen3-32B-AWQ", True),
    ("large MoE: DeepSeek V3.1", "8x H100", "vllm serve deepseek-ai/DeepSeek-V3.1 -tp 8", True),
    ("MoE: gpt-oss-120b", "H100", "vllm serve openai/gpt-oss-120b", False),
    ("llama.cpp: Qwen3-8B", "RTX 3060", "llama-server -hf Qwen/Qwen3-8B-GGUF:Q8_0 -c 32768 -ngl 99", True),
    ("SGLang: Qwen3-32B", "RTX 5090", "python -m sglang.launch_server --model-path Qwen/Qwen3-32B", True),
)
# Catalogue models and cards whose fit opens the most arms; the last is a typical question.
FITS: tuple[tuple[str, str, tuple[str, ...], float], ...] = (
    ("Qwen/Qwen3.6-35B-A3B", "8x RTX 3090", ("--context", "16k"), FIT_SECONDS),
    ("Qwen/Qwen3-235B-A22B", "8x H100", ("--context", "16k"), FIT_SECONDS),
    ("Qwen/Qwen3.6-27B", "RTX 5090", ("--context", "16k"), FIT_SECONDS),
    ("google/gemma-4-31B-it", "2x RTX 5070 Ti", ("--context", "8k"), FIT_SECONDS),
    ("meta-llama/Llama-3.1-8B-Instruct", "4x L4", ("--context", "32k", "--users", "8"), FIT_SECONDS),
    ("openai/gpt-oss-120b", "8x H100", ("--context", "128k", "--users", "16"), FIT_SECONDS),
    ("Qwen/Qwen3.6-35B-A3B", "8x RTX 3090", ("--prefer", "context"), FIT_SECONDS),
    ("Qwen/Qwen3.6-35B-A3B", "8x RTX 3090", ("--prefer", "users"), FIT_SECONDS),
    ("Qwen/Qwen3.6-35B-A3B", "8x RTX 3090", ("--prefer", "speed"), FIT_SECONDS),
    ("Qwen/Qwen3-8B", "RTX 4090", ("--context", "16k"), TYPICAL_FIT_SECONDS),
)


_SERVICES = (
    "vllm serve Qwen/Qwen3-32B -tp 2", "vllm serve Qwen/Qwen3-8B", "vllm serve openai/gpt-oss-120b -tp 4",
    "vllm serve Qwen/Qwen3-Embedding-0.6B --runner pooling", "vllm serve google/gemma-3-27b-it -tp 2",
)  # fmt: skip
# What stands on the plan: the words after `oomph`, and seconds of CPU at most.
SEARCHES: tuple[tuple[str, tuple[str, ...], float], ...] = (
    ("gpus Qwen3-32B", ("gpus", "Qwen3-32B"), 0.8),
    ("gpus gpt-oss-120b, 200 users", ("gpus", "gpt-oss-120b", "--users", "200", "--context", "8k"), 0.8),
    ("models on an RTX 3060", ("models", "--gpu", "RTX 3060"), 1.0),
    ("models on an RTX 4090", ("models", "--gpu", "RTX 4090"), 1.0),
    ("compare Qwen3-8B on an RTX 4090", ("compare", "Qwen/Qwen3-8B", "--gpu", "RTX 4090"), 1.0),
    ("compare gpt-oss-120b, 200 users, 2 x H100",
     ("compare", "openai/gpt-oss-120b", "--gpu", "2x H100", "--users", "200", "--context", "8k"), 1.0),
    ("simulate: most users of gpt-oss-120b",
     ("simulate", "--gpu", "2x H100", "--prompt", "2500", "--output", "450", "--", "vllm", "serve",
      "openai/gpt-oss-120b", "-tp", "2"), 3.0),
    ("pack, five services on 8 x H100", ("pack", "--gpu", "8x H100", *_SERVICES), 2.0),
    ("plan with advice, TensorRT-LLM on 8 x RTX 3070",
     ("plan", "--gpu", "8x RTX 3070", "--engine", "trtllm==1.1.0rc3", "--", "trtllm-serve", "Qwen/Qwen2.5-Coder-14B"),
     2.0),
    ("plan with advice, TensorRT-LLM DeepSeek on 8 x H100",
     ("plan", "--gpu", "8x H100", "--", "trtllm-serve", "deepseek-ai/DeepSeek-V3.1", "--tp_size", "8"), 2.0),
    ("plan with advice, vLLM 70B on 4 x RTX 3090",
     ("plan", "--gpu", "4x RTX 3090", "--", "vllm", "serve", "meta-llama/Llama-3.3-70B-Instruct"), 2.0),
    ("check, a repository of 40 files", ("check", "--gpu", "RTX 4090", str(ROOT / "tests/answers/tree")), 1.0),
)  # fmt: skip


class Job(NamedTuple):
    name: str
    words: list[str]
    limit: float | None  # times a bare Python
    beside: str = ""  # the job that this one adds to: the difference is what is limited


def jobs() -> list[Job]:
    out = [Job("oomph --help", [OOMPH, "--help"], HELP_LIMIT)]
    for name, gpu, command, fails in DEPLOYMENTS:
        serve = ["--gpu", gpu, "--", *command.split()]
        out.append(Job(f"plan --no-advice, {name}", [OOMPH, "plan", "--no-advice", *serve], PLAN_LIMIT))
        if fails:
            out.append(Job(f"its advice, {name}", [OOMPH, "plan", *serve], ADVICE_LIMIT, out[-1].name))
        out.append(Job(f"what-if, {name}", [OOMPH, "what-if", *serve], WHAT_IF_LIMIT))
    return out


def environment(cache: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"NO_COLOR": "1", "OOMPH_CACHE": cache, "HF_HUB_OFFLINE": "1"}


def cpu_seconds(words: list[str], cache: str) -> float:
    """User and system time of one process and of what it started."""
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment(cache))
    complaint = process.stderr.read() if process.stderr is not None else b""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1, 4):
        raise SystemExit(f"{' '.join(words)}: exit code {process.returncode}: {complaint.decode()[:300]}")
    return usage.ru_utime + usage.ru_stime


def measure(wanted: list[Job], runs: int) -> dict[str, tuple[float, float, float]]:
    """name -> (seconds with an empty cache folder, seconds with a warm one, seconds of a bare Python beside them)."""
    best = {job.name: (1e9, 1e9, 1e9) for job in wanted}
    for _ in range(runs):
        for job in wanted:
            with tempfile.TemporaryDirectory() as cache:
                bare = cpu_seconds(BARE, cache)
                empty, warm = cpu_seconds(job.words, cache), cpu_seconds(job.words, cache)
                bare = min(bare, cpu_seconds(BARE, cache))
            before = best[job.name]
            best[job.name] = min(before[0], empty), min(before[1], warm), min(before[2], bare)
    return best


def print_commands(wanted: list[Job], runs: int) -> list[str]:
    seconds = measure(wanted, runs)
    late, bare = [], min((row[2] for row in seconds.values()), default=0.0)
    print(f"{'':<46}{'empty ms':>9}{'warm ms':>9}{'x empty':>9}{'x warm':>8}{'at most':>9}")
    for job in wanted:
        empty, warm, _ = seconds[job.name]
        times_empty, times_warm = empty / bare, warm / bare
        if job.beside:
            other = seconds[job.beside]
            times_empty, times_warm = times_empty - other[0] / bare, times_warm - other[1] / bare
        is_late = job.limit is not None and times_warm > job.limit
        late += [job.name] * is_late
        limit = "" if job.limit is None else f"{job.limit:>8g}x"
        line = f"{job.name:<46}{empty * 1000:>9.1f}{warm * 1000:>9.1f}"
        print(f"{line}{times_empty:>8.1f}x{times_warm:>7.1f}x{limit}{' !' * is_late}")
    print(f"{'python -c pass':<46}{bare * 1000:>9.1f}")
    return late


def print_fits(runs: int) -> list[str]:
    late = []
    for model, gpu, more, limit in FITS:
        with tempfile.TemporaryDirectory() as cache:
            words = [OOMPH, "fit", model, "--gpu", gpu, *more]
            seconds = min(cpu_seconds(words, cache) for _ in range(runs))
        name = f"fit {model.rpartition('/')[2]} on {gpu} {' '.join(more)}"
        late += [name] * (seconds > limit)
        print(f"{name:<60}{seconds:>8.2f} s of CPU, at most {limit:g}{' !' * (seconds > limit)}")
    return late


def print_searches(runs: int) -> list[str]:
    late = []
    for name, words, limit in SEARCHES:
        with tempfile.TemporaryDirectory() as cache:
            seconds = min(cpu_seconds([OOMPH, *words], cache) for _ in range(runs))
        late += [name] * (seconds > limit)
        print(f"{name:<60}{seconds:>8.2f} s of CPU, at most {limit:g}{' !' * (seconds > limit)}")
    return late


def print_batch(lines: int = 4000) -> list[str]:
    """Plans a second where models repeat: the start of the program is taken off by a batch of one line."""
    models = ("Qwen/Qwen3-8B", "Qwen/Qwen3-32B", "openai/gpt-oss-20b", "google/gemma-4-31B-it")
    rows = [
        {
            "id": number,
            "gpu": ("RTX 4090", "2x H100", "RTX 5090")[number % 3],
            "engine": "vllm==0.21.0",
            "args": ["vllm", "serve", models[number % 4], "--max-model-len", str(2048 + 16 * (number % 512))],
        }
        for number in range(lines)
    ]
    with tempfile.TemporaryDirectory() as folder:
        seconds = []
        for count in (40, lines):
            path = Path(folder) / f"{count}.jsonl"
            path.write_text("".join(json.dumps(row) + "\n" for row in rows[:count]), encoding="utf-8")
            seconds.append(min(cpu_seconds([OOMPH, "plan", "--batch", str(path)], folder) for _ in range(3)))
    rate = (lines - 40) / (seconds[1] - seconds[0])
    print(f"{'plan --batch, four models, three cards':<60}{rate:>8.0f} plans a second, at least {BATCH_RATE:g}")
    return ["plan --batch"] * (rate < BATCH_RATE)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--only", default="", help="commands whose name has this word")
    parser.add_argument("--fit", action="store_true", help="also the fits and the other searches")
    parser.add_argument("--batch", action="store_true", help="also the batch")
    options = parser.parse_args()
    compileall.compile_dir(ROOT / "src", quiet=2)
    wanted = jobs()
    names = {name for job in wanted if options.only in job.name for name in (job.name, job.beside)}
    late = print_commands([job for job in wanted if job.name in names], options.runs)
    late += [*print_fits(3), *print_searches(3)] if options.fit else []
    late += print_batch() if options.batch else []
    for name in late:
        print(f"{name} takes longer than it may")
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
