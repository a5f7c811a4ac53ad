"""`oomph plan --batch FILE`: one JSON case a line in, one plan a line out, each as soon as it is there.

A case that cannot be planned does not end the batch: its line has an `error`. The exit code is that of the worst line.
"""

import sys
from collections.abc import Iterator
from typing import Any, BinaryIO

import msgspec

from oomph.answers.check import EXIT_CODES, Outcome, worst
from oomph.answers.plan import plan
from oomph.errors import CommandError, InputError, OomphError
from oomph.report.contract.plan import BatchError, BatchPlan, PlanOutput
from oomph.report.plan_json import plan_output
from oomph.text.nesting import bounded

_MAX_LINE = 8 << 20


def run_batch(path: str) -> int:
    write_line = getattr(sys.stdout, "write_line", None) or _write_line
    encoder = msgspec.json.Encoder()
    outcomes: set[Outcome] = set()
    with _open(path) as file:
        for line in _lines(file):
            answer, outcome = answer_case(line)
            write_line(encoder.encode(answer).decode())
            outcomes.add(outcome)
    return EXIT_CODES[worst(outcomes)]


def _write_line(line: str) -> None:
    print(line, flush=True)


def answer_case(line: bytes) -> tuple[BatchPlan | BatchError, Outcome]:
    """A case to its plan, or to why there is none."""
    case: Any = None
    try:
        case = msgspec.json.decode(bounded(line))
        if not isinstance(case, dict):
            raise CommandError("a case is a JSON object")
        planned = _plan(case)
        fields = {name: getattr(planned, name) for name in planned.__struct_fields__}
        return BatchPlan(id=case.get("id"), **fields), planned.verdict.outcome
    except (msgspec.DecodeError, RecursionError) as bad:
        return BatchError(None, f"not JSON: {bad}", "input_error"), "unread"
    except OomphError as refused:
        failed = BatchError(_id(case), refused.message, refused.kind, refused.hint)
        return failed, "unplanned" if refused.exit_code == 3 else "unread"
    except Exception as bug:  # the batch goes on; the line says what happened
        return BatchError(_id(case), f"a bug in oomph: {bug!r}", "bug"), "unread"


def _id(case: Any) -> Any:
    return case.get("id") if isinstance(case, dict) else None


def _plan(case: dict[str, Any]) -> PlanOutput:
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
    margin = case.get("margin") or 0
    if not isinstance(margin, int | str):
        raise CommandError('"margin" is a number of bytes, "1GiB" or "5%"')
    foreseen = plan(
        args, gpu=case.get("gpu"), engine=engine, given=pinned, compile_cache=cache, margin=margin, advise=False
    )
    return plan_output(foreseen)


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
