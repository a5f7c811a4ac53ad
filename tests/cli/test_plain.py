"""The options that are read without click mean what click's declarations say."""

from __future__ import annotations

from importlib import import_module

import click
import pytest

from oomph.cli.plain import PLAIN, read_plainly

CASES: tuple[list[str], ...] = (
    ["--gpu", "H100", "--", "vllm", "serve", "m"],
    ["--gpu=2x RTX 4090", "--json", "vllm", "serve", "m", "--gpu-memory-utilization", "0.9"],
    ["--engine", "vllm==0.21.0", "compose.yaml"],
    ["--gpu", "H100", "-"],
    ["--gpu", "H100", "--gpu", "H200", "--", "vllm", "serve", "m"],
    [],
)
FOR_CLICK = (
    ["--gpu"], ["--gpu", "--json", "--", "vllm"], ["--nope", "x"], ["--json=yes", "x"], ["--html", "a.html", "x"],
    ["--help"], ["-h"], ["--compile-cache", "warm", "x"],
)  # fmt: skip


def _declared(command: str) -> click.Command:
    declared: click.Command = import_module(f"oomph.cli.commands.{command.replace('-', '_')}").command
    return declared


@pytest.mark.parametrize("command", PLAIN)
def test_each_option_is_declared_to_click_with_the_same_meaning(command: str) -> None:
    options = {name: option for option in _declared(command).params for name in option.opts}
    for name, (parameter, takes) in PLAIN[command].items():
        option = options[name]
        assert isinstance(option, click.Option)
        assert (option.name, option.is_flag, option.multiple) == (parameter, takes == "nothing", takes == "values")
        assert isinstance(option.type, click.types.StringParamType | click.types.BoolParamType)


@pytest.mark.parametrize("words", [*CASES, ["--given", "weights=1GiB", "--given", "context=1MiB", "x"], ["--all", "x"]])
@pytest.mark.parametrize("command", PLAIN)
def test_the_same_words_give_the_same_parameters(command: str, words: list[str]) -> None:
    plain = read_plainly(command, words)
    if plain is None:
        assert command == "what-if"
        return
    with _declared(command).make_context(command, list(words)) as context:
        assert {name: context.params[name] for name in plain} == plain
        unset = [value for name, value in context.params.items() if name not in plain]
    assert not any(unset)


@pytest.mark.parametrize("words", FOR_CLICK)
def test_what_is_not_plain_is_left_to_click(words: list[str]) -> None:
    assert read_plainly("plan", words) is None
    assert read_plainly("fit", []) is None
