"""A case -> its explanation: the cause from the best rule, its remedies, the lines it rests on."""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from oomph.doctor.case import Case, place
from oomph.doctor.explanation import Cause, Evidence, Explanation, Possible
from oomph.doctor.levers import changes, useless
from oomph.doctor.rank import Ranked, candidates, undecided
from oomph.doctor.reading.chances import question, stage_chances
from oomph.doctor.reading.failure import UNSAID
from oomph.doctor.reading.meanings import READY, UNFINISHED
from oomph.doctor.rebuild import gpu_row
from oomph.doctor.rule import SURE, Finding, Rule, Tier
from oomph.doctor.serving import summary
from oomph.engines.common.inferred import WORDS
from oomph.engines.registry import DEFAULT, engine_named
from oomph.facts.speakers import KIND_WORDS
from oomph.ir import Change, Engine, Judged, StageName
from oomph.ir.evidence import asserts


def explain_case(case: Case) -> Explanation:
    engine = case.rebuilt.engine or DEFAULT
    ranked = candidates(case, engine)
    best = ranked[0] if ranked else None
    cause = _cause(case, best)
    remedies, rejected = _advice(case, ranked)
    near = [pair for pair in ranked[1:5] if best and _near(best, pair)]
    chances = stage_chances(case)
    if case.death.by_people and len(chances) > 1:
        there = _at_second_stage(case, chances[1].stage, engine)
        near = [*(pair for pair in there.ranked[:1] if pair[0].id != cause.id and not pair[0].fallback), *near]
        remedies, rejected = _of_both(remedies, there.remedies), _in_both(rejected, there.rejected)
        cause = replace(cause, text=f"{cause.text}{_other_cause(cause, chances[1].stage, there)}")
    notes = list(case.notes)
    if case.speaker is not None:
        notes.append(
            f"{case.speaker.title} is not planned by oomph: what its own words and figures say is all there is"
        )
    elif not case.rebuilt.engine:
        title = engine_named(engine).title
        notes.append(f"no line names the engine; taken for {title}. --engine says whose it is, and prints its flags")
    # said to be inferred by stage_basis, and never a failure; where a rule speaks, it has said what the log is about
    likely, reason = _inferred(case) if cause.id == "none" else (None, "")
    return Explanation(
        _engine(case, engine),
        failed=case.failed,
        stage=likely or case.death.stage,
        cause=cause,
        ledger=case.account.entries,
        unaccounted_bytes=case.account.unaccounted,
        remedies=remedies,
        rejected=rejected,
        evidence=_evidence(case, best),
        candidates=tuple(Possible(r.id, r.title, int(c.tier), c.text, c.settle, c.tier.name.lower()) for r, c in near),
        settle=_settle(case, engine, cause, ranked),
        stage_basis="inferred" if likely else case.death.basis,
        model=case.rebuilt.model,
        command=_command(case, engine),
        total_bytes=case.total or 0,
        notes=tuple(notes),
        inferred_stage=likely,
        inferred_reason=reason,
        gpu=_card(case),
        stages=chances,
        question=question(case, chances),
        speaker=f"{case.speaker.title}, {KIND_WORDS[case.speaker.kind]}" if case.speaker else "",
    )


class _There(Struct, frozen=True):
    """What would be said if it had failed at another stage."""

    ranked: Sequence[Ranked]
    remedies: tuple[Judged, ...]
    rejected: tuple[Judged, ...]


def _at_second_stage(case: Case, stage: StageName, engine: str) -> _There:
    """Only people tell the stage, and two are named: what holds at the second is of use too."""
    second = place(case, stage, "said")
    ranked = candidates(second, engine)
    return _There(ranked, *_advice(second, ranked))


def _of_both(remedies: tuple[Judged, ...], others: tuple[Judged, ...]) -> tuple[Judged, ...]:
    levers = {"whole_log", *(judged.change.lever for judged in remedies)}
    return (*remedies[:1], *(judged for judged in others[:1] if judged.change.lever not in levers), *remedies[1:])


def _in_both(rejected: tuple[Judged, ...], others: tuple[Judged, ...]) -> tuple[Judged, ...]:
    levers = {judged.change.lever for judged in others}
    return tuple(judged for judged in rejected if judged.change.lever in levers)


def _other_cause(cause: Cause, stage: StageName, there: _There) -> str:
    where = SECOND_WORDS.get(stage, "")
    if not where or not there.ranked or there.ranked[0][0].fallback or there.ranked[0][0].id == cause.id:
        return ""
    return f" If it was {where}: {there.ranked[0][0].title} ({there.ranked[0][0].id})."


