"""Where a start-up died: the first real exception, the frames above it, and the last milestone before it.

The traceback decides when it is there; the milestones (a stage is entered when the previous one's closing line was
printed) when it is not; a log without any error has not failed, and is said to end in the stage after its last
milestone.
"""

import re
from collections.abc import Collection, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from oomph.doctor.reading.doubt import SETTLES, Doubt, find_doubt, unread_sentence, unworded_doubt
from oomph.doctor.reading.failing_stage import failing_stage
from oomph.doctor.reading.failure import ENDS, FAR, OWN_RUN, RAYS_LIST, STARTED, find_failure, last_ready
from oomph.doctor.reading.guesses import guess
from oomph.doctor.reading.last_signs import code_names, stage_of_story, weakest_sign
from oomph.doctor.reading.meanings import FAILURES, MILESTONES, TROUBLES, UNFINISHED, WEAK, stage_of
from oomph.doctor.reading.milestones import milestone
from oomph.doctor.reading.places import place_stage
from oomph.doctor.reading.prose import is_about, learned_chances, mixed, probability
from oomph.doctor.reading.story import BESIDE, NAMED, asserted, failing_claims, speaks_of_failure, told_stage
from oomph.doctor.reading.tracebacks import behind, frame_stage, traceback
from oomph.engines.llamacpp.log import stages as stages_llamacpp
from oomph.engines.registry import DEFAULT, engine_named
from oomph.facts.topics import MEMORY_TOPICS, topics_of
from oomph.ir import StageName
from oomph.ir.evidence import Placed, StageBasis
from oomph.ir.log_kinds import LogKind
from oomph.ir.observation import Observation
from oomph.logs.claims import Claim
from oomph.logs.clean import Line
from oomph.logs.documents import is_prose, quotes
from oomph.logs.parse import engine_of, printed_lines
from oomph.logs.shape import shortage
from oomph.logs.structure import runs


class Death(Struct, frozen=True):
    failed: bool | None  # None: there are signs of an error, and nothing says that the run ended of it
    stage: StageName | None
    basis: StageBasis
    line: int = 0  # of the failure, or of the sign
    kind: str | None = None
    functions: tuple[str, ...] = ()  # of the traceback, outermost first
    files: tuple[str, ...] = ()
    completed: frozenset[str] = frozenset()  # kinds seen before the failure
    settle: str = ""  # of a doubt: what would decide it
    quote: str = ""  # the failing line, or the sign
    by_people: bool = False  # people say so in their own words, and no program
    pinned: bool = False  # it was memory of the host that could not be locked for the GPU
    ruled: StageName | None = None  # what the written rules say, if anything, where what is learned was weighed beside
    learned: tuple[
        tuple[StageName, float], ...
    ] = ()  # what texts like it were about, where only people tell (prose.py)


WEIGHED: Final[frozenset[StageBasis]] = frozenset({"said", "guess"})
NEAR: Final = 0.15  # by less the rules are not overruled: what else they read, the cause, rests on their stage
SAYS: Final = 0.85  # how likely it has to be learned that a failure is told, where no word that is known says so
TAKES_BACK: Final = 0.5  # and that none is, where a word of one stands


def weighed(death: Death, text: str, missing: Collection[str] = ()) -> Death:
    """The likeliest stage of both, where nothing but people's words says it."""
    if not death.failed or death.basis not in WEIGHED or death.stage is None:
        return death
    learned = learned_chances(text, missing)
    if not learned:
        return death
    unknown = death.basis == "guess" and death.stage == "other"  # the rules read nothing of a stage
    chances = mixed({} if unknown else {death.stage: probability(death.basis)}, learned)
    stage = max(chances, key=lambda name: chances[name] + (NEAR if name == death.stage and not unknown else 0))
    return replace(death, stage=stage, ruled=None if unknown else death.stage, learned=tuple(learned.items()))


