"""A serve command taken out of its wrappings, and the engine that it starts."""

import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from math import isfinite
from typing import Any

from msgspec import Struct

from oomph.commands.running import running_version
from oomph.engines.protocol import EngineProtocol
from oomph.engines.registry import DEFAULT, all_engines, engine_named, name_of
from oomph.errors import CommandError, OomphError
from oomph.ir import Deployment, Engine, Usage
from oomph.sources import boundary
from oomph.text.late import late_pattern
from oomph.text.printable import quoted

# The user's own text inside a sentence of ours.


def short(text: str) -> str:
    """Quoted, printable, at most 60 characters."""
    return quoted(text, 60)


def shown(text: str) -> str:
    """The same without quotes, for words that stand for themselves: file names, flags."""
    return text if text.isprintable() and len(text) <= 120 else short(text)


# of everything that a shell exports, what the libraries below an engine read for memory; nothing that may be a secret
_LIBRARIES = (
    "CUDA_", "NVIDIA_VISIBLE_DEVICES", "PYTORCH_", "TORCH", "NCCL_", "FLASHINFER_", "TRITON_", "HIP_", "ROCR_",
    "HF_HOME", "HF_HUB_OFFLINE", "HF_ENDPOINT", "RAY_", "LMCACHE_",
)  # fmt: skip
TYPOGRAPHIC = frozenset("“”„‘’—–−‑\u00a0")  # what forums make of quotes and dashes
# an engine's program or module, anywhere in a text
PROGRAM = late_pattern(
    lambda: r"\b(?:" + "|".join(w for one in all_engines() for w in (*one.programs, *one.modules)) + r")\b"
)
# a text that starts a server, or a container that may
SERVER = late_pattern(
    lambda: "|".join(
        (*(words for one in all_engines() for words in one.launches), r"\bdocker\s+run\b", r"-m\s+dynamo\.\w")
    )
)
_SECRET = late_pattern(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL")
_OTHER_PROJECTS = frozenset(("lmcache", "llm-d", "kserve", "ai-dynamo"))  # owners whose image tags are their own
# what a shell or a template would have put something else in place of
UNSET = late_pattern(r"\$\{?\w+\}?|\$\(.{0,300}\)|`.{0,300}`|<.{0,300}>|\{\{.{0,300}\}\}", re.DOTALL)
# what shlex leaves without quotes; its import, and that of string, take as long as planning a change
_SAFE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./-_")
_NAME = late_pattern(r"[A-Za-z_][A-Za-z0-9_]*")


_OPEN = late_pattern(r"\$\{?\(?([A-Za-z_]\w*)|(\.Values\.[\w.]+|%[a-zA-Z])")


def open_model(model: str) -> CommandError:
    """What is asked for where a variable hides the model: '$MODEL', '{{ .Values.model }}', a unit's '%i'."""
    match = _OPEN.search(model)
    if match is None:
        return CommandError(
            f"the model is {short(model)}, which nothing in the command sets: put its name in its place"
        )
    way = f"--set {match[1]}=..." if match[1] else "put its name in its place"
    name = match[1] or match[2]
    return CommandError(
        f"the model is {short(model)}, which nothing in the command sets: {name} is set outside this file: {way}"
    )


class Around(Struct, frozen=True):
    """What a text may use beside its own lines."""

    arguments: Sequence[str] = ()  # $1, $2
    outside: Mapping[str, str] = {}  # variables that are looked up, not handed on: the user's own shell, an env file


class Call(Struct, frozen=True):
    words: tuple[str, ...]  # from the engine's own program on: ("vllm", "serve", ...)
    environment: dict[str, str] = {}
    image: str = ""  # the container image, "" = none
    gpu_count: int = 0  # how many GPUs the wrapping gives it; 0 = it does not say
    gpu_ids: str = ""  # ... and which, by number: "0,1"; "" = it does not say
    notes: tuple[str, ...] = ()
    source: str = ""  # Python source with an LLM(...) call, instead of words
    memory_limit: int = 0  # bytes of host memory that the wrapping gives it; 0 = it does not say
    gpu_memory: str = ""  # what it may use of each card: "20000MiB", "50%" (HAMi, vGPU software); "" = all
    gpu_name: str = ""  # the GPUs that the wrapping names, as --gpu takes them; "" = it does not say
    refusal: OomphError | None = None  # why it cannot be read (the words are then empty) or would end at once
    files: dict[str, str] = {}  # path -> text that the script around the command has written there before
    container: bool = False  # it runs in a container, also where no image is named
    mounts: dict[str, str] = {}  # path in the container -> the path of this machine that stands there
    pinned: dict[str, str] = {}  # package -> the one release that a `pip install` beside the command names

    def choose_release(self, engine: EngineProtocol, request: Engine | str | None) -> tuple[Engine, tuple[str, ...]]:
        """The release to plan with, and notes about it: see `choose_release`."""
        program = "" if self.source else self.words[0]
        return choose_release(engine, request, image=self.image, program=program, pinned=self.pinned)

    def starts(
        self,
        engine: Engine,
        model: str,
        flags: dict[str, Any],
        notes: Iterable[str] = (),
        usage: Usage = "serve",
        names: Mapping[str, str] | None = None,
    ) -> Deployment:
        """What it starts, as an engine reads it: without GPUs, with the notes that the report should have.

        `names`: option -> field, for writing each option as it was typed.
        """
        environment = memory_variables(self.environment)
        return Deployment(
            engine=engine,
            model=model,
            flags=flags,
            gpus=(),
            environment=environment,
            usage=usage,
            gpu_count=self.gpu_count or visible_devices(environment),
            gpu_ids=self.gpu_ids,
            notes=tuple(dict.fromkeys((*self.notes, *notes))),
            spelling=_spelling(self.words, names or {}),
        )


def _spelling(words: Sequence[str], names: Mapping[str, str]) -> dict[str, str]:
    options = (word.partition("=")[0] for word in words if word.startswith("-"))
    return {names[option]: option for option in options if option in names}


def memory_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that a plan may look at."""
    if not environment:
        return {}
    beginnings = (*_LIBRARIES, *(word for one in all_engines() for word in one.variables))
    return {k: v for k, v in environment.items() if k.startswith(beginnings) and not _SECRET.search(k)}


def assignment(word: str) -> tuple[str, str] | None:
    """K=V in front of a command."""
    key, sign, value = word.partition("=")
    return (key, value) if sign and _NAME.fullmatch(key) else None


def quote(word: str) -> str:
    """A word as a shell needs it; K=V keeps its name outside of the quotes."""
    if word and word[-1] != "=" and _SAFE.issuperset(word):
        return word
    from shlex import quote as shell_quote

    pair = assignment(word)
    return f"{pair[0]}={shell_quote(pair[1])}" if pair else shell_quote(word)


def finite(text: str) -> float:
    """A flag's number; ValueError for what is none, infinity among them."""
    number = float(text)
    if not isfinite(number):
        raise ValueError(text)
    return number


def program(word: str) -> str:
    """/opt/venv/bin/vllm -> vllm, python3.12 -> python, C:\\x\\vllm.exe -> vllm."""
    name = word.replace("\\", "/").rpartition("/")[2].removesuffix(".exe")
    return "python" if name.startswith("py") and re.fullmatch(r"(?:python|pypy)[0-9.]*", name) else name


def visible_devices(environment: Mapping[str, str]) -> int:
    """How many GPUs CUDA_VISIBLE_DEVICES leaves; 0 = it does not say."""
    for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"):
        text = environment.get(name)
        if text is None or text.strip().lower() in ("", "all", "void", "none", "-1"):
            continue
        return len([part for part in text.split(",") if part.strip()])
    return 0


def choose_release(
    engine: EngineProtocol,
    request: Engine | str | None,
    *,
    image: str = "",
    program: str = "",
    pinned: Mapping[str, str] | None = None,
) -> tuple[Engine, tuple[str, ...]]:
    """The release to plan with, and notes about it: asked for, from the image's tag, pinned, installed, or the newest.

    `request` is what --engine says; `program` is the path of the engine's own program, beside which it is installed.
    """
    if isinstance(request, Engine):
        return request, ()
    name, version = split_engine(request) if request else (engine.name, "")
    if name != engine.name:
        raise CommandError(f"--engine {str(request)[:60]!r}, but the command starts {engine.title}")
    if version:
        return _release(engine, version, "--engine")
    named = (pinned or {}).get(engine.package, "")
    if (
        image
        and engine.releases()
        and (not named or (_is_of(engine, image) and engine.image_release(image_tag(image))))
    ):
        return _from_image(engine, image)
    if named:
        return _release(engine, named, "pip install")
    if engine.package and (installed := installed_version(engine.package, program)):
        return _release(engine, installed, "installed package")
    if engine.package and (running := running_version(engine.package, engine.programs)):
        return _release(engine, running, "running server")
    return Engine(engine.name, engine.newest(), "newest known"), ()


def _release(engine: EngineProtocol, version: str, source: str) -> tuple[Engine, tuple[str, ...]]:
    release, note = engine.nearest(version)
    is_another = bool(note) and _is_plain(version) and _numbers(release) != _numbers(version)
    if source == "--engine" and is_another and release != engine.releases()[0]:  # older than the first: it did exist
        raise CommandError(
            f"{engine.title} {version} is not a release that is known", hint=f"the nearest is {engine.name}=={release}"
        )
    if is_another and release == engine.newest() and _numbers(version) > _numbers(release):
        note += f"; {_doubts(engine)}"
    return Engine(engine.name, release, source), (note,) if note else ()


def _doubts(engine: EngineProtocol) -> str:
    """What a release that nobody has looked at yet puts in doubt."""
    from datetime import date

    day = date.fromisoformat(engine.looked_at())
    return (
        f"what changed after {day.day} {day:%b %Y} is not known: defaults, flags, the memory budget and CUDA graphs "
        "may differ; weights and the KV cache of a token rarely do"
    )


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]


