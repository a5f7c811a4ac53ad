"""schemas.py [--check]: JSON Schema for everything that oomph prints as JSON, in docs/schema/.

The schemas are made from the types (report/contract/, and those that are printed as they are kept); the comment
behind a field is its description. `--check` ends in exit code 1 where a file is not what would be written.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from oomph.answers.compare import Comparison
from oomph.answers.inspection import Inspection
from oomph.ir.hardware import GpuList
from oomph.report.contract import batch, explain, plan, searches, several, simulate

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs" / "schema"
DRAFT = "https://json-schema.org/draft/2020-12/schema"
# file -> (type, the commands that print it)
OUTPUTS: dict[str, tuple[Any, str]] = {
    "plan": (plan.PlanOutput, "oomph plan --json"),
    "batch-case": (batch.BatchCase, "a line that oomph plan --batch reads"),
    "batch-line": (batch.BatchPlan, "a line that oomph plan --batch writes"),
    "check": (several.CheckOutput, "oomph plan FILE --json of several deployments, oomph check --format json"),
    "explain": (explain.ExplanationOutput, "oomph explain --json"),
    "thread": (explain.ThreadOutput, "oomph explain --json of a saved issue"),
    "inspect": (Inspection, "oomph inspect --json"),
    "fit": (searches.FitOutput, "oomph fit --json"),
    "models": (searches.ModelsOutput, "oomph models --json"),
    "gpus": (searches.CardsOutput, "oomph gpus MODEL --json"),
    "gpu-list": (GpuList, "oomph gpus --json"),
    "what-if": (searches.WhatIfOutput, "oomph what-if --json"),
    "diff": (several.DiffOutput, "oomph diff --json"),
    "compare": (Comparison, "oomph compare --json"),
    "pack": (several.PackOutput, "oomph pack --json"),
    "learn": (several.LearnOutput, "oomph learn --json"),
    "report": (explain.ReportOutput, "oomph report --json"),
    "rule": (explain.RulesOutput, "oomph rule --json"),
    "simulate": (simulate.SimulationOutput, "oomph simulate --json"),
    "simulate-to": (simulate.TwoReleasesOutput, "oomph simulate --to --json"),
    "error": (batch.ErrorOutput, "any command with --json that refuses"),
}

# msgspec has no union of two objects that no tag tells apart: these are put together here.
UNIONS: dict[str, tuple[Any, ...]] = {
    "batch-line": (batch.BatchError,),
    "check": (several.DeploymentPlan, several.DeploymentError),
}


def schema(name: str) -> dict[str, Any]:
    kind, command = OUTPUTS[name]
    more = UNIONS.get(name, ())
    (reference, *items), components = msgspec.json.schema_components([kind, *more], ref_template="#/$defs/{name}")
    classes = {one.__name__: one for whole in (kind, *more) for one in structs(whole)}
    for key, component in components.items():
        if key in classes:
            describe(component, classes[key])
            if name != "batch-case":
                require(component, classes[key])
    head = {"$schema": DRAFT, "title": command}
    if name == "batch-line":
        return {**head, "anyOf": [reference, *items], "$defs": components}
    root = components.pop(reference["$ref"].rpartition("/")[2])
    if name == "check":
        root["properties"]["deployments"] = {"type": "array", "items": {"anyOf": items}}
    if "schema" not in root["properties"] and name != "batch-case":  # printed as it is kept, with the number in front
        root["properties"] = {"schema": {"type": "integer"}, **root["properties"]}
        root["required"] = ["schema", *root.get("required", [])]
    if name != "batch-case":
        root["properties"]["schema"] = {"const": plan.SCHEMA, "description": "the number of this contract"}
    return {**head, **{k: v for k, v in root.items() if k != "title"}, "$defs": components}


def structs(kind: Any) -> list[type]:
    """Every Struct that a type holds, however deep."""
    info = msgspec.inspect.type_info(kind)
    found: dict[type, None] = {}
    todo: list[Any] = [info]
    while todo:
        item = todo.pop()
        if isinstance(item, msgspec.inspect.StructType):
            if item.cls in found:
                continue
            found[item.cls] = None
            todo += [field.type for field in item.fields]
        elif isinstance(item, msgspec.inspect.Type):
            todo += [getattr(item, name) for name in ("item_type", "key_type", "value_type") if hasattr(item, name)]
            todo += [*getattr(item, "item_types", ()), *getattr(item, "types", ())]
    return list(found)


def describe(component: dict[str, Any], kind: type) -> None:
    if (kind.__doc__ or "").strip():
        component["description"] = inspect.cleandoc(kind.__doc__ or "")
    else:
        component.pop("description", None)
    for name, text in comments(kind).items():
        if name in component.get("properties", {}):
            component["properties"][name] = {**component["properties"][name], "description": text}


def require(component: dict[str, Any], kind: type) -> None:
    """What is printed has every field, also one that is as it usually is; only an UNSET one is left out."""
    fields = msgspec.inspect.type_info(kind).fields  # type: ignore[attr-defined]
    defaults = [(one.default, one.default_factory) for one in fields]
    unset = (msgspec.NODEFAULT, msgspec.NODEFAULT)
    component["required"] = [
        one.encode_name for one, default in zip(fields, defaults) if one.required or default != unset
    ]
    for value in component["properties"].values():
        value.pop("default", None)


@cache
def comments(kind: type) -> dict[str, str]:
    """field -> the comment behind it, of the class and of those that it is made from."""
    out: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if issubclass(base, msgspec.Struct) and base.__module__.startswith("oomph."):
            source, _ = inspect.getsourcelines(base)
            tree = ast.parse("".join(source))
            for node in getattr(tree.body[0], "body", []):
                comment = re.search(r"  # (?!type:|noqa)(.+)$", source[(node.end_lineno or 1) - 1].rstrip())
                if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and comment:
                    out[node.target.id] = comment[1]
    return out


def texts() -> dict[Path, str]:
    return {
        FOLDER / f"{name}.json": msgspec.json.format(msgspec.json.encode(schema(name)), indent=1).decode() + "\n"
        for name in OUTPUTS
    }


def main() -> int:
    stale = []
    FOLDER.mkdir(exist_ok=True)
    for path, text in texts().items():
        if not path.exists() or path.read_text() != text:
            stale.append(path.name)
            if "--check" not in sys.argv:
                path.write_text(text)
    print(f"{len(stale)} of {len(OUTPUTS)} schemas {'differ' if '--check' in sys.argv else 'written'}: {stale}")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