def chosen_run(observations: Sequence[Observation]) -> tuple[Sequence[Observation], tuple[str, ...]]:
    """Of a text with several start-ups the last that failed, else the last; and what is to be said of the others."""
    pieces = runs(observations, lambda piece: find_failure(piece) is not None or last_ready(piece) > 0)
    if len(pieces) < 2:
        return observations, ()
    failed = [i for i, piece in enumerate(pieces) if find_failure(piece) is not None]
    if not failed:
        return pieces[-1], ()
    index = failed[-1]
    notes = [f"{len(pieces)} start-ups are in this text, {len(failed)} of them failed; this is the last that did"]
    later = [piece for piece in pieces[index + 1 :] if last_ready(piece)]
    if later:
        notes.append(
            f"a later start in this text was up (line {last_ready(later[-1])}): what changed between the two is the fix"
        )
    return pieces[index], tuple(notes) if len(pieces) > 1 else ()


def death(
    observations: Sequence[Observation],
    lines: Sequence[Line] = (),
    claims: Sequence[Claim] = (),
    engine: str = "",
) -> Death:
    """What the engine's lines say decides; of what they leave open, what people claim. `engine`: whose text it is."""
    missing = engine_named(engine or engine_of(observations) or DEFAULT).words.missing_stages
    failure = find_failure(observations)
    if failure is None or _taken_back(failure, observations, lines, claims):
        return _ended(observations, lines, claims, missing)
    index = next(i for i, observation in enumerate(observations) if observation is failure)
    before = observations[:index]
    completed = frozenset(o.kind for o in before)
    functions, files = traceback(observations, index)
    if failure.kind == "engine_failed" and frame_stage(functions, files) is None:
        functions, files = behind(observations, index)  # the workers' tracebacks stand above it, its own below
    runner = _runner_report(failure, observations)
    if runner is not None:
        called = stages_llamacpp.where(observations, failure.line - FAR, 2 * FAR)
        placed = stages_llamacpp.phase(observations, runner, milestone(before))
        place: Placed = (called, "message") if called else placed or ("other", "guess")
        stage, basis = place
        return Death(True, stage, basis, failure.line, failure.kind, completed=completed, quote=failure.text)
    if _llama(failure, observations):
        title = failure.text.startswith("# ")  # people put it above the lines that it is about
        by_lines = stages_llamacpp.phase(observations, index, milestone(observations if title else before))
        place = by_lines or (guess(failure, observations), "guess")
        stage, basis = place
        if by_lines is None or stages_llamacpp.alone(observations, index):
            weakest, how = weakest_sign(failure, stage, (), (), observations, lines, claims, missing)
            has = weakest not in ("cudagraph_capture", "profile_run", "cudagraph_profile", "sampler_warmup", "kv_check")
            stage, basis = (weakest, how) if how == "said" and has else (stage, basis)
        basis = grade(basis, failure, lines)
        went_on = failure.kind in stages_llamacpp.RECOVERABLE and stages_llamacpp.recovered(observations, index)
        return Death(not went_on, stage, basis, failure.line, failure.kind, completed=completed, quote=failure.text,
                     by_people=is_told(failure, lines))  # fmt: skip
    subject = failure
    if failure.kind in PARENTS and (own := _child(observations, index)) is not None:
        subject = observations[own]  # what the child itself raised stands above its parent's report
        functions, files = traceback(observations, own)
    named, weight = stage_of_story(failure, lines, claims, missing)
    story_stage = named if weight >= NAMED / 2 else None
    stage, basis = failing_stage(subject, functions, files, observations[:index], observations, story_stage)
    if basis == "guess":
        stage, basis = weakest_sign(failure, stage, functions, files, observations, lines, claims, missing)
    if stage in missing:
        stage, basis = _instead(failure), "guess"
    return Death(
        True,
        stage=stage,
        basis=grade(basis, failure, lines),
        line=failure.line,
        kind=failure.kind,
        functions=functions,
        files=files,
        completed=completed,
        quote=failure.text,
        by_people=is_told(failure, lines),
    )


def _taken_back(
    failure: Observation, observations: Sequence[Observation], lines: Sequence[Line], claims: Sequence[Claim]
) -> bool:
    """People's words of a failure, in a text that is about one of former days or about none."""
    by_people = failure.kind in OWN_WORDS and is_told(failure, lines)
    if failure.kind in ENDS and _in_a_sentence(failure, lines):  # "page me if it is OOMKilled twice an hour"
        supposed = any(claim.outcome == "failed" and not claim.factual for claim in claims)
        return supposed and not failing_claims(claims)
    if not by_people or not {one.kind for one in observations} <= BESIDE_LOG | OWN_WORDS:
        return False
    return not failing_claims(claims) or is_about(lines, TAKES_BACK) == "none"


