"""What `plan` and `what-if` do with their options. Neither needs click, whose import takes as long as many plans."""

import os
import sys
from typing import TYPE_CHECKING

from oomph.cli.show import show
from oomph.errors import CommandError

if TYPE_CHECKING:
    from oomph.commands import Entry
    from oomph.ir import Plan


def answer_plan(
    *,
    gpu: str | None = None,
    engine: str = "",
    pins: tuple[str, ...] = (),
    compile_cache: str | None = None,
    margin: str = "",
    ram: str = "",
    settings: tuple[str, ...] = (),
    own_build: bool = False,
    form: str = "",
    no_advice: bool = False,
    as_json: bool = False,
    html: str | None = None,
    picture: str | None = None,
    show_all: bool = False,
    batch: str | None = None,
    workers: str = "1",
    words: tuple[str, ...] = (),
) -> int:
    if batch is not None:
        from oomph.cli.batch import run_batch

        if not workers.isdecimal() or len(workers) > 3:
            raise CommandError(f"--workers {workers[:20]}: a number of processes, or 0 for one per core")
        return run_batch(batch, int(workers))
    if not words:
        raise CommandError("no command to plan", hint="oomph plan --gpu H100 -- vllm serve MODEL")
    from oomph.cli.words import exit_code, given, late_gpu

    gpu, words = late_gpu(gpu, words)
    texts = given(words)
    deployments, where = _entries(words, texts, gpu, engine, settings, own_build=own_build)
    if len(deployments) > 1:
        if pins:
            first = deployments[0].name
            raise CommandError(
                f"{where} holds {len(deployments)} deployments: --given is about one",
                hint=f"oomph plan {where}:{first}",
            )
        return _several(deployments, where, gpu, margin, compile_cache or "", as_json, html, advise=not no_advice)
    from oomph.answers.plan import plan, with_advice
    from oomph.commands.deployments import only_one

    answer = plan(
        only_one(deployments, where),
        gpu=gpu,
        given=pinned_sizes(pins),
        compile_cache=compile_cache or "",
        margin=margin,
        ram=ram,
        advise=False,
    )
    answer = _as_measured(answer, margin)
    if not no_advice:
        answer = with_advice(answer)
        if where == "the text":
            from oomph.doctor.posted import without_vain_advice

            answer = without_vain_advice(answer, texts[0])
    if form:
        from oomph.emit import emit

        sys.stdout.write(emit(answer, form))
    else:
        show(answer, as_json=as_json, everything=show_all, html=html)
    if picture is not None and not form:
        from oomph.report.picture import write_picture

        write_picture(answer, picture)
    return exit_code(answer.verdict)


def _entries(
    words: tuple[str, ...],
    texts: list[str],
    gpu: str | None,
    engine: str,
    settings: tuple[str, ...],
    *,
    own_build: bool,
) -> "tuple[list[Entry], str]":
    """The deployments of a command or file, and where they stand; a misspelt flag is refused with the right one."""
    from oomph.cli.words import entries
    from oomph.commands.deployments import built_here

    try:
        deployments, where = entries(texts, engine, settings, gpu or "")
    except CommandError as error:
        from functools import partial

        from oomph.answers.plan import plan as plan_words
        from oomph.answers.respelled import with_right_spelling

        again = partial(plan_words, gpu=gpu, engine=engine, advise=False)
        raise with_right_spelling(error, words, again) from None
    return [built_here(entry) for entry in deployments] if own_build else deployments, where


def answer_what_if(
    *,
    gpu: str | None = None,
    engine: str = "",
    as_json: bool = False,
    html: str | None = None,
    words: tuple[str, ...] = (),
) -> int:
    if not words:
        raise CommandError("no command to look at", hint="oomph what-if --gpu H100 -- vllm serve MODEL")
    from oomph.api import what_if
    from oomph.cli.words import deployment, exit_code, late_gpu

    gpu, words = late_gpu(gpu, words)
    table = what_if(deployment(words, engine), gpu=gpu)
    show(table, as_json=as_json, indent=2, html=html)
    return exit_code(table.plan.verdict)


def _as_measured(answer: "Plan", margin: str) -> "Plan":
    """The plan with what starts on such a machine showed (oomph learn); itself where nothing was learnt."""
    from oomph.machine.learn import place

    if not os.path.exists(place.path()):
        return answer
    from oomph.answers.plan import plan
    from oomph.machine.learn.apply import learned

    deployment = learned(answer)
    return answer if deployment is answer.deployment else plan(deployment, margin=margin, advise=False)


def _several(
    deployments: "list[Entry]",
    where: str,
    gpu: str | None,
    margin: str,
    cache: str,
    as_json: bool,
    html: str | None,
    *,
    advise: bool,
) -> int:
    """A file with several deployments: all of them, and the exit code of the worst."""
    from oomph.answers.check import Check, plan_entries

    items = plan_entries(
        deployments,
        file=where,
        gpu=gpu,
        margin=margin,
        compile_cache=cache,
        advise=advise and (as_json or html is not None),
    )
    reasons = {item.error.message if item.error else "" for item in items}
    if len(reasons) == 1 and all(item.model for item in items) and (error := items[0].error) is not None:
        raise error  # no GPU is named: once is enough
    check = Check(tuple(items), files=1, where=where)
    show(check, as_json=as_json, indent=2, html=html)
    return check.exit_code


def pinned_sizes(pairs: tuple[str, ...]) -> dict[str, int | str]:
    out: dict[str, int | str] = {}
    for pair in pairs:
        name, equals, size = pair.partition("=")
        if not equals:
            raise CommandError(f"--given {pair!r} is not TERM=SIZE, such as available_kv=11.54GiB")
        out[name.strip()] = size
    return out
