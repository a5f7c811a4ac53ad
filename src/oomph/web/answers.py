"""What the page asks, as pure functions: JSON in, JSON out, with the view in it. They run in processes of their own."""

import os
from contextlib import suppress
from typing import Any

from oomph.answers.plan import run, with_advice, with_gpus
from oomph.commands.deployments import Entry
from oomph.engines.protocol import Control, fills
from oomph.engines.registry import DEFAULT, all_engines, engine_named, engine_of
from oomph.errors import CommandError, OomphError
from oomph.ir import Deployment, Device, Plan
from oomph.report.plan_json import plan_json
from oomph.sources.gpu import parse_gpus
from oomph.units import GIB
from oomph.web.cases import Case, deployment_of, field, gpu_words, shareable, text

Answer = dict[str, Any]


def answer_plan(case: Case) -> Answer:
    return plan_answer(deployment_of(case), text(case, "gpu") if isinstance(case.get("gpu"), str) else "")


def plan_answer(deployment: Deployment, gpu: str) -> Answer:
    from oomph.web.views.plan import plan_view

    plan = with_advice(run(deployment))
    engine = engine_of(deployment)
    return {
        **plan_json(plan), "html": plan_view(plan, _speed(plan)), **_place(plan.deployment, gpu),
        "controls": [_control(control, plan) for control in engine.controls()],
        "releases": list(reversed(engine.releases())), "title": engine.title,
        "can_simulate": fills(engine, "simulation"),
    }  # fmt: skip


def _place(deployment: Deployment, gpu: str) -> Answer:
    """Where a deployment stands, so that the page can ask for it again."""
    engine = deployment.engine
    chosen = engine.version and engine.version_from != "newest known"
    request = f"{engine.name}=={engine.version}" if chosen else ""
    return {"command": shareable(deployment), "gpu": gpu_words(deployment.gpus, gpu), "request": request}


def _control(control: Control, plan: Plan) -> Answer:
    flags, resolved = plan.deployment.flags, plan.resolved
    inforce = flags.get(control.field, resolved.get(control.resolved or control.field))
    steps = control.steps or _doublings(plan)
    return {
        "field": control.field, "label": control.label, "form": control.form, "choices": list(control.choices),
        "steps": list(steps) if control.form == "steps" else [], "set": control.field in flags,
        "value": inforce if isinstance(inforce, str | int | float | bool) else None,
    }  # fmt: skip


def _doublings(plan: Plan) -> tuple[int, ...]:
    """Contexts to choose from, up to what the model takes."""
    from oomph.sources.load import load_once

    longest = 131072
    with suppress(OomphError):
        longest = load_once(plan.deployment.model).max_position or longest
    out = [n for k in range(10, 24) for n in (1 << k, 3 << (k - 1)) if n < longest]
    return (*out, longest)


