"""`sglang.Engine(model_path=..., ...)` in Python source to a Deployment. The source is read, never run."""

import ast
from collections.abc import Sequence
from typing import Any

from oomph.commands.call import Call, short
from oomph.commands.python.values import Scope, engine_calls, parse
from oomph.errors import CommandError
from oomph.facts.sglang.flag_effects import EFFECTS
from oomph.facts.sglang.flags import Options, options_of
from oomph.ir import Deployment, Engine

_NAMES = ("Engine", "ServerArgs", "Runtime")
_MODULES = ("sglang", "sgl")


def calls_engine(source: str) -> bool:
    return "sglang" in source and any(engine_calls(parse(source), "sglang", _NAMES, _MODULES))


def deployments(call: Call, release: Engine, notes: Sequence[str] = ()) -> list[Deployment]:
    tree = parse(call.source)
    scope = Scope(tree, call.environment)
    out = []
    for node in engine_calls(tree, "sglang", _NAMES, _MODULES):
        flags, remarks = _keywords(node, scope, options_of(release.version))
        model = flags.pop("model_path", None)
        if not isinstance(model, str) or not model:
            raise CommandError(f"line {node.lineno}: no model_path is given")
        out.append(call.starts(release, model, flags, (*notes, *remarks)))
    return out


def _keywords(node: ast.Call, scope: Scope, options: Options) -> tuple[dict[str, Any], list[str]]:
    values, notes, _ = scope.arguments(node)
    for name in values:
        if name not in options.by_field:
            raise CommandError(f"line {node.lineno}: unexpected keyword argument {short(repr(name))}")
    flags = {name: value for name, value in values.items() if value is not None and value is not False}
    return flags, [*notes, *EFFECTS.sentences(flags, {})]
