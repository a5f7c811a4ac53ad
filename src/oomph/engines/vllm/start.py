"""A vLLM command to its plan: what is checked before anything is planned, and the models that are loaded for it."""

from collections.abc import Mapping
from math import prod

from msgspec.structs import replace

from oomph.engines.vllm.planner import plan_vllm
from oomph.errors import OomphError
from oomph.facts.vllm.facts import at
from oomph.facts.vllm.running import as_eagle_head
from oomph.ir import MOST_GPUS, Deployment, Model, Plan, Verdict
from oomph.sources.arch import family
from oomph.sources.load import load_once, load_overridden, require_layers

_SIZES = ("tensor_parallel_size", "pipeline_parallel_size", "prefill_context_parallel_size")


def plan_command(deployment: Deployment, model: Model | None = None) -> Plan:
    refusal = _too_few_gpus(deployment)
    if refusal is not None:
        return refusal
    deployment = _with_every_replica(deployment)
    overrides = config_overrides(deployment)
    checkpoint = load_overridden(deployment.model, overrides) if overrides else model or load_once(deployment.model)
    if model is None and checkpoint.param("has_vision_config"):
        checkpoint = _under_its_other_name(checkpoint, deployment, overrides)
    return plan_vllm(require_layers(checkpoint), *with_draft(deployment))


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


def world_size(deployment: Deployment) -> int:
    """How many GPUs the layout of a command needs; what is no size counts as 1."""
    sizes = (deployment.flags.get(field) for field in _SIZES)
    return prod(size for size in sizes if isinstance(size, int) and size > 0)


def replicas_here(deployment: Deployment) -> int:
    """Data-parallel replicas that this command starts itself."""
    sizes = (deployment.flags.get(field) for field in ("data_parallel_size_local", "data_parallel_size"))
    return next((size for size in sizes if isinstance(size, int) and size > 0), 1)


def _with_every_replica(deployment: Deployment) -> Deployment:
    """Each replica has GPUs of its own: where fewer are named, the others are taken to be like them."""
    world, here, named = world_size(deployment), replicas_here(deployment), len(deployment.gpus)
    need = world * here
    if here == 1 or named >= need or named % world or need > MOST_GPUS:
        return deployment
    cards = "1 GPU was" if named == 1 else f"{named} GPUs were"
    note = f"{here} data-parallel replicas need {need} GPUs and {cards} named: planned for {need} of them"
    gpus = (deployment.gpus * need)[:need]
    return replace(deployment, gpus=gpus, notes=(*deployment.notes, note))


def with_draft(deployment: Deployment) -> tuple[Deployment, Model | None]:
    """The model that --speculative-config names; one that cannot be read is said to be missing from the plan."""
    config = deployment.flags.get("speculative_config")
    name = config.get("model") if isinstance(config, Mapping) else None
    if not isinstance(name, str) or name == deployment.model or not name:
        return deployment, None
    try:
        draft = load_once(name)
        if isinstance(config, Mapping) and config.get("method") == "eagle3" and draft.architecture:
            draft = _eagle_head(draft, name)
        return deployment, draft
    except OomphError as missing:
        note = f"the draft model {name} is not in this plan: {missing.message}"
        return replace(deployment, notes=(*deployment.notes, note)), None


def _eagle_head(draft: Model, name: str) -> Model:
    """The head as vLLM builds it, where its class is known; else as the checkpoint calls itself."""
    architecture = as_eagle_head(draft.architecture)
    if architecture == draft.architecture or family(architecture) is None:
        return draft
    return load_overridden(name, f'{{"architectures": ["{architecture}"]}}')


def _too_few_gpus(deployment: Deployment) -> Plan | None:
    """vLLM's own refusal (config/parallel.py:848, 0.21.0)."""
    need, present = world_size(deployment), sum(device.node == 0 for device in deployment.gpus)
    nodes = deployment.flags.get("nnodes", 1)
    enough = need <= present * (nodes if isinstance(nodes, int) else 1)
    if enough or deployment.flags.get("distributed_executor_backend") == "ray":
        return None
    text = (
        f"World size ({need}) is larger than the number of available GPUs ({present}) in this node. If this is "
        "intentional and you are using:\n- ray, set '--distributed-executor-backend ray'.\n"
        "- multiprocessing, set '--nnodes' appropriately."
    )
    return Plan(deployment, deployment.model, Verdict(False, "other", 0, text), warnings=deployment.notes)
