"""The page's longer questions: each change alone, flags, cards, models, engines, releases, a load of requests."""

from typing import Any

import msgspec

from oomph.answers.plan import run, try_changes, with_gpus
from oomph.engines.protocol import fills
from oomph.engines.registry import engine_named, engine_of
from oomph.errors import CommandError
from oomph.ir import Deployment, GpuList, Model, Plan
from oomph.search.request import engine_name
from oomph.search.solve import Planner
from oomph.text.nesting import shell_words
from oomph.web.answers import Answer, model_of
from oomph.web.cases import Case, chosen_gpus, count, deployment_of, field, text, tokens
from oomph.web.progress import Step, reporter

SWEEP_POINTS = (0.1, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0)  # of the users that are held
_WIDEST = 8  # times the users that are held: a verdict farther out is not drawn, the others would be one point


def answer_what_if(case: Case) -> Answer:
    from oomph.web.page import page_of

    table = try_changes(run(deployment_of(case)))
    return {**table.to_dict(), "html": page_of(table)}


def answer_fit(case: Case) -> Answer:
    from oomph.search.fit import fit
    from oomph.search.request import Options, Want
    from oomph.web.page import page_of

    model = model_of(case)
    gpus = chosen_gpus(case, model)
    options = Options(text_only=(False,)) if case.get("images") is True else Options()
    want = Want(tokens(case, "context"), count(case, "users", 0, 4096, 0), text(case, "prefer"), options)
    request = text(case, "engine")
    with field("text"):
        result = fit(
            model, gpus, want, engine=request, only=case.get("only") is True,
            planner=_counting(reporter(case)),
        )  # fmt: skip
    return {"html": page_of(result), "met": result.met, "plans": result.plans}


def _counting(step: Step) -> Planner:
    """Plans, and says how many there were."""
    number = 0

    def plan(deployment: Deployment, model: Model | None = None) -> Plan:
        nonlocal number
        number += 1
        step("plans", number, 0)
        return run(deployment, model)

    return plan


def _searched(case: Case) -> str:
    """The engine that is asked for, where cards are searched for it; else the default."""
    request = text(case, "engine")
    own = engine_named(engine_name(request))
    return request if any(fills(own, method) for method in ("fit_knobs", "ways")) else ""


def answer_cards(case: Case) -> Answer:
    from oomph.facts.gpus import rows
    from oomph.search.cards import cards
    from oomph.search.request import Options, Want
    from oomph.web.page import page_of

    if not text(case, "model").strip() and not case.get("command"):
        return {"html": page_of(GpuList(tuple(row.device() for row in rows())))}
    options = Options(text_only=(False, True) if case.get("text_only") is True else (False,))
    want = Want(_context(case), count(case, "users", 0, 4096, 0), "", options)
    names = tuple(name.strip() for name in text(case, "cards").split(",") if name.strip())
    with field("text"):
        result = cards(
            model_of(case), want, engine=_searched(case), names=names, only=case.get("only") is True,
            sort=text(case, "sort"),
            everything=case.get("everything") is True, progress=reporter(case),
        )  # fmt: skip
    return {"html": page_of(result), "cards": len(result.cards)}


def answer_models(case: Case) -> Answer:
    from oomph.search.models import models
    from oomph.web.page import page_of

    gpus = chosen_gpus(case)
    users = count(case, "users", 0, 4096, 0)
    context = tokens(case, "context")
    with field("purpose"):
        answer = models(
            gpus, purpose=text(case, "purpose") or "chat", context=context, users=users, prefer=text(case, "prefer"),
            words=text(case, "words").split()[:10], engines=text(case, "only_engine").split(),
            licence="open" if case.get("open") is True else "", limit=25, progress=reporter(case),
        )  # fmt: skip
    return {"html": page_of(answer), "models": len(answer.picks)}


# The flags by which engines are told how long a request may be.
_LENGTHS = ("max_model_len", "context_length", "max_seq_len", "ctx_size", "num_ctx")


