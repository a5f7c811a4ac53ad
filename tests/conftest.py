"""Puts this folder (making.py), tests/sources (loopback_hub.py) and tools/ on the path of every test."""

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent / "sources"))
sys.path.append(str(Path(__file__).parents[1] / "tools"))

# no test asks the network; those that have a hub of their own on the loopback say so
os.environ["HF_HUB_OFFLINE"] = "1"

# The collector of cycles looks at every object of every module and stored answer again and again: a quarter of the CPU
# of a run. It waits for more of them, as it does in a command (cli/main.py), and leaves out what collecting has made.
gc.set_threshold(200_000)

# A busy machine is no failure. `make test` draws the same examples each time, so that a failure belongs to the change
# under test; OOMPH_RANDOM=1 (`make long`) draws new ones.
settings.register_profile("oomph", deadline=None, derandomize=not os.environ.get("OOMPH_RANDOM"))
settings.load_profile("oomph")


@pytest.fixture(autouse=True)
def same_environment() -> Iterator[None]:
    """A test leaves the variables as they were: the servers that later tests start get them."""
    before = dict(os.environ)
    yield
    if dict(os.environ) != before:
        os.environ.clear()
        os.environ.update(before)


def pytest_collection_finish() -> None:
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that need a browser (tests/web/conftest.py) are first, so that one process has them and starts one: another
    that has nothing left to do takes the last of a list."""
    items.sort(key=lambda item: "tab" not in getattr(item, "fixturenames", ()))