def _is_plain(version: str) -> bool:
    """A release, and no build between two of them (0.21.1rc0, 0.21.1.dev7+g0a1b2c3)."""
    return re.fullmatch(r"[vV]?\d+(\.\d+)*(\.post\d+)?", version) is not None


def split_engine(text: str) -> tuple[str, str]:
    """'vllm==0.21.0', 'vllm 0.21.0' and '0.21.0' -> ('vllm', '0.21.0'); 'ollama' -> ('ollama', '')."""
    match = re.fullmatch(r"\s*([A-Za-z][A-Za-z._-]*)?\s*(?:==|[@: =]|$)?\s*(\S*)\s*", text)
    word = match[1] or "" if match else "?"
    name = DEFAULT if word in ("", "v", "V") else name_of(word)
    if match is None or not name:
        example = f"{DEFAULT}=={engine_named(DEFAULT).newest()}"
        raise CommandError(f"--engine {text[:60]!r} is not an engine such as {example}")
    return name, match[2]


def _from_image(engine: EngineProtocol, image: str) -> tuple[Engine, tuple[str, ...]]:
    tag = image_tag(image)
    version = engine.image_release(tag) if _is_of(engine, image) else ""
    if version:
        try:
            return _release(engine, version, "image tag")
        except CommandError:
            pass
    newest = engine.newest()
    note = f"the image tag {tag or '(none)'!r} names no {engine.title} release: planned as {newest}"
    return Engine(engine.name, newest, "newest known"), (note,)


