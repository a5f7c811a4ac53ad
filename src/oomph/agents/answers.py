"""An answer for an agent: the verdict in a sentence, stage and cause, remedies as commands, and what each rests on.

Figures are texts with units, because a bare number is quoted without its meaning. Lists are cut to what a reader would
look at; `more` says what was left out, and the command that prints all of it.
"""

from dataclasses import asdict, dataclass, field
from typing import Any

from oomph.answers.compare import Comparison
from oomph.answers.inspection import Inspection, LayerRow
from oomph.doctor.explanation import Explanation
from oomph.engines.registry import engine_named
from oomph.ir import STAGE_WORDS, TERM_WORDS, Judged, Plan, Term
from oomph.search.fit import Configuration, Fit
from oomph.search.models import Models
from oomph.search.picks import Pick
from oomph.text.redaction import session
from oomph.units import human

REMEDIES, OTHERS = 4, 3
_EFFECTS = {
    "fixes": "planned: with this change it fits",
    "helps": "planned: it helps, and is not enough alone",
    "nothing": "planned: it changes nothing at the point that decides",
    "worse": "planned: it makes it worse",
    "refused": "the engine refuses it",
}
_TIERS = {
    "said": "the engine's own words name it",
    "computed": "figures or frames of the log prove it",
    "likely": "it fits what is there, and nothing else does as well",
    "possible": "nothing speaks against it; not certain",
    "remark": "a remark, not the cause",
}


@dataclass
class Figure:
    what: str
    size: str  # the expected size, with its unit
    interval: str  # how far it may be off
    basis: str  # exact, formula, measured, assumed or given


@dataclass
class Remedy:
    change: str
    basis: str  # what the claim rests on
    command: str = ""  # complete, ready to be run
    cost: str = ""


@dataclass
class Useless:
    advice: str
    why: str


@dataclass
class PlanAnswer:
    """Will it start, and if not, where does it die and what helps."""

    verdict: str  # one sentence
    outcome: str  # fits, at_risk, close (too close to call), fails
    model: str
    engine: str
    gpus: str
    stage: str = ""  # where it dies, in words
    refusal: str = ""  # what a refusal is about: gpus, model, card, format, layout, context, adapter, settings
    cause: str = ""
    engine_message: str = ""  # what the engine would print
    memory: list[Figure] = field(default_factory=list)  # of the GPU that decides
    remedies: list[Remedy] = field(default_factory=list)
    useless: list[Useless] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    more: str = ""


@dataclass
class ExplainAnswer:
    """Why a run died: the stage, the cause and what it rests on, remedies."""

    verdict: str
    failed: bool | None  # null: the text does not tell
    engine: str
    stage: str
    cause: str
    rule: str  # its page is the resource oomph://rules/ID
    basis: str
    why: str
    evidence: list[str] = field(default_factory=list)  # lines of the log
    remedies: list[Remedy] = field(default_factory=list)
    useless: list[Useless] = field(default_factory=list)
    otherwise: list[str] = field(default_factory=list)  # what it may be instead
    settle: str = ""  # what would decide
    question: str = ""  # where it failed is not known: who knows the answer calls again with its stage
    answers: dict[str, str] = field(default_factory=dict)  # "yes" and "no" -> the stage
    notes: list[str] = field(default_factory=list)
    more: str = ""


@dataclass
class Choice:
    checkpoint: str
    command: str
    gives: str
    gives_up: str


@dataclass
class FitAnswer:
    """The command that serves a model best on these GPUs."""

    verdict: str
    met: bool
    pick: Choice | None
    others: list[Choice] = field(default_factory=list)
    refused: list[Useless] = field(default_factory=list)
    basis: str = "every choice was planned at the unfavourable end of every interval"
    notes: list[str] = field(default_factory=list)


@dataclass
class InspectAnswer:
    """What a checkpoint is."""

    verdict: str
    model: str
    architecture: str
    context_length: int
    weights: list[str]
    layers: list[str]
    kv_cache_of_one_sequence: list[str]
    basis: str
    notes: list[str] = field(default_factory=list)


@dataclass
class EngineChoice:
    engine: str
    starts: bool
    figures: str
    command: str
    why_not: str


@dataclass
class CompareAnswer:
    """The same model on several engines."""

    verdict: str
    engines: list[EngineChoice]
    basis: str = "each engine planned at its best known checkpoint"


@dataclass
class ModelsAnswer:
    """The models that run well on some GPUs, the best first."""

    verdict: str
    models: list[Choice]
    basis: str = "each was planned, and fits at the unfavourable end of every interval"


