"""What the page asks, as pure functions: JSON in, JSON out, with the view in it. They run in processes of their own."""

import os
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from oomph.answers.plan import run, with_advice
from oomph.commands.deployments import Entry
from oomph.commands.questions import Understood
from oomph.doctor.explanation import Explanation
from oomph.engines.protocol import fills
from oomph.engines.registry import DEFAULT, all_engines, engine_named, engine_of
from oomph.engines.values import Control
from oomph.errors import CommandError, OomphError
from oomph.ir import STAGES, Deployment, Device, Plan
from oomph.sources.gpu import parse_gpus
from oomph.units import GIB, human
from oomph.web.asking import NoGpu, which_gpus
from oomph.web.cases import Case, deployment_of, field, gpu_words, on_gpus, shareable, text

Answer = dict[str, Any]


def answer_plan(case: Case) -> Answer:
    return plan_answer(deployment_of(case), text(case, "gpu") if isinstance(case.get("gpu"), str) else "")


def plan_answer(deployment: Deployment, gpu: str) -> Answer:
    from oomph.report.picture import draw_plan
    from oomph.report.reply import reply
    from oomph.report.screens.plan import answer
    from oomph.web.page import page

    plan = with_advice(run(deployment))
    engine = engine_of(deployment)
    return {
        **plan.to_dict(), "html": page(answer(plan, _speed(plan))), **_place(plan.deployment, gpu),
        "controls": [_control(control, plan) for control in engine.controls()],
        "releases": list(reversed(engine.releases())), "title": engine.title,
        "can_simulate": fills(engine, "simulation"), "compiles": _compiles(deployment), "picture": draw_plan(plan),
        "reply": reply(plan),
    }  # fmt: skip


def _place(deployment: Deployment, gpu: str) -> Answer:
    """Where a deployment stands, so that the page can ask for it again."""
    engine = deployment.engine
    is_chosen = engine.version and engine.version_from != "newest known"
    request = f"{engine.name}=={engine.version}" if is_chosen else ""
    return {
        "command": shareable(deployment), "gpu": gpu_words(deployment.gpus, gpu), "request": request,
        "understood": understood(deployment),
    }  # fmt: skip


def understood(deployment: Deployment) -> list[Answer]:
    """What a text was read as, each with who says so; what nobody says is assumed."""
    engine = deployment.engine
    rows = [_understood(deployment.model)]
    if engine.version:
        newest = engine.version_from == "newest known"
        origin = "" if engine.version_from == "--engine" else f"({engine.version_from})"
        rows.append(
            _understood(
                f"{engine_of(deployment).title} {engine.version}", "assumed: the newest" if newest else origin, newest
            )
        )
    if deployment.gpus:
        rows.append(
            _understood(gpu_words(deployment.gpus, ""), "", any(gpu.is_capability_assumed for gpu in deployment.gpus))
        )
    if deployment.compile_cache == "cold" and _compiles(deployment):
        rows.append(_understood("a first start", "assumed: no compile cache yet", is_assumed=True))
    return rows


def _compiles(deployment: Deployment) -> bool:
    """Whether the engine keeps what it compiles, so that a first start differs from a later one."""
    return deployment.engine.name == DEFAULT


def _understood(words: str, source: str = "", is_assumed: bool = False) -> Answer:
    return {"words": words, "from": source, "is_assumed": is_assumed}


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


