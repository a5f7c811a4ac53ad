"""Build the wheel and the source archive twice, in two folders, and compare: the same source gives the same bytes.

    python tools/wheel.py [FOLDER]

Both are left in FOLDER (dist by default). Needs the package hatchling.
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
EPOCH = "1577836800"  # 2020-01-01: the time of every file in them


def build(folder: Path) -> list[Path]:
    """The wheel and the source archive of a fresh copy of the source."""
    copy = folder / "source"
    skipped = shutil.ignore_patterns(".git", ".venv", "__pycache__", "*.egg-info", ".*_cache", ".hypothesis", "dist")
    shutil.copytree(ROOT, copy, ignore=skipped)
    environment = {**os.environ, "SOURCE_DATE_EPOCH": EPOCH, "PYTHONHASHSEED": str(len(str(folder)))}
    words = [sys.executable, "-m", "hatchling", "build", "-d", str(folder / "built")]
    subprocess.run(words, cwd=copy, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return sorted((folder / "built").iterdir())


def main() -> int:
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "dist")
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory(suffix="-two") as second:
        target.mkdir(exist_ok=True)
        for one, other in zip(build(Path(first)), build(Path(second)), strict=True):
            digests = {hashlib.sha256(path.read_bytes()).hexdigest() for path in (one, other)}
            if len(digests) > 1:
                print(f"two builds of the same source differ: {one.name}", file=sys.stderr)
                return 1
            shutil.copy(one, target)
            print(f"{target / one.name} sha256:{digests.pop()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
