"""`tensorrt_llm.LLM(model=..., kv_cache_config=KvCacheConfig(...), ...)` in Python source to a Deployment, not run."""

import ast
from collections.abc import Sequence
from typing import Any

from oomph.commands.call import Call
from oomph.commands.python.values import Reader, Scope, called, engine_calls, parse
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
    results = []
    for node in engine_calls(tree, _PACKAGE, _NAMES):
        options, remarks, _ = scope.arguments(node, _POSITIONAL, _reader(scope, assigned))
        model = options.pop("model", None)
        if not isinstance(model, str) or not model:
            raise CommandError(f"line {node.lineno}: no model is named")
        fields = fields_of(options, f"line {node.lineno}")
        results.append(call.starts(release, model, fields, (*notes, *remarks, *EFFECTS.sentences(fields, {})), "llm"))
    return results


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


def _reader(scope: Scope, assigned: dict[str, ast.Call]) -> Reader:
    """A SomethingConfig(...) is what it is made of."""

    def value(name: str, argument: ast.expr, notes: list[str]) -> Any:
        config = assigned.get(argument.id) if isinstance(argument, ast.Name) else argument
        if not isinstance(config, ast.Call) or not called(config).endswith("Config"):
            return scope.value(argument)
        inner = scope.arguments(config, value=value)
        notes += inner.notes
        kind = called(config).removesuffix("DecodingConfig")
        if name == "speculative_config" and kind != called(config):
            inner.values.setdefault("decoding_type", kind)
        return inner.values

    return value
