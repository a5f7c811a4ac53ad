"""What must never leave the program: API keys, tokens, passwords, credentials in addresses.

Every output passes `Secrets.hide` (the command line's streams, files, the page, agents, the learnt starts): what people
see of oomph is what they paste into issues. A secret is known by the name before it (`--api-key`, `'hf_token': `,
`secrets/words.py`), by where it stands (`user:password@host`, `docker login -p`, `secrets/places.py`), by its looks
(`hf_...`, capitals and figures in no order), or because it was seen as one before: what is found
once is hidden wherever it is printed again, also where nothing stands before it.
"""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from oomph.text.secrets.places import (
    CALL,
    CELL,
    CONTEXT,
    CONTEXT_NEEDLES,
    DEFAULT,
    FALLBACK,
    NAMED,
    NEEDLES,
    NO_NEEDLES,
    NOT_ASCII_NEEDLES,
    ONLY_WITH,
    OPEN,
    OPTION,
    PAIRED,
    PHRASE,
    SPACED,
    SURE,
    TAG,
    TOLD,
    VALUE,
    blocks,
    pattern,
    patterns,
)
from oomph.text.secrets.values import Place, certainty_of, is_argument, is_no_secret, is_path
from oomph.text.secrets.words import (
    SHAPE,
    Says,
    ends_sentence,
    is_certain_key,
    is_harmless,
    is_key,
    is_name,
    is_passphrase,
    is_plain_word,
    is_random,
    is_reference,
    says,
)

HIDDEN = "***"
_SHORTEST = 6  # a shorter value is hidden in its place only: elsewhere it could be any word
_MOST_KNOWN = 1000
_MOST_IN_ONE_VALUE = 8  # names that a value may hold, each with the rest as its value
_SEPARATORS = frozenset(":=&?%@$;,")
_RUN = "[A-Za-z0-9]{16}"
_LONG = 20  # characters of a word that could be a key by its looks alone
_NEEDLES_OF_NAMES = ("TOKEN", "KEY", "SECRET", "PASS", "PWD", "CREDENTIAL", "AUTH", "WEBHOOK")
# A container's variable is hidden unless an engine reads it.
_ENGINE_VARIABLES = (
    "VLLM_", "CUDA_", "NVIDIA_", "NCCL_", "PYTORCH_", "TORCH", "OLLAMA_", "LLAMA_", "GGML_", "SGLANG_", "SGL_",
    "TRTLLM_", "TLLM_", "HF_H", "HF_DATASETS", "HF_ENDPOINT", "TRANSFORMERS_", "OMP_", "MKL_", "RAY_", "HIP_", "ROCR_",
    "HSA_", "XLA_", "TRITON_", "FLASHINFER_", "LD_", "PATH", "HOME", "LANG", "LC_", "TZ", "MODEL", "PORT", "HOST",
    "PYTHON", "UV_", "PIP_",
)  # fmt: skip
# A line's end inside a text of JSON or Python, as a line's end; the blank before it says how many backslashes it had.
_ENDS = (("\\\\\\n", "\x1e\n"), ("\\\\n", "\x1d\n"), ("\\n", "\x1c\n"))
# A folder of Windows that begins with n, in a text and in one of JSON: \\nas\models, C:\new\x. No line ends there.
_FOLDER = (
    r"(?<![\w\\])(?:\\{2}(?=n[\w.$-]{0,60}\\\w)|\\{4}(?=n[\w.$-]{0,60}\\{2}\w)|[A-Za-z]:\\{1,2}(?=n[\w.$-]{0,60}\\))"
)
_NO_END = "\x1b"
_IN_QUOTES = (CALL, DEFAULT, FALLBACK)  # without quotes the value is an expression


