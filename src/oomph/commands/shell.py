"""Shell text to the commands in it, without running anything: quotes, comments, continuations, variables and arrays.

What a text has from the place it was copied from is taken off before (pasted.py).
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from oomph.commands.call import UNSET, Around, assignment
from oomph.commands.conditions import Flow, evaluate
from oomph.commands.expansion import LIMIT, NAME, Expansion, Word
from oomph.errors import CommandError
from oomph.text.late import late_pattern

_MOST_ROUNDS = 64  # of all loops of a script
_PLACEHOLDER = late_pattern(r"<[^<>\s|&;]{1,60}>")  # <your-token>: a manual's, which a shell would take for a file
_OPERATORS = ("&&", "||", ";;", ";", "|", "&", "\n", "(", ")")


class Command(NamedTuple):
    words: tuple[str, ...]
    environment: dict[str, str]  # exported before it or set in front of it
    unset: tuple[str, ...]  # variables it uses that nobody has set
    run: bool  # it contains the output of another command, which is not run
    files: Mapping[
        str, str
    ] = {}  # path -> text that the script has written there before: cat > FILE <<EOF, echo > FILE


_TEMPLATED = late_pattern(r"\{\{ ?([A-Za-z_]\w{0,80}) ?\}\}")  # Jinja's, in a script that a tool fills in


class Script(NamedTuple):
    commands: list[Command]
    documents: list[str]  # what stands between <<EOF and EOF: a manifest, a unit, another script


def commands(text: str, environment: Mapping[str, str] | None = None) -> list[Command]:
    """Every simple command of a script in order; keywords such as `then` stay as its first word."""
    return script(text, environment).commands


def script(text: str, environment: Mapping[str, str] | None = None, around: Around | None = None) -> Script:
    """The same with what stands around the text, and with its here-documents."""
    from oomph.commands.pasted import plain

    if len(text) > LIMIT:
        raise CommandError(f"a script of {len(text)} characters is too long to be a serve command")
    reader = _Reader(_TEMPLATED.sub(r"${\1}", plain(text)), dict(environment or {}), around or Around())
    return Script(reader.read(), reader.documents)


class _Loop:
    """A loop that is being read: its variable, the words that are left for it, and where its body begins."""

    def __init__(self, name: str = "", words: list[str] | None = None, start: int = 0) -> None:
        self.name = name
        self.words = words or []
        self.start = start


class _Reader(Expansion):
    def __init__(self, text: str, environment: dict[str, str], around: Around, depth: int = 0) -> None:
        super().__init__(text, environment, around, depth)
        self.found: list[Command] = []
        self.documents: list[str] = []
        self.files: dict[str, str] = {}
        self.flow = Flow()
        self.loops: list[_Loop] = []
        self.rounds = _MOST_ROUNDS
        self.last: bool | None = None  # how the command before ended, where that is known
        self.skipped = False  # by && or ||
        self.start()

    def start(self) -> None:
        self.words: list[str] = []
        self.unset: list[str] = []
        self.run = False
        self.target = ""  # the file that its output goes to
        self.document: str | None = None  # what stands between <<EOF and EOF behind it

    def read(self) -> list[Command]:
        while self.at < len(self.text):
            if self.operator() or self.blank() or self.inline_file() or self.redirect():
                continue
            word = self.word()
            self.words += [field for field in word.fields if field or word.quoted]
            self.array(word)
        self.finish()
        return self.found

    def operator(self) -> bool:
        # a line that starts with a flag: the backslash before it was lost in a post
        line_end = re.compile(r"\n\s{0,200}(?=--?[A-Za-z])").match(self.text, self.at) if self.words else None
        if line_end:
            self.at = line_end.end()
            return True
        for sign in _OPERATORS:
            if self.text.startswith(sign, self.at):
                if sign == "&" and self.text.startswith("&>", self.at):
                    return False
                self.at += len(sign)
                self.finish(sign)
                self.skipped = (sign == "&&" and self.last is False) or (sign == "||" and self.last is True)
                return True
        return False

    def blank(self) -> bool:
        char = self.text[self.at]
        if char in " \t\r":
            self.at += 1
            return True
        if arguments := re.compile(r"\"?\$(?:[@*]|\{[@*]\})\"?(?=[\s;|&)]|\Z)").match(self.text, self.at):
            self.at = arguments.end()
            self.words += self.around.arguments
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

    def inline_file(self) -> bool:
        """<(echo TEXT): a file that the shell writes on the fly. Its text stands for its name."""
        match = re.compile(r"<\([ \t]*(?:echo|printf)[ \t]+").match(self.text, self.at)
        if match is None:
            return False
        self.at = match.end()
        pieces: list[str] = []
        while self.at < len(self.text) and self.text[self.at] != ")":
            if not self.blank():
                before, word = self.at, self.word()
                pieces += word.fields
                self.at += self.at == before  # a sign that no word begins with
        self.at += 1
        self.words.append(" ".join(pieces))
        return True

    def redirect(self) -> bool:
        match = re.compile(r"\d*(?:&>>?|>>|>&|<<<|<<-?|<&|>\||>|<)[ \t]*").match(self.text, self.at)
        if match is None or _PLACEHOLDER.match(self.text, self.at):
            return False
        self.at = match.end()
        here = "<<" in match[0] and "<<<" not in match[0]
        sign = match[0].strip()
        target = self.word().fields[0] if self.at < len(self.text) and self.text[self.at] not in "\n;|&" else ""
        if here and target:
            line = self.text.find("\n", self.at)
            end = re.compile(rf"^[ \t]*{re.escape(target)}[ \t]*$", re.MULTILINE).search(self.text, max(line, self.at))
            if line >= 0:
                self.document = self.text[line + 1 : end.start() if end else None]
                self.documents.append(self.document)
                self.text = self.text[:line] + (self.text[end.end() :] if end else "")
        elif target and sign in (">", ">>", "1>", ">|"):
            self.target = target
        return True

    def word(self) -> Word:
        word = Word()
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == "<" and (placeholder := _PLACEHOLDER.match(self.text, self.at)):
                word.add(placeholder[0])
                self.at = placeholder.end()
                continue
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

    def single(self, word: Word) -> None:
        end = self.text.find("'", self.at + 1)
        if end < 0:
            raise CommandError(f"a single quote is not closed: {self.text[self.at : self.at + 40]!r}")
        word.quoted = True
        word.add(self.text[self.at + 1 : end])
        self.at = end + 1

    def double(self, word: Word) -> None:
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

    def array(self, word: Word) -> None:
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
        self.words.pop()
        if self.words and self.words[0] in ("then", "else", "do"):
            self.words = self.flow.take(self.words)
        if self.flow.active and not self.skipped:
            old = self.variables.get(match[1])
            self.variables[match[1]] = (old if isinstance(old, list) and match[2] else []) + items

    def finish(self, sign: str = "") -> None:
        self.loop(self.words)
        words = self.flow.take(self.words, sign)
        if words and self.flow.active and not self.skipped:
            self.last = evaluate(words)
            self.command(words)
        elif sign not in ("&&", "||"):
            self.last = None
        self.flow.ended(sign)
        self.start()

    def loop(self, words: list[str]) -> None:
        """`for NAME in a b c; do ...; done`, once for each word where all of them are known."""
        runs = self.flow.active and not self.skipped
        if words[:1] == ["for"] and words[2:3] == ["in"] and NAME.fullmatch(words[1]):
            is_known = runs and not any(UNSET.search(word) or "{" in word or "*" in word for word in words[3:])
            self.loops.append(_Loop(words[1], words[3:] if is_known else [], self.at))
        elif words[:1] in (["for"], ["while"], ["until"], ["select"]):
            self.loops.append(_Loop())
        elif words[:1] == ["done"] and self.loops:
            loop = self.loops[-1]
            self.rounds -= 1
            if not loop.words or self.rounds < 0:
                self.loops.pop()
                return
            self.at = loop.start
        else:
            return
        loop = self.loops[-1]
        if loop.words:
            self.variables[loop.name] = loop.words.pop(0)

    def command(self, words: list[str]) -> None:
        environment, index = dict(self.exported), 0
        while index < len(words) and (pair := assignment(words[index].replace("+=", "=", 1))):
            environment[pair[0]] = pair[1]
            index += 1
        rest = words[index:]
        self.write(rest)
        if not rest:
            for word in words:
                self.assign(word, export=False)
        elif rest[0] in ("export", "declare", "local", "readonly", "typeset", "set"):
            for word in rest[1:]:
                self.assign(word, export=rest[0] == "export")
        else:
            files = dict(self.files)
            self.found.append(Command(tuple(rest), environment, tuple(self.unset), self.run, files))

    def write(self, words: list[str]) -> None:
        """cat > FILE <<EOF, tee FILE <<EOF, echo TEXT > FILE: later commands may read the file."""
        program = words[0] if words else ""
        target = next((word for word in words[1:] if not word.startswith("-")), "") if program == "tee" else self.target
        text = self.document
        if text is None and program in ("echo", "printf"):
            text = " ".join(word for word in words[1:] if word not in ("-e", "-n", "-en", "-ne")).replace("\\n", "\n")
        if target and text is not None and len(self.files) < 100:
            self.files[target] = text

    def assign(self, word: str, *, export: bool) -> None:
        name, sign, value = word.partition("=")
        append = name.endswith("+")
        name = name.removesuffix("+")
        if not NAME.fullmatch(name):
            return
        old = self.variables.get(name, "")
        if sign and not append and _is_printed(value):  # what a program prints is not known: as if nobody set it
            self.variables.pop(name, None)
        elif sign:
            self.variables[name] = (old if append and isinstance(old, str) else "") + value
        current = self.variables.get(name)
        if isinstance(current, str) and (export or name in self.exported):
            self.exported[name] = current


def _is_printed(value: str) -> bool:
    """Whether a value is one substitution from end to end: $(sed -n "$((N + 1))p" models.txt), `cat x`."""
    if value.startswith("`"):
        return len(value) > 1 and value.find("`", 1) == len(value) - 1
    depth = 0
    for at, letter in enumerate(value[1:] if value.startswith("$(") else "", 1):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return at == len(value) - 1
    return False
