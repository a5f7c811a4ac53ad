"""A plan: the verdict first, then the picture, why, and what to do."""

from collections.abc import Mapping

from oomph.commands import to_shell, without_secrets
from oomph.engines.registry import engine_of
from oomph.ir import STAGE_WORDS, Plan, Term
from oomph.ir.roles import role_words
from oomph.report.answer import (
    Answer,
    Bars,
    Basis,
    Block,
    Details,
    Facts,
    Heading,
    Notes,
    Question,
    Room,
    StartUp,
    Verdict,
)
from oomph.report.screens.plan_words import gpus_line, host_parts, host_rows, settling_words, verdict_of
from oomph.units import gib, human

# kinds of cache as people call them
KINDS = {"full": "full attention", "mla": "MLA", "mamba": "recurrent", "cross": "cross attention"}


def answer(plan: Plan, speed: str = "") -> Answer:
    """`speed`: of one user, where somebody computed it."""
    placed = engine_of(plan.deployment).layout == "placed"
    shown = bool(plan.ranks) or (placed and plan.host is not None)
    blocks: list[Block] = [Question(to_shell(without_secrets(plan.deployment))), *room(plan)]
    if plan.ranks:
        blocks.append(Bars(plan))
    blocks += [
        Facts((*(_figures(plan) if shown else ()), *host_rows(plan))),
        Details("Host memory, part by part", (Facts(host_parts(plan)),)),
        Facts((("Unsure", settling_words(plan.verdict)), ("Speed", speed))),
        *_advice(plan),
    ]
    if plan.ranks:
        blocks += [StartUp(plan), Basis(plan)]
    return Answer(
        "plan",
        heading(plan),
        verdict(plan),
        (*blocks, *_notes(plan)),
        {"outcome": plan.verdict.outcome, "stage": plan.verdict.stage or ""},
    )


def heading(plan: Plan) -> Heading:
    return Heading(plan.model, (_engine(plan), gpus_line(plan.deployment.gpus) or "no GPU"))


def _engine(plan: Plan) -> str:
    engine = plan.deployment.engine
    source = f" ({engine.version_from})" if engine.version_from and engine.version_from != "--engine" else ""
    return f"{engine_of(plan.deployment).title} {engine.version}{source}"


def verdict(plan: Plan) -> Verdict:
    """The first line of every screen about a plan, of whatever engine."""
    if engine_of(plan.deployment).layout == "placed":
        from oomph.engines.llamacpp import screen

        return screen.verdict(plan)
    return verdict_of(plan, runs=_users(plan), detail=_failing_layer(plan), title=engine_of(plan.deployment).title)


def room(plan: Plan) -> tuple[Room, ...]:
    margin, stage = plan.verdict.margin, plan.verdict.stage or plan.verdict.first_to_break
    words = STAGE_WORDS[stage][0] if stage in STAGE_WORDS else "the tightest stage"
    return (Room(margin, words),) if margin is not None and plan.ranks else ()


def _failing_layer(plan: Plan) -> str:
    """Which tensor a load that runs out of memory asks for last."""
    failure = plan.verdict
    if failure.stage != "weights_load" or not plan.ranks:
        return ""
    note = next((stage.note for stage in plan.ranks[failure.rank].stages if stage.name == failure.stage), "")
    return note.replace("dies at", ", at")


def _users(plan: Plan) -> str:
    kv = plan.kv
    if kv is None:
        return ""
    tokens = plan.resolved.get("max_model_len", 0)
    replicas = plan.resolved.get("data_parallel_size", plan.resolved.get("dp_size", 1))
    line = f"{kv.logged_tokens:,} tokens of KV cache, {requests_words(kv.max_concurrency)} of {tokens:,} tokens at once"
    if replicas < 2:
        return line
    requests = requests_words(replicas * kv.max_concurrency)
    return f"{line} in each of {replicas} replicas; {replicas * kv.logged_tokens:,} tokens, {requests} in all"


def requests_words(number: float) -> str:
    """Below one no request of that length fits: the start is allowed all the same, and the next line says why."""
    return f"{number:.2f} requests" if number >= 0.995 else "less than one request"


def _figures(plan: Plan) -> tuple[tuple[str, str], ...]:
    if engine_of(plan.deployment).layout == "placed":
        from oomph.engines.llamacpp import screen

        return screen.figures(plan)
    terms = plan.ranks[0].terms
    parts = terms["weights"].parts
    largest = sorted(parts.items(), key=lambda part: -part[1])[:4]
    weights = ", ".join(f"{role_words(role)} {human(size)}" for role, size in largest)
    if "kept in host memory" in parts:
        weights += f"; {human(-parts['kept in host memory'])} of it stay in host memory"
    activations = f"activations {human(terms['activation_peak'].bytes)} ({_activation_words(terms)})"
    graphs, context = human(terms["cudagraph"].bytes), human(terms["context"].bytes)
    return (
        ("Weights", f"{gib(terms['weights'].bytes)} per GPU: {weights}"),
        ("KV", _cache(plan)),
        ("Peak", f"{activations}, graphs {graphs}, context {context}"),
    )


def _activation_words(terms: Mapping[str, Term]) -> str:
    """Where the profiling peak is, in words."""
    why = terms["activation_peak"].why.replace("peak at: ", "")
    if why.replace("_", "").isalpha():  # the part of the model where it is
        return f"in the {role_words(why)}"
    return why.replace("compile cache is empty", "a first start: no compile cache") or "in the profiling run"


def _cache(plan: Plan) -> str:
    kv = plan.kv
    if kv is None or not kv.groups:
        return ""
    kinds: dict[str, int] = {}
    for group in kv.groups:
        kinds[group.kind] = kinds.get(group.kind, 0) + group.layers
    layers = ", ".join(f"{n} {KINDS.get(kind, kind.replace('_', ' '))}" for kind, n in kinds.items())
    have = f"{human(kv.available_bytes)} per GPU" if kv.available_bytes > 0 else "nothing is left"
    longest, need = plan.resolved["max_model_len"], human(kv.need_bytes)
    if 0 < kv.longest_request < longest:  # a check that counts windows alone, which a prompt does not keep to
        one = f"this release counts {need} for one request of {longest:,} tokens, and admits none longer than"
        one += f" {kv.longest_request:,} tokens"
    else:
        one = f"one request of {longest:,} tokens takes {need}"
    return f"{have} for {layers} layers; {one}"


def _advice(plan: Plan) -> tuple[Block, ...]:
    if plan.advice is None:
        return ()
    if engine_of(plan.deployment).layout == "placed":
        from oomph.engines.llamacpp import screen

        return screen.advice(plan, plan.advice)
    from oomph.report.screens.advice import advice_blocks

    return advice_blocks(plan, plan.advice, engine=engine_of(plan.deployment).title)


def _notes(plan: Plan) -> tuple[Block, ...]:
    """What rests on an assumption is said where it could change the outcome, and in the whole ledger."""
    if not plan.ranks:
        return (Notes(plan.warnings),)
    grounds = (plan.grounds.text,) if plan.grounds is not None else ()
    return (
        Notes(plan.warnings),
        Details("What is assumed", (Notes(plan.assumptions, "assumed", ""), Notes(grounds, "rests on", ""))),
    )
