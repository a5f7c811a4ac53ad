"""List where our rows of vLLM's flags disagree with an unpacked release.

python tools/drift_flags.py FOLDER VERSION [FOLDER VERSION ...]          # FOLDER holds vllm/engine/arg_utils.py
python tools/drift_flags.py --rows FOLDER VERSION [FOLDER VERSION ...]   # print rows for facts/vllm/flag_rows.py
python tools/drift_flags.py --keys FOLDER VERSION [FOLDER VERSION ...]   # print rows for facts/vllm/config_keys.py
"""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import Any

from vllm_source import UNKNOWN, Read, config_keys, read

Releases = list[tuple[str, dict[str, Read]]]


def spans(present: list[bool], versions: list[str]) -> list[tuple[str, str]]:
    """(since, until) of each unbroken stretch; "" where it reaches the first or last release read."""
    out: list[tuple[str, str]] = []
    start: int | None = None
    for index, here in enumerate([*present, False]):
        if here and start is None:
            start = index
        elif not here and start is not None:
            out.append(("" if start == 0 else versions[start], versions[index] if index < len(versions) else ""))
            start = None
    return out


def marked(words: list[Any], sets: list[set[Any] | None], versions: list[str]) -> str:
    """'a b>=0.14.0 c<0.20.0': each word with the releases that have it; a None in `sets` has no say."""
    heard = [(s, v) for s, v in zip(sets, versions) if s is not None]
    out = []
    for word in words:
        for since, until in spans([word in s for s, _ in heard], [v for _, v in heard]):
            out.append(f"{word}{'>=' + since if since else ''}{'<' + until if until else ''}")
    return " ".join(out)


def rows(releases: Releases, exact_from: str) -> list[str]:
    """One line of flag_rows.py per flag and stretch of equal kind and default.

    Releases before `exact_from` only say whether a flag was there: what it took is the first exact release's.
    """
    versions = [v for v, _ in releases]
    first = versions.index(exact_from)
    names = list(dict.fromkeys(name for _, flags in reversed(releases) for name in flags))
    out = []
    for name in sorted(names):
        reads = [flags.get(name) for _, flags in releases]
        later = next((r for r in reads[first:] if r), None)
        shown: list[Read | None] = list(reads)
        for index in range(first):
            if reads[index] is not None:
                shown[index] = later if reads[first] is not None else next(r for r in reversed(reads[:first]) if r)
        stated = [r and r._replace(bounds=r.bounds or last_bounds(shown[i:], r.kind)) for i, r in enumerate(shown)]
        shown = stated
        for shape in dict.fromkeys(shape_of(r) for r in shown if r):
            same = [r is not None and shape_of(r) == shape for r in shown]
            for since, until in spans(same, versions):
                low = versions.index(since) if since else 0
                high = versions.index(until) if until else len(versions)
                out.append(row(shown[low:high], versions[low:high], since, until))
    return out


def shape_of(flag: Read) -> tuple[Any, ...]:
    return flag.kind, repr(flag.default), bool(flag.choices), flag.bounds, flag.group


def last_bounds(reads: list[Read | None], kind: str) -> str:
    """Older releases check the same bounds elsewhere (_verify_args): the first that a field's own hint states."""
    return next((r.bounds for r in reads if r and r.bounds and r.kind == kind), "")


def row(reads: list[Read | None], versions: list[str], since: str, until: str) -> str:
    last = next(r for r in reversed(reads) if r)
    spelled = list(dict.fromkeys(n for r in reversed(reads) if r for n in r.names))
    chosen = list(dict.fromkeys(c for r in reversed(reads) if r for c in r.choices))
    free = any(r and not r.choices for r in reads)  # then some releases take any value
    names = marked(spelled, [set(r.names) if r else None for r in reads], versions)
    parts = [repr(last.field), repr(names), repr(last.kind)]
    if last.default not in (UNKNOWN, None):
        parts.append(f"default={last.default!r}")
    if chosen and not free:
        text = marked(sorted(chosen), [set(r.choices) if r else None for r in reads], versions)
        parts.append(f"choices={text!r}")
    if last.bounds:
        parts.append(f"bounds={last.bounds!r}")
    if any(r and r.nullable for r in reads):
        parts.append("nullable=True")
    if last.group == "frontend":
        parts.append('group="frontend"')
    parts += [f"{key}={value!r}" for key, value in (("since", since), ("until", until)) if value]
    return wrapped([part.replace("'", '"') for part in parts])