def models_answer(answer: Models) -> ModelsAnswer:
    choices = [
        Choice(
            f"{pick.checkpoint} ({pick.quantization}, {engine_named(pick.engine).title})",
            pick.command,
            f"{pick.context:,} tokens of context for {pick.users} users at once{_speed(pick)}",
            pick.traded or "nothing",
        )
        for pick in answer.picks
    ]
    return ModelsAnswer(answer.why or "Nothing that is known runs on these GPUs.", choices)


def _speed(pick: Pick) -> str:
    """Tokens per second are computed, so they come with how far they may be off."""
    speed = pick.speed
    if speed is None:
        return ""
    error = speed.error.sentence() if speed.error is not None else f"within a factor of {speed.factor:g}"
    return f", about {speed.one_user:.0f} tokens/s for one user (computed: {error})"


def plan_answer(plan: Plan) -> PlanAnswer:
    engine, verdict = plan.deployment.engine, plan.verdict
    title = f"{engine_named(engine.name).title} {engine.version}"
    source = f" ({engine.version_from})" if engine.version_from else ""
    advice = plan.advice
    fixes = [*advice.fixes, *advice.helps] if advice is not None else []
    useless = advice.useless if advice is not None else ()
    return PlanAnswer(
        verdict=_verdict(plan),
        outcome=verdict.outcome,
        model=plan.model,
        engine=title + source,
        gpus=_gpus([device.name for device in plan.deployment.gpus]),
        stage=STAGE_WORDS[verdict.stage][1] if verdict.stage else "",
        refusal=verdict.refusal,
        cause=" ".join(advice.why) if advice is not None else "",
        engine_message=_cut(" ".join(verdict.message.split()), 400),
        memory=_memory(plan),
        remedies=[_remedy(judged) for judged in fixes[:REMEDIES]],
        useless=[Useless(judged.change.label, _cut(judged.why, 160)) for judged in useless[:OTHERS]],
        notes=[_cut(note, 240) for note in (*plan.warnings, *plan.assumptions)][:6],
        more=f"oomph plan --all shows every stage and term{_left_out(len(fixes) - REMEDIES)}",
    )


def _verdict(plan: Plan) -> str:
    verdict = plan.verdict
    margin = verdict.margin
    room = f", with {human(margin.low)} to {human(margin.high)} of room" if margin is not None else ""
    if verdict.outcome == "fits" or verdict.outcome == "at_risk":
        kv = plan.kv
        holds = (
            f": {kv.logged_tokens:,} tokens of KV cache, {kv.max_concurrency:.2f} requests of "
            f"{plan.resolved.get('max_model_len', 0):,} tokens at once"
            if kv is not None
            else ""
        )
        risk = f"; at risk afterwards: {verdict.risk}" if verdict.risk else ""
        return f"It starts{holds}{room}{risk}."
    where = STAGE_WORDS[verdict.stage][1] if verdict.stage else ""
    if verdict.outcome == "close":
        return f"Too close to call {where}{room}; {verdict.deciding_term} decides.".replace("  ", " ")
    short = f"{human(verdict.short_bytes)} short" if verdict.short_bytes else "the engine refuses it"
    return f"It does not start: {short}, {where}."


def _memory(plan: Plan) -> list[Figure]:
    rank = next((r for r in plan.ranks if r.rank == plan.verdict.rank), None)
    if rank is None:
        return []
    total = Figure(f"{rank.gpu}: memory of the card", human(rank.total_bytes), "", "measured")
    return [total, *(_figure(name, term) for name, term in rank.terms.items() if term.bytes)]


def _figure(name: str, term: Term) -> Figure:
    interval = f"{human(term.low)} to {human(term.high)}" if term.low != term.high else ""
    return Figure(TERM_WORDS.get(name, name.replace("_", " ")), human(term.bytes), interval, term.basis)


def _remedy(judged: Judged) -> Remedy:
    effect = _EFFECTS[judged.effect]
    holds = f", {judged.tokens:,} tokens of KV cache" if judged.tokens and judged.outcome == "fits" else ""
    return Remedy(judged.change.label, effect + holds, judged.command, judged.change.cost)


