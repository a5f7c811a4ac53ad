"""What the page sends to what the rest works on: JSON of a stranger to a Deployment, checked field by field."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
from msgspec.structs import replace

from oomph.answers.plan import with_gpus
from oomph.commands import parse_command, to_command, to_shell, without_secrets
from oomph.engines.registry import engine_of
from oomph.errors import CommandError, OomphError
from oomph.ir import Deployment, Device
from oomph.text.redaction import hide_secrets
from oomph.units import GIB
from oomph.web.asking import NoGpu

Case = dict[str, Any]
_LONGEST = 100_000
# Variables beside those of the engine itself that change a plan.
_VARIABLES = ("CUDA_VISIBLE_DEVICES", "PYTORCH_", "HIP_VISIBLE_DEVICES")


@contextmanager
def field(name: str) -> Iterator[None]:
    """Whatever is refused inside is the fault of this field of the page: the sentence is shown beside it."""
    try:
        yield
    except OomphError as refused:
        if not hasattr(refused, "field"):
            refused.field = name  # type: ignore[attr-defined]
        raise


def text(case: Case, key: str, default: str = "") -> str:
    value = case.get(key, default)
    if not isinstance(value, str) or len(value) > _LONGEST:
        raise CommandError(f"{key} is not a text")
    return value


def count(case: Case, key: str, low: int, high: int = 1_000_000, default: int | None = None) -> int:
    value = case.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        with field(key):
            raise CommandError(f"{key} is not a number from {low:,} to {high:,}")
    return value


def tokens(case: Case, key: str) -> int:
    """A number of tokens as people write it: 32k, 131072; 0 where the field is empty."""
    from oomph.units import parse_tokens

    words = text(case, key).strip()
    with field(key):
        value = parse_tokens(words, what=key) if words else 0
        if words and not 1 <= value <= 1 << 30:
            raise CommandError(f"{key} {words[:40]!r} is not a number of tokens such as 32k")
    return value


def deployment_of(case: Case) -> Deployment:
    """{command} or {model, flags}, with {gpu, engine, compile_cache, own_build}, changed by {set: {field: value}}."""
    with field("text"):
        deployment = changed(_deployment(case), case.get("set") or {})
    cache = text(case, "compile_cache", "cold") or "cold"
    if cache not in ("cold", "warm"):
        raise CommandError("compile_cache is cold or warm")
    if not isinstance(own := case.get("own_build", False), bool):
        raise CommandError("own_build is true or false")
    deployment = replace(deployment, compile_cache=cache, own_build=own)
    return on_gpus(deployment, case.get("gpu"))


def on_gpus(deployment: Deployment, gpu: object) -> Deployment:
    """On those, else on those that the text names, else on this machine's; else the page has to ask."""
    from oomph.sources.gpu import live_gpu_here

    if not gpu and not deployment.gpu_name and not deployment.gpu_mention and not live_gpu_here():
        raise NoGpu(deployment.model)
    with field("gpu"):
        return with_gpus(deployment, gpu or None)


def chosen_gpus(case: Case, model: str = "") -> tuple[Device, ...]:
    """Of a question that is not about one command."""
    from oomph.sources.gpu import live_gpu_here, parse_gpus

    words = text(case, "gpu")
    if not words and not live_gpu_here():
        raise NoGpu(model)
    with field("gpu"):
        return parse_gpus(words or "auto")


def _deployment(case: Case) -> Deployment:
    engine = text(case, "engine")
    if case.get("command"):
        return parse_command([text(case, "command")], engine=engine or None)
    flags = case.get("flags") or {}
    if not isinstance(flags, dict):
        raise CommandError("flags is not an object")
    return parse_command(words(text(case, "model"), flags), engine=engine or None)


def words(model: str, flags: dict[str, Any]) -> list[str]:
    if not model.strip():
        raise CommandError("no model was named")
    out = ["vllm", "serve", model.strip()]
    for name, value in flags.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            out.append(flag)
        elif value is False:
            out.append("--no-" + flag[2:])
        elif value is not None:
            out += [flag, msgspec.json.encode(value).decode() if isinstance(value, dict | list) else str(value)]
    return out


def changed(deployment: Deployment, flags: object) -> Deployment:
    """With these flags laid over its own (None takes one away), as the engine reads them when they are typed."""
    if not isinstance(flags, dict) or len(flags) > 100:
        raise CommandError("set is not an object")
    if not flags:
        return deployment
    fields = {control.field for control in engine_of(deployment).controls()}
    if unknown := [name for name in flags if name not in fields]:
        raise CommandError(f"the page has no control for {str(unknown[0])[:60]!r}")
    merged = {**deployment.flags, **{name: _typed(value) for name, value in flags.items()}}
    merged = {name: value for name, value in merged.items() if value is not None}
    deployment = replace(deployment, flags=merged)
    if deployment.usage == "llm":
        return deployment
    again = parse_command(to_command(deployment), engine=deployment.engine)
    return replace(
        again,
        gpus=deployment.gpus,
        gpu_count=deployment.gpu_count,
        gpu_name=deployment.gpu_name,
        notes=deployment.notes,
    )


def _typed(value: object) -> object:
    if isinstance(value, str):
        return int(value) if value.isascii() and value.isdigit() and len(value) < 12 else value[:200]
    if value is None or isinstance(value, bool | int | float):
        return value
    raise CommandError("a control's value is a text, a number, true or false")


def shareable(deployment: Deployment) -> str:
    """The command as the page shows it and its address keeps it: without secrets, with what changes a plan."""
    own = engine_of(deployment).variables
    variables = {
        name: value
        for name, value in deployment.environment.items()
        if name.startswith((*own, *_VARIABLES)) and hide_secrets(f"{name}={value}") == f"{name}={value}"
    }
    return to_shell(replace(without_secrets(deployment), environment=variables))


def gpu_words(gpus: tuple[Device, ...], typed: str) -> str:
    """The GPUs as --gpu takes them. `typed`: what the user typed, kept where it means the same."""
    from oomph.sources.gpu import parse_gpus

    if not gpus:
        return typed
    runs: list[tuple[Device, int]] = []
    for device in gpus:
        if runs and runs[-1][0] == device:
            runs[-1] = (device, runs[-1][1] + 1)
        else:
            runs.append((device, 1))
    parts = [
        (f"{n}x " if n > 1 else "")
        + device.name
        + (f" used {device.used_bytes / GIB:.2f}GiB" if device.used_bytes else "")
        for device, n in runs
    ]
    written = " + ".join(parts)
    try:
        if typed and parse_gpus(typed) == gpus:
            return typed
        return written if len(parse_gpus(written)) == len(gpus) else typed
    except OomphError:
        return typed
