"""Files and names as people write them, in our own words: what each means was written down before any was read.

`people/*.txt`: entries of files. `= command` is a deployment of the entry (equal ones count once), `| command` another
reading that is as right, `? WORD` what must be asked for, `!` that nothing is started, `~` a remark; then `---- PATH`
and the text of each file, of which the first (or the template) is read. `people/names.tsv`: a name and the checkpoint
that is meant, `?/part` where any checkpoint with these letters or a question is right, `-` where nobody has it.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from oomph import catalog
from oomph.commands import distinct, parse_command, read_deployments
from oomph.errors import InputError, OomphError
from oomph.ir import Deployment

PEOPLE = Path(__file__).parent / "people"
# flags that say nothing of a model, its memory or its layout, and a size that is the default
ASIDE = (
    "host", "port", "served_model_name", "trust_remote_code", "dist_init_addr", "node_rank", "nnodes", "jinja",
    "enable_auto_tool_choice", "tool_call_parser", "data_parallel_size_local", "distributed_executor_backend",
)  # fmt: skip


class Case(Struct):
    name: str
    meant: list[str] = []
    also: list[str] = []
    asked: list[str] = []
    starts_nothing: bool = False
    files: list[list[str]] = []


def cases() -> list[Case]:
    out: list[Case] = []
    for path in sorted(PEOPLE.glob("*.txt")):
        for line in path.read_text().splitlines(keepends=True):
            if line.startswith("==== "):
                out.append(Case(line[5:].strip()))
            elif line.startswith("---- "):
                out[-1].files.append([line[5:].strip(), ""])
            elif out[-1].files:
                out[-1].files[-1][1] += line
            elif line[0] in "=|?":
                {"=": out[-1].meant, "|": out[-1].also, "?": out[-1].asked}[line[0]].append(line[1:].strip())
            elif line[0] == "!":
                out[-1].starts_nothing = True
    return out


def reading(deployment: Deployment) -> str:
    flags = {name: value for name, value in deployment.flags.items() if name not in ASIDE}
    if flags.get("tensor_parallel_size") == 1:
        del flags["tensor_parallel_size"]
    return json.dumps([deployment.engine.name, deployment.model, flags], sort_keys=True)


def readings(commands: list[str]) -> set[str]:
    return {reading(parse_command(shlex.split(command))) for command in commands}


def read(case: Case, folder: Path) -> tuple[set[str], str]:
    """(what is started, what the errors say)."""
    for name, text in case.files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    names = [name for name, _ in case.files]
    first = next((name for name in names if "templates" in name), names[0])
    try:
        entries = distinct(read_deployments([str(folder / first)]))
    except OomphError as error:
        return set(), str(error)
    started = {reading(entry.deployment) for entry in entries if entry.deployment}
    errors = "; ".join(str(entry.error) for entry in entries if entry.error)
    return {text.replace(f"{folder}/", "") for text in started}, errors.replace(f"{folder}/", "")


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_a_file_is_read_as_its_writer_meant_it(case: Case, tmp_path: Path) -> None:
    started, errors = read(case, tmp_path)
    if started or not (case.asked or case.starts_nothing):
        assert not errors or any(word in errors for word in case.asked)
        assert started in (readings(case.meant), readings(case.also))
    else:
        assert case.starts_nothing or any(word in errors for word in case.asked), errors


def names() -> list[tuple[str, str]]:
    rows = [line.split("\t") for line in (PEOPLE / "names.tsv").read_text().splitlines()]
    return [(name, meant) for name, meant in rows]


def answer(name: str) -> str:
    """The checkpoint; "" where it is asked back, or where nothing answers."""
    try:
        entry: Any = catalog.find(name)
    except InputError:
        return ""
    return "" if entry is None else entry.id.lower()


def is_right(name: str, meant: str) -> bool:
    found = answer(name)
    return not found or (meant[2:] in found if meant.startswith("?/") else found == meant.lower())


def test_names_are_right_or_asked_back() -> None:
    rows = names()
    wrong = [name for name, meant in rows if not is_right(name, meant)]
    # the maker's own is not in the catalogue: another owner's of the same model and kind, or its tuned sister
    assert wrong == ["llama 3.1 405b fp8", "mistral-7b-v0.1", "internvl3 8b"]
    known = {one.lower() for one in catalog.ids()}
    silent = [name for name, meant in rows if meant.lower() in known and not answer(name)]
    assert len(silent) <= 0.05 * len(rows), silent
