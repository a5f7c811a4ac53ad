"""From a llama-server command to a plan: the GGUF file, or what a catalogue model would be as one."""

import os
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from msgspec.structs import replace

from oomph.engines.llamacpp.command import metadata_of
from oomph.engines.llamacpp.convert import to_gguf
from oomph.engines.llamacpp.drafter import Drafter, Extra, draft_model, predicting_layers
from oomph.engines.llamacpp.planner import plan_llamacpp
from oomph.engines.llamacpp.speculation import draft_name, spec_types
from oomph.errors import InputError, UnknownModel
from oomph.facts.llamacpp.builds import parse_build
from oomph.facts.llamacpp.graphs import FAMILIES
from oomph.facts.llamacpp.quantize import MIXTURES
from oomph.ir import Deployment, Model, Plan, Verdict
from oomph.ir.deployment import Place
from oomph.sources import boundary, place
from oomph.text.late import late_pattern
from oomph.units import MIB

# clip's worst-case graph is not known without its file: what users' logs show for one image
PROJECTOR_COMPUTE = (0, 256 * MIB, 1024 * MIB)
# Unsloth's dynamic files: more tensors in better types than llama-quantize's mixture of that name has, chosen for each
# model. What they are is in the file only; they lie between the mixture and the next one.
DYNAMIC = {
    "Q2_K_XL": ("Q2_K", "Q3_K_M"), "Q3_K_XL": ("Q3_K_M", "Q4_K_M"), "Q4_K_XL": ("Q4_K_M", "Q5_K_M"),
    "Q5_K_XL": ("Q5_K_M", "Q6_K"), "Q6_K_XL": ("Q6_K", "Q8_0"), "Q8_K_XL": ("Q8_0", "BF16"),
}  # fmt: skip
# NAME-GGUF, NAME-Q8_0-GGUF
_OF_FILES = late_pattern(r"(?:-(?:I?Q\d\w*|BF16|F16))?[-_.](?:qat[-_])?gguf$|-GGUF-.*$", re.IGNORECASE)
_DYNAMIC_TAG = late_pattern(r"(?:^|[-._:])(?:UD-)?(Q[2-68]_K_XL)$", re.IGNORECASE)
_NAME = late_pattern(r"(?:[\w.-]+/)?[\w.-]+(?::[\w.-]+)?")  # as a hub or a library calls a model
_DRIVE = late_pattern(r"^[A-Za-z]:(?=[\\/])")  # of a path on Windows
_TAG = late_pattern(r"[-._](?:UD-)?((?:I?Q\d\w*|BF16|F16|F32|MXFP4(?:_MOE)?))$", re.IGNORECASE)


def plan_command(deployment: Deployment, model: Model | None = None) -> Plan:
    from oomph.sources.load import require_layers

    flags = deployment.flags
    if text := repository_refusal(flags) or file_refusal(flags):
        verdict = Verdict(False, "other", 0, text, refusal="model")
        return Plan(deployment, deployment.model, verdict, warnings=deployment.notes)
    loaded, projector = (model, 0) if model is not None else gguf_for(deployment.model)
    if loaded.quantization is None or loaded.quantization.method != "gguf":
        loaded = to_gguf(loaded, "Q4_K_M")
    require_layers(loaded)
    loaded = _with_metadata(loaded, str(flags.get("override_kv") or ""))
    projectors, note = _projector(flags, projector)
    if note:
        loaded = replace(loaded, warnings=(*loaded.warnings, note))
    if absent := _no_files_note(flags):
        loaded = replace(loaded, warnings=(*loaded.warnings, absent))
    if model is None:
        loaded, between = _dynamic(loaded, deployment)
        projectors += between
    return plan_llamacpp(loaded, deployment, projectors, _drafters(flags, loaded, deployment))


def _with_metadata(model: Model, overrides: str) -> Model:
    """--override-kv: what it says of a token's experts and of the trained context; a note where it says more."""
    for key, value in metadata_of(overrides):
        family, _, name = key.partition(".")
        if family in ("tokenizer", "general", "adapter"):
            continue
        if name in ("expert_used_count", "context_length") and value.isdecimal() and len(value) < 10:
            if family == FAMILIES.get(model.model_type, model.model_type):  # other keys are not asked for
                params = tuple((field, int(value) if field == name else old) for field, old in model.params)
                trained = int(value) if name == "context_length" else model.max_position
                model = replace(model, params=params, max_position=trained)
            continue
        note = f"--override-kv {key[:60]} is not in this plan: the file's own value is used"
        model = replace(model, warnings=(*model.warnings, note))
    return model


