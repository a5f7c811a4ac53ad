"""Stored answers of oomph, so that a refactor can be shown to change nothing, and a change on purpose can be read.

    python tools/replay.py check [KIND...]      which stored answers differ now: the old and the new value of each field
    python tools/replay.py renew [KIND...]      store the answers of now, and print the same
    python tools/replay.py diff [REV [KIND...]] how the stored answers of REV (HEAD) differ from those here; quick
    python tools/replay.py renew --fields KIND  let the fields that an output has got since count too
    python tools/replay.py make [KIND...]       draw random cases anew and store their answers (rarely)

`--all` prints every case instead of the first 40. KIND is a folder of tests/replay (tools/stored_answers.py has its
format): what a command answers with --json (KINDS below), or a table that a test file computes (TABLES below). A new
case is a line `["its arguments", null]` in any file of its kind; renew answers it and puts it where it belongs.

Of the kinds in THOROUGH every field counts, and of each sentence its figures and flags; of the others prose is left
out. `advice` is a plan with what would help, `levers` an engine's table of changes, `rules` all that every rule says of
a log. Their cases were picked out of many: those that notice a changed line of the source (`make mutants`).

A case names its release wherever the answer depends on one, so that a new release changes no stored answer. A log is
named by its fixture or by its number in logs.json.gz (what tests ask about), a line of it may be changed (K06.log-3,
`edited`), and several logs are one file with `+`.
"""

from __future__ import annotations

import contextlib
import functools
import gzip
import importlib.util
import io
import itertools
import json
import re
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import structs
from stored_answers import STORE, Difference, Row, between, differences, groups, numbered, store, stored, told

