"""Patterns that strangers wrote: the regular expressions and name lists of a checkpoint's quantisation config.

vLLM matches them with the `regex` package (compressed_tensors/utils.py:7, inc.py:7, utils/gptq_utils.py:9 of 0.21.0),
and so do we: it reads what vLLM reads, and it has what Python's own engine lacks, a time limit. Two things it does not
bound by itself: a counted repetition is unrolled when it is compiled (`a{999999999}` takes all memory), and a pattern
that calls itself, `(?R)`, takes 1 GB a second while it matches. No module's name needs either; both are refused.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

from oomph.errors import ConfigError
from oomph.text.late import late_pattern
from oomph.text.tables import grouped

LONGEST_PATTERN = 10_000  # characters
LONGEST_IN_ALL = 100_000  # characters of all patterns of one config; the most seen in a published one are 5,517
MOST_REPETITIONS = 10_000  # the product of a pattern's counts; names of modules have some hundred characters
MATCH_SECONDS = 1.0  # of CPU, for all matches of one config; real ones take milliseconds
MOST_COMPARISONS = 20_000_000  # names with list entries, of one config: about a second

# Words, points and alternatives of words, between which a plain pattern has at most two ".*". On these Python's own
# engine and `regex` agree, and neither takes long. Most checkpoints have no others, and importing `regex` takes a tenth
# of a plan's time.
_WORDS = late_pattern(r"(?:[\w.-]|\\\.|\((?:[\w-]+\|)*[\w-]+\))*", re.ASCII)
_MOST_PARTS, _LONGEST_PLAIN = 3, 200
_COUNT = late_pattern(r"\{(\d{0,20})(?:,(\d{0,20}))?\}")
_CALL = late_pattern(r"\(\?(?:R|[+-]?\d|&|P>)")
_FUZZY = late_pattern(r"\{[^{}]{0,40}[eisd][^{}]{0,40}\}")
_NAMED_CHARACTER = late_pattern(r"\\[pPN]\{[^{}]{0,80}\}")


class Allowance:
    """What one config may take in all, however many patterns and modules it has."""

    def __init__(self) -> None:
        self.characters = LONGEST_IN_ALL
        self.seconds = MATCH_SECONDS
        self.comparisons = MOST_COMPARISONS

    def spend(self, patterns: Iterable[str]) -> None:
        self.characters -= sum(len(text) + 8 for text in patterns)
        if self.characters < 0:
            raise ConfigError(f"quantization_config: its patterns have more than {LONGEST_IN_ALL:,} characters")

    def compare(self, count: int = 1) -> None:
        self.comparisons -= count
        if self.comparisons < 0:
            raise ConfigError("quantization_config: its lists of modules are too long to compare with every module")


class Pattern:
    """A compiled pattern that raises ConfigError where it would take longer than its config is allowed."""

    def __init__(self, text: str, allowance: Allowance) -> None:
        allowance.spend([text])
        self._plain = re.compile(text) if is_plain(text) else None
        self._compiled = compile_bounded(text) if self._plain is None else None
        self._text, self._allowance = text, allowance

    def match(self, name: str) -> bool:
        if self._plain is not None and len(name) <= _LONGEST_PLAIN:
            self._allowance.compare()
            return self._plain.match(name) is not None
        return self._ask(self._bounded().match, name)

    def search(self, name: str) -> bool:
        return self._ask(self._bounded().search, name)

    def _bounded(self) -> Any:
        self._compiled = self._compiled or compile_bounded(self._text)
        return self._compiled

    def _ask(self, how: Callable[..., Any], name: str) -> bool:
        from time import thread_time

        self._allowance.compare()
        begin = thread_time()
        try:
            # `concurrent` releases the interpreter's lock, so that the page answers meanwhile
            return how(name, timeout=max(self._allowance.seconds, 0.001), concurrent=True) is not None
        except TimeoutError:
            raise ConfigError(
                f"quantization_config: the pattern {_shown(self._text)} takes too long to compare with a module's name"
            ) from None
        except MemoryError:
            raise ConfigError(f"quantization_config: the pattern {_shown(self._text)} takes too much memory") from None
        finally:
            self._allowance.seconds -= thread_time() - begin


def is_plain(text: str) -> bool:
    """Words, points, alternatives of words, and at most two ".*"."""
    parts = text.removeprefix("^").removesuffix("$").split(".*")
    return len(text) <= _LONGEST_PLAIN and len(parts) <= _MOST_PARTS and all(map(_WORDS.fullmatch, parts))


def compile_bounded(text: str) -> Any:
    """A `regex` pattern whose size and depth are bounded; anything else is refused in one sentence."""
    if len(text) > LONGEST_PATTERN:
        raise ConfigError(f"quantization_config: a pattern is longer than {LONGEST_PATTERN:,} characters")
    bare = _NAMED_CHARACTER.sub("", text)
    if _CALL.search(bare) or _FUZZY.search(bare):
        raise ConfigError(f"quantization_config: the pattern {_shown(text)} calls itself or matches approximately")
    product = 1
    for low, high in _COUNT.findall(bare):
        product *= max(1, int(low or 0), int(high or 0))
        if product > MOST_REPETITIONS:
            raise ConfigError(f"quantization_config: the pattern {_shown(text)} repeats more than any name is long")
    import regex  # type: ignore[import-untyped]

    try:
        return regex.compile(text)
    except (regex.error, RecursionError, MemoryError, OverflowError, ValueError, KeyError, IndexError) as wrong:
        reason = str(wrong) if isinstance(wrong, regex.error) else "it is nested too deeply"
        raise ConfigError(f"quantization_config: {_shown(text)} is not a regular expression ({reason[:120]})") from None


def contains_any(parts: Sequence[str], allowance: Allowance) -> Callable[[str], bool]:
    """Whether a name contains one of the parts."""
    if not parts:
        return lambda name: False

    numbered = grouped(parts, _number)  # a part with ".17." in it is in no name without that number

    @cache
    def contains(name: str) -> bool:
        allowance.compare(len(parts))
        components = ("", *name.split("."))
        return any(part in name for component in components for part in numbered.get(component, ()))

    return contains


def _number(part: str) -> str:
    """The first number that stands between two points; "" = none."""
    return next((component for component in part.split(".")[1:-1] if component.isdigit()), "")


def _shown(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:77] + "...")
