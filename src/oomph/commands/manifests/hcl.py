"""HCL to the serve commands in it: Nomad's tasks, Terraform's containers and the scripts that it hands to machines.

Blocks, attributes, `variable` defaults and `locals` are read; what only a run knows stays as $NAME, to be asked for.
"""

import re
from collections.abc import Iterator, Mapping

from msgspec import Struct

from oomph.commands.call import PROGRAM, SERVER, Call
from oomph.commands.expansion import LIMIT
from oomph.commands.manifests import docker
from oomph.commands.wrappers import container_calls, numbered, script_calls
from oomph.errors import OomphError
from oomph.text.late import late_pattern

_TOKEN = late_pattern(
    r"(?P<aside>\s+|#[^\n]*|//[^\n]*|/\*.*?\*/)"
    r"|<<(?P<indented>-?)(?P<mark>\w+)[ \t]*\n(?P<heredoc>.*?)\n[ \t]*(?P=mark)\b"
    r'|"(?P<text>(?:[^"\\]|\\.){0,20000})"'
    r"|(?P<word>[\w.*-]+)|(?P<sign>.)",
    re.DOTALL,
)
_REFERENCE = late_pattern(r"\$\{\s*(?:var|local)\.(\w+)\s*\}|(?<![\w$.])(?:var|local)\.(\w+)|\$\{(NOMAD_META_\w+)\}")
_DEEPEST = 30
_ESCAPES = {"n": "\n", "t": "\t"}

Value = str | list[str]


class Block(Struct):
    """`task "server" { ... }`."""

    kind: str
    labels: list[str]
    values: dict[str, Value] = {}
    blocks: list["Block"] = []


def calls(text: str, environment: Mapping[str, str]) -> dict[str, Call]:
    """A call per task, container or script, under its block's name."""
    root = _Reader(text[:LIMIT]).block("", [], 0)
    variables: dict[str, Value] = {}
    for block in root.blocks:
        if block.kind == "variable" and block.labels and (default := block.values.get("default")) is not None:
            variables[block.labels[0]] = default
        elif block.kind == "locals":
            variables |= block.values
    for _, block, _ in _inside(root, "", ()):
        if block.kind == "meta":  # Nomad gives a task each as NOMAD_META_name
            variables |= {f"NOMAD_META_{key}": value for key, value in block.values.items()}
    scope = {**variables, **environment}
    out: dict[str, Call] = {}
    for name, block, outer in _inside(root, "", ()):
        count, card = _gpus((block, *reversed(outer)))
        for call in _started(block, scope, count, card):
            out |= numbered(name if name not in out else f"{name} {len(out) + 1}", [call])
    return out


def _inside(block: Block, name: str, outer: tuple[Block, ...]) -> Iterator[tuple[str, Block, tuple[Block, ...]]]:
    """Every block with the name of the task, resource or container that it belongs to and what it stands in."""
    for inner in block.blocks:
        named = inner.labels[-1] if inner.labels else str(inner.values.get("name") or name)
        yield named, inner, (*outer, block)
        yield from _inside(inner, named, (*outer, block))


def _started(block: Block, known: Mapping[str, Value], count: int, card: str) -> list[Call]:
    """A container's image with its words, a program with its arguments, or what a text of the block starts."""
    from msgspec.structs import replace

    variables = {name: value for name, value in known.items() if isinstance(value, str)}
    filled = {key: _filled(value, known) for key, value in block.values.items()}
    image = filled.get("image")
    words = [*_words(filled, "entrypoint"), *_words(filled, "command"), *_words(filled, "args")]
    try:
        if isinstance(image, str) and (docker.image_engine(image) or PROGRAM.search(" ".join(words))):
            entry = [*_words(filled, "entrypoint"), *_words(filled, "command")]
            arguments = _words(filled, "args")
            if not arguments:
                entry, arguments = _words(filled, "entrypoint"), _words(filled, "command")
            call = docker.container(image, arguments, _variables(block, known), entrypoint=entry, gpu_count=count)
            return [replace(one, gpu_name=card) for one in container_calls(call)]
        if "command" in filled and words and PROGRAM.search(words[0]):
            from oomph.commands.wrappers import peel

            return [replace(peel(words, {}), gpu_count=count, gpu_name=card)]
    except OomphError as error:
        return [Call((), refusal=error)]
    started: list[Call] = []
    for value in filled.values():
        if isinstance(value, str) and SERVER.search(value):
            try:
                started += script_calls(value, variables)
            except OomphError as error:
                started.append(Call((), refusal=error))
    return started


def _words(values: Mapping[str, Value], key: str) -> list[str]:
    value = values.get(key, [])
    return [value] if isinstance(value, str) else value


