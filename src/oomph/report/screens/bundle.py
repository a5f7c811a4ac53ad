"""A report to attach: one Markdown file, or the same as JSON."""

from typing import Any

from oomph.answers.report import Bundle, without_places
from oomph.report.contract.plan import SCHEMA
from oomph.report.explain_json import explanation_json
from oomph.report.plan_json import plan_json
from oomph.report.terminal import Style
from oomph.text.redaction import Secrets


def render(bundle: Bundle, style: Style, *, width: int = 100, everything: bool = False) -> str:
    parts = ["# oomph report", _table(bundle)]
    if bundle.problems:
        parts.append("\n".join(f"- {problem}" for problem in bundle.problems))
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
    return without_places(Secrets().hide("\n\n".join(parts) + "\n"))


def _table(bundle: Bundle) -> str:
    rows = [f"| {name} | {value} |" for name, value in bundle.versions.items()]
    rows += [f"| machine | {line} |" for line in bundle.machine]
    return "| | |\n|---|---|\n" + "\n".join(rows)


def _fenced(text: str) -> str:
    """A text that may itself hold fences."""
    fence = "````" if "```" in text else "```"
    return f"{fence}text\n{text.strip(chr(10))}\n{fence}"


def bundle_json(bundle: Bundle) -> dict[str, Any]:
    plain: dict[str, Any] = _clean(
        {
            "schema": SCHEMA,
            "versions": bundle.versions,
            "machine": list(bundle.machine),
            "plan": None if bundle.plan is None else plan_json(bundle.plan),
            "explanation": None if bundle.explanation is None else explanation_json(bundle.explanation),
            "log_end": list(bundle.log_end),
            "log_lines": bundle.log_lines,
            "problems": list(bundle.problems),
        },
        Secrets(),
    )
    return plain


def _clean(value: Any, secrets: Secrets) -> Any:
    if isinstance(value, str):
        return without_places(secrets.hide(value))
    if isinstance(value, dict):
        return {key: _clean(inner, secrets) for key, inner in value.items()}
    return [_clean(inner, secrets) for inner in value] if isinstance(value, list | tuple) else value