def _speed(plan: Plan) -> tuple[tuple[str, str], ...]:
    """What one user alone sees, computed by the simulator; nothing where the engine's scheduler is not known."""
    from oomph.simulate import api
    from oomph.simulate.workloads import Arrivals, Shape

    if not plan.fits or not plan.ranks or not fills(engine_of(plan.deployment), "simulation"):
        return ()
    prompt = min(1000, max(1, plan.resolved.get("max_model_len", 1000) // 2))
    try:
        setup = api.prepare(plan.deployment)
        result = api.simulate(setup, api.Load(Shape(prompt, min(250, prompt)), Arrivals(users=1), 3))
    except OomphError:
        return ()
    if not result.tpot.p50:
        return ()
    return ((f"{1 / result.tpot.p50:,.3g}", "tokens per second for one user alone, computed"),)


def answer_read(case: Case) -> Answer:
    """{path: a file of ours with what was pasted or dropped, name, gpu, chosen_gpu, engine}: the first screen."""
    from oomph.web import reading

    path, name = text(case, "path"), os.path.basename(text(case, "name"))[:200]
    try:
        with field("text"):
            with open(path, "rb") as file:
                data = file.read(reading.LONGEST + 1)
            result = reading.read(data, name, text(case, "engine"))
            if result.kind == "log":
                return {"kind": "explain", **answer_explain(case)}
            if result.kind == "config":
                return {"kind": "inspect", **_inspect_config(data, name or "config.json"), "model": ""}
            if result.kind == "model":
                return {"kind": "inspect", **answer_inspect({"model": result.model})}
    except OomphError as refused:
        refused.message = refused.message.replace(path, name or "the text")
        raise
    own = {"gpu": result.gpu, "chosen_gpu": True} if result.gpu else {}
    return {"kind": "plan", **_deployments(result.entries, {**case, **own})}


def _deployments(entries: tuple[Entry, ...], case: Case) -> Answer:
    """Every deployment of a file with its outcome, and the plan of the first that can be planned."""
    gpu, chosen = text(case, "gpu"), case.get("chosen_gpu") is True
    tabs: list[Answer] = []
    first: Deployment | None = None
    refusal: OomphError | None = None
    for entry in entries[:40]:
        tab: Answer = {"name": entry.name, "line": entry.line}
        try:
            with field("text"):
                if entry.error is not None or entry.deployment is None:
                    raise entry.error or CommandError("this one cannot be read")
            with field("gpu"):
                named = entry.deployment.gpu_name and not chosen
                deployment = with_gpus(entry.deployment, None if named else gpu or None)
            plan = run(deployment)
            tab |= {"outcome": plan.verdict.outcome, "model": plan.model, **_place(plan.deployment, gpu)}
            if first is None:
                first, tab["first"] = deployment, True
        except OomphError as error:
            refusal = refusal or error
            tab |= {"error": error.message, "hint": error.hint}
            if entry.deployment is not None:
                tab |= {"model": entry.deployment.model, **_place(entry.deployment, gpu)}
        tabs.append(tab)
    if first is None:
        raise refusal or CommandError("there is no deployment in this text")
    at = next(i for i, tab in enumerate(tabs) if tab.get("first"))
    return {**plan_answer(first, gpu), "deployments": tabs, "at": at}


def answer_explain(case: Case) -> Answer:
    """{path: a file of ours that holds the log, gpu, chosen_gpu}."""
    from oomph.doctor.runs import explain_runs
    from oomph.web.views.explain import explain_view, run_names

    path = text(case, "path")
    gpu = text(case, "gpu") if case.get("chosen_gpu", True) else ""
    try:
        runs = explain_runs(path, gpus=gpu)
    except OomphError as refused:
        refused.message = refused.message.replace(path, "the text")
        raise
    failed = [i for i, one in enumerate(runs) if one.explanation.failed]
    at = failed[-1] if failed else len(runs) - 1
    tabs = []
    for one, name in zip(runs, run_names(runs)):
        result = one.explanation
        version = f"{result.engine.name}=={result.engine.version}" if result.engine.version else ""
        tabs.append({
            "name": name, "failed": result.failed, "html": explain_view(one), "command": result.command,
            "request": version, "gpu": _log_gpus(one.gpus, gpu), "model": result.model,
            "title": engine_named(result.engine.name).title if result.engine.name else "",
            "releases": list(reversed(engine_named(result.engine.name).releases())) if result.engine.name else [],
        })  # fmt: skip
    return {**runs[at].explanation.to_dict(), "runs": tabs, "at": at}


def _log_gpus(gpus: tuple[Device, ...], typed: str) -> str:
    """The cards of a log; a size where no card is known to have it."""
    if gpus and not gpus[0].capability[0]:
        return typed or f"{len(gpus)}x {gpus[0].total_bytes / GIB:.2f}GiB"
    return gpu_words(gpus, typed)


def answer_inspect(case: Case) -> Answer:
    from oomph.answers.inspection import inspect
    from oomph.sources.load import load_model
    from oomph.web.views.inspect import inspect_view

    with field("text"):
        inspection = inspect(load_model(model_of(case)))
    return {"html": inspect_view(inspection), "model": inspection.model, "bytes": inspection.bytes}


def _inspect_config(data: bytes, name: str) -> Answer:
    """A config.json whose checkpoint is elsewhere."""
    from oomph.answers.inspection import inspect
    from oomph.sources.build import build_model
    from oomph.sources.json_input import parse_object
    from oomph.web.views.inspect import inspect_view

    inspection = inspect(build_model(name, parse_object(data, name), source="file"))
    return {"html": inspect_view(inspection), "bytes": inspection.bytes}


def model_of(case: Case) -> str:
    """{model}, or the model of {command}."""
    named = text(case, "model").strip()
    if named or not case.get("command"):
        if not named:
            raise CommandError("no model is named", hint="type its name above, or paste a command that serves it")
        return named
    return deployment_of({**case, "gpu": "H100"}).model


def answer_catalog(_: Case | None = None) -> Answer:
    from oomph import catalog
    from oomph.facts import gpus

    live = ""
    with suppress(OomphError, OSError):
        live = "auto" if parse_gpus("auto") else ""
    return {
        "models": list(catalog.ids()),
        "gpus": [row.name for row in gpus.rows()],
        "releases": list(reversed(engine_named(DEFAULT).releases())),
        "engines": [{"name": engine.name, "title": engine.title} for engine in all_engines()],
        "live": live,
    }
