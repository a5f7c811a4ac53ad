"""SGLang's flags by release: what a name on the command line means, and what a field is called there."""

import re
from functools import lru_cache
from typing import Literal

from msgspec import Struct

from oomph.facts.changes import Release, parse_release
from oomph.facts.sglang.flag_rows import ROWS
from oomph.facts.sglang.versions import RELEASES, nearest, parse
from oomph.text.late import late_pattern

Kind = Literal["int", "float", "str", "human", "json", "bool", "store_true", "list[int]", "list[str]", "maybe"]

_WORD = late_pattern(r"([^<>=]+)(?:>=([\w.]+))?(?:<([\w.]+))?")


class Flag(Struct, frozen=True):
    field: str
    kind: Kind
    names: tuple[tuple[str, str, str], ...]  # name, since, until
    since: str = ""
    until: str = ""

    def spelled(self, release: Release) -> tuple[str, ...]:
        if not _within(release, self.since, self.until):
            return ()
        return tuple(name for name, since, until in self.names if _within(release, since, until))


def _within(release: Release, since: str, until: str) -> bool:
    return (not since or parse_release(since) <= release) and (not until or release < parse_release(until))


@lru_cache(1)
def _flags() -> dict[str, Flag]:
    flags = {}
    for kind, words in ROWS.items():
        for word in words.split():
            flag = _flag(word, kind)  # type: ignore[arg-type]
            flags[flag.field] = flag
    return flags


def _flag(word: str, kind: Kind) -> Flag:
    """'cuda_graph_bs_decode=cuda-graph-bs-decode,cuda-graph-bs<0.5.20>=0.5.14': the last range is the field's."""
    field, equals, rest = word.partition("=") if re.match(r"\w+=", word) else (word, "", "")
    if not equals:
        match = _WORD.fullmatch(word)
        assert match is not None, word
        return Flag(match[1], kind, (("--" + match[1].replace("_", "-"), "", ""),), match[2] or "", match[3] or "")
    *first, last = rest.split(",")
    ranges = re.fullmatch(r"([^<>]+)((?:<[\w.]+|>=[\w.]+)*)", last)
    assert ranges is not None, word
    marks = re.findall(r"<[\w.]+|>=[\w.]+", ranges[2])
    since = next((mark[2:] for mark in marks if mark.startswith(">=")), "")
    own_until = next((mark[1:] for mark in marks if mark.startswith("<")), "") if len(marks) > 1 else ""
    until = next((mark[1:] for mark in marks if mark.startswith("<")), "") if len(marks) == 1 else ""
    names = [(_option(part), "", "") for part in first] + [(_option(ranges[1]), "", own_until)]
    return Flag(field, kind, tuple(names), since, until)


def _option(text: str) -> str:
    return text if text.startswith("-") else f"--{text}"


def is_known(flag: str) -> bool:
    """Whether some release has had a flag of this name."""
    return any(flag == spelling for row in _flags().values() for spelling, _, _ in row.names)


class Options:
    """The options of one release, and why it does not take those of others."""

    def __init__(self, version: str) -> None:
        self.release = version  # as sentences name it
        self._order = parse(nearest(version)[0])
        self.by_field = {field: flag for field, flag in _flags().items() if flag.spelled(self._order)}
        self.by_name = {name: flag for flag in self.by_field.values() for name in flag.spelled(self._order)}

    def option(self, field: str, typed: str = "") -> str:
        """The flag of a field as this release spells it, as it was typed where that is one way; "" = it has none."""
        flag = self.by_field.get(field)
        return typed if self.field_of(typed) == field else flag.spelled(self._order)[0] if flag else ""

    def field_of(self, name: str) -> str:
        """The field of an option, or of a beginning that only one has, as argparse takes it (--tp); "" = of none."""
        if name in self.by_name or len(name) < len("--x"):
            return self.by_name[name].field if name in self.by_name else ""
        fields = {flag.field for option, flag in self.by_name.items() if option.startswith(name)}
        return fields.pop() if len(fields) == 1 else ""

    def story(self, name: str) -> str:
        """Why this release does not take a flag that another does, in one sentence; "" = no release has it."""
        spans = _spans(name)
        gone = [span for span in spans if span[0] is not None and span[0] <= self._order]
        if gone:
            _, end, flag = max(gone, key=lambda span: span[0] or self._order)
            instead = self.option(flag.field)
            return f"{name} is gone since SGLang {end}" + (f": it is {instead} now" if instead else "")
        return f"SGLang {self.release} has no {name} yet: it came with {spans[0][2].since}" if spans else ""

    def last_release_with(self, name: str) -> str:
        """The last release that takes a flag which this one no longer has; "" where it takes it, or none ever did."""
        ends = [] if name in self.by_name else [end for end, _, _ in _spans(name) if end and end <= self._order]
        return max((known for known in RELEASES if parse(known) < max(ends)), key=parse, default="") if ends else ""


def _spans(name: str) -> list[tuple[Release | None, str, Flag]]:
    """The flags that have had this name, each with the release at which it lost it."""
    return [
        (parse_release(until or flag.until) if until or flag.until else None, until or flag.until, flag)
        for flag in _flags().values()
        for spelling, _, until in flag.names
        if spelling == name
    ]


@lru_cache(64)
def options_of(version: str) -> Options:
    return Options(version)
