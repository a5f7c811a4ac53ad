"""A release is added as CONTRIBUTING says, in a copy of the source: everything that answers must use its facts.

The imaginary release has another default of --gpu-memory-utilization and another text of the free-memory check.
"""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import oomph
from oomph.facts.vllm.facts import at
from oomph.facts.vllm.versions import NEWEST

NEW, DEFAULT, TEXT = "77.0.0", 0.8125, "The card has too little left:"
COMMAND = "vllm serve Qwen/Qwen3-8B --max-model-len 20000"
LOG = f"""\
(APIServer pid=1) INFO 11-01 10:00:00 [utils.py:300] vLLM API server version {NEW}
(APIServer pid=1) INFO 11-01 10:00:00 [utils.py:233] non-default args: {{'model': 'Qwen/Qwen3-8B', \
'max_model_len': 20000}}
(EngineCore pid=2) INFO 11-01 10:00:30 [gpu_model_runner.py:4959] Model loading took 15.27 GiB memory and 3.1 seconds
(EngineCore pid=2) INFO 11-01 10:00:50 [gpu_worker.py:462] Available KV cache memory: 1.50 GiB
(EngineCore pid=2) ERROR 11-01 10:00:50 [core.py:1140] ValueError: To serve at least one request with the model's max \
seq len (20000), (2.75 GiB KV cache is needed, which is larger than the available KV cache memory (1.5 GiB). Based on \
the available memory, the estimated maximum model length is 10912. Try increasing `gpu_memory_utilization` or \
decreasing `max_model_len` when initializing the engine.
"""
# One change point per fact that the release changes: the file, the fact, its value from then on.
CHANGES = (
    ("facts/vllm/running.py", "utilization", repr(DEFAULT)),
    ("facts/vllm/command_line.py", "free_memory", repr(f"{TEXT} {{free}} GiB")),
)
ASK = """
import contextlib, io, json, sys
from oomph.cli.main import main

answers = []
for words in json.load(sys.stdin):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        main(words)
    answers.append(json.loads(printed.getvalue()))
json.dump(answers, sys.stdout)
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    copy = tmp_path_factory.mktemp("source")
    shutil.copytree(Path(oomph.__file__).parent, copy / "oomph", ignore=shutil.ignore_patterns("__pycache__"))
    versions = copy / "oomph" / "facts" / "vllm" / "versions.py"
    text = versions.read_text()
    assert text.count(f'"{NEWEST}",\n)') == 1
    versions.write_text(text.replace(f'"{NEWEST}",\n)', f'"{NEWEST}", "{NEW}",\n)'))
    for name, fact, value in CHANGES:
        add_change(copy / "oomph" / name, fact, f'("{NEW}", {value})')
    return copy


def add_change(path: Path, fact: str, change: str) -> None:
    """One more argument to `fact = changes(...)`, behind the last."""
    text = path.read_text()
    found = [
        node.value
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and ast.unparse(node.targets[0]) == fact
    ]
    assert len(found) == 1, f"{path} has {fact} {len(found)} times"
    last = found[0].args[-1]
    assert last.end_lineno is not None and last.end_col_offset is not None
    lines = text.splitlines(keepends=True)
    line = lines[last.end_lineno - 1]
    lines[last.end_lineno - 1] = f"{line[: last.end_col_offset]}, {change}{line[last.end_col_offset :]}"
    path.write_text("".join(lines))


def run(source: Path, script: str, text: str = "") -> str:
    environment = os.environ | {"PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script], input=text, capture_output=True, text=True, env=environment, timeout=120
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def ask(source: Path, *commands: list[str]) -> list[dict[str, Any]]:
    """What the copy answers to commands of its own, as JSON."""
    answers: list[dict[str, Any]] = json.loads(run(source, ASK, json.dumps(commands)))
    return answers


def serve(*more: str) -> list[str]:
    return ["--", *COMMAND.split(), *more]


def test_plan_and_diff_use_a_new_release(source: Path) -> None:
    card = ["--json", "--gpu", "RTX 4090"]
    told = ["--gpu-memory-utilization", str(DEFAULT)]
    new, old, full, diff = ask(
        source,
        ["plan", *card, *serve()],
        ["plan", *card, "--engine", f"vllm=={NEWEST}", *serve(*told)],
        ["plan", "--json", "--gpu", "RTX 4090 used 8GiB", *serve()],
        ["diff", *card, "--from", f"vllm=={NEWEST}", "--to", f"vllm=={NEW}", *serve()],
    )
    assert new["engine"]["version"] == NEW and new["resolved"]["gpu_memory_utilization"] == DEFAULT
    assert new["kv"] == old["kv"] and new["verdict"]["outcome"] == old["verdict"]["outcome"]
    assert full["verdict"]["stage"] == "startup_free_memory" and full["verdict"]["message"].startswith(TEXT)
    assert diff["before"]["resolved"]["gpu_memory_utilization"] == at(NEWEST).limits.utilization
    assert diff["after"]["resolved"]["gpu_memory_utilization"] == DEFAULT
    assert diff["after"]["kv"] == new["kv"]


def test_what_if_changes_a_new_release(source: Path) -> None:
    """Every change is planned from the new default: as with the flag under the release before."""
    told = ["--gpu-memory-utilization", str(DEFAULT)]
    question = ["what-if", "--json", "--gpu", "RTX 4090"]
    new, old = ask(source, [*question, *serve()], [*question, "--engine", f"vllm=={NEWEST}", *serve(*told)])
    unlike = ("gpu_memory_utilization", "release")
    tokens = [
        {row["change"]: row["tokens"] for row in answer["rows"] if row["lever"] not in unlike} for answer in (new, old)
    ]
    assert tokens[0] == tokens[1] and len(tokens[0]) > 5


# What the doctor takes for the utilisation, what its rebuilt deployment resolves to, and what the flag table says.
DOCTOR = """
import json, sys
from pathlib import Path
from oomph.doctor.explain import read_case
from oomph.engines.vllm.failed import failed_deployment
from oomph.facts.vllm.flags import options_of
from oomph.answers.bare_plan import load, run
from oomph.sources.gpu import parse_gpus

case = read_case([Path(sys.stdin.read())], gpus=parse_gpus("RTX 4090"))
deployment = failed_deployment(case)
plan = run(deployment, load(deployment.model))
flag = options_of(case.version).by_field["gpu_memory_utilization"]
json.dump([case.version, case.util, plan.resolved["gpu_memory_utilization"], flag.default], sys.stdout)
"""


def test_explain_and_the_flag_table_use_a_new_release(source: Path, tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(LOG)
    assert json.loads(run(source, DOCTOR, str(log))) == [NEW, DEFAULT, DEFAULT, DEFAULT]


def test_explain_replans_a_new_release(source: Path, tmp_path: Path) -> None:
    """What it advises is what it advises for the release before, where that one was told the new default."""
    log, told = tmp_path / "new.log", tmp_path / "told.log"
    log.write_text(LOG)
    told.write_text(LOG.replace(NEW, NEWEST).replace("20000}", f"20000, 'gpu_memory_utilization': {DEFAULT}}}"))
    new, old = ask(source, *(["explain", "--json", "--gpu", "RTX 4090", str(path)] for path in (log, told)))
    assert new["engine"]["version"] == NEW and new["cause"]["id"] == old["cause"]["id"] == "K02"
    utilization = [fix["change"] for fix in new["remedies"] if "utilization" in fix["change"]]
    assert utilization == [fix["change"] for fix in old["remedies"] if "utilization" in fix["change"]]
    assert [fix["lever"] for fix in new["remedies"]] == [fix["lever"] for fix in old["remedies"]]
