"""Stored answers of oomph, so that a refactor can be shown to change nothing.

    python tools/replay.py make                draw the cases anew and store their answers (rarely)
    python tools/replay.py check [KIND...]     which stored answers differ now, by section
    python tools/replay.py renew [KIND...]     store the answers of now; the diff shows which cases changed
    python tools/replay.py compare REV [KIND]  answer the differing cases at REV too and show both, field by field

tests/replay/KIND.txt has one line per case: a readable summary, four characters per section of the JSON (a digest of
its figures, names, stages, flags and commands), and the arguments. Sentences are left out: prose may change freely.
fields.json lists the fields that count, so that a field that is added later changes no digest. The kinds in THOROUGH
have one digest of the whole answer, and of each sentence its figures and flags: which advice, in which order, why not
another. `advice` is a plan with what would help, `levers` an engine's table of changes, `rules` all that every rule
says of a log. Their cases were picked out of many: those that notice a changed line of the source (`make mutants`).

A log is named by its fixture or by its number in logs.json.gz (what tests ask about), a line of it may be changed
(K06.log-3, `edited`), and several logs are one file with `+`.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import gzip
import hashlib
import io
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import structs

ROOT = Path(__file__).parents[1]
STORE = ROOT / "tests" / "replay"
FIXTURES = ROOT / "tests" / "doctor" / "fixtures"
THREAD = ROOT / "tests" / "doctor" / "threads" / "thread.txt"
KINDS = (
    "plan", "whole_plan", "simulate", "inspect", "advice", "what-if", "levers", "explain", "rules", "fit", "models",
    "gpus",
)  # fmt: skip
# Of these every field counts, and of a sentence its figures and flags: which advice, in which order, why not another.
THOROUGH = frozenset(("whole_plan", "explain", "fit", "advice", "what-if", "levers", "rules", "models", "gpus"))
DRAWN_WITH = "vllm==0.32.0"  # the newest release when the cases were drawn: a new one changes no stored answer
# Prose, and what says how long or where something was looked up.
PROSE = frozenset((
    "why", "note", "notes", "warnings", "assumptions", "text", "title", "settle", "costs", "cost", "hint", "advice",
    "stage_basis", "inferred_reason", "version_from", "first_to_break", "evidence", "gives_up", "neighbours", "basis",
    "rejected", "refused", "plans", "schema", "risk", "reason", "source", "says", "error",
))  # fmt: skip
EFFORT = frozenset(("schema", "plans"))  # how long an answer took is no part of it
# Dictionaries whose keys are data: a new key in them is a change.
OPEN = frozenset(("parts", "flags", "kv_bytes", "experts", "not_read", "environment"))
WHOLE = "the answer"
DRAWN = {"plan": 5000, "simulate": 40, "inspect": 110}

LOG = re.compile(r"(?P<source>log:\d+|\w+\.log|thread\.txt)(?P<edit>[-<*/]\d+|=\d+\.\d+:[\d.]+)?")
FIGURE = re.compile(r"\d+(\.\d+)?")
FIGURES = re.compile(r"--[a-z][\w-]+|\d+(?:[.,]\d+)*")

Fields = dict[str, Any]


def answer(kind: str, arguments: Sequence[str]) -> Fields:
    """What the command prints with --json; a refusal becomes its exit code."""
    from oomph.cli.main import main

    printed = io.StringIO()
    code: object = 0
    with (
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(io.StringIO()),
        tempfile.TemporaryDirectory() as folder,
    ):
        words = [_path(word, Path(folder)) for word in arguments]
        if kind == "fit" and "--engine" not in words:
            words += ["--engine", DRAWN_WITH]
        try:
            main(["plan" if kind == "advice" else kind, "--json", *words])
        except SystemExit as left:
            code = left.code
    try:
        fields = json.loads(printed.getvalue().replace(folder, ""))
    except json.JSONDecodeError:
        fields = {}
    return {"exit": code, **fields} if not fields or "error" in fields else fields


def _path(word: str, folder: Path) -> str:
    """An argument that names a file of the store, or several logs in one (K06.log+log:3-2), as its path."""
    if word == "prices.csv":
        return str(STORE / word)
    parts = [LOG.fullmatch(part) for part in word.split("+")]
    texts = [edited(_text(log["source"]), log["edit"] or "") for log in parts if log is not None]
    if len(texts) < len(parts):
        return word
    path = folder / "server.log"
    path.write_text("".join(texts))
    return str(path)


def _text(source: str) -> str:
    if source.startswith("log:"):
        return logs()[int(source.removeprefix("log:"))]
    return (THREAD if source == THREAD.name else FIXTURES / source).read_text()


@functools.cache
def logs() -> list[str]:
    """Logs that tests ask about, and that have no file of their own."""
    texts: list[str] = json.loads(gzip.decompress((STORE / "logs.json.gz").read_bytes()))
    return texts


def edited(text: str, edit: str) -> str:
    """`-3` leaves the third line out, `<3` ends with it, `*3` doubles its figures and `/3` halves them; `=3.2:0.5`: its
    second figure is 0.5."""
    if not edit:
        return f"{text.rstrip()}\n"
    if edit[0] == "=":
        return _with_figure(text, edit[1:])
    lines, at = text.splitlines(), int(edit[1:])
    if edit[0] == "<":
        return "\n".join(lines[:at]) + "\n"
    factor = {"*": 2.0, "/": 0.5, "-": 0.0}[edit[0]]
    line = FIGURE.sub(lambda figure: f"{float(figure[0]) * factor:.{len(figure[1] or '.') - 1}f}", lines[at - 1])
    return "\n".join([*lines[: at - 1], *([line] if factor else []), *lines[at:]]) + "\n"


def _with_figure(text: str, edit: str) -> str:
    place, _, value = edit.partition(":")
    at, which = map(int, place.split("."))
    lines = text.splitlines()
    numbers = itertools.count(1)
    lines[at - 1] = FIGURE.sub(lambda figure: value if next(numbers) == which else figure[0], lines[at - 1])
    return "\n".join(lines) + "\n"


def answer_plans(kind: str, cases: Sequence[Sequence[str]]) -> Iterator[Fields]:
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
        refused = {"refused_input": True, **(fields if kind in THOROUGH else {})}
        yield refused if "error" in fields else fields


def answer_levers(cases: Sequence[Sequence[str]]) -> Iterator[Fields]:
    """The engine's table of changes for a plan: their order, ranks, what they move and when they are not read. And its
    reasons, and what a container of it needs."""
    from msgspec.json import encode

    from oomph.answers.plan import plan
    from oomph.engines.registry import engine_of
    from oomph.errors import OomphError

    for arguments in cases:
        at = list(arguments).index("--")
        named = dict(zip(arguments[:at:2], arguments[1:at:2], strict=True))
        try:
            before = plan(arguments[at + 1 :], gpu=named["--gpu"], engine=named.get("--engine", ""), advise=False)
            engine = engine_of(before.deployment)
            table = engine.levers(before) if before.ranks else engine.refusal_levers(before)
            rows = json.loads(encode(tuple(table)))
            yield {
                "levers": [{**row, "frees": sorted(row["frees"] or ())} for row in rows],  # it has no order
                **(_written(engine, before) if before.ranks else {}),
            }
        except OomphError:
            yield {"refused_input": True}


def _written(engine: Any, plan: Any) -> Fields:
    """What else an engine writes about a plan: each part where the engine has it."""
    from msgspec.json import encode

    from oomph.errors import OomphError

    nodes = len({device.node for device in plan.deployment.gpus}) or 1
    parts: dict[str, Callable[[], Any]] = {
        "why": lambda: engine.reasons(plan),
        "container": lambda: engine.container(plan.deployment),
        "config_file": lambda: engine.config_file(plan.deployment).split("\n"),
        "needs": lambda: engine.host_needs(plan, nodes),
        "lines": lambda: engine.launch_lines(plan, nodes).split("\n"),
        "words": lambda: engine.node_commands(plan, nodes),
    }
    answered: Fields = {}
    for name, part in parts.items():
        with contextlib.suppress(OomphError):
            answered[name] = json.loads(encode(part()))
    return answered


def answer_rules(cases: Sequence[Sequence[str]]) -> Iterator[Fields]:
    """Every rule that speaks on a log, with all that it says: an explanation shows the best one. And the log's runs."""
    from msgspec.json import encode

    from oomph.doctor.explain import read_raw
    from oomph.doctor.rank import candidates
    from oomph.doctor.runs import explain_raw_runs
    from oomph.errors import OomphError
    from oomph.logs.reader import read_paths

    for log, *rest in cases:
        with tempfile.TemporaryDirectory() as folder:
            raw = read_paths([_path(log, Path(folder))])
        try:
            case = read_raw(raw, None, "".join(rest[1:2]))
            speaking = candidates(case, case.rebuilt.engine or "vllm")
            runs = explain_raw_runs(raw, gpus="".join(rest[1:2]), plan=False)
        except OomphError as refused:
            yield {"refused_input": True, "error": refused.message.replace(folder, "")}
            continue
        yield {
            "rules": [{"id": rule.id, **json.loads(encode(candidate))} for rule, candidate in speaking],
            "runs": [{"lines": [run.first_line, run.last_line], **run.explanation.to_dict()} for run in runs[:-1]],
            "death": {**json.loads(encode(case.death)), "completed": sorted(case.death.completed)},
        }


