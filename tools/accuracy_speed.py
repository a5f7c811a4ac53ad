"""How far the simulated times are from published speeds: tools/accuracy_speed.py [--judge|--all|--fresh] [--only TEXT]

tests/truth/speeds.jsonl has a published figure a row: GPUs, release, command, load, and what was measured (output
tokens per second, mean milliseconds to the first token and per token). The halves have no deployment in common: of each
kind, the deployments in alphabetical order go to one and the other in turn. The factors of simulate/step_costs.py were
set on the first half; --judge looks at the other, and its figures stand in simulate/accuracy.py and on every screen.
speeds-fresh.jsonl (--fresh) was found after that: nothing was set on it.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from statistics import median

import msgspec
from msgspec import Struct

from oomph.errors import OomphError
from oomph.simulate import Factors
from oomph.simulate.play import Load, simulate, spread
from oomph.simulate.result import Result
from oomph.simulate.setup import prepare
from oomph.simulate.workloads import SHAPES, Arrivals, Shape

SPEEDS = Path(__file__).parent.parent / "tests" / "truth" / "speeds.jsonl"
FRESH = SPEEDS.with_name("speeds-fresh.jsonl")


class Published(Struct, frozen=True):
    gpu: str
    engine: str
    command: str
    kind: str  # dense, experts
    requests: int
    users: int  # at a time; 0 = all requests at once
    prompt: int
    output: int
    shape: str  # fixed lengths, or chat: these are the means
    source: str
    tokens_per_second: float | None = None
    ttft_ms: float | None = None
    tpot_ms: float | None = None
    note: str = ""
    half: str = "kept"  # build: the factors were set on it; kept: they are judged by it; fresh: predicted once
    rate: float = 0.0  # requests a second, where they are not sent by users


class Ratio(Struct, frozen=True):
    """Ours over theirs: above 1 we promise more speed, or a longer wait."""

    published: Published
    speed: float | None
    first_token: float | None


def load_of(row: Published) -> Load:
    shape = Shape(row.prompt, row.output)
    if row.shape == "chat":  # the medians of a log-normal distribution with these means
        chat = SHAPES["chat"]
        shape = Shape(round(row.prompt * 0.487), round(row.output * 0.637), chat.prompt_sigma, chat.output_sigma)
    if row.rate:
        return Load(shape, Arrivals(rate=row.rate), row.requests)
    return Load(shape, Arrivals(users=row.users or row.requests, at_once=True), row.requests)


def ratio(row: Published, factors: Factors | None = None) -> Ratio:
    setup = prepare(f"vllm serve {row.command}", gpu=row.gpu, engine=f"vllm=={row.engine}", factors=factors)
    result: Result = simulate(setup, spread(setup, load_of(row)))
    speed = None
    if row.tokens_per_second:
        speed = result.output_tokens_per_second / row.tokens_per_second
    elif row.tpot_ms:
        speed = row.tpot_ms / 1000 / result.tpot.mean
    return Ratio(row, speed, result.ttft.mean * 1000 / row.ttft_ms if row.ttft_ms else None)


def published(file: Path = SPEEDS) -> list[Published]:
    return [msgspec.json.decode(line, type=Published) for line in file.read_bytes().splitlines()]


def within(ratios: list[float], share: float) -> float:
    """The factor within which this share of the ratios are."""
    off = sorted(max(r, 1 / r) for r in ratios)
    return off[max(0, -(-round(share * 1000) * len(off) // 1000) - 1)]


def summary(kind: str, ratios: list[Ratio]) -> None:
    speeds = [r.speed for r in ratios if r.speed is not None and r.published.kind == kind]
    firsts = [r.first_token for r in ratios if r.first_token is not None and r.published.kind == kind]
    off = [max(r, 1 / r) for r in speeds]
    if speeds:
        print(
            f"{kind}: {len(speeds)} speeds, median {median(speeds):.2f}; within 1.3: {sum(x <= 1.3 for x in off)}, "
            f"within 1.9: {sum(x <= 1.9 for x in off)}; 7 of 10 within {within(speeds, 0.7):.2f}, 9 of 10 within "
            f"{within(speeds, 0.9):.2f}, worst {max(off):.2f}"
        )
    if firsts:
        off = [max(r, 1 / r) for r in firsts]
        print(
            f"{kind}: {len(firsts)} first tokens, median {median(firsts):.2f}; within 2: {sum(x <= 2 for x in off)}, "
            f"8 of 10 within {within(firsts, 0.8):.2f}"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--judge", action="store_true", help="the half that nothing was set on")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--fresh", action="store_true", help="speeds that were found later and predicted once")
    parser.add_argument("--only", default="", help="rows whose GPU, command or kind contains this")
    arguments = parser.parse_args()
    ratios = []
    for row in published(FRESH if arguments.fresh else SPEEDS):
        if not (arguments.all or arguments.fresh) and row.half != ("kept" if arguments.judge else "build"):
            continue
        if arguments.only not in f"{row.gpu} {row.command} {row.kind}":
            continue
        name = f"{row.gpu:<12} {row.command[:42]:<42} {row.users or row.requests:>4} x {row.prompt:>5}+{row.output:<4}"
        try:
            ratios.append(ratio(row))
        except OomphError as refused:
            print(f"{name} cannot be simulated: {refused}")
            continue
        speed, first = ratios[-1].speed, ratios[-1].first_token
        print(f"{name} speed {speed or 0:5.2f}  first token {first or 0:5.2f}  {row.note}", flush=True)
    summary("dense", ratios)
    summary("experts", ratios)
    return 0


if __name__ == "__main__":
    sys.exit(main())
