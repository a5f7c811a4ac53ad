"""SGLang and llama.cpp: every flag is read by a plan, or it is written down why it is not."""

import ast
from pathlib import Path

import pytest

from oomph.answers.plan import plan
from oomph.facts.flag_effects import Effects
from oomph.facts.llamacpp.flag_effects import EFFECTS as LLAMACPP
from oomph.facts.llamacpp.flags import ROWS
from oomph.facts.sglang.flag_effects import EFFECTS as SGLANG
from oomph.facts.sglang.flag_rows import ROWS as SGLANG_ROWS
from oomph.facts.sglang.flags import options_of
from oomph.facts.sglang.versions import RELEASES

ENGINES = Path(__file__).parents[2] / "src" / "oomph" / "engines"
OTHERS = {
    "arm", "emit", "engine", "failed", "host", "host_levers", "case_levers", "levers", "offer", "python_call",
    "reasons", "simulation",
}  # fmt: skip


def read_by_a_plan(engine: str) -> set[str]:
    """The strings in the modules between a command and the GPUs' part of its plan."""
    files = (ENGINES / engine).rglob("*.py")
    modules = [path for path in files if path.stem not in OTHERS and path.parent.name not in ("rules", "scheduler")]
    nodes = [node for path in modules for node in ast.walk(ast.parse(path.read_text()))]
    return {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def sglang_fields() -> set[str]:
    return {flag.field for release in RELEASES for flag in options_of(release).by_name.values()}


def test_the_table_of_sglang_is_read_by_all_releases():
    assert len(sglang_fields()) > 550 and len(" ".join(SGLANG_ROWS.values()).split()) >= len(sglang_fields())


@pytest.mark.parametrize("release", RELEASES)
def test_every_flag_of_sglang_is_used_or_listed(release):
    fields = {flag.field for flag in options_of(release).by_name.values()}
    unused = fields - read_by_a_plan("sglang") - set(SGLANG.listed())
    assert not unused, "read them in a plan, or list them in facts/sglang/flag_effects.py"


def test_every_flag_of_llamacpp_is_used_or_listed():
    unused = {row.field for row in ROWS} - read_by_a_plan("llamacpp") - set(LLAMACPP.listed())
    assert not unused, "read them in a plan, or list them in facts/llamacpp/flag_effects.py"


@pytest.mark.parametrize(("engine", "effects"), [("sglang", SGLANG), ("llamacpp", LLAMACPP)])
def test_nothing_is_listed_twice_or_read_after_all(engine: str, effects: Effects):
    listed = effects.listed()
    assert len(listed) == len(set(listed))
    # what the command reader itself looks at, to tell two servers apart
    frontend = {"admin_api_key", "api_key", "host", "log_level", "nccl_port", "port", "served_model_name", "device"}
    frontend |= {"enable_priority_scheduling", "schedule_policy", "trust_remote_code"}  # only refused, not planned with
    assert set(listed) & read_by_a_plan(engine) <= frontend


def test_only_flags_that_exist_are_listed():
    assert set(SGLANG.listed()) <= sglang_fields()
    assert set(LLAMACPP.listed()) <= {row.field for row in ROWS}


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("sglang serve Qwen/Qwen3-8B --hicache-size 64", "--hicache-size does not change GPU memory"),
        ("sglang serve Qwen/Qwen3-8B --enable-memory-saver", "--enable-memory-saver does not change GPU memory"),
        ("sglang serve Qwen/Qwen3-8B --lora-backend triton", "--lora-backend is not in this plan"),
        ("sglang serve Qwen/Qwen3-8B --schedule-policy lpm", ""),
        ("llama-server -m Qwen3-8B-Q4_K_M.gguf -c 8192 --cache-ram 4096", "--cache-ram does not change GPU memory"),
    ],
)
def test_the_plan_says_what_a_flag_does_not_do(command, sentence):
    answer = plan(command, gpu="H200", advise=False)
    notes = [note for note in answer.warnings if "GPU memory" in note or "not in this plan" in note]
    assert notes[0].startswith(sentence) if sentence else not notes
