"""manpages.py: docs/man, a manual page per command, from the same texts as `--help`. The wheel installs them."""

from __future__ import annotations

from pathlib import Path

import pages

from oomph.cli.table import COMMANDS

FOLDER = Path(__file__).parent.parent / "docs" / "man"


def roff(text: str) -> str:
    """Plain lines, as they are: a backslash, and a dot or quote at the beginning, would be commands."""
    lines = [line.replace("\\", "\\e").replace("-", "\\-") for line in text.splitlines()]
    return "\n".join(f"\\&{line}" if line[:1] in (".", "'") else line for line in lines)


def manual(title: str, summary: str, body: str, also: str) -> str:
    return "\n".join(
        [
            f'.TH "{title.upper()}" 1 "" "oomph" "GPU memory in LLM serving"',
            ".SH NAME",
            f"{roff(title)} \\- {roff(summary)}",
            ".SH DESCRIPTION",
            ".nf",
            roff(body),
            ".fi",
            ".SH SEE ALSO",
            also,
            "",
        ]
    )


def texts() -> dict[str, str]:
    names = pages.names()
    others = ", ".join(f"oomph\\-{name}(1)" for name in names)
    out = {"oomph": manual("oomph", "foresees and explains GPU memory in LLM serving", pages.help_text(""), others)}
    for name in names:
        title, body = f"oomph-{name}", pages.help_text(name)
        out[title] = manual(title, COMMANDS[name].rstrip("."), body, "oomph(1)")
    return {f"{title}.1": text for title, text in out.items()}


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    current = texts()
    for name, text in current.items():
        (FOLDER / name).write_text(text)
    for path in FOLDER.glob("*.1"):
        if path.name not in current:
            path.unlink()


if __name__ == "__main__":
    main()
