"""Words to flags as vLLM's FlexibleArgumentParser reads them: argparse, plus underscores, -O3 and dotted JSON.

Written out, not built on argparse: a parser object with 300 options takes longer to build than a plan to compute. The
tests hold it against argparse itself.
"""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from oomph.commands.call import UNSET, short, shown
from oomph.engines.vllm.command.values import (
    LIST_KINDS,
    Refused,
    check_keys,
    human_int,
    json_text,
    json_value,
    parse_words,
    refuse,
)
from oomph.errors import CommandError
from oomph.facts.vllm.flags import Flag, Options, Status, negated
from oomph.text.late import late_pattern

_NEGATIVE = late_pattern(r"-\d+|-\d*\.\d+")
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
    words = _dotted(_spelled(words, options), options)
    kinds = [_kind(word, options) for word in words]
    if "--" in words:
        first = words.index("--")
        kinds[first:] = ["-"] + ["A"] * (len(words) - first - 1)
    flags: dict[str, Any] = {}
    notes: list[str] = []
    positional: list[str] = []
    index = 0
    while index < len(words):
        word, kind = words[index], kinds[index]
        index += 1
        if kind == "A":
            _not_a_value(word, words[index - 2] if index > 1 else "", options)
            positional.append(word)
        elif kind != "-":
            end = index
            while end < len(words) and kinds[end] == "A":
                end += 1
            index += _take(flags, notes, word, words[index:end], options)
    return Parsed(flags, tuple(positional), tuple(notes))


def _not_a_value(word: str, before: str, options: Options) -> None:
    """`--enable-chunked-prefill False`: a switch takes no value, and vLLM would stop at the word."""
    flag = options.by_name.get(before)
    if flag is None or flag.kind not in ("bool", "store_true") or word.lower() not in ("true", "false"):
        return
    meant = before if word.lower() == "true" else negated(before) if flag.kind == "bool" else "leave it out"
    instead = f"write {meant}" if meant.startswith("--") else meant
    raise CommandError(f"{before} takes no value: vLLM would stop with: unrecognized arguments: {word}; {instead}")


def _take(flags: dict[str, Any], notes: list[str], word: str, following: Sequence[str], options: Options) -> int:
    """Put one flag's value into `flags`; how many of the following words it used."""
    name, explicit = _resolve(word, options)
    if name in ("--help", "-h"):
        raise CommandError("--help prints vLLM's help and starts no server")
    if name == "--config":
        return 0 if explicit is not None else min(1, len(following))
    flag = options.by_name[name]
    if flag.kind in ("bool", "store_true"):
        if explicit is not None:
            raise CommandError(f"argument {name}: ignored explicit argument {short(explicit)}")
        flags[flag.field] = not (flag.kind == "bool" and name.startswith("--no-") and name not in options.spelled(flag))
        return 0
    used = [explicit] if explicit is not None else list(following[: _most(flag)])
    if not used and flag.kind != "maybe":
        wanted = "at least one argument" if flag.kind in LIST_KINDS else "one argument"
        raise CommandError(f"argument {name}: expected {wanted}")
    try:
        value = parse_words(flag, used, options)
        if note := check_keys(flag, value, options):
            notes.append(note)
    except Refused as error:
        if not used or not UNSET.fullmatch(used[0]):
            raise refuse(name, error) from None
        if flag.group == "engine":
            what = "an argument of the script" if used[0][1:].isdigit() else "which nothing sets"
            raise CommandError(f"{name} is {short(used[0])}, {what}: put its value in its place") from None
        notes.append(f"{name} is {short(used[0])}, which nothing sets: left out")
        return 0 if explicit is not None else len(used)
    if flag.kind == "append":
        value = [*flags.get(flag.field, []), value]
    elif isinstance(flags.get(flag.field), dict) and flags[flag.field] != value:
        notes.append(f"{options.spelled(flag)[0]} is given more than once: vLLM keeps only {short(json_text(value))}")
    flags[flag.field] = value
    return 0 if explicit is not None else len(used)


def _most(flag: Flag) -> int | None:
    return None if flag.kind in LIST_KINDS else 1


def _kind(word: str, options: Options) -> str:
    """'O' for a flag, 'A' for a value (argparse's _parse_optional)."""
    if not word.startswith("-") or word == "-":
        return "A"
    key = word.split("=", 1)[0]
    names = options.by_name
    if word in names or key in names or word in _EXTRA or key in _EXTRA or _matches(key, options):
        return "O"
    if _NEGATIVE.fullmatch(word) or " " in word:
        return "A"
    return "O"


def _matches(key: str, options: Options) -> list[tuple[str, str | None]]:
    """The options that `key` abbreviates, each with the value glued to it (-qawq)."""
    names = [*options.by_name, *_EXTRA]
    if key.startswith("--"):
        return [(name, None) for name in names if name.startswith(key)] if len(key) > 2 else []
    matches: list[tuple[str, str | None]] = [(name, None) for name in names if name.startswith(key)]
    if len(key) > 2 and key[:2] in names:
        matches.append((key[:2], key[2:]))
    return matches


def _resolve(word: str, options: Options) -> tuple[str, str | None]:
    """The option string meant, and the value after '=' or glued to a short one."""
    names = options.by_name
    if word in names or word in _EXTRA:
        return word, None
    key, sign, value = word.partition("=")
    explicit = value if sign else None
    if key in names or key in _EXTRA:
        return key, explicit
    matches = _matches(key, options)
    if len(matches) > 1:
        text = f"ambiguous option: {key} could match {', '.join(name for name, _ in matches)}"
        if (status := options.status(key)).state == "gone":  # a flag of its own in older releases
            raise NoSuchFlag(status, f"vLLM would stop with: {text}")
        raise CommandError(text)
    if matches:
        name, glued = matches[0]
        return name, explicit if glued is None else word[2:]
    status = options.status(key)
    if status.state == "known":  # -tp4: a short flag with its value glued on, which argparse does not take
        raise CommandError(f"unrecognized arguments: {short(word)}")
    raise NoSuchFlag(status, f"vLLM would stop with: unrecognized arguments: {shown(word)}")


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
        if not word.startswith("-") or "." not in key or _NEGATIVE.fullmatch(word) or " " in key:
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
