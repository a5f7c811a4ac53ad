"""answer.py EVENT OUTPUT: one short comment for an opened issue, or an empty file.

It speaks only where the log asserts what happened: a message of the engine, a traceback, an exit status, or the plan of
the command (`stage_basis` of `oomph explain`). A claim, the last line of a log and a guess are no reason to write to
people. What it read stands in the comment, without secrets and without calling anybody by name.
"""

import json
import re
import sys
from pathlib import Path

import oomph
from oomph.answers.report import without_places
from oomph.errors import OomphError
from oomph.text.redaction import hide_secrets

ASSERTED = ("message", "traceback", "status", "plan")
LONGEST = 200_000  # characters of an issue that are read
MOST_REMEDIES, MOST_LINES, LONGEST_LINE = 3, 3, 300


def comment(title: str, body: str) -> str:
    """Markdown, or nothing."""
    try:
        explanation = oomph.explain(f"{title}\n\n{body}"[:LONGEST])
    except OomphError:
        return ""
    if not explanation.failed or explanation.stage_basis not in ASSERTED or not explanation.cause.id:
        return ""
    answer = explanation.to_dict()
    cause = answer["cause"]
    lines = [f"**{cause['title']}** (stage: `{answer['stage']}`)", "", cause["text"], ""]
    for remedy in answer["remedies"][:MOST_REMEDIES]:
        planned = "planned, it fits" if remedy["verified"] else "not planned"
        cost = f"; {remedy['costs']}" if remedy["costs"] else ""
        lines.append(f"- `{remedy['change']}` ({planned}{cost})")
    lines += ["", "Read from these lines:", ""]
    lines += [f"> `{_inline(line['text'])}`" for line in answer["evidence"][:MOST_LINES]]
    lines += ["", f"<sub>`oomph explain`, diagnosis {cause['id']}; an automatic answer, which may be wrong.</sub>", ""]
    return _harmless("\n".join(lines))


def _inline(text: str) -> str:
    return re.sub(r"[`\r\n]", " ", text)[:LONGEST_LINE]


def _harmless(text: str) -> str:
    """No secret, no home folder, nobody and no other issue is called."""
    return re.sub(r"([@#])(?=\w)", "\\1\u200b", without_places(hide_secrets(text)))


def main(argv: list[str]) -> int:
    issue = json.loads(Path(argv[0]).read_text(encoding="utf-8")).get("issue", {})
    text = comment(str(issue.get("title") or ""), str(issue.get("body") or ""))
    Path(argv[1]).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
