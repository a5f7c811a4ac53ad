"""The browser and the server that the tests of the page share."""

from collections.abc import Iterator
from typing import Any

import pytest
from browser import CHROMIUM, Desk, Pace, Watched

_DESK = Desk()


@pytest.fixture
def browser() -> Any:
    pytest.importorskip("playwright.sync_api")
    if not CHROMIUM:
        pytest.skip("no Chromium on this machine")
    return _DESK.browser


@pytest.fixture
def tab(browser: Any) -> Watched:
    return _DESK.tab


@pytest.fixture
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    """Of the server, which is as slow as the test's file asks."""
    Pace.seconds = getattr(request.module, "DELAY", 0.0)
    yield _DESK.address
    Pace.seconds = 0.0


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    if nextitem is None or "tab" not in getattr(nextitem, "fixturenames", ()):
        _DESK.put_away()
