"""Where a start-up died: the first real exception, the frames above it, and the last milestone before it.

The traceback decides when it is there; the milestones (a stage is entered when the previous one's closing line was
printed) when it is not; a log without any error has not failed, and is said to end in the stage after its last
milestone.
"""

import re
from collections.abc import Sequence

from msgspec import Struct

from oomph.doctor.reading.doubt import find_doubt, unworded_doubt
from oomph.doctor.reading.failing_stage import failing_stage
from oomph.doctor.reading.failure import FAR, OWN_RUN, STARTED, find_failure, last_ready
from oomph.doctor.reading.guesses import guess
from oomph.doctor.reading.last_signs import code_names, weakest_sign
from oomph.doctor.reading.meanings import FAILURES, MILESTONES, TROUBLES, UNFINISHED, WEAK, stage_of
from oomph.doctor.reading.milestones import milestone
from oomph.doctor.reading.places import place_stage
from oomph.doctor.reading.prose import activity
from oomph.doctor.reading.told import find_told
from oomph.doctor.reading.tracebacks import behind, frame_stage, traceback
from oomph.engines.llamacpp.log import stages as stages_llamacpp
from oomph.engines.registry import DEFAULT, engine_named
from oomph.ir import StageName
from oomph.ir.log_kinds import LogKind
from oomph.ir.observation import Observation
from oomph.logs.clean import Line
from oomph.logs.parse import engine_of
from oomph.logs.shape import shortage
from oomph.logs.structure import runs


class Death(Struct, frozen=True):
    failed: bool | None  # None: there are signs of an error, and nothing says that the run ended of it
    stage: StageName | None
    basis: str  # "traceback", "message", "milestone", "said" (beside the log), "plan", "the log ends here", "guess"
    line: int = 0  # of the failure, or of the sign
    kind: str | None = None
    functions: tuple[str, ...] = ()  # of the traceback, outermost first
    files: tuple[str, ...] = ()
    completed: frozenset[str] = frozenset()  # kinds seen before the failure
    settle: str = ""  # of a doubt: what would decide it
    quote: str = ""  # the failing line, or the sign


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


def death(observations: Sequence[Observation], lines: Sequence[Line] = ()) -> Death:
    failure = find_failure(observations)
    if failure is None:
        return _ended(observations, lines)
    index = next(i for i, observation in enumerate(observations) if observation is failure)
    before = observations[:index]
    completed = frozenset(o.kind for o in before)
    functions, files = traceback(observations, index)
    if failure.kind == "engine_failed" and frame_stage(functions, files) is None:
        functions, files = behind(observations, index)  # the workers' tracebacks stand above it, its own below
    runner = _runner_report(failure, observations)
    if runner is not None:
        called = stages_llamacpp.where(observations, failure.line - FAR, 2 * FAR)
        stage = called or stages_llamacpp.phase(observations, runner, milestone(before)) or "other"
        basis = "message"
        return Death(True, stage, basis, failure.line, failure.kind, completed=completed, quote=failure.text)
    if _llama(failure, observations):
        title = failure.text.startswith("# ")  # people put it above the lines that it is about
        by_lines = stages_llamacpp.phase(observations, index, milestone(observations if title else before))
        stage, basis = by_lines or guess(failure, observations), "message"
        if by_lines is None or stages_llamacpp.alone(observations, index):
            weakest, how = weakest_sign(failure, stage, (), (), observations, lines)
            has = weakest not in ("cudagraph_capture", "profile_run", "cudagraph_profile", "sampler_warmup", "kv_check")
            stage, basis = (weakest, how) if how == "said" and has else (stage, basis)
        went_on = failure.kind in stages_llamacpp.RECOVERABLE and stages_llamacpp.recovered(observations, index)
        return Death(not went_on, stage, basis, failure.line, failure.kind, completed=completed, quote=failure.text)
    subject = failure
    if failure.kind in PARENTS and (own := _child(observations, index)) is not None:
        subject = observations[own]  # what the child itself raised stands above its parent's report
        functions, files = traceback(observations, own)
    stage, basis = failing_stage(subject, functions, files, observations[:index], observations)
    if basis == "guess":
        stage, basis = weakest_sign(failure, stage, functions, files, observations, lines)
    if stage in engine_named(engine_of(observations) or DEFAULT).words.missing_stages:
        stage, basis = _instead(failure), "guess"
    return Death(
        True,
        stage=stage,
        basis=basis,
        line=failure.line,
        kind=failure.kind,
        functions=functions,
        files=files,
        completed=completed,
        quote=failure.text,
    )


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
BESIDE: frozenset[LogKind] = frozenset(
    {"command", "docker_run", "util_given", "eager_given", "version_beside", "version_said", "engine_named", "rss",
     "mig", "stage_said"}
)  # fmt: skip


# what its owner says that a run was doing, which is all that some texts have
_TOLD: dict[str, StageName] = {
    "serving": "runtime_request",
    "loading": "weights_load",
    "capturing": "cudagraph_capture",
    "profiling": "profile_run",
}


def _told(observations: Sequence[Observation], lines: Sequence[Line], completed: frozenset[str]) -> Death | None:
    """A failure that is only told. Of a server whose lines show it running only that it was ended counts."""
    sentence = find_told(lines)
    if "proposed" in completed and completed.isdisjoint(OWN_RUN):
        return None
    if sentence is None or (last_ready(observations) and not sentence.ended):
        return None
    if completed.isdisjoint(STARTED) and not (sentence.memory and "engine_named" in completed):
        return None
    if not sentence.memory and last_ready(observations):
        return None
    kind: LogKind = "memory_short" if sentence.memory else "said_failed"
    failure = Observation(
        sentence.line, kind, {**((sentence.memory and shortage(sentence.text)) or {})}, None, "", sentence.text
    )
    stage, basis = failing_stage(failure, (), (), observations, (*observations, failure))
    if basis == "guess":
        stage, basis = weakest_sign(failure, stage, (), (), observations, lines)
    return Death(True, stage, basis, sentence.line, kind, completed=completed, quote=sentence.text)


def _ended(observations: Sequence[Observation], lines: Sequence[Line]) -> Death:
    """No failure is in the text. That nothing failed is said only of a server that was up: a start that is cut off has
    not failed yet, and nobody knows what came next."""
    completed = frozenset(observation.kind for observation in observations)
    doubt = find_doubt(observations) or unworded_doubt(lines, last_ready(observations))
    if (by_people := _told(observations, lines, completed)) is not None:
        return by_people
    if doubt is not None:
        names = code_names(lines, doubt.line)
        by_code = frame_stage(names) or place_stage(names, ())
        stage = milestone(observations) or by_code or _TOLD.get(activity(lines, doubt.line) or "")
        return Death(None, stage, "the log ends here", doubt.line, completed=completed,
                     settle=doubt.settle, quote=doubt.text)  # fmt: skip
    if completed <= BESIDE:
        return Death(
            None, None, "the log ends here", completed=completed, settle="the engine's own output, from its first line"
        )
    failed, settle = (False, "") if last_ready(observations) else (None, UNFINISHED)
    return Death(failed, milestone(observations), "the log ends here", completed=completed, settle=settle)
