"""check(paths): every deployment in the files of a repository, planned; a gate for CI.

    check(["deploy/", "compose.yaml"], gpu="2x L40S").exit_code

A file that holds deployments and cannot be planned is an item with its error: nothing is lost without a word.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from oomph.answers.plan import plan
from oomph.commands import Entry
from oomph.commands.call import Around
from oomph.commands.deployments import built_here, read_file_text, with_names
from oomph.commands.repository import candidates, starts_engine
from oomph.commands.texts import NoDeployment
from oomph.errors import CommandError, OomphError
from oomph.ir import Deployment, Plan
from oomph.ir.printed import Printed
from oomph.sources.place import doubtful_folder, folder_note, looking
from oomph.text.printable import encodable

Outcome = Literal["fits", "at_risk", "close", "fails", "unread", "unplanned"]
# The outcome's exit code, the worst first: a start that must fail, an input that is wrong, one that needs something
# that is not known, a start that is too close to call.
EXIT_CODES: dict[Outcome, int] = {"fails": 1, "unread": 2, "unplanned": 3, "close": 4, "at_risk": 4, "fits": 0}


# a remark that leaves a file out
_IGNORE = re.compile(r"^[^\S\n]*(?:#|//|;|rem\b)+[^\S\n]*oomph:[^\S\n]*ignore\b", re.MULTILINE | re.IGNORECASE)


class Item(Struct, frozen=True):
    """One deployment of one file, planned; or why it could not be. One of `plan` and `error` is there."""

    file: str  # "" = it was typed
    name: str  # of the deployment inside the file
    line: int = 0  # where the file speaks of it, from 1; 0 = not known
    plan: Plan | None = None
    error: OomphError | None = None
    model: str = ""  # as the deployment names it; "" where it could not be read
    warning: str = ""  # a folder of the repository that is called like the hub's model, and was not believed

    @property
    def outcome(self) -> Outcome:
        if self.plan is not None:
            return self.plan.verdict.outcome
        return "unplanned" if self.error is not None and self.error.exit_code == 3 else "unread"

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.outcome]


class Check(Printed, frozen=True):
    """What `oomph check` prints: every deployment of some files, planned."""

    items: tuple[Item, ...]
    files: int = 0  # how many were looked at
    where: str = ""  # the one file that was asked about

    @property
    def outcome(self) -> Outcome:
        return worst(item.outcome for item in self.items)

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.outcome]

    def in_short(self) -> str:
        return f"{len(self.items)} deployments in {self.files} files: {self.outcome}"

    @property
    def lenient_exit_code(self) -> int:
        """The same by what could be planned alone."""
        return EXIT_CODES[worst(item.outcome for item in self.items if item.plan is not None)]


def worst(outcomes: Iterable[Outcome]) -> Outcome:
    """The one that decides the exit code; `fits` where there is none."""
    return min(outcomes, key=list(EXIT_CODES).index, default="fits")


def check(
    paths: Sequence[str],
    *,
    gpu: str | None = None,
    engine: str = "",
    margin: int | str = 0,
    exclude: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    names: Mapping[str, str] | None = None,
    advise: bool = False,
    own_build: bool = False,
) -> Check:
    """Every deployment in the files and folders of `paths`.

    `gpu` is the default: a deployment whose file names its GPUs is planned on those. `environment` is what a file's
    own $NAME may stand for, `names` says what a model's name is: a folder, or another name.
    """
    items: list[Item] = []
    files = 0
    for path, text in candidates(paths, exclude):
        files += 1
        if _IGNORE.search(text):
            continue
        entries = _with_names(_entries(path, text, engine, environment or {}), names or {})
        if own_build:
            entries = [built_here(entry) for entry in entries]
        items += plan_entries(entries, file=encodable(path), gpu=gpu, margin=margin, advise=advise, own_gpus_first=True)
    return Check(tuple(items), files)


def _with_names(entries: Sequence[Entry], names: Mapping[str, str]) -> list[Entry]:
    if not names:
        return list(entries)
    return [replace(e, deployment=with_names(e.deployment, names)) if e.deployment else e for e in entries]


def _entries(path: str, text: str, engine: str, environment: Mapping[str, str]) -> list[Entry]:
    """The deployments of one file; [] where it only speaks of an engine."""
    try:
        return read_file_text(text, path, engine=engine or None, around=Around(outside=environment))
    except NoDeployment:
        return []
    except OomphError as error:
        return [Entry("", error=error)] if starts_engine(text) else []
    except (RecursionError, MemoryError):
        return [Entry("", error=CommandError(f"{path} is too deep or too large to read"))]


def plan_entries(
    entries: Sequence[Entry],
    *,
    file: str,
    gpu: str | None,
    margin: int | str,
    compile_cache: str = "",
    advise: bool,
    own_gpus_first: bool = False,
) -> list[Item]:
    """Each entry planned; one that cannot be does not end the others.

    `own_gpus_first`: the GPUs that a file names count more than `gpu`.
    """
    items = []
    planned: dict[bytes, tuple[Plan | None, OomphError | None, str]] = {}  # equal commands of a file are planned once

    def judged(deployment: Deployment) -> tuple[Plan | None, OomphError | None, str]:
        answer: Plan | None = None
        error: OomphError | None = None
        cards = deployment.gpu_name or gpu if own_gpus_first else gpu
        try:
            answer = plan(deployment, gpu=cards, margin=margin, compile_cache=compile_cache, advise=advise)
        except OomphError as refused:
            error = refused
        with looking(deployment.place):
            return answer, error, folder_note(deployment.model) if doubtful_folder(deployment.model) else ""

    for entry in entries:
        if entry.deployment is None:
            items.append(Item(file, encodable(entry.name), entry.line, None, entry.error))
            continue
        key = repr(entry.deployment).encode("utf-8", "surrogatepass")
        if key not in planned:
            planned[key] = judged(entry.deployment)
        answer, error, warning = planned[key]
        model = entry.deployment.model
        items.append(
            Item(file, encodable(entry.name), entry.line, answer, error or entry.error, model, warning=warning)
        )
    return items
