"""A plan for people: one screen, the verdict first, then the picture, why, and what to do."""

from collections.abc import Mapping

from oomph.engines.registry import engine_of
from oomph.ir import Plan, Term
from oomph.ir.roles import role_words
from oomph.report.screens.advice import advice_lines
from oomph.report.screens.bars import bars
from oomph.report.screens.plan_lines import gpus_line, headline, host_lines, ledger, notes, unsure_lines
from oomph.report.terminal import Style, clean, folded, title
from oomph.units import gib, human

__all__ = ["Style", "folded", "gpus_line", "render", "verdict_line"]

# kinds of cache as people call them
KINDS = {"full": "full attention", "mla": "MLA", "mamba": "recurrent", "cross": "cross attention"}


def render(plan: Plan, style: Style, *, everything: bool = False, width: int = 100) -> str:
    if engine_of(plan.deployment).layout == "placed":
        from oomph.engines.llamacpp import screen as llamacpp_text

        return llamacpp_text.render(plan, style, everything=everything, width=width)
    lines = [
        "",
        *title([style.bold(clean(plan.model)), engine_line(plan), gpus_line(plan.deployment.gpus)], width),
        "",
        f"  {verdict_line(plan, style)}",
        "",
        *bars(plan, style, width),
        *(["", *_figures(plan, style)] if plan.ranks else []),
        *host_lines(plan, style, everything=everything),
        *unsure_lines(plan, style),
    ]
    lines += advice_lines(plan, style, width, engine=engine_of(plan.deployment).title)
    if everything:
        lines += ledger(plan, style, width)
    lines += notes(plan, style, everything=everything)
    return "\n".join(folded(line, width) for line in lines).rstrip() + "\n"


def engine_line(plan: Plan) -> str:
    engine = plan.deployment.engine
    source = f" ({engine.version_from})" if engine.version_from and engine.version_from != "--engine" else ""
    return f"{engine_of(plan.deployment).title} {engine.version}{source}"


def verdict_line(plan: Plan, style: Style) -> str:
    """The first line of every screen about a plan, of whatever engine."""
    if engine_of(plan.deployment).layout == "placed":
        from oomph.engines.llamacpp import screen as llamacpp_text

        return llamacpp_text.verdict(plan, style)
    return headline(plan, style, runs=_users(plan), detail=_failing_layer(plan), title=engine_of(plan.deployment).title)


def _failing_layer(plan: Plan) -> str:
    """Which tensor a load that runs out of memory asks for last."""
    verdict = plan.verdict
    if verdict.stage != "weights_load" or not plan.ranks:
        return ""
    note = next((stage.note for stage in plan.ranks[verdict.rank].stages if stage.name == verdict.stage), "")
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


def _figures(plan: Plan, style: Style) -> list[str]:
    rank = plan.ranks[0]
    parts = rank.terms["weights"].parts
    largest = sorted(parts.items(), key=lambda x: -x[1])[:4]
    weights = ", ".join(f"{role_words(k)} {human(v)}" for k, v in largest)
    if "kept in host memory" in parts:
        weights += f"; {human(-parts['kept in host memory'])} of it stay in host memory"
    lines = [f"  {style.bold('Weights')}  {gib(rank.terms['weights'].bytes)} per GPU: {weights}", *_kv(plan, style)]
    act = rank.terms["activation_peak"]
    where = activation_words(rank.terms)
    graphs, context = human(rank.terms["cudagraph"].bytes), human(rank.terms["context"].bytes)
    peak = f"activations {human(act.bytes)} ({where}), graphs {graphs}, context {context}"
    return [*lines, f"  {style.bold('Peak')}     {peak}"]


def activation_words(terms: Mapping[str, Term]) -> str:
    """Where the profiling peak is, in words."""
    why = terms["activation_peak"].why.replace("peak at: ", "")
    if why.replace("_", "").isalpha():  # the part of the model where it is
        return f"in the {role_words(why)}"
    return why.replace("compile cache is empty", "a first start: no compile cache") or "in the profiling run"


def _kv(plan: Plan, style: Style) -> list[str]:
    kv = plan.kv
    if kv is None or not kv.groups:
        return []
    kinds: dict[str, int] = {}
    for group in kv.groups:
        kinds[group.kind] = kinds.get(group.kind, 0) + group.layers
    layers = ", ".join(f"{n} {KINDS.get(k, k.replace('_', ' '))}" for k, n in kinds.items())
    have = f"{human(kv.available_bytes)} per GPU" if kv.available_bytes > 0 else "nothing is left"
    longest, need = plan.resolved["max_model_len"], human(kv.need_bytes)
    if 0 < kv.longest_request < longest:  # a check that counts windows alone, which a prompt does not keep to
        one = f"this release counts {need} for one request of {longest:,} tokens, and admits none longer than"
        one += f" {kv.longest_request:,} tokens"
    else:
        one = f"one request of {longest:,} tokens takes {need}"
    return [f"  {style.bold('KV')}       {have} for {layers} layers; {one}"]
