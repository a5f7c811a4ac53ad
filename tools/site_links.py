"""site_links.py FOLDER: every link between the files of a static site leads somewhere; else exit status 1."""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value for name, value in attrs if name in ("href", "src") and value]


def broken(folder: Path) -> list[str]:
    """`page -> link` for every link to a file that is not there."""
    wrong = []
    for page in sorted(folder.rglob("*.html")):
        links = Links()
        links.feed(page.read_text(encoding="utf-8"))
        for link in links.found:
            parts = urlsplit(link)
            if not parts.scheme and not parts.netloc and parts.path:
                target = page.parent / unquote(parts.path)
                if not target.exists():
                    wrong.append(f"{page.relative_to(folder)} -> {link}")
    return wrong


def main(argv: list[str]) -> int:
    wrong = broken(Path(argv[0]))
    pages = sum(1 for _ in Path(argv[0]).rglob("*.html"))
    print("\n".join([*wrong[:50], f"{argv[0]}: {pages} pages, {len(wrong)} broken links"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
