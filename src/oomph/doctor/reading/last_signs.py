"""Where no line of a log says the stage: the code of a traceback that lost its frames, and what its owner tells."""

from collections.abc import Sequence

from oomph.doctor.reading.failing_stage import STARTING, did_not_start, while_starting
from oomph.doctor.reading.failure import UNSAID
from oomph.doctor.reading.meanings import TROUBLES
from oomph.doctor.reading.places import compiles, place_stage
from oomph.doctor.reading.raised import raised_stage
from oomph.doctor.reading.story import BESIDE, NAMED, told_stage
from oomph.doctor.reading.tracebacks import frame_stage
from oomph.ir import StageName
from oomph.ir.evidence import Placed
from oomph.ir.observation import Observation
from oomph.logs.claims import Claim
from oomph.logs.clean import Line
from oomph.logs.documents import MOST_LINES, is_prose
from oomph.text.late import late_pattern

_CALLED = late_pattern(r"\b([A-Za-z_]\w{4,80})\(")
_NEAR = 40  # lines of code above a failure that may be what is left of its traceback


def code_names(lines: Sequence[Line], failing: int) -> list[str]:
    """Functions called by the lines of code above a failure: of a traceback that lost its frames."""
    near = [line.text[:400] for line in lines if abs(failing - line.number) <= _NEAR and not is_prose(line)]
    names = [name for text in near if not text.startswith(("INFO", "DEBUG")) for name in _CALLED.findall(text)]
    return [*names, "capture_begin"] if any("torch.cuda.graph(" in text for text in near) else names


_WHILE_LOADING = late_pattern(
    r"(?:while|when|during) load(?:ing)? (?:the )?(?:model )?(?:weights?|checkpoints?|shards?)\b"
)


# v1/engine/core.py _initialize_kv_caches (0.8.0 to 0.32.0): how its statements begin
_STATEMENTS: tuple[tuple[str, StageName], ...] = (
    ("available_gpu_memory = ", "profile_run"),
    ("self.model_executor.determine_available_memory", "profile_run"),
    ("kv_cache_configs = get_kv_cache_configs(", "kv_check"),
    ("kv_cache_specs = self.model_executor.get_kv_cache_specs", "kv_check"),
    ("self.model_executor.initialize_from_config", "kv_alloc"),
)
_FEWEST = 4  # letters with which a paste may end


def cut_statement(lines: Sequence[Line]) -> StageName | None:
    """The paste ends inside of the line of code under its last frame: the statement that begins so."""
    last = next((line.text.strip(" `") for line in reversed(lines[-4:]) if line.text.strip(" `")), "")
    begins = (stage for statement, stage in _STATEMENTS if statement.startswith(last) or last.startswith(statement))
    return next(begins, None) if len(last) >= _FEWEST else None


def weakest_sign(
    failure: Observation,
    guessed: StageName,
    functions: Sequence[str],
    files: Sequence[str],
    everything: Sequence[Observation],
    lines: Sequence[Line],
    claims: Sequence[Claim],
    missing: Sequence[str],
) -> Placed:
    """Nothing of the log says it: the code of a traceback that lost its frames, then what its owner tells.

    `missing` are stages that the engine does not have."""
    names = code_names(lines, failure.line)
    if by_code := frame_stage(names) or place_stage(names, ()):
        return ("other" if by_code == "startup_free_memory" and failure.kind in TROUBLES else by_code), "traceback"
    if compiles(files):
        return "profile_run", "traceback"
    if _WHILE_LOADING.search(failure.text[:2000]):
        return "weights_load", "message"
    if by_words := raised_stage(failure.text):
        return by_words, "message"
    if "_initialize_kv_caches" in functions and (cut := cut_statement(lines)):
        return cut, "traceback"
    story_stage = stage_of_story(failure, lines, claims, missing)
    if story_stage[0] is None and any(_ASKS.search(line.text[:400]) for line in lines[:MOST_LINES]):
        story_stage = "runtime_request", BESIDE
    return _by_claims(failure, guessed, functions, everything, story_stage) or (guessed, "guess")


def stage_of_story(
    failure: Observation, lines: Sequence[Line], claims: Sequence[Claim], missing: Sequence[str]
) -> tuple[StageName | None, float]:
    """What people tell of this failure: the line that leads in to a quoted error first, then all that they say."""
    if lead := _lead_in(failure, lines, claims, missing):
        return lead, NAMED
    stage, weight = told_stage(claims, missing)
    if stage == "kv_check" and failure.kind == "torch_oom":
        return None, 0.0  # the check compares two figures: nothing is allocated there
    return stage, weight


def _lead_in(
    failure: Observation, lines: Sequence[Line], claims: Sequence[Claim], missing: Sequence[str]
) -> StageName | None:
    """The stage that the line right above a quoted error names: "Or, during serving:"."""
    above = [line for line in lines if 0 < failure.line - line.number <= 2 and line.text.strip()][-1:]
    if not above or not above[0].text.rstrip().endswith((":", "：")):
        return None
    named = [stage for claim in claims if claim.line == above[0].number for stage in claim.named("during")]
    return named[-1] if named and named[-1] not in missing else None


_ASKS = late_pattern(r"\bllm\.(?:generate|chat)\(")  # a script that asks its engine


def _by_claims(
    failure: Observation,
    guessed: StageName,
    functions: Sequence[str],
    everything: Sequence[Observation],
    story_stage: tuple[StageName | None, float],
) -> Placed | None:
    """A stage that somebody names; that it was at the start leaves the figures to say where."""
    stage, weight = story_stage
    if stage is None:
        return None
    if stage == "runtime_request" and (did_not_start(everything) or STARTING.intersection(functions)):
        return None
    if weight >= BESIDE / 2:
        return stage, "said"
    if failure.kind == "said_failed":
        return "other", "said"
    if guessed == "runtime_request":  # it did not serve yet
        return ("other" if failure.kind in TROUBLES else while_starting(failure)), "said"
    memory = failure.kind not in UNSAID and failure.kind not in TROUBLES
    return (while_starting(failure), "said") if guessed == "other" and memory else None
