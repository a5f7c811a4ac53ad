"""accuracy_llamacpp_speed.py [--judge]: llama.cpp's decoding speed for one user against published figures.

Without --judge the half that the factors of engines/llamacpp/timing.py were set on; with it the other half.
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


def main() -> None:
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
    plan = run(replace(parse(words, ""), gpus=parse_gpus(str(row["gpu"]))), None)
    found = timing(plan, None)
    if found is None:
        raise OomphError("not all of it is on the GPU")
    return speed_of(found, 1, int(str(row["prompt"]))).one_user


if __name__ == "__main__":
    main()