def _is_of(engine: EngineProtocol, image: str) -> bool:
    """Whether an image's tag counts the engine's releases. Images of other projects that hold it count their own:
    ghcr.io/llm-d/llm-d-cuda:v0.9.0, lmcache/vllm-openai:v0.3.1."""
    name = image.split("@", 1)[0].rpartition(":")[0] or image
    return any(word in name.lower() for word in engine.images) and _OTHER_PROJECTS.isdisjoint(name.lower().split("/"))


def pinned_releases(text: str) -> dict[str, str]:
    """The release of each package that `pip install vllm==0.21.0` or a requirements line names; only if it is one."""
    pinned: dict[str, str] = {}
    if "==" not in text:
        return pinned
    for package in filter(None, (one.package for one in all_engines())):
        versions = set(re.findall(rf"(?<![\w-]){package}(?:\[[\w,-]*\])?==\s*v?(\d[\w.]*)", text))
        if len(versions) == 1:
            pinned[package] = re.sub(r"(?<=\d)\.?post\d+$", "", versions.pop())  # 0.5.3post1: its code is 0.5.3's
    return pinned


def image_tag(image: str) -> str:
    last = image.split("@", 1)[0].rsplit("/", 1)[-1]
    return last.partition(":")[2]


def installed_version(package: str, program: str = "") -> str:
    """The package beside the named program, on PATH, or in this interpreter; "" = none."""
    for folder in _package_folders(program):
        try:
            version = _version_in(folder, package, os.stat(folder).st_mtime_ns)
        except OSError:
            continue
        if version:
            return version
    return ""


@lru_cache(maxsize=64)
def _version_in(folder: str, package: str, changed: int) -> str:
    """From a directory listing, since importlib.metadata takes 20 ms to import; read again when the folder changes."""
    pattern = re.compile(rf"{package}-([0-9][^-]*)\.dist-info")
    return next((match[1] for match in map(pattern.fullmatch, os.listdir(folder)) if match), "")


def _on_path(program: str) -> str:
    """As shutil.which, whose module takes as long to import as a plan to compute; "" where there is none."""
    folders = [""] if os.sep in program else os.environ.get("PATH", os.defpath).split(os.pathsep)
    paths = (os.path.join(folder, program) for folder in folders)
    return next((path for path in paths if os.path.isfile(path) and os.access(path, os.X_OK)), "")


def _package_folders(program: str) -> list[str]:
    folders: list[str] = []
    if program and (os.sep not in program or boundary.may_look(program)):
        path = _on_path(program)
        if path:
            root = os.path.dirname(os.path.dirname(os.path.realpath(path)))
            lib = os.path.join(root, "lib")
            if os.path.isdir(lib):
                folders += [os.path.join(lib, n, "site-packages") for n in os.listdir(lib) if n.startswith("python")]
    return folders + [entry for entry in sys.path if entry.endswith(("site-packages", "dist-packages"))]
