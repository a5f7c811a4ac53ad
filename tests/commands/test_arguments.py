"""Our reading of words against argparse itself, built from the same rows."""

import argparse
import contextlib
import io

from hypothesis import given, settings, strategies as st

from oomph.engines.vllm.command import arguments
from oomph.engines.vllm.command.values import Refused, check_keys, parse_words
from oomph.errors import CommandError
from oomph.facts.vllm.flags import options_of

OPTIONS = options_of("0.21.0")


def checked(flag):
    """The text as it is, refused at once where its value is: argparse calls it for every word."""

    def kind(text):
        try:
            check_keys(flag, parse_words(flag, [text], OPTIONS), OPTIONS)
        except Refused as error:
            raise argparse.ArgumentTypeError(str(error)) from None
        return text

    return kind


def build() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(argument_default=argparse.SUPPRESS)
    parser.add_argument("rest", nargs="*")
    parser.add_argument("--config")
    for flag in OPTIONS.by_field.values():
        names = OPTIONS.spelled(flag)
        if flag.kind == "bool":
            parser.add_argument(*names, dest=flag.field, action=argparse.BooleanOptionalAction)
        elif flag.kind == "store_true":
            parser.add_argument(*names, dest=flag.field, action="store_true", default=argparse.SUPPRESS)
        elif flag.kind == "append":
            parser.add_argument(*names, dest=flag.field, action="append", type=checked(flag))
        elif flag.kind.startswith("list"):
            parser.add_argument(*names, dest=flag.field, nargs="+", type=checked(flag))
        elif flag.kind == "maybe":
            parser.add_argument(*names, dest=flag.field, nargs="?", const=True)
        else:
            parser.add_argument(*names, dest=flag.field, type=checked(flag))
    return parser


ARGPARSE = build()


def theirs(words):
    """The fields with their texts turned into values by our own value rules; None where argparse stops."""
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        try:
            given = vars(ARGPARSE.parse_intermixed_args(words))
        except SystemExit:
            return None
    positional = given.pop("rest", [])
    given.pop("config", None)
    out = {}
    for field, value in given.items():
        flag = OPTIONS.by_field[field]
        try:
            if flag.kind in ("bool", "store_true") or value is True:
                out[field] = value
            elif flag.kind == "append":
                out[field] = [parse_words(flag, [v], OPTIONS) for v in value]
            else:
                out[field] = parse_words(flag, value if isinstance(value, list) else [value], OPTIONS)
        except Refused:
            return None
    return out, positional


def ours(words):
    try:
        parsed = arguments.parse(words, OPTIONS)
    except CommandError:
        return None
    return parsed.flags, list(parsed.positional)


NAMES = sorted(OPTIONS.by_name)
VALUES = st.sampled_from(
    ["1", "0", "2", "8k", "1.5", "-1", "auto", "fp8", "{}", '{"a": 1}', "None", "", "a b", "-x", "x", "bfloat16", "/m"]
)
FLAG = st.sampled_from(NAMES)
ABBREVIATED = st.tuples(FLAG, st.integers(1, 5)).map(lambda p: p[0][: -p[1]] if len(p[0]) > 10 else p[0])
WORD = st.one_of(FLAG, ABBREVIATED, VALUES, st.tuples(FLAG, VALUES).map("=".join))


@settings(max_examples=600, deadline=None)
@given(st.lists(WORD, min_size=1, max_size=6))
def test_as_argparse_reads_it(words):
    assert ours(words) == theirs(words)


@settings(max_examples=400, deadline=None)
@given(st.lists(st.tuples(FLAG, VALUES), min_size=1, max_size=4))
def test_as_argparse_reads_flags_with_values(pairs):
    words = [word for pair in pairs for word in pair]
    assert ours(words) == theirs(words)
