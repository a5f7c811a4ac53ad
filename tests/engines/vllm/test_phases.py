"""Every phase of a profiling pass and every step of a load, as stored: a plan shows only the largest of them.

`python tools/replay.py renew phases` stores them again, and a commit that does says why.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace
from stored_answers import Row, check_table, stored

from oomph import catalog, plan
from oomph.answers.plan import load as load_model
from oomph.engines.vllm.profile import activation
from oomph.engines.vllm.weights import loaded
from oomph.engines.vllm.weights.load.peak import play
from oomph.errors import OomphError

RELEASES = ("0.21.0", "0.25.1", "0.32.0")  # a new one changes no answer
CARDS = ("A100 80GB", "H200", "B200", "RTX 5090", "RTX 4090", "L40S")
ROUNDS = 2  # deployments of each architecture


def commands() -> Iterator[tuple[str, str, str]]:
    """A serve command, its GPUs and its release: checkpoints of each architecture in turn."""
    by_architecture: dict[str, list[str]] = {}
    for name in catalog.ids():
        try:
            by_architecture.setdefault(load_model(name).architecture, []).append(name)
        except OomphError:
            continue
    for architecture, names in sorted(by_architecture.items()):
        chance = random.Random(architecture)
        for _ in range(ROUNDS):
            ranks = chance.choice((1, 2, 4, 8))
            words = [
                f"vllm serve {chance.choice(names)} -tp {ranks}", chance.choice(("", "--enforce-eager")),
                chance.choice(("", "--max-num-batched-tokens 8192", "--max-num-seqs 512")),
                chance.choice(("", "", "--enable-expert-parallel", "--enable-lora")), "--max-model-len 2048",
                chance.choice(("", "", "", "", "--cpu-offload-gb 2", "--quantization fp8")),
            ]  # fmt: skip
            yield " ".join(filter(None, words)), f"{ranks}x {chance.choice(CARDS)}", chance.choice(RELEASES)


def answer(command: str, gpus: str, release: str) -> list[Any]:
    """All peaks of the profiling passes, and of the loads: where they stand after each place, and what takes them
    beyond so many percent of their highest point."""
    seen: list[Any] = []
    find_peaks = activation._peaks

    def listen(*arguments: Any) -> Iterator[Any]:
        for peak in find_peaks(*arguments):
            seen.append(peak)
            yield peak

    def watch(*arguments: Any) -> Any:
        load = play(*arguments)
        highest = load.peak.total
        seen.append(replace(load, records=()))
        seen.append([load.first_beyond(highest * share // 100) for share in (5, 50, 75, 90, 95, 99)])
        return load

    for function in (activation._activation, loaded._played, loaded._played_alike, loaded._weights):
        function.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(activation, "_peaks", listen)
        patch.setattr(loaded, "play", watch)
        try:
            plan(command, gpu=gpus, engine=f"vllm=={release}", advise=False)
        except OomphError:
            return []
    return seen


def rows(release: str) -> Iterator[Row]:
    """Of the stored deployments; of random ones where none is stored."""
    drawn = (" | ".join(case) for case in commands() if case[2] == release)
    for question in stored("phases", release) or drawn:
        if seen := answer(*question.split(" | ")):
            yield question, seen


TABLES: dict[str, Callable[[], Iterator[Row]]] = {release: partial(rows, release) for release in RELEASES}


@pytest.mark.parametrize("release", TABLES)
def test_the_phases_are_as_stored(release: str) -> None:
    check_table("phases", release, TABLES[release]())


def test_there_are_enough_deployments() -> None:
    assert sum(len(stored("phases", release)) for release in RELEASES) > 60
