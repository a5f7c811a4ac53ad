"""Server commands that a Python source starts by subprocess: ["vllm", "serve", MODEL, ...] and "vllm serve ..."."""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence

from oomph.commands.call import PROGRAM, SERVER, Call
from oomph.commands.python.values import Scope, Unknown, called, parse
from oomph.commands.wrappers import engine_of, peel, script_calls, starts
from oomph.errors import CommandError
from oomph.text.late import late_pattern

_RUNS = frozenset(
    ("run", "Popen", "call", "check_call", "check_output", "system", "popen", "create_subprocess_shell", "spawn")
)

# a helper's name that says what it does with the command: launch_server_cmd, execute_shell_command, start_server
_STARTS = late_pattern(r"launch|start|execute|shell|_cmd$|_command$", re.IGNORECASE)


def calls(source: str, environment: Mapping[str, str]) -> dict[str, Call]:
    """The calls, each under "line N"."""
    if "docker" not in source and not PROGRAM.search(source):
        return {}
    tree = parse(source)
    reader = _Lists(Scope(tree, environment))
    reader.block(tree.body)
    out: dict[str, Call] = {}
    for line, words in [*reader.lists.values(), *reader.loose]:
        try:
            call = peel(words, environment)
        except CommandError:
            continue
        if not call.source and starts(call):
            out[f"line {line}"] = call
    for line, text in reader.texts:
        out |= {f"line {line}": call for call in script_calls(text, environment) if starts(call)}
    return out


def documented(source: str, environment: Mapping[str, str]) -> dict[str, Call]:
    """The server that a docstring tells the user to start, where the program starts none itself."""
    if not SERVER.search(source):
        return {}
    by_name: dict[str, Call] = {}
    for node in ast.walk(parse(source)):
        if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Constant):
            continue
        text = node.value.value
        if isinstance(text, str) and SERVER.search(text):
            by_name |= {f"line {node.lineno}": call for call in _documented(text, environment)}
    return by_name


def _documented(text: str, environment: Mapping[str, str]) -> list[Call]:
    try:
        return [call for call in script_calls(text, environment) if starts(call)]
    except CommandError:  # prose
        return []


class _Lists:
    """Walks the statements in order and keeps the lists that start a server, with what is added to them."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.lists: dict[str, tuple[int, list[str]]] = {}
        self.loose: list[tuple[int, list[str]]] = []
        self.texts: list[tuple[int, str]] = []

    def block(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            if isinstance(statement, ast.If):
                try:
                    self.block(statement.body if self.scope.value(statement.test) else statement.orelse)
                except Unknown:  # `if __name__ == ...` runs; what hangs on a setting that is not known does not
                    if "__name__" in ast.unparse(statement.test):
                        self.block(statement.body)
            elif inner := [part for name in ("body", "orelse", "finalbody") for part in getattr(statement, name, [])]:
                self.block([part for part in inner if isinstance(part, ast.stmt)])
            else:
                self.statement(statement)

    def statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            if self.assign(node.targets[0].id, node.value):
                return
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            self.add(node.target.id, node.value)
            return
        elif isinstance(node, ast.Return) and isinstance(node.value, ast.List) and _is_server(self.words(node.value)):
            self.loose.append((node.lineno, self.words(node.value)))  # a framework's hook that names it
            return
        for call in ast.walk(node):
            if not isinstance(call, ast.Call):
                continue
            if called(call) in ("extend", "append") and isinstance(call.func, ast.Attribute) and call.args:
                if isinstance(call.func.value, ast.Name):
                    one = ast.List([call.args[0]], ast.Load()) if called(call) == "append" else call.args[0]
                    self.add(call.func.value.id, one)
            elif (called(call) in _RUNS or _STARTS.search(called(call) or "")) and call.args:
                self.run(call.args[0])

    def assign(self, name: str, value: ast.expr) -> bool:
        if isinstance(value, ast.List) and _is_server(words := self.words(value)):
            self.lists[name] = (value.lineno, words)
            return True
        text = self.text(value)
        if text and SERVER.search(text):
            self.texts.append((value.lineno, text))
            return True
        return False

    def add(self, name: str, value: ast.expr) -> None:
        if name in self.lists and isinstance(value, ast.List):
            self.lists[name][1].extend(self.words(value))

    def run(self, value: ast.expr) -> None:
        if isinstance(value, ast.List) and _is_server(words := self.words(value)):
            self.loose.append((value.lineno, words))
        elif (text := self.text(value)) and SERVER.search(text):
            self.texts.append((value.lineno, text))

    def words(self, node: ast.List) -> list[str]:
        return [word for item in node.elts for word in self.word(item)]

    def word(self, node: ast.expr) -> Iterator[str]:
        """An element that is not known stays as $NAME: the readers say that nothing sets it."""
        if isinstance(node, ast.Starred):
            try:
                value = self.scope.value(node.value)
            except Unknown:
                return
            yield from map(str, value) if isinstance(value, list | tuple) else ()
            return
        if ast.unparse(node) == "sys.executable":
            yield "python"
            return
        try:
            yield str(self.scope.value(node))
        except Unknown:
            yield self.text(node) or _unset(node)

    def text(self, node: ast.expr) -> str:
        """A string or an f-string; what is not known in it stays as $NAME."""
        if isinstance(node, ast.Constant):
            return node.value if isinstance(node.value, str) else ""
        if not isinstance(node, ast.JoinedStr):
            return ""
        parts = []
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                try:
                    parts.append(str(self.scope.value(part.value)))
                except Unknown:
                    parts.append(_unset(part.value))
            elif isinstance(part, ast.Constant):
                parts.append(str(part.value))
        return "".join(parts)


def _unset(node: ast.expr) -> str:
    """$port for str(port), $args_port for args.port: a name that the readers know nothing sets."""
    if isinstance(node, ast.Call) and len(node.args) == 1 and called(node) in ("str", "int"):
        node = node.args[0]
    return "$" + re.sub(r"\W+", "_", ast.unparse(node)[:40]).strip("_")


def _is_server(words: Sequence[str]) -> bool:
    return any(engine_of(words[i : i + 8]) or words[i : i + 2] == ["docker", "run"] for i in range(min(len(words), 8)))
