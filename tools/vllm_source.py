"""The serve flags and config keys of an unpacked vLLM release, from its syntax trees alone.

Nothing of the release is imported or run: the flags follow from `add_cli_args`, from the config classes' annotations
and from `FrontendArgs`, by the same rules as `_compute_kwargs` in vllm/engine/arg_utils.py.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any, NamedTuple

UNKNOWN = "?"  # a default that the syntax tree does not show
HIDDEN = {"help", "h", "model_tag", "config"}
# read with a function of their own in add_cli_args
SPECIAL = {
    "device_ids": "ids",
    "moe_backend": "snake",
    "linear_backend": "snake",
    "sparse_indexer_topk_backend": "snake",
    "optimization_level": "level",
}
NARROWED: dict[str, tuple[str, ...]] = {
    "collect_detailed_traces": (),  # also any two of them with a comma
    "mm_processor_device": ("auto", "cpu", "cuda"),
    "log_level": ("CRITICAL", "DEBUG", "ERROR", "INFO", "NOTSET", "WARNING"),
}


class Read(NamedTuple):
    """One flag of one release."""

    field: str  # argparse's dest: the name in EngineArgs
    names: tuple[str, ...]  # every spelling, the long one first
    kind: str
    choices: tuple[Any, ...]
    default: Any
    bounds: str
    nullable: bool  # "None" and "" mean None
    group: str  # "engine" or "frontend"
    config: str = ""  # the config class that a JSON argument builds


class Source:
    """The parts of a release's syntax trees that flags depend on."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "vllm"
        self.classes: dict[str, tuple[ast.ClassDef, Path]] = {}
        self.aliases: dict[tuple[Path | None, str], ast.expr] = {}
        config = self.root / "config"
        for path in sorted(config.rglob("*.py")) if config.is_dir() else [self.root / "config.py"]:
            self.index(path)
        self.arg_utils = self.root / "engine" / "arg_utils.py"
        found = self.root.glob("entrypoints/*/cli_args.py")
        self.cli_args = next(path for path in found if "make_arg_parser" in path.read_text())
        self.trees = {p: self.index(p) for p in (self.arg_utils, self.cli_args)}
        for extra in ("entrypoints/chat_utils.py", "renderers/chat_utils.py", "entrypoints/anthropic/protocol.py",
                      "tool_parsers/tool_strict_level.py"):  # fmt: skip
            if (self.root / extra).exists():
                self.index(self.root / extra, only_aliases=True)

    def index(self, path: Path, *, only_aliases: bool = False) -> ast.Module:
        tree = ast.parse(path.read_text())
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not only_aliases:
                self.classes.setdefault(node.name, (node, path))
            target, value = None, None
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                target, value = node.targets[0].id, node.value
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                target, value = node.target.id, node.value
            if target and value is not None:
                self.aliases[path, target] = value
                self.aliases.setdefault((None, target), value)
        return tree

    def alias(self, name: str, path: Path) -> ast.expr | None:
        return self.aliases.get((path, name)) or self.aliases.get((None, name))

    def fields(self, name: str) -> dict[str, tuple[ast.AnnAssign, Path]]:
        if name not in self.classes:
            return {}
        node, path = self.classes[name]
        found: dict[str, tuple[ast.AnnAssign, Path]] = {}
        for base in node.bases:
            if isinstance(base, ast.Name):
                found |= self.fields(base.id)
        for item in node.body:
            if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                found[item.target.id] = (item, path)
        return found


def hints(source: Source, node: ast.expr, path: Path) -> list[Any]:
    """The members of a type hint: 'int', 'None', ('Literal', [...]), ('list', elem), 'dataclass', 'other'."""
    if isinstance(node, ast.Constant):
        if node.value is None:
            return ["None"]
        if isinstance(node.value, str):
            return hints(source, ast.parse(node.value, mode="eval").body, path)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return hints(source, node.left, path) + hints(source, node.right, path)
    if isinstance(node, ast.Subscript):
        head = node.value.id if isinstance(node.value, ast.Name) else getattr(node.value, "attr", "")
        parts = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
        if head == "Optional":
            return [*hints(source, parts[0], path), "None"]
        if head == "Union":
            return [h for part in parts for h in hints(source, part, path)]
        if head in ("Annotated", "SkipValidation", "ClassVar", "Final"):
            return hints(source, parts[0], path)
        if head == "Literal":
            return [("Literal", literals(source, parts, path))]
        if head in ("list", "tuple", "set", "Sequence"):
            return [("list", hints(source, parts[0], path))]
        if head == "dict":
            return ["dict"]
        return ["other"]
    if isinstance(node, ast.Name):
        if node.id in ("int", "float", "str", "bool", "dict"):
            return [node.id]
        value = source.alias(node.id, path)
        if value is not None and not isinstance(value, ast.Call):
            return hints(source, value, path)
        if node.id in source.classes:
            marks = " ".join(ast.unparse(d) for d in source.classes[node.id][0].decorator_list)
            if any(ast.unparse(base).startswith("dict") for base in source.classes[node.id][0].bases):
                return ["dict"]
            return ["dataclass" if "config" in marks or "dataclass" in marks else "other"]
    return ["other"]