def _context(case: Case) -> int:
    """As the form says, else as the command does."""
    if (typed := tokens(case, "context")) or not case.get("command"):
        return typed
    flags = deployment_of({**case, "gpu": case.get("gpu") or "H100"}).flags
    return next((value for name in _LENGTHS if isinstance(value := flags.get(name), int) and value > 0), 0)


def answer_compare(case: Case) -> Answer:
    from oomph.answers.compare import compare
    from oomph.engines.registry import names_in
    from oomph.web.page import page_of

    model = model_of(case)
    chosen_gpus(case, model)
    with field("text"):
        comparison = compare(
            model, gpu=text(case, "gpu") or None, context=_context(case),
            users=count(case, "users", 0, 4096, 0) or 1, engines=names_in(text(case, "engines")),
        )  # fmt: skip
    return {"html": page_of(comparison), "advice": comparison.advice}


def answer_diff(case: Case) -> Answer:

    from oomph.answers.diff import diff
    from oomph.commands import parse_command, to_command
    from oomph.web.page import page_of

    before = deployment_of(case)
    other = case.get("other")
    if not isinstance(other, dict):
        raise CommandError("other is not an object")
    after = before
    lost: tuple[str, ...] = ()
    with field("flags"):
        try:
            more = shell_words(text(other, "flags"))
        except ValueError as error:
            raise CommandError(f"these flags cannot be read: {error}") from None
        if more:
            again = parse_command([*to_command(before), *more], engine=before.engine)
            after = msgspec.structs.replace(again, gpus=before.gpus)
    if model := text(other, "model").strip():
        after = msgspec.structs.replace(after, model=model)
    if gpu := text(other, "gpu").strip():
        with field("other-gpu"):
            after = with_gpus(after, gpu)
    if target := text(other, "engine"):
        after, lost = engine_of(after).at_release(after, target.split("==")[-1])
    if after == before:
        raise CommandError("nothing is different yet: choose a release, GPUs, a model or flags to compare with")
    difference = diff(before, after, lost)
    return {
        "html": page_of(difference), "changes": msgspec.to_builtins(difference.changes),
        "steps": msgspec.to_builtins(difference.steps), "flags": list(difference.flags),
    }  # fmt: skip


def answer_simulate(case: Case) -> Answer:
    """A load of requests on the plan: {users, prompt, output}; users 0 asks for the most that are held."""
    from oomph.report.screens.simulate import answer
    from oomph.simulate import api
    from oomph.simulate.workloads import Arrivals, Shape
    from oomph.web.page import page

    users, prompt, output = (count(case, k, low) for k, low in (("users", 0), ("prompt", 1), ("output", 1)))
    setup = api.prepare(deployment_of(case))
    load = api.Load(Shape(prompt, output), Arrivals(users=users))
    if users:
        played: Any = api.judge(setup, api.spread(setup, load), api.Target())
        around = users if played.held_users < 0 else max(1, played.held_users)
    else:
        played = api.search(setup, load, api.Target())
        around = max(1, played.users)
    numbers = {max(1, round(share * around)) for share in SWEEP_POINTS}
    numbers |= {users} if 0 < users <= _WIDEST * around else set()  # where the verdict stands
    sweep = _sweep(setup, load, sorted(numbers))
    return {"html": page(answer(played, sweep)), "users": getattr(played, "users", users)}


def _sweep(setup: Any, load: Any, numbers: list[int]) -> list[tuple[int, Any]]:
    from oomph.simulate import api
    from oomph.simulate.play import Ends, spread_over, times_alone
    from oomph.simulate.search import MOST_WORK

    alone = times_alone(setup, load)
    rows = []
    for n in numbers:
        at = spread_over(
            msgspec.structs.replace(load, arrivals=msgspec.structs.replace(load.arrivals, users=n)), *alone
        )
        rows.append((n, api.simulate(setup, at, Ends(1000, MOST_WORK // 2))))
    return rows
