"""Where the process of a command would look for its model: the files that it sees, and what a name is to it.

A command that is typed sees the working directory, a script the folder of its file, a container what is mounted. To
engines that ask the hub a name is a path or a repository's id; nothing is guessed for them.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from oomph.facts.hub_names import WITHOUT_OWNER
from oomph.ir.deployment import Place
from oomph.sources import boundary
from oomph.text.printable import quoted

_ANYWHERE = Place()
_current: ContextVar[Place] = ContextVar("place", default=_ANYWHERE)
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
_ADDRESS = re.compile(r"(?:https?://)?(?:www\.)?(?:huggingface\.co|hf\.co)/([\w.-]+/[\w.-]+)")
_MOST_PARENTS = 20
_LONGEST_NAME = 200
# Nobody on the hub is called so: these begin a path.
FOLDERS = frozenset(
    ("models", "model", "checkpoints", "checkpoint", "ckpt", "ckpts", "weights", "output", "outputs", "data", "tmp",
     "home", "mnt", "root", "workspace", "runs", "results", "src", "build", "downloads", "opt", "var", "usr", "media")
)  # fmt: skip


@contextmanager
def looking(place: Place) -> Iterator[None]:
    """What is loaded inside is what a process at `place` would find."""
    token = _current.set(place)
    try:
        yield
    finally:
        _current.reset(token)


def current() -> Place:
    return _current.get()


def key() -> tuple[Place, str]:
    """What decides which file a name stands for, for what is remembered by names."""
    try:
        return current(), os.getcwd()
    except OSError:  # the working directory is gone
        return current(), ""


def folders_of(file: str) -> tuple[str, ...]:
    """The folder of a file and those above it up to the repository's own; the folder alone where there is none. They
    are the same from wherever the file is looked at."""
    folder = os.path.dirname(os.path.realpath(file))
    above = [folder]
    while len(above) < _MOST_PARENTS and not os.path.lexists(os.path.join(above[-1], ".git")):
        parent = os.path.dirname(above[-1])
        if parent == above[-1]:
            return (folder,)
        above.append(parent)
    return tuple(above) if os.path.lexists(os.path.join(above[-1], ".git")) else (folder,)


def path_here(name: str) -> str:
    """The path of this machine at which the process would find what it calls so; "" where it would not."""
    place, path = current(), os.path.expanduser(name)
    if place.container:
        return path if name in place.mounted and boundary.exists(path) else ""
    if os.path.isabs(path):
        return path if boundary.exists(path) else ""
    paths = (os.path.join(folder, path) if folder else path for folder in place.folders)
    return next((one for one in paths if boundary.exists(one)), "")


def is_gguf_file(name: str) -> bool:
    return name.lower().endswith(".gguf") and bool(path_here(name))


def is_repository(name: str) -> bool:
    """Whether a name has the form of a repository's id: owner/name."""
    return _REPOSITORY.fullmatch(name) is not None and name.partition("/")[0].lower() not in FOLDERS


def doubtful_folder(name: str) -> str:
    """A folder beside a file that is called like a repository: in a file it is more often there by chance or malice
    than on purpose, and does not count until somebody says so. "" where there is none."""
    place = current()
    if place.believed or place.container or not is_repository(name) or name in dict(place.names):
        return ""
    path = path_here(name)
    return path if path and os.path.isdir(path) else ""


def folder_note(name: str) -> str:
    """What is to be said of a folder that is called like a repository of the hub; "" where there is none."""
    if doubtful_folder(name):
        return (
            f"a folder of this repository is called {name}, like a model of the hub: the hub's is planned; "
            f"`# oomph: model {name} = ./{name}` in the file, or --set, says that the folder is right"
        )
    if is_repository(name) and current().believed and not current().container and os.path.isdir(path_here(name) or "-"):
        return f"{name} is the folder ./{name} here, not the hub's model"
    return ""


def unknown_to_the_hub(name: str) -> bool:
    """Whether a process that takes a name for a path, else for a repository's id, would find neither."""
    is_odd = not name.isprintable() or len(name) > _LONGEST_NAME  # refused where it is loaded
    if not current().exact or is_odd or name in dict(current().names) or path_here(name):
        return False
    if _ADDRESS.match(name):
        return not name.lower().endswith(".gguf")
    if name != name.strip():  # a blank in quotes is a part of the name
        return True
    is_path = name.startswith((".", "~", os.sep)) or "\\" in name or name.lower().endswith((".gguf", ".json"))
    return not is_path and "/" not in name and name not in WITHOUT_OWNER


def repositories_like(name: str) -> tuple[str, ...]:
    """The repositories that may be meant, the likeliest first."""
    from oomph import catalog

    address = _ADDRESS.match(name)
    if address:
        return (address[1],)
    if is_repository(name.strip()):
        return (name.strip(),)
    return catalog.answers(name)[:3] or (catalog.suggest(name)[:3] if len(name) > 2 else ())


def refusal_of(name: str, engine: str) -> str:
    """Why an engine finds no model under a name; "" where it may."""
    if not unknown_to_the_hub(name):
        return ""
    suggestion = repositories_like(name)
    question = f"; {suggestion[0]}?" if suggestion else ""
    return f"{engine} would ask the hub for {quoted(name)}, which is no repository id{question}"
