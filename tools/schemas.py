"""schemas.py [--check]: JSON Schema for everything that oomph prints as JSON, in docs/schema/.

The schemas are made from the types (report/contract*.py, and those that are printed as they are kept); the comment
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
from oomph.report.contract import answers as contract_answers, plan as contract, searches as contract_searches

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs" / "schema"
DRAFT = "https://json-schema.org/draft/2020-12/schema"
# file -> (type, the commands that print it)
OUTPUTS: dict[str, tuple[Any, str]] = {
    "plan": (contract.PlanOutput, "oomph plan --json"),
    "batch-case": (contract.BatchCase, "a line that oomph plan --batch reads"),
    "batch-line": (contract.BatchPlan, "a line that oomph plan --batch writes"),
    "check": (contract_answers.CheckOutput, "oomph plan FILE --json of several deployments, oomph check --format json"),
    "explain": (contract_answers.ExplanationOutput, "oomph explain --json"),
    "thread": (contract_answers.ThreadOutput, "oomph explain --json of a saved issue"),
    "inspect": (Inspection, "oomph inspect --json"),
    "fit": (contract_searches.FitOutput, "oomph fit --json"),
    "models": (contract_searches.ModelsOutput, "oomph models --json"),
    "gpus": (contract_searches.CardsOutput, "oomph gpus MODEL --json"),
    "gpu-list": (GpuList, "oomph gpus --json"),
    "what-if": (contract_searches.WhatIfOutput, "oomph what-if --json"),
    "diff": (contract_answers.DiffOutput, "oomph diff --json"),
    "compare": (Comparison, "oomph compare --json"),
    "pack": (contract_answers.PackOutput, "oomph pack --json"),
    "learn": (contract_answers.LearnOutput, "oomph learn --json"),
    "report": (contract_answers.ReportOutput, "oomph report --json"),
    "rule": (contract_answers.RulesOutput, "oomph rule --json"),
    "simulate": (contract_answers.SimulationOutput, "oomph simulate --json"),
    "simulate-to": (contract_answers.TwoReleasesOutput, "oomph simulate --to --json"),
    "error": (contract.ErrorOutput, "any command with --json that refuses"),
}

# msgspec has no union of two objects that no tag tells apart: these are put together here.
UNIONS: dict[str, tuple[Any, ...]] = {
    "batch-line": (contract.BatchError,),
    "check": (contract_answers.DeploymentPlan, contract_answers.DeploymentError),
}


def schema(name: str) -> dict[str, Any]:
    kind, command = OUTPUTS[name]
    more = UNIONS.get(name, ())
    (reference, *items), components = msgspec.json.schema_components([kind, *more], ref_template="#/$defs/{name}")
    classes = {one.__name__: one for whole in (kind, *more) for one in structs(whole)}
    for key, component in components.items():
        if key in classes:
            describe(component, classes[key])
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
        root["properties"]["schema"] = {"const": contract.SCHEMA, "description": "the number of this contract"}
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
