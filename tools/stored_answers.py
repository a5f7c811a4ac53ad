"""Stored answers: one format for all of them, read, compared and written here.

tests/replay/KIND/GROUP.jsonl has one line for each case, `["the question", the answer]`, sorted by question; text over
COMPRESSED_BEYOND is GROUP.jsonl.gz. A test computes the answers anew and fails with the old and the new value of every
field that differs; `python tools/replay.py renew KIND` stores what is answered now.
"""

from __future__ import annotations

import difflib
import enum
import gzip
import json
import math
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

ROOT = Path(__file__).parents[1]
STORE = ROOT / "tests" / "replay"
COMPRESSED_BEYOND = 128 * 1024  # bytes of text: below, git shows a change as text and merges it
MOST_CASES, MOST_FIELDS, MOST_CHARACTERS = 8, 12, 100  # of what a failing test prints

Row = tuple[str, Any]  # a question and its answer
_LINE = msgspec.json.Decoder(tuple[str, msgspec.Raw])


class Difference(NamedTuple):
    """One question of which the stored answer is another one; "" where there is none."""

    kind: str
    question: str
    before: str
    now: str


def plain(value: Any) -> Any:
    """What JSON can hold of any answer: a frozen class is an object without its defaults, so that a field more changes
    nothing; a set has an order, a name stands for an enum."""
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, msgspec.Struct):
        fields = ((name, getattr(value, name), default) for name, default in _defaults(type(value)).items())
        return {name: plain(one) for name, one, default in fields if type(one) is not type(default) or one != default}
    if isinstance(value, dict):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if isinstance(value, set | frozenset):
        return sorted(map(plain, value), key=text_of)
    return repr(value)


@cache
def _defaults(kind: type[msgspec.Struct]) -> dict[str, Any]:
    names, defaults = kind.__struct_fields__, kind.__struct_defaults__
    whole = (msgspec.NODEFAULT,) * (len(names) - len(defaults)) + defaults
    return {
        name: default.factory() if hasattr(default, "factory") else default
        for name, default in zip(names, whole, strict=True)
    }


def text_of(answer: Any) -> str:
    return json.dumps(answer, sort_keys=True, separators=(",", ":"))


def stored(kind: str, group: str) -> dict[str, str]:
    """The answers of one file by question, as text."""
    return lines_of(_read(kind, group))


@cache
def _read(kind: str, group: str) -> bytes:
    path = STORE / kind / f"{group}.jsonl"
    if path.exists():
        return path.read_bytes()
    packed = path.with_name(f"{path.name}.gz")
    return gzip.decompress(packed.read_bytes()) if packed.exists() else b""


def lines_of(text: bytes) -> dict[str, str]:
    pairs = map(_LINE.decode, text.splitlines())
    return {question: bytes(answer).decode() for question, answer in pairs}


def groups(kind: str) -> list[str]:
    return sorted({path.name.partition(".jsonl")[0] for path in (STORE / kind).glob("*.jsonl*")})


def differences(kind: str, before: Mapping[str, str], now: Iterable[Row]) -> Iterator[Difference]:
    """`before` are the stored answers of the same questions."""
    asked = set()
    for question, answer in now:
        asked.add(question)
        text = text_of(plain(answer))
        if before.get(question) != text:
            yield Difference(kind, question, before.get(question, ""), text)
    yield from (Difference(kind, question, text, "") for question, text in before.items() if question not in asked)


def numbered(rows: Iterable[Row]) -> Iterator[Row]:
    """A question that a table asks again gets a number."""
    seen: Counter[str] = Counter()
    for question, answer in rows:
        seen[question] += 1
        yield (question if seen[question] == 1 else f"{question} ({seen[question]})"), answer


def check_table(kind: str, group: str, now: Iterable[Row]) -> None:
    """Fails with the old and the new value of every field of a table that is not as stored."""
    changed = list(differences(f"{kind}/{group}", stored(kind, group), numbered(now)))
    assert not changed, told(changed)


def told(changed: list[Difference], most: int = MOST_CASES) -> str:
    lines = [f"{len(changed)} stored answers differ (stored -> now)"]
    for one in changed[:most]:
        lines.append(f"  {one.kind}: {one.question[:300]}")
        lines += [f"    {line}" for line in _bounded(list(fields(one)))]
    if len(changed) > most:
        lines.append(f"  and {len(changed) - most} more; the fields of all that differ, and how often:")
        counts = Counter(
            f"{one.kind.partition('/')[0]}: {_pattern(path)}" for one in changed for path, _, _ in changes_of(one)
        )
        lines += [f"    {count:5} x {name}" for name, count in counts.most_common(40)]
    kinds = " ".join(sorted({one.kind.partition("/")[0] for one in changed}))
    return "\n".join([*lines, f"On purpose: python tools/replay.py renew {kinds}"])