TESTS = STORE.parent
FIXTURES = TESTS / "doctor" / "fixtures"
THREAD = TESTS / "doctor" / "threads" / "thread.txt"
KINDS = (
    "plan", "whole_plan", "simulate", "inspect", "advice", "what-if", "levers", "explain", "rules", "fit", "models",
    "gpus",
)  # fmt: skip
# Questions that a test file draws itself, and what the parts of oomph answer.
TABLES = {
    "engine_tables": "engines/test_engine_tables.py", "protocol_tables": "engines/test_protocol_tables.py",
    "toy_plans": "engines/test_toy_plans.py", "toy_pools": "engines/test_toy_pools.py",
    "phases": "engines/vllm/test_phases.py", "scheduler_rules": "engines/vllm/test_scheduler_rules.py",
    "search_tables": "search/test_search_tables.py",
    "toy_fit": "search/test_toy_fit.py", "toy_searches": "search/test_toy_searches.py",
    "toy_advice": "advice/test_toy_advice.py", "refusal_changes": "advice/test_refusal_changes.py",
    "toy_rules": "doctor/test_toy_rules.py",
    "toy_deaths": "doctor/test_toy_deaths.py", "moved_values": "doctor/test_moved_values.py",
    "ranks": "doctor/test_ranks.py",
}  # fmt: skip
# Of these every field counts, and of a sentence its figures and flags: which advice, in which order, why not another.
THOROUGH = frozenset(("whole_plan", "explain", "fit", "advice", "what-if", "levers", "rules", "models", "gpus"))
# Prose, and what says how long or where something was looked up.
PROSE = frozenset((
    "why", "note", "notes", "warnings", "assumptions", "text", "title", "settle", "costs", "cost", "hint", "advice",
    "stage_basis", "inferred_reason", "version_from", "first_to_break", "evidence", "gives_up", "neighbours", "basis",
    "rejected", "refused", "plans", "schema", "risk", "reason", "source", "says", "error",
))  # fmt: skip
LEVERS = ("advice", "levers", "what-if")
EFFORT = frozenset(("schema", "plans"))  # how long an answer took is no part of it
# Dictionaries whose keys are data: a new key in them is a change.
OPEN = frozenset(("parts", "flags", "kv_bytes", "experts", "not_read", "environment"))
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
    from msgspec.json import encode

    from oomph.report.many import answer_case

    for arguments in cases:
        options, command = list(arguments[: arguments.index("--")]), list(arguments[arguments.index("--") + 1 :])
        named = dict(zip(options[::2], options[1::2], strict=True))
        case = {"gpu": named["--gpu"], "engine": named.get("--engine", ""), "args": command}
        fields = json.loads(encode(answer_case(json.dumps(case).encode())[0]))
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

    from oomph.doctor.beside import read_command
    from oomph.doctor.explain import read_raw
    from oomph.doctor.levers import changes, useless
    from oomph.doctor.rank import candidates
    from oomph.doctor.runs import explain_raw_runs
    from oomph.errors import OomphError
    from oomph.logs.reader import read_paths

    for log, *options in cases:
        named = dict(zip(options[::2], options[1::2], strict=True))
        gpus = named.get("--gpu", "")
        deployment = read_command((), named["--engine"])[0] if "--engine" in named else None
        with tempfile.TemporaryDirectory() as folder:
            raw = read_paths([_path(log, Path(folder))])
        try:
            case = read_raw(raw, deployment, gpus)
            speaking = candidates(case, case.rebuilt.engine or "vllm")
            runs = explain_raw_runs(raw, deployment=deployment, gpus=gpus, plan=False)
        except OomphError as refused:
            yield {"refused_input": True, "error": refused.message.replace(folder, "")}
            continue
        yield {
            "rules": [
                {
                    "id": rule.id,
                    **json.loads(encode(finding)),
                    "levers": json.loads(encode(changes(case, finding.levers))),
                    "useless": json.loads(encode(useless(case, rule, finding))),
                }
                for rule, finding in speaking
            ],
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


OF_NEWEST = ("command", "concurrency", "gain_bytes", "tokens")  # figures and flags that the release decides


def without_newest(fields: Fields, arguments: Sequence[str]) -> Fields:
    """A lever may be the newest release, which a question does not name: another one is the same answer, whatever card
    it would take and how much that would hold."""
    from oomph.engines.registry import engine_named

    text = json.dumps(fields)
    name, _, version = arguments[arguments.index("--engine") + 1].partition("==")
    newest = engine_named(name).newest()
    if version == newest or newest not in text:
        return fields
    renamed: Fields = json.loads(re.sub(rf"(?<![\d.]){re.escape(newest)}(?![\d.])", "NEWEST", text))
    advice = renamed.get("advice") or {}
    for fix in (*advice.get("fixes", ()), *advice.get("helps", ())):
        if "NEWEST" in fix["change"]:
            fix |= {"change": f"{fix['change'].partition('NEWEST')[0]}NEWEST"} | dict.fromkeys(OF_NEWEST)
    return renamed


@contextlib.contextmanager
def without_a_hub() -> Iterator[None]:
    """What a refusal says of the network differs from machine to machine: nothing is asked, and nothing is cached."""
    from oomph.sources.hub import home as hub_home

    hub = hub_home.hub
    hub_home.hub = lambda: structs.replace(hub(), offline=True, cache="/nowhere")
    try:
        yield
    finally:
        hub_home.hub = hub


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


def kept(kind: str, value: Any, path: tuple[str, ...] = ()) -> Any:
    """What is stored of an answer: the fields that count, figures rounded; of prose nothing, or of a thorough kind its
    figures and flags."""
    thorough = kind in THOROUGH
    if isinstance(value, dict):
        inner = {
            key: kept(kind, one, (*path, key))
            for key, one in value.items()
            if path[-1:] == ("terms",) or key not in (EFFORT if thorough else PROSE)
        }
        return {key: one for key, one in inner.items() if one is not UNKNOWN} or (UNKNOWN if path else {})
    if isinstance(value, list):
        return [one for one in (kept(kind, one, (*path, "0")) for one in value) if one is not UNKNOWN] or UNKNOWN
    if pattern(path) not in known_fields(kind):
        return UNKNOWN
    if isinstance(value, str) and " " in value and (_name(path) in PROSE or path[0] == "error"):
        return " ".join(["...", *FIGURES.findall(value)])
    return round(value, 9) if isinstance(value, float) else value


UNKNOWN = object()  # a field that was added after the answers were stored


def leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The path of every leaf; a position in a list is 0."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
    elif isinstance(value, list):
        for inner in value:
            yield from leaves(inner, (*path, "0"))
    else:
        yield path


@functools.cache
def load(kind: str) -> dict[str, str]:
    """The stored answers by question: the arguments of the command, as a shell reads them."""
    return {question: text for group in groups(kind) for question, text in stored(kind, group).items()}


@functools.cache
def cases(kind: str) -> list[list[str]]:
    """The arguments of every stored case, those of one model after each other."""

    def command(arguments: list[str]) -> list[str]:
        return arguments[arguments.index("--") :] if "--" in arguments else arguments

    return sorted(map(shlex.split, load(kind)), key=command)


@functools.cache
def known_fields(kind: str) -> frozenset[str]:
    """The fields that count: one that a JSON gets later changes no stored answer until `renew --fields`."""
    path = STORE / kind / "fields.txt"
    return frozenset(path.read_text().split()) if path.exists() else frozenset()


def group_of(kind: str, arguments: Sequence[str]) -> str:
    """The file in which a case is: those that change together, none too large."""
    if kind in ("explain", "rules"):
        source = next(match["source"] for match in map(LOG.match, arguments) if match)
        number = source.removeprefix("log:")
        return f"log-{int(number) // 20 * 20:03}" if number.isdigit() else source[0]
    if kind in ("fit", "inspect"):
        return arguments[0][0].lower()
    if kind in ("models", "gpus"):
        return "all"
    named = arguments[arguments.index("--engine") + 1] if "--engine" in arguments else "no-release"
    return named.replace("==", "-") if kind in ("plan", "whole_plan") else named.partition("==")[0]


def rows(kind: str, chosen: Sequence[Sequence[str]]) -> Iterator[Row]:
    """Questions and what is stored of their answers."""
    for arguments, fields in zip(chosen, answers(kind, chosen), strict=True):
        yield shlex.join(arguments), kept(kind, without_newest(fields, arguments) if kind in LEVERS else fields)


def differences_of(kind: str, chosen: Sequence[int] | None = None) -> list[Difference]:
    """`chosen` by number."""
    some = cases(kind) if chosen is None else [cases(kind)[number] for number in chosen]
    before = {question: load(kind)[question] for question in map(shlex.join, some)}
    return list(differences(kind, before, rows(kind, some)))


def numbers(kind: str, every: int = 1, part: int = 0, parts: int = 1) -> list[int]:
    """The cases of a part; every 8th is a quick look."""
    chosen = range(len(cases(kind)))[::every]
    return list(chosen[len(chosen) * part // parts : len(chosen) * (part + 1) // parts])


def tables_of(kind: str) -> dict[str, Callable[[], Iterable[Row]]]:
    """The groups of a kind whose questions and answers a test file computes: its TABLES."""
    path = TESTS / TABLES[kind]
    sys.path[:0] = [str(path.parent), str(TESTS), str(TESTS / "sources")]
    specification = importlib.util.spec_from_file_location(path.stem, path)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    tables: dict[str, Callable[[], Iterable[Row]]] = module.TABLES
    return tables


def check(kind: str) -> list[Difference]:
    if kind in KINDS:
        return differences_of(kind)
    tables = tables_of(kind)
    return [
        one
        for group, table in tables.items()
        for one in differences(f"{kind}/{group}", stored(kind, group), numbered(table()))
    ]


def renew(kind: str, draw: bool = False, fields: bool = False) -> list[Difference]:
    """Stores the answers of now. `fields`: those that the answers have got since count too."""
    if kind not in KINDS:
        return store(kind, {group: list(table()) for group, table in tables_of(kind).items()})
    chosen = list(_drawn(kind)) if draw else cases(kind)
    if draw or fields:
        listed = known_fields(kind) | {pattern(path) for one in answers(kind, chosen) for path in leaves(one)}
        (STORE / kind).mkdir(parents=True, exist_ok=True)
        (STORE / kind / "fields.txt").write_text("".join(f"{name}\n" for name in sorted(listed)))
        known_fields.cache_clear()
    by_group: dict[str, list[Row]] = {}
    for arguments, row in zip(chosen, rows(kind, chosen), strict=True):
        by_group.setdefault(group_of(kind, arguments), []).append(row)
    return store(kind, by_group)


def _drawn(kind: str) -> Iterator[list[str]]:
    """Cases anew; of most kinds those that are stored were picked out of many, and stay."""
    import replay_cases

    if kind not in DRAWN:
        return iter(cases(kind))
    drawn: Iterator[list[str]] = getattr(replay_cases, f"{kind}_cases")(DRAWN[kind], 13)
    return _balanced(list(drawn)) if kind == "plan" else drawn


def _balanced(cases: list[list[str]]) -> Iterator[list[str]]:
    """Most random deployments are too large or refused; a few hundred of each kind of answer are enough."""
    room = {"refused": 120, "other": 350, "weights_load": 400}
    for case, fields in zip(cases, answer_plans("plan", cases), strict=True):
        verdict = fields.get("verdict", {"fits": False, "stage": "refused"})
        outcome = "fits" if verdict["fits"] else verdict["stage"]
        room[outcome] = room.get(outcome, 1200) - 1
        if room[outcome] >= 0:
            yield case


def main() -> int:
    action, *words = sys.argv[1:] or ["check"]
    if action not in ("check", "renew", "diff", "make"):
        sys.exit(__doc__)
    sys.path.insert(0, str(Path(__file__).parent))
    changed: list[Difference] = []
    revision = words.pop(0) if action == "diff" and words else "HEAD"
    kinds = [word for word in words if not word.startswith("-")] or [*KINDS, *TABLES]
    if unknown := set(kinds) - {*KINDS, *TABLES}:
        sys.exit(f"no kind {' '.join(sorted(unknown))}: {', '.join((*KINDS, *TABLES))}")
    for kind in kinds:
        if action == "diff":
            changed += between(revision, kind)
        elif action in ("make", "renew"):
            changed += renew(kind, draw=action == "make", fields="--fields" in words)
        else:
            changed += check(kind)
    print(told(changed, len(changed) if "--all" in words else 40) if changed else "every stored answer is as it was")
    return bool(changed) and action == "check"


if __name__ == "__main__":
    sys.exit(main())