def literals(source: Source, parts: list[ast.expr], path: Path) -> list[Any]:
    out: list[Any] = []
    for part in parts:
        if isinstance(part, ast.Constant):
            out.append(part.value)
        elif isinstance(part, ast.Name):
            value = source.alias(part.id, path)
            for hint in hints(source, value, path) if value is not None else []:
                out += hint[1] if isinstance(hint, tuple) and hint[0] == "Literal" else []
    return out


def kind_of(found: list[Any], name: str, human: set[str], auto: bool) -> tuple[str, tuple[Any, ...]]:
    """The order is `_compute_kwargs`'s."""
    plain = {h for h in found if isinstance(h, str)}
    literal = [x for h in found if isinstance(h, tuple) and h[0] == "Literal" for x in h[1]]
    listed = [h[1] for h in found if isinstance(h, tuple) and h[0] == "list"]
    if "dataclass" in plain:
        return "json", ()
    if plain == {"bool", "str", "None"}:
        return "maybe", ()
    if "bool" in plain:
        return "bool", ()
    if literal:
        if "str" in plain or any(not isinstance(x, type(literal[0])) for x in literal):
            return "str", ()
        return ("int" if isinstance(literal[0], int) else "str"), tuple(sorted(set(literal)))
    if listed:
        inner, choices = kind_of(listed[0], "", set(), False) if "str" not in listed[0] else ("str", ())
        return f"list[{inner if inner in ('int', 'float') else 'str'}]", choices
    if "int" in plain:
        if name == "max_model_len" and name in human:
            return ("human_auto" if auto else "human"), ()
        return ("human" if name in human else "int"), ()
    if "float" in plain:
        return "float", ()
    if "dict" in plain:
        return ("json_or_str" if plain & {"str", "other"} else "json"), ()
    return "str", ()


def default_of(source: Source, value: ast.expr | None, path: Path) -> Any:
    if value is None:
        return UNKNOWN
    if isinstance(value, ast.Call):
        keywords = {k.arg: k.value for k in value.keywords}
        if "default" in keywords:
            return default_of(source, keywords["default"], path)
        if value.args:
            return default_of(source, value.args[0], path)
        return UNKNOWN
    if isinstance(value, ast.Name):
        alias = source.alias(value.id, path)
        return UNKNOWN if alias is None else default_of(source, alias, path)
    try:
        plain = ast.literal_eval(value)
    except (ValueError, TypeError, SyntaxError):
        return UNKNOWN
    return list(plain) if isinstance(plain, tuple) else plain


def bounds_of(node: ast.AnnAssign) -> str:
    """'gt=0,le=1' from the pydantic Field of a config's field."""
    found: dict[str, str] = {}
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "Field":
            for keyword in call.keywords:
                if keyword.arg in ("gt", "ge", "lt", "le") and isinstance(keyword.value, ast.Constant):
                    found[keyword.arg] = str(keyword.value.value)
    return ",".join(f"{k}={v}" for k, v in sorted(found.items()))


def human_names(tree: ast.Module) -> tuple[set[str], bool]:
    """The fields that `_compute_kwargs` reads with human_readable_int, and whether -1/auto is one of its values."""
    names: set[str] = set()
    auto = False
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name in ("_compute_kwargs", "get_kwargs"):
            names |= {n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
            auto |= any(isinstance(n, ast.Name) and n.id == "human_readable_int_or_auto" for n in ast.walk(node))
    return names, auto


def read(folder: Path) -> dict[str, Read]:
    source = Source(folder)
    human, auto = human_names(source.trees[source.arg_utils])
    flags: dict[str, Read] = {}
    for path, group in ((source.arg_utils, "engine"), (source.cli_args, "frontend")):
        for node in ast.walk(source.trees[path]):
            if not isinstance(node, ast.FunctionDef) or node.name not in ("add_cli_args", "make_arg_parser"):
                continue
            kwargs = kwargs_variables(node)
            for call in ast.walk(node):
                if isinstance(call, ast.Call) and getattr(call.func, "attr", "") == "add_argument":
                    flag = read_call(source, path, call, kwargs, human, auto, group)
                    if flag is not None and flag.field not in HIDDEN:
                        flags.setdefault(flag.field, flag)
                elif isinstance(call, ast.Tuple) and len(call.elts) == 2 and isinstance(call.elts[0], ast.Constant):
                    name = str(call.elts[0].value)  # ("--guided-decoding-backend", str), added in a loop in 0.11
                    if name.startswith("--"):
                        field = name[2:].replace("-", "_")
                        flags.setdefault(field, Read(field, (name,), "str", (), None, "", False, group))
    for name, (item, path) in source.fields("FrontendArgs").items():
        found = hints(source, item.annotation, path)
        kind, choices = kind_of(found, name, set(), False)
        choices = NARROWED.get(name, choices)
        if name in ("allowed_origins", "allowed_methods", "allowed_headers"):  # json.loads, nargs removed (cli_args.py)
            kind = "json"
        elif name == "middleware":
            kind = "append"
        elif name == "default_chat_template_kwargs":
            kind = "json"
        spelled = ("--" + name.replace("_", "-"),)
        default = default_of(source, item.value, path)
        nullable = "None" in found and kind not in ("bool", "json")
        flags.setdefault(name, Read(name, spelled, kind, choices, default, "", nullable, "frontend"))
    return flags


def kwargs_variables(function: ast.FunctionDef) -> dict[str, tuple[str, str]]:
    """model_kwargs -> ("ModelConfig", ""); logging_config_kwargs -> ("VllmConfig", "logging_config")."""
    found: dict[str, tuple[str, str]] = {}
    for node in ast.walk(function):
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
            continue
        value: ast.expr = node.value
        field = ""
        if isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Constant):
            field = str(value.slice.value)
            value = value.value
        if isinstance(value, ast.Call) and getattr(value.func, "id", "") == "get_kwargs" and value.args:
            found[node.targets[0].id] = (getattr(value.args[0], "id", ""), field)
        elif isinstance(value, ast.Name) and value.id in found and field:
            found[node.targets[0].id] = (found[value.id][0], field)
    return found