def explain_answer(explanation: Explanation) -> ExplainAnswer:
    from oomph.report.screens.explain import where_words

    died = {True: "It failed", False: "It did not fail", None: "Nobody can tell from this whether it failed"}[
        explanation.failed
    ]
    where = where_words(explanation) or (explanation.stage or "")
    sure = "" if explanation.cause.sure or not explanation.failed else " (probably)"
    return ExplainAnswer(
        verdict=f"{died}{f' {where}' if where else ''}: {explanation.cause.title}{sure}.",
        failed=explanation.failed,
        engine=f"{engine_named(explanation.engine.name).title} {explanation.engine.version}".strip()
        if explanation.engine.name
        else "",
        stage=where,
        cause=explanation.cause.title,
        rule=explanation.cause.id,
        basis=_TIERS.get(explanation.cause.tier, "no rule recognises it"),
        why=_cut(explanation.cause.text, 900),
        evidence=[f"line {line.line}: {_cut(line.text, 200)}" for line in explanation.evidence[:4]],
        remedies=[
            Remedy(
                remedy.change.label,
                "planned: it fits" if remedy.verified else "not planned: from the rule",
                remedy.command,
                remedy.costs,
            )
            for remedy in explanation.remedies[:REMEDIES]
        ],
        useless=[Useless(r.change.label, _cut(r.why, 160)) for r in explanation.rejected[:OTHERS]],
        otherwise=[f"{c.title} ({c.id})" for c in explanation.candidates[:OTHERS]]
        if not explanation.cause.sure
        else [],
        settle=explanation.settle,
        question=explanation.question.text if explanation.question else "",
        answers=dict(explanation.question.answers) if explanation.question else {},
        notes=[_cut(note, 240) for note in explanation.notes[:5]],
        more=f"oomph explain --all LOG shows everything{_left_out(len(explanation.remedies) - REMEDIES)}",
    )


def fit_answer(fit: Fit) -> FitAnswer:
    if fit.pick is None:
        verdict = "Nothing fits on these GPUs."
    elif fit.met:
        verdict = f"{fit.pick.point.arm.model} fits with what was asked."
    else:
        verdict = f"What was asked does not fit; the nearest is {fit.pick.point.arm.model}."
    answers = [answer for answer in fit.front or fit.nearest if answer is not fit.pick]
    return FitAnswer(
        verdict=verdict,
        met=fit.met,
        pick=None if fit.pick is None else _choice(fit.pick),
        others=[_choice(answer) for answer in answers[:OTHERS]],
        refused=[Useless(refused.checkpoint, _cut(refused.why, 160)) for refused in fit.refused[:OTHERS]],
        notes=list(fit.notes[:4]),
    )


def _choice(answer: Configuration) -> Choice:
    point = answer.point
    return Choice(
        point.arm.model,
        answer.command,
        f"{point.context:,} tokens of context, {point.users} users at once, {answer.precision} weights, "
        f"{answer.relative_speed:g} of the speed of the fastest choice",
        ", ".join(answer.gives_up) or "nothing",
    )


def inspect_answer(inspection: Inspection) -> InspectAnswer:
    size = f"{inspection.parameters / 1e9:.1f}B parameters"
    quantised = inspection.quantization.sentence if inspection.quantization is not None else ""
    lengths = [n for n in (8192, 32_768, inspection.context_length) if n <= inspection.context_length] or [
        inspection.context_length
    ]
    return InspectAnswer(
        verdict=f"{size}, {human(inspection.bytes)} of weights. {quantised}".strip(),
        model=inspection.model,
        architecture=inspection.architecture,
        context_length=inspection.context_length,
        weights=[f"{row.name}: {human(row.bytes)}, {', '.join(list(row.stored_as)[:3])}" for row in inspection.by_role],
        layers=[_layer(row) for row in inspection.layers],
        kv_cache_of_one_sequence=[f"{n:,} tokens: {human(inspection.kv_bytes(n))}" for n in dict.fromkeys(lengths)],
        basis="read from the headers of its files"
        if inspection.basis == "headers"
        else "computed from its config.json",
        notes=list(inspection.warnings[:4]),
    )


def _layer(row: LayerRow) -> str:
    window = f" of {row.window:,}" if row.window else ""
    return f"{row.layers} x {row.kind.replace('_', ' ')}{window}: {human(row.kv_bytes_per_token)} of cache per token"


def compare_answer(comparison: Comparison) -> CompareAnswer:
    rows = [
        EngineChoice(
            f"{engine_named(row.engine).title} {row.version}".strip(),
            row.fits,
            f"{row.checkpoint}: {human(row.weights_bytes)} of weights on GPUs, {human(row.host_bytes)} in host memory, "
            f"{row.users:.1f} requests of {row.context:,} tokens at once",
            row.command,
            row.why,
        )
        for row in comparison.rows
    ]
    return CompareAnswer(verdict=comparison.advice, engines=rows)


def without_secrets(answer: Any) -> dict[str, Any]:
    """The answer as plain values, every text without its secrets."""
    plain: dict[str, Any] = session().hide_fields(asdict(answer))
    return plain


def _gpus(names: list[str]) -> str:
    counted = dict.fromkeys(names)
    return " + ".join(f"{names.count(name)} x {name}" if names.count(name) > 1 else name for name in counted)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 4].rstrip()} ..."


def _left_out(number: int) -> str:
    return f"; {number} further changes were left out here" if number > 0 else ""
