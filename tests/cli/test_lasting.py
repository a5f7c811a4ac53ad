"""Commands that go on for days collect their cycles as often as Python does by itself."""

import gc
from collections.abc import Iterator

import pytest

from oomph.cli.main import main


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def test_the_page_collects_often(monkeypatch: pytest.MonkeyPatch) -> None:
    import oomph.web.server as server

    thresholds: list[int] = []
    monkeypatch.setattr(server, "serve", lambda *_, **__: thresholds.append(gc.get_threshold()[0]))
    with pytest.raises(SystemExit):
        main(["ui", "--no-browser"])
    assert thresholds == [700]


def test_a_short_command_waits() -> None:
    with pytest.raises(SystemExit):
        main(["--version"])
    assert gc.get_threshold()[0] > 100_000
