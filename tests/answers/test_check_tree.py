"""`oomph check` on a repository of 40 files of nine kinds: every verdict, every format, what it costs."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest

from oomph.answers.check import Check, check
from oomph.answers.plan import plan
from oomph.cli.main import main
from oomph.report import check_formats

TREE = Path(__file__).parent / "tree"
EXPECTED: dict[str, dict[str, str]] = json.loads((Path(__file__).parent / "expected.json").read_text())


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(TREE)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture(name="answer", scope="module")
def make_answer() -> Check:
    before = os.getcwd()
    os.chdir(TREE)
    try:
        return check(["."], gpu="RTX 4090")
    finally:
        os.chdir(before)


def call(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as done:
        main(["check", "--gpu", "RTX 4090", *args])
    return int(done.value.code or 0), capsys.readouterr().out


def test_the_tree_is_what_it_should_be() -> None:
    files = {str(path.relative_to(TREE)) for path in TREE.rglob("*") if path.is_file()}
    assert len(files) == 40 and files == set(EXPECTED)
    kinds = {re.split(r"/|(?<=github)", name)[0] for name in files}
    assert len(kinds) >= 9


def test_every_verdict(answer: Check) -> None:
    verdicts: dict[str, dict[str, str]] = {name: {} for name in EXPECTED}
    for item in answer.items:
        verdicts[item.file][item.name] = item.outcome
    assert verdicts == EXPECTED


def test_the_worst_decides_and_the_rest_can_be_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(capsys, ".")[0] == 1
    assert call(capsys, "compose/chat.yaml", "k8s/service.yaml")[0] == 0
    assert call(capsys, "compose/unset.yaml")[0] == 2
    assert call(capsys, "--allow-unplanned", "compose/unset.yaml", "k8s/ollama.yaml")[0] == 0
    assert call(capsys, "k8s/ollama.yaml")[0] == 3
    assert call(capsys, "--margin", "5GiB", "compose/chat.yaml")[0] == 4


def test_an_excluded_folder_is_not_walked() -> None:
    files = {item.file for item in check(["."], gpu="RTX 4090", exclude=["helm", "k8s/*", "*.sh"]).items}
    assert not any(name.startswith(("helm/", "k8s/")) or name.endswith(".sh") for name in files)
    assert "compose/chat.yaml" in files and "scripts/train.slurm" in files


def test_a_file_that_says_so_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "start.sh").write_text("# oomph: ignore\nvllm serve Qwen/Qwen3-32B\n")
    assert check([str(tmp_path)], gpu="RTX 4090").items == ()


def test_a_path_that_is_not_there_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as done:
        main(["check", "nowhere/"])
    assert done.value.code == 2 and "'nowhere/' is not there" in capsys.readouterr().err


def test_nothing_to_check_is_no_failure(capsys: pytest.CaptureFixture[str]) -> None:
    code, out = call(capsys, "k8s/service.yaml")
    assert code == 0 and "no deployment" in out


def test_the_table_fits_a_screen(capsys: pytest.CaptureFixture[str]) -> None:
    _, out = call(capsys, ".")
    assert "26 of 41 deployments fit" in out
    assert max(map(len, out.splitlines())) <= 110


def test_json_lists_every_deployment(capsys: pytest.CaptureFixture[str]) -> None:
    code, out = call(capsys, "--format", "json", "compose", "systemd")
    body = json.loads(out)
    assert code == body["exit_code"] == 1 and body["outcome"] == "fails"
    names = {(one["file"], one["name"]): one["outcome"] for one in body["deployments"]}
    assert names[("compose/two.yaml", "large")] == "fails" and names[("systemd/vllm.service", "1")] == "fits"
    assert all(("error" in one) != ("verdict" in one) for one in body["deployments"])


def test_the_tree_is_planned_once_and_without_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a repository costs, counted: `tools/cpu.py` measures the time."""
    advised = []

    def counted(*arguments: Any, advise: bool, **named: Any) -> Any:
        advised.append(advise)
        return plan(*arguments, advise=advise, **named)

    monkeypatch.setattr("oomph.answers.check.plan", counted)
    answer = check(["."], gpu="RTX 4090")
    assert 0 < len(advised) <= len(answer.items) and not any(advised)


# ---- JUnit: the rules of Jenkins' junit-10.xsd (jenkinsci/xunit-plugin), written out ---------------------------------

JUNIT_ATTRIBUTES = {
    "testsuites": ({"name", "time", "tests", "failures", "disabled", "errors"}, set()),
    "testsuite": (
        {"name", "tests", "failures", "errors", "group", "time", "skipped", "timestamp", "hostname", "id", "package",
         "file", "log", "url", "version"},
        {"name", "tests", "failures", "errors"},
    ),
    "testcase": (
        {"name", "assertions", "time", "classname", "status", "class", "file", "line", "log", "group", "url"},
        {"name"},
    ),
    "failure": ({"type", "message"}, set()),
    "error": ({"type", "message"}, set()),
    "system-out": (set(), set()),
}  # fmt: skip
JUNIT_CHILDREN = {
    "testsuites": {"testsuite"},
    "testsuite": {"testsuite", "properties", "testcase", "system-out", "system-err"},
    "testcase": {"skipped", "error", "failure", "rerunFailure", "rerunError", "flakyFailure", "flakyError",
                 "system-out", "system-err"},
    "failure": set(), "error": set(), "system-out": set(),
}  # fmt: skip


