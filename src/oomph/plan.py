"""plan(): a serve command on some GPUs, foreseen.

plan("vllm serve meta-llama/Llama-3.1-8B-Instruct", gpu="RTX 4090")
plan(deployment)                      what the command parsers or explain() have built
plan(deployment, model=model)         with a model that is loaded already
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from msgspec.structs import replace

from oomph.errors import CannotPlan, CommandError, OomphError
from oomph.ir.deployment import Deployment, Engine
from oomph.ir.hardware import Device
from oomph.ir.model import Model
from oomph.ir.plan import Plan
from oomph.ir.timeline import Verdict
from oomph.units import parse_size

MOST_GPUS = 1024  # a larger number is a slip of the keyboard
TERMS = ("available_kv", "weights", "load_peak", "activation_peak", "non_torch", "cudagraph", "context")


def plan(
    command: str | Sequence[str] | Deployment,
    *,
    gpu: object = None,
    engine: str = "",
    given: Mapping[str, int | str] | None = None,
    compile_cache: str = "",
    model: Model | None = None,
    margin: int | str = 0,
) -> Plan:
    """`gpu`: as --gpu takes it, or the JSON form; None = the live GPUs, or those the deployment has.

    `margin` is room that must be left at every stage, whatever the intervals: bytes, "1GiB", or "5%" of the card.
    """
    deployment = command if isinstance(command, Deployment) else parse(command, engine)
    if gpu is not None or not deployment.gpus:
        deployment = with_gpus(deployment, gpu)
    if given:
        deployment = replace(deployment, given={**deployment.given, **parse_given(given)})
    if compile_cache:
        if compile_cache not in ("cold", "warm"):
            raise CommandError(f"compile cache {compile_cache!r}: it is cold or warm")
        deployment = replace(deployment, compile_cache=compile_cache)
    return with_margin(run(deployment, model), margin) if margin else run(deployment, model)


def with_margin(plan: Plan, margin: int | str) -> Plan:
    """The plan judged with so much room to be left."""
    rank = next((r for r in plan.ranks if r.rank == plan.verdict.rank), None)
    if isinstance(margin, int):
        room = margin
    elif (percent := re.fullmatch(r"\s*(\d{1,2}(?:\.\d+)?)\s*%\s*", margin)) is not None:
        room = round(float(percent[1]) / 100 * (rank.total_bytes if rank is not None else 0))
    else:
        room = parse_size(margin, what="--margin")
    return replace(plan, verdict=replace(plan.verdict, asked_bytes=room))


def run(deployment: Deployment, model: Model | None = None) -> Plan:
    if deployment.engine.name in ("llamacpp", "ollama"):
        return _run_llamacpp(deployment, model)
    if deployment.engine.name != "vllm":
        raise CannotPlan(f"{deployment.engine.name} cannot be planned yet", hint="vLLM commands can")
    from oomph.engines.vllm.planner import plan_vllm

    missing = _too_few(deployment)
    if missing is not None:
        return missing
    loaded = model or load(deployment.model)
    if loaded.opaque or not loaded.layers:
        raise CannotPlan(
            f"the architecture {loaded.architecture or 'of ' + loaded.name} is not known: its caches would be a guess",
            hint="oomph inspect shows its weights",
        )
    return plan_vllm(loaded, *with_draft(deployment))


def with_draft(deployment: Deployment) -> tuple[Deployment, Model | None]:
    """The model that --speculative-config names; one that cannot be read is said to be missing from the plan."""
    spec = deployment.flags.get("speculative_config")
    name = spec.get("model") if isinstance(spec, Mapping) else None
    if not isinstance(name, str) or name == deployment.model or not name:
        return deployment, None
    try:
        return deployment, load(name)
    except OomphError as missing:
        note = f"the draft model {name} is not in this plan: {missing.message}"
        return replace(deployment, notes=(*deployment.notes, note)), None


def _run_llamacpp(deployment: Deployment, model: Model | None) -> Plan:
    """Ollama is llama-server inside (0.30 and later)."""
    if deployment.engine.name == "ollama":
        from oomph.engines.ollama.planner import plan_ollama

        return plan_ollama(deployment, model)
    from oomph.engines.llamacpp.source import plan_command

    return plan_command(deployment, model)


@lru_cache(maxsize=1024)  # a batch may name the whole catalogue in any order
def load(name: str) -> Model:
    from oomph.sources.load import load_model

    return load_model(name)


def parse(command: str | Sequence[str], engine: str = "") -> Deployment:
    from oomph.commands import parse_command

    words = [command] if isinstance(command, str) else list(command)
    return parse_command(words, engine=engine or None)


def parse_given(given: Mapping[str, int | str]) -> dict[str, int]:
    out = {}
    for name, value in given.items():
        if name not in TERMS:
            raise CommandError(f"--given {name}: the terms are {', '.join(TERMS)}")
        if isinstance(value, bool) or (isinstance(value, int) and value < 0):
            raise CommandError(f"--given {name}: {value} is not a number of bytes")
        out[name] = value if isinstance(value, int) else parse_size(value, what=f"--given {name}")
    return out


def with_gpus(deployment: Deployment, gpu: object) -> Deployment:
    """One card named without a number stands for as many as the command needs; the report says so."""
    from oomph.sources.gpu import from_json, parse_gpus

    gpus = parse_gpus("auto") if gpu is None else parse_gpus(gpu) if isinstance(gpu, str) else from_json(gpu)
    need = world_size(deployment)
    notes = deployment.notes
    if len(gpus) == 1 and 1 < need <= MOST_GPUS and gpu is not None and not _says_one(gpu):
        notes = (*notes, f"one {gpus[0].name} was named, the command needs {need}: taken as {need} of them")
        gpus = gpus * need
    seen = _visible(deployment, gpus)
    if len(seen) < len(gpus):
        notes = (*notes, f"the command is given {len(seen)} of the {len(gpus)} GPUs")
    return replace(deployment, gpus=seen, notes=notes)


def _visible(deployment: Deployment, gpus: tuple[Device, ...]) -> tuple[Device, ...]:
    """The GPUs that CUDA_VISIBLE_DEVICES, docker or a manifest leave to the command, by number where it has numbers."""
    listed = deployment.environment.get("CUDA_VISIBLE_DEVICES", "").replace(" ", "").split(",")
    if listed != [""] and all(part.isascii() and part.isdigit() and int(part[:6]) < len(gpus) for part in listed):
        return tuple(gpus[int(part)] for part in dict.fromkeys(listed))
    return gpus[: deployment.gpu_count] if deployment.gpu_count else gpus


def _says_one(gpu: object) -> bool:
    if isinstance(gpu, str):
        return re.search(r"(?:^|\s)1\s*[x×]|[x×]\s*1\s*$", gpu) is not None or gpu.strip() == "auto"
    return not isinstance(gpu, Mapping) or "count" in gpu


def world_size(deployment: Deployment) -> int:
    flags: Mapping[str, Any] = deployment.flags
    sizes = [flags.get(f) for f in ("tensor_parallel_size", "pipeline_parallel_size", "prefill_context_parallel_size")]
    n = 1
    for size in sizes:
        n *= size if isinstance(size, int) and size > 0 else 1
    return n


def _too_few(deployment: Deployment) -> Plan | None:
    """config/parallel.py:848 (0.21.0)."""
    need, have = world_size(deployment), len(deployment.gpus)
    nodes = deployment.flags.get("nnodes", 1)
    if (
        need <= have * (nodes if isinstance(nodes, int) else 1)
        or deployment.flags.get("distributed_executor_backend") == "ray"
    ):
        return None
    text = (
        f"World size ({need}) is larger than the number of available GPUs ({have}) in this node. If this is "
        "intentional and you are using:\n- ray, set '--distributed-executor-backend ray'.\n"
        "- multiprocessing, set '--nnodes' appropriately."
    )
    return Plan(deployment, deployment.model, Verdict(False, "other", 0, text), warnings=deployment.notes)


__all__ = ["Device", "Engine", "Plan", "plan"]
