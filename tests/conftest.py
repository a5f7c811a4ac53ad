"""Puts this folder (making.py) and tests/sources (loopback_hub.py) on the path of every test."""

import sys
from pathlib import Path

from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent / "sources"))

# a busy machine is no failure
settings.register_profile("oomph", deadline=None)
settings.load_profile("oomph")
