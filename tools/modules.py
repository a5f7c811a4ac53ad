"""Writes docs/modules.md: a line per module, the first sentence of its docstring."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "modules.md"
HEAD = "# A line per module\n\nMade by `tools/modules.py` from the first sentence of each file's docstring.\n"


def sentence(path: Path) -> str:
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    first = " ".join(text.split("\n\n")[0].split())
    return re.split(r"(?<=[a-z)`])\. ", first)[0].rstrip(".").replace("|", "\\|")


def page() -> str:
    source = ROOT / "src" / "oomph"
    lines = [HEAD]
    for folder in sorted({p.parent for p in source.rglob("*.py")}):
        name = folder.relative_to(source).as_posix()
        lines += [f"\n## {'oomph' if name == '.' else name + '/'}\n", "| file | what it is |", "|---|---|"]
        for path in sorted(folder.glob("*.py")):
            said = sentence(path)
            if said:
                lines.append(f"| `{path.name}` | {said} |")
        if lines[-1] == "|---|---|":
            del lines[-3:]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
    print(f"{PAGE.relative_to(ROOT)}: {page().count('| `')} modules")
