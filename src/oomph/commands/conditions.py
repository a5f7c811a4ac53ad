"""Which lines of a script run: if, case, && and ||, where their tests can be told without running anything.

A test that cannot be told is taken to pass, so that no command is missed.
"""

import re
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase

from oomph.text.late import late_pattern

_UNSET = late_pattern(r"\$\{?\w+\}?")  # a variable that nothing has set: empty
_ARGUMENT = late_pattern(r"\$\{?[1-9@*]\}?")  # what the user will say: any branch that has a name may run
_NUMBERS: dict[str, Callable[[int, int], bool]] = {
    "-eq": lambda a, b: a == b, "-ne": lambda a, b: a != b, "-lt": lambda a, b: a < b,
    "-le": lambda a, b: a <= b, "-gt": lambda a, b: a > b, "-ge": lambda a, b: a >= b,
}  # fmt: skip


def evaluate(words: Sequence[str]) -> bool | None:
    """[ -n "$X" ], [[ $X == true ]], test 1 -lt 2; None = not to be told."""
    if not words or words[0] not in ("[", "[[", "test", "!"):
        return None
    if words[0] == "!":
        inner = evaluate(words[1:])
        return None if inner is None else not inner
    closer = {"[": "]", "[[": "]]"}.get(words[0])
    body = list(words[1:])
    if closer is not None:
        if not body or body[-1] != closer:
            return None
        body.pop()
    if body[:1] == ["!"]:
        inner = _test(body[1:])
        return None if inner is None else not inner
    return _test(body)


def _test(body: list[str]) -> bool | None:
    if any("$(" in word or "`" in word for word in body):
        return None
    body = ["" if _UNSET.fullmatch(word) else word for word in body]
    if len(body) == 1 and not body[0].startswith("-"):
        return body[0] != ""
    if body[:1] in (["-n"], ["-z"]) and len(body) <= 2:
        return ("".join(body[1:]) != "") == (body[0] == "-n")
    if len(body) == 2 and body[0] in ("=", "==", "!="):  # [ $X = y ] where X is empty and not quoted
        body = ["", *body]
    if len(body) != 3:
        return None
    left, sign, right = body
    if sign in ("=", "==", "!="):
        return fnmatchcase(left, right) == (sign != "!=")
    if sign in _NUMBERS and re.fullmatch(r"-?\d{1,18}", left) and re.fullmatch(r"-?\d{1,18}", right):
        return _NUMBERS[sign](int(left), int(right))
    return None


class Flow:
    """Where a reader stands among if ... fi and case ... esac."""

    def __init__(self) -> None:
        self.stack: list[_If | _Case] = []

    @property
    def active(self) -> bool:
        return all(block.active for block in self.stack)

    def take(self, words: list[str], end: str = "") -> list[str]:
        """Keywords at the front are obeyed; what is left is a command. `end`: the sign that ended it."""
        top = self.stack[-1] if self.stack else None
        if isinstance(top, _Case) and top.choosing and words[:1] != ["esac"]:
            top.pattern(words, end)
            return []
        while words:
            top = self.stack[-1] if self.stack else None
            word = words[0]
            if word == "if":
                self.stack.append(_If(evaluate(words[1:])))
                return words[1:] if self.stack[-1].active else []
            if word == "case" and len(words) >= 3 and words[2] == "in":
                self.stack.append(_Case(words[1]))
                return self.take(words[3:], end) if words[3:] else []
            if word == "elif" and isinstance(top, _If):
                top.next(evaluate(words[1:]))
                return words[1:] if top.active else []
            if word == "else" and isinstance(top, _If):
                top.next(None if top.known else True)
            elif word in ("fi", "esac") and top is not None:
                self.stack.pop()
            elif word not in ("then", "do"):
                break
            words = words[1:]
        return words

    def ended(self, sign: str) -> None:
        top = self.stack[-1] if self.stack else None
        if sign == ";;" and isinstance(top, _Case):
            top.choose()


class _If:
    def __init__(self, passed: bool | None) -> None:
        self.active = passed is not False
        self.taken = passed is True
        self.known = passed is not None

    def next(self, passed: bool | None) -> None:
        """elif or else: only where nothing before it was sure to run."""
        self.active = not self.taken and passed is not False
        self.taken = self.taken or passed is True
        self.known = self.known and passed is not None


class _Case:
    def __init__(self, subject: str) -> None:
        self.subject = "" if _UNSET.fullmatch(subject) else subject
        self.unknown = "$(" in subject or "`" in subject
        self.is_argument = _ARGUMENT.fullmatch(subject) is not None
        self.taken = False
        self.patterns: list[str] = []
        self.choose()

    def choose(self) -> None:
        self.choosing, self.active = True, True

    def pattern(self, words: list[str], end: str) -> None:
        self.patterns += words
        if end != ")":
            return
        fits = any(fnmatchcase(self.subject, pattern) for pattern in self.patterns) and self.subject != ""
        named = self.is_argument and any(re.match(r"\w", pattern) for pattern in self.patterns)
        self.active = self.unknown or named or (fits and not self.taken)
        self.taken = self.taken or fits
        self.choosing, self.patterns = False, []