def _speed(plan: Plan) -> str:
    """What one user alone sees, computed by the simulator; nothing where the engine's scheduler is not known."""
    from oomph.simulate import api
    from oomph.simulate.workloads import Arrivals, Shape

    if not plan.fits or not plan.ranks or not fills(engine_of(plan.deployment), "simulation"):
        return ""
    prompt = min(1000, max(1, plan.resolved.get("max_model_len", 1000) // 2))
    try:
        setup = api.prepare(plan.deployment)
        result = api.simulate(setup, api.Load(Shape(prompt, min(250, prompt)), Arrivals(users=1), 3))
    except OomphError:
        return ""
    return f"{1 / result.tpot.p50:,.3g} tokens per second for one user alone, computed" if result.tpot.p50 else ""


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
            if result.question is not None:
                return _question(result.question, case)
            if result.kind == "model":
                return {"kind": "inspect", **answer_inspect({"model": result.model})}
    except OomphError as refused:
        refused.message = refused.message.replace(path, name or "the text")
        raise
    own = {"gpu": result.gpu, "chosen_gpu": True} if result.gpu else {}
    return {"kind": "plan", **_deployments(result.entries, {**case, **own})}


_QUESTION_VIEWS = {"fit": "fit", "models": "models", "gpus": "cards", "compare": "compare"}


def _question(question: Understood, case: Case) -> Answer:
    """Where a question in words leads: the view that answers it, with its fields."""
    gpu = text(case, "gpu")
    if question.command == "gpus" and gpu and not question.cards and case.get("chosen_gpu"):
        question = replace(question, command="fit", gpu=gpu)  # the field says on which
    fields: Answer = {"context": question.context, "users": question.users or ""}
    fields |= {"prefer": question.prefer} if question.command != "gpus" else {"cards": ", ".join(question.cards)}
    fields |= {flag.strip("-"): True for flag in question.flags}
    fields |= {"engines": ", ".join(question.engines)} if question.command == "compare" else {}
    if question.command == "models":
        fields |= {"purpose": question.purpose or "chat", "only_engine": " ".join(question.engines)}
    rows = [_understood(question.typed(), "in oomph's words")]
    rows += [_understood(", ".join(question.unused), "not used", is_assumed=True)] if question.unused else []
    return {
        "kind": "question", "view": _QUESTION_VIEWS[question.command], "model": question.model, "gpu": question.gpu,
        "engine": question.engines[0] if question.engines and question.command in ("fit", "gpus") else "",
        "fields": {name: value for name, value in fields.items() if value}, "understood": rows,
    }  # fmt: skip


def _deployments(entries: tuple[Entry, ...], case: Case) -> Answer:
    """Every deployment of a file with its outcome, and the plan of the first that can be planned."""
    gpu, chosen = text(case, "gpu"), case.get("chosen_gpu") is True
    tabs: list[Answer] = []
    first: Deployment | None = None
    refusal: OomphError | None = None
    asks: Answer = {}
    for entry in entries[:40]:
        tab: Answer = {"name": entry.name, "line": entry.line}
        try:
            with field("text"):
                if entry.error is not None or entry.deployment is None:
                    raise entry.error or CommandError("this one cannot be read")
            named = entry.deployment.gpu_name and not chosen
            deployment = on_gpus(entry.deployment, None if named else gpu)
            plan = run(deployment)
            tab |= {"outcome": plan.verdict.outcome, "model": plan.model, **_place(plan.deployment, gpu)}
            if first is None:
                first, tab["first"] = deployment, True
        except NoGpu as unknown:
            tab |= {"model": unknown.model, **(_place(entry.deployment, "") if entry.deployment else {})}
            asks = asks or {"asks": "gpu", "html": which_gpus(unknown.model), **tab, "at": len(tabs)}
        except OomphError as error:
            refusal = refusal or error
            tab |= {"error": error.message, "hint": error.hint}
            if entry.deployment is not None:
                tab |= {"model": entry.deployment.model, **_place(entry.deployment, gpu)}
        tabs.append(tab)
    if first is None and asks:
        return {**asks, "deployments": tabs}
    if first is None:
        raise refusal or CommandError("there is no deployment in this text")
    at = next(i for i, tab in enumerate(tabs) if tab.get("first"))
    return {**plan_answer(first, gpu), "deployments": tabs, "at": at}


def answer_explain(case: Case) -> Answer:
    """{path: a file of ours with the log, gpu, chosen_gpu, earlier_gpu: it was chosen before the log was there, stage:
    the answer to where it failed}."""
    from oomph.doctor.runs import explain_runs
    from oomph.report.screens.explain import answers
    from oomph.web.page import page

    path = text(case, "path")
    gpu = text(case, "gpu") if case.get("chosen_gpu", True) else ""
    stage = next((name for name in STAGES if name == case.get("stage")), None)
    try:
        runs = explain_runs(path, gpus=gpu, stage=stage)
    except OomphError as refused:
        refused.message = refused.message.replace(path, "the text")
        raise
    size = next((one.explanation.total_bytes for one in runs if one.explanation.total_bytes), 0)
    if contradicted := case.get("earlier_gpu") is True and _contradicts(gpu, size):
        runs = explain_runs(path, stage=stage)
    failed = [i for i, one in enumerate(runs) if one.explanation.failed]
    at = failed[-1] if failed else len(runs) - 1
    not_used = f"not used: the log's GPU has {human(size)}"
    other_card = [_understood(gpu, not_used, is_assumed=True)] if contradicted else []
    tabs = []
    for one, (name, answer) in zip(runs, answers(runs).items()):
        result = one.explanation
        version = f"{result.engine.name}=={result.engine.version}" if result.engine.version else ""
        tabs.append({
            "name": name, "failed": result.failed, "html": page(answer), "command": result.command,
            "request": version, "gpu": _log_gpus(one.gpus, "" if contradicted else gpu), "model": result.model,
            "own_gpu": contradicted, "understood": _understood_log(result, len(runs)) + other_card,
            "title": engine_named(result.engine.name).title if result.engine.name else "",
            "releases": list(reversed(engine_named(result.engine.name).releases())) if result.engine.name else [],
        })  # fmt: skip
    return {**runs[at].explanation.to_dict(), "runs": tabs, "at": at}


_CLOSE = 0.06  # of a card's memory: what a driver, a hypervisor or ECC keeps of it


def _contradicts(gpu: str, size: int) -> bool:
    """Whether none of these GPUs can be the one of which the log prints `size` bytes."""
    try:
        cards = parse_gpus(gpu) if gpu and size else ()
    except OomphError:
        return False  # how it is spelt is the doctor's to say
    return bool(cards) and all(abs(card.total_bytes - size) > _CLOSE * max(size, card.total_bytes) for card in cards)


def _understood_log(result: Explanation, runs: int) -> list[Answer]:
    engine = result.engine
    title = f"{engine_named(engine.name).title} {engine.version}".strip() if engine.name else ""
    source = f"({engine.version_from})" if engine.version and engine.version_from else ""
    rows = [_understood("a log" if runs == 1 else f"a log of {runs} runs")]
    rows += [_understood(title, source)] if title else []
    return rows + ([_understood(result.model)] if result.model else [])


def _log_gpus(gpus: tuple[Device, ...], typed: str) -> str:
    """The cards of a log; a size where no card is known to have it."""
    if gpus and not gpus[0].capability[0]:
        return typed or f"{len(gpus)}x {gpus[0].total_bytes / GIB:.2f}GiB"
    return gpu_words(gpus, typed)


def answer_inspect(case: Case) -> Answer:
    from oomph.answers.inspection import inspect
    from oomph.sources.load import load_model
    from oomph.web.page import page_of

    with field("text"):
        inspection = inspect(load_model(model_of(case)))
    read = [_understood(inspection.model)]
    return {"html": page_of(inspection), "model": inspection.model, "bytes": inspection.bytes, "understood": read}


def _inspect_config(data: bytes, name: str) -> Answer:
    """A config.json whose checkpoint is elsewhere."""
    from oomph.answers.inspection import inspect
    from oomph.sources.build import build_model
    from oomph.sources.json_input import parse_object
    from oomph.web.page import page_of

    inspection = inspect(build_model(name, parse_object(data, name), source="file"))
    return {"html": page_of(inspection), "bytes": inspection.bytes, "understood": [_understood(name, "a config.json")]}


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
