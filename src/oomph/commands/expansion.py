"""What $ stands for in a shell: $NAME, ${NAME:-default}, $1, $((1 + 2)); $(...) is left as it stands."""

import os
import re
from collections.abc import Mapping
from fnmatch import fnmatchcase

from oomph.commands.call import Around
from oomph.errors import CommandError
from oomph.text.late import late_pattern

LIMIT = 1 << 16
_DEEPEST = 6  # ${A:-${B:-${C}}}
# what these print is known without running them
_KNOWN = late_pattern(r"\$\((?:(?:realpath|readlink -f|echo)\s+([^\s()]{1,400})|(pwd))\)")
# $(cat <<'EOF' ... EOF): a text that stands where it is used; one with variables in it is left
_WRITTEN = late_pattern(r"\$\(\s*cat\s+<<-?\s*(['\"])?(?P<end>\w+)(?(1)\1)\n([^$`]{0,4096}?)\n\s*(?P=end)\s*\)")
_OURS = ("HOME", "USER", "PWD")  # every shell has them, and so has this one
NAME = late_pattern(r"[A-Za-z_][A-Za-z0-9_]*")
_BRACED = late_pattern(r"([A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-])(\[[@*]\])?(?::?([-+=?])(.*))?", re.DOTALL)

_EDITED = late_pattern(r"([A-Za-z_][A-Za-z0-9_]*)(##?|%%?|//?|\^\^|,,)([^{}]{0,200})", re.DOTALL)
_LONGEST = 4096  # characters of a value that is edited

Value = str | list[str]


def edit(value: str, sign: str, pattern: str) -> str:
    """What bash makes of ${NAME<sign><pattern>}."""
    if sign == "^^":
        return value.upper()
    if sign == ",,":
        return value.lower()
    if sign in ("/", "//"):
        old, _, new = pattern.partition("/")
        return value.replace(old, new, 1 if sign == "/" else -1) if old and not set("*?[") & set(old) else value
    cuts = range(len(value) + 1) if sign in ("#", "%%") else range(len(value), -1, -1)
    for at in cuts:
        gone, rest = (value[:at], value[at:]) if sign[0] == "#" else (value[at:], value[:at])
        if fnmatchcase(gone, pattern):
            return rest
    return value


class Word:
    """A word being read; `fields` has more than one part where an unquoted variable or an array splits it."""

    def __init__(self) -> None:
        self.fields: list[str] = [""]
        self.quoted = False
        self.started = False

    def add(self, text: str) -> None:
        self.started = True
        self.fields[-1] += text

    def split(self, parts: list[str]) -> None:
        if parts:
            self.started = True
            self.fields[-1] += parts[0]
            self.fields += parts[1:]


