"""The answer to an opened issue: only where the evidence asserts the stage, short, and without calling anybody."""

import importlib.util
import json
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".github" / "actions" / "answer"
FIXTURES = ROOT / "tests" / "doctor" / "fixtures"
spec = importlib.util.spec_from_file_location("answer", FOLDER / "answer.py")
assert spec is not None and spec.loader is not None
answer = importlib.util.module_from_spec(spec)
spec.loader.exec_module(answer)


@pytest.mark.parametrize("name", ["K02", "P05"])
def test_a_log_that_says_it_is_answered(name: str) -> None:
    text = answer.comment("it does not start", (FIXTURES / f"{name}.log").read_text())
    assert name in text and "Read from these lines:" in text and len(text) < 3000


SILENT = (
    "I get an out of memory error when I start vLLM on my 4090, please help",
    "Feature request: support for my favourite model",
    "INFO 11-18 08:56:09 [gpu_worker.py:100] Model loading took 15.27 GiB",
    "",
)


@pytest.mark.parametrize("body", SILENT)
def test_a_claim_a_wish_and_a_log_without_an_error_are_not_answered(body: str) -> None:
    assert answer.comment("question", body) == ""


def test_nobody_is_called_and_no_secret_is_repeated(tmp_path: Path) -> None:
    log = (
        (FIXTURES / "K02.log")
        .read_text()
        .replace("ValueError:", "ValueError: cc @alice #12 HF_TOKEN=hf_abcdefABCDEF0123456789")
    )
    event = tmp_path / "event.json"
    event.write_text(json.dumps({"action": "opened", "issue": {"title": "K02", "body": log}}))
    assert answer.main([str(event), str(tmp_path / "comment.md")]) == 0
    text = (tmp_path / "comment.md").read_text()
    assert "K02" in text and "@alice" not in text and "#12" not in text and "hf_abcdef" not in text


def test_it_is_off_until_somebody_turns_it_on() -> None:
    action = yaml.safe_load((FOLDER / "action.yml").read_text())
    assert action["inputs"]["enabled"]["default"] == "false"
    assert all("inputs.enabled == 'true'" in step["if"] for step in action["runs"]["steps"])
    assert all("${{ github.event.issue.body" not in str(step) for step in action["runs"]["steps"])
