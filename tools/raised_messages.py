"""Where engines raise their errors, from their sources: raised_messages.py OUT vllm=FOLDER [sglang=FOLDER ...]

FOLDER is an unpacked wheel. Every exception's text is cut at what is filled in; what is left is read as groups of five
words. A group that only functions of one stage raise (reading/places.py says which a function belongs to) is written as
four bytes of its hash under that stage: no sentence of an engine is kept. doctor/reading/raised.py reads the file.
"""

from __future__ import annotations

import ast
import base64
import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from oomph.doctor.reading.places import place_stage
from oomph.doctor.reading.raised import GROUP, hashed, words
from oomph.doctor.reading.tracebacks import frame_stage

PER_MESSAGE = 6  # groups of one text that are kept: its beginning says most
SKIPPED = ("tests", "third_party", "benchmarks", "multimodal_gen")


def texts(node: ast.AST) -> list[str]:
    """The fixed parts of a message."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    if isinstance(node, ast.JoinedStr):
        parts = [value.value if isinstance(value, ast.Constant) else "\0" for value in node.values]
        return "".join(str(part) for part in parts).split("\0")
    if isinstance(node, ast.BinOp):
        return texts(node.left) + texts(node.right)
    return []


def raised(folder: Path) -> Iterator[tuple[str, str, str]]:
    """(file, function, fixed part of a message) of every exception."""
    for path in sorted(folder.rglob("*.py")):
        if any(part in SKIPPED for part in path.parts):
            continue
        try:
            tree = ast.parse(path.read_text(encoding="utf-8", errors="replace"))
        except SyntaxError:
            continue
        yield from _in_tree(tree, "", str(path))


def _in_tree(node: ast.AST, function: str, path: str) -> Iterator[tuple[str, str, str]]:
    for child in ast.iter_child_nodes(node):
        inner = child.name if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)) else function
        if isinstance(child, ast.Raise) and isinstance(child.exc, ast.Call) and child.exc.args:
            yield from ((path, inner, text) for text in texts(child.exc.args[0]))
        if isinstance(child, ast.Assert) and child.msg is not None:
            yield from ((path, inner, text) for text in texts(child.msg))
        yield from _in_tree(child, inner, path)


def stage_of(function: str, path: str) -> str | None:
    # a scheme's constructor runs when the configuration is read as well
    own = None if function == "__init__" and "/quantization/" in path else frame_stage([function], [path])
    return own or place_stage([function], [path])


def main() -> int:
    out, *arguments = sys.argv[1:]
    stages: dict[int, set[str | None]] = defaultdict(set)
    for argument in arguments:
        _, _, folder = argument.partition("=")
        for path, function, text in raised(Path(folder)):
            spoken = words(text)
            for start in range(min(PER_MESSAGE, len(spoken) - GROUP + 1)):
                stages[hashed(spoken[start : start + GROUP])].add(stage_of(function, path))
    alone: dict[str, list[int]] = defaultdict(list)
    for number, places in stages.items():
        known = [stage for stage in places if stage is not None]
        if len(known) == 1:
            alone[known[0]].append(number)
    packed = {
        stage: base64.b85encode(b"".join(number.to_bytes(4, "big") for number in sorted(numbers))).decode()
        for stage, numbers in sorted(alone.items())
    }
    Path(out).write_text(json.dumps(packed, indent=0) + "\n", encoding="utf-8")
    print({stage: len(numbers) for stage, numbers in sorted(alone.items())})
    return 0


if __name__ == "__main__":
    sys.exit(main())
