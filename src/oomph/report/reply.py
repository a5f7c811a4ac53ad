"""The verdict of a plan in Markdown, for a reply in an issue or a chat."""

from oomph.commands import to_shell, without_secrets
from oomph.ir import Plan
from oomph.report.screens.advice import gives
from oomph.report.screens.plan import heading, verdict


def reply(plan: Plan) -> str:
    head, outcome = heading(plan), verdict(plan)
    lines = [
        f"**{head.title}: {outcome.word}**, {outcome.says}.", "", f"{', '.join(part for part in head.about if part)}",
        "", *_code(to_shell(without_secrets(plan.deployment))),
    ]  # fmt: skip
    if plan.advice is not None and plan.advice.fixes:
        fix = plan.advice.fixes[0]
        lines += ["", f"What works: `{fix.change.label}` ({gives(fix)})", "", *_code(fix.command)]
    return "\n".join((*lines, "", "Foreseen by oomph."))


def _code(command: str) -> list[str]:
    return ["```sh", command.replace("```", "'''"), "```"]
