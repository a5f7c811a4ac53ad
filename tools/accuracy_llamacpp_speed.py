"""accuracy_llamacpp_speed.py [--judge | --local | --steps]: llama.cpp's speeds against published figures.

Decoding for one user: without --judge the half that the factors of engines/llamacpp/timing.py were set on; with it the
other half. --local: the commands of tests/truth/speeds-ollama.jsonl and speeds-local.jsonl, what was predicted then
beside what is now. --steps: prompts and batches of llama-bench, and decoding on server cards, of
tests/truth/llamacpp_steps.jsonl; an author's rows are in one half only.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from oomph.answers.plan import parse, run
from oomph.engines.llamacpp.timing import timing
from oomph.errors import OomphError
from oomph.simulate.speed import speed_of
from oomph.simulate.timing import SECOND
from oomph.sources.gpu import parse_gpus

TRUTH = Path(__file__).parent.parent / "tests" / "truth" / "llamacpp_speeds.jsonl"


LOCAL = ("speeds-ollama.jsonl", "speeds-local.jsonl")


def local() -> None:
    for name in LOCAL:
        errors = []
        for row in map(json.loads, TRUTH.with_name(name).read_text().splitlines()):
            if "speed_ratio" not in row:
                continue
            ratio = of_command(row["command"].split(), row["gpu"], row["prompt"]) / row["tokens_per_second"]
            errors.append(max(ratio, 1 / ratio))
            print(f"{row['gpu']:18}{row['command'][:60]:62}then {row['speed_ratio']:.2f}, now {ratio:.2f}")
        print(name, len(errors), "within 1.3:", sum(e <= 1.3 for e in errors), "within 2:", sum(e <= 2 for e in errors))


def steps() -> None:
    errors: dict[tuple[str, str], list[float]] = {}
    for row in map(json.loads, TRUTH.with_name("llamacpp_steps.jsonl").read_text().splitlines()):
        ratio = step_rate(row) / row["tokens_per_second"]
        errors.setdefault((row["half"], row["test"]), []).append(max(ratio, 1 / ratio))
        print(f"{row['gpu']:20}{row['model'][-30:]:31}{row['tag']:7}{row['test']:8}{row['batch']:5}{ratio:6.2f}")
    for (half, test), off in errors.items():
        print(half, test, len(off), "within 1.3:", sum(e <= 1.3 for e in off), "within 2:", sum(e <= 2 for e in off))


def step_rate(row: dict[str, Any]) -> float:
    """Tokens per second of prompts in micro-batches of so many tokens, or of so many sequences that decode."""
    prompt, batch, depth = (int(row.get(name, 0)) for name in ("prompt", "batch", "depth"))
    words = ["llama-server", "-hf", f"{row['model']}:{row['tag']}", "-c", "40960", "-np", "1", "-ngl", "99"]
    words += ["-ub", str(batch), "-b", str(max(batch, 2048))] if prompt else []
    found = timing(run(replace(parse(words, ""), gpus=parse_gpus(row["gpu"])), None), None)
    assert found is not None
    time, groups = found.time, found.groups
    if not prompt:
        return batch * SECOND / (time.fixed(batch, batch) + batch * time.chunk(groups, depth, 1))
    chunks = [(done, min(batch, prompt - done)) for done in range(0, prompt, batch)]
    return prompt * SECOND / sum(time.fixed(new, 1) + time.chunk(groups, depth + done, new) for done, new in chunks)


def main() -> None:
    if "--steps" in sys.argv:
        steps()
        return
    if "--local" in sys.argv:
        local()
        return
    half = "kept" if "--judge" in sys.argv else "set"
    factors: dict[str, list[float]] = {}
    for line in TRUTH.read_text().splitlines():
        row = json.loads(line)
        if row["half"] != half:
            continue
        try:
            rate = computed(row)
        except OomphError as refused:
            print(f"{row['model']:48} cannot be computed: {refused.message}")
            continue
        ratio = rate / row["tokens_per_second"]
        factors.setdefault(row["kind"], []).append(max(ratio, 1 / ratio))
        print(f"{row['gpu']:10}{row['model']:48}{row['tag']:8}{row['tokens_per_second']:8.1f}{rate:8.1f}  {ratio:.2f}")
    for kind, errors in factors.items():
        print(kind, len(errors), "worst", f"{max(errors):.2f}", sorted(round(e, 2) for e in errors))


def computed(row: dict[str, object]) -> float:
    name = f"{row['model']}:{row['tag']}"
    context = max(4096, 2 * int(str(row["prompt"])))
    words = ["llama-server", "-hf", name, "-c", str(context), "-np", "1", "-ngl", "99"]
    return of_command(words, str(row["gpu"]), int(str(row["prompt"])))


def of_command(words: list[str], gpu: str, prompt: int) -> float:
    plan = run(replace(parse(words, ""), gpus=parse_gpus(gpu)), None)
    found = timing(plan, None)
    if found is None:
        raise OomphError("not all of it is on the GPU")
    return speed_of(found, 1, prompt).one_user


if __name__ == "__main__":
    main()
