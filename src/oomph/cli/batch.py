"""`oomph plan --batch FILE`: one JSON case a line in, one plan a line out; a bad case does not end the batch."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, BinaryIO

import msgspec

from oomph.errors import CommandError, InputError, OomphError
from oomph.plan import plan
from oomph.report.plan_json import plan_json

_MAX_LINE = 8 << 20


def run_batch(path: str) -> int:
    out = sys.stdout
    encoder = msgspec.json.Encoder()
    with _open(path) as file:
        for line in _lines(file):
            out.write(encoder.encode(one(line)).decode() + "\n")
    out.flush()
    return 0


def one(line: bytes) -> dict[str, Any]:
    """A case to its plan, or to {"id", "error"}."""
    case: Any = None
    try:
        case = msgspec.json.decode(line)
        if not isinstance(case, dict):
            raise CommandError("a case is a JSON object")
        return {"id": case.get("id"), **_plan(case)}
    except (msgspec.DecodeError, RecursionError) as bad:
        return {"id": None, "error": f"not JSON: {bad}"}
    except OomphError as refused:
        return {"id": case.get("id") if isinstance(case, dict) else None, "error": refused.message}
    except Exception as bug:  # the batch goes on; the line says what happened
        return {"id": case.get("id") if isinstance(case, dict) else None, "error": f"a bug in oomph: {bug!r}"}


def _plan(case: dict[str, Any]) -> dict[str, Any]:
    args = case.get("args")
    if not isinstance(args, list) or not all(isinstance(a, str) for a in args):
        raise CommandError('"args" is not a list of words, such as ["vllm", "serve", "MODEL"]')
    pinned = case.get("given") or {}
    if isinstance(pinned, list):
        pinned = dict(str(g).partition("=")[::2] for g in pinned)
    if not isinstance(pinned, dict) or not all(isinstance(v, int | str) for v in pinned.values()):
        raise CommandError('"given" is not an object of sizes, such as {"available_kv": "11.54GiB"}')
    engine, cache = case.get("engine") or "", case.get("compile_cache") or ""
    if not isinstance(engine, str) or not isinstance(cache, str):
        raise CommandError('"engine" and "compile_cache" are texts')
    return plan_json(plan(args, gpu=case.get("gpu"), engine=engine, given=pinned, compile_cache=cache, advise=False))


def _open(path: str) -> BinaryIO:
    if path == "-":
        return sys.stdin.buffer
    try:
        return open(path, "rb")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None


def _lines(file: BinaryIO) -> Iterator[bytes]:
    number = 0
    while line := file.readline(_MAX_LINE):
        number += 1
        if len(line) == _MAX_LINE:
            raise InputError(f"line {number} of the batch is over {_MAX_LINE} bytes: it is no case")
        if line.strip():
            yield line
