"""Many questions at once: plan_many(), `oomph plan --batch` and simulate_many(). One that cannot be answered ends no
other."""

import os
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from itertools import islice
from typing import Any, TypeVar

import msgspec

from oomph.answers.check import Outcome
from oomph.answers.plan import plan
from oomph.errors import CommandError, OomphError
from oomph.report.contract.batch import BatchError, BatchPlan
from oomph.report.contract.plan import PlanOutput, plan_output
from oomph.text.nesting import bounded

# A chunk is what one worker is handed: some tens of milliseconds of work. So many chunks per worker are under way that
# none waits, and no more: memory stays flat however many questions there are.
CHUNK = 32
AHEAD = 3

T = TypeVar("T")


def plan_many(
    questions: Iterable[Mapping[str, Any]], *, executor: Executor | None = None, workers: int = 1
) -> Iterator[dict[str, Any]]:
    """Plans of many questions, in their order, each as JSON has it; one that cannot be planned has an `error`.

    A question has the keys of a line of `oomph plan --batch`: args, gpu, engine, given, compile_cache, margin, id.
    `executor`: any of concurrent.futures, Dask's `client.get_executor()` too. `workers`: processes on this machine
    where there is none; 0 is one per core.
    """
    lines = (msgspec.json.encode(question) for question in questions)
    for answer, _ in answer_lines(lines, executor=executor, workers=workers):
        yield msgspec.json.decode(answer)


def answer_lines(
    lines: Iterable[bytes], *, executor: Executor | None = None, workers: int = 1
) -> Iterator[tuple[bytes, Outcome]]:
    """Cases as JSON to answers as JSON, in order, as they come."""
    return _answers(_answer_line, lines, CHUNK, executor, workers)


def simulate_many(
    questions: Iterable[Mapping[str, Any]], *, executor: Executor | None = None, workers: int = 1
) -> Iterator[dict[str, Any]]:
    """Loads of many questions played, in their order, each as JSON has it; one that cannot be played has an `error`.

    A question has the arguments of simulate() by name: command, gpu, engine, users, rate, workload, prompt, seed
    and the others. `executor` and `workers` are those of plan_many().
    """
    lines = (msgspec.json.encode(question) for question in questions)
    for answer in _answers(_simulate_line, lines, 1, executor, workers):
        yield msgspec.json.decode(answer)


def _answers(
    answer: Callable[[bytes], T], lines: Iterable[bytes], size: int, executor: Executor | None, workers: int
) -> Iterator[T]:
    """Chunks of `size` lines are what a worker is handed at once."""
    workers = workers or os.cpu_count() or 1
    if executor is not None:
        yield from _in_order(executor, answer, lines, size, workers)
    elif workers == 1:
        for line in lines:
            yield answer(line)
    else:
        from concurrent.futures import ProcessPoolExecutor

        with ProcessPoolExecutor(workers, initializer=_leave_interrupts) as pool:
            yield from _in_order(pool, answer, lines, size, workers)


def _in_order(
    executor: Executor, answer: Callable[[bytes], T], lines: Iterable[bytes], size: int, workers: int
) -> Iterator[T]:
    source = iter(lines)
    chunks: Iterator[tuple[bytes, ...]] = iter(lambda: tuple(islice(source, size)), ())
    pending = deque(executor.submit(_answer_chunk, answer, chunk) for chunk in islice(chunks, workers * AHEAD))
    try:
        while pending:
            yield from pending.popleft().result()
            pending.extend(executor.submit(_answer_chunk, answer, chunk) for chunk in islice(chunks, 1))
    finally:
        for future in pending:
            future.cancel()


def _leave_interrupts() -> None:
    """Ctrl-C is for the process that hands out the work."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _answer_chunk(answer: Callable[[bytes], T], lines: tuple[bytes, ...]) -> list[T]:
    return [answer(line) for line in lines]


def _simulate_line(line: bytes) -> bytes:
    from oomph.api import simulate

    question = msgspec.json.decode(line)
    try:
        if not isinstance(question.get("command"), str | list):
            raise CommandError('"command" is not a command, such as "vllm serve MODEL"')
        return msgspec.json.encode(simulate(**question).to_dict())
    except OomphError as refused:
        return msgspec.json.encode(BatchError(None, refused.message, refused.kind, refused.hint))
    except TypeError as unknown:  # an argument that simulate() does not have
        return msgspec.json.encode(BatchError(None, f"a question of simulate(): {unknown}", "input_error"))


def _answer_line(line: bytes) -> tuple[bytes, Outcome]:
    answer, outcome = answer_case(line)
    return msgspec.json.encode(answer), outcome


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