def junit_faults(node: ElementTree.Element) -> list[str]:
    allowed, required = JUNIT_ATTRIBUTES[node.tag]
    faults = [f"{node.tag} has {name}" for name in set(node.attrib) - allowed]
    faults += [f"{node.tag} lacks {name}" for name in required - set(node.attrib)]
    faults += [f"{node.tag} holds {child.tag}" for child in node if child.tag not in JUNIT_CHILDREN[node.tag]]
    for name in {"tests", "failures", "errors", "skipped"} & set(node.attrib):
        faults += [] if node.attrib[name].isdigit() else [f"{name} is {node.attrib[name]}"]
    return [*faults, *(fault for child in node if child.tag in JUNIT_ATTRIBUTES for fault in junit_faults(child))]


def test_junit(answer: Check) -> None:
    root = ElementTree.fromstring(check_formats.junit(answer))
    assert junit_faults(root) == []
    cases = root.findall(".//testcase")
    assert len(cases) == len(answer.items)
    assert len(root.findall(".//failure")) == sum(item.outcome in ("fails", "close") for item in answer.items)
    assert len(root.findall(".//error")) == sum(item.plan is None for item in answer.items)
    for suite in root:
        assert int(suite.attrib["tests"]) == len(suite.findall("testcase"))
        assert int(suite.attrib["failures"]) == len(suite.findall("testcase/failure"))


def test_junit_of_names_that_are_no_xml(tmp_path: Path) -> None:
    name = 'a"<b>&\x01'
    (tmp_path / "compose.yaml").write_text(
        f"services:\n  {json.dumps(name)}:\n    image: vllm/vllm-openai\n    command: --model Qwen/Qwen3-8B\n"
    )
    found = check([str(tmp_path)], gpu="RTX 4090")
    root = ElementTree.fromstring(check_formats.junit(found))
    assert junit_faults(root) == [] and len(root.findall(".//testcase")) == 1


# ---- SARIF: the rules of OASIS' sarif-schema-2.1.0.json for the objects that we write ------------------------------

TEXT = {"type": "string"}
MESSAGE = {"type": "object", "required": ["text"], "properties": {"text": TEXT}, "additionalProperties": False}
LEVEL = {"enum": ["none", "note", "warning", "error"]}


def record(required: list[str], **properties: object) -> dict[str, object]:
    return {"type": "object", "required": required, "properties": properties, "additionalProperties": False}


def many(items: object, **more: object) -> dict[str, object]:
    return {"type": "array", "items": items, **more}


RULE = record(
    ["id"], id=TEXT, name=TEXT, shortDescription=MESSAGE, fullDescription=MESSAGE, help=MESSAGE,
    defaultConfiguration=record([], level=LEVEL),
)  # fmt: skip
DRIVER = record(["name"], name=TEXT, version=TEXT, informationUri=TEXT, rules=many(RULE, uniqueItems=True))
PLACE = record(
    [],
    artifactLocation=record([], uri={"type": "string", "pattern": r"^[A-Za-z0-9._~%!$&'()*+,;=:@/-]+$"}),
    region=record([], startLine={"type": "integer", "minimum": 1}),
)
RESULT = record(
    ["message"], ruleId=TEXT, ruleIndex={"type": "integer", "minimum": -1}, level=LEVEL, message=MESSAGE,
    locations=many(record([], physicalLocation=PLACE)),
    partialFingerprints={"type": "object", "additionalProperties": TEXT},
)  # fmt: skip
RUN = record(["tool"], tool=record(["driver"], driver=DRIVER), results=many(RESULT))
SARIF = {
    "type": "object",
    "required": ["version", "runs"],
    "properties": {"$schema": TEXT, "version": {"enum": ["2.1.0"]}, "runs": many(RUN)},
    "additionalProperties": False,
}


def test_sarif(answer: Check) -> None:
    body = json.loads(json.dumps(check_formats.sarif(answer)))
    jsonschema.Draft7Validator.check_schema(SARIF)
    jsonschema.validate(body, SARIF)
    (run,) = body["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert len(run["results"]) == sum(item.outcome != "fits" for item in answer.items)
    for result in run["results"]:
        assert rules[result["ruleIndex"]] == result["ruleId"]
        place = result["locations"][0]["physicalLocation"]
        lines = (TREE / place["artifactLocation"]["uri"]).read_text().splitlines()
        assert place["region"]["startLine"] <= len(lines)
    prints = [json.dumps(result["partialFingerprints"]) for result in run["results"]]
    assert len(set(prints)) == len(prints)


# ---- GitHub ----------------------------------------------------------------------------------------------------------


def test_github_annotations(answer: Check) -> None:
    lines = check_formats.github(answer).splitlines()
    assert len(lines) == sum(item.outcome != "fits" for item in answer.items)
    pattern = re.compile(r"::(?:error|warning) file=([^,]+),line=(\d+),title=[^,:]+::(.+)")
    for line in lines:
        match = pattern.fullmatch(line)
        assert match is not None and (TREE / match[1]).is_file()
        assert 1 <= int(match[2]) <= len((TREE / match[1]).read_text().splitlines())


def test_an_annotation_points_at_the_line_of_its_deployment(answer: Check) -> None:
    item = next(item for item in answer.items if item.name == "large" and item.file == "compose/two.yaml")
    assert "Qwen/Qwen3-32B" in (TREE / item.file).read_text().splitlines()[item.line - 1]
