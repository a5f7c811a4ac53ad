"""`LLM(model=..., ...)` in Python source to a Deployment. The source is read as a syntax tree and never run."""

import ast
import re
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from oomph.commands.call import Call, memory_variables, short, shown
from oomph.commands.python.values import Scope, called, parse, text_of
from oomph.engines.vllm.command.arguments import NoSuchFlag
from oomph.engines.vllm.command.values import Refused, check_keys, check_python
from oomph.errors import CommandError
from oomph.facts.vllm import environment as variables
from oomph.facts.vllm.flag_effects import EFFECTS
from oomph.facts.vllm.flags import Options, options_of
from oomph.ir import Deployment, Engine, Usage

# ZenML's VLLMServiceConfig hands its fields on to vLLM (zenml.integrations.vllm.services)
_WRAPPED = ("VLLMServiceConfig",)
_NAMES = ("LLM", "EngineArgs", "AsyncEngineArgs", *_WRAPPED)
_MODULES = ("vllm", "engine_args", "arg_utils")  # vllm.LLM is ours, openai.LLM is not


def deployments(call: Call, release: Engine, notes: Sequence[str] = ()) -> list[Deployment]:
    """One for each LLM(...) or EngineArgs(...) call of the source. `notes` are about the release."""
    tree = parse(call.source)
    scope = Scope(tree, call.environment)
    call = replace(call, environment={**call.environment, **_environment(tree)})
    options = options_of(release.version)
    out = []
    for node in _engine_calls(tree):
        flags, call_notes = _keywords(node, scope, options)
        model = flags.pop("model", None) or str(options.by_field["model"].default)
        if not isinstance(model, str) or model.startswith("-"):
            raise CommandError(f"line {node.lineno}: {short(str(model))} is not a model")
        checked = variables.check(memory_variables(call.environment), release.version)
        usage: Usage = "llm" if called(node) == "LLM" else "serve"
        out.append(call.starts(release, model, flags, (*notes, *call_notes, *checked), usage))
    return out


def calls_engine(source: str) -> bool:
    return any(_engine_calls(parse(source)))


def _engine_calls(tree: ast.Module) -> Iterator[ast.Call]:
    """LLM(...) and the like, unless the name comes from another package."""
    foreign = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] != "vllm"
        for alias in node.names
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        if called(node) == "LLMConfig" and any(k.arg == "model_loading_config" for k in node.keywords):
            yield node
        elif called(node) in _NAMES:
            base = node.func.value if isinstance(node.func, ast.Attribute) else None
            ours = isinstance(base, ast.Name) and base.id in _MODULES if base is not None else True
            if ours and (called(node) in _WRAPPED or called(node) not in foreign):
                yield node


def _ray_config(node: ast.Call, known: Scope, options: Options) -> tuple[dict[str, Any], list[str]]:
    """Ray Serve's LLMConfig: the model's source, and vLLM's arguments in engine_kwargs."""
    notes: list[str] = []
    values: dict[str, Any] = {}
    for keyword in node.keywords:
        if keyword.arg in ("model_loading_config", "engine_kwargs"):
            try:
                value = known.value(keyword.value)
            except ValueError:
                value = _known_part(keyword.value, known)
                if value is None:
                    raise _open_config(node.lineno, keyword) from None
            if not isinstance(value, dict) or not all(isinstance(k, str) for k in value):
                raise CommandError(f"line {node.lineno}: {keyword.arg} of LLMConfig is not a dictionary")
            source = {"model": value.get("model_source", value.get("model_id"))}
            values |= value if keyword.arg == "engine_kwargs" else source
    flags = {name: _value(name, value, options, node.lineno, notes) for name, value in values.items()}
    flags = {name: value for name, value in flags.items() if value is not None}
    return flags, [*notes, *EFFECTS.sentences(flags, {})]


