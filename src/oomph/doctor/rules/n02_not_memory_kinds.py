"""N02 to N30: failures that are not about GPU memory. Each is a row of reading/not_memory.py, and so is its page."""

import re
from collections.abc import Callable

from oomph.doctor.reading.not_memory import GGUF, PYTHON, ROWS, Trouble
from oomph.doctor.reading.tracebacks import joins_ranks
from oomph.doctor.writing import Case, Finding, Rule, Tier
from oomph.engines.registry import DEFAULT
from oomph.ir import STAGES, Change

# a kind that another kind's row answers
ALSO: dict[str, str] = {"x_ray_wait": "x_ray"}
ENGINES = (*PYTHON, *GGUF)


def matcher(trouble: Trouble) -> Callable[[Case], Finding | None]:
    def match(case: Case) -> Finding | None:
        kind = case.death.kind
        if place := _cut_inside(trouble, case):
            text = f"The traceback ends inside of {place}, before the line that says why. " + filled(trouble.text, {})
            ways = remedies(trouble, case.rebuilt.engine or DEFAULT, {})
            return Finding(Tier.LIKELY, text, (case.death.line,), ways)
        if kind is None or not case.failed or not answers(trouble.kind, kind):
            return None
        evidence = next(line for line in case.observations if line.kind == kind and line.line == case.death.line)
        values = {name: str(value) for name, value in evidence.values.items()}
        text = filled(trouble.text, values)
        quote = " ".join(evidence.text.split())[:200].rstrip(". ")
        return Finding(
            Tier.SAID,
            f'{text} The line that says so: "{quote}".',
            (evidence.line,),
            remedies(trouble, case.rebuilt.engine or DEFAULT, values),
            {"gpu_flags": "memory is not what it failed of"},
        )

    return match


_COMPILERS = ("/torch/_dynamo/", "/torch/_inductor/", "/triton/compiler/", "/triton/backends/")


def _cut_inside(trouble: Trouble, case: Case) -> str:
    """What a cut traceback ends in, where that alone says which kind of trouble it is."""
    if trouble.kind == "x_compiler" and _compiling(case):
        return "torch.compile"
    joining = bool(case.failed) and not case.memory and joins_ranks(case.death.kind, case.death.files)
    return "NCCL's set-up" if trouble.kind == "x_nccl" and joining else ""


def _compiling(case: Case) -> bool:
    """A cut traceback, without a word about memory, whose frames are a compiler's."""
    cut = case.death.kind in ("frame", "engine_failed", "secondary") and not case.memory
    return bool(case.failed) and cut and any(part in path for path in case.death.files for part in _COMPILERS)


def answers(row: str, kind: str) -> bool:
    return ALSO.get(kind, kind) == row


def remedies(trouble: Trouble, engine: str, values: dict[str, str]) -> tuple[Change, ...]:
    """The engine's own way first, then what is true for all of them."""
    own = [trouble.own[engine]] if engine in trouble.own else []
    ways = [(filled(change, values), costs) for change, costs in (*own, *trouble.ways)]
    return tuple(
        Change(_lever(trouble, change, i), change, "host", cost=costs, rank=i) for i, (change, costs) in enumerate(ways)
    )


# what a way changes, where it is something that many kinds of trouble have in common
_MOVES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("release", re.compile(r"\brelease\b|\bnewer\b")),
    ("backend", re.compile(r"-backend\b|another (?:attention|quantisation) kernel")),
    ("no_graphs", re.compile(r"eager|disable-cuda-graph")),
)


def _lever(trouble: Trouble, change: str, place: int) -> str:
    """The first way, and the only one, is the trouble's own; of the others the name of what they change."""
    moves = (name for name, words in _MOVES if words.search(change)) if place and trouble.ways[1:] else iter(())
    return next(moves, trouble.kind.removeprefix("x_"))


def filled(text: str, values: dict[str, str]) -> str:
    """With the line's values in it; a sentence that needs one that is not there is left out."""
    sentences = re.split(r"(?<=\.) (?=[A-Z{])", text)
    complete = [s for s in sentences if all(name in values for name in re.findall(r"(?<!\{)\{(\w+)\}", s))]
    return " ".join(s.format(**values) for s in complete) or re.sub(r" ?\{\w+\}", "", sentences[0])


def page(trouble: Trouble) -> str:
    own = [f"{engine}: {change}" for engine, (change, _) in trouble.own.items()]
    fixes = "; ".join([change for change, _ in trouble.ways] + own)
    return (
        f"{trouble.id}: {trouble.title}.\n\nWhat it is: {filled(trouble.text, {})}\n\n"
        f"How to recognise it: {trouble.recognise}\n\nLook-alikes: {trouble.look_alike}.\n\n"
        f"What fixes it: {fixes}.\n\nWhat does not: {trouble.not_this}.\n\n"
        f"Evidence: {', '.join(trouble.evidence)}.\n"
    )


RULES = tuple(
    Rule(row.id, row.title, tuple(STAGES), matcher(row), engines=ENGINES, about_memory=False, page=page(row))
    for row in ROWS
)
