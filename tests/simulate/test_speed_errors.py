"""The errors on the screens are those of the published speeds that were predicted once."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from oomph.facts.gpus import find
from oomph.simulate import accuracy
from oomph.simulate.accuracy import ERRORS, SGLANG_DENSE, SGLANG_EXPERTS, Layout, SpeedError, taken_over
from oomph.simulate.links import all_reduce, layout_of, link_of

TRUTH = Path(__file__).parent.parent / "truth"
SGLANG: dict[tuple[bool, Layout], SpeedError] = {(False, "one"): SGLANG_DENSE, (True, "one"): SGLANG_EXPERTS}
LOCAL: dict[tuple[bool, Layout], SpeedError] = {
    (False, "one"): accuracy.LLAMACPP_DENSE,
    (True, "one"): accuracy.LLAMACPP_EXPERTS,
}
JUDGED = [
    *(("speeds-second.jsonl", kind, error) for kind, error in ERRORS.items()),
    *(("speeds-sglang.jsonl", kind, error) for kind, error in SGLANG.items()),
    *(("speeds-local.jsonl", kind, error) for kind, error in LOCAL.items()),
]


def judged(file: str) -> list[dict[str, object]]:
    rows = [msgspec.json.decode(line) for line in (TRUTH / file).read_bytes().splitlines()]
    return [row for row in rows if row["half"] == "judged" and row.get("round")]


def row_kind(row: dict[str, object]) -> tuple[bool, Layout]:
    count, _, card = str(row["gpu"]).partition("x ")
    several = count.isdigit()
    return row["kind"] == "experts", layout_of(card if several else str(row["gpu"]), int(count) if several else 1)


@pytest.mark.parametrize(("file", "kind", "error"), JUDGED, ids=lambda value: str(value)[:30])
def test_every_kind_states_what_was_judged(file: str, kind: tuple[bool, Layout], error: SpeedError) -> None:
    rows = [row for row in judged(file) if row_kind(row) == kind]
    off = [max(float(str(r)), 1 / float(str(r))) for row in rows if (r := row.get("speed_ratio"))]
    first = [max(float(str(r)), 1 / float(str(r))) for row in rows if (r := row.get("first_token_ratio"))]
    assert (error.numbers, error.near, error.close) == (
        len(off),
        sum(x <= 1.3 for x in off),
        sum(x <= 1.9 for x in off),
    )
    assert (error.first_tokens, error.first_near) == (len(first), sum(x <= 2 for x in first))
    if len(off) >= 10:
        assert sorted(off)[-(len(off) // 10) - 1] == pytest.approx(error.nine_of_ten, abs=0.011)


def test_a_kind_of_which_little_is_known_is_called_rough() -> None:
    assert "rough" in ERRORS[False, "pcie"].sentence() and "rough" not in ERRORS[False, "one"].sentence()
    assert "rough" in SpeedError("models", 9, 2, 4, 5.0, 0, 0).sentence()
    assert (
        "of 9 published speeds of models none was within 1.3 times"
        in SpeedError("models", 9, 0, 8, 2.0, 0, 0).sentence()
    )
    assert "no published speed" in taken_over(True, "nvlink").sentence()


def test_a_geforce_reduces_through_the_host() -> None:
    kinds = {
        name: link_of(find(name)).kind for name in ("RTX 4090", "RTX 3090", "L40S", "A100 PCIe 80GB", "H100", "H200")
    }
    assert kinds == {
        "RTX 4090": "host", "RTX 3090": "host", "L40S": "peers", "A100 PCIe 80GB": "peers", "H100": "nvlink",
        "H200": "nvlink",
    }  # fmt: skip
    slow, fast = all_reduce(find("RTX 4090"), 2), all_reduce(find("L40S"), 2)
    assert slow.call > fast.call and slow.byte > 5 * fast.byte and slow.large_byte < slow.byte
    assert all_reduce(find("RTX 4090"), 1).call == 0 and all_reduce(find("RTX 4090"), 8).call > slow.call
    assert (layout_of("RTX 4090", 2), layout_of("H100", 8), layout_of("H100", 1)) == ("pcie", "nvlink", "one")
    assert layout_of("no such card", 2) == "pcie"
