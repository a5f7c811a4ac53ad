"""The pre-commit hook, the GitHub Action and the programs of docs/check.md, run on the example tree."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from oomph.commands.repository import may_hold

ROOT = Path(__file__).parents[2]
TREE = Path(__file__).parent / "tree"
MANUAL = (ROOT / "docs" / "check.md").read_text()
ENVIRONMENT = {**os.environ, "HF_HUB_OFFLINE": "1"}


@pytest.fixture(name="programs")
def make_programs(tmp_path: Path) -> Path:
    """A folder with `oomph` in it, as an installation has one."""
    script = tmp_path / "bin" / "oomph"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m oomph "$@"\n')
    script.chmod(0o755)
    return script.parent


def run_action(programs: Path, tmp_path: Path, **inputs: str) -> tuple[int, str, str]:
    """The script of the action's last step, with its inputs as GitHub hands them over."""
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    step = action["runs"]["steps"][-1]
    values = {name: str(row["default"]) for name, row in action["inputs"].items()} | inputs
    variables = {
        name: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda match: values[match[1]], text)
        for name, text in step["env"].items()
    }
    output = tmp_path / "output"
    output.touch()
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", step["run"]],
        env={**ENVIRONMENT, **variables, "PATH": path, "GITHUB_OUTPUT": str(output)},
        cwd=TREE, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr, output.read_text()


def test_the_action_fails_with_the_worst(programs: Path, tmp_path: Path) -> None:
    sarif = tmp_path / "oomph.sarif"
    code, text, output = run_action(programs, tmp_path, gpu="RTX 4090", sarif=str(sarif))
    assert code == 1 and output == "exit-code=1\n"
    assert "::error file=compose/two.yaml" in text and "deployments fit" in text
    assert '"version": "2.1.0"' in sarif.read_text()


def test_the_action_takes_paths_and_patterns(programs: Path, tmp_path: Path) -> None:
    inputs = {"paths": "compose k8s/service.yaml", "exclude": "two.yaml", "allow-unplanned": "true", "gpu": "RTX 4090"}
    code, text, output = run_action(programs, tmp_path, **inputs)
    assert code == 0 and output == "exit-code=0\n", text
    assert "two.yaml" not in text


def test_an_input_is_never_a_part_of_the_actions_script(programs: Path, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    run_action(programs, tmp_path, gpu=f'$(touch "{mark}")', paths=f"compose `touch {mark}`", margin=f"1; touch {mark}")
    assert not mark.exists()
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    assert all("${{" not in step.get("run", "") for step in action["runs"]["steps"])


def test_the_hook(programs: Path) -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    names = [str(path.relative_to(TREE)) for path in sorted(TREE.rglob("*")) if path.is_file()]
    chosen = [name for name in names if re.search(hook["files"], name)]
    assert chosen == [name for name in names if may_hold(os.path.basename(name))]
    words = [*shlex.split(hook["entry"].removesuffix("--")), "--gpu", "RTX 4090", "--"]
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"

    def run_hook(*files: str) -> int:
        done = subprocess.run([*words, *files], env={**ENVIRONMENT, "PATH": path}, cwd=TREE, capture_output=True)
        return done.returncode

    assert run_hook(*chosen) == 1
    assert run_hook("compose/chat.yaml", "compose/unset.yaml", "k8s/service.yaml") == 0


def test_every_command_of_the_manual_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "deploy").mkdir()
    for name in ("start.sh", "deploy/start.sh"):
        (tmp_path / name).write_text("# oomph: gpu = H100\nvllm serve Qwen/Qwen3-8B --max-model-len 8192\n")
    commands = [line for block in re.findall(r"```sh\n(.*?)```", MANUAL, re.DOTALL) for line in block.splitlines()]
    assert len(commands) >= 4
    for line in commands:
        words = [sys.executable, "-m", *shlex.split(line)]
        done = subprocess.run(words, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"
    assert (tmp_path / "oomph.sarif").is_file()


def test_the_program_of_the_manual_runs(tmp_path: Path) -> None:
    (tmp_path / "deploy").mkdir()
    (tmp_path / "deploy" / "start.sh").write_text("vllm serve Qwen/Qwen3-8B --max-model-len 8192\n")
    (program,) = re.findall(r"```python\n(.*?)```", MANUAL, re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "deploy/start.sh 1 fits Qwen/Qwen3-8B\n"), done.stderr


def test_the_yaml_of_the_manual_names_what_there_is() -> None:
    hooks, workflow, _ = map(yaml.safe_load, re.findall(r"```yaml\n(.*?)```", MANUAL, re.DOTALL))
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert hooks["repos"][0]["hooks"][0]["id"] == hook["id"]
    inputs = yaml.safe_load((ROOT / "action.yml").read_text())["inputs"]
    assert set(workflow["jobs"]["memory"]["steps"][1]["with"]) <= set(inputs)
