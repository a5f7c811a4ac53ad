"""A vLLM command to its plan: what is checked before anything is planned, and the models that are loaded for it."""

from collections.abc import Mapping

from msgspec.structs import replace

from oomph.engines.common.checkpoint import load_checkpoint
from oomph.engines.vllm.planner import plan_vllm
from oomph.errors import CannotPlan, OomphError
from oomph.facts.vllm.facts import at
from oomph.facts.vllm.running import as_drafter
from oomph.ir import Deployment, Model, Plan
from oomph.sources.arch import family
from oomph.sources.load import load_once, load_overridden, require_layers

_BESIDE = ("lora_modules", "chat_template", "generation_config", "tokenizer")  # flags that name files


def plan_command(deployment: Deployment, model: Model | None = None) -> Plan:
    overrides = config_overrides(deployment)
    if overrides:
        checkpoint = load_overridden(deployment.model, overrides)
    else:
        checkpoint = model or load_checkpoint(deployment.model)
    if model is None and checkpoint.param("has_vision_config"):
        checkpoint = _under_its_other_name(checkpoint, deployment, overrides)
    plan = plan_vllm(require_layers(checkpoint), *with_draft(deployment))
    if deployment.flags.keys().isdisjoint(_BESIDE):
        return plan
    from oomph.engines.vllm.beside import with_adapters

    return with_adapters(plan, checkpoint)


def _under_its_other_name(checkpoint: Model, deployment: Deployment, overrides: str) -> Model:
    """A language model's name over a config with an encoder: releases without that class build the encoder too."""
    name = at(deployment.engine.version).support.other_endings.get(checkpoint.architecture)
    if name is None:
        return checkpoint
    import json

    return load_overridden(deployment.model, json.dumps({**json.loads(overrides or "{}"), "architectures": [name]}))


def config_overrides(deployment: Deployment) -> str:
    """What the command lays over config.json, as JSON: --hf-overrides, and the two flags that it replaced in 0.11.1."""
    flags = deployment.flags
    overrides = {field: flags[field] for field in ("rope_scaling", "rope_theta") if flags.get(field) is not None}
    if isinstance(flags.get("hf_overrides"), Mapping):
        overrides |= flags["hf_overrides"]
    if not overrides:
        return ""
    import json

    return json.dumps(overrides, sort_keys=True)


# config/speculative.py:1597 (0.32.0), 0.30.0 alike: an ImportError while the flags are read
_SUFFIX_PACKAGE = (
    "speculation by suffix needs the package arctic-inference, which vLLM does not bring: without `pip install "
    "arctic-inference==0.1.1` it does not start"
)


def with_draft(deployment: Deployment) -> tuple[Deployment, Model | None]:
    """The model that --speculative-config names. One that cannot be read stops the plan, as the served model does: its
    weights, its cache and its graphs would be missing from it."""
    config = deployment.flags.get("speculative_config")
    if isinstance(config, Mapping) and config.get("method") == "suffix":
        deployment = replace(deployment, notes=(*deployment.notes, _SUFFIX_PACKAGE))
    name = config.get("model") if isinstance(config, Mapping) else None
    if not isinstance(name, str) or name == deployment.model or not name:
        return deployment, None
    try:
        draft = load_once(name)
        if isinstance(config, Mapping) and isinstance(config.get("method"), str) and draft.architecture:
            draft = _as_drafter(draft, name, config["method"])
        return deployment, draft
    except OomphError as missing:
        raise CannotPlan(f"the draft model cannot be read: {missing.message}", hint=missing.hint) from missing


def _as_drafter(draft: Model, name: str, method: str) -> Model:
    """The head as vLLM builds it, where its class is known; else as the checkpoint calls itself."""
    architecture = as_drafter(draft.architecture, method)
    if architecture == draft.architecture or family(architecture) is None:
        return draft
    return load_overridden(name, f'{{"architectures": ["{architecture}"]}}')
