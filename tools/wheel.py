"""Build the wheel twice, in two folders, and compare: the same source gives the same bytes.

    python tools/wheel.py [FOLDER]

The wheel is left in FOLDER (dist by default). Needs the package hatchling.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
EPOCH = "1577836800"  # 2020-01-01: the time of every file in the wheel


def build(folder: Path) -> Path:
    """The wheel of a fresh copy of the source."""
    copy = folder / "source"
    skipped = shutil.ignore_patterns(".git", ".venv", "__pycache__", "*.egg-info", ".*_cache", ".hypothesis", "dist")
    shutil.copytree(ROOT, copy, ignore=skipped)
    environment = {**os.environ, "SOURCE_DATE_EPOCH": EPOCH, "PYTHONHASHSEED": str(len(str(folder)))}
    words = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder / "wheel")]
    subprocess.run(words, cwd=copy, env=environment, check=True, stdout=subprocess.DEVNULL)
    return next((folder / "wheel").glob("*.whl"))


def main() -> int:
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "dist")
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory(suffix="-two") as second:
        wheels = build(Path(first)), build(Path(second))
        hashes = [hashlib.sha256(wheel.read_bytes()).hexdigest() for wheel in wheels]
        if hashes[0] != hashes[1]:
            print(f"two builds of the same source differ: {hashes[0]} and {hashes[1]}", file=sys.stderr)
            return 1
        target.mkdir(exist_ok=True)
        shutil.copy(wheels[0], target)
        print(f"{target / wheels[0].name} sha256:{hashes[0]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
