"""link.py SITE OTHER NAMES: hard-link into SITE the files of the distributions in NAMES (NAME==RELEASE, one per line)
that OTHER, a kit that is installed already, has in the same release. What neither has is named. Files that were left
out of the other kit stay left out.
"""

import os
import re
import sys
from pathlib import Path

site, other, names = Path(sys.argv[1]), Path(sys.argv[2]), set(Path(sys.argv[3]).read_text().split())


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


links = 0
for info in sorted(other.glob("*.dist-info")):
    name, _, version = info.name.removesuffix(".dist-info").rpartition("-")
    wanted = f"{canonical(name)}=={version}"
    if wanted not in names:
        continue
    names.discard(wanted)
    for line in (info / "RECORD").read_text().splitlines():
        path = line.rsplit(",", 2)[0].strip('"')
        source, target = other / path, site / path
        if path.startswith("..") or not source.is_file() or target.exists():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        os.link(source.resolve(), target) if not source.is_symlink() else target.symlink_to(source.resolve())
        links += 1
print(f"{links} files linked; not there: {' '.join(sorted(names)) or 'none'}")