def _known_part(node: ast.expr, known: Scope) -> dict[str, Any] | None:
    """The entries of a dictionary that can be read, the model among them; None where it cannot."""
    if isinstance(node, ast.Call) and called(node) == "dict" and not node.args:
        pairs = [(keyword.arg or "", keyword.value) for keyword in node.keywords]
    elif isinstance(node, ast.Dict):
        pairs = [(str(getattr(key, "value", "")), value) for key, value in zip(node.keys, node.values, strict=True)]
    else:
        return None
    values: dict[str, Any] = {}
    for name, value in pairs:
        try:
            values[name] = known.value(value)
        except ValueError:
            if name in ("model_id", "model_source"):
                return None
    return values


def _open_config(line: int, keyword: ast.keyword) -> CommandError:
    text = text_of(keyword.value)
    variable = re.search(r"(?:environ|getenv)\W{1,4}[\"'](\w+)[\"']", text)
    if variable:
        return CommandError(f"line {line}: {variable[1]} is set outside this file: --set {variable[1]}=...")
    return CommandError(f"line {line}: {keyword.arg} of LLMConfig is not a literal: {text[:80]}")


def _environment(tree: ast.Module) -> dict[str, str]:
    """os.environ["K"] = "V", os.environ.setdefault("K", "V")."""
    out: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and called(node) == "setdefault" and len(node.args) == 2:
            words = [arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
            if len(words) == 2 and "environ" in text_of(node.func):
                out.setdefault(words[0], words[1])
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Subscript):
            continue
        target, value = node.targets[0], node.value
        if getattr(target.value, "attr", "") != "environ" or not isinstance(target.slice, ast.Constant):
            continue
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            out[str(target.slice.value)] = value.value
    return out


def _keywords(node: ast.Call, known: Scope, options: Options) -> tuple[dict[str, Any], list[str]]:
    if called(node) == "LLMConfig":
        return _ray_config(node, known, options)
    values, notes, lost = known.arguments(node, ("model",))
    if "model" in lost:
        raise CommandError(f"line {node.lineno}: the model is not a literal: {lost['model']}")
    if "**" in lost and "model" not in values:
        raise CommandError(f"line {node.lineno}: the model stands in a ** argument that is not a literal")
    if called(node) in _WRAPPED:  # its server's own flags: the port
        values = {name: value for name, value in values.items() if not _is_frontend(name, options)}
    flags = {name: _value(name, value, options, node.lineno, notes) for name, value in values.items()}
    flags = {name: value for name, value in flags.items() if value is not None}
    return flags, [*notes, *EFFECTS.sentences(flags, {})]


def _is_frontend(name: str, options: Options) -> bool:
    flag = options.by_field.get(name)
    return flag is not None and flag.group == "frontend"


def _value(name: str, value: Any, options: Options, line: int, notes: list[str]) -> Any:
    """The value, or None where it is the same as not given."""
    flag = options.by_field.get(name)
    if flag is None or flag.group == "frontend":
        status = options.status(name)
        if status.state == "gone":
            raise NoSuchFlag(status, "", where=f"line {line}: ")
        why = status.sentence if status.state == "not yet" else f"unexpected keyword argument {name!r}"
        close = f"; did you mean {status.close[0][2:].replace('-', '_')}?" if status.close else ""
        raise CommandError(f"line {line}: {why}{close}")
    if name == "compilation_config" and isinstance(value, int) and not isinstance(value, bool):
        value = {"mode" if "mode" in options.keys("compilation_config") else "level": value}
    if value in ([], (), set()) or (value is False and flag.kind in ("store_true", "maybe")):
        return None
    try:
        checked = _renderable(check_python(flag, value, options))
        if note := check_keys(flag, checked, options):
            notes.append(f"line {line}: {note}")
        return checked
    except Refused as error:
        raise CommandError(f"line {line}: {shown(name)}: {error}") from None


def _renderable(value: Any) -> Any:
    if isinstance(value, list) and len(value) > 1 and any(str(item).startswith("-") for item in value):
        raise Refused("an item starts with a dash, which no command line could give")
    return value


def to_source(deployment: Deployment) -> str:
    """LLM(...) that gives the same deployment again."""
    arguments = [f"model={deployment.model!r}", *(f"{name}={value!r}" for name, value in deployment.flags.items())]
    return f"LLM({', '.join(arguments)})"
