"""Ollama's own store: NAME:TAG -> manifest -> blobs (server/manifest.go, types/model/name.go)."""

import json
import os
from pathlib import Path
from typing import Any

from msgspec import Struct

from oomph.errors import InputError
from oomph.sources import boundary
from oomph.text.late import late_pattern
from oomph.text.nesting import bounded

_PART = late_pattern(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,79}")
_DIGEST = late_pattern(r"sha256[:-]([0-9a-f]{64})")
_LIMIT = 1 << 20
_MEDIA = "application/vnd.ollama.image."
REGISTRY = "registry.ollama.ai"


class Name(Struct, frozen=True):
    host: str
    namespace: str
    model: str
    tag: str


class Stored(Struct, frozen=True):
    model: str  # path of the GGUF blob
    projector: str = ""
    params: dict[str, Any] = {}


def parse_name(text: str) -> Name:
    """'qwen3:8b', 'user/model', 'hf.co/org/repo:Q4_K_M'."""
    head, colon, tag = text.rpartition(":")
    if not colon or "/" in tag:
        head, tag = text, "latest"
    parts = head.removeprefix("https://").removeprefix("http://").split("/")
    if not 1 <= len(parts) <= 3 or not all(_PART.fullmatch(p) for p in (*parts, tag)):
        raise InputError(f"{text[:120]!r} is not a name of an Ollama model such as qwen3:8b")
    host, namespace, model = [REGISTRY, "library", *parts][-3:] if len(parts) < 3 else parts
    return Name(host, namespace, model, tag)


def folders(environment: dict[str, str]) -> list[Path]:
    """OLLAMA_MODELS alone where it is set, else the user's store and the Linux service's."""
    named = environment.get("OLLAMA_MODELS")
    if named:
        boundary.require(named)
        return [Path(named).expanduser()]
    return [Path("~/.ollama/models").expanduser(), Path("/usr/share/ollama/.ollama/models")]


def find(name: Name, environment: dict[str, str]) -> Stored | None:
    for folder in folders(environment):
        path = folder / "manifests" / name.host / name.namespace / name.model / name.tag
        try:
            if path.is_file():
                return _read(path, folder)
        except OSError as bad:
            raise InputError(f"Ollama's manifest {path} cannot be read: {bad.strerror}") from None
    return None


def _read(path: Path, folder: Path) -> Stored:
    layers = _json(path).get("layers")
    texts: dict[str, str] = {}
    for layer in layers if isinstance(layers, list) else []:
        if not isinstance(layer, dict) or not str(layer.get("mediaType", "")).startswith(_MEDIA):
            continue
        digest = _DIGEST.fullmatch(str(layer.get("digest", "")))
        if digest is None:
            raise InputError(f"Ollama's manifest {path} names the blob {str(layer.get('digest'))[:80]!r}")
        texts.setdefault(str(layer["mediaType"])[len(_MEDIA) :], str(folder / "blobs" / f"sha256-{digest[1]}"))
    model = texts.get("model")
    if model is None or not os.path.isfile(model):
        raise InputError(f"Ollama's manifest {path} has no model blob on this machine", hint="ollama pull it again")
    params = _json(Path(texts["params"])) if "params" in texts and os.path.isfile(texts["params"]) else {}
    return Stored(model, texts.get("projector", ""), params)


def _json(path: Path) -> dict[str, Any]:
    with open(path, "rb") as file:
        raw = file.read(_LIMIT + 1)
    try:
        value = json.loads(bounded(raw)) if len(raw) <= _LIMIT else None
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise InputError(f"{path} is not a JSON object of Ollama's store")
    return value
