"""Stored answers of oomph, so that a refactor can be shown to change nothing.

    python tools/replay.py make                draw the cases anew and store their answers (rarely)
    python tools/replay.py check [KIND...]     which stored answers differ now, by section
    python tools/replay.py renew [KIND...]     store the answers of now; the diff shows which cases changed
    python tools/replay.py compare REV [KIND]  answer the differing cases at REV too and show both, field by field

tests/replay/KIND.txt has one line per case: a readable summary, four characters per section of the JSON (a digest of
its figures, names, stages, flags and commands), and the arguments. Sentences are left out: prose may change freely.
fields.json lists the fields that count, so that a field that is added later changes no digest. `plan` was drawn before
some fields and SGLang were planned: `whole_plan` has fewer cases, of all engines, and counts every field there is now.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
STORE = ROOT / "tests" / "replay"
FIXTURES = ROOT / "tests" / "doctor" / "fixtures"
KINDS = ("plan", "whole_plan", "explain", "fit", "simulate", "inspect")
DRAWN_WITH = "vllm==0.32.0"  # the newest release when the cases were drawn: a new one changes no stored answer
# Prose, and what says how long or where something was looked up.
PROSE = frozenset((
    "why", "note", "notes", "warnings", "assumptions", "text", "title", "settle", "costs", "cost", "hint", "advice",
    "stage_basis", "inferred_reason", "version_from", "first_to_break", "evidence", "gives_up", "neighbours", "basis",
    "rejected", "refused", "plans", "schema", "risk", "reason", "source", "says",
))  # fmt: skip
# Dictionaries whose keys are data: a new key in them is a change.
OPEN = frozenset(("parts", "flags", "kv_bytes", "experts"))

Fields = dict[str, Any]


def answer(kind: str, arguments: Sequence[str]) -> Fields:
    """What the command prints with --json; a refusal becomes its exit code."""
    from oomph.cli.main import main

    words = [str(FIXTURES / word) if word.endswith(".log") else word for word in arguments]
    if kind == "fit" and "--engine" not in words:
        words += ["--engine", DRAWN_WITH]
    printed = io.StringIO()
    code: object = 0
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        try:
            main([kind, "--json", *words])
        except SystemExit as left:
            code = left.code
    try:
        fields = json.loads(printed.getvalue())
    except json.JSONDecodeError:
        fields = {}
    return {"exit": code} if not fields or "error" in fields else fields


def answer_plans(cases: Sequence[Sequence[str]]) -> Iterator[Fields]:
    """Plans go through the batch, which is quick and leaves the advice out."""
    from msgspec import to_builtins

    from oomph.cli.batch import answer_case

    for arguments in cases:
        options, command = list(arguments[: arguments.index("--")]), list(arguments[arguments.index("--") + 1 :])
        named = dict(zip(options[::2], options[1::2], strict=True))
        case = {"gpu": named["--gpu"], "engine": named.get("--engine", ""), "args": command}
        fields = to_builtins(answer_case(json.dumps(case).encode())[0])
        if str(fields.get("error", "")).startswith("a bug in oomph"):
            raise RuntimeError(f"{case}: {fields['error']}")
        yield {"refused_input": True} if "error" in fields else fields


def answers(kind: str, cases: Sequence[Sequence[str]]) -> Iterator[Fields]:
    return answer_plans(cases) if kind in ("plan", "whole_plan") else (answer(kind, case) for case in cases)


def flatten(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every leaf with its path; list positions are numbers."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key not in PROSE or path[-1:] == ("terms",):
                yield from flatten(inner, (*path, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from flatten(inner, (*path, str(number)))
    else:
        yield path, round(value, 9) if isinstance(value, float) else value


def pattern(path: tuple[str, ...]) -> str:
    """The path without positions and without keys that are data: what fields.json lists."""
    names: list[str] = []
    for name in path:
        if names and names[-1] in OPEN:
            break
        names.append("*" if name.isdigit() else name)
    return ".".join(names)


def section(path: tuple[str, ...]) -> str:
    names = [name for name in path if not name.isdigit()]
    if names[:2] == ["ranks", "terms"]:
        return names[2]
    return names[1] if names[0] == "ranks" and len(names) > 2 else names[0]


def digest(fields: Fields, known: frozenset[str]) -> dict[str, str]:
    """Four characters for each section of an answer."""
    by_section: dict[str, list[str]] = {}
    for path, value in flatten(fields):
        if pattern(path) in known:
            by_section.setdefault(section(path), []).append(f"{'.'.join(path)}={json.dumps(value)}")
    return {
        name: base64.urlsafe_b64encode(
            hashlib.blake2b("\n".join(sorted(leaves)).encode(), digest_size=3).digest()
        ).decode()
        for name, leaves in by_section.items()
    }


def summary(kind: str, fields: Fields) -> str:
    if "verdict" in fields:
        kv = fields.get("kv") or {}
        return "fits " + str(kv.get("logged_tokens", "-")) if fields["verdict"]["fits"] else fields["verdict"]["stage"]
    if kind == "explain" and "cause" in fields:
        return f"{fields['cause']['id']} {fields.get('stage')}"
    if kind == "fit" and fields.get("pick"):
        return f"{fields['pick']['checkpoint']} {fields['pick']['context']}".replace(" ", ":")
    return "answered" if len(fields) > 1 else "refused"


def load(kind: str) -> list[tuple[str, str, list[str]]]:
    """(summary, digests, arguments) of every stored case."""
    rows = []
    for line in (STORE / f"{kind}.txt").read_text().splitlines():
        readable, digests, arguments = line.split("\t")
        rows.append((readable, digests, json.loads(arguments)))
    return rows


def store(kind: str, rows: Sequence[tuple[str, str, Sequence[str]]]) -> None:
    lines = [f"{readable}\t{digests}\t{json.dumps(list(arguments))}\n" for readable, digests, arguments in rows]
    (STORE / f"{kind}.txt").write_text("".join(lines))


def known_fields(kind: str) -> tuple[frozenset[str], list[str]]:
    """(the fields that count, the sections in the order of a line's digests)."""
    listed = json.loads((STORE / "fields.json").read_text())[kind]
    return frozenset(listed["fields"]), listed["sections"]


def joined(digests: dict[str, str], sections: Sequence[str]) -> str:
    return "".join(digests.get(name, "----") for name in sections)


def differences(kind: str, chosen: Sequence[int] | None = None) -> Iterator[tuple[list[str], str, list[str], Fields]]:
    """(arguments, what was stored and what is now, the sections that differ, the answer of now); `chosen` by number."""
    known, sections = known_fields(kind)
    rows = load(kind)
    rows = rows if chosen is None else [rows[number] for number in chosen]
    for (readable, digests, arguments), fields in zip(rows, answers(kind, [row[2] for row in rows]), strict=True):
        now = joined(digest(fields, known), sections)
        readable_now = summary(kind, fields)
        if (readable_now, now) != (readable, digests):
            pairs = zip(sections, range(0, 4 * len(sections), 4), strict=True)
            changed = [name for name, at in pairs if now[at : at + 4] != digests[at : at + 4]]
            yield arguments, f"{readable} -> {readable_now}", changed, fields


def check(kinds: Sequence[str], most: int = 20, every: int = 1) -> list[str]:
    """One line for every case that differs, at most `most` of each kind; `every` 8th case is a quick look."""
    lines = []
    for kind in kinds:
        changed = list(differences(kind, range(0, len(load(kind)), every)))
        lines += [
            f"{kind}: {summaries} differs in {', '.join(names) or 'its summary'}: {' '.join(arguments)}"
            for arguments, summaries, names, _ in changed[:most]
        ]
        if len(changed) > most:
            lines.append(f"{kind}: and {len(changed) - most} more")
    return lines


def renew(kinds: Sequence[str], draw: bool = False) -> None:
    listed = json.loads((STORE / "fields.json").read_text()) if (STORE / "fields.json").exists() else {}
    for kind in kinds:
        cases = list(_drawn(kind)) if draw else [row[2] for row in load(kind)]
        fields = list(answers(kind, cases))
        if draw:
            leaves = {path for answered in fields for path, _ in flatten(answered)}
            sections = sorted({section(path) for path in leaves})
            listed[kind] = {"sections": sections, "fields": sorted({pattern(path) for path in leaves})}
        known, sections = frozenset(listed[kind]["fields"]), listed[kind]["sections"]
        rows = zip(cases, fields, strict=True)
        store(kind, [(summary(kind, now), joined(digest(now, known), sections), case) for case, now in rows])
    (STORE / "fields.json").write_text(json.dumps(listed, indent=0) + "\n")


def _drawn(kind: str) -> Iterator[list[str]]:
    import replay_cases

    if kind == "explain":
        return replay_cases.explain_cases()
    count = {"plan": 5000, "whole_plan": 440, "fit": 60, "simulate": 40, "inspect": 110}[kind]
    drawn: Iterator[list[str]] = getattr(replay_cases, f"{kind}_cases")(count, 13)
    return _balanced(list(drawn)) if kind == "plan" else drawn


def _balanced(cases: list[list[str]]) -> Iterator[list[str]]:
    """Most random deployments are too large or refused; a few hundred of each kind of answer are enough."""
    room = {"refused": 120, "other": 350, "weights_load": 400}
    for case, fields in zip(cases, answer_plans(cases), strict=True):
        outcome = summary("plan", fields).split()[0]
        room[outcome] = room.get(outcome, 1200) - 1
        if room[outcome] >= 0:
            yield case


def compare(revision: str, kinds: Sequence[str]) -> None:
    """Answers the cases that differ once more with the source of `revision`."""
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(["git", "archive", revision, "src"], cwd=ROOT, check=True, capture_output=True)
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
        for kind in kinds:
            changed = list(differences(kind))
            then = _answers_of(Path(folder) / "src", kind, [arguments for arguments, *_ in changed])
            for (arguments, _, _, now), before in zip(changed, then, strict=True):
                print(f"{kind} {' '.join(arguments)}")
                old, new = dict(flatten(before)), dict(flatten(now))
                for path in sorted(old.keys() | new.keys()):
                    if old.get(path) != new.get(path):
                        print(f"    {'.'.join(path)}: {old.get(path)} -> {new.get(path)}")


def _answers_of(source: Path, kind: str, cases: list[list[str]]) -> list[Fields]:
    environment = {**os.environ, "PYTHONPATH": str(source)}
    done = subprocess.run(
        [sys.executable, __file__, "answer", kind], input=json.dumps(cases), env=environment, check=True,
        capture_output=True, text=True,
    )  # fmt: skip
    return [json.loads(line) for line in done.stdout.splitlines()]


def main() -> int:
    action, *rest = sys.argv[1:] or ["check"]
    sys.path.insert(0, str(Path(__file__).parent))
    if action == "answer":
        for fields in answers(rest[0], json.load(sys.stdin)):
            print(json.dumps(fields))
    elif action == "compare":
        compare(rest[0], rest[1:] or KINDS)
    elif action in ("make", "renew"):
        renew(rest or KINDS, draw=action == "make")
    else:
        lines = check(rest or KINDS)
        print("\n".join(lines) or "every stored answer is as it was")
        return bool(lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