def wrapped(parts: list[str], width: int = 115, opening: str = "Flag(") -> str:
    """Flag(...) in lines of at most `width` characters; a long list of choices is split between its words."""
    lines, line = [], opening
    for part in [*parts[:-1], parts[-1] + "),"]:
        part = part if part.endswith(",") else part + ","
        for piece in split_text(part, width - 10) if len(part) > width - 10 else [part]:
            if len(line) + len(piece) + 1 > width:
                lines.append(line)
                line = "     " + piece
            else:
                line += piece if line.endswith("(") else " " + piece
    return "\n".join([*lines, line])


def split_text(part: str, width: int) -> list[str]:
    """choices="a b c", -> choices="a b " then "c", as adjacent literals."""
    head, text = part.split('"', 1)
    text, tail = text.rsplit('"', 1)
    pieces = textwrap.wrap(text, width - len(head) - 4, break_on_hyphens=False)
    spaced = [f'"{piece} "' for piece in pieces[:-1]] + [f'"{pieces[-1]}"{tail}']
    return [head + spaced[0], *spaced[1:]]


HEADER = "# The rows below were printed by tools/drift_flags.py --rows; see there before editing by hand."


def key_rows(releases: list[tuple[str, dict[str, set[str]]]]) -> list[str]:
    """One line of config_keys.py per JSON argument."""
    versions = [version for version, _ in releases]
    fields = sorted({field for _, keys in releases for field in keys})
    out = []
    for field in fields:
        sets: list[set[Any] | None] = [keys.get(field) for _, keys in releases]
        words = sorted({word for keys in sets if keys for word in keys})
        out.append(wrapped([f'"{field}": "{marked(words, sets, versions)}"'], opening="").removesuffix("),") + ",")
    return out


def known(version: str) -> dict[str, Read]:
    """What our rows say that the release has, in the same form."""
    from oomph.facts.vllm import flags

    out = {}
    for field, row in flags.options_of(version).by_field.items():
        spelled, choices = flags.options_of(version).spelled(row), flags.options_of(version).allowed(row)
        out[field] = Read(field, spelled, row.kind, tuple(choices), row.default, row.bounds, row.nullable, row.group)
    return out


def disagreements(version: str, flags: dict[str, Read]) -> list[str]:
    ours = known(version)
    out = [f"{name}: not in our rows" for name in sorted(set(flags) - set(ours))]
    out += [f"{name}: in our rows, not in the release" for name in sorted(set(ours) - set(flags))]
    for name in sorted(set(flags) & set(ours)):
        theirs, mine = flags[name], ours[name]
        for part in ("names", "kind", "choices", "default", "group"):
            a, b = getattr(theirs, part), getattr(mine, part)
            if part in ("names", "choices"):
                a, b = sorted(map(str, a)), sorted(map(str, b))
            if part == "default" and a == UNKNOWN:
                continue
            if a != b:
                out.append(f"{name}: {part} is {a!r}, our rows say {b!r}")
        if theirs.bounds and theirs.bounds != mine.bounds:
            out.append(f"{name}: bounds are {theirs.bounds!r}, our rows say {mine.bounds!r}")
    return out


def key_disagreements(version: str, found: dict[str, set[str]]) -> list[str]:
    from oomph.facts.vllm import flags
    from oomph.facts.vllm.config_keys import KEYS

    out = []
    for field in sorted(found.keys() | KEYS.keys()):
        theirs, ours = found.get(field, set()), flags.options_of(version).keys(field) if field in found else set()
        out += [f"{field}: key {key!r} is not in our rows" for key in sorted(theirs - ours)]
        out += [f"{field}: key {key!r} is not in the release" for key in sorted(ours - theirs)]
    return out


def main(argv: list[str]) -> int:
    if not argv or len(argv[argv[0].startswith("--") :]) % 2:
        print(__doc__)
        return 2
    if argv[0] in ("--rows", "--keys"):
        pairs = list(zip(argv[1::2], argv[2::2]))
        if argv[0] == "--keys":
            print("\n".join(key_rows([(version, config_keys(Path(folder))) for folder, version in pairs])))
        else:
            print("\n".join([HEADER, *rows([(version, read(Path(folder))) for folder, version in pairs], "0.11.0")]))
        return 0
    bad = 0
    for folder, version in zip(argv[::2], argv[1::2]):
        found = disagreements(version, read(Path(folder))) + key_disagreements(version, config_keys(Path(folder)))
        bad += len(found)
        print(f"{version}: {len(found)} disagreements")
        print("".join(f"  {line}\n" for line in found), end="")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
