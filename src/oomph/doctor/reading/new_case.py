"""Lines and what was observed in them to a `Case`: which run, how it ended, what was started, and where."""

from collections.abc import Sequence

from msgspec.structs import replace

from oomph.doctor.case import Case
from oomph.doctor.ledger import account
from oomph.doctor.reading.card_in_text import gpu_mentioned
from oomph.doctor.reading.meanings import TROUBLES, stage_of
from oomph.doctor.reading.pinned import is_pinned
from oomph.doctor.reading.prose import words_of
from oomph.doctor.reading.retold import with_retold
from oomph.doctor.reading.stages import BESIDE_LOG, OWN_WORDS, Death, chosen_run, death, weighed
from oomph.engines.registry import DEFAULT, engine_named
from oomph.facts.speakers import Speaker
from oomph.ir import Device, StageName
from oomph.ir.observation import Observation
from oomph.logs.attempts import Attempt, read_attempts
from oomph.logs.claims import read_claims
from oomph.logs.clean import Line
from oomph.logs.deployment import Rebuilt, rebuild
from oomph.logs.documents import MOST_LINES, is_prose, sentences
from oomph.logs.parse import printed_lines, prints
from oomph.logs.speaker import foreign_speaker, speakers_stage
from oomph.logs.structure import SOFT_STARTS, STARTS

_SETTINGS = ("SamplingParams(", "LLM engine (v")


def build_case(
    lines: Sequence[Line], observations: Sequence[Observation], gpus: tuple[Device, ...] = (), engine: str = ""
) -> Case:
    """`engine`: whose text it is, for somebody who says so; its lines count where nobody does."""
    observations = with_retold(lines, observations)
    run, notes = chosen_run(observations)
    card, cards = gpu_mentioned(lines)
    speaker = None if engine else foreign_speaker(lines, observations)
    of_run = of_one_run(lines, observations, run)
    rebuilt = rebuild(*of_run, engine)
    rebuilt = replace(rebuilt, engine="") if speaker is not None else _on_all(rebuilt, cards)
    read_until = lines[min(len(lines), MOST_LINES) - 1].number if lines else 0
    story = sentences(lines, printed_lines([one for one in observations if one.line <= read_until]))
    claims = read_claims(story)
    dead = death(run, lines, claims, engine)
    attempts = read_attempts(sentences(lines))
    if is_pinned(dead.kind, dead.line, lines):
        dead = replace(dead, stage="host_ram", basis="traceback", pinned=True)
    elif speaker is not None:
        dead = _of_speaker(dead, speaker, lines)
    elif (cure := _stage_of_cure(dead, attempts, rebuilt.engine)) is not None:
        dead = replace(dead, stage=cure, basis="said")
    fixed = stage_of(TROUBLES, dead.kind or "") is not None
    if dead.by_people and not fixed and not prints(observations) and (speaker is None or speaker.serves):
        missing = engine_named(rebuilt.engine or engine or DEFAULT).words.missing_stages if speaker is None else ()
        dead = weighed(dead, words_of(lines), missing)
    util = rebuilt.get("gpu_memory_utilization")
    ledger = account(run, dead, float(util) if isinstance(util, (int, float)) else None)
    near = (line for line in lines if dead.line and abs(line.number - dead.line) <= 60)
    # a dumped request names every option there is
    # the settings of the engine or of a request name everything that there is ("max_vision_items_per_batch")
    words = " ".join(line.text.strip() for line in near if not any(word in line.text for word in _SETTINGS))
    return Case(tuple(run), rebuilt, dead, ledger, gpus, card, text=words[: 32 << 10], notes=notes,
                has_story=_story(lines, observations), claims=claims,
                attempts=attempts, speaker=speaker)  # fmt: skip


def _stage_of_cure(dead: Death, attempts: Sequence[Attempt], engine: str) -> StageName | None:
    """What cured a failure whose stage is only guessed tells its stage: CUDA's bare words are the same for weights and
    cache, and a shorter context loads; graphs are captured nowhere else."""
    if not dead.failed or dead.basis != "guess" or (dead.kind in TROUBLES):
        return None
    helped = {one.topic for one in attempts if one.result == "helped"}
    words = engine_named(engine).words if engine else None
    if "graphs" in helped and dead.by_people and not (words and "cudagraph_capture" in words.missing_stages):
        return "cudagraph_capture"
    placed = bool(engine) and engine_named(engine).layout == "placed"
    return "kv_alloc" if placed and dead.stage == "weights_load" and "context" in helped else None


def _of_speaker(dead: Death, speaker: Speaker, lines: Sequence[Line]) -> Death:
    """A program that is none of ours has stages of its own: its functions name them, and ours are not told of it. What
    ends any process, and what people tell, holds for it too."""
    if not dead.failed or dead.basis == "status" or speaker.engine:
        return dead  # a step of an engine of ours is placed by that engine's own code
    own = speakers_stage(speaker, lines)
    if own is not None and not (own[1] == "said" and dead.basis == "said"):
        return replace(dead, stage=own[0], basis=own[1])
    if not speaker.serves and dead.stage != "host_ram":
        return replace(dead, stage="other", basis="guess")
    return dead if dead.basis in ("said", "message") else replace(dead, basis="guess")


def _story(lines: Sequence[Line], observations: Sequence[Observation]) -> bool:
    """Somebody wrote a title or a sentence that is no line of a log."""
    printed = {observation.line for observation in observations if observation.kind not in BESIDE_LOG | OWN_WORDS}
    return any(
        is_prose(line) and (line.text.startswith("# ") or line.number not in printed) for line in lines[:MOST_LINES]
    )


def of_one_run(
    lines: Sequence[Line], observations: Sequence[Observation], run: Sequence[Observation]
) -> tuple[Sequence[Line], Sequence[Observation]]:
    """What belongs to this run, and what stands before the first: the settings of two runs never meet."""
    if len(run) == len(observations) or not run:
        return lines, observations
    begin = next((observation.line for observation in observations if observation.kind in STARTS | SOFT_STARTS), 0)
    first, last = run[0].line, run[-1].line

    def belongs(number: int) -> bool:
        return number < begin or first <= number <= last

    return [line for line in lines if belongs(line.number)], [
        observation for observation in observations if belongs(observation.line)
    ]


def _on_all(rebuilt: Rebuilt, cards: int) -> Rebuilt:
    """Of what was started the model's name is known, and single flags: it is taken to run on all cards that the text
    counts."""
    has_command = bool(rebuilt.model) and rebuilt.model in rebuilt.command
    is_split = any("parallel" in name for name in rebuilt.flags)
    is_known = has_command or rebuilt.complete or rebuilt.resolved or is_split
    splits = engine_named(rebuilt.engine or DEFAULT).knows_flag("--tensor-parallel-size")
    if is_known or not rebuilt.model or cards < 2 or not splits:
        return rebuilt
    return replace(
        rebuilt,
        flags={**rebuilt.flags, "tensor_parallel_size": cards},
        sources={**rebuilt.sources, "tensor_parallel_size": "the cards in the text"},
    )