SECOND_WORDS = {**WORDS, "runtime_request": "while serving", "host_ram": "the host's memory"}


def _engine(case: Case, engine: str) -> Engine:
    """Of a program that is none of ours no engine, unless it is a step of one."""
    if case.speaker is not None:
        return Engine(case.speaker.engine, "")
    return Engine(engine, case.rebuilt.version, case.rebuilt.version_from)


def _command(case: Case, engine: str) -> str:
    if case.speaker is not None:
        return ""
    return engine_named(engine).log_command(case.rebuilt.model, case.rebuilt.flags, case.rebuilt.environment)


def _inferred(case: Case) -> tuple[StageName | None, str]:
    """Of a log without an error: where the run would have died, if it did, and the figures that say so. Without a stage
    the figures are told, and what is missing to say more."""
    guess = None if case.failed or not case.rebuilt.engine else engine_named(case.rebuilt.engine).inferred(case)
    return guess or (None, "")


def _card(case: Case) -> str:
    """As it was given; else as the text names it, unless the log's own total is another card's."""
    if case.gpus:
        return case.gpus[0].name
    row = gpu_row(case.total or 0, named=case.named_gpu) if case.named_gpu else None
    return row.name if row is not None and row.name == case.named_gpu else ""


def _near(best: Ranked, other: Ranked) -> bool:
    """Not far behind: the same tier, or the next one."""
    tiers = sorted(Tier)
    return tiers.index(other[1].tier) >= tiers.index(best[1].tier) - 1


def _settle(case: Case, engine: str, cause: Cause, ranked: Sequence[Ranked]) -> str:
    """What would decide: whether it failed at all, what of, or which of two."""
    if case.failed is None:
        return case.death.settle
    if cause.id == "unknown":
        return engine_named(engine).words.lost_reason
    if not ranked or cause.id == "none":
        return ""
    open_question = ranked[0][1].tier < SURE or any(undecided(ranked[0], other) for other in ranked[1:2])
    return ranked[0][1].settle if open_question else ""


def _cause(case: Case, best: Ranked | None) -> Cause:
    if best is not None and (case.failed or best[1].tier >= Tier.POSSIBLE):
        rule, candidate = best
        sure, text = _is_sure(case, rule, candidate), candidate.text
        if _unsaid(case, best) and rule.names_cause:
            sure, text = False, f"The error itself is not in this part of the log. If it was memory: {text}"
            if _unknown(case, best):
                return Cause("unknown", "The cause is not in this log", text, False)
        return Cause(rule.id, rule.title, text, sure, int(candidate.tier), candidate.tier.name.lower())
    if case.failed:
        text = f"Something failed, but what is in this log does not say why.{_quoted(case)}"
        return Cause("unknown", "The cause is not in this log", text, False)
    if case.death.settle == UNFINISHED:
        return Cause("none", "No error in this log", _healthy(case), False)
    if case.failed is None:
        text = _doubt(case)
        return Cause("unclear", "This text does not tell whether it failed", text, False)
    return Cause("none", "Nothing failed", _healthy(case))


def _doubt(case: Case) -> str:
    if not case.death.line:
        text = "No line of this text is one that the engine prints about memory, an error or a running server."
        asks = any(not claim.factual for claim in case.claims)
        return f'{text} A question is asked so: oomph "can I run MODEL on GPU?"' if asks else text
    if case.death.by_people and case.before(*READY):
        return f"The program's lines are healthy; what is told beside them is not in them.{_quoted(case)}"
    return f"There is a sign of an error, and nothing that says whether the run went on.{_quoted(case)}"


def _is_sure(case: Case, rule: Rule, finding: Finding) -> bool:
    """What a program said or figures prove; a cause that rests on the stage is as sure as the stage. What people tell
    in their own words is never sure."""
    if not case.failed:
        return finding.tier >= SURE
    proved = asserts(case.death.basis) or (finding.tier >= Tier.COMPUTED and not rule.at_stage)
    return finding.tier >= SURE and proved and case.death.basis != "said" and not case.death.by_people


def _quoted(case: Case) -> str:
    quote = case.death.quote.strip()[:240].rstrip(".:, ")
    return f' The line that speaks of it: "{quote}".' if quote else ""