def _variables(block: Block, known: Mapping[str, Value]) -> dict[str, str]:
    """`env { NAME = ... }` of the block itself, and Terraform's `env { name = ... value = ... }`."""
    out: dict[str, str] = {}
    for inner in block.blocks:
        if inner.kind == "env":
            texts = {key: text for key, value in inner.values.items() if isinstance(text := _filled(value, known), str)}
            out |= {texts["name"]: texts.get("value", "")} if "name" in texts else texts
    return out


def _gpus(around: tuple[Block, ...]) -> tuple[int, str]:
    """Nomad's `device "nvidia/gpu" { count = 2 constraint { value = "..." } }`, and limits of Kubernetes' kind."""
    for block in around:
        for resources in (inner for inner in block.blocks if inner.kind in ("resources", "limits")):
            for device in resources.blocks:
                if device.kind == "device" and any("gpu" in label for label in device.labels):
                    return _count(device.values.get("count", "1")), _card(device)
            limits = resources.values.get("nvidia.com/gpu")
            if limits:
                return _count(limits), ""
    return 0, ""


def _card(device: Block) -> str:
    from oomph.commands.named_gpus import of_accelerators

    named = [block.values.get("value") for block in device.blocks if "model" in str(block.values.get("attribute"))]
    return of_accelerators(named[:1]).gpus


def _count(value: Value) -> int:
    return (
        min(int(value), 1 << 16)
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 6
        else 0
    )


def _filled(value: Value, known: Mapping[str, Value]) -> Value:
    """With var.NAME and local.NAME filled in; one that nothing sets is $NAME."""

    def text(match: re.Match[str]) -> str:
        name = match[1] or match[2] or match[3]
        own = known.get(name)
        return own if isinstance(own, str) else f"${{{name}}}"

    if isinstance(value, list):
        return [str(_REFERENCE.sub(text, word)) for word in value]
    whole = _REFERENCE.fullmatch(value)
    listed = known.get(whole[1] or whole[2] or whole[3]) if whole else None
    if isinstance(listed, list):  # of a local value, whose words may name variables themselves
        return [str(_REFERENCE.sub(text, word)) for word in listed]
    return _REFERENCE.sub(text, value)


class _Reader:
    def __init__(self, text: str) -> None:
        self.tokens = [match for match in _TOKEN.finditer(text) if match.lastgroup != "aside"]
        self.at = 0

    def sign(self) -> str:
        return (self.tokens[self.at]["sign"] or "") if self.at < len(self.tokens) else "}"

    def block(self, kind: str, labels: list[str], depth: int) -> Block:
        block = Block(kind, labels)
        while self.at < len(self.tokens):
            if self.sign() == "}":
                self.at += 1
                break
            name = self.word()
            inner: list[str] = []
            while self.at < len(self.tokens) and self.tokens[self.at].lastgroup in ("text", "word"):
                inner.append(self.word())
            if name and self.sign() in ("=", ":"):
                self.at += 1
                block.values[name] = self.value(depth)
            elif self.sign() == "{" and depth < _DEEPEST:
                self.at += 1
                block.blocks.append(self.block(name, inner, depth + 1))
            elif not name:
                self.at += 1
        return block

    def word(self) -> str:
        """A name or a text; "" where neither stands."""
        token = self.tokens[self.at]
        if token.lastgroup == "text":
            self.at += 1
            return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), token["text"])
        if token.lastgroup == "word":
            self.at += 1
            return token["word"]
        return ""

    def calls_function(self) -> bool:
        """Whether `tostring(` is next."""
        here = self.tokens[self.at : self.at + 2]
        return len(here) == 2 and here[0].lastgroup == "word" and here[1]["sign"] == "("

    def value(self, depth: int) -> Value:
        """A text, a word, a list of them, or a heredoc; an object is its texts in order."""
        while self.calls_function():  # tostring(local.tp) is local.tp
            self.at += 2
        if self.at >= len(self.tokens):
            return ""
        token = self.tokens[self.at]
        if token.lastgroup == "heredoc" or token["mark"]:
            self.at += 1
            return token["heredoc"]
        if self.sign() in ("[", "{"):
            end = {"[": "]", "{": "}"}[self.sign()]
            self.at += 1
            out: list[str] = []
            while self.at < len(self.tokens) and self.sign() != end:
                if self.sign() in ("[", "{") and depth < _DEEPEST:
                    inner = self.value(depth + 1)
                    out += [inner] if isinstance(inner, str) else inner
                elif self.calls_function():
                    self.at += 2
                elif word := self.word():
                    out.append(word)
                else:
                    self.at += 1
            self.at += 1
            return out
        return self.word()
