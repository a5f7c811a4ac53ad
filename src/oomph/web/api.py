"""What the page asks: JSON in, JSON out, every refusal one sentence with status 400."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from oomph.commands import parse_command, to_shell, without_secrets
from oomph.errors import CommandError, InputError, OomphError
from oomph.ir.deployment import Deployment
from oomph.ir.plan import Plan
from oomph.levers import levers
from oomph.plan import load, run, with_gpus
from oomph.report.plan_json import plan_json

MAX_JSON = 1 << 20
MAX_LOG = 200 << 20
_ENCODER = msgspec.json.Encoder()


def answer(value: Any, status: int = 200) -> Response:
    return Response(_ENCODER.encode(value), status, media_type="application/json")


def refuse(error: OomphError) -> Response:
    return answer({"error": error.message, "hint": error.hint}, 400)


async def read_json(request: Request) -> dict[str, Any]:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_JSON:
            raise InputError("the request is larger than 1 MiB")
    try:
        value = msgspec.json.decode(bytes(body))
    except (msgspec.DecodeError, RecursionError):
        raise InputError("the request is not JSON") from None
    if not isinstance(value, dict):
        raise InputError("the request is not a JSON object")
    return value


def endpoint(work: Callable[[dict[str, Any]], Any], *, slow: bool = False) -> Callable[[Request], Any]:
    """A JSON endpoint around a pure function. Slow ones get a thread, so that a slider is never behind a search."""

    async def handle(request: Request) -> Response:
        try:
            case = await read_json(request)
            return answer(await run_in_threadpool(work, case) if slow else work(case))
        except OomphError as error:
            return refuse(error)
        except ClientDisconnect:
            return Response(status_code=499)

    return handle


def _text(case: dict[str, Any], key: str, default: str = "") -> str:
    value = case.get(key, default)
    if not isinstance(value, str) or len(value) > 100_000:
        raise CommandError(f"{key} is not a text")
    return value


def deployment_of(case: dict[str, Any]) -> Deployment:
    """From {command} or {model, flags}, with {gpu, engine, compile_cache}."""
    engine = _text(case, "engine")
    if case.get("command"):
        made = parse_command([_text(case, "command")], engine=engine or None)
    else:
        flags = case.get("flags") or {}
        if not isinstance(flags, dict):
            raise CommandError("flags is not an object")
        made = parse_command(words(_text(case, "model"), flags), engine=engine or None)
    cache = _text(case, "compile_cache", "cold") or "cold"
    if cache not in ("cold", "warm"):
        raise CommandError("compile_cache is cold or warm")
    made = msgspec.structs.replace(made, compile_cache=cache)
    return with_gpus(made, case.get("gpu") or None)


def words(model: str, flags: dict[str, Any]) -> list[str]:
    if not model.strip():
        raise CommandError("no model was named")
    out = ["vllm", "serve", model.strip()]
    for name, value in flags.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            out.append(flag)
        elif value is False:
            out.append("--no-" + flag[2:])
        elif value is not None:
            out += [flag, msgspec.json.encode(value).decode() if isinstance(value, dict | list) else str(value)]
    return out


def plan_of(case: dict[str, Any]) -> dict[str, Any]:
    made = run(deployment_of(case))
    return {**_side(made), "flags": without_secrets(made.deployment).flags}


def levers_of(case: dict[str, Any]) -> dict[str, Any]:
    made = run(deployment_of(case))
    found = levers(made, load(made.deployment.model), run) if made.ranks else []
    return {"fits": made.fits, "levers": [msgspec.to_builtins(x) for x in found]}


def diff_of(case: dict[str, Any]) -> dict[str, Any]:
    from oomph.diff import diff
    from oomph.engines.registry import engine_of

    before = deployment_of(case)
    other = case.get("other")
    if not isinstance(other, dict):
        raise CommandError("other is not an object")
    changed = {**case, **{k: v for k, v in other.items() if v}}
    target = _text(changed, "engine")
    after = deployment_of({**changed, "engine": case.get("engine", "")})
    lost: tuple[str, ...] = ()
    if target and target != case.get("engine"):
        after, lost = engine_of(after).at_release(after, target.split("==")[-1])
    made = diff(before, after, lost)
    return {
        "before": _side(made.before), "after": _side(made.after), "changes": msgspec.to_builtins(made.changes),
        "steps": msgspec.to_builtins(made.steps), "flags": list(made.flags),
    }  # fmt: skip


def _side(plan: Plan) -> dict[str, Any]:
    return {**plan_json(plan), "command": to_shell(without_secrets(plan.deployment))}


def simulate_of(case: dict[str, Any]) -> dict[str, Any]:
    """A load of requests on the plan: {users, prompt, output}; users 0 asks for the most that are held."""
    from oomph.report import simulate_svg, simulate_text
    from oomph.simulate import api
    from oomph.simulate.workloads import Arrivals, Shape

    users, prompt, output = (_count(case, k, low) for k, low in (("users", 0), ("prompt", 1), ("output", 1)))
    setup = api.prepare(deployment_of(case))
    load_ = api.Load(Shape(prompt, output), Arrivals(users=users))
    made: Any
    if users:
        made = api.judge(setup, api.spread(setup, load_), api.Target())
    else:
        made = api.search(setup, load_, api.Target())
    return {"text": "\n".join(simulate_text.lines(made, simulate_svg.PLAIN)), "svg": simulate_svg.draw(made)}


def _count(case: dict[str, Any], key: str, low: int) -> int:
    value = case.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= 1_000_000:
        raise CommandError(f"{key} is not a number from {low} to 1,000,000")
    return value


async def explain_endpoint(request: Request) -> Response:
    """The log is the body itself, streamed to a temporary file; ?gpu= and ?engine= say what it does not."""
    import tempfile

    from oomph.doctor.explain import explain, to_json

    size = 0
    try:
        with tempfile.NamedTemporaryFile(suffix=".log") as file:
            async for chunk in request.stream():
                size += len(chunk)
                if size > MAX_LOG:
                    raise InputError("the log is larger than 200 MB")
                file.write(chunk)
            file.flush()
            gpu = request.query_params.get("gpu", "")[:200]
            found = await run_in_threadpool(explain, [file.name], gpus=gpu or ())
    except OomphError as error:
        message = error.message.replace(file.name, "the log") if size else error.message
        return answer({"error": message, "hint": error.hint}, 400)
    except ClientDisconnect:
        return Response(status_code=499)
    return answer(to_json(found))


def catalog_of(_: dict[str, Any] | None = None) -> dict[str, Any]:
    from oomph import catalog
    from oomph.engines.registry import DEFAULT, engine_named
    from oomph.facts import gpus

    return {
        "models": list(catalog.ids()),
        "gpus": [row.name for row in gpus.rows()],
        "releases": [v for v in reversed(engine_named(DEFAULT).releases()) if not v.startswith(("0.8", "0.9", "0.10"))],
    }
