"""A folder or file on this machine -> Model: config.json with or without headers, or GGUF."""

import os
from pathlib import Path

from msgspec.structs import replace

from oomph.errors import InputError
from oomph.ir import Model
from oomph.sources import safetensors
from oomph.sources.build import build_model
from oomph.sources.json_input import read_object, reason
from oomph.sources.mistral import PARAMS, config_of
from oomph.sources.quant.schemes import as_filed

CONFIG = "config.json"
POOLING = "modules.json"  # Sentence Transformers' list of what pools the hidden states
QUANT_CONFIG = "hf_quant_config.json"  # ModelOpt's, beside a config.json without quantization_config


def read_path(path: str | os.PathLike[str]) -> Model:
    """A folder, a config.json, or a GGUF file."""
    where = Path(path)
    if where.is_dir():
        return read_folder(where)
    if where.suffix.lower() == ".gguf":
        return read_gguf(where)
    if where.suffix.lower() == ".json":
        return read_config(where)
    if where.suffix.lower() == ".safetensors":
        raise InputError(
            f"{where} is one weight file: give the folder it is in, with its config.json",
            hint=f"oomph inspect {where.parent}",
        )
    raise InputError(f"{where} is neither a model folder, a config.json nor a GGUF file")


def holds_model(path: str | os.PathLike[str]) -> bool:
    """Whether a folder is meant as a model, also where its config.json is a broken link, a pipe or a device."""
    folder = Path(path)
    return os.path.lexists(folder / CONFIG) or (folder / PARAMS).is_file() or bool(_gguf_models(folder))


def read_folder(folder: Path) -> Model:
    if not os.path.lexists(folder / CONFIG):
        return _without_config(folder)
    config = read_object(folder / CONFIG)
    quant = folder / QUANT_CONFIG
    quantization = read_object(quant) if quant.is_file() else None
    index = safetensors.find_index(folder)
    tensors = safetensors.read_folder(folder)
    model = build_model(
        _name_of(folder),
        config,
        hf_quant_config=quantization,
        tensors=tensors,
        names=index.weight_map.keys() if index is not None else None,
        source=str(folder),
        told={} if (folder / POOLING).is_file() else {POOLING: False},
    )
    model = replace(model, quantization=model.quantization and as_filed(model.quantization, config, quantization))
    if index is None or index.total_size is None or tensors is not None or index.total_size == model.nbytes:
        return model
    note = f"its index says {index.total_size:,} bytes, from its config.json it is {model.nbytes:,}"
    return replace(model, warnings=(*model.warnings, note))


def _name_of(folder: Path) -> str:
    """Of a snapshot in the hub's cache, which an engine without network makes of org/name, that name; else its own."""
    *_, repository, kind, revision = ("", "", "", *folder.absolute().parts)
    if kind == "snapshots" and repository.startswith("models--"):
        return repository.removeprefix("models--").replace("--", "/", 1)
    return folder.resolve().name or revision


def read_config(path: Path) -> Model:
    """A bare config.json, by whatever name; what lies beside it is looked at only if it is called config.json."""
    if path.name == CONFIG and (path.parent / QUANT_CONFIG).is_file():
        quant = read_object(path.parent / QUANT_CONFIG)
    else:
        quant = None
    name = _name_of(path.parent) if path.name == CONFIG else path.stem
    config = read_object(path)
    model = build_model(name, config, hf_quant_config=quant, source=str(path))
    return replace(model, quantization=model.quantization and as_filed(model.quantization, config, quant))


def read_gguf(path: Path) -> Model:
    from oomph.sources.gguf import header as gguf
    from oomph.sources.gguf.model import gguf_model

    return gguf_model(path.stem, gguf.read(path), source=str(path))


def _without_config(folder: Path) -> Model:
    models = _gguf_models(folder)
    if len(models) == 1:
        return read_gguf(folder / models[0])
    if models:
        raise InputError(
            f"{folder} holds {len(models)} GGUF models: {', '.join(models[:6])}", hint="give one of the files"
        )
    if (folder / PARAMS).is_file():
        config = config_of(read_object(folder / PARAMS), f"{folder}/{PARAMS}")
        return build_model(_name_of(folder), config, source=str(folder))
    if (folder / "adapter_config.json").is_file():
        base = read_object(folder / "adapter_config.json").get("base_model_name_or_path")
        raise InputError(f"{folder} is a LoRA adapter, not a model", hint=f"its base model: {str(base)[:120]}")
    raise InputError(f"{folder} has no config.json and no GGUF file")


def _gguf_models(folder: Path) -> list[str]:
    """The GGUF files of a folder that are a model each: no projectors, and of a split model the first part."""
    try:
        names = sorted(n for n in os.listdir(folder) if n.lower().endswith(".gguf"))
    except OSError as error:
        raise InputError(f"{folder} cannot be read: {reason(error)}") from None
    return models_among(names)


def models_among(names: list[str]) -> list[str]:
    parts = [n for n in names if "mmproj" not in n.lower()]
    return [n for n in parts if "-of-" not in n or "-00001-of-" in n] or parts
