"""Every phase of a profiling pass and every step of a load, as stored: a plan shows only the largest of them.

phases.json holds a digest for each of some random deployments; `python tests/engines/vllm/test_phases.py` writes it
again, and a commit that changes it says why.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import to_builtins
from msgspec.structs import replace

from oomph import catalog, plan
from oomph.answers.plan import load as load_model
from oomph.engines.vllm.profile import activation
from oomph.engines.vllm.weights import loaded
from oomph.engines.vllm.weights.load.peak import play
from oomph.errors import OomphError

STORED = Path(__file__).parent / "phases.json"
RELEASES = ("0.21.0", "0.25.1", "0.32.0")  # with which the digests were written: a new one changes none
CARDS = ("A100 80GB", "H200", "B200", "RTX 5090", "RTX 4090", "L40S")
ROUNDS = 2  # deployments of each architecture
PARTS = 4


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


def digest(command: str, gpus: str, release: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Of all peaks of the profiling passes, and of the loads: where they stand after each place, and what takes them
    beyond so many percent of their highest point."""
    seen: list[Any] = []
    find_peaks = activation._peaks

    def listen(*arguments: Any) -> Iterator[Any]:
        for peak in find_peaks(*arguments):
            seen.append(to_builtins(peak))
            yield peak

    def watch(*arguments: Any) -> Any:
        load = play(*arguments)
        highest = load.peak.total
        seen.append([to_builtins(replace(load, records=()))])
        seen.append([to_builtins(load.first_beyond(highest * share // 100)) for share in (5, 50, 75, 90, 95, 99)])
        return load

    for function in (activation._activation, loaded._played, loaded._played_alike, loaded._weights):
        function.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(activation, "_peaks", listen)
        patch.setattr(loaded, "play", watch)
        try:
            plan(command, gpu=gpus, engine=f"vllm=={release}", advise=False)
        except OomphError:
            return ""
    return hashlib.blake2b(json.dumps(seen).encode(), digest_size=3).hexdigest() if seen else ""


@pytest.mark.parametrize("part", range(PARTS))
def test_the_phases_are_as_stored(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    stored: dict[str, str] = json.loads(STORED.read_text())
    cases = list(stored.items())[part::PARTS]
    assert len(cases) > 15
    changed = []
    for case, text in cases:
        command, gpus, release = case.split(" | ")
        if digest(command, gpus, release, monkeypatch) != text:
            changed.append(case)
    assert not changed


if __name__ == "__main__":
    with pytest.MonkeyPatch.context() as patch:
        digests = {" | ".join(case): digest(*case, patch) for case in commands()}
    rows = [f"{json.dumps(case)}: {json.dumps(text)}" for case, text in digests.items() if text]
    STORED.write_text("{\n" + ",\n".join(rows) + "\n}\n")
