"""Known vulnerabilities of what oomph is developed with (requirements-dev.lock), where their list can be had.

    python tools/audit.py

Ends with 1 if there are any, and with 0 if there are none or if nobody can be asked: a machine without a network must
not fail for it. Needs the package pip-audit.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

LOCK = Path(__file__).parent.parent / "requirements-dev.lock"
SECONDS = 180


def audit(lock: Path) -> list[str] | None:
    """A line for each vulnerability; None where the question was not answered."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder, "audit.json")
        words = [sys.executable, "-m", "pip_audit", "--requirement", str(lock), "--disable-pip", "--require-hashes"]
        words += ["--progress-spinner", "off", "--timeout", "15", "--format", "json", "--output", str(answer)]
        try:
            subprocess.run(words, capture_output=True, timeout=SECONDS, check=False)
            found = json.loads(answer.read_bytes())
        except (OSError, ValueError, subprocess.TimeoutExpired):
            return None
    asked = [package for package in found["dependencies"] if "skip_reason" not in package]
    if not asked:
        return None
    return [
        f"{package['name']} {package['version']}: {entry['id']}, fixed in {', '.join(entry['fix_versions']) or 'none'}"
        for package in asked
        for entry in package["vulns"]
    ]


def main() -> int:
    found = audit(LOCK)
    if found is None:
        print("not audited: the list of vulnerabilities cannot be had here")
        return 0
    print("\n".join(found) or "no known vulnerability")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