class Secrets:
    """What is known to be secret, in one process."""

    def __init__(self) -> None:
        self._known: list[str] = []  # the longest first

    def hide(self, text: str) -> str:
        """The text without its secrets. Each secret that is found is remembered."""
        if "\\u" in text and (decoded := _with_letters(text)) != text:  # a name in JSON
            self.hide(decoded)
        if _may_hold_one(text):
            marked, is_marked = _with_ends(text)
            lowered = marked.lower()
            for block, entry in blocks().values():
                marked = block.sub(lambda match, entry=entry: self._hide_block(match, entry), marked)  # type: ignore[misc]
            for name, rule in patterns().items():
                if name in ONLY_WITH and not any(word in lowered for word in ONLY_WITH[name]):
                    continue
                if name == "flag":
                    marked = rule.sub(self._hide_flag, marked)
                elif name == "private key":
                    marked = rule.sub(lambda match: self._hide_value(match[0]), marked)
                else:
                    marked = rule.sub(lambda match, name=name: self._hide_place(match, name), marked)  # type: ignore[misc]
            for head in (PAIRED, NAMED, CALL, DEFAULT, FALLBACK, TAG, SPACED, TOLD, CELL):
                marked = self._hide_named(marked, head)
            marked = pattern(SHAPE, cased=True).sub(lambda match: self._hide_value(match[0]), marked)
            marked = self._hide_keys(marked)
            text = _without_ends(marked) if is_marked else marked
        return self.hide_known(text)

    def hide_known(self, text: str) -> str:
        """Without what is known already: for markup, whose texts were looked at one by one."""
        for value in self._known:
            if value in text:
                text = text.replace(value, HIDDEN)
        return text

    def knows_part_of(self, text: str) -> bool:
        """Something that is known to be secret stands in it."""
        return any(value in text for value in self._known)

    def is_about(self, text: str) -> bool:
        """It is a secret, holds one, or is the name of one, so that a secret may stand beside it."""
        return self.hide(text) != text or is_name(text)

    def hide_fields(self, value: Any) -> Any:
        """The same of a JSON value, text by text: what is left is as well-formed as it was."""
        if isinstance(value, str):
            return self.hide(value)
        if isinstance(value, list | tuple):
            self.learn_words(text for text in value if isinstance(text, str))
            return [self.hide_fields(item) for item in value]
        if isinstance(value, dict):
            pair = value.get("name"), value.get("value")  # a manifest's {name: HF_TOKEN, value: ...}
            if isinstance(pair[0], str) and isinstance(pair[1], str) and is_name(pair[0]):
                value = {**value, "value": self._hide_value(pair[1])}
            return {
                self.hide(name) if isinstance(name, str) else name: self._hide_value(item)
                if isinstance(item, str) and isinstance(name, str) and is_name(name)
                else self.hide_fields(item)
                for name, item in value.items()
            }
        return value

    def learn(self, value: str) -> None:
        """A value of which its owner says that it is secret."""
        if value not in self._known and len(value) >= _SHORTEST and len(self._known) < _MOST_KNOWN:
            self._known = sorted([*self._known, value], key=len, reverse=True)

    def learn_environment(self, environment: Mapping[str, str]) -> None:
        """The user's own variables: HF_TOKEN, a proxy's password."""
        for name, value in environment.items():
            named = any(needle in name.upper() for needle in _NEEDLES_OF_NAMES)
            if len(value) > 4000 or not (named or "@" in value):
                continue
            if named and not value.startswith(("/", ".", "~", "$")) and not value.isdigit() and " " not in value:
                if says(name) is Says.SECRET or (says(name) and is_random(value)):
                    self.learn(value)
            else:
                self.hide(value)

    def learn_words(self, words: Iterable[str]) -> None:
        """A command line: `--api-key VALUE` as two words, whatever characters the value has."""
        listed = list(words)
        for word, value in zip(listed, [*listed[1:], ""]):
            if len(word) > 100_000 or not any(needle in word.lower() for needle in NEEDLES):
                continue
            if word.startswith("--") and is_name(word):
                if not value.startswith("-") and not is_harmless(value):
                    self.learn(value)
            else:
                self.hide(word)

    def _hide_flag(self, match: re.Match[str]) -> str:
        """The first word is the value; those behind it are values too as long as they are no words of a sentence."""
        certainty = says(match["name"])
        if not certainty:
            return match[0]
        words = list(pattern(r"[^\s\"'`,=\\\[\]]+").finditer(match["values"]))
        words = [word for word in words if word[0] != "-"]  # of a list in a manifest
        phrase = pattern(PHRASE).match(match["values"]) if certainty is Says.SECRET else None
        if phrase is not None and is_passphrase(phrase["quoted"]):
            return match["before"] + _replaced(match["values"], phrase.span("quoted"), HIDDEN)
        texts = [word[0] for word in words]
        is_sure = certainty is Says.SECRET and _is_of_command(match, words)
        is_closed = bool(words) and match["values"][words[0].end() :][:1] in ("'", '"')
        if len(texts) > 1 and not is_closed and is_plain_word(texts[0]) and is_plain_word(texts[1]):
            return match[0]
        if texts and texts[0].isalpha() and pattern(r"[ \t]{2,}[A-Za-z]").match(match["values"], words[0].end()):
            return match[0]  # of a help text: `--secret stringArray   Secret to expose`
        out, at = [match["before"]], 0
        for number, word in enumerate(words):
            if (number or certainty is Says.PERHAPS) and (not is_random(word[0]) or "/" in word[0]):
                break
            if (
                is_harmless(word[0], is_sure)
                or is_path(word[0])
                or word[0].startswith("(")
                or is_argument(match["values"], word)
                or ends_sentence(word[0])
                or is_reference(word[0])
            ):
                break
            out += [match["values"][at : word.start()], self._hide_value(word[0], is_sure)]
            at = word.end()
        return "".join([*out, match["values"][at:]])

    def _hide_keys(self, text: str) -> str:
        """What is in no order: in a line that speaks of a secret or stands below one (also alone, as what a command
        prints), or if it can be nothing else."""
        lines, long_run = text.split("\n"), pattern(rf"[A-Za-z0-9]{{{_LONG},}}", cased=True)
        above: list[
            tuple[int, bool]
        ] = []  # the lines under which this one is indented: how far, and whether they speak of one
        is_public, spoke = False, False  # inside of a certificate; the line before
        for number, line in enumerate(lines):
            if "-----" in line:
                is_public = "-----BEGIN" in line and "PRIVATE" not in line
            if len(line) < 10 or is_public:
                continue
            indent = len(line) - len(line.lstrip())
            while above and above[-1][0] >= indent:
                above.pop()
            own = _speaks(line)
            speaks, spoke = any(each for _, each in above) or own or (spoke and " " not in line.strip()), own
            if line.rstrip().endswith((":", "{", "[")):
                above.append((indent, speaks))
            if speaks or long_run.search(line):
                lines[number] = self._hide_line(line, speaks)
        return "\n".join(lines)

    def _hide_line(self, line: str, speaks: bool) -> str:
        if pattern(OPEN).search(line):
            return line
        decide = is_key if speaks else is_certain_key
        word = pattern(r"[\w~+/=!*.$%^-]{10,400}")
        return word.sub(
            lambda one: (
                self._hide_value(one[0]) if decide(one[0]) and not is_path(one[0].rpartition("=")[2]) else one[0]
            ),
            line,
        )

    def _hide_block(self, match: re.Match[str], entry: re.Pattern[str]) -> str:
        name = match.groupdict().get("name")
        if name and says(name) is not Says.SECRET:
            return match[0]
        is_sure = entry not in (blocks()["cookie"][1], blocks()["cookies"][1])
        return match["before"] + entry.sub(
            lambda one: one["before"] + self._hide_value(one["bare"], is_sure), match["block"]
        )

    def _hide_place(self, match: re.Match[str], rule: str) -> str:
        groups, whole = match.groupdict(), match[0]
        name = groups.get("name")
        if name and name.upper().startswith(_ENGINE_VARIABLES) and not says(name):
            return whole
        for key in ("quoted", "bare"):
            value = groups.get(key)
            if value is not None:
                if is_no_secret(rule, value, key, match):
                    return whole
                start = match.start(key) - match.start()
                is_piped = rule == "echo" and match.string[match.end() :].lstrip().startswith("|")
                is_sure = rule in SURE or is_piped or (name is not None and says(name) is Says.SECRET)
                return whole[:start] + self._hide_value(value, is_sure) + whole[start + len(value) :]
        return whole

    def _hide_named(self, text: str, head: str) -> str:
        """The values behind names. What is no secret may hold the name of one: the search goes on behind the name."""
        out, at, position, in_one_value = [], 0, 0, (0, 0)
        while match := pattern(head).search(text, position):
            position = match.end("name")
            certainty = certainty_of(match, head)
            value = pattern(VALUE).match(text, match.end()) if certainty else None
            if value is not None:
                end, count = in_one_value
                in_one_value = value.end(), count + 1 if match.start() < end else 0
                if count > _MOST_IN_ONE_VALUE:
                    position = value.end()
                    continue
            if value is None or (head in (SPACED, *_IN_QUOTES, TOLD, CELL) and value["list"] is not None):
                continue
            if head in _IN_QUOTES and value["quoted"] is None:
                continue  # option("--token", envvar="HF_TOKEN")
            place = Place(match, value, certainty, head, text)
            if (span := place.secret_span()) is None:
                continue
            start, end = span
            hidden = (
                self._hide_listed(text[start:end], place)
                if value["list"] is not None
                else self._hide_value(text[start:end], is_sure=True)
            )
            out += [text[at:start], hidden]
            at = position = end
        return "".join([*out, text[at:]]) if out else text

    def _hide_listed(self, text: str, place: Place) -> str:
        word = pattern(r"[^\s\"'`,=\\\[\]]+")
        is_sure = place.is_sure("list")
        return word.sub(lambda one: self._hide_value(one[0], is_sure) if place.may_list(one[0]) else one[0], text)

    def _hide_value(self, value: str, is_sure: bool = False) -> str:
        """What is printed in its place. A stranger's value is looked for elsewhere only if it is not a plain word."""
        if is_harmless(value, is_sure):
            return value
        for part in (value, value.partition(":")[2]):  # user:password, and the password alone
            if any(c.isdigit() for c in part) and any(c.isalpha() for c in part):
                self.learn(part)
        return HIDDEN