def _in_a_sentence(failure: Observation, lines: Sequence[Line]) -> bool:
    line = next((line for line in lines if line.number == failure.line), None)
    return line is not None and is_prose(line) and quotes(line.text)


def grade(basis: StageBasis, failure: Observation, lines: Sequence[Line]) -> StageBasis:
    """A message is what a program printed. What people tell in their own words is a claim, however plain; how a process
    was ended is a status; and Ray's list of what may have ended a worker names nothing."""
    if basis != "message":
        return basis
    if RAYS_LIST in failure.text:
        return "guess"
    if is_told(failure, lines):
        return "said"
    return "status" if failure.kind in ENDS else basis


def is_told(failure: Observation, lines: Sequence[Line]) -> bool:
    """Somebody's own words, not a program's."""
    if "title" in failure.values or "told" in failure.values:
        return True
    if failure.kind not in OWN_WORDS:
        return False
    line = next((line for line in lines if line.number == failure.line), None)
    return line is not None and is_prose(line)


# lines that people word themselves; the other kinds are a program's own sentences, whoever quotes them
OWN_WORDS: frozenset[LogKind] = frozenset({"memory_short", "oom_mentioned", "said_failed"})


def _instead(failure: Observation) -> StageName:
    """Of a guess at a stage that this engine does not have: by what PyTorch held, the load or what follows the pool."""
    if failure.kind in TROUBLES or failure.kind in WEAK:
        return "other"
    allocated, total = failure.values.get("allocated"), failure.values.get("total")
    pool = isinstance(allocated, int) and isinstance(total, int) and allocated > 0.6 * total
    return "cudagraph_capture" if failure.kind == "torch_oom" and pool else "weights_load"


PARENTS: frozenset[LogKind] = frozenset({"secondary", "engine_dead", "engine_failed"})
_OF_A_CHILD = re.compile(
    r"core initialization failed|failed core proc|EngineCore encountered|See (?:root|stack)|errored already"
)


def _child(observations: Sequence[Observation], index: int) -> int | None:
    """The last exception before a parent's report that is another process's own."""
    parent = observations[index].process
    for at in range(index - 1, max(-1, index - 400), -1):
        one = observations[at]
        own = one.kind == "exception" and one.process and one.process != parent
        if own and not _OF_A_CHILD.search(one.text):
            return at
    return None


def _runner_report(failure: Observation, observations: Sequence[Observation]) -> int | None:
    """Ollama's report of a runner that ended, where this line of it is not about memory: the load ended."""
    if failure.kind not in TROUBLES or TROUBLES[failure.kind] is not None:
        return None
    same = (i for i, o in enumerate(observations) if o.kind == "ol_runner_died" and o.line == failure.line)
    return next(same, None)


def _llama(failure: Observation, observations: Sequence[Observation]) -> bool:
    """A line of ggml's, of llama.cpp's or of Ollama's, or a bare "CUDA error: out of memory" among them."""
    if failure.kind.startswith(("lc_", "ol_")):
        others = {observation.kind for observation in observations if observation.line != failure.line}
        if (
            failure.kind in ("lc_malloc", "lc_cublas")
            and not any(k.startswith(("lc_", "ol_")) for k in others)
            and (MILESTONES.keys() & others or failure.kind == "lc_cublas")
        ):
            return False  # SYCL's, Vulkan's or cuBLAS's words, in another engine's log
        return stage_of(FAILURES, failure.kind) is None or failure.kind in stages_llamacpp.RECOVERABLE
    if failure.kind not in ("cuda_error_oom", "cuda_busy"):
        return False
    behind = [o.kind for o in observations if 0 <= o.line - failure.line <= 3]
    by_ggml = bool({"lc_where", "lc_line", "ol_path"}.intersection(behind))
    return by_ggml and not any(observation.kind == "frame" for observation in observations)


# what people write around a log; without a line of an engine nothing is known
BESIDE_LOG: frozenset[LogKind] = frozenset(
    {"command", "docker_run", "util_given", "eager_given", "version_beside", "version_said", "engine_named", "rss",
     "mig"}
)  # fmt: skip


