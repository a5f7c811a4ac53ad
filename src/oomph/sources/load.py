"""What people call a model -> Model. What is on this machine beats the catalogue, the catalogue beats the hub.

./folder  config.json  model.gguf       on this machine
gemma-4-31b nvfp4                       the catalogue, by a forgiving short name
org/name                                the catalogue, else huggingface_hub's cache, else the hub
org/name@revision                       the cache or the hub, at that revision
org/name:Q4_K_M  org/name/file.gguf     one GGUF file of a repository
https://...                             a GGUF file, or a model's page on the hub
"""

import os
from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec.structs import replace

from oomph.errors import CannotPlan, HubError, InputError, UnknownModel
from oomph.facts.hub_names import WITHOUT_OWNER
from oomph.ir import Model
from oomph.ir.deployment import Place
from oomph.sources import boundary, place
from oomph.text.printable import quoted

if TYPE_CHECKING:
    from oomph.catalog import Entry

_MAX_NAME = 4096


def load_once(name: str) -> Model:
    return _load_once(name, place.key())


@lru_cache(maxsize=1024)  # a batch may name the whole catalogue in any order
def _load_once(name: str, _: tuple[Place, str]) -> Model:
    return load_model(name)


def require_layers(model: Model) -> Model:
    """The model, unless its architecture is not known: then no engine can plan it."""
    if model.opaque or not model.layers:
        from oomph.facts.llamacpp.architectures import NOT_PLANNED

        is_gguf = model.quantization is not None and model.quantization.method == "gguf"
        if is_gguf and model.architecture in NOT_PLANNED:
            raise CannotPlan(
                f"files of the architecture {model.architecture} are not planned: {NOT_PLANNED[model.architecture]}",
                hint="oomph inspect shows its weights",
            )
        raise CannotPlan(
            f"the architecture {model.architecture or 'of ' + model.name} is not known: its caches would be a guess",
            hint="oomph inspect shows its weights",
        )
    return model


def load_overridden(name: str, overrides: str) -> Model:
    """The checkpoint with values of its config.json replaced; `overrides` is JSON, so that it can be remembered."""
    return _load_overridden(name, overrides, place.key())


@lru_cache(maxsize=256)
def _load_overridden(name: str, overrides: str, _: tuple[Place, str]) -> Model:
    import json

    from oomph.sources.build import config_overrides

    token = config_overrides.set(json.loads(overrides))
    try:
        return load_model(name)
    finally:
        config_overrides.reset(token)


def load_model(text: str, *, fresh: bool = False, revision: str = "") -> Model:
    """`fresh`: ask the hub even for what the catalogue knows."""
    name = text.strip()
    if not name or len(name) > _MAX_NAME or "\0" in name:
        raise InputError(
            "a model is a folder, a file, a name or org/name" + (" (this one is too long)" if name else "")
        )
    if name in (names := dict(place.current().names)):
        with place.looking(Place()):
            model = load_model(names[name], fresh=fresh, revision=revision)
        return replace(model, warnings=(*model.warnings, f"{quoted(name)} is {names[name]}, as the file or --set says"))
    if name.startswith(("http://", "https://", "hf.co/", "huggingface.co/")):
        return _from_address(name)
    if "://" in name:
        raise InputError(f"{quoted(name)}: models are read from this machine, the hub and https addresses only")
    if place.doubtful_folder(name):
        model = _from_elsewhere(name, fresh=fresh, revision=revision)
        return replace(model, warnings=(*model.warnings, place.folder_note(name)))
    local = _local(place.path_here(name), name)
    if local is not None:
        note = place.folder_note(name)
        return replace(local, warnings=(*local.warnings, note)) if note else local
    _keep_here(name, fresh=fresh or bool(revision))
    return _from_elsewhere(name, fresh=fresh, revision=revision)


def _from_elsewhere(name: str, *, fresh: bool = False, revision: str) -> Model:
    """The catalogue, else the hub."""
    repo, at, rev = name.partition("@")
    if at or revision:
        return _from_hub(repo, rev or revision)
    if ("/" in name and ":" in name) or name.lower().endswith(".gguf"):
        return _gguf_of_hub(name)
    name = WITHOUT_OWNER.get(name, name)
    if "/" not in name and place.current().exact:
        raise UnknownModel(f"{quoted(name)} is no repository of the hub", hint=_did_you_mean(name))
    if not fresh:
        from oomph import catalog

        entry = catalog.find(name)
        if entry is not None:
            return _from_catalog(entry)
    if "/" not in name and not fresh:
        raise UnknownModel(f"no folder, file or catalogue entry is called {quoted(name)}", hint=_did_you_mean(name))
    return _from_hub(name, "")


