"""What the expressions of a Python source are worth where they can be known without running it."""

import ast
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from oomph.commands.call import shown
from oomph.errors import CommandError

_LIMIT = 1 << 20
_LONGEST = 1 << 16  # characters or items of one value


class Unknown(ValueError):
    """It depends on something that only a run would tell."""


def parse(source: str) -> ast.Module:
    if len(source) > _LIMIT:
        raise CommandError(f"Python source of {len(source)} characters is too long")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = f" at line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        raise CommandError(f"it is not Python that can be read{line}: {str(error)[:80]}") from None


class Arguments(NamedTuple):
    """Of a call: by name, what is to be said of them, and those that only a run would tell ("**": of a dictionary)."""

    values: dict[str, Any]
    notes: list[str]
    lost: dict[str, str]


Reader = Callable[[str, ast.expr, list[str]], Any]


class Scope:
    """Names that are given a literal (later ones win), defaults of argparse, of parameters and of a class's fields,
    what the only call of a function passes, variables asked for."""

    def __init__(self, tree: ast.Module, environment: Mapping[str, str] | None = None) -> None:
        self.environment = environment or {}
        self.names: dict[str, Any] = {}
        self.options: dict[str, Any] = {}
        self.partial: dict[str, dict[str, Any]] = {}  # name -> the part of a dictionary that is known
        self.fields: dict[str, dict[str, Any]] = {}  # a class, or what is assigned of it -> its fields
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self._parameters(node.args)
            elif isinstance(node, ast.Call) and called(node) == "add_argument":
                self._option(node)
        self._assignments(tree)
        if self._only_calls(tree):
            self._assignments(tree)
        for node in ast.walk(tree):  # settings["max_model_len"] = 4096
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Subscript):
                self._item(node.targets[0], node.value)

    def _assignments(self, tree: ast.Module) -> None:
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                self._class(node)
            elif isinstance(node, ast.Assign) and len(node.targets) == 1:
                self._assign(node.targets[0], node.value)
            elif isinstance(node, ast.AnnAssign) and node.value is not None:
                self._assign(node.target, node.value)

    def _class(self, node: ast.ClassDef) -> None:
        """The defaults of a dataclass, of settings, of a class that only holds constants."""
        fields: dict[str, Any] = {}
        for statement in node.body:
            if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
                continue
            target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
            try:
                fields[getattr(target, "id", "")] = self.value(statement.value)
            except Unknown:
                continue
        self.fields[node.name] = fields

    def _only_calls(self, tree: ast.Module) -> bool:
        """A function that is called once has the parameters of that call; whether there is one."""
        functions = {node.name: node.args for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        calls: dict[str, list[ast.Call]] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in functions:
                calls.setdefault(node.func.id, []).append(node)
        for name, sites in calls.items():
            names = [parameter.arg for parameter in (*functions[name].posonlyargs, *functions[name].args)]
            values = self.arguments(sites[0], names).values if len(sites) == 1 else {}
            self.names |= values
            calls[name] = sites if values else []
        return any(calls.values())

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            for one, its in zip(target.elts, value.elts, strict=True):
                self._assign(one, its)
        if not isinstance(target, ast.Name):
            return
        if isinstance(value, ast.Call) and called(value) in self.fields:
            arguments = self.arguments(value)
            fields = {**self.fields[called(value)], **arguments.values}
            self.fields[target.id] = {name: its for name, its in fields.items() if name not in arguments.lost}
        try:
            self.names[target.id] = self.value(value)
        except Unknown:
            self.names.pop(target.id, None)
            if isinstance(value, ast.Dict) or (isinstance(value, ast.Call) and called(value) == "dict"):
                self.partial[target.id] = dict(self.mapping(value)[0])

    def _item(self, target: ast.Subscript, value: ast.expr) -> None:
        if not isinstance(target.value, ast.Name) or not isinstance(target.slice, ast.Constant):
            return
        name, key = target.value.id, target.slice.value
        mapping = self.names.get(name) if isinstance(self.names.get(name), dict) else self.partial.get(name)
        if mapping is not None and isinstance(key, str):
            try:
                mapping[key] = self.value(value)
            except Unknown:
                mapping.pop(key, None)

    def arguments(self, call: ast.Call, positional: Sequence[str] = (), value: "Reader | None" = None) -> "Arguments":
        """What a call is given, by name. `value` reads an expression; without it, this scope's literals count."""
        values: dict[str, Any] = {}
        notes: list[str] = []
        lost: dict[str, str] = {}
        for name, expression in [*zip(positional, call.args), *((word.arg, word.value) for word in call.keywords)]:
            if name is None:  # **kwargs
                entries, whole = self.mapping(expression)
                values = {**entries, **values}
                if not whole:
                    lost["**"] = text_of(expression)
                    notes.append(f"line {call.lineno}: of **{lost['**']} only what is a literal was read")
                continue
            try:
                values[name] = self.value(expression) if value is None else value(name, expression, notes)
            except Unknown:
                lost[name] = text_of(expression)
                notes.append(f"line {call.lineno}: {name}={lost[name]} is not a literal: left out")
        return Arguments(values, notes, lost)

    def mapping(self, node: ast.expr) -> tuple[dict[str, Any], bool]:
        """What is known of a dictionary, and whether that is all of it."""
        if isinstance(node, ast.Name) and node.id in self.partial:
            return self.partial[node.id], False
        try:
            value = self.value(node)
            if isinstance(value, dict) and all(isinstance(k, str) for k in value):
                return value, True
            return {}, False
        except Unknown:
            pass
        pairs: list[tuple[Any, ast.expr]]
        if isinstance(node, ast.Call) and called(node) == "dict" and not node.args:
            pairs = [(k.arg, k.value) for k in node.keywords if k.arg]
        elif isinstance(node, ast.Dict):
            pairs = [(k.value, v) for k, v in zip(node.keys, node.values, strict=True) if isinstance(k, ast.Constant)]
        else:
            return {}, False
        items: dict[str, Any] = {}
        for key, its in pairs:
            try:
                items[str(key)] = self.value(its)
            except Unknown:
                continue
        return items, False

    def _parameters(self, arguments: ast.arguments) -> None:
        named = [*arguments.posonlyargs, *arguments.args]
        pairs = [
            *zip(named[::-1], arguments.defaults[::-1], strict=False),
            *zip(arguments.kwonlyargs, arguments.kw_defaults),
        ]
        for parameter, default in pairs:
            if isinstance(default, ast.Constant) and default.value is not None:
                self.names.setdefault(parameter.arg, default.value)

    def _option(self, node: ast.Call) -> None:
        """parser.add_argument("--model-id", default="..."): what args.model_id is when nothing is given."""
        words = [arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
        keywords = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
        long = next((word for word in words if word.startswith("--")), words[0] if words else "")
        try:
            name = str(self.value(keywords["dest"])) if "dest" in keywords else long.lstrip("-").replace("-", "_")
            if "default" in keywords:
                self.options[name] = self.value(keywords["default"])
            elif self.value(keywords.get("action", ast.Constant(""))) in ("store_true", "store_false"):
                self.options[name] = self.value(keywords["action"]) == "store_false"
        except Unknown:
            pass

    def value(self, node: ast.expr) -> Any:
        try:
            value = self._value(node)
        except (ValueError, TypeError, KeyError, IndexError, SyntaxError, MemoryError, RecursionError) as error:
            raise Unknown(str(error)) from None
        if isinstance(value, str | list | tuple | dict) and len(value) > _LONGEST:
            raise Unknown("too long")
        return value

    def _value(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Name) and node.id in self.names:
            return self.names[node.id]
        if isinstance(node, ast.Attribute):
            # settings.model of a class of this file, Settings().model, else args.model of a parser
            base = node.value.id if isinstance(node.value, ast.Name) else ""
            base = called(node.value) if isinstance(node.value, ast.Call) and not node.value.keywords else base
            return self.fields[base][node.attr] if base in self.fields or not base else self.options[node.attr]
        if isinstance(node, ast.JoinedStr):
            parts = [self._value(p.value) if isinstance(p, ast.FormattedValue) else self._value(p) for p in node.values]
            return "".join(map(str, parts))
        if isinstance(node, ast.IfExp):
            return self._value(node.body if self._value(node.test) else node.orelse)
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
            return self._value(node.values[0]) or self._value(node.values[1])
        if isinstance(node, ast.Subscript):
            return self._value(node.value)[self._value(node.slice)]
        if isinstance(node, ast.List | ast.Tuple):
            return [self._value(item) for item in node.elts]
        if isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)  # no key: **other
            parted = [{self._value(key): self._value(its)} if key else dict(self._value(its)) for key, its in pairs]
            return {key: its for part in parted for key, its in part.items()}
        if isinstance(node, ast.BinOp):
            left, right = self._value(node.left), self._value(node.right)
            if type(left) is not type(right) or isinstance(left, bool) or not isinstance(left, str | list | int):
                return _unknown()
            if isinstance(node.op, ast.Add):
                return left + right
            if isinstance(node.op, ast.Mult) and isinstance(left, int) and max(abs(left), abs(right)) < 1 << 40:
                return left * right
        if isinstance(node, ast.Call):
            return self._call(node)
        return ast.literal_eval(node)

    def _call(self, node: ast.Call) -> Any:
        name = called(node)
        if name == "dict" and not node.args:
            return {k.arg: self._value(k.value) for k in node.keywords if k.arg}
        if name in ("get", "getenv") and 1 <= len(node.args) <= 2 and "env" in ast.unparse(node.func):
            key = str(self._value(node.args[0]))
            return self.environment[key] if key in self.environment else self._value(node.args[1])
        if name in ("str", "int", "float") and len(node.args) == 1 and isinstance(node.func, ast.Name):
            value = self._value(node.args[0])
            if isinstance(value, str | int | float) and len(str(value)) < 400:
                return {"str": str, "int": int, "float": float}[name](value)
        return _unknown()


def engine_calls(
    tree: ast.Module, package: str, names: Collection[str], modules: Collection[str] = ()
) -> Iterator[ast.Call]:
    """package.Name(...), or Name(...) where the name comes from the package; `modules` are its usual aliases."""
    ours, modules = set(), {package, *modules}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == package:
            ours |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            modules |= {alias.asname or alias.name for alias in node.names if alias.name.split(".")[0] == package}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or called(node) not in names:
            continue
        base = node.func.value if isinstance(node.func, ast.Attribute) else None
        if (isinstance(base, ast.Name) and base.id in modules) or (base is None and called(node) in ours):
            yield node


def _unknown() -> Any:
    raise Unknown("it is not a literal")


def called(node: ast.Call) -> str:
    """LLM, vllm.LLM and vllm.LLM.x alike by their last name."""
    return node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")


def text_of(node: ast.expr) -> str:
    try:
        return shown(ast.unparse(node)[:60])
    except RecursionError:
        return "(a long expression)"
