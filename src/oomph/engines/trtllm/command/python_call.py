"""`tensorrt_llm.LLM(model=..., kv_cache_config=KvCacheConfig(...), ...)` in Python source to a Deployment, not run."""

import ast
from collections.abc import Sequence
from typing import Any

from oomph.commands.call import Call
from oomph.commands.python.values import Scope, called, engine_calls, parse
from oomph.engines.trtllm.command.options_file import fields_of
from oomph.errors import CommandError
from oomph.facts.trtllm.flag_effects import EFFECTS
from oomph.ir import Deployment, Engine

_NAMES = ("LLM", "MultimodalEncoder")
_PACKAGE = "tensorrt_llm"
_POSITIONAL = ("model", "tokenizer")


def calls_engine(source: str) -> bool:
    return _PACKAGE in source and any(engine_calls(parse(source), _PACKAGE, _NAMES))


def deployments(call: Call, release: Engine, notes: Sequence[str] = ()) -> list[Deployment]:
    tree = parse(call.source)
    scope = Scope(tree, call.environment)
    assigned = _configs(tree)
    built = []
    for node in engine_calls(tree, _PACKAGE, _NAMES):
        options, remarks = _options(node, scope, assigned)
        model = options.pop("model", None)
        if not isinstance(model, str) or not model:
            raise CommandError(f"line {node.lineno}: no model is named")
        fields = fields_of(options, f"line {node.lineno}")
        built.append(call.starts(release, model, fields, (*notes, *remarks, *EFFECTS.sentences(fields, {})), "llm"))
    return built


def _configs(tree: ast.Module) -> dict[str, ast.Call]:
    """name -> the SomethingConfig(...) that is assigned to it."""
    return {
        node.targets[0].id: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and len(node.targets) == 1
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Call)
        and called(node.value).endswith("Config")
    }


def _options(node: ast.Call, scope: Scope, assigned: dict[str, ast.Call]) -> tuple[dict[str, Any], list[str]]:
    options: dict[str, Any] = {}
    notes: list[str] = []
    for name, argument in zip(_POSITIONAL, node.args, strict=False):
        _put(options, notes, name, argument, scope, assigned)
    for name, argument in scope.keywords(node, options, notes):
        _put(options, notes, name, argument, scope, assigned)
    return options, notes


def _put(
    options: dict[str, Any],
    notes: list[str],
    name: str,
    argument: ast.expr,
    scope: Scope,
    assigned: dict[str, ast.Call],
) -> None:
    if isinstance(argument, ast.Name) and argument.id in assigned:
        argument = assigned[argument.id]
    if isinstance(argument, ast.Call) and called(argument).endswith("Config"):
        inner: dict[str, Any] = {}
        for keyword in argument.keywords:
            if keyword.arg is not None:
                _put(inner, notes, keyword.arg, keyword.value, scope, assigned)
        kind = called(argument).removesuffix("DecodingConfig")
        if name == "speculative_config" and kind != called(argument):
            inner.setdefault("decoding_type", kind)
        options[name] = inner
        return
    try:
        options[name] = scope.value(argument)
    except ValueError:
        notes.append(f"line {argument.lineno}: {name} is not a literal: left out")
