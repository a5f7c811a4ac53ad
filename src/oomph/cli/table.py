"""The commands and what an exit code means: what main.py and the documents share."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import click

COMMANDS = {
    "plan": "Will it fit? Takes the command you were about to run.",
    "check": "Will every deployment of a repository fit? A gate for CI.",
    "explain": "Why did it run out of memory? Takes the log of the run.",
    "run": "Start a server with its memory foreseen, explained if it dies.",
    "inspect": "What a checkpoint is: bytes by part, layers, KV cache, context.",
    "models": "What should I run? The models that run well on these GPUs.",
    "fit": "The command that serves a model best here.",
    "what-if": "What each flag would do to a command, alone.",
    "diff": "What changes between two releases, flags, GPUs or models.",
    "simulate": "What a load of requests does to the KV cache.",
    "compare": "The same model on vLLM, SGLang, llama.cpp and Ollama.",
    "pack": "Several services on one machine: together, where, in which order?",
    "learn": "Count what a start here measured: takes its log.",
    "gpus": "Which cards, and how many, a model needs.",
    "site": "The catalogue as a static site: a page per model and per card.",
    "ui": "See the memory: the same as a page in the browser.",
    "mcp": "The same for agents: a server of the Model Context Protocol.",
    "rule": "The page of a diagnosis: what it is, what fixes it.",
    "report": "Plan, log, machine and versions in one file for an issue.",
    "completion": "Completion for bash, zsh or fish.",
}
# Commands without a serve command in them: their options may stand anywhere.
INTERSPERSED = frozenset(
    ("check", "pack", "learn", "fit", "models", "gpus", "compare", "inspect", "site", "ui", "mcp", "explain", "rule",
     "report", "completion")
)  # fmt: skip

EXIT_CODES = """\
Exit codes:
  0  it fits, is explained, or is answered
  1  it does not fit
  2  the input is wrong: one sentence says what and where
  3  something that is needed is not known, or not to be had
  4  too close to call, or it starts and a named load breaks it"""


def click_command(name: str) -> "click.Command":
    """A command as click has it, imported when it is asked for."""
    from importlib import import_module

    command: click.Command = import_module(f"oomph.cli.commands.{name.replace('-', '_')}").command
    return command