def _told(
    observations: Sequence[Observation],
    lines: Sequence[Line],
    completed: frozenset[str],
    claims: Sequence[Claim],
    missing: Sequence[str],
) -> Death | None:
    """A failure that is only told. Below the lines of a running server a bare word of an error is none."""
    failing = failing_claims(claims)
    up = bool(last_ready(observations))
    claim = next((one for one in failing if one.memory or one.ended), None) or (failing[0] if failing else None)
    if claim is None or ("proposed" in completed and completed.isdisjoint(OWN_RUN)):
        return None
    if not claim.memory and not claim.ended and (up or (completed.isdisjoint(STARTED) and not claim.mentions)):
        return None
    least = TAKES_BACK if any(MEMORY_TOPICS & topics_of(one.text) for one in claims) else SAYS
    short = claim.memory or (completed <= BESIDE_LOG and is_about(lines, least) == "memory")
    kind: LogKind = "memory_short" if short else "said_failed"
    values = shortage(claim.text) if claim.memory else None
    failure = Observation(claim.line, kind, {**(values or {})}, None, "", claim.text)
    stage, weight = told_stage(claims, missing)
    if stage is not None and weight >= BESIDE / 2:
        return Death(True, stage, "said", claim.line, kind, completed=completed, quote=claim.text, by_people=True)
    if up:
        return Death(True, "runtime_request", "said", claim.line, kind, completed=completed, quote=claim.text,
                     by_people=True)  # fmt: skip
    place = failing_stage(failure, (), (), observations, (*observations, failure), stage)
    if place[1] == "guess":
        place = weakest_sign(failure, place[0], (), (), observations, lines, claims, missing)
    basis: StageBasis = "said" if place[1] == "message" else place[1]
    return Death(True, place[0], basis, claim.line, kind, completed=completed, quote=claim.text, by_people=True)


def _learned(lines: Sequence[Line], completed: frozenset[str], claims: Sequence[Claim]) -> Death | None:
    """A failure that is told in words which no pattern knows, by what was learned of such texts. A question, a wish,
    advice for a case that may come tell of none, whatever their words are: what is left without them has to."""
    about, left = is_about(lines, SAYS), asserted(claims)
    if about not in ("memory", "other") or (left is not None and is_about(left, SAYS) not in ("memory", "other")):
        return None
    kind: LogKind = "memory_short" if about == "memory" else "said_failed"
    line = next(line for line in lines if is_prose(line))
    return Death(True, "other", "guess", line.number, kind, completed=completed, quote=line.text, by_people=True)


def _ended(
    observations: Sequence[Observation], lines: Sequence[Line], claims: Sequence[Claim], missing: Sequence[str]
) -> Death:
    """No failure is in the text. That nothing failed is said only of a server that was up, and only where nobody speaks
    of a failure: a start that is cut off has not failed yet, and nobody knows what came next."""
    completed = frozenset(observation.kind for observation in observations)
    doubt = find_doubt(observations) or unworded_doubt(lines, last_ready(observations))
    by_people = _told(observations, lines, completed, claims, missing)
    if by_people is not None and (not completed <= BESIDE_LOG or is_about(lines, TAKES_BACK) != "none"):
        return by_people
    # lines of a program that stand only in the middle of what people write: "it gets to `Capturing CUDA graphs` and"
    is_told = completed <= BESIDE_LOG or not (last_ready(observations) or printed_lines(observations))
    if doubt is None and is_told and (in_own_words := _learned(lines, completed, claims)) is not None:
        return in_own_words
    spoken = speaks_of_failure(claims)
    if doubt is None and spoken is not None:
        doubt = Doubt(spoken.line, spoken.text, SETTLES, by_people=True)
    if doubt is None and last_ready(observations):
        doubt = unread_sentence(claims, observations, lines)
    if doubt is not None:
        names = code_names(lines, doubt.line)
        by_code = frame_stage(names) or place_stage(names, ())
        stage = milestone(observations) or by_code or told_stage(claims, missing)[0]
        return Death(None, stage, "the log ends here", doubt.line, completed=completed,
                     settle=doubt.settle, quote=doubt.text, by_people=doubt.by_people)  # fmt: skip
    if completed <= BESIDE_LOG:
        return Death(
            None, None, "the log ends here", completed=completed, settle="the engine's own output, from its first line"
        )
    failed, settle = (False, "") if last_ready(observations) else (None, UNFINISHED)
    return Death(failed, milestone(observations), "the log ends here", completed=completed, settle=settle)
