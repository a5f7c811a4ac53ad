"""A report to attach: one Markdown file, or the same as JSON."""

import re

from oomph.answers.report import Bundle, without_places
from oomph.text.printable import printable
from oomph.text.redaction import session


def render(bundle: Bundle) -> str:
    parts = ["# oomph report", _table(bundle)]
    if bundle.problems:
        parts.append(_fenced("\n".join(bundle.problems)))  # they quote what was read
    if bundle.plan is not None:
        from oomph.commands import to_shell, without_secrets

        command = to_shell(without_secrets(bundle.plan.deployment))
        parts += [
            "## The command",
            _fenced(command),
            "## The plan",
            _fenced(bundle.plan.text(width=80, everything=True)),
        ]
    if bundle.explanation is not None:
        parts += ["## What the log says", _fenced(bundle.explanation.text(width=80, everything=True))]
    if bundle.log_end:
        title = f"## The last {len(bundle.log_end)} of {bundle.log_lines:,} lines of the log"
        parts += [title, _fenced("\n".join(bundle.log_end))]
    return without_places(printable(session().hide("\n\n".join(parts) + "\n")))


def _table(bundle: Bundle) -> str:
    rows = [f"| {name} | {_cell(value)} |" for name, value in bundle.versions.items()]
    rows += [f"| machine | {_cell(line)} |" for line in bundle.machine]
    return "| | |\n|---|---|\n" + "\n".join(rows)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _fenced(text: str) -> str:
    """A text that may itself hold fences: its own is longer than any run inside."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text.strip(chr(10))}\n{fence}"
