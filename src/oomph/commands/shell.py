"""Shell text to the commands in it, without running anything: quotes, comments, continuations, variables and arrays.

Text from forums and manuals is forgiven what their software does to it: curly quotes, long dashes, prompts, fences.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from oomph.commands.arithmetic import arithmetic
from oomph.commands.call import assignment
from oomph.errors import CommandError

_LIMIT = 1 << 16
_QUOTES = str.maketrans("“”„‘’\u00a0", "\"\"\"'' ", "\u200b\ufeff")
_LONG_DASH = re.compile(r"(?<!\S)[—–−‑]+(-?)(?=[A-Za-z])([A-Za-z][\w-]*)?")
_PROMPT = re.compile(r"^[ \t]*(?:\([\w.-]+\)[ \t]*)?(?:[\w.@:~/-]*[$%❯])[ \t]+(?=\S)", re.MULTILINE)
_FENCE = re.compile(r"^[ \t]*```.*$", re.MULTILINE)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BRACED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-])(\[[@*]\])?(?::?([-+=?])(.*))?", re.DOTALL)
_OPERATORS = ("&&", "||", ";;", ";", "|", "&", "\n", "(", ")")

TYPOGRAPHIC = frozenset("“”„‘’—–−‑\u00a0")

Value = str | list[str]


class Command(NamedTuple):
    words: tuple[str, ...]
    environment: dict[str, str]  # exported before it or set in front of it
    unset: tuple[str, ...]  # variables it uses that nobody has set
    run: bool  # it contains the output of another command, which is not run


def plain(text: str) -> str:
    """Curly quotes, long dashes, prompts and code fences as a terminal would want them."""
    text = text.replace("\r\n", "\n").translate(_QUOTES)
    if any(dash in text for dash in "—–−‑"):
        text = _LONG_DASH.sub(lambda m: ("-" if len(m[2] or "") < 4 and not m[1] else "--") + (m[2] or ""), text)
    return _PROMPT.sub("", _FENCE.sub("", text))


def commands(text: str, environment: Mapping[str, str] | None = None) -> list[Command]:
    """Every simple command of a script in order; keywords such as `then` stay as its first word."""
    if len(text) > _LIMIT:
        raise CommandError(f"a script of {len(text)} characters is too long to be a serve command")
    return _Reader(plain(text), dict(environment or {})).read()


class _Word:
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


class _Reader:
    def __init__(self, text: str, environment: dict[str, str]) -> None:
        self.text = text
        self.at = 0
        self.exported = environment
        self.variables: dict[str, Value] = dict(environment)
        self.found: list[Command] = []
        self.grown = 0  # characters that variables have put in
        self.start()

    def start(self) -> None:
        self.words: list[str] = []
        self.unset: list[str] = []
        self.run = False

    def read(self) -> list[Command]:
        while self.at < len(self.text):
            if self.operator() or self.blank() or self.redirect():
                continue
            word = self.word()
            self.words += [field for field in word.fields if field or word.quoted]
            self.array(word)
        self.finish()
        return self.found

    def operator(self) -> bool:
        # a line that starts with a flag: the backslash before it was lost in a post
        lost = re.compile(r"\n\s*(?=--?[A-Za-z])").match(self.text, self.at)
        if lost and self.words:
            self.at = lost.end()
            return True
        for sign in _OPERATORS:
            if self.text.startswith(sign, self.at):
                if sign == "&" and self.text.startswith("&>", self.at):
                    return False
                self.at += len(sign)
                self.finish()
                return True
        return False

    def blank(self) -> bool:
        char = self.text[self.at]
        if char in " \t\r":
            self.at += 1
            return True
        if arguments := re.compile(r"\"?\$[@*]\"?(?=[\s;|&)]|\Z)").match(self.text, self.at):  # the script's own: none
            self.at = arguments.end()
            return True
        if char == "#":
            end = self.text.find("\n", self.at)
            self.at = len(self.text) if end < 0 else end
            return True
        return self.continuation()

    def continuation(self) -> bool:
        """A backslash before the end of a line, spaces in between forgiven; ^ and ` as other shells have it."""
        match = re.compile(r"[\\^`][ \t]*(?:\n|\Z)").match(self.text, self.at)
        if match:
            self.at = match.end()
        return match is not None

    def redirect(self) -> bool:
        match = re.compile(r"\d*(?:&>>?|>>|>&|<<<|<<-?|<&|>\||>|<)[ \t]*").match(self.text, self.at)
        if match is None:
            return False
        self.at = match.end()
        here = "<<" in match[0] and "<<<" not in match[0]
        target = self.word().fields[0] if self.at < len(self.text) and self.text[self.at] not in "\n;|&" else ""
        if here and target:
            line = self.text.find("\n", self.at)
            end = re.compile(rf"^[ \t]*{re.escape(target)}[ \t]*$", re.MULTILINE).search(self.text, max(line, self.at))
            if line >= 0:
                self.text = self.text[:line] + (self.text[end.end() :] if end else "")
        return True

    def word(self) -> _Word:
        word = _Word()
        while self.at < len(self.text):
            char = self.text[self.at]
            if char in " \t\r\n;|&()<>" or (char == "`" and self.continuation()):
                break
            if char == "\\":
                if self.continuation():
                    break
                word.add(self.text[self.at + 1 : self.at + 2])
                self.at += 2
            elif char == "'":
                self.single(word)
            elif char == '"':
                self.double(word)
            elif char in "$`":
                self.dollar(word, quoted=False)
            else:
                word.add(char)
                self.at += 1
        if not word.started and not word.quoted and self.at < len(self.text) and self.text[self.at] in "<>":
            self.at += 1
        return word

    def single(self, word: _Word) -> None:
        end = self.text.find("'", self.at + 1)
        if end < 0:
            raise CommandError(f"a single quote is not closed: {self.text[self.at : self.at + 40]!r}")
        word.quoted = True
        word.add(self.text[self.at + 1 : end])
        self.at = end + 1

    def double(self, word: _Word) -> None:
        opened = self.at
        self.at += 1
        word.quoted = True
        word.add("")
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == '"':
                self.at += 1
                return
            if char == "\\" and self.text[self.at + 1 : self.at + 2] in ('"', "\\", "$", "`", "\n"):
                word.add(self.text[self.at + 1].replace("\n", ""))
                self.at += 2
            elif char in "$`":
                self.dollar(word, quoted=True)
            else:
                word.add(char)
                self.at += 1
        raise CommandError(f"a double quote is not closed: {self.text[opened : opened + 40]!r}")

    def dollar(self, word: _Word, *, quoted: bool) -> None:
        if self.text[self.at] == "`" or self.text.startswith("$(", self.at):
            self.substitution(word)
            return
        if self.text.startswith("$'", self.at) and not quoted:
            self.at += 1
            self.single(word)
            return
        if self.text.startswith("${", self.at):
            end = self.text.find("}", self.at)
            match = _BRACED.fullmatch(self.text, self.at + 2, end) if end > 0 else None
            if match is None:
                word.add("$")
                self.at += 1
                return
            self.at = end + 1
            name, array, sign, default = match[1], match[2], match[3] or "", match[4] or ""
            self.expand(word, name, quoted=quoted, sign=sign, default=default, array=bool(array))
            return
        bare = _NAME.match(self.text, self.at + 1)
        if bare:
            self.at = bare.end()
            self.expand(word, bare[0], quoted=quoted)
        elif self.text[self.at + 1 : self.at + 2] in tuple("0123456789@*#?$!-"):
            self.at += 2
        else:
            word.add("$")
            self.at += 1

    def substitution(self, word: _Word) -> None:
        """$((...)) is computed; $(...) and `...` are not run: their text stays, and the command says so."""
        opened = self.at
        sum_ = re.compile(r"\$\(\(([\w\s+*/%$()-]{1,200}?)\)\)").match(self.text, self.at)
        value = arithmetic(sum_[1], self.variables) if sum_ else None
        if sum_ and value is not None:
            self.at = sum_.end()
            word.add(str(value))
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
        self, word: _Word, name: str, *, quoted: bool, sign: str = "", default: str = "", array: bool = False
    ) -> None:
        value = self.variables.get(name)
        if sign in ("-", "=") and not value:
            value = default
        elif sign == "+":
            value = default if value else ""
        if value is None:
            if not name.isdigit() and _NAME.fullmatch(name):
                self.unset.append(name)
                word.add(f"${name}")
            return
        self.grown += len(value) if isinstance(value, str) else sum(map(len, value))
        if self.grown > 16 * _LIMIT:
            raise CommandError("the variables of the script grow without end")
        if isinstance(value, list):
            parts = value if array else value[:1]
            word.quoted = word.quoted or quoted
            word.split(parts)
        elif quoted:
            word.add(value)
        else:
            word.split(value.split())

    def array(self, word: _Word) -> None:
        """ARGS=(a b c) and ARGS+=(d): what follows the '=' up to the closing parenthesis."""
        match = re.fullmatch(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=", word.fields[0]) if len(word.fields) == 1 else None
        if match is None or not self.text.startswith("(", self.at):
            return
        self.at += 1
        items: list[str] = []
        while self.at < len(self.text) and self.text[self.at] != ")":
            if self.text[self.at] in "\n;|&(":
                self.at += 1
            elif not self.blank() and not self.redirect():
                inner = self.word()
                items += [field for field in inner.fields if field or inner.quoted]
        self.at += 1
        old = self.variables.get(match[1])
        self.variables[match[1]] = (old if isinstance(old, list) and match[2] else []) + items
        self.words.pop()

    def finish(self) -> None:
        words, environment, index = self.words, dict(self.exported), 0
        while index < len(words) and (pair := assignment(words[index].replace("+=", "=", 1))):
            environment[pair[0]] = pair[1]
            index += 1
        rest = words[index:]
        if not rest:
            for word in words:
                self.assign(word, export=False)
        elif rest[0] in ("export", "declare", "local", "readonly", "typeset", "set"):
            for word in rest[1:]:
                self.assign(word, export=rest[0] == "export")
        else:
            self.found.append(Command(tuple(rest), environment, tuple(self.unset), self.run))
        self.start()

    def assign(self, word: str, *, export: bool) -> None:
        name, sign, value = word.partition("=")
        append = name.endswith("+")
        name = name.removesuffix("+")
        if not _NAME.fullmatch(name):
            return
        old = self.variables.get(name, "")
        if sign:
            self.variables[name] = (old if append and isinstance(old, str) else "") + value
        current = self.variables.get(name)
        if isinstance(current, str) and (export or name in self.exported):
            self.exported[name] = current


def quote(word: str) -> str:
    """A word as a shell needs it; K=V keeps its name outside of the quotes."""
    from shlex import quote as shell_quote

    pair = assignment(word)
    return f"{pair[0]}={shell_quote(pair[1])}" if pair else shell_quote(word)
