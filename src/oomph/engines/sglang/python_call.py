"""`sglang.Engine(model_path=..., ...)` in Python source to a Deployment. The source is read, never run."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any

from oomph.commands.call import Call, memory_variables, visible_devices
from oomph.commands.python_values import Scope, called, parse
from oomph.commands.shown import short
from oomph.errors import CommandError
from oomph.facts.sglang.flag_effects import EFFECTS
from oomph.facts.sglang.flags import Options, options_of
from oomph.ir.deployment import Deployment, Engine

_NAMES = ("Engine", "ServerArgs", "Runtime")
_MODULES = ("sglang", "sgl")


def calls_engine(source: str) -> bool:
    return any(_calls(parse(source)))


def _calls(tree: ast.Module) -> Iterator[ast.Call]:
    """sgl.Engine(...), or Engine(...) where sglang is what the name comes from."""
    ours = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "sglang"
        for alias in node.names
    }
    modules = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name.split(".")[0] == "sglang"
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or called(node) not in _NAMES:
            continue
        base = node.func.value if isinstance(node.func, ast.Attribute) else None
        if (isinstance(base, ast.Name) and base.id in modules | set(_MODULES)) or (
            base is None and called(node) in ours
        ):
            yield node


def deployments(call: Call, release: Engine, notes: Sequence[str] = ()) -> list[Deployment]:
    tree = parse(call.source)
    scope = Scope(tree, call.environment)
    environment = memory_variables(call.environment)
    out = []
    for node in _calls(tree):
        flags, said = _keywords(node, scope, options_of(release.version))
        model = flags.pop("model_path", None)
        if not isinstance(model, str) or not model:
            raise CommandError(f"line {node.lineno}: no model_path is given")
        out.append(
            Deployment(
                engine=release,
                model=model,
                flags=flags,
                gpus=(),
                environment=environment,
                gpu_count=call.gpu_count or visible_devices(environment),
                notes=(*call.notes, *notes, *said),
            )
        )
    return out


def _keywords(node: ast.Call, scope: Scope, options: Options) -> tuple[dict[str, Any], list[str]]:
    flags: dict[str, Any] = {}
    notes: list[str] = []
    known = options.by_field
    for keyword in node.keywords:
        if keyword.arg is None:
            value, whole = scope.mapping(keyword.value)
            flags.update(value)
            if not whole:
                notes.append(f"line {node.lineno}: of a ** argument only what is a literal was read")
            continue
        try:
            flags[keyword.arg] = scope.value(keyword.value)
        except ValueError:
            notes.append(f"line {node.lineno}: {keyword.arg} is not a literal: left out")
    for name in flags:
        if name not in known:
            raise CommandError(f"line {node.lineno}: unexpected keyword argument {short(repr(name))}")
    flags = {name: value for name, value in flags.items() if value is not None and value is not False}
    return flags, [*notes, *EFFECTS.sentences(flags, {})]
