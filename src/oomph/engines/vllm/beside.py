"""The files beside a vLLM command: the adapters that it loads once the engine is up, what they ask for, and files that
are not here."""

import os
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from oomph.engines.common.adapters import CONFIG, adapter_paths, rank_of, read_config
from oomph.errors import OomphError
from oomph.facts.vllm.lora import DEFAULT_LORAS, DEFAULT_RANK
from oomph.ir import Linear, Model, Plan
from oomph.sources.place import current, path_here
from oomph.text.printable import quoted

_WEIGHTS = "adapter_model.safetensors"
_ANY_WEIGHTS = (_WEIGHTS, "adapter_model.bin", "adapter_model.pt")  # lora/lora_model.py from_local_checkpoint
# lora/peft_helper.py _validate_features (0.32.0): keys that vLLM refuses where they are set
_FEATURES = {
    "use_dora": "vLLM does not yet support DoRA.",
    "lora_bias": "vLLM does not support LoRA bias (lora_bias).",
    "alora_invocation_tokens": "vLLM does not support Activated LoRA (aLoRA).",
    "layer_replication": "vLLM does not support layer_replication.",
    "use_bdlora": "vLLM does not support block-diagonal LoRA (BD-LoRA).",
    "use_qalora": "vLLM does not support QALoRA.",
}
_FILES = {
    "chat_template": "--chat-template",
    "generation_config": "--generation-config",
    "tokenizer": "--tokenizer",
}
_EVERYWHERE = ("embed_tokens", "lm_head", "classifier", "score")  # modules that are no linear layer of a block


class Adapter(Struct, frozen=True):
    name: str
    rank: int  # the largest of its modules
    base: str  # the model that it was trained for, as its file names it
    errors: tuple[str, ...]  # what vLLM says of it, its rank aside
    doubts: tuple[str, ...] = ()  # of a folder that holds an adapter's config alone


def with_adapters(plan: Plan, model: Model) -> Plan:
    """A start that ends when its adapters are loaded, behind everything that takes memory; and notes about them."""
    flags = plan.deployment.flags
    # entrypoints/openai/cli_args.py LoRAParserAction
    modules = [pair for pair in adapter_paths(flags.get("lora_modules"), "name", "path") if pair[0] != pair[1]]
    absent = _absent(
        {path: "--lora-modules" for _, path in modules}
        | {str(flags[field]): spelling for field, spelling in _FILES.items() if flags.get(field)}
    )
    plan = replace(plan, warnings=(*plan.warnings, *absent))
    if not modules:
        return plan
    adapters = [adapter for name, path in modules if (adapter := read_adapter(name, path, model)) is not None]
    notes = tuple(_notes(flags, len(modules), adapters, plan.deployment.model))
    plan = replace(plan, warnings=(*plan.warnings, *notes))
    text = _refusal(flags, adapters)
    if not text or plan.verdict.outcome == "fails":
        return plan
    verdict = replace(
        plan.verdict, fits=False, sure=True, stage="other", message=text, refusal="adapter", margin=None, risk=""
    )
    return replace(plan, verdict=verdict, ranks=(), kv=None)


def _absent(paths: Mapping[str, str]) -> Iterator[str]:
    """`paths`: path -> the flag that names it. A container may have a file in its image."""
    for path, spelling in paths.items():
        if path.startswith(("/", "./", "../", "~/")) and not current().container and not path_here(path):
            yield f"{quoted(path)} ({spelling}) is not on this machine: vLLM does not start where it does not find it"


def read_adapter(name: str, path: str, model: Model) -> Adapter | None:
    """None where it is no folder that the process would see: an adapter of the hub is not looked at."""
    if (file := read_config(path)) is None:
        return None
    folder, config = file
    errors = [sentence for key, sentence in _FEATURES.items() if config.get(key)]
    if config.get("bias", "none") != "none":
        errors.append("Adapter bias is not supported.")
    if unknown := _unknown_modules(folder, model):
        errors.append(
            f"While loading {path}, expected target modules of {model.architecture} but received {unknown}. Please "
            "verify that the loaded LoRA module is correct"
        )
    base = str(config.get("base_model_name_or_path") or "")
    return Adapter(name, rank_of(config), base, tuple(errors), tuple(_doubts(path, folder, config, model)))


def _doubts(path: str, folder: str, config: Mapping[str, Any], model: Model) -> Iterator[str]:
    if any(os.path.isfile(os.path.join(folder, name)) for name in _ANY_WEIGHTS):
        return
    yield f"{quoted(path)} has an {CONFIG} and no tensors: vLLM does not start with it as it is"
    named, own = config.get("target_modules"), _modules_of(model)
    words = [word for word in named if isinstance(word, str)] if isinstance(named, list) else []
    if own and (unknown := [word for word in words if word.rpartition(".")[2] not in (*own, *_EVERYWHERE)]):
        yield f"the adapter's target modules {', '.join(map(quoted, unknown[:4]))} are none of {model.architecture}"


def _modules_of(model: Model) -> set[str]:
    linear = [module for layer in model.layers for module in layer.block.modules if isinstance(module, Linear)]
    return {
        word.rpartition(".")[2] for module in linear for word in (module.name, *(part.name for part in module.parts))
    }


def _unknown_modules(folder: str, model: Model) -> list[str]:
    """Modules of the adapter's weights that no layer of the model has (lora/lora_model.py check_unexpected_modules)."""
    from oomph.sources.safetensors import read_header

    try:
        tensors = read_header(os.path.join(folder, _WEIGHTS))
    except (OomphError, OSError):
        return []
    own = _modules_of(model)
    names = {tensor.name.partition(".lora_")[0].rpartition(".")[2]: tensor.name for tensor in tensors}
    unknown = [name for name, full in names.items() if name not in own and ".experts" not in full]
    return sorted(name for name in unknown if name not in _EVERYWHERE) if own else []


def _refusal(flags: Mapping[str, Any], adapters: list[Adapter]) -> str:
    if not flags.get("enable_lora"):
        return "RuntimeError: LoRA is not enabled. Use --enable-lora to enable LoRA."
    most = int(flags.get("max_lora_rank") or DEFAULT_RANK)
    for adapter in adapters:
        errors = list(adapter.errors)
        if adapter.rank > most:
            errors.append(f"LoRA rank {adapter.rank} is greater than max_lora_rank {most}.")
        if errors:
            return f"ValueError: {' '.join(errors)}"
    return ""


def _notes(flags: Mapping[str, Any], count: int, adapters: list[Adapter], model: str) -> Iterator[str]:
    slots = int(flags.get("max_loras") or DEFAULT_LORAS)
    if count > slots:
        yield f"{count} adapters share {slots} slot{'s' * (slots > 1)} (--max-loras): others wait until a slot is free"
    for adapter in adapters:
        yield from adapter.doubts
        base = adapter.base.rpartition("/")[2].lower()
        if base and base != model.rstrip("/").rpartition("/")[2].lower():
            yield f"the adapter {adapter.name} was trained for {adapter.base}"
