"""A check for other programs: JUnit XML, SARIF and the annotations of GitHub's workflows."""

import os
from collections import Counter
from importlib.metadata import version
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import escape, quoteattr

from oomph.answers.check import Check, Item, Outcome
from oomph.report.screens.check import WORDS, details
from oomph.text.printable import printable

# SARIF's level and GitHub's command for each outcome that is reported
LEVELS: dict[Outcome, tuple[str, str]] = {
    "fails": ("error", "error"),
    "unread": ("error", "error"),
    "unplanned": ("warning", "warning"),
    "close": ("warning", "warning"),
    "at_risk": ("warning", "warning"),
}
RULES: dict[Outcome, tuple[str, str]] = {
    "fails": ("WillNotStart", "The server runs out of GPU memory, or the engine refuses to start."),
    "unread": ("NotRead", "The deployment cannot be read."),
    "unplanned": ("NotPlanned", "Something that the plan needs is not known."),
    "close": ("TooCloseToCall", "The room that is left is smaller than what is known of the memory it takes."),
    "at_risk": ("AtRisk", "The server starts, and a load that it admits breaks it afterwards."),
}
_FOLDER = ("FolderLikeTheHub", "A folder of the repository is called like a model of the hub.")
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif(check: Check) -> dict[str, Any]:
    """SARIF 2.1.0 (OASIS): one run, a result for every deployment that does not fit."""
    rules = list(RULES)
    driver = {
        "name": "oomph",
        "version": version("oomph"),
        "rules": [
            {"id": identifier, "name": identifier, "shortDescription": {"text": text},
             "defaultConfiguration": {"level": LEVELS[outcome][0]}}
            for outcome, (identifier, text) in RULES.items()
        ] + [{"id": _FOLDER[0], "name": _FOLDER[0], "shortDescription": {"text": _FOLDER[1]}}],
    }  # fmt: skip
    results = [
        {
            "ruleId": RULES[item.outcome][0],
            "ruleIndex": rules.index(item.outcome),
            "level": LEVELS[item.outcome][0],
            "message": {"text": sentence(item)},
            "locations": [_location(item)],
            "partialFingerprints": {"deployment/v1": f"{uri(item.file)}#{item.name}"},
        }
        for item in check.items
        if item.outcome != "fits"
    ]
    results += [
        {
            "ruleId": _FOLDER[0],
            "level": "warning",
            "message": {"text": printable(item.warning)},
            "locations": [_location(item)],
        }
        for item in check.items
        if item.warning
    ]
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}


def _location(item: Item) -> dict[str, Any]:
    place = {"artifactLocation": {"uri": uri(item.file)}, "region": {"startLine": max(1, item.line)}}
    return {"physicalLocation": place}


def uri(path: str) -> str:
    """Relative to where the check ran, as a reader of the repository names it."""
    relative = os.path.relpath(path) if path else "stdin"
    return quote((path if relative.startswith("..") else relative).replace(os.sep, "/"))


def sentence(item: Item) -> str:
    """ "chat: will not start: out of memory while loading the weights: 38.1 GiB short"."""
    name = f"{item.name}: " if item.name else ""
    model = f" ({item.plan.model})" if item.plan is not None else ""
    return printable(f"{name}{WORDS[item.outcome][0].lower()}{model}: {details(item)}")


def github(check: Check) -> str:
    """Workflow commands: one annotation for each deployment that does not fit."""
    lines = []
    for item in check.items:
        place = f"file={_property(os.path.relpath(item.file) if item.file else '')},line={max(1, item.line)}"
        if item.warning:
            lines.append(f"::warning {place},title={_property('oomph: a folder')}::{_data(printable(item.warning))}")
        if item.outcome == "fits":
            continue
        title = _property(f"oomph: {WORDS[item.outcome][0].lower()}")
        lines.append(f"::{LEVELS[item.outcome][1]} {place},title={title}::{_data(sentence(item))}")
    return "".join(line + "\n" for line in lines)


def _data(text: str) -> str:
    """escapeData of actions/toolkit (packages/core/src/command.ts); older commands count anywhere in a line."""
    return text.replace("##[", "## [").replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    """The same file, escapeProperty."""
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def junit(check: Check) -> str:
    """JUnit XML as Jenkins reads it (junit-10.xsd): a suite for each file, a case for each deployment."""
    suites = []
    for file in dict.fromkeys(item.file for item in check.items):
        cases = [item for item in check.items if item.file == file]
        suites.append(_suite(file, cases))
    counts = Counter(_kind(item) for item in check.items)
    totals = f'tests="{len(check.items)}" failures="{counts["failure"]}" errors="{counts["error"]}"'
    head = '<?xml version="1.0" encoding="UTF-8"?>\n'
    return f'{head}<testsuites name="oomph check" {totals}>\n{"".join(suites)}</testsuites>\n'


def _suite(file: str, items: list[Item]) -> str:
    counts = Counter(_kind(item) for item in items)
    totals = f'tests="{len(items)}" failures="{counts["failure"]}" errors="{counts["error"]}" skipped="0" time="0"'
    cases = "".join(_case(item) for item in items)
    return f"  <testsuite name={_attribute(file)} {totals}>\n{cases}  </testsuite>\n"


def _case(item: Item) -> str:
    head = f'    <testcase classname={_attribute(item.file)} name={_attribute(item.name or "file")} time="0"'
    text = sentence(item)
    if (kind := _kind(item)) == "pass":
        return f"{head}>\n      <system-out>{_xml(text)}</system-out>\n    </testcase>\n"
    body = f"<{kind} type={_attribute(RULES[item.outcome][0])} message={_attribute(text)}>{_xml(text)}</{kind}>"
    return f"{head}>\n      {body}\n    </testcase>\n"


def _kind(item: Item) -> str:
    """A deployment that was judged is a failure, one that could not be is an error."""
    if item.outcome == "fits":
        return "pass"
    return "error" if item.plan is None else "failure"


def _xml(text: str) -> str:
    return escape(printable(text))


def _attribute(text: str) -> str:
    return quoteattr(printable(text))
