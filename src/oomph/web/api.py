"""The page's requests over HTTP. Nothing that can wait or compute runs in the event loop.

Each job (web/jobs.py) runs in a process of its own, taken from a few that are kept. A job that takes too long is ended
with its process, and so is one whose asker has gone: a simulation in a thread could not be stopped.
"""

import os
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import anyio
import anyio.lowlevel
import anyio.to_process
import msgspec
from msgspec import Struct
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from oomph.errors import InputError, OomphError
from oomph.text.nesting import bounded
from oomph.web.progress import NAME, read_progress

MAX_JSON = 1 << 20
MAX_LOG = 200 << 20
BODY_SECONDS = 15.0  # for a request's JSON to arrive
LOG_SECONDS = 120.0  # for a log to arrive
LOGS_AT_ONCE = 8  # each has a temporary file
GONE_SECONDS = 1.0  # a short job is let finish although nobody waits: its process is worth more than its time
QUICK, SLOW = 2, 2  # processes; a slider never waits behind a simulation
_ENCODER = msgspec.json.Encoder()


class Job(Struct, frozen=True):
    name: str
    seconds: float  # the longest it may take, waiting included
    slow: bool = False


class _Seats:
    """How many jobs run at once; who is let in finds a process that has started.

    anyio leaves a process behind for ever when its asker is cancelled while it starts (anyio/to_process.py: only one
    that answered is killed), so processes start here, where nothing cancels them. Nothing waits between the end of
    `__aenter__` and the moment at which `run_sync` takes an idle process.
    """

    def __init__(self, count: int, root: str) -> None:
        self.limiter, self.root = anyio.CapacityLimiter(count), root

    async def __aenter__(self) -> None:
        from oomph.web import jobs

        await self.limiter.acquire()
        try:
            with anyio.CancelScope(shield=True):
                await anyio.to_process.run_sync(jobs.prepare, self.root, limiter=cast(anyio.CapacityLimiter, _Open()))
            await anyio.lowlevel.checkpoint_if_cancelled()
        except BaseException:
            self.limiter.release()
            raise

    async def __aexit__(self, *error: object) -> None:
        self.limiter.release()


class _Open:
    """Lets everybody in: its asker has a seat already."""

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(self, *error: object) -> None:
        pass


class Workers:
    """The processes of one page. Made inside the event loop."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.quick, self.slow = _Seats(QUICK, root), _Seats(SLOW, root)
        self.logs = anyio.CapacityLimiter(LOGS_AT_ONCE)
        self.progress: dict[str, str] = {}  # what the asker calls a job -> the file that says how far it is

    async def warm(self) -> None:
        """Start a process before anybody waits for one."""
        async with self.quick:
            pass

    async def answer(self, request: Request, job: Job, case: dict[str, Any]) -> Response:
        """The job's answer, or a sentence when its time is over. Status 499: the asker has gone."""
        with self._watched(request, job, case) as watched:
            return await self._answer(request, job, watched)

    async def run(self, job: Job, case: dict[str, Any]) -> tuple[int, bytes]:
        """In a process that ends when this is cancelled."""
        from oomph.web import jobs

        seats = cast(anyio.CapacityLimiter, self.slow if job.slow else self.quick)
        work = anyio.to_process.run_sync(jobs.run_job, job.name, case, self.root, cancellable=True, limiter=seats)
        try:
            return await work
        except anyio.BrokenWorkerProcess:  # out of memory, or a parser that died: the next job gets another process
            return 500, bytes(complain(500, "the process that read this ended: it is too large or broken").body)

    @contextmanager
    def _watched(self, request: Request, job: Job, case: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """A long job that its asker has named writes how far it is into a file."""
        case.pop("progress_file", None)
        name = request.headers.get("x-oomph-job", "")
        if not job.slow or not NAME.fullmatch(name) or name in self.progress:
            yield case
            return
        file, path = tempfile.mkstemp(suffix=".progress")
        os.close(file)
        self.progress[name] = path
        try:
            yield {**case, "progress_file": path}
        finally:
            del self.progress[name]
            os.unlink(path)

    async def _answer(self, request: Request, job: Job, case: dict[str, Any]) -> Response:
        outcome: tuple[int, bytes] | None = None
        late = False
        async with anyio.create_task_group() as group:
            group.start_soon(_end_when_gone, request, group.cancel_scope)
            with anyio.move_on_after(job.seconds) as scope:
                outcome = await self.run(job, case)
            late = scope.cancelled_caught
            group.cancel_scope.cancel()
        if outcome is not None:
            return Response(outcome[1], outcome[0], media_type="application/json")
        if late:
            return complain(
                504, f"this takes longer than {job.seconds:.0f} s", "the command line has no such limit: oomph --help"
            )
        return Response(status_code=499)


async def _end_when_gone(request: Request, scope: anyio.CancelScope) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    await anyio.sleep(GONE_SECONDS)
    scope.cancel()


def progress_endpoint(workers: Callable[[], Workers]) -> Callable[[Request], Awaitable[Response]]:
    async def handle(request: Request) -> Response:
        path = workers().progress.get(request.query_params.get("job", ""))
        return Response(read_progress(path) if path else b"{}", media_type="application/json")

    return handle


def complain(status: int, message: str, hint: str = "") -> Response:
    return Response(_ENCODER.encode({"error": message, "hint": hint}), status, media_type="application/json")


def endpoint(workers: Callable[[], Workers], job: Job) -> Callable[[Request], Awaitable[Response]]:
    async def handle(request: Request) -> Response:
        try:
            with anyio.fail_after(BODY_SECONDS):
                case = await read_json(request)
            return await workers().answer(request, job, case)
        except OomphError as error:
            return complain(400, error.message, error.hint)
        except TimeoutError:
            return complain(408, f"the request did not arrive within {BODY_SECONDS:.0f} s")
        except ClientDisconnect:
            return Response(status_code=499)

    return handle


async def read_json(request: Request) -> dict[str, Any]:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_JSON:
            raise InputError("the request is larger than 1 MiB")
    try:
        value = msgspec.json.decode(bounded(bytes(body)))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise InputError("the request is not JSON") from None
    if not isinstance(value, dict):
        raise InputError("the request is not a JSON object")
    return value


def upload_endpoint(workers: Callable[[], Workers], job: Job) -> Callable[[Request], Awaitable[Response]]:
    """The text or log is the body itself, streamed to a temporary file; ?gpu= and the like say what it does not."""

    async def handle(request: Request) -> Response:
        handle_, path = tempfile.mkstemp(suffix=".log")
        try:
            with anyio.fail_after(LOG_SECONDS):
                async with workers().logs:
                    await _store(request, handle_)
            case: dict[str, Any] = {
                "path": path,
                **{name: request.query_params.get(name, "")[:200] for name in ("gpu", "name", "engine", "stage")},
            }
            case["chosen_gpu"] = request.query_params.get("chosen", "1") == "1"
            case["earlier_gpu"] = request.query_params.get("earlier", "0") == "1"
            return await workers().answer(request, job, case)
        except OomphError as error:
            return complain(400, error.message, error.hint)
        except TimeoutError:
            return complain(408, f"the log did not arrive within {LOG_SECONDS:.0f} s")
        except ClientDisconnect:
            return Response(status_code=499)
        finally:
            os.close(handle_)
            os.unlink(path)

    return handle


async def _store(request: Request, file: int) -> None:
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > MAX_LOG:
            raise InputError("the log is larger than 200 MB")
        await anyio.to_thread.run_sync(os.write, file, chunk) if len(chunk) > 1 << 16 else os.write(file, chunk)