def _from_catalog(entry: "Entry") -> Model:
    from oomph.sources.build import build_model

    model = build_model(
        entry.id, entry.config, hf_quant_config=entry.quant_config, told=dict(entry.told), source="catalogue"
    )
    return replace(model, warnings=(*model.warnings, entry.note)) if entry.note else model


def _local(here: str, name: str) -> Model | None:
    """`here`: the path at which the process finds it; "" where it does not."""
    path = here or os.path.expanduser(name)
    plain = not name.startswith((".", "~", os.sep)) and not name.endswith(os.sep)
    if (not plain or ".." in path.split(os.sep)) and not boundary.may_look(path):
        boundary.refuse_path(name)
    if here:
        from oomph.sources import folder  # what reads files, pathlib among it, is imported where there is one

        if not plain or not os.path.isdir(path) or folder.holds_model(path):
            return folder.read_path(path)
        return None  # a folder that happens to be called like a model
    if os.path.isabs(name) and (model := _mounted(path, name)) is not None:
        return model
    if not plain or "\\" in name or name.lower().endswith((".json", ".safetensors")):
        hint = "a container sees what is mounted, and nothing of this machine besides" * place.current().container
        raise InputError(f"there is no file or folder {quoted(name)}", hint=hint)
    return None


def is_local(name: str) -> bool:
    """Whether a model's name is a path of this machine that holds one."""
    from oomph.sources import folder

    try:
        path = os.path.expanduser(name)
        return boundary.is_file(path) or (boundary.exists(path) and os.path.isdir(path) and folder.holds_model(path))
    except (OSError, ValueError):
        return False


def _mounted(path: str, name: str) -> Model | None:
    """/models/ORG/NAME of a container or another machine: what the catalogue calls so, and a note that says it."""
    from oomph import catalog

    ids = {one.lower(): one for one in catalog.ids()}
    parts = [part for part in path.split(os.sep) if part]
    last = parts[-1] if parts else ""
    cached = [part.removeprefix("models--").replace("--", "/", 1) for part in parts if part.startswith("models--")]
    endings = [*cached, "/".join(parts[-2:])]
    same = [ids[one.lower()] for one in endings if one.lower() in ids]
    same = same or [one for one in ids.values() if one.rpartition("/")[2] == last]
    same = same or [one for low, one in ids.items() if low.rpartition("/")[2] == last.lower()]
    entry = catalog.find(same[0]) if len(same) == 1 else None
    if entry is None:
        return None
    model = _from_catalog(entry)
    return replace(
        model, warnings=(*model.warnings, f"{quoted(name)} is not here: planned as {model.name}, by its name")
    )


def _keep_here(name: str, *, fresh: bool) -> None:
    """A name that exists on this machine is never sent away: it may be nobody else's business, and what the hub has
    under it is another model. What the catalogue knows is not sent."""
    if place.current().container:
        return
    repo = "/".join(name.partition("@")[0].partition(":")[0].split("/")[:2])
    present = next((part for part in (name, repo) if boundary.may_look(part) and os.path.lexists(part)), "")
    first, slash, _ = name.partition("/")
    if not present and not (slash and first.lower() in place.FOLDERS):
        return
    from oomph import catalog

    if not fresh and catalog.find(name) is not None:
        return
    hint = f"the hub's model of that name: hf.co/{name}" if slash else ""
    if not present:
        raise InputError(f"there is no file or folder {quoted(name)}", hint=hint)
    missing = "no config.json and no GGUF file" if present == name else "no such file"
    raise InputError(f"{quoted(present)} is a folder on this machine, and {missing} is in it", hint=hint)


