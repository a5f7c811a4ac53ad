"""pages.py [--check]: docs/reference, one page per command, from its help and from what its examples print.

Each example runs in a folder with a log, a compose file, a small model and a batch, so that what the page shows is what
the program prints today. `--check` ends in exit code 1 where a page is not what would be written.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
import tempfile
from pathlib import Path

from oomph.cli.table import COMMANDS

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs" / "reference"
FIXTURES = ROOT / "tests" / "doctor" / "fixtures"
sys.path.insert(0, str(ROOT / "tests"))

QWEN = "vllm serve Qwen/Qwen3-8B --max-model-len 16384"
# command -> examples; what a page shows is what they print
EXAMPLES: dict[str, tuple[str, ...]] = {
    "plan": (
        f'oomph plan --gpu "RTX 4090" -- {QWEN}',
        'oomph --gpu "RTX 4090" vllm serve Qwen/Qwen3-32B',
        "oomph plan --gpu H100 compose.yaml",
    ),
    "check": ("oomph check .",),
    "explain": ("oomph explain server.log", "oomph explain issue.json comments.json"),
    "run": ('oomph run --gpu "RTX 3060" -- vllm serve Qwen/Qwen3-8B',),
    "inspect": ('oomph inspect "qwen3 8b fp8"', "oomph inspect ./my-model"),
    "models": ('oomph models --gpu "RTX 4060 Ti 16GB" --engine vllm --limit 3',),
    "fit": ("oomph fit Qwen/Qwen3-8B --gpu T4 --context 8k",),
    "what-if": (f"oomph what-if --gpu L4 -- {QWEN}",),
    "diff": (f"oomph diff --gpu H100 --from vllm==0.21.0 --to vllm==0.32.0 -- {QWEN}",),
    "simulate": (f"oomph simulate --gpu H100 --users 32 --requests 64 -- {QWEN}",),
    "compare": ('oomph compare Qwen/Qwen3-8B --gpu "RTX 4090"',),
    "pack": (f'oomph pack --gpu H100 --solver plain "{QWEN}" "vllm serve Qwen/Qwen3-0.6B --max-model-len 4096"',),
    "gpus": ('oomph gpus Qwen/Qwen3-8B --only --card "RTX 4090" --card T4', "oomph gpus 5070"),
    "rule": ("oomph rule K02",),
    "report": (f'oomph report --gpu "RTX 4090" --log server.log --output report.md -- {QWEN}',),
    "completion": ("oomph completion fish",),
}
# command -> (its schema, the function of the Python API)
FORMS: dict[str, tuple[str, str]] = {
    "plan": ("plan", "plan"), "check": ("check", "check"), "explain": ("explain", "explain"),
    "inspect": ("inspect", "inspect"), "models": ("models", "models"), "fit": ("fit", "fit"),
    "what-if": ("what-if", "what_if"), "diff": ("diff", "diff"), "simulate": ("simulate", "simulate"),
    "compare": ("compare", "compare"), "pack": ("pack", "pack"), "learn": ("learn", "learn"), "gpus": ("gpus", "gpus"),
    "rule": ("rule", ""), "report": ("report", ""),
}  # fmt: skip
COMPOSE = """\
# oomph: gpu = RTX 4090
services:
  chat:
    image: vllm/vllm-openai:v0.21.0
    command: --model Qwen/Qwen3-8B --max-model-len 16384
  large:
    image: vllm/vllm-openai:v0.21.0
    command: --model Qwen/Qwen3-32B --max-model-len 16384
"""


def furnish(folder: Path) -> None:
    """What the examples of the documents find where they are run."""
    import making

    making.folder(folder / "my-model", making.LLAMA, making.tensors_of(making.LLAMA))
    shutil.copy(FIXTURES / "P05.log", folder / "server.log")
    (folder / "compose.yaml").write_text(COMPOSE)
    (folder / "deploy").mkdir()
    shutil.copy(folder / "compose.yaml", folder / "deploy" / "compose.yaml")
    cases = '{"id": 1, "gpu": "RTX 4090", "args": ["vllm", "serve", "Qwen/Qwen3-8B", "--max-model-len", "16384"]}\n'
    (folder / "cases.jsonl").write_text(cases + cases.replace("1,", "2,").replace("Qwen3-8B", "Qwen3-32B"))
    trace = "TIMESTAMP,ContextTokens,GeneratedTokens\n" + "".join(
        f"2023-11-16 18:15:{second:02d}.0000000,{300 + 40 * second},{20 + second}\n" for second in range(0, 60, 3)
    )
    (folder / "AzureLLMInferenceTrace_conv.csv").write_text(trace)
    (folder / "start.sh").write_text(f"#!/bin/sh\n{QWEN}\n")
    for source in (FIXTURES.parent / "threads").glob("*"):
        shutil.copy(source, folder / source.name)


def environment() -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("OOMPH", "HF_", "VLLM"))}
    return kept | {"COLUMNS": "80", "NO_COLOR": "1", "HF_HUB_OFFLINE": "1"}


def screen(command: str, folder: Path) -> tuple[str, int]:
    """What a command prints in that folder, and its exit code; in this process, which takes half the time."""
    from calling import call

    places = {"XDG_STATE_HOME": str(folder / "state"), "XDG_CACHE_HOME": str(folder / "cache")}
    answer = call(*shlex.split(command)[1:], folder=folder, variables=environment() | places, together=True)
    return "\n".join(line.rstrip() for line in answer.stdout.strip("\n").splitlines()), answer.returncode


def page(name: str, folder: Path) -> str:
    parts = [f"# oomph {name}", COMMANDS[name]]
    for example in EXAMPLES.get(name, ()):
        printed, code = screen(example, folder)
        parts.append(f"```console\n$ {example}\n{printed}\n```")
        if code:
            parts.append(f"Exit code: {code}.")
    parts += ["## Help", f"```text\n{help_text(name)}\n```"]
    schema, function = FORMS.get(name, ("", ""))
    if schema:
        parts.append(f"`--json` prints what [schema/{schema}.json](../schema/{schema}.json) describes.")
    if function:
        parts.append(f"From Python: `oomph.{function}(...)`, see [the Python API](../python.md).")
    return "\n\n".join(parts) + "\n"


def help_text(name: str) -> str:
    """As `oomph NAME --help` prints it in 100 columns; without a name, `oomph --help`."""
    from calling import call

    words = [name, "--help"] if name else ["--help"]
    printed = call(*words, variables={**os.environ, "COLUMNS": "100"}).stdout
    return re.sub(r"[ \t]+\n", "\n", printed).strip("\n")


def names() -> list[str]:
    from oomph.cli.table import COMMANDS

    return list(COMMANDS)


def index() -> str:
    rows = [f"| [{name}]({name}.md) | {COMMANDS[name]} |" for name in names()]
    return "\n".join(["# All commands", "", "| command | what it answers |", "|---|---|", *rows]) + "\n"


def main() -> int:
    chosen = [word for word in sys.argv[1:] if not word.startswith("-")]
    stale = []
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        furnish(Path(place))
        texts = {name: page(name, Path(place)) for name in chosen or names()}
    if not chosen:
        texts["index"] = index()
    for name, text in texts.items():
        path = FOLDER / f"{name}.md"
        if not path.exists() or path.read_text() != text:
            stale.append(name)
            if "--check" not in sys.argv:
                path.write_text(text)
    print(f"{len(stale)} pages {'differ' if '--check' in sys.argv else 'written'}: {' '.join(stale)}")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