def read_call(
    source: Source,
    path: Path,
    call: ast.Call,
    kwargs: dict[str, tuple[str, str]],
    human: set[str],
    auto: bool,
    group: str,
) -> Read | None:
    names = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    if not names or not names[0].startswith("-"):
        return None
    long = [n for n in names if n.startswith("--")] + [n for n in names if not n.startswith("--")]
    given: dict[str, ast.expr] = {}
    origin: tuple[str, str] | None = None
    for keyword in call.keywords:
        if keyword.arg is not None:
            given[keyword.arg] = keyword.value
            continue
        for part in ast.walk(keyword.value):
            if isinstance(part, ast.Subscript) and isinstance(part.value, ast.Name) and part.value.id in kwargs:
                origin = (kwargs[part.value.id][0], str(getattr(part.slice, "value", "")))
            elif isinstance(part, ast.Name) and kwargs.get(part.id, ("", ""))[1]:
                origin = kwargs[part.id]
        if isinstance(keyword.value, ast.Dict):
            given |= {str(getattr(k, "value", "")): v for k, v in zip(keyword.value.keys, keyword.value.values) if k}
    dest = given.get("dest")
    field = dest.value if isinstance(dest, ast.Constant) else long[0].lstrip("-").replace("-", "_")
    kind, default, bounds, nullable, config = "str", UNKNOWN, "", False, ""
    choices: tuple[Any, ...] = ()
    if origin and origin[1] in source.fields(origin[0]):
        item, where = source.fields(origin[0])[origin[1]]
        found = hints(source, item.annotation, where)
        kind, choices = kind_of(found, origin[1], human, auto)
        default, bounds, nullable = default_of(source, item.value, where), bounds_of(item), "None" in found
        named = [node.id for node in ast.walk(item.annotation) if isinstance(node, ast.Name)]
        config = next((name for name in named if name.endswith("Config")), "")
    kind, choices = overrides(given, kind, choices)
    kind, choices = SPECIAL.get(str(field), kind), NARROWED.get(str(field), choices)
    if field == "all2all_backend":  # "passthrough" is the engine's own mark, taken out of the choices
        choices = tuple(c for c in choices if c != "passthrough")
    if "default" in given:
        default = default_of(source, given["default"], path)
    return Read(str(field), tuple(long), kind, choices, default, bounds, nullable and kind != "bool", group, config)


def overrides(given: dict[str, ast.expr], kind: str, choices: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    action = ast.unparse(given["action"]) if "action" in given else ""
    if "BooleanOptionalAction" in action:
        return "bool", ()
    if "store_true" in action or "store_false" in action:
        return "store_true", ()
    kind_given = ast.unparse(given["type"]) if "type" in given else ""
    for word, meaning in (("json.loads", "json"), ("human_readable_int", "human"), ("int", "int"), ("float", "float")):
        if word in kind_given:
            kind = meaning
            break
    if "choices" in given:
        try:
            choices = tuple(ast.literal_eval(given["choices"]))
        except (ValueError, TypeError):
            choices = ()
    if "nargs" in given and ast.unparse(given["nargs"]) == "'?'":
        return "maybe", ()
    if "nargs" in given and not kind.startswith("list"):
        kind = f"list[{kind if kind in ('int', 'float') else 'str'}]"
    return kind, choices


def config_keys(folder: Path) -> dict[str, set[str]]:
    """field of a JSON argument -> the keys that its config class takes."""
    source = Source(folder)
    out: dict[str, set[str]] = {}
    for flag in read(folder).values():
        if flag.kind == "json" and flag.config in source.classes:
            out[flag.field] = {name for name, (item, _) in source.fields(flag.config).items() if _is_key(item)}
    return out


def _is_key(item: ast.AnnAssign) -> bool:
    hidden = "ClassVar" in ast.unparse(item.annotation)
    value = item.value
    if isinstance(value, ast.Call):
        hidden |= any(k.arg == "init" and getattr(k.value, "value", True) is False for k in value.keywords)
    return not hidden
