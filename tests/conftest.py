"""Puts this folder (making.py) and tests/sources (loopback_hub.py) on the path of every test."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent / "sources"))

# no test asks the network; those that have a hub of their own on the loopback say so
os.environ["HF_HUB_OFFLINE"] = "1"

# a busy machine is no failure
settings.register_profile("oomph", deadline=None)
settings.load_profile("oomph")


@pytest.fixture(autouse=True)
def same_environment() -> Iterator[None]:
    """A test leaves the variables as they were: the servers that later tests start get them."""
    before = dict(os.environ)
    yield
    if dict(os.environ) != before:
        os.environ.clear()
        os.environ.update(before)
