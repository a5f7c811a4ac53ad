"""Serve commands as people have them to a Deployment, and back.

    parse_command(["vllm", "serve", "MODEL", ...])     a command line, wrapped or not, or the name of a file
    parse_text(text)                                   a script, compose file, manifest or Python source
    to_command(deployment), to_shell(deployment)       the way back
    detect(argv)                                       which engine a command starts
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from oomph.commands.call import Call, not_yet
from oomph.commands.shell import TYPOGRAPHIC
from oomph.commands.values import short, shown
from oomph.commands.wrappers import engine_of, peel, script_calls
from oomph.errors import CommandError, OomphError
from oomph.ir.deployment import Deployment, Engine

__all__ = ["detect", "parse_command", "parse_file", "parse_text", "to_command", "to_shell"]

_FILES = (".yaml", ".yml", ".sh", ".bash", ".py", ".service")


def detect(argv: Sequence[str]) -> str:
    """vllm, llamacpp, ollama, sglang or trtllm; "" where the command starts none of them."""
    try:
        call = peel(argv, {})
    except OomphError:
        return ""
    return "vllm" if call.source else engine_of(call.words)


def parse_command(
    argv: Sequence[str], *, environment: Mapping[str, str] | None = None, engine: Engine | str | None = None
) -> Deployment:
    """One deployment, its GPUs not yet known."""
    words = [word.replace("\0", "") for word in argv]
    given = dict(environment or {})
    if len(words) == 1 and " " in words[0].strip() and not os.path.exists(words[0]):
        return _one(parse_text(words[0], environment=given, engine=engine), "the text")
    if len(words) == 1 and (words[0].endswith(_FILES) or words[0].rpartition(":")[0].endswith(_FILES)):
        return _from_file(words[0], given, engine)
    if any(word[:1] in TYPOGRAPHIC for word in words if word):
        # a shell that met curly quotes has split the command where it should not have
        return _one(parse_text(" ".join(words), environment=given, engine=engine), "the command")
    return _one(_deployments(peel(words, given), engine), "the command")


def parse_file(
    path: str, *, environment: Mapping[str, str] | None = None, engine: Engine | str | None = None
) -> dict[str, Deployment]:
    """name of the service, container or line -> deployment."""
    from oomph.commands import files

    return parse_text(files.read(path), name=os.path.basename(path), environment=environment, engine=engine)


def parse_text(
    text: str,
    *,
    name: str = "",
    environment: Mapping[str, str] | None = None,
    engine: Engine | str | None = None,
) -> dict[str, Deployment]:
    """Every deployment that a script, compose file, manifest or Python source describes."""
    from oomph.commands import files

    given = dict(environment or {})
    sort = files.sort_of(text, name)
    calls: dict[str, Call]
    if sort == "kubernetes":
        from oomph.commands import kubernetes

        calls = kubernetes.calls(text, given, name or "the manifest")
    elif sort == "compose":
        from oomph.commands import compose

        calls = compose.calls(text, given, name or "the compose file")
    elif sort == "python":
        calls = {"call": Call((), given, source=text)}
    else:
        text = files.unit_script(text) if name.endswith(".service") else text
        calls = {f"command {i}": call for i, call in enumerate(script_calls(text, given), 1)}
    out: dict[str, Deployment] = {}
    for key, call in calls.items():
        found = _deployments(call, engine)
        out |= {key if len(found) == 1 else f"{key} {i}": d for i, d in enumerate(found, 1)}
    if not out:
        where = shown(name) or "the text"
        raise CommandError(f"no serve command is in {where}", hint="oomph looks for vllm serve MODEL ...")
    return out


def to_command(d: Deployment) -> list[str]:
    """The command line of a deployment: parsing it for the same engine gives the same flags again."""
    from oomph.commands import python_call, vllm

    prefix = [f"{name}={value}" for name, value in d.environment.items()]
    if d.engine.name == "llamacpp":
        from oomph.commands import llamacpp

        return [*prefix, *llamacpp.to_words(d)]
    if d.engine.name == "ollama":
        from oomph.commands import ollama

        return [*prefix, *ollama.to_words(d)]
    if d.engine.name != "vllm":
        raise not_yet(d.engine.name)
    if d.usage == "llm":
        return [*prefix, "python", "-c", python_call.to_source(d)]
    return [*prefix, *vllm.to_words(d)]


def to_shell(d: Deployment) -> str:
    """to_command as one line to paste."""
    from oomph.commands.shell import quote

    return " ".join(quote(word) for word in to_command(d))


def _deployments(call: Call, engine: Engine | str | None) -> list[Deployment]:
    if call.source:
        from oomph.commands import python_call

        return python_call.deployments(call, engine)
    name = engine_of(call.words)
    if name == "llamacpp":
        from oomph.commands import llamacpp

        return [llamacpp.deployment(call, engine)]
    if name == "ollama":
        from oomph.commands import ollama

        return [ollama.deployment(call, engine)]
    if name != "vllm":
        raise not_yet(name)
    from oomph.commands import vllm

    return [vllm.deployment(call, engine)]


def _from_file(word: str, environment: Mapping[str, str], engine: Engine | str | None) -> Deployment:
    """FILE, or FILE:SERVICE where it holds several."""
    path, _, wanted = ("", "", "") if word.endswith(_FILES) else word.rpartition(":")
    found = parse_file(path or word, environment=environment, engine=engine)
    if wanted:
        chosen = {key: d for key, d in found.items() if key == wanted or key.endswith("/" + wanted)}
        if not chosen:
            raise CommandError(f"{shown(path)} has no {short(wanted)}, only {shown(', '.join(found))}")
        found = chosen
    return _one(found, shown(path or word))


def _one(found: Mapping[str, Deployment] | Sequence[Deployment], where: str) -> Deployment:
    items = list(found.values()) if isinstance(found, Mapping) else list(found)
    if not items:
        raise CommandError(f"no serve command is in {where}")
    if len(items) > 1:
        names = shown(", ".join(found)) if isinstance(found, Mapping) else f"{len(items)} calls"
        raise CommandError(f"{where} holds several serve commands: {names}", hint="name one as FILE:NAME")
    return items[0]
