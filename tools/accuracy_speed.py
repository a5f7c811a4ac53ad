"""How far the simulated times are from published speeds: tools/accuracy_speed.py [--judge | --sglang] [--only TEXT]

tests/truth/speeds*.jsonl have a published figure a row: GPUs, release, command, load, and what was measured (output
tokens per second, milliseconds to the first token and per token). speeds.jsonl and speeds-fresh.jsonl were judged in
earlier rounds and may be looked at since; speeds-second.jsonl was written down before it was predicted and has two
halves, an author in one of them only (by a hash of the author's address). The factors of simulate/step_costs.py were
set on the first two files and on the half "build"; --judge looks at the other. Its rows keep what was predicted at
first sight, in three rounds (the shares were set anew after the first); those figures stand in simulate/accuracy.py and
on every screen, and those of now may be nearer. speeds-sglang.jsonl has rows of SGLang, all of them predicted once.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from statistics import median

import msgspec
from msgspec import Struct

from oomph.errors import OomphError
from oomph.facts.gpus import find
from oomph.simulate import Factors
from oomph.simulate.build import prepare
from oomph.simulate.play import Load, simulate, spread
from oomph.simulate.result import Result
from oomph.simulate.workloads import SHAPES, Arrivals, Shape

SPEEDS = Path(__file__).parent.parent / "tests" / "truth" / "speeds.jsonl"
FRESH = SPEEDS.with_name("speeds-fresh.jsonl")
SECOND = SPEEDS.with_name("speeds-second.jsonl")
SGLANG = SPEEDS.with_name("speeds-sglang.jsonl")


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
    ttft_ms: float | None = None  # mean
    ttft_p50_ms: float | None = None
    ttft_p99_ms: float | None = None
    prompt_sigma: float = 0.0  # of a "drawn" shape, whose lengths are medians
    output_sigma: float = 0.0
    tpot_ms: float | None = None
    note: str = ""
    half: str = "kept"  # kept: not predicted yet; judged: predicted once, in `round`; else: the factors were set on it
    round: int = 0  # of judgement, with what was predicted then over what was measured:
    speed_ratio: float | None = None
    first_token_ratio: float | None = None
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
    if row.shape == "drawn":
        shape = Shape(row.prompt, row.output, row.prompt_sigma, row.output_sigma)
    if row.rate:
        return Load(shape, Arrivals(rate=row.rate), row.requests)
    return Load(shape, Arrivals(users=row.users or row.requests, at_once=True), row.requests)


def ratio(row: Published, factors: Factors | None = None) -> Ratio:
    named = "==" in row.engine  # rows of vLLM have its release and what follows `vllm serve`
    command, engine = (row.command, row.engine) if named else (f"vllm serve {row.command}", f"vllm=={row.engine}")
    setup = prepare(command, gpu=row.gpu, engine=engine, factors=factors)
    result: Result = simulate(setup, spread(setup, load_of(row)))
    speed = None
    if row.tokens_per_second:
        speed = result.output_tokens_per_second / row.tokens_per_second
    elif row.tpot_ms:
        speed = row.tpot_ms / 1000 / result.tpot.mean
    waits = ((row.ttft_ms, result.ttft.mean), (row.ttft_p50_ms, result.ttft.p50), (row.ttft_p99_ms, result.ttft.p99))
    return Ratio(row, speed, next((ours * 1000 / theirs for theirs, ours in waits if theirs), None))


def published(file: Path = SPEEDS) -> list[Published]:
    return [msgspec.json.decode(line, type=Published) for line in file.read_bytes().splitlines()]


def within(ratios: list[float], share: float) -> float:
    """The factor within which this share of the ratios are."""
    off = sorted(max(r, 1 / r) for r in ratios)
    return off[max(0, -(-round(share * 1000) * len(off) // 1000) - 1)]


def layout_of(row: Published) -> str:
    devices = row.gpu.split("x ")
    if len(devices) == 1:
        return "one GPU"
    return "NVLink" if "NVLink" in find(devices[1]).link else "no NVLink"


def summary(kind: str, ratios: list[Ratio]) -> None:
    speeds = [r.speed for r in ratios if r.speed is not None]
    firsts = [r.first_token for r in ratios if r.first_token is not None]
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


def rows(judged: bool) -> list[Published]:
    """Judged: those that were, or will be, predicted once. Otherwise all others."""
    second = published(SECOND)
    if judged:
        return [row for row in second if row.half in ("kept", "judged")]
    return [*published(SPEEDS), *published(FRESH), *(row for row in second if row.half == "build")]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--judge", action="store_true", help="the rows that were predicted once")
    parser.add_argument("--sglang", action="store_true", help="the rows of SGLang")
    parser.add_argument("--only", default="", help="rows whose GPU, command, kind or source contains this")
    arguments = parser.parse_args()
    ratios = []
    for row in published(SGLANG) if arguments.sglang else rows(arguments.judge):
        if arguments.only not in f"{row.gpu} {row.command} {row.kind} {row.source}":
            continue
        name = f"{row.gpu:<12} {row.command[:42]:<42} {row.users or row.requests:>4} x {row.prompt:>5}+{row.output:<4}"
        try:
            ratios.append(ratio(row))
        except OomphError as refused:
            print(f"{name} cannot be simulated: {str(refused)[:90]}")
            continue
        speed, first = ratios[-1].speed, ratios[-1].first_token
        print(f"{name} speed {speed or 0:5.2f}  first token {first or 0:5.2f}  {row.note}", flush=True)
    for kind in ("dense", "experts"):
        for layout in ("one GPU", "NVLink", "no NVLink"):
            summary(
                f"{kind}, {layout}", [r for r in ratios if (r.published.kind, layout_of(r.published)) == (kind, layout)]
            )
        summary(kind, [r for r in ratios if r.published.kind == kind])
    return 0


if __name__ == "__main__":
    sys.exit(main())
