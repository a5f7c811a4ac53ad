"""Serve commands as people have them to a Deployment, and back.

- parse_command(["vllm", "serve", "MODEL", ...]): a command line, wrapped or not, or the name of a file
- parse_text(text): a script, compose file, manifest or Python source
- to_command(deployment), to_shell(deployment): the way back
- detect(argv): which engine a command starts
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from oomph import boundary
from oomph.commands import files
from oomph.commands.call import TYPOGRAPHIC, Call, pinned_releases
from oomph.commands.expansion import Around
from oomph.commands.shown import short, shown
from oomph.commands.wrappers import engine_of, peel
from oomph.engines.protocol import EngineProtocol
from oomph.engines.registry import DEFAULT, all_engines, engine_named
from oomph.engines.registry import engine_of as engine_of_deployment
from oomph.errors import CommandError, OomphError
from oomph.ir.deployment import Deployment, Engine

__all__ = ["detect", "parse_command", "parse_file", "parse_text", "to_command", "to_shell", "without_secrets"]

_SECRETS = frozenset(("api_key", "hf_token", "ssl_keyfile", "ssl_certfile", "ssl_ca_certs"))
_SCRIPTS = (".sh", ".bash", ".zsh", ".sbatch", ".slurm")
_FILES = (*_SCRIPTS, ".yaml", ".yml", ".py", ".ipynb", ".service", ".bat", ".cmd", ".ps1", ".md")


def detect(argv: Sequence[str]) -> str:
    """The name of an engine; "" where the command starts none that oomph knows."""
    try:
        call = peel(argv, {})
    except OomphError:
        return ""
    return _engine(call).name if call.source else engine_of(call.words)


def parse_command(
    argv: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    engine: Engine | str | None = None,
    outside: Mapping[str, str] | None = None,
) -> Deployment:
    """One deployment, its GPUs not yet known. `outside`: variables that a file's own $NAME may be looked up in."""
    words = [word.replace("\0", "") for word in argv]
    variables = dict(environment or {})
    around = Around(words[1:], outside or {})
    if len(words) == 1 and " " in words[0].strip() and not boundary.exists(words[0]):
        return _one(_read(words[0], "", variables, engine, around), "the text")
    if _names_file(words):
        return _from_file(words[0], variables, engine, around)
    if any(word[:1] in TYPOGRAPHIC for word in words if word):
        # a shell that met curly quotes has split the command where it should not have
        return _one(_read(" ".join(words), "", variables, engine, Around()), "the command")
    call = peel(words, variables)
    return _one(_deployments(replace(call, pinned=pinned_releases(" ".join(words[:20]))), engine), "the command")


def _names_file(words: Sequence[str]) -> bool:
    """FILE, FILE:NAME, or SCRIPT with its arguments; a program's own path is a command."""
    if len(words) != 1:
        return bool(words) and words[0].endswith(_SCRIPTS) and files.is_text(words[0])
    word, path = words[0], words[0].rpartition(":")[0]
    if engine_of(words):
        return False
    return word.endswith(_FILES) or path.endswith(_FILES) or files.is_text(word) or files.is_text(path)


def parse_file(
    path: str, *, environment: Mapping[str, str] | None = None, engine: Engine | str | None = None
) -> dict[str, Deployment]:
    """name of the service, container or line -> deployment."""
    return _read(files.read(path), path, dict(environment or {}), engine, Around())


def parse_text(
    text: str,
    *,
    name: str = "",
    environment: Mapping[str, str] | None = None,
    engine: Engine | str | None = None,
) -> dict[str, Deployment]:
    """Every deployment that a script, compose file, manifest, manual, notebook or Python source describes."""
    return _read(text, name, dict(environment or {}), engine, Around())


