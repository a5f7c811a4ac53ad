"""accuracy_llamacpp_speed.py [--judge | --local]: llama.cpp's decoding speed for one user against published figures.

Without --judge the half that the factors of engines/llamacpp/timing.py were set on; with it the other half. --local:
the commands of tests/truth/speeds-ollama.jsonl and speeds-local.jsonl, what was predicted then beside what is now.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from msgspec.structs import replace

from oomph.answers.plan import parse, run
from oomph.engines.llamacpp.timing import timing
from oomph.errors import OomphError
from oomph.simulate.speed import speed_of
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


def main() -> None:
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
