"""A report to attach: one Markdown file, or the same as JSON."""

import re
from typing import Any

from oomph.answers.report import Bundle, without_places
from oomph.report.contract.plan import SCHEMA
from oomph.report.explain_json import explanation_json
from oomph.report.plan_json import plan_json
from oomph.report.terminal import Style
from oomph.text.printable import printable
from oomph.text.redaction import session


def render(bundle: Bundle, style: Style, *, width: int = 100, everything: bool = False) -> str:
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


def bundle_json(bundle: Bundle) -> dict[str, Any]:
    plain: dict[str, Any] = _placeless(
        session().hide_fields(
            {
                "schema": SCHEMA,
                "versions": bundle.versions,
                "machine": list(bundle.machine),
                "plan": None if bundle.plan is None else plan_json(bundle.plan),
                "explanation": None if bundle.explanation is None else explanation_json(bundle.explanation),
                "log_end": list(bundle.log_end),
                "log_lines": bundle.log_lines,
                "problems": list(bundle.problems),
            }
        )
    )
    return plain


def _placeless(value: Any) -> Any:
    if isinstance(value, str):
        return without_places(value)
    if isinstance(value, dict):
        return {key: _placeless(inner) for key, inner in value.items()}
    return [_placeless(inner) for inner in value] if isinstance(value, list | tuple) else value
