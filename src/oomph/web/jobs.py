"""What the page asks, as pure functions: JSON in, JSON out. They run in processes of their own (web/api.py), which are
ended when they take too long or when nobody waits for the answer any more."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any

import msgspec

from oomph import boundary
from oomph.commands import parse_command, to_shell, without_secrets
from oomph.errors import CommandError, OomphError
from oomph.ir.deployment import Deployment
from oomph.ir.plan import Plan
from oomph.plan import run, try_changes, with_gpus
from oomph.printable import printable
from oomph.redaction import Secrets
from oomph.report.plan_json import plan_json

MEMORY = 4 << 30  # bytes of address space that one job may take
_secrets = Secrets()


def run_job(name: str, case: dict[str, Any], root: str) -> tuple[int, bytes]:
    """(status, JSON). Every refusal is one sentence with status 400; no secret and no control character is in it."""
    prepare(root)
    try:
        status, value = 200, JOBS[name](case)
    except OomphError as refused:
        status, value = 400, {"error": refused.message, "hint": refused.hint}
    except (RecursionError, MemoryError) as e:
        status, value = 400, {"error": f"this input is too deep or too large ({type(e).__name__})", "hint": ""}
    except Exception as bug:
        status, value = 500, {"error": f"a bug in oomph: {type(bug).__name__}: {bug}"[:500], "hint": "report it"}
    text = msgspec.json.encode(value).decode()
    return status, printable(_secrets.hide(text)).encode()


@cache
def prepare(root: str) -> None:
    """Once in each process, the first time before anybody waits: the imports, the bounds, the user's own secrets."""
    import os

    from oomph import catalog

    boundary.confine(root)
    _secrets.learn_environment(os.environ)
    with suppress(ImportError, OSError, ValueError):  # not every system can
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, hard))
    catalog.ids()


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
    rows = [
        {"label": row.label, "gain_bytes": row.judged.gain_bytes, "fits": row.judged.outcome == "fits",
         "tokens": row.judged.tokens, "cost": row.judged.change.cost, "effect": row.effect, "why": row.judged.why}
        for row in try_changes(made).rows
    ]  # fmt: skip
    return {"fits": made.fits, "levers": rows}


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


def explain_of(case: dict[str, Any]) -> dict[str, Any]:
    """{path: a file of ours that holds the pasted log, gpu}."""
    from oomph.doctor.explain import explain

    path = _text(case, "path")
    try:
        return explain([path], gpus=_text(case, "gpu") or ()).to_dict()
    except OomphError as refused:
        refused.message = refused.message.replace(path, "the log")
        raise


def catalog_of(_: dict[str, Any] | None = None) -> dict[str, Any]:
    from oomph import catalog
    from oomph.engines.registry import DEFAULT, engine_named
    from oomph.facts import gpus

    return {
        "models": list(catalog.ids()),
        "gpus": [row.name for row in gpus.rows()],
        "releases": [v for v in reversed(engine_named(DEFAULT).releases()) if not v.startswith(("0.8", "0.9", "0.10"))],
    }


JOBS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "plan": plan_of,
    "levers": levers_of,
    "diff": diff_of,
    "simulate": simulate_of,
    "explain": explain_of,
    "catalog": catalog_of,
}
