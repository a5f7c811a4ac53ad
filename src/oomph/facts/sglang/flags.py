"""SGLang's flags by release: what a name on the command line means, and what a field is called there."""

from functools import lru_cache
from typing import Literal, get_args

from oomph.facts.changes import DatedWord, Release, Span, dated_words, parse_release
from oomph.facts.sglang.flag_rows import CONSTANTS, ROWS, SUFFIXES_SINCE
from oomph.facts.sglang.versions import RELEASES, nearest, parse

Kind = Literal["int", "float", "str", "human", "json", "bool", "store_true", "list[int]", "list[str]", "maybe"]


class Flag(Span, frozen=True):
    field: str
    kind: Kind
    names: tuple[DatedWord, ...]

    def spelled(self, release: Release) -> tuple[str, ...]:
        if not self.has(release):
            return ()
        return tuple(name.word for name in self.names if Span(since=name.since, until=name.until).has(release))


@lru_cache(1)
def _flags() -> dict[str, Flag]:
    rows = (_flag(word, kind) for kind in get_args(Kind) for word in ROWS[kind].split())
    return {flag.field: flag for flag in rows}


def _flag(word: str, kind: Kind) -> Flag:
    """A word of the rows: `field>=0.5.14:name,other<0.5.20`."""
    text, _, spelled = word.partition(":")
    (field,) = dated_words(text)
    names = dated_words(spelled.replace(",", " ") or field.word.replace("_", "-"))
    options = tuple(name._replace(word=f"--{name.word}") for name in names)
    return Flag(field.word, kind, options, since=field.since, until=field.until)


def is_known(flag: str) -> bool:
    """Whether some release has had a flag of this name, or one that begins so, as argparse takes it (--tp)."""
    names = {name.word for row in _flags().values() for name in row.names}
    return flag in names or (len(flag) > len("--x") and any(name.startswith(flag) for name in names))


class Options:
    """The options of one release, and why it does not take those of others."""

    def __init__(self, version: str) -> None:
        self.release = version  # as sentences name it
        self._order = parse(nearest(version)[0])
        self.has_suffixes = self._order >= parse_release(SUFFIXES_SINCE)  # --context-length 32k
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
            _, span, flag = max(gone, key=lambda span: span[0] or self._order)
            instead = " ".join(filter(None, (self.option(flag.field), CONSTANTS.get(name, ""))))
            return f"{name} is gone since SGLang {span.until}" + (f": it is {instead} now" if instead else "")
        return f"SGLang {self.release} has no {name} yet: it came with {spans[0][1].since}" if spans else ""

    def last_release_with(self, name: str) -> str:
        """The last release that takes a flag which this one no longer has; "" where it takes it, or none ever did."""
        ends = [] if name in self.by_name else [end for end, _, _ in _spans(name) if end and end <= self._order]
        return (
            max((release for release in RELEASES if parse(release) < max(ends)), key=parse, default="") if ends else ""
        )


def _spans(name: str) -> list[tuple[Release | None, Span, Flag]]:
    """The flags that have had this name, each with the releases of the name and the one at which it lost it."""
    spans = [
        (Span(since=word.since or flag.since, until=word.until or flag.until), flag)
        for flag in _flags().values()
        for word in flag.names
        if word.word == name
    ]
    return [(parse_release(span.until) if span.until else None, span, flag) for span, flag in spans]


@lru_cache(64)
def options_of(version: str) -> Options:
    return Options(version)
