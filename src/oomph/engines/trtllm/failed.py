"""The deployment of a log: its command read again, with what the log prints pinned."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from oomph.commands import parse_command
from oomph.errors import OomphError
from oomph.facts.trtllm.versions import NEWEST, nearest
from oomph.ir.deployment import Deployment, Engine
from oomph.ir.hardware import Device
from oomph.ir.observation import Observation


def failed_deployment(observations: Sequence[Observation], gpus: tuple[Device, ...], printed: str) -> Deployment | None:
    """`printed`: the release as the log prints it, "" = it does not."""
    command = next(
        (
            observation
            for observation in observations
            if observation.kind == "command" and "trtllm-serve" in observation.text
        ),
        None,
    )
    if command is None or not gpus:
        return None
    try:
        release, _ = nearest(printed or NEWEST)
        deployment = parse_command([str(command.values.get("command", ""))], engine=f"trtllm=={release}")
    except (OomphError, ValueError):
        return None
    engine = Engine("trtllm", release, "the log" if printed else "newest known")
    return replace(deployment, engine=engine, gpus=gpus, given=_printed(observations))


def _printed(observations: Sequence[Observation]) -> dict[str, int]:
    """The peak and the temporary pool make the tokens exact."""
    terms: dict[str, int] = {}
    for kind, name, term in (("tr_budget", "peak", "peak"), ("tr_budget", "temporary", "temporary_kv")):
        value = next(
            (
                observation.values[name]
                for observation in observations
                if observation.kind == kind and name in observation.values
            ),
            None,
        )
        if isinstance(value, int):
            terms[term] = value
    return terms
