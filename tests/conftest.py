"""Puts this folder (making.py) and tests/sources (loopback_hub.py) on the path of every test."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "sources"))