def answers(kind: str, cases: Sequence[Sequence[str]]) -> Iterator[Fields]:
    with without_a_hub():
        if kind in ("levers", "rules"):
            yield from answer_levers(cases) if kind == "levers" else answer_rules(cases)
        elif kind in ("plan", "whole_plan"):
            yield from answer_plans(kind, cases)
        else:
            yield from (answer(kind, case) for case in cases)


@contextlib.contextmanager
def without_a_hub() -> Iterator[None]:
    """What a refusal says of the network differs from machine to machine: nothing is asked, and nothing is cached."""
    from oomph.sources import hub_home

    hub = hub_home.hub
    hub_home.hub = lambda: structs.replace(hub(), offline=True, cache="/nowhere")
    try:
        yield
    finally:
        hub_home.hub = hub


def flatten(value: Any, path: tuple[str, ...] = (), thorough: bool = False) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every leaf with its path; list positions are numbers. Prose is left out, or `thorough`: is its figures."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if path[-1:] == ("terms",) or key not in (EFFORT if thorough else PROSE):
                yield from flatten(inner, (*path, key), thorough)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from flatten(inner, (*path, str(number)), thorough)
    elif isinstance(value, str) and " " in value and (_name(path) in PROSE or path[0] == "error"):
        yield path, " ".join(["...", *FIGURES.findall(value)])
    else:
        yield path, round(value, 9) if isinstance(value, float) else value


