"""Requests from a file: CSV or JSON lines, read as they are needed.

Columns are known by name, in any case: those of the public Azure (TIMESTAMP, ContextTokens, GeneratedTokens), BurstGPT
(Timestamp, Request tokens, Response tokens) and Mooncake (timestamp in ms, input_length, output_length, hash_ids of 512
tokens each) traces, and our own: timestamp in seconds, prompt, output, prefix_id, prefix_tokens, priority. Times count
from the first request; one that goes back is taken as that of the request before it.
"""

import csv
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from itertools import islice
from math import isfinite
from pathlib import Path
from typing import Any, TextIO

from oomph.errors import InputError
from oomph.simulate.config import Job
from oomph.simulate.timing import SECOND
from oomph.simulate.workloads import Traced
from oomph.text.nesting import bounded

MOONCAKE_BLOCK = 512
LONGEST_LINE = 1 << 22
MOST_TOKENS = 10**8
_NAMES = {
    "time": ("timestamp", "time", "arrival", "arrival_time", "arrived_at"),
    "prompt": ("contexttokens", "request tokens", "input_length", "prompt", "prompt_tokens", "prompt_len",
               "input_tokens", "num_prefill_tokens"),
    "output": ("generatedtokens", "response tokens", "output_length", "output", "output_tokens", "output_len",
               "num_decode_tokens"),
    "prefix": ("prefix_id", "session id", "session_id"),
    "prefix_tokens": ("prefix_tokens", "prefix_length"),
    "hashes": ("hash_ids",),
    "priority": ("priority",),
}  # fmt: skip


def read_trace(path: str, every: int = 1) -> Traced:
    """The first row is read at once, so that a wrong file is refused before anything runs. `every`: only each n-th
    request, which is what one of n replicas gets."""
    rows = _rows(path)
    first = next(rows, None)
    if first is None:
        raise InputError(f"{path}: no request in it")
    columns = _columns(first[1], path)
    shared = "hashes" in columns or ("prefix" in columns and "prefix_tokens" in columns)
    start = _seconds(first[1], columns, path, first[0])
    return Traced(islice(_jobs(path, columns, start), 0, None, every), shared)


def _rows(path: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    try:
        file = open(path, encoding="utf-8-sig", errors="replace", newline="")  # noqa: SIM115 (closed by the generator)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    with file:
        if Path(path).suffix.lower() in (".jsonl", ".json", ".ndjson"):
            yield from _json_lines(file, path)
        else:
            yield from _csv(file, path)


def _json_lines(file: TextIO, path: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    import msgspec

    decoder = msgspec.json.Decoder(dict[str, Any])
    number = 0
    while line := file.readline(LONGEST_LINE):
        number += 1
        if len(line) >= LONGEST_LINE:
            raise InputError(f"{path}:{number}: a line of more than {LONGEST_LINE:,} characters")
        if line.strip():
            try:
                row = decoder.decode(bounded(line))
            except (msgspec.MsgspecError, RecursionError):
                raise InputError(f"{path}:{number}: not a JSON object on one line") from None
            yield number, {str(k).strip().lower(): v for k, v in row.items()}


def _csv(file: TextIO, path: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    reader = csv.reader(file)
    try:
        header = [h.strip().lower() for h in next(reader, [])]
        for row in reader:
            if row:
                yield reader.line_num, dict(zip(header, row))
    except csv.Error as error:
        raise InputError(f"{path}:{reader.line_num}: {error}") from None


def _columns(row: Mapping[str, Any], path: str) -> dict[str, str]:
    columns = {}
    for what, names in _NAMES.items():
        name = next((n for n in names if n in row), None)
        if name is not None:
            columns[what] = name
    for what in ("time", "prompt", "output"):
        if what not in columns:
            raise InputError(f"{path}: no column for the {what}", hint=f"it may be called {', '.join(_NAMES[what])}")
    if "hashes" in columns:
        columns["unit"] = "ms"  # Mooncake
    return columns


def _seconds(row: Mapping[str, Any], columns: dict[str, str], path: str, line: int) -> float:
    text = row.get(columns["time"])
    try:
        value = float(text)  # type: ignore[arg-type]
        if not isfinite(value):
            raise ValueError
    except (TypeError, ValueError):
        value = _date(str(text), path, line)
    return value / 1000 if columns.get("unit") == "ms" else value


def _date(text: str, path: str, line: int) -> float:
    """'2023-11-16 18:15:46.6805900', with or without an offset: fractions of any length."""
    text = text.strip()
    head, dot, rest = text.partition(".")
    digits = len(rest) - len(rest.lstrip("0123456789"))
    try:
        at = datetime.fromisoformat(head + rest[digits:].replace("Z", "+00:00"))
        fraction = float(f"0.{rest[:digits]}") if dot and digits else 0.0
    except ValueError:
        raise InputError(f"{path}:{line}: {text[:60]!r} is not a time") from None
    return (at if at.tzinfo else at.replace(tzinfo=timezone.utc)).timestamp() + fraction


def _tokens(value: Any, name: str, path: str, line: int) -> int:
    try:
        n = float(value)
        if not 0 <= n <= MOST_TOKENS or n != int(n):
            raise ValueError
    except (TypeError, ValueError):
        raise InputError(f"{path}:{line}: {name} {str(value)[:40]!r} is not a number of tokens") from None
    return int(n)


def _jobs(path: str, columns: dict[str, str], start: float) -> Iterator[Job]:
    last = number = 0
    for line, row in _rows(path):
        prompt = _tokens(row.get(columns["prompt"]), columns["prompt"], path, line)
        output = _tokens(row.get(columns["output"]), columns["output"], path, line)
        if not prompt or not output:  # BurstGPT writes failures so
            continue
        at = max(last, round((_seconds(row, columns, path, line) - start) * SECOND))
        last = at
        number += 1
        priority = _tokens(row[columns["priority"]], "priority", path, line) if columns.get("priority") in row else 0
        yield Job(number, at, prompt, output, _chain(row, columns, prompt, path, line), priority)


def _chain(
    row: Mapping[str, Any], columns: dict[str, str], prompt: int, path: str, line: int
) -> tuple[tuple[int, int], ...]:
    if "hashes" in columns:
        ids = row.get(columns["hashes"]) or []
        if not isinstance(ids, list) or not all(isinstance(i, int) for i in ids):
            raise InputError(f"{path}:{line}: hash_ids is not a list of numbers")
        sizes = [min(MOONCAKE_BLOCK, prompt - i * MOONCAKE_BLOCK) for i in range(len(ids))]
        return tuple((i, n) for i, n in zip(ids, sizes) if n > 0)
    prefix = row.get(columns.get("prefix", "")) if "prefix_tokens" in columns else None
    if prefix in (None, ""):
        return ()
    tokens = min(prompt, _tokens(row.get(columns["prefix_tokens"]) or 0, "prefix_tokens", path, line))
    # a name of any kind: the same for the same text in every run, unlike hash()
    return ((int.from_bytes(str(prefix).encode()[:64], "big"), tokens),) if tokens else ()
