"""Serve commands as people have them to a Deployment, and back.

- read_deployments(words): every deployment of a command, a file or a text (deployments.py)
- parse_command(["vllm", "serve", "MODEL", ...]): a command line, wrapped or not, or the name of a file
- parse_text(text): a script, compose file, manifest or Python source
- to_command(deployment), to_shell(deployment): the way back
- detect(argv): which engine a command starts
"""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from oomph.commands.call import Around
from oomph.commands.deployments import (
    Entry,
    distinct,
    engine_of_call,
    entries_of_text,
    only_one,
    place,
    read_deployments,
)
from oomph.commands.wrappers import engine_of, peel
from oomph.engines.registry import engine_of as engine_of_deployment
from oomph.errors import OomphError
from oomph.ir import Deployment, Engine

__all__ = [
    "Entry", "detect", "distinct", "parse_command", "parse_text", "read_deployments", "to_command",
    "to_shell", "without_secrets",
]  # fmt: skip

_SECRETS = frozenset(("api_key", "hf_token", "ssl_keyfile", "ssl_certfile", "ssl_ca_certs"))


def detect(argv: Sequence[str]) -> str:
    """The name of an engine; "" where the command starts none that oomph knows."""
    try:
        call = peel(argv, {})
        return engine_of_call(call).name if call.source else engine_of(call.words)
    except OomphError:
        return ""


def parse_command(
    argv: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    engine: Engine | str | None = None,
    outside: Mapping[str, str] | None = None,
) -> Deployment:
    """One deployment, its GPUs not yet known. `outside`: variables that a file's own $NAME may be looked up in."""
    words = [word.replace("\0", "") for word in argv]
    entries = read_deployments(words, environment=environment, engine=engine, outside=outside)
    return only_one(entries, place(words))


def parse_text(
    text: str,
    *,
    name: str = "",
    environment: Mapping[str, str] | None = None,
    engine: Engine | str | None = None,
) -> dict[str, Deployment]:
    """Every deployment that a script, compose file, manifest, manual, notebook or Python source describes."""
    entries = entries_of_text(text, name, dict(environment or {}), engine, Around())
    if refused := next((entry.error for entry in entries if entry.error), None):
        raise refused
    return {entry.name: entry.deployment for entry in entries if entry.deployment}


def to_command(deployment: Deployment) -> list[str]:
    """The command line of a deployment: parsing it for the same engine gives the same flags again."""
    variables = [f"{name}={value}" for name, value in deployment.environment.items()]
    return [*variables, *engine_of_deployment(deployment).write_command(deployment)]


def without_secrets(deployment: Deployment) -> Deployment:
    """As it may be shown to others: no keys, no certificates, no variables."""
    return replace(deployment, flags={k: v for k, v in deployment.flags.items() if k not in _SECRETS}, environment={})


def to_shell(deployment: Deployment) -> str:
    """to_command as one line to paste."""
    from oomph.commands.call import quote

    return " ".join(quote(word) for word in to_command(deployment))