def _read(
    text: str,
    path: str,
    environment: dict[str, str],
    engine: Engine | str | None,
    around: Around,
    wanted: str = "",
) -> dict[str, Deployment]:
    """Every command of the text, or the one that is called `wanted`."""
    from oomph.commands import texts

    out: dict[str, Deployment] = {}
    name = os.path.basename(path)
    refused: dict[str, OomphError] = {}
    for key, call in texts.calls(text, name, environment, around).items():
        if wanted and not _is(key, wanted):
            continue
        try:
            deployments = _deployments(call, engine)
        except OomphError as error:  # one of several: the others can still be named
            refused[key] = error
            continue
        out |= {key if len(deployments) == 1 else f"{key} {i}": d for i, d in enumerate(deployments, 1)}
    if refused and out:
        where = shown(path) or "the text"
        raise CommandError(
            f"{where} holds {len(refused) + len(out)} serve commands: {shown(', '.join([*out, *refused]))}",
            hint=f"name one as {shown(path) or 'FILE'}:{next(iter(out))}",
        )
    if refused:
        raise next(iter(refused.values()))
    if not out:
        raise texts.none_found(name)
    return out


def _is(key: str, wanted: str) -> bool:
    return key == wanted or key.endswith("/" + wanted)


def to_command(deployment: Deployment) -> list[str]:
    """The command line of a deployment: parsing it for the same engine gives the same flags again."""
    variables = [f"{name}={value}" for name, value in deployment.environment.items()]
    return [*variables, *engine_of_deployment(deployment).write_command(deployment)]


def without_secrets(deployment: Deployment) -> Deployment:
    """As it may be shown to others: no keys, no certificates, no variables."""
    return replace(deployment, flags={k: v for k, v in deployment.flags.items() if k not in _SECRETS}, environment={})


def to_shell(deployment: Deployment) -> str:
    """to_command as one line to paste."""
    from oomph.commands.shell import quote

    return " ".join(quote(word) for word in to_command(deployment))


def _deployments(call: Call, release: Engine | str | None) -> list[Deployment]:
    return _engine(call).read_command(call, release)


def _engine(call: Call) -> EngineProtocol:
    if call.source:
        return next((one for one in all_engines() if one.calls_in(call.source)), engine_named(DEFAULT))
    return engine_named(engine_of(call.words))


def _from_file(word: str, environment: Mapping[str, str], engine: Engine | str | None, around: Around) -> Deployment:
    """FILE, or FILE:SERVICE where it holds several; variables of an .env file beside it count."""
    path, _, wanted = ("", "", "") if files.is_text(word) or word.endswith(_FILES) else word.rpartition(":")
    path = path or word
    beside = files.variables(os.path.join(os.path.dirname(path), ".env"))
    around = around._replace(outside={**beside, **around.outside})
    text = files.read(path)
    if wanted:
        from oomph.commands import texts

        names = texts.calls(text, os.path.basename(path), dict(environment), around)
        if not any(_is(key, wanted) for key in names):
            raise CommandError(f"{shown(path)} has no {short(wanted)}, only {shown(', '.join(names))}")
    return _one(_read(text, path, dict(environment), engine, around, wanted), shown(path))


def _one(deployments: Mapping[str, Deployment] | Sequence[Deployment], where: str) -> Deployment:
    items = list(deployments.values()) if isinstance(deployments, Mapping) else list(deployments)
    if not items:
        raise CommandError(f"no serve command is in {where}")
    same = {(d.model, repr(engine_of_deployment(d).memory_flags(d)), d.engine) for d in items}
    if len(items) > 1 and len(same) > 1:
        keys = list(deployments) if isinstance(deployments, Mapping) else [str(i) for i in range(1, len(items) + 1)]
        names = ", ".join(f"{key} ({d.model})" for key, d in zip(keys[:8], items[:8], strict=True))
        more = f" and {len(items) - 8} more" if len(items) > 8 else ""
        raise CommandError(
            f"{where} holds {len(items)} serve commands: {shown(names)}{more}",
            hint=f"name one as {'FILE' if where.startswith('the ') else where}:{keys[0]}",
        )
    return items[0]