def repository_refusal(flags: Mapping[str, Any]) -> str:
    """common/download.cpp common_download_split_repo_tag: what -hf names is USER/MODEL and nothing else."""
    repo = str(flags.get("hf_repo") or "").partition(":")[0]
    is_one = not repo or repo.count("/") == 1 or flags.get("model")
    return "" if is_one else "error: invalid HF repo format, expected <user>/<model>[:quant]"


def file_refusal(flags: Mapping[str, Any]) -> str:
    """-m is a file and nothing else: a model's name is none, whatever else understands it. What ends with .gguf may be
    on the machine that the command is for."""
    name = str(flags.get("model") or "")
    is_path = name.startswith(("/", ".", "~")) or not _NAME.fullmatch(name) or place.path_here(name)
    is_file = is_path or re.search(r"\.gguf|^sha256-", name, re.IGNORECASE) is not None
    return "" if is_file else f"error loading model: llama_model_loader: failed to load model from {name[:200]}"


def _no_files_note(flags: Mapping[str, Any]) -> str:
    """-hf with the repository of a checkpoint that is no GGUF file: planned as one that somebody made of it."""
    from oomph import catalog

    repo = str(flags.get("hf_repo") or "").partition(":")[0]
    if not repo or "gguf" in repo.lower() or flags.get("hf_file") or flags.get("model"):
        return ""
    checkpoint = next((one for one in catalog.ids() if one.lower() == repo.lower()), "")
    files = repository_of_files(checkpoint)
    where = f"; {files} has some" if files else ""
    text = f"-hf {checkpoint}: llama.cpp wants a GGUF file of that repository, and none is known there{where}"
    return text if checkpoint else ""


def repository_of_files(checkpoint: str) -> str:
    """A repository that has GGUF files of the model of a checkpoint; "" = none is known."""
    from oomph.catalog.facts import facts

    checkpoints = facts()
    index = next((row.model for row in checkpoints.checkpoints if row.id == checkpoint), None)
    return "" if index is None else checkpoints.models[index].gguf_repo


def _dynamic(loaded: Model, deployment: Deployment) -> tuple[Model, list[Extra]]:
    """How much larger a dynamic file may be than the mixture that stands for it, on each GPU."""
    match = _DYNAMIC_TAG.search(deployment.model.removesuffix(".gguf"))
    source = source_of(deployment.model) if match and loaded.name.endswith(":" + DYNAMIC[match[1].upper()][0]) else None
    if match is None or source is None or not deployment.gpus:
        return loaded, []
    usual, most = DYNAMIC[match[1].upper()]
    more = max(0, to_gguf(source, most).nbytes - loaded.nbytes) // len(deployment.gpus)
    name = match[1].upper()
    note = f"UD-{name} is a mixture of Unsloth's own: planned as {usual}, at most {most}; its file says it exactly"
    extras = [Extra("other types", device, 0, 0, 0, more) for device in range(len(deployment.gpus))]
    return replace(loaded, warnings=(*loaded.warnings, note)), extras


def gguf_for(name: str) -> tuple[Model, int]:
    """(the model in GGUF form, bytes of its vision tower as an F16 projector)."""
    return _gguf_for(name, place.key())


@lru_cache(maxsize=32)
def _gguf_for(name: str, _seen_from: tuple[Place, str]) -> tuple[Model, int]:
    from oomph import catalog
    from oomph.sources.load import load_model

    if place.path_here(name) or name.startswith(("http://", "https://")):
        model = load_model(name)
        return (model, 0) if model.quantization and model.quantization.method == "gguf" else _converted(model, "Q4_K_M")
    repo, _, tag = _DRIVE.sub("", name).partition(":")
    if repo.lower().endswith(".gguf") and not re.fullmatch(r"[\w.-]+/[\w.-]+/[^\\]+", repo):
        return _absent(repo)
    file = re.fullmatch(r"([^/]+/[^/]+)/(.+)\.gguf", repo)
    if file:
        match = _TAG.search(file[2])
        repo, tag = file[1], match[1] if match else tag
    row = _in_catalogue(repo)
    tag = _mixture(tag)
    if row is not None and (not tag or tag.upper() in MIXTURES):
        entry = catalog.find(row)
        assert entry is not None
        return _converted(load_model(row), tag or "Q4_K_M")
    if file:  # -m folder/folder/file.gguf looks like a file of a repository
        try:
            return _absent(name)
        except UnknownModel:
            pass
    try:
        return load_model(name), 0
    except UnknownModel as unknown:
        raise UnknownModel(f"no GGUF file or catalogue model is called {name[:120]!r}", hint=unknown.hint) from None