def _from_hub(repo: str, revision: str) -> Model:
    from oomph.sources.build import build_model
    from oomph.sources.folder import models_among
    from oomph.sources.hub import repository as hub
    from oomph.sources.json_input import parse_object
    from oomph.sources.quant.schemes import as_filed

    try:
        snapshot = hub.fetch(repo, revision or None)
    except HubError as refused:
        refused.hint = "; ".join(filter(None, (refused.hint, _did_you_mean(repo))))
        raise
    if snapshot.config is None:
        ggufs = models_among(list(snapshot.gguf_files))
        if len(ggufs) == 1:
            return _gguf_file(snapshot.repo, ggufs[0], snapshot.revision)
        if ggufs:
            tags = ", ".join(sorted({_tag(n) for n in ggufs})[:12])
            raise InputError(
                f"{repo} holds {len(ggufs)} GGUF models: {tags}", hint=f"give one: {repo}:{_tag(ggufs[0])}"
            )
        raise HubError(f"{snapshot.repo} has no config.json and no GGUF file: it is not a model that can be served")
    where = f"{snapshot.repo}@{snapshot.revision[:8]}"
    config = parse_object(snapshot.config, f"{where}/config.json")
    raw = snapshot.quant_config
    quant = None if raw is None else parse_object(raw, f"{where}/hf_quant_config.json")
    model = build_model(
        snapshot.repo,
        config,
        hf_quant_config=quant,
        tensors=snapshot.tensors,
        source=f"{snapshot.cached or 'hub'}, commit {snapshot.revision[:8]}",
    )
    facts = model.quantization and as_filed(model.quantization, config, quant)
    return replace(model, quantization=facts, warnings=(*model.warnings, *snapshot.notes))


def _gguf_of_hub(name: str) -> Model:
    """org/name:TAG as llama.cpp's -hf and vLLM read it, or org/name/path/file.gguf."""
    from oomph.sources.folder import models_among
    from oomph.sources.hub import repository as hub

    repo, colon, tag = name.partition(":")
    if not colon:
        org, _, rest = name.partition("/")
        repo, _, file = rest.partition("/")
        if not file:
            raise InputError(f"there is no file {quoted(name)}", hint=_did_you_mean(name))
        return _gguf_file(f"{org}/{repo}", file, "")
    snapshot = hub.fetch(repo)
    fits = models_among([n for n in snapshot.gguf_files if tag.lower() in n.lower()])
    exact = [n for n in fits if _tag(n).lower() == tag.lower()]
    if not fits:
        raise InputError(f"{repo} has no GGUF file with {quoted(tag)} in its name")
    if len(exact or fits) > 1:
        raise InputError(
            f"{repo} has {len(exact or fits)} GGUF files with {quoted(tag)} in their name: {', '.join(fits[:6])}"
        )
    return _gguf_file(snapshot.repo, (exact or fits)[0], snapshot.revision)


def _gguf_file(repo: str, file: str, revision: str) -> Model:
    from oomph.sources.gguf import header as gguf
    from oomph.sources.gguf.model import gguf_model
    from oomph.sources.hub import repository as hub

    return gguf_model(f"{repo}/{file}", gguf.read(hub.open_file(repo, file, revision or None)), source="hub")


def _from_address(url: str) -> Model:
    from oomph.sources.gguf import header as gguf
    from oomph.sources.gguf.model import gguf_model
    from oomph.sources.hub import repository as hub

    path = url.split("://")[-1].partition("?")[0].partition("#")[0].rstrip("/")
    if path.lower().endswith(".gguf"):
        full = url if "://" in url else f"https://{url}"
        return gguf_model(path.rpartition("/")[2], gguf.read(hub.open_url(full)), source=path)
    host, _, rest = path.partition("/")
    parts = rest.split("/")
    if host.removeprefix("www.") in ("huggingface.co", "hf.co") and len(parts) >= 2:
        revision = parts[3] if len(parts) > 3 and parts[2] in ("tree", "blob", "resolve") else ""
        return _from_elsewhere("/".join(parts[:2]), revision=revision)
    raise InputError(f"{quoted(url)} is neither a GGUF file nor a model's page on the hub")


def _tag(file: str) -> str:
    """The quantisation in a GGUF file's name: 'Qwen3-8B-Q4_K_M.gguf' -> 'Q4_K_M'."""
    stem = os.path.basename(file).removesuffix(".gguf").split("-00001-of-")[0]
    return stem.replace(".", "-").rpartition("-")[2]


def _did_you_mean(name: str) -> str:
    from oomph import catalog

    near = catalog.suggest(name)
    is_elsewhere = near and near[0] in catalog.named() and near[0].lower() != name.lower()
    where = " (its shape is asked of the hub, under this name)" if is_elsewhere else ""
    return f"did you mean {' or '.join(near)}{where}?" if near and near[0].lower() != name.lower() else ""
