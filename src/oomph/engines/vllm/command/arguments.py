"""Words to flags as vLLM's FlexibleArgumentParser reads them: argparse, plus underscores, -O3 and dotted JSON."""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from msgspec import Struct

from oomph.commands.call import UNSET, short, shown
from oomph.engines.common.arguments import (
    NEGATIVE,
    SWITCHES,
    Unread,
    Use,
    check_count,
    most_words,
    read_words,
)
from oomph.engines.vllm.command.values import (
    Refused,
    check_keys,
    human_int,
    json_text,
    json_value,
    parse_words,
    refuse,
)
from oomph.errors import CommandError
from oomph.facts.vllm.flags import Flag, Options, Status, negated, options_of

_EXTRA = ("--config", "--help", "-h")  # in the parser, yet no setting


class NoSuchFlag(CommandError):
    """A flag that the release does not have; another one may."""

    def __init__(self, status: Status, hint: str, where: str = "") -> None:
        super().__init__(where + status.sentence, hint=hint)
        self.status = status


class Parsed(Struct, frozen=True):
    flags: dict[str, Any]
    positional: tuple[str, ...]
    notes: tuple[str, ...]


def parse(words: Sequence[str], options: Options) -> Parsed:
    """The flags by field, the last one given winning, and the words that belong to none."""
    flags: dict[str, Any] = {}
    notes: list[str] = []
    positional: list[str] = []
    names = _names(options.release)
    try:
        for use in read_words(_dotted(_spelled(words, options), options), names, lambda name: _most(names[name])):
            if use.name:
                _take(flags, notes, use, options)
            else:
                _not_a_value(use.texts[0], use.before, options)
                positional += use.texts
    except Unread as unread:
        raise _refusal(unread, options) from None
    return Parsed(flags, tuple(positional), tuple(notes))


@lru_cache(maxsize=64)
def _names(release: str) -> dict[str, Flag | None]:
    """Every word that the release's parser takes for an option."""
    return {**options_of(release).by_name, **dict.fromkeys(_EXTRA)}


def _not_a_value(word: str, before: str, options: Options) -> None:
    """`--enable-chunked-prefill False`: a switch takes no value, and vLLM would stop at the word."""
    flag = options.by_name.get(before)
    if flag is None or flag.kind not in SWITCHES or word.lower() not in ("true", "false"):
        return
    spelling = before if word.lower() == "true" else negated(before) if flag.kind == "bool" else "leave it out"
    instead = f"write {spelling}" if spelling.startswith("--") else spelling
    raise CommandError(f"{before} takes no value: vLLM would stop with: unrecognized arguments: {word}; {instead}")


def _take(flags: dict[str, Any], notes: list[str], use: Use, options: Options) -> None:
    """Put one flag's value into `flags`."""
    name, texts = use.name, use.texts
    if name in ("--help", "-h"):
        raise CommandError("--help prints vLLM's help and starts no server")
    if name == "--config":
        return
    flag = options.by_name[name]
    check_count(use, flag.kind)
    if flag.kind in SWITCHES:
        flags[flag.field] = not (flag.kind == "bool" and name.startswith("--no-") and name not in options.spelled(flag))
        return
    try:
        value = parse_words(flag, texts, options)
        if note := check_keys(flag, value, options):
            notes.append(note)
    except Refused as error:
        if not texts or not UNSET.fullmatch(texts[0]):
            raise refuse(name, error) from None
        if flag.group == "engine":
            what = "an argument of the script" if texts[0][1:].isdigit() else "which nothing sets"
            variable = re.fullmatch(r"\$\{?([A-Za-z_]\w*)\}?", texts[0])
            way = f"--set {variable[1]}=..." if variable else "put its value in its place"
            raise CommandError(f"{name} is {short(texts[0])}, {what}: {way}") from None
        notes.append(f"{name} is {short(texts[0])}, which nothing sets: left out")
        return
    if flag.kind == "append":
        value = [*flags.get(flag.field, []), value]
    elif isinstance(flags.get(flag.field), dict) and flags[flag.field] != value:
        notes.append(f"{options.spelled(flag)[0]} is given more than once: vLLM keeps only {short(json_text(value))}")
    flags[flag.field] = value