def _mixture(tag: str) -> str:
    """llama-quantize's mixture that stands for a tag: UD-Q4_K_XL is planned as Q4_K_M."""
    plain = re.sub(r"^UD-", "", tag, flags=re.IGNORECASE)
    return DYNAMIC.get(plain.upper(), (plain,))[0]


def source_of(name: str) -> Model | None:
    """The catalogue's checkpoint behind a GGUF name, as its maker has it; None where the name tells nothing."""
    from oomph.sources.load import load_once

    repo, _, _ = _DRIVE.sub("", name).partition(":")
    stem = re.split(r"[/\\]", repo)[-1]
    if stem.lower().endswith(".gguf"):
        match = _TAG.search(stem[: -len(".gguf")])
        repo = "/" + (stem[: match.start()] if match else stem)
    entry = _in_catalogue(repo)
    return load_once(entry) if entry is not None else None


def _absent(path: str) -> tuple[Model, int]:
    """A file that is not on this machine: 'models/Qwen3-8B-Q4_K_M.gguf' says what it is."""
    stem = re.sub(r"-00001-of-\d{5}$", "", re.split(r"[/\\]", path)[-1][: -len(".gguf")])
    match = _TAG.search(stem)
    entry = _in_catalogue("/" + stem[: match.start()]) if match else None
    mixture = _mixture(match[1]) if match else ""
    if match is None or entry is None or mixture.upper() not in MIXTURES:
        raise UnknownModel(
            f"there is no file {path[:120]!r}, and its name is not one of a known model and quantisation"
        )
    from oomph.sources.load import load_model

    model, tower = _converted(load_model(entry), mixture)
    note = f"{path[:120]} is not on this machine: taken as {entry} at {mixture.upper()} by llama-quantize's rules"
    return replace(model, warnings=(*model.warnings, note)), tower


def _converted(model: Model, tag: str) -> tuple[Model, int]:
    elements = sum(_elements(block) * times for t in model.towers for times, block in t.blocks)
    return to_gguf(model, tag), elements * 2


def _elements(block: Any) -> int:
    from math import prod

    from oomph.sources.stored import module_tensors

    return sum(prod(shape) * times for module in block.modules for _, shape, _, _, times in module_tensors(module))


def _in_catalogue(repo: str) -> str | None:
    """'unsloth/Qwen3-8B-GGUF' -> 'Qwen/Qwen3-8B': the unquantised model of that name."""
    from oomph import catalog
    from oomph.catalog.names import of_makers_first

    ids = {i.lower(): i for i in catalog.ids()}
    if repo.lower() in ids and not repo.lower().endswith("-gguf"):
        return ids[repo.lower()]
    name = _OF_FILES.sub("", repo.rpartition("/")[2]).lower()
    matches = [
        i for low, i in ids.items() if low.rpartition("/")[2].removeprefix("meta-") == name.removeprefix("meta-")
    ]
    if matches:
        return min(matches, key=of_makers_first)
    if "/" in repo:
        return None
    try:
        entry = catalog.find(name)
    except InputError:
        return None
    return entry.id if entry is not None else None


def _projector(flags: dict[str, Any], tower: int) -> tuple[list[Extra], str]:
    """The projector, and a note where its file is not here and the model's own vision tower stands for it."""
    if flags.get("no_mmproj") or flags.get("mmproj_offload") is False:
        return [], ""
    size, note = 0, ""
    if flags.get("mmproj"):
        from oomph.sources.load import load_model

        path = str(flags["mmproj"])
        try:
            size = load_model(path).nbytes
        except (UnknownModel, InputError):
            if not tower or boundary.exists(os.path.expanduser(path)):
                raise
            size, note = tower, f"{path[:120]} is not on this machine: taken as the model's vision tower in F16"
    elif flags.get("hf_repo"):  # -hf downloads and loads the repository's projector by itself
        size = tower
    if not size:
        return [], ""
    _, usual, high = PROJECTOR_COMPUTE
    return [Extra("projector", int(flags.get("main_gpu", 0)), size, 0, usual, high)], note


def _drafters(flags: dict[str, Any], main: Model, deployment: Deployment) -> list[Drafter]:
    build = parse_build(deployment.engine.version)
    if name := draft_name(flags):
        return [draft_model(flags, name, gguf_for(name)[0], build)]
    predicts = "draft-mtp" in spec_types(flags, build) and main.drafts
    return [predicting_layers(flags, main, build)] if predicts else []
