"""A serve command taken out of its wrappings, and the engine that it starts."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping

from msgspec import Struct

from oomph.errors import CannotPlan, CommandError
from oomph.facts.vllm.versions import NEWEST, nearest
from oomph.ir.deployment import Engine

# of everything that a shell exports, what an engine or its libraries read for memory; nothing that may be a secret
_KEPT = (
    "VLLM_", "CUDA_", "NVIDIA_VISIBLE_DEVICES", "PYTORCH_", "TORCH", "NCCL_", "FLASHINFER_", "TRITON_", "HIP_", "ROCR_",
    "HF_HOME", "HF_HUB_OFFLINE", "HF_ENDPOINT", "RAY_", "LMCACHE_", "GGML_", "OLLAMA_", "SGLANG_", "LLAMA_ARG_",
)  # fmt: skip
TYPOGRAPHIC = frozenset("“”„‘’—–−‑\u00a0")  # what forums make of quotes and dashes
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Call(Struct, frozen=True):
    words: tuple[str, ...]  # from the engine's own program on: ("vllm", "serve", ...)
    environment: dict[str, str] = {}
    image: str = ""  # the container image, "" = none
    gpu_count: int = 0  # how many GPUs the wrapping gives it; 0 = it does not say
    notes: tuple[str, ...] = ()
    source: str = ""  # Python source with an LLM(...) call, instead of words
    pinned: str = ""  # the release that a `pip install vllm==` beside it names


def kept(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that a plan may look at."""
    return {k: v for k, v in environment.items() if k.startswith(_KEPT) and not _SECRET.search(k)}


def assignment(word: str) -> tuple[str, str] | None:
    """K=V in front of a command."""
    key, sign, value = word.partition("=")
    return (key, value) if sign and _NAME.fullmatch(key) else None


def program(word: str) -> str:
    """/opt/venv/bin/vllm -> vllm, python3.12 -> python, C:\\x\\vllm.exe -> vllm."""
    name = word.replace("\\", "/").rpartition("/")[2].removesuffix(".exe")
    return "python" if re.fullmatch(r"(?:python|pypy)[0-9.]*", name) else name


def visible_devices(environment: Mapping[str, str]) -> int:
    """How many GPUs CUDA_VISIBLE_DEVICES leaves; 0 = it does not say."""
    for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"):
        text = environment.get(name)
        if text is None or text.strip().lower() in ("", "all", "void", "none", "-1"):
            continue
        return len([part for part in text.split(",") if part.strip()])
    return 0


def choose_engine(
    asked: Engine | str | None, *, image: str = "", program: str = "", pinned: str = ""
) -> tuple[Engine, tuple[str, ...]]:
    """The release to plan with: asked for, from the image's tag, pinned, installed, or the newest known."""
    if isinstance(asked, Engine):
        return asked, ()
    if asked:
        name, version = split_engine(asked)
        if name != "vllm":
            raise CommandError(f"--engine {asked[:60]!r}, but the command starts vllm")
        if version:
            known, note = nearest(version)
            return Engine("vllm", known, "--engine"), (note,) if note else ()
    if image and (not pinned or release_tag(image)):
        return _from_image(image)
    if pinned:
        known, note = nearest(pinned)
        return Engine("vllm", known, "pip install"), (note,) if note else ()
    found = installed_version(program)
    if found:
        known, note = nearest(found)
        return Engine("vllm", known, "installed package"), (note,) if note else ()
    return Engine("vllm", NEWEST, "newest known"), ()


def split_engine(text: str) -> tuple[str, str]:
    """'vllm==0.21.0', 'vllm 0.21.0' and '0.21.0' -> ('vllm', '0.21.0'); 'ollama' -> ('ollama', '')."""
    match = re.fullmatch(r"\s*([A-Za-z][A-Za-z._-]*)?\s*(?:==|[@: =]|$)?\s*(\S*)\s*", text)
    if match is None:
        raise CommandError(f"--engine {text[:60]!r} is not an engine such as vllm=={NEWEST}")
    name, version = match[1] or "vllm", match[2]
    if name in ("v", "V"):
        name = "vllm"
    names = {"llama.cpp": "llamacpp", "llama-cpp": "llamacpp", "tensorrt-llm": "trtllm", "vLLM": "vllm"}
    name = names.get(name, names.get(name.lower(), name.lower()))
    if name not in ("vllm", "llamacpp", "ollama", "sglang", "trtllm"):
        raise CommandError(f"--engine {text[:60]!r} is not an engine such as vllm=={NEWEST}")
    return name, version


def _from_image(image: str) -> tuple[Engine, tuple[str, ...]]:
    tag = image_tag(image)
    if release_tag(image):
        try:
            known, note = nearest(tag)
            return Engine("vllm", known, "image tag"), (note,) if note else ()
        except CommandError:
            pass
    note = f"the image tag {tag or '(none)'!r} names no vLLM release: planned as {NEWEST}"
    return Engine("vllm", NEWEST, "newest known"), (note,)


def release_tag(image: str) -> str:
    """v0.21.0 and the like; 25.09-py3 numbers the container, not the vLLM inside."""
    tag = image_tag(image)
    return tag if re.match(r"v?0\.\d", tag) else ""


def pinned_release(text: str) -> str:
    """The one release that `pip install vllm==0.21.0` or a requirements line names; "" = none, or several."""
    found = set(re.findall(r"(?<![\w-])vllm(?:\[[\w,-]*\])?==\s*v?(\d[\w.]*)", text))
    return found.pop() if len(found) == 1 else ""


def image_tag(image: str) -> str:
    last = image.split("@", 1)[0].rsplit("/", 1)[-1]
    return last.partition(":")[2]


def installed_version(program: str = "") -> str:
    """The vLLM beside the named program, on PATH, or in this interpreter; "" = none."""
    for folder in _package_folders(program):
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        # a directory listing: importlib.metadata takes 20 ms to import
        for name in names:
            match = re.fullmatch(r"vllm-([0-9][^-]*)\.dist-info", name)
            if match:
                return match[1]
    return ""


def _package_folders(program: str) -> list[str]:
    folders: list[str] = []
    if program:
        from shutil import which

        path = which(program)
        if path:
            root = os.path.dirname(os.path.dirname(os.path.realpath(path)))
            lib = os.path.join(root, "lib")
            if os.path.isdir(lib):
                folders += [os.path.join(lib, n, "site-packages") for n in os.listdir(lib) if n.startswith("python")]
    return folders + [entry for entry in sys.path if entry.endswith(("site-packages", "dist-packages"))]


def not_yet(engine: str) -> CannotPlan:
    return CannotPlan(f"{engine} commands are not read yet, only vLLM's are")
