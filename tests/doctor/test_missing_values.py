"""A line that is recognised may lack any of its figures (cut, or no number after all): no rule may fall over that."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from msgspec.structs import replace

from oomph.doctor.explain import explain_case
from oomph.doctor.reading.new_case import build_case
from oomph.logs.clean import lines
from oomph.logs.parse import observe
from oomph.logs.reader import read_paths

FIXTURES = sorted((Path(__file__).parent / "fixtures").glob("*.log"))


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda path: path.stem)
def test_explains_whatever_is_missing(fixture: Path) -> None:
    chosen = random.Random(fixture.stem)
    cleaned = lines(read_paths([str(fixture)]).lines)
    observations = observe(cleaned)
    for keep in (0.0, 0.3, 0.6, 0.8):
        poorer = tuple(
            replace(o, values={name: value for name, value in o.values.items() if chosen.random() < keep})
            for o in observations
        )
        assert explain_case(build_case(cleaned, poorer)).text()