def _most(flag: Flag | None) -> int | None:
    """How many words it takes; --config has one."""
    return most_words(flag.kind) if flag is not None else 1


def _refusal(unread: Unread, options: Options) -> CommandError:
    status = options.status(unread.key)
    if unread.matches:
        text = f"ambiguous option: {unread.key} could match {', '.join(unread.matches)}"
        if status.state == "gone":  # a flag of its own in older releases
            return NoSuchFlag(status, f"vLLM would stop with: {text}")
        return CommandError(text)
    if status.state == "known":  # -tp4: a short flag with its value glued on, which argparse does not take
        return CommandError(f"unrecognized arguments: {short(unread.word)}")
    return NoSuchFlag(status, f"vLLM would stop with: unrecognized arguments: {shown(unread.word)}")


def _spelled(words: Sequence[str], options: Options) -> list[str]:
    """Underscores to dashes up to the first dot or '='; -O3 to what it means in this release."""
    meaning = options.reading.dash_o
    out: list[str] = []
    for index, word in enumerate(words):
        if word.startswith("--"):
            key, sign, value = word.partition("=")
            head, dot, rest = key.partition(".")
            out.append(head.replace("_", "-") + dot + rest + sign + value)
        elif word.startswith("-O") and word != "-O" and not (word[2] == "." and options.reading.dotted_o):
            level = word[3:] if word[2] == "=" else word[2:]
            out += ["--optimization-level", level] if meaning == "optimization_level" else [f"-O.{meaning}={level}"]
        elif word == "-O" and words[index + 1 : index + 2] and words[index + 1] in ("0", "1", "2", "3"):
            out.append("--optimization-level" if meaning == "optimization_level" else f"-O.{meaning}")
        elif word.startswith("-O.") and "-cc" in options.by_name:
            out.append("-cc" + word[2:])
        else:
            out.append(word)
    return out


def _dotted(words: list[str], options: Options) -> list[str]:
    """--flag.a.b value and --flag.list+ x,y joined into one JSON argument at the end, as the engine does."""
    out: list[str] = []
    gathered: dict[str, dict[str, Any]] = {}
    index = 0
    while index < len(words):
        word = words[index]
        index += 1
        key, sign, text = word.partition("=")
        if not word.startswith("-") or "." not in key or NEGATIVE.fullmatch(word) or " " in key:
            out.append(word)
            continue
        if not sign:
            if index >= len(words):
                raise CommandError(f"argument {short(word)}: expected one argument")
            text = words[index]
            index += 1
        if key.endswith("+"):
            key, text = key[:-1], json_text(text.split(","))
        head, *path = key.split(".")
        _merge(gathered.setdefault(head, {}), _nested(path, _dotted_value(text, options)))
    return [*out, *(word for head, value in gathered.items() for word in (head, json_text(value)))]


def _dotted_value(text: str, options: Options) -> Any:
    try:
        return json_value(text, options, human=False)
    except Refused:
        pass
    if options.reading.json_numbers_are_human:
        try:
            return human_int(text)
        except Refused:
            pass
    return text


def _nested(path: list[str], value: Any) -> dict[str, Any]:
    if len(path) > 16:
        raise CommandError(f"a dotted flag of {len(path)} parts: no argument of vLLM nests that deeply")
    for key in reversed(path):
        value = {key: value}
    assert isinstance(value, dict)
    return value


def _merge(into: dict[str, Any], update: dict[str, Any]) -> None:
    for key, value in update.items():
        old = into.get(key)
        if isinstance(value, dict) and isinstance(old, dict):
            _merge(old, value)
        elif isinstance(value, list) and isinstance(old, list):
            old += value
        else:
            into[key] = value