def _healthy(case: Case) -> str:
    """Where the memory went in a run that did not fail, or not yet."""
    from oomph.units import gib

    figures = [f"{e.term} {gib(e.bytes)}" for e in case.account.entries if e.bytes]
    text = (
        "Nothing failed in this log."
        if case.failed is False
        else "There is no error in this log, and no running server."
    )
    text += f" It shows {', '.join(figures)}." if figures else ""
    text += summary(case)
    tokens, times = case.value("kv_tokens", "tokens"), case.real("concurrency", "concurrency")
    length = case.value("concurrency", "max_model_len")
    if times and length:
        text += f" The KV cache holds about {int(times * length):,} tokens: {times:g} requests of {length:,}."
    elif tokens:
        text += f" The KV cache holds {tokens:,} tokens."
    unused = _unused(case)
    if unused:
        text += unused
    on_gpu = case.value("lc_layers", "on_gpu") or case.value("ol_offload", "on_gpu")
    layers = case.value("lc_layers", "layers") or case.value("ol_offload", "layers")
    if on_gpu is not None and layers and on_gpu < layers:
        text += (
            f" {on_gpu} of {layers} layers are on the GPU; the others run on the CPU, which makes every token slower."
        )
    stage = case.death.stage
    if stage and stage not in ("runtime_request", "kv_alloc", "sampler_warmup") and not _inferred(case)[1]:
        text += f" The log ends in stage {stage}."
    return text


def _unused(case: Case) -> str:
    """What the budget leaves of a card that nobody else uses."""
    from oomph.units import GIB, gib

    free, total = case.value("ledger", "free"), case.value("ledger", "total")
    if not free or not total or not case.account.util:
        return ""
    ceiling = engine_named(case.rebuilt.engine or DEFAULT).unplanned_share(case.unified)
    most = min(ceiling, int((free - 0.5 * GIB) / total * 100) / 100)
    more = round((most - case.util) * total)
    if more < GIB:
        return ""
    outside = gib(total - round(case.util * total))
    return f" {outside} are outside of the budget: --gpu-memory-utilization {most} gives the KV cache {gib(more)} more."


def _advice(case: Case, ranked: Sequence[Ranked]) -> tuple[tuple[Judged, ...], tuple[Judged, ...]]:
    """What the best finding names, the cheapest first, and what does not help."""
    whole_log = tuple(unplanned(case, change) for change in changes(case, ("whole_log",)))
    if not ranked and case.failed:
        return whole_log, ()
    if not ranked or (not case.failed and ranked[0][1].tier < Tier.POSSIBLE):
        return (), ()
    if case.death.kind == "said_failed" and _unknown(case, ranked[0]):
        return whole_log, ()  # nobody speaks of memory: no flag that moves it is worth a try
    rejected = useless(case, *ranked[0])
    not_these = {judged.change.lever for judged in rejected}
    named = [*ranked[0][1].levers]
    for other in ranked[1:3]:  # findings that could not be told apart
        if undecided(ranked[0], other):
            named += other[1].levers
    listed = [change for change in changes(case, named) if change.lever not in not_these]
    if _unsaid(case, ranked[0]) and not any(change.rank <= 0 for change in listed):
        return (*whole_log, *(unplanned(case, change) for change in listed)), rejected  # what it died of decides
    return tuple(unplanned(case, change) for change in listed), rejected


def _unknown(case: Case, best: Ranked) -> bool:
    """What is left are a rule's thoughts about memory, of which whoever tells of the run has not a word."""
    by_people = case.death.kind == "said_failed" or case.has_story
    return by_people and _unsaid(case, best) and best[0].names_cause and best[0].about_memory


def _unsaid(case: Case, best: Ranked) -> bool:
    """It failed, and no line that is here says of what."""
    return bool(case.failed) and case.death.kind in UNSAID and not case.memory and best[1].tier < Tier.SAID


def unplanned(case: Case, change: Change) -> Judged:
    """With the command of the log changed so, where the log has it."""
    engine = engine_named(case.rebuilt.engine or DEFAULT)
    is_known = bool(case.rebuilt.model or case.rebuilt.flags) and bool(change.flags or change.environment)
    flags = {name: value for name, value in {**case.rebuilt.flags, **change.flags}.items() if value is not None}
    environment = {**case.rebuilt.environment, **change.environment}
    command = engine.log_command(case.rebuilt.model, flags, environment) if is_known and case.rebuilt.engine else ""
    return Judged(change, "unplanned", command=command)


def _evidence(case: Case, best: Ranked | None) -> tuple[Evidence, ...]:
    numbers = set(best[1].lines) if best else set()
    if case.death.line:
        numbers.add(case.death.line)
    texts: dict[int, str] = {}
    for observation in case.observations:
        if observation.line in numbers:
            texts.setdefault(observation.line, observation.text[:300])
    return tuple(Evidence(line, text) for line, text in sorted(texts.items()))[:12]
