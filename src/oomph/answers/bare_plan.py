"""The steps of a plan without its advice, for all that plans many deployments: read, put on GPUs, run."""

import re
from collections.abc import Mapping, Sequence
from itertools import takewhile

from msgspec.structs import replace

from oomph.answers.host import with_host, with_ram
from oomph.engines.registry import engine_of, plan_with_engine
from oomph.errors import CommandError
from oomph.ir import MOST_GPUS, Deployment, Device, Model, Plan
from oomph.sources.load import load_once
from oomph.sources.place import looking
from oomph.units import parse_size


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
    """Host memory that the command or the card itself names counts for every command that plans."""
    deployment = deployment if deployment.ram_bytes else with_ram(deployment)
    with looking(deployment.place):
        return with_host(plan_with_engine(deployment, model), model)


def load(name: str) -> Model:
    return load_once(name)


def parse(command: str | Sequence[str], engine: str = "") -> Deployment:
    from oomph.commands import parse_command

    words = [command] if isinstance(command, str) else list(command)
    return parse_command(words, engine=engine or None)


def parse_given(pins: Mapping[str, int | str], terms: Sequence[str]) -> dict[str, int]:
    """`terms`: what the engine lets a user pin."""
    out = {}
    for name, value in pins.items():
        if name not in terms:
            sentence = (
                f"the terms are {', '.join(terms)}" if terms else "this engine's plan has no term that can be given"
            )
            raise CommandError(f"--given {name}: {sentence}")
        if isinstance(value, bool) or (isinstance(value, int) and value < 0):
            raise CommandError(f"--given {name}: {value} is not a number of bytes")
        out[name] = value if isinstance(value, int) else parse_size(value, what=f"--given {name}")
    return out


def with_gpus(deployment: Deployment, gpu: object) -> Deployment:
    """One card named without a number stands for as many as the command needs; the report says so."""
    from oomph.sources.gpu import from_json, limited_to, live_gpu_here, parse_gpus

    source: tuple[str, ...] = ()
    if gpu is None and deployment.gpu_name:
        gpu, source = deployment.gpu_name, (f"the GPUs are those that the text names: {deployment.gpu_name}",)
    if gpu is None and deployment.gpu_mention and not live_gpu_here():
        gpu, source = deployment.gpu_mention, (f"the GPUs are those that the text speaks of: {deployment.gpu_mention}",)
    gpus = parse_gpus("auto") if gpu is None else parse_gpus(gpu) if isinstance(gpu, str) else from_json(gpu)
    need = engine_of(deployment).gpus_needed(deployment)
    notes = (*deployment.notes, *source)
    if len(gpus) == 1 and 1 < need <= MOST_GPUS and gpu is not None and not _says_one(gpu):
        notes = (*notes, f"one {gpus[0].name} was named, the command needs {need}: taken as {need} of them")
        gpus = gpus * need
    notes = (*notes, *capability_notes(gpus))
    if deployment.gpu_memory:
        gpus = tuple(limited_to(device, deployment.gpu_memory) for device in gpus)
        notes = (
            *notes,
            f"the manifest lets it use {deployment.gpu_memory} of each card: to the engine that is the card",
        )
    by_node = {node: tuple(device for device in gpus if device.node == node) for node in {d.node for d in gpus}}
    visible = tuple(device for node in sorted(by_node) for device in _visible(deployment, by_node[node]))
    if len(visible) < len(gpus):
        notes = (*notes, f"the command is given {len(visible)} of the {len(gpus)} GPUs")
    return _on_every_node(replace(deployment, gpus=visible, notes=notes))


def _on_every_node(deployment: Deployment) -> Deployment:
    """A command that speaks of several nodes (--nnodes), and GPUs of one: the others are taken to be like it."""
    gpus, nodes = deployment.gpus, engine_of(deployment).world(deployment).nodes
    if nodes == 1 or len({device.node for device in gpus}) > 1 or nodes * len(gpus) > MOST_GPUS:
        return deployment
    cards = f"{len(gpus)} x {gpus[0].name}" if len(gpus) > 1 else gpus[0].name
    note = f"the command speaks of {nodes} nodes: each is taken to have {cards}"
    every = tuple(replace(device, node=node) for node in range(nodes) for device in gpus)
    return replace(deployment, gpus=every, notes=(*deployment.notes, note))


def capability_notes(gpus: tuple[Device, ...]) -> tuple[str, ...]:
    unknown = next((gpu for gpu in gpus if gpu.is_capability_assumed), None)
    if unknown is None:
        return ()
    usual = ".".join(map(str, unknown.capability))
    return (f"the compute capability of a {unknown.name} is not known: planned as {usual}; name the card to be exact",)


def _visible(deployment: Deployment, gpus: tuple[Device, ...]) -> tuple[Device, ...]:
    """The GPUs that CUDA_VISIBLE_DEVICES, docker or a manifest leave to the command, by number where it has numbers."""
    variables = deployment.environment
    inside = _numbered(deployment.gpu_ids or variables.get("NVIDIA_VISIBLE_DEVICES", ""), gpus)
    # a container counts the GPUs that it is given from 0 on
    text = variables.get("CUDA_VISIBLE_DEVICES", variables.get("HIP_VISIBLE_DEVICES"))
    if text is not None and text.strip() in ("", "-1"):
        raise CommandError("CUDA_VISIBLE_DEVICES hides every GPU from the process: leave it out, or number the cards")
    own = _numbered(text or "", inside or gpus)
    return own or inside or (gpus[: deployment.gpu_count] if deployment.gpu_count else gpus)


def _numbered(text: str, gpus: tuple[Device, ...]) -> tuple[Device, ...]:
    """The GPUs that a list of numbers names; () where it is no such list.

    CUDA takes no number behind the first that there is not. Where no more cards are named than numbers, these cards are
    taken for those.
    """
    parts = text.replace(" ", "").split(",")
    if not all(part.isascii() and part.isdigit() for part in parts):
        return ()
    numbers = list(takewhile(lambda part: int(part[:6]) < len(gpus), parts))
    if len(numbers) < len(parts) and len(gpus) <= len(parts):
        return ()
    if not numbers:
        raise CommandError(f"GPU {parts[0][:6]} is not there: {len(gpus)} are named, counted from 0")
    return tuple(gpus[int(part)] for part in dict.fromkeys(numbers))


def _says_one(gpu: object) -> bool:
    if isinstance(gpu, str):
        return re.search(r"(?:^|\s)1\s*[x×]|[x×]\s*1\s*$", gpu) is not None or gpu.strip() == "auto"
    return not isinstance(gpu, Mapping) or "count" in gpu
