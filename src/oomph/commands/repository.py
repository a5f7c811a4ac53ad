"""The files of a repository that may hold a deployment: by name first, then by a word of their text."""

import os
import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from functools import cache

from oomph.commands import files
from oomph.commands.call import SERVER, short
from oomph.engines.registry import all_engines
from oomph.errors import CommandError, InputError
from oomph.sources import boundary

# folders that hold other people's files, or what is made from these
_SKIPPED = frozenset((
    "node_modules", "venv", "env", "site-packages", "__pycache__", "dist", "build", "target", "vendor", "third_party",
))  # fmt: skip
_SHOWN_HIDDEN = frozenset((".github", ".gitlab", ".circleci", ".devcontainer", ".devops", ".vscode"))
_ENDINGS = (
    ".yaml", ".yml", ".sh", ".bash", ".zsh", ".sbatch", ".slurm", ".service", ".container", ".py", ".ipynb", ".bat",
    ".cmd", ".ps1", ".mk", ".just", ".tpl", ".dockerfile", ".hcl", ".nomad", ".tf", ".fish",
)  # fmt: skip
_NAMES = re.compile(
    r"(?:docker|container)file(?:[.\-_].*)?|(?:gnu)?makefile(?:\..*)?|\.?justfile|procfile|supervisord?\.conf",
    re.IGNORECASE,
)
# resources that start an engine without its name: vLLM's production stack, KServe, Ray Serve
_RESOURCES = ("servingEngineSpec", "serving.kserve.io", "llm_configs", "modelArtifacts", "kubeai.org", "dynamo.trtllm")
_MOST_FILES = 20_000


class TooMany(InputError):
    """A folder that is no repository of deployments: a home directory, a whole disk."""


def candidates(paths: Sequence[str], exclude: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
    """(path, text) of the files that name an engine. A folder is walked; a file that is named is always looked at."""
    seen: set[str] = set()
    for path in paths:
        if not boundary.exists(path):
            hint = "options stand before --; in .pre-commit-config.yaml in `entry`, not in `args`"
            raise CommandError(f"{short(path)} is not there", hint=hint if path.startswith("-") else "")
        for name in _walk(path, exclude) if os.path.isdir(path) else [path]:
            real = os.path.realpath(name)
            if name != path and os.path.islink(name) and not _is_inside(real, path):
                continue  # a link that leaves the tree: what it shows is no part of the repository
            if real in seen:
                continue
            seen.add(real)
            if len(seen) > _MOST_FILES:
                raise TooMany(
                    f"{short(path)} holds over {_MOST_FILES} files that may be deployments",
                    hint="name the folders that hold them, or leave some out: --exclude GLOB",
                )
            if name != path and _fills_templates(name):
                continue  # they are read with it
            text = _text(name, required=name == path)
            if engine_words().search(text):
                yield name, text


def _fills_templates(name: str) -> bool:
    """Whether it is the values.yaml of a chart whose templates lie beside it."""
    folder, last = os.path.split(name)
    beside = (os.path.join(folder, "Chart.yaml"), os.path.join(folder, "templates"))
    return last == "values.yaml" and boundary.is_file(beside[0]) and os.path.isdir(beside[1])


def _is_inside(real: str, folder: str) -> bool:
    root = os.path.realpath(folder)
    return real == root or real.startswith(root.rstrip(os.sep) + os.sep)


def _walk(folder: str, exclude: Sequence[str]) -> Iterator[str]:
    boundary.require(folder)
    for where, folders, names in os.walk(folder):
        folders[:] = sorted(
            name
            for name in folders
            if name not in _SKIPPED
            and (not name.startswith(".") or name in _SHOWN_HIDDEN)
            and not os.path.islink(os.path.join(where, name))
            and not _excluded(os.path.join(where, name), folder, exclude)
        )
        for name in sorted(names):
            path = os.path.normpath(os.path.join(where, name))
            if may_hold(name) and not _excluded(path, folder, exclude):
                yield path


def may_hold(name: str) -> bool:
    """Manuals (.md) are left out: what they show is an example, unless somebody names the file."""
    return name.lower().endswith(_ENDINGS) or _NAMES.fullmatch(name) is not None or files.starts_programs(name)


def _excluded(path: str, root: str, patterns: Sequence[str]) -> bool:
    names = (path, os.path.relpath(path, root), os.path.basename(path))
    return any(fnmatch(name, pattern.rstrip("/")) for pattern in patterns for name in names)


def _text(path: str, *, required: bool) -> str:
    """A file of a folder that is too long, or no text, is no deployment; one that was named says so."""
    try:
        return files.read(path)
    except CommandError:
        if required:
            raise
        return ""


@cache
def engine_words() -> re.Pattern[str]:
    """What every file that starts an engine contains: its program, its module, or a part of its image's name."""
    words = {word for one in all_engines() for word in (*one.programs, *one.modules, *one.images)}
    return re.compile("|".join(map(re.escape, sorted({*words, *_RESOURCES}))), re.IGNORECASE)


def starts_engine(text: str) -> bool:
    """Whether a text that could not be read starts an engine, rather than only speaking of one."""
    return SERVER.search(text) is not None or _engine_image().search(text) is not None


@cache
def _engine_image() -> re.Pattern[str]:
    words = {re.escape(word) for one in all_engines() for word in one.images}
    return re.compile(rf"^[ \t-]*(?:image|FROM|repository)\b[^\n]*(?:{'|'.join(sorted(words))})", re.MULTILINE)
