"""The run that a post or a log tells of, as something to plan: what `explain` reads from a text, `plan -` reads too."""

from msgspec.structs import replace

from oomph.doctor.attempts import advice_without
from oomph.doctor.beside import read_engine
from oomph.doctor.enrich import names
from oomph.doctor.explain import read_raw
from oomph.doctor.reading.story import failing_claims
from oomph.doctor.rebuild import devices
from oomph.engines.protocol import fills
from oomph.engines.registry import engine_named
from oomph.errors import CommandError, OomphError
from oomph.ir import Deployment, Plan
from oomph.ir.log_kinds import LogKind
from oomph.logs.attempts import read_attempts
from oomph.logs.clean import lines as clean_lines
from oomph.logs.documents import is_prose, sentences
from oomph.logs.parse import observe, printed_lines
from oomph.logs.reader import read_text

# Kinds of lines that people write beside a log, or in a question without one.
BESIDE: frozenset[LogKind] = frozenset(
    (
        "command",
        "docker_run",
        "e5m2_mentioned",
        "eager_given",
        "engine_named",
        "memory_short",
        "oom_mentioned",
        "said_oom",
        "swap_flag",
        "util_given",
        "version_beside",
        "version_said",
    )
)


def has_printed_lines(text: str) -> bool:
    """Whether some line is one that an engine printed: its own words about memory, an exception, a traceback."""
    try:
        return any(one.kind not in BESIDE for one in observe(clean_lines(read_text(text).lines)))
    except OomphError:
        return False


def tells_of_failure(text: str, in_any_words: bool = False) -> bool:
    """Whether somebody tells of a run that failed, in sentences of their own; the comments of a script are none.
    `in_any_words`: by what was learned of such texts too, which knows few questions."""
    try:
        raw = read_text(text)
        lines = clean_lines(raw.lines)
        if not any(is_prose(line) and not line.text.lstrip().startswith("#") for line in lines):
            return False
        case = read_raw(raw, None, ())
    except OomphError:
        return False
    return case.failed is True and (in_any_words or bool(failing_claims(case.claims)))


def posted_run(text: str, gpu: str = "", engine: str = "") -> Deployment | None:
    """The deployment whose lines the text holds or whose failure it tells of, with its release, its GPUs and the terms
    that it prints. None where neither is in it: then its commands are what is asked about. `gpu`, `engine`: what is
    known besides."""
    if not has_printed_lines(text) and not tells_of_failure(text):
        return None
    release, _ = read_engine(engine)
    command = Deployment(release, "", {}, ()) if release else None
    try:
        case = read_raw(read_text(text), command, gpu)
    except OomphError:
        return None
    owner = engine_named(case.rebuilt.engine) if case.rebuilt.engine else None
    if case.speaker is not None or owner is None or not fills(owner, "failed_deployment"):
        return None
    deployment = owner.failed_deployment(case)
    if deployment is None:
        if case.rebuilt.model and not (gpu or devices(case)):
            raise CommandError("the text does not say on which GPU it ran", hint='give it: --gpu "RTX 4090"')
        return None
    pool = case.value("available_kv", "available")
    terms = {**deployment.given, "available_kv": pool} if pool and "available_kv" in owner.terms else deployment.given
    figures = f"; as its lines print them: {', '.join(sorted(terms)).replace('_', ' ')}" if terms else ""
    note = f"the run that the text tells of, read as explain reads it{figures}"
    notes = (*deployment.notes, note)
    return replace(deployment, model=_known_name(deployment), given=terms, own_build=True, notes=notes)


def without_vain_advice(plan: Plan, text: str) -> Plan:
    """The plan of a text's run without the advice of which the text says that it did not help."""
    lines = clean_lines(read_text(text).lines)
    attempts = read_attempts(sentences(lines, printed_lines(observe(lines))))
    return replace(plan, advice=advice_without(plan.advice, attempts))


def _known_name(deployment: Deployment) -> str:
    """The model by the name under which it is found, where people shorten it or give a path of their own machine."""
    from oomph.answers.plan import load

    if engine_named(deployment.engine.name).layout == "placed":
        return deployment.model
    for name in names(deployment.model):
        try:
            load(name)
        except OomphError:
            continue
        return name
    return deployment.model
