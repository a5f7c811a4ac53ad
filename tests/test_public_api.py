"""Every public name is there, and importing oomph imports none of them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import oomph
from oomph.cli.main import main

ROOT = Path(__file__).parent.parent
LOG = str(ROOT / "tests" / "doctor" / "fixtures" / "P05.log")
SERVE = "vllm serve Qwen/Qwen3-8B --max-model-len 16384"

PUBLIC = [
    "Advice",
    "CannotPlan",
    "Cards",
    "Check",
    "CommandError",
    "Comparison",
    "ConfigError",
    "Device",
    "Diff",
    "Explanation",
    "Fit",
    "GpuList",
    "HeaderError",
    "Held",
    "HubError",
    "InputError",
    "Inspection",
    "Model",
    "Models",
    "OomphError",
    "Packed",
    "Plan",
    "Simulation",
    "Start",
    "Sweep",
    "UnknownCache",
    "UnknownModel",
    "WhatIf",
    "check",
    "compare",
    "diff",
    "explain",
    "fit",
    "gpus",
    "inspect",
    "learn",
    "load_model",
    "models",
    "pack",
    "parse_gpus",
    "plan",
    "plan_many",
    "simulate",
    "simulate_many",
    "what_if",
]


def test_the_list_is_the_promise() -> None:
    assert oomph.__all__ == PUBLIC
    for name in PUBLIC:
        assert getattr(oomph, name) is not None
    assert dir(oomph) == PUBLIC


def test_functions_are_not_hidden_by_modules_of_their_name() -> None:
    code = "import oomph.pack, oomph; from oomph import pack; assert callable(pack) and callable(oomph.pack)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_importing_oomph_is_nothing() -> None:
    code = "import sys, oomph; print(*[m for m in sys.modules if m.startswith('oomph.') or m in ('click', 'msgspec')])"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == ""


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(oomph, "nothing")


# what a function returns, and the command that prints the same object
PAIRS: dict[str, tuple[Callable[[], Any], list[str]]] = {
    "plan": (lambda: oomph.plan(SERVE, gpu="RTX 4090"), ["plan", "--gpu", "RTX 4090", "--", *SERVE.split()]),
    "explain": (lambda: oomph.explain(LOG), ["explain", LOG]),
    "inspect": (lambda: oomph.inspect("Qwen/Qwen3-8B"), ["inspect", "Qwen/Qwen3-8B"]),
    "fit": (
        lambda: oomph.fit("Qwen/Qwen3-8B", "T4", context=8192, only=True),
        ["fit", "Qwen/Qwen3-8B", "--gpu", "T4", "--context", "8192", "--only"],
    ),
    "models": (lambda: oomph.models("RTX 3060 12GB", limit=3), ["models", "--gpu", "RTX 3060 12GB", "--limit", "3"]),
    "gpus": (
        lambda: oomph.gpus("Qwen/Qwen3-8B", only=True, cards=["RTX 4090"]),
        ["gpus", "Qwen/Qwen3-8B", "--only", "--card", "RTX 4090"],
    ),
    "check": (
        lambda: oomph.check([str(ROOT / "docs" / "commands.md")], gpu="H100"),
        ["check", str(ROOT / "docs" / "commands.md"), "--gpu", "H100"],
    ),
    "pack": (lambda: oomph.pack([SERVE], gpu="RTX 4090"), ["pack", SERVE, "--gpu", "RTX 4090"]),
    "gpus without a model": (lambda: oomph.gpus(), ["gpus"]),
    "what-if": (lambda: oomph.what_if(SERVE, gpu="T4"), ["what-if", "--gpu", "T4", "--", *SERVE.split()]),
    "compare": (lambda: oomph.compare("Qwen/Qwen3-8B", gpu="T4"), ["compare", "Qwen/Qwen3-8B", "--gpu", "T4"]),
    "diff": (
        lambda: oomph.diff(SERVE, gpu="H100", before="vllm==0.28.0", after="vllm==0.32.0"),
        ["diff", "--gpu", "H100", "--from", "vllm==0.28.0", "--to", "vllm==0.32.0", "--", *SERVE.split()],
    ),
    "simulate": (
        lambda: oomph.simulate(SERVE, gpu="H100", users=4, requests=20),
        ["simulate", "--gpu", "H100", "--users", "4", "--requests", "20", "--", *SERVE.split()],
    ),
    "simulate held": (
        lambda: oomph.simulate(SERVE, gpu="RTX 4090", timed=False),
        ["simulate", "--gpu", "RTX 4090", "--steps", "--", *SERVE.split()],
    ),
    "simulate sweep": (
        lambda: oomph.simulate(SERVE, gpu="H100", sweep="users=1..4", requests=8),
        ["simulate", "--gpu", "H100", "--sweep", "users=1..4", "--requests", "8", "--", *SERVE.split()],
    ),
}


def printed(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit):
        main(words)
    return capsys.readouterr().out


@pytest.mark.parametrize("name", PAIRS)
def test_a_function_returns_what_its_command_prints(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    call, words = PAIRS[name]
    monkeypatch.setenv("COLUMNS", "80")
    answer = call()
    assert answer.to_dict() == json.loads(printed([words[0], "--json", *words[1:]], capsys))
    assert json.loads(answer.to_json()) == answer.to_dict()
    assert answer.text(width=80).split() == printed(words, capsys).split()
    assert len(repr(answer)) < 200 and repr(answer).startswith(f"<{type(answer).__name__} ")


def test_errors_have_a_kind_and_a_hint() -> None:
    with pytest.raises(oomph.UnknownModel) as unknown:
        oomph.inspect("no such model at all")
    assert unknown.value.kind == "unknown_model" and unknown.value.exit_code == 3
    with pytest.raises(oomph.CommandError) as wrong:
        oomph.plan("vllm serve Qwen/Qwen3-8B", gpu="RTX 49990")
    assert wrong.value.to_dict()["error"] == {
        "kind": "command_error",
        "message": wrong.value.message,
        "hint": wrong.value.hint,
    }


def test_threads_get_what_one_caller_gets() -> None:
    commands = [f"vllm serve {model} --max-model-len {length}" for length in (2048, 8192) for model in
                ("Qwen/Qwen3-8B", "meta-llama/Llama-3.1-8B-Instruct", "openai/gpt-oss-20b")]  # fmt: skip
    calls: list[Callable[[], Any]] = [
        *(lambda c=c, g=g: oomph.plan(c, gpu=g) for c in commands for g in ("RTX 4090", "2x T4")),
        lambda: oomph.explain(LOG),
        lambda: oomph.inspect("gemma-4-31b nvfp4"),
    ]
    alone = [call().to_dict() for call in calls]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda call: call().to_dict(), calls * 3))
    assert together == alone * 3


def test_help_takes_the_time_of_python_itself() -> None:
    """Next to a bare interpreter, the best of several runs; three times what it takes, because machines are busy."""
    import resource

    def seconds(*words: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *words], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    bare = min(seconds("-c", "pass") for _ in range(5))
    assert min(seconds("-m", "oomph", "--help") for _ in range(8)) - bare < 0.180