def _name(path: tuple[str, ...]) -> str:
    return next((name for name in reversed(path) if not name.isdigit()), "")


@functools.cache
def pattern(path: tuple[str, ...]) -> str:
    """The path without positions and without keys that are data: what fields.json lists."""
    names: list[str] = []
    for name in path:
        if names and names[-1] in OPEN:
            break
        names.append("*" if name.isdigit() else name)
    return ".".join(names)


@functools.cache
def section(path: tuple[str, ...]) -> str:
    names = [name for name in path if not name.isdigit()]
    if names[:2] == ["ranks", "terms"]:
        return names[2]
    return names[1] if names[0] == "ranks" and len(names) > 2 else names[0]


def digest(fields: Fields, known: frozenset[str], thorough: bool = False) -> dict[str, str]:
    """Four characters for each section of an answer, or `thorough`: for all of it."""
    by_section: dict[str, list[str]] = {}
    for path, value in flatten(fields, thorough=thorough):
        if pattern(path) in known:
            name = WHOLE if thorough else section(path)
            by_section.setdefault(name, []).append(f"{'.'.join(path)}={json.dumps(value)}")
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
    is_refused = not fields or not fields.keys().isdisjoint(("error", "exit", "refused_input"))
    return "refused" if is_refused else "answered"


@functools.cache
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


@functools.cache
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
        now = joined(digest(fields, known, kind in THOROUGH), sections)
        readable_now = summary(kind, fields)
        if (readable_now, now) != (readable, digests):
            pairs = zip(sections, range(0, 4 * len(sections), 4), strict=True)
            changed = [name for name, at in pairs if now[at : at + 4] != digests[at : at + 4]]
            yield arguments, f"{readable} -> {readable_now}", changed, fields


def numbers(kind: str, every: int = 1, part: int = 0, parts: int = 1) -> list[int]:
    """The cases of a part, those of one model after each other; every 8th is a quick look."""

    def command(number: int) -> list[str]:
        arguments = load(kind)[number][2]
        return arguments[arguments.index("--") :] if "--" in arguments else arguments

    chosen = sorted(range(len(load(kind))), key=command)[::every]
    return chosen[len(chosen) * part // parts : len(chosen) * (part + 1) // parts]


def check(kinds: Sequence[str], most: int = 20, every: int = 1, part: int = 0, parts: int = 1) -> list[str]:
    """One line for every case that differs, at most `most` of each kind."""
    lines = []
    for kind in kinds:
        changed = list(differences(kind, numbers(kind, every, part, parts)))
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
            leaves = {path for answered in fields for path, _ in flatten(answered, thorough=kind in THOROUGH)}
            sections = [WHOLE] if kind in THOROUGH else sorted({section(path) for path in leaves})
            listed[kind] = {"sections": sections, "fields": sorted({pattern(path) for path in leaves})}
        known, sections = frozenset(listed[kind]["fields"]), listed[kind]["sections"]
        digests = [joined(digest(answered, known, kind in THOROUGH), sections) for answered in fields]
        readable = [summary(kind, answered) for answered in fields]
        store(kind, list(zip(readable, digests, cases, strict=True)))
    (STORE / "fields.json").write_text(json.dumps(listed, indent=0) + "\n")


def _drawn(kind: str) -> Iterator[list[str]]:
    """Cases anew; of most kinds those that are stored were picked out of many, and stay."""
    import replay_cases

    if kind not in DRAWN:
        return (row[2] for row in load(kind))
    drawn: Iterator[list[str]] = getattr(replay_cases, f"{kind}_cases")(DRAWN[kind], 13)
    return _balanced(list(drawn)) if kind == "plan" else drawn


def _balanced(cases: list[list[str]]) -> Iterator[list[str]]:
    """Most random deployments are too large or refused; a few hundred of each kind of answer are enough."""
    room = {"refused": 120, "other": 350, "weights_load": 400}
    for case, fields in zip(cases, answer_plans("plan", cases), strict=True):
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
                old, new = (dict(flatten(one, thorough=kind in THOROUGH)) for one in (before, now))
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