class Expansion:
    """The part of a reader that knows variables; the reader itself finds words and quotes."""

    def __init__(self, text: str, environment: dict[str, str], around: Around, depth: int = 0) -> None:
        self.text = text
        self.at = 0
        self.depth = depth
        self.around = around
        self.exported = environment
        positional = {str(i): word for i, word in enumerate(around.arguments, 1)}
        self.variables: dict[str, Value] = {**environment, **positional}
        self.unset: list[str] = []
        self.run = False
        self.grown = 0  # characters that variables have put in

    def word(self) -> Word:
        raise NotImplementedError

    def single(self, word: Word) -> None:
        raise NotImplementedError

    def dollar(self, word: Word, *, quoted: bool) -> None:
        if self.text[self.at] == "`" or self.text.startswith("$(", self.at):
            self.substitution(word)
            return
        if self.text.startswith("$'", self.at) and not quoted:
            self.at += 1
            self.single(word)
            return
        if self.text.startswith("${", self.at):
            end = self.closing_brace()
            match = _BRACED.fullmatch(self.text, self.at + 2, end) if end > 0 else None
            if match is None and (edited := self.edited(end)) is not None:
                self.at = end + 1
                word.add(edited)
                return
            if match is None:
                word.add("$")
                self.at += 1
                return
            self.at = end + 1
            name, array, sign, default = match[1], match[2], match[3] or "", match[4] or ""
            self.expand(word, name, quoted=quoted, sign=sign, default=default, array=bool(array))
            return
        bare = NAME.match(self.text, self.at + 1)
        if bare:
            self.at = bare.end()
            self.expand(word, bare[0], quoted=quoted)
        elif self.text[self.at + 1 : self.at + 2] in tuple("123456789"):
            self.expand(word, self.text[self.at + 1], quoted=quoted)
            self.at += 2
        elif self.text[self.at + 1 : self.at + 2] in tuple("0@*#?$!-"):
            self.at += 2
        else:
            word.add("$")
            self.at += 1

    def edited(self, end: int) -> str | None:
        """${NAME##*/}, ${NAME%.gguf}, ${NAME/a/b}, ${NAME,,} of a variable that is known."""
        match = _EDITED.fullmatch(self.text, self.at + 2, end) if end > 0 else None
        value = self.variables.get(match[1], self.around.outside.get(match[1])) if match else None
        return edit(value, match[2], match[3]) if match and isinstance(value, str) and len(value) < _LONGEST else None

    def closing_brace(self) -> int:
        """The end of ${NAME:-default}, where the default may hold another ${NAME}; -1 = none."""
        depth = 0
        for at in range(self.at + 1, min(len(self.text), self.at + 1000)):
            depth += {"{": 1, "}": -1}.get(self.text[at], 0)
            if depth == 0:
                return at
        return -1

    def fields(self, text: str) -> list[str]:
        """The words that a default stands for: ${1:-"$HOME/models"}."""
        if self.depth > _DEEPEST or not any(char in text for char in "\"'$`\\ \t\n"):
            return [text] if text else []
        inner = type(self)(text, self.exported, self.around, self.depth + 1)
        inner.variables = self.variables
        out: list[str] = []
        while inner.at < len(inner.text):
            if inner.text[inner.at] in " \t\r\n;|&()<>":
                inner.at += 1
                continue
            try:
                word = inner.word()
            except CommandError:  # a quote that was meant as itself
                return [text]
            out += [field for field in word.fields if field or word.quoted]
        self.unset += inner.unset
        self.run = self.run or inner.run
        return out

    def substitution(self, word: Word) -> None:
        """$((...)) is computed; $(...) and `...` are not run: their text stays, and the command says so."""
        opened = self.at
        sum_ = re.compile(r"\$\(\(([\w\s+*/%$()-]{1,200}?)\)\)").match(self.text, self.at)
        value = arithmetic(sum_[1], self.variables) if sum_ else None
        if sum_ and value is not None:
            self.at = sum_.end()
            word.add(str(value))
            return
        if match := _KNOWN.match(self.text, self.at):
            self.at = match.end()
            word.add(" ".join(self.fields(match[1])) if match[1] else os.environ.get("PWD", "."))
            return
        if written := _WRITTEN.match(self.text, self.at):
            self.at = written.end()
            word.quoted = True
            word.add(written[3])
            return
        self.run = True
        if self.text[self.at] == "`":
            end = self.text.find("`", self.at + 1)
            self.at = len(self.text) if end < 0 else end + 1
        else:
            depth = 0
            while self.at < len(self.text):
                depth += {"(": 1, ")": -1}.get(self.text[self.at], 0)
                self.at += 1
                if depth == 0 and self.text[self.at - 1] == ")":
                    break
        word.quoted = True
        word.add(self.text[opened : self.at])

    def expand(
        self, word: Word, name: str, *, quoted: bool, sign: str = "", default: str = "", array: bool = False
    ) -> None:
        value = self.variables.get(name)
        if value is None:
            value = os.environ.get(name) if name in _OURS else self.around.outside.get(name)
        if (sign in ("-", "=") and not value) or sign == "+":
            parts = [] if sign == "+" and not value else self.fields(default)
            if sign == "=":
                self.variables[name] = " ".join(parts)
            value = " ".join(parts) if quoted else parts
            array = True
        if value is None:
            if name.isdigit() or NAME.fullmatch(name):
                self.unset.append(name)
                word.add(f"${name}")
            return
        self.grown += len(value) if isinstance(value, str) else sum(map(len, value))
        if self.grown > 16 * LIMIT:
            raise CommandError("the variables of the script grow without end")
        if isinstance(value, list):
            parts = value if array else value[:1]
            word.quoted = word.quoted or quoted
            word.split(parts)
        elif quoted:
            word.add(value)
        else:
            word.split(value.split())


# The shell's $((...)), for whole numbers.


def arithmetic(text: str, variables: Mapping[str, str | list[str]]) -> int | None:
    """1950 * 1310720, $N - 1: whole numbers, names, + - * / % and parentheses; None where it is more than that."""
    tokens = re.findall(r"\d+|\$?[A-Za-z_]\w*|[-+*/%()]|\S", text)
    at = 0

    def atom() -> int:
        nonlocal at
        token = tokens[at]
        at += 1
        if token == "(":
            value = total()
            at += tokens[at] == ")"
            return value
        if token in "+-":
            return atom() if token == "+" else -atom()
        if token.isdigit():
            return int(token)
        value_of = variables.get(token.lstrip("$"), "")
        return int(value_of) if isinstance(value_of, str) else int("")

    def product() -> int:
        nonlocal at
        value = atom()
        while at < len(tokens) and tokens[at] in "*/%":
            sign, at = tokens[at], at + 1
            other = atom()
            value = value * other if sign == "*" else _quotient(value, other) if sign == "/" else value % other
        return value

    def total() -> int:
        nonlocal at
        value = product()
        while at < len(tokens) and tokens[at] in "+-":
            sign, at = tokens[at], at + 1
            value += product() if sign == "+" else -product()
        return value

    try:
        value = total()
        return value if at == len(tokens) and abs(value) < 1 << 63 else None
    except (ValueError, IndexError, ZeroDivisionError, RecursionError, OverflowError):
        return None


def _quotient(dividend: int, divisor: int) -> int:
    """Towards zero, as C divides."""
    return abs(dividend) // abs(divisor) * (1 if (dividend < 0) == (divisor < 0) else -1)
