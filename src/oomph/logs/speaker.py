"""Who is speaking, where it is none of our engines: another engine, a trainer, a build step."""

from collections.abc import Iterable, Sequence

from oomph.facts.loglines import compiled
from oomph.facts.speakers import NAMES, SPEAKERS, TRACES, Speaker
from oomph.ir.evidence import Placed
from oomph.ir.log_kinds import LogKind
from oomph.ir.observation import Observation
from oomph.logs.clean import Line
from oomph.logs.documents import is_prose
from oomph.logs.parse import ALL, engine_of, prints
from oomph.text.late import late_pattern

# what only a server prints
UP_KINDS: frozenset[LogKind] = frozenset(row.kind for row in ALL if row.up)
LOOKED_AT = 400  # lines from the beginning, and as many from the end
LONGEST = 600  # characters of a line


def foreign_speaker(lines: Sequence[Line], observations: Sequence[Observation]) -> Speaker | None:
    """None where a line is one of our engines', or where none of the others is named.

    A folder of frames or a program decides; a name in words counts only where no engine of ours is named as often.
    """
    build = _by_traces(_texts(lines), kinds=("build",))
    if build is not None and not UP_KINDS.intersection(observation.kind for observation in observations):
        return build  # TensorRT-LLM's own frames stand below its build
    if prints(observations):
        return None
    if (traced := _by_traces(_texts(lines))) is not None:
        return traced
    texts = [text for text in _texts(lines) if "--" not in text[:12]]
    counts = [sum(bool(pattern.search(text)) for text in texts) if pattern else 0 for pattern in NAMES]
    most = max(counts)
    named = sum(observation.kind == "engine_named" for observation in observations) if engine_of(observations) else 0
    ours = named + sum(observation.kind == "woken" for observation in observations)  # an endpoint of ours
    row = SPEAKERS[counts.index(most)]
    trains = row.trains and most == named and any(_TRAINS.search(text) for text in texts)
    return row if most > ours or trains else None


# a step of a training that failed: an engine named beside it made its samples
_TRAINS = late_pattern(
    r"(?i)\b(?:backward|optimi[sz]er|training (?:step|process|loop)|trainingsschritt"
    r"|per_device_train\w{0,20}|gradients?)\b"
    r"|训练(?:进程|步|时|过程)|反向传播|算\s?loss"
)


def _near(lines: Sequence[Line]) -> Sequence[Line]:
    return lines if len(lines) <= 2 * LOOKED_AT else (*lines[:LOOKED_AT], *lines[-LOOKED_AT:])


def _texts(lines: Sequence[Line]) -> list[str]:
    return [line.text[:LONGEST] for line in _near(lines)]


def _by_traces(texts: Iterable[str], kinds: Sequence[str] = ("build", "training", "engine")) -> Speaker | None:
    joined = "\n".join(texts)
    rows = (row for row, pattern in zip(SPEAKERS, TRACES, strict=True)
            if row.kind in kinds and pattern is not None and pattern.search(joined))  # fmt: skip
    return next(rows, None)


def speakers_stage(speaker: Speaker, lines: Sequence[Line]) -> Placed | None:
    """What its own functions and words say was going on; the last of them that stands in the text."""
    place: Placed | None = None
    for line in _near(lines):
        text = line.text[:LONGEST]
        stage = next((stage for pattern, stage in speaker.stages if compiled(f"(?i){pattern}").search(text)), None)
        if stage is not None:
            place = stage, "said" if is_prose(line, 2) else "traceback"
    return place
