"""`LLM(model=..., ...)` in Python source to a Deployment. The source is read as a syntax tree and never run."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Mapping
from typing import Any

from oomph.commands.call import Call, choose_engine, kept, visible_devices
from oomph.commands.values import Refused, check_keys, check_python, short, shown
from oomph.errors import CommandError
from oomph.facts.vllm import environment as variables
from oomph.facts.vllm.flags import Flag, by_field, flag_status
from oomph.facts.vllm.versions import in_range
from oomph.ir.deployment import Deployment, Engine

_NAMES = ("LLM", "EngineArgs", "AsyncEngineArgs")
_LIMIT = 1 << 20


def deployments(call: Call, engine: Engine | str | None = None) -> list[Deployment]:
    """One for each LLM(...) or EngineArgs(...) call of the source."""
    chosen, notes = choose_engine(engine, image=call.image)
    tree = _parse(call.source)
    known = _constants(tree)
    environment = kept({**call.environment, **_environment(tree)})
    out = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _called(node) in _NAMES:
            flags, said = _keywords(node, known, chosen.version)
            model = flags.pop("model", None) or str(by_field(chosen.version)["model"].default)
            if not isinstance(model, str) or model.startswith("-"):
                raise CommandError(f"line {node.lineno}: {short(str(model))} is not a model")
            checked = variables.check(environment, chosen.version)
            out.append(
                Deployment(
                    engine=chosen,
                    model=model,
                    flags=flags,
                    gpus=(),
                    environment=environment,
                    usage="llm" if _called(node) == "LLM" else "serve",
                    gpu_count=call.gpu_count or visible_devices(environment),
                    notes=(*call.notes, *notes, *said, *checked),
                )
            )
    return out


def _parse(source: str) -> ast.Module:
    if len(source) > _LIMIT:
        raise CommandError(f"Python source of {len(source)} characters is too long")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = f" at line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        raise CommandError(f"it is not Python that can be read{line}: {str(error)[:80]}") from None


def _called(node: ast.Call) -> str:
    """LLM, vllm.LLM and vllm.LLM.x alike by their last name."""
    return node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")


def _constants(tree: ast.Module) -> dict[str, Any]:
    """Names that are given one literal: MODEL = "..."; later ones win."""
    known: dict[str, Any] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            try:
                known[node.targets[0].id] = _literal(node.value, known)
            except ValueError:
                known.pop(node.targets[0].id, None)
    return known


def _literal(node: ast.expr, known: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Name) and node.id in known:
        return known[node.id]
    try:
        if isinstance(node, ast.Call) and _called(node) == "dict" and not node.args:
            return {k.arg: _literal(k.value, known) for k in node.keywords if k.arg}
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        raise ValueError("not a literal") from None


def _text(node: ast.expr) -> str:
    try:
        return shown(ast.unparse(node)[:60])
    except RecursionError:
        return "(a long expression)"


def _environment(tree: ast.Module) -> dict[str, str]:
    """os.environ["K"] = "V"."""
    out: dict[str, str] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Subscript):
            continue
        target, value = node.targets[0], node.value
        if getattr(target.value, "attr", "") != "environ" or not isinstance(target.slice, ast.Constant):
            continue
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            out[str(target.slice.value)] = value.value
    return out


def _keywords(node: ast.Call, known: Mapping[str, Any], version: str) -> tuple[dict[str, Any], list[str]]:
    given: dict[str, Any] = {}
    notes: list[str] = []
    pairs: list[tuple[str, ast.expr]] = [("model", node.args[0])] if node.args else []
    for keyword in node.keywords:
        if keyword.arg is None:  # **kwargs
            try:
                value = _literal(keyword.value, known)
            except ValueError:
                value = None
            if isinstance(value, dict) and all(isinstance(k, str) for k in value):
                given.update(value)
            else:
                notes.append(f"line {node.lineno}: **{_text(keyword.value)} is not a literal: left out")
        else:
            pairs.append((keyword.arg, keyword.value))
    for name, expression in pairs:
        try:
            given[name] = _literal(expression, known)
        except ValueError:
            text = _text(expression)
            if name == "model":
                raise CommandError(f"line {node.lineno}: the model is not a literal: {text}") from None
            notes.append(f"line {node.lineno}: {name}={text} is not a literal: left out")
    flags = {name: _value(name, value, version, node.lineno, notes) for name, value in given.items()}
    return {name: value for name, value in flags.items() if value is not None}, notes


def _value(name: str, value: Any, version: str, line: int, notes: list[str]) -> Any:
    """The value, or None where it is the same as not given."""
    flag = by_field(version).get(name)
    if flag is None or flag.group == "frontend":
        status = flag_status(name, version)
        why = status.sentence if status.state in ("gone", "not yet") else f"unexpected keyword argument {name!r}"
        close = f"; did you mean {status.close[0][2:].replace('-', '_')}?" if status.close else ""
        raise CommandError(f"line {line}: {why}{close}")
    if name == "compilation_config" and isinstance(value, int) and not isinstance(value, bool):
        value = {"mode" if in_range(version, "0.11.1") else "level": value}
    if value in ([], (), set()) or (value is False and flag.kind in ("store_true", "maybe")):
        return None
    try:
        checked = _renderable(flag, check_python(flag, value, version))
        if note := check_keys(flag, checked, version):
            notes.append(f"line {line}: {note}")
        return checked
    except Refused as error:
        raise CommandError(f"line {line}: {shown(name)}: {error}") from None


def _renderable(flag: Flag, value: Any) -> Any:
    if isinstance(value, list) and len(value) > 1 and any(str(item).startswith("-") for item in value):
        raise Refused("an item starts with a dash, which no command line could give")
    return value


def to_source(d: Deployment) -> str:
    """LLM(...) that gives the same deployment again."""
    given = [f"model={d.model!r}", *(f"{name}={value!r}" for name, value in d.flags.items())]
    return f"LLM({', '.join(given)})"
