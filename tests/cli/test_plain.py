"""The options that are read without click mean what click's declarations say."""

from __future__ import annotations

from inspect import signature

import click
import pytest

from oomph.cli import answers
from oomph.cli.main import dispatch
from oomph.cli.plain import DECLARED, Option, read_plainly, takes_value
from oomph.cli.settings import take_settings
from oomph.cli.table import COMMANDS, click_command

CASES: tuple[list[str], ...] = (
    ["--gpu", "H100", "--", "vllm", "serve", "m"],
    ["--gpu=2x RTX 4090", "--json", "vllm", "serve", "m", "--gpu-memory-utilization", "0.9"],
    ["--engine", "vllm==0.21.0", "compose.yaml"],
    ["--gpu", "H100", "-"],
    ["--gpu", "H100", "--gpu", "H200", "--", "vllm", "serve", "m"],
    [],
)
FOR_CLICK = (
    ["--gpu"], ["--gpu", "--json", "--", "vllm"], ["--nope", "x"], ["--json=yes", "x"],
    ["--help"], ["-h"], ["--compile-cache", "warm", "x"],
)  # fmt: skip


@pytest.mark.parametrize("command", DECLARED)
def test_click_has_the_rows_and_nothing_else(command: str) -> None:
    options = [option for option in click_command(command).params if isinstance(option, click.Option)]
    rows = [(row.parameter, [row.name], row.takes == "nothing", row.multiple) for row in DECLARED[command]]
    assert [(option.name, option.opts, option.is_flag, option.multiple) for option in options] == rows
    function = getattr(answers, f"answer_{command.replace('-', '_')}")
    assert {row.parameter for row in DECLARED[command]} | {"words"} == signature(function).parameters.keys()


@pytest.mark.parametrize("words", [*CASES, ["--given", "weights=1GiB", "--given", "context=1MiB", "x"], ["--all", "x"]])
@pytest.mark.parametrize("command", DECLARED)
def test_the_same_words_give_the_same_parameters(command: str, words: list[str]) -> None:
    plain = read_plainly(command, words)
    if plain is None:
        assert command == "what-if"
        return
    with click_command(command).make_context(command, list(words)) as context:
        assert {name: context.params[name] for name in plain} == plain
        unset = [value for name, value in context.params.items() if name not in plain]
    assert not any(unset)


@pytest.mark.parametrize("words", FOR_CLICK)
def test_what_is_not_plain_is_left_to_click(words: list[str]) -> None:
    assert read_plainly("plan", words) is None
    assert read_plainly("fit", []) is None


OPTIONS = [
    (command, name, option.is_flag)
    for command in COMMANDS
    for option in click_command(command).params
    if isinstance(option, click.Option)
    for name in (*option.opts, *option.secondary_opts)
]


@pytest.mark.parametrize(("command", "name", "is_switch"), OPTIONS)
def test_an_option_may_stand_before_its_command(command: str, name: str, is_switch: bool) -> None:
    """Nobody has to write down anywhere else that it takes no value."""
    if name == "--version":
        return  # of oomph itself, before a command
    assert takes_value(name, [name, command]) is not is_switch
    options = [name] if is_switch else [name, "run"]
    assert dispatch([*options, command, "x"]) == (command, [*options, "x"])
    words = [*options, "--debug", command]
    assert take_settings(words).debug and words == [*options, command]


@pytest.mark.parametrize("row", DECLARED["plan"], ids=lambda row: row.name)
def test_an_option_of_plan_may_stand_before_the_serve_command(row: Option) -> None:
    options = [row.name] if row.takes == "nothing" else [row.name, "x"]
    serve = ["vllm", "serve", "m", "--quiet"]
    assert dispatch([*options, *serve]) == ("plan", [*options, "--", *serve])


def test_no_name_takes_a_value_in_one_command_only() -> None:
    assert len({name for _, name, _ in OPTIONS}) == len({(name, is_switch) for _, name, is_switch in OPTIONS})