def _is_of_command(match: re.Match[str], words: Sequence[re.Match[str]]) -> bool:
    """`--api-key word` as people type it: in quotes, behind `=`, or in a line of further options."""
    if not words:
        return False
    between = match["values"][: words[0].start()]
    if any(sign in between for sign in "=\n\"'"):
        return True
    text, start = match.string, match.start()
    rest = text[match.start("values") + words[0].end() :][:200].partition("\n")[0].strip()
    line = text[max(0, start - 400) : start].rpartition("\n")[2].strip()
    is_last = (
        rest[:1] in ("", '"', "'", ";", "|", "&") and line[:1] != "-" and (not line or "/" in line or " -" in line)
    )
    return is_last or rest[:1] == "-" or "/" in rest.partition(" ")[0]


def _replaced(text: str, span: tuple[int, int], by: str) -> str:
    return text[: span[0]] + by + text[span[1] :]


def _speaks(line: str) -> bool:
    line = _with_letters(line)
    lowered = line.lower()
    if line.isascii() and not any(needle in lowered for needle in CONTEXT_NEEDLES):
        return False
    return pattern(CONTEXT).search(line) is not None


def _with_letters(text: str) -> str:
    """The letters of JSON's escapes, so that a word of any language is read there too."""
    return pattern(r"\\u[0-9a-f]{4}").sub(lambda one: chr(int(one[0][2:], 16)), text) if "\\u" in text else text