def fields(one: Difference) -> Iterator[str]:
    return (f"{'.'.join(path) or 'answer'}: {_short(old)} -> {_short(new)}" for path, old, new in changes_of(one))


def changes_of(one: Difference) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """The path, the old and the new value of every leaf that differs."""
    before, now = (json.loads(text) if text else ABSENT for text in (one.before, one.now))
    yield from _changes(before, now, ())


ABSENT = object()


def _changes(old: Any, new: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            yield from _changes(old.get(key, ABSENT), new.get(key, ABSENT), (*path, key))
    elif isinstance(old, list) and isinstance(new, list):
        yield from _changes_of_lists(old, new, path)
    elif old != new or type(old) is not type(new):
        yield path, old, new


def _changes_of_lists(
    old: list[Any], new: list[Any], path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """Of lists that are not of one length, what was put in and what was taken out."""
    if len(old) == len(new):
        for number, (before, now) in enumerate(zip(old, new, strict=True)):
            yield from _changes(before, now, (*path, str(number)))
        return
    matcher = difflib.SequenceMatcher(None, [text_of(one) for one in old], [text_of(one) for one in new], False)
    for name, first, last, start, end in matcher.get_opcodes():
        if name == "replace" and last - first == end - start:
            for offset in range(last - first):
                yield from _changes(old[first + offset], new[start + offset], (*path, str(start + offset)))
        elif name != "equal":
            yield from (((*path, str(number)), old[number], ABSENT) for number in range(first, last))
            yield from (((*path, str(number)), ABSENT, new[number]) for number in range(start, end))


def _pattern(path: tuple[str, ...]) -> str:
    return ".".join("*" if name.isdigit() else name for name in path) or "answer"


def _short(value: Any) -> str:
    text = "(none)" if value is ABSENT else text_of(value)
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}... ({len(text)} characters)"


def _bounded(lines: list[str]) -> list[str]:
    more = len(lines) - MOST_FIELDS
    return lines if more <= 0 else [*lines[:MOST_FIELDS], f"and {more} more fields"]


def store(kind: str, tables: Mapping[str, Iterable[Row]]) -> list[Difference]:
    """Writes the files of a kind, by group, and says what differs; a file whose text is as it was is left alone."""
    changed: list[Difference] = []
    for group in set(groups(kind)) - tables.keys():
        changed += differences(f"{kind}/{group}", stored(kind, group), ())
        _remove(kind, group)
    for group, rows in sorted(tables.items()):
        answers = {question: plain(answer) for question, answer in numbered(rows)}
        changed += differences(f"{kind}/{group}", stored(kind, group), answers.items())
        lines = [f"{text_of([question, answers[question]])}\n" for question in sorted(answers)]
        _write(kind, group, "".join(lines).encode())
    return changed


def _write(kind: str, group: str, text: bytes) -> None:
    if text == _read(kind, group):
        return
    _remove(kind, group)
    path = STORE / kind / f"{group}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    if len(text) <= COMPRESSED_BEYOND:
        path.write_bytes(text)
    else:
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(text, 9, mtime=0))
    _read.cache_clear()


def _remove(kind: str, group: str) -> None:
    for suffix in (".jsonl", ".jsonl.gz"):
        (STORE / kind / f"{group}{suffix}").unlink(missing_ok=True)


def between(revision: str, kind: str) -> list[Difference]:
    """What the stored answers were at a commit and what they are here; nothing is computed."""
    then = _files_at(revision, kind)
    here = {group: _read(kind, group) for group in groups(kind)}
    changed = []
    for group in sorted(then.keys() | here.keys()):
        if then.get(group) != here.get(group):
            before, now = (lines_of(files.get(group, b"")) for files in (then, here))
            changed += [
                Difference(f"{kind}/{group}", question, before.get(question, ""), now.get(question, ""))
                for question in sorted(before.keys() | now.keys())
                if before.get(question) != now.get(question)
            ]
    return changed


def _files_at(revision: str, kind: str) -> dict[str, bytes]:
    def git(*words: str) -> bytes:
        return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True).stdout

    files = {}
    for path in git("ls-tree", "--name-only", revision, f"tests/replay/{kind}/").decode().split():
        name, is_answers, suffix = path.rpartition("/")[2].partition(".jsonl")
        if not is_answers:
            continue
        text = git("show", f"{revision}:{path}")
        files[name] = gzip.decompress(text) if suffix else text
    return files
