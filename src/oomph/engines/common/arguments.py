"""Words to options, in the two ways in which the engines' programs read them.

`read_words` is Python's argparse, which vLLM's and SGLang's parsers are: `--name value ...`, `--name=value`, a
beginning that only one option has, a value glued to a short one, negative numbers as values. `read_in_order` is how
click (TensorRT-LLM) and llama.cpp read: an option is written out, and what follows it is its value, whatever it is.
What a name means, takes and may be is in the rows of the engine (`facts/ENGINE/flags.py`).

Written out, not built on argparse: a parser object with 300 options takes longer to build than a plan to compute. The
tests hold it against argparse itself.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

from oomph.commands.call import short
from oomph.errors import CommandError
from oomph.text.late import late_pattern

SWITCHES = ("bool", "store_true")  # kinds of options that take no word

NEGATIVE = late_pattern(r"-\d+|-\d*\.\d+")


class Use(NamedTuple):
    """An option with its words, or a word that belongs to none."""

    name: str  # "": it belongs to none
    texts: tuple[str, ...]
    is_explicit: bool = False  # behind "=" or glued: it takes none of the following words
    before: str = ""  # the word before it

    @property
    def words(self) -> tuple[str, ...]:
        """As they were written."""
        return (f"{self.name}={self.texts[0]}",) if self.is_explicit else (*filter(None, (self.name,)), *self.texts)


class Unread(ValueError):
    """An option that there is not, or a beginning that several have: the engine says so in its own words."""

    def __init__(self, word: str, key: str, matches: Sequence[str] = ()) -> None:
        super().__init__(key)
        self.word, self.key, self.matches = word, key, tuple(matches)


def read_words(
    words: Sequence[str], names: Collection[str], most: Callable[[str], int | None], same: Callable[[str], str] = str
) -> Iterator[Use]:
    """`most`: how many words an option takes (None: any number). `same`: names that give the same are one option."""
    are_options = [_is_option(word, names) for word in words]
    if "--" in words:
        are_options[words.index("--") :] = [False] * (len(words) - words.index("--"))
    at = 0
    while at < len(words):
        word, before = words[at], words[at - 1] if at else ""
        at += 1
        if not are_options[at - 1]:
            if word != "--":
                yield Use("", (word,), before=before)
            continue
        name, explicit = _resolve(word, names, same)
        if explicit is not None:
            yield Use(name, (explicit,), is_explicit=True)
            continue
        end, limit = at, most(name)
        while end < len(words) and not are_options[end] and words[end] != "--" and (limit is None or end - at < limit):
            end += 1
        yield Use(name, tuple(words[at:end]))
        at = end


def most_words(kind: str) -> int | None:
    """How many words an option of this kind takes; None: any number."""
    return 0 if kind in SWITCHES else None if kind.startswith("list") else 1


def check_count(use: Use, kind: str) -> None:
    """argparse's words where a switch has a value, or another option has none."""
    if kind in SWITCHES and use.is_explicit:
        raise CommandError(f"argument {use.name}: ignored explicit argument {short(use.texts[0])}")
    if not use.texts and kind not in (*SWITCHES, "maybe"):
        number = "at least one" if kind.startswith("list") else "one"
        raise CommandError(f"argument {use.name}: expected {number} argument")


def read_in_order(words: Sequence[str], takes: Callable[[str, str], bool]) -> Iterator[Use]:
    """`takes(name, word)`: whether the word behind an option is its value. A short option has no `=`."""
    at = 0
    while at < len(words):
        word, at = words[at], at + 1
        name, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if not word.startswith("-"):
            yield Use("", (word,))
        elif equals:
            yield Use(name, (value,), is_explicit=True)
        elif at < len(words) and takes(name, words[at]):
            yield Use(name, (words[at],))
            at += 1
        else:
            yield Use(name, ())


def meant(names: Sequence[str]) -> str:
    """The end of a sentence about a name that there is not."""
    return f"; did you mean {' or '.join(names)}?" if names else ""


def _is_option(word: str, names: Collection[str]) -> bool:
    """argparse's _parse_optional."""
    if not word.startswith("-") or word == "-":
        return False
    key = word.split("=", 1)[0]
    if word in names or key in names or _matches(key, names):
        return True
    return not NEGATIVE.fullmatch(word) and " " not in word


def _matches(key: str, names: Collection[str]) -> list[tuple[str, bool]]:
    """The options that `key` abbreviates, each with whether a value is glued to it (-qawq)."""
    if key.startswith("--"):
        return [(name, False) for name in names if name.startswith(key)] if len(key) > 2 else []
    matches = [(name, False) for name in names if name.startswith(key)]
    return [*matches, (key[:2], True)] if len(key) > 2 and key[:2] in names else matches


def _resolve(word: str, names: Collection[str], same: Callable[[str], str]) -> tuple[str, str | None]:
    """The option that is meant, and the value after '=' or glued to a short one."""
    if word in names:
        return word, None
    key, sign, value = word.partition("=")
    explicit = value if sign else None
    if key in names:
        return key, explicit
    matches = _matches(key, names)
    if len({same(name) for name, _ in matches}) != 1:
        raise Unread(word, key, [name for name, _ in matches])
    name, is_glued = matches[-1]
    return name, word[2:] if is_glued else explicit
