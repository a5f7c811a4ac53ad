"""The reader of flags that click's and llama.cpp's programs share; argparse's is held against argparse (commands)."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner
from hypothesis import given, strategies as st

from oomph.engines.common.arguments import Use, check_count, read_in_order
from oomph.errors import CommandError

SWITCHES = ("--a", "--b")
WORDS = st.lists(
    st.sampled_from(("--a", "--b", "--n", "--name", "--n=1", "--name=--a", "x", "-", "1", "-1")), max_size=6
)


def theirs(words: list[str]) -> dict[str, object] | None:
    """What click makes of the words; None where it stops."""
    read: dict[str, object] = {}

    @click.command(context_settings={"ignore_unknown_options": False})
    @click.option("--a", is_flag=True)
    @click.option("--b", is_flag=True)
    @click.option("--n")
    @click.option("--name")
    @click.argument("rest", nargs=-1)
    def command(**values: object) -> None:
        read.update(values)

    outcome = CliRunner().invoke(command, words)
    return read if outcome.exit_code == 0 else None


def ours(words: list[str]) -> dict[str, object] | None:
    values: dict[str, object] = {"a": False, "b": False, "n": None, "name": None, "rest": ()}
    for use in read_in_order(words, lambda name, _: name not in SWITCHES and name != "-"):
        if use.name in ("", "-"):
            values["rest"] = (*values["rest"], *(use.texts or (use.name,)))  # type: ignore[misc]
        elif use.name.startswith("--") and (use.name in SWITCHES) is not bool(use.texts):
            values[use.name[2:]] = use.texts[0] if use.texts else True
        else:
            return None
    return values


@given(WORDS)
def test_words_are_read_as_click_reads_them(words: list[str]) -> None:
    assert ours(words) == theirs(words)


@given(WORDS)
def test_what_is_read_are_the_words(words: list[str]) -> None:
    uses = read_in_order(words, lambda name, word: name in ("--n", "--name") and word != "x")
    assert [word for use in uses for word in use.words] == words


@pytest.mark.parametrize(
    ("use", "kind", "sentence"),
    [
        (Use("--a", ("1",), is_explicit=True), "store_true", "argument --a: ignored explicit argument '1'"),
        (Use("--n", ()), "int", "argument --n: expected one argument"),
        (Use("--n", ()), "list[int]", "argument --n: expected at least one argument"),
    ],
)
def test_a_wrong_number_of_words_is_refused_in_the_words_of_argparse(use: Use, kind: str, sentence: str) -> None:
    with pytest.raises(CommandError, match=sentence.replace("'", ".")):
        check_count(use, kind)


def test_a_value_may_be_left_out_of_an_option_that_allows_it() -> None:
    check_count(Use("--n", ()), "maybe")
    check_count(Use("--a", ()), "bool")