def _may_hold_one(text: str) -> bool:
    """Most screens hold none, and to compile what looks for one takes as long as a plan."""
    text = _with_letters(text)
    lowered = text.lower()
    for word in NO_NEEDLES:
        lowered = lowered.replace(word, " ")
    if any(needle in lowered for needle in NEEDLES) or pattern(OPTION).search(lowered):
        return True
    if any(_may_be_one(word) for word in _without_bars(text).split() if len(word) >= _LONG):
        return True
    return not text.isascii() and any(needle in lowered for needle in NOT_ASCII_NEEDLES)


def _may_be_one(word: str) -> bool:
    """Of several parts (host:port:base:user:password), or with a long run: no model's name, no flag. Shapes of keys
    whose runs are shorter have a needle."""
    return not _SEPARATORS.isdisjoint(word.strip(",:;\"'()")) or pattern(_RUN, cased=True).search(word) is not None


def _without_bars(text: str) -> str:
    """Without what pictures of memory are drawn with: no key has four such signs in a row."""
    text = text.replace("|", " ")
    for sign in "#=-~+.":
        text = text.replace(sign * 4, " ")
    return text


def _with_ends(text: str) -> tuple[str, bool]:
    """Lines of a text inside JSON or Python as lines, so that one set of rules reads both."""
    if "\\n" not in text or any(mark in text for mark in (_NO_END, *(mark[0] for _, mark in _ENDS))):
        return text, False
    text = pattern(_FOLDER).sub(lambda folder: folder[0] + _NO_END, text)
    for end, mark in _ENDS:
        tab, sign = end[:-1] + "t", "\t" + mark[0]
        text = text.replace(end, mark).replace(mark + tab, mark + sign)
    return text, True


def _without_ends(text: str) -> str:
    for end, mark in _ENDS:
        text = text.replace(mark, end).replace("\t" + mark[0], end[:-1] + "t")
    return text.replace(_NO_END, "")


_session: Secrets | None = None


def session() -> Secrets:
    """What this process knows to be secret: the user's own variables and command line, and what was found since."""
    return _session or start_session(())


def start_session(words: Sequence[str]) -> Secrets:
    global _session
    _session = Secrets()
    _session.learn_environment(os.environ)
    _session.learn_words(words)
    return _session


def hide_secrets(text: str) -> str:
    return session().hide(text)
