"""Which line of a run is its failure.

Words about memory count before other words, those before exit statuses, a parent's report counts last. What a server
printed that was up afterwards is no failure.
"""

from collections.abc import Sequence
from typing import Final

from oomph.doctor.reading.meanings import FAILURES, MILESTONES, NOT_FATAL, READY, TROUBLES, WEAK
from oomph.doctor.reading.worded import own_words
from oomph.engines.llamacpp.log import stages as stages_llamacpp
from oomph.ir.log_kinds import LogKind
from oomph.ir.observation import Observation
from oomph.text.late import late_pattern

# it ended, and no line says of what
UNSAID: Final[frozenset[LogKind]] = frozenset(WEAK) | {"sign_exit", "sign_signal", "sign_level", "said_failed"}
# How a run was ended by somebody else: behind another error only the clearing up.
ENDS: Final[frozenset[LogKind]] = frozenset({"sigkill", "container_kill", "bus_error"})
# Asked of a server that is up, they are about one request.
AT_START: Final[frozenset[LogKind]] = frozenset(kind for kind, stage in TROUBLES.items() if stage == "other") | {
    "x_mismatch"
}
WRAPPERS: Final[frozenset[LogKind]] = frozenset({"x_setting", "x_crash"})
FAR: Final = 40  # lines between a server's report and its runner's own words
NEAR: Final = 8  # lines between a wrapper's line and what it wraps
WINDOW: Final = 6  # lines of a program's message box
STOPPED: Final = frozenset({-15, 143, -2, 130})  # SIGTERM and SIGINT: somebody stopped it


def find_failure(observations: Sequence[Observation]) -> Observation | None:
    """The line that is the failure; a title only where no line below it says what ended the run."""
    failure = _find(observations)
    if failure is not None and failure.kind == "cuda_error_oom" and not _PRINTED.match(failure.text):
        # a sentence about it above the log: the line itself
        failure = next((o for o in observations if o.kind == "cuda_error_oom" and _PRINTED.match(o.text)), failure)
    if (named := _named_by_title(failure, observations)) is not None:
        return named
    if failure is None or not failure.text.startswith("# "):
        return failure
    below = [observation for observation in observations if not observation.text.startswith("# ")]
    if failure.kind in OF_ANYTHING:
        return _find(below) or failure
    if failure.kind in FAILURES or failure.kind == "memory_short":
        return _memory(below, {observation.kind for observation in below})[0] or failure
    return next((observation for observation in below if observation.kind == failure.kind), failure)


_PRINTED: Final = late_pattern(r"(?:CUDA|ROCm|HIP|MUSA) error")


def _named_by_title(failure: Observation | None, observations: Sequence[Observation]) -> Observation | None:
    """What a title names as the error, where the log below it does not say: it is cut, or a parent's report is left."""
    title = next((observation for observation in observations if "title" in observation.values), None)
    if title is None or (failure is not None and failure.kind not in UNSAID):
        return None
    kinds = {observation.kind for observation in observations}
    if not kinds.isdisjoint(("memory_short", "oom_mentioned")) and title.kind not in ("sigkill", "driver_oom"):
        return None
    if any(observation.kind == "exception" and own_words(observation) for observation in observations):
        return None
    begun = not kinds.isdisjoint(STARTED | {"engine_named"}) or not title.values["title"]  # a sentence states it
    mild = _mild(title.text) if title.values["title"] else bool(_MILD.search(title.text))  # a sentence is no wish
    if failure is None and (last_ready(observations) or mild or not begun):
        return None
    return title


def _mild(title: str) -> bool:
    """It asks for something, or complains of less than a failure."""
    return bool(wishes(title) or _MILD.search(title))


_MILD: Final = late_pattern(r"(?i)\bwarn|\bslow|\bquestion|\bperformance")


def _find(observations: Sequence[Observation]) -> Observation | None:
    """A parent's report of its child's death only where nothing else was printed."""
    kinds = {observation.kind for observation in observations}
    up = last_ready(observations)
    memory, recovered = _memory(observations, kinds)
    trouble = _trouble(observations, up)
    if memory is not None and not (trouble and _yields(memory, trouble)):
        return memory
    if trouble is not None and trouble.kind == "x_crash" and (over := _over_working_set(observations)):
        return over
    if trouble is not None:
        return _titled(trouble, observations) or trouble
    unworded = next(
        (
            observation
            for observation in observations
            if observation.kind == "memory_short" and observation.line > up and _stated(observation)
        ),
        None,
    )
    if unworded is not None:
        return unworded
    # a C++ program goes on behind its errors; an exception with frames is Python's, and ends it
    if "frame" in kinds or not any(k.startswith(("lc_", "ol_")) for k in kinds):
        for kind in WEAK:
            for observation in observations:
                if observation.kind == kind and not _aside(observation, kinds):
                    return observation
    ended = (observation for observation in observations if observation.line > up and _ended_badly(observation))
    lost = (observation for observation in observations if observation.line > up and _in_a_worker(observation))
    return recovered or next(ended, None) or next(lost, None) or _said_by_people(observations, up)


# where vLLM logs what a worker or the engine core raised, line by line at level ERROR (v1/engine/core.py,
# v1/executor/multiproc_executor.py, executor/multiproc_worker_utils.py, worker/worker_base.py)
_CATCHERS: Final = frozenset({"core.py", "multiproc_executor.py", "multiproc_worker_utils.py", "worker_base.py"})


def _in_a_worker(observation: Observation) -> bool:
    """A line of a worker's traceback that has lost the others."""
    return observation.kind == "sign_level" and str(observation.values.get("source", "")).partition(":")[0] in _CATCHERS


# said of a load or a runner that ended, of whatever it was
OF_ANYTHING: Final[frozenset[LogKind]] = frozenset(
    {"lc_load_failed", "lc_no_context", "ol_runner_died", "ol_stopped", "lc_stopped", "lc_crash"}
)


def _yields(memory: Observation, trouble: Observation) -> bool:
    """A line that may be about memory gives way to one that says what it was: a kill behind it, "error loading model:
    unknown model architecture"."""
    if memory.kind in ENDS:
        return trouble.line <= memory.line
    named = trouble.kind not in WRAPPERS or trouble.line <= memory.line or "what" in trouble.values
    worded = named and not _LACK.search(memory.text)
    # the server's report may stand above the runner's own lines, LM Studio's window has empty lines in it
    far = FAR if memory.kind.startswith("ol_") else WINDOW
    return memory.kind in OF_ANYTHING and worded and -max(NEAR, far) <= trouble.line - memory.line <= far


_LACK: Final = late_pattern(r"(?i)out of memory|alloc|(?:enough|insufficient) .{0,20}memory")

# what shows that there is a log, or at least a start, that a sentence may be about
STARTED: Final[frozenset[LogKind]] = frozenset(MILESTONES) | {
    "frame", "command", "docker_run", "args", "engine_config", "engine_line", "version", "tr_line", "traceback",
    "lc_line",
}  # fmt: skip


# what shows a run of its author's own below a proposal
OWN_RUN: Final[frozenset[LogKind]] = frozenset(MILESTONES) | {
    "frame",
    "exception",
    "args",
    "engine_config",
    "traceback",
}


def _said_by_people(observations: Sequence[Observation], up: int) -> Observation | None:
    """People say that memory ran out, beside a log in which no server ever was up, and which ends without a word."""
    kinds = {observation.kind for observation in observations}
    if "proposed" in kinds and kinds.isdisjoint(OWN_RUN):
        return None
    if up:  # a report of a bug whose title says that memory ran out: behind the lines of a running server that are here
        return next((o for o in observations if is_heading(o) and _REPORT.search(o.text) and o.text[:2] == "# "), None)
    begun = any(observation.kind in STARTED for observation in observations)
    if heading := next((o for o in observations if o.kind == "said_failed" and not wishes(o.text)), None):
        named = {o.kind for o in observations} & {"memory_short", "oom_mentioned"}
        if not named:
            return heading
    lines = (observation for observation in observations if observation.kind == "memory_short")
    facts = (o for o in lines if not (is_heading(o) and wishes(o.text)))
    return next((o for o in facts if begun or _stated_by_people(o)), None)


# a title about what should be done, or a question about how much is needed
_WISHES: Final = late_pattern(
    r"(?i)\b(?:fix|avoid|prevent|reduc|support|add|feature|rfc|improv|optimi|lower|save|saving|less|without|handle|document|"
    r"estimat|calculat|guide|docs?|benchmark|propos|safe)\w{0,4}\b|\bhow (?:to|much|many)\b|\bno OOM|OOM-(?:free|aware)"
)


_REPORT: Final = late_pattern(r"(?i)^# [\[(]?(?:misc\.? |eval |compile |model )?bug\b(?!-?fix)")  # as it was filed
_QUOTED: Final = late_pattern(r"[\"“`'‘][^\"”`'’]{0,200}[\"”`'’]")  # somebody else's words


def wishes(title: str) -> bool:
    """A title about what should be done. One that was filed as a report of a bug says what happened."""
    return not _REPORT.search(title) and bool(_WISHES.search(_QUOTED.sub("", title)))


def _stated_by_people(observation: Observation) -> bool:
    """The allocator's own words, or a title that says what happened; one that says what should be done is none."""
    if "CUDA out of memory" in observation.text or "HIP out of memory" in observation.text:
        return True
    return is_heading(observation)


def is_heading(observation: Observation) -> bool:
    """A title that people put over a log says what happened in it, or after it: no line of the log takes it back."""
    by_people = not observation.process and "source" not in observation.values
    return observation.kind == "memory_short" and by_people and observation.text.startswith("#")


def last_ready(observations: Sequence[Observation]) -> int:
    """The last line that only a server prints that is up; 0 where there is none."""
    return next(
        (
            observation.line
            for observation in reversed(observations)
            if observation.kind in READY and observation.kind != "dumped_step"
        ),
        0,
    )


def _memory(observations: Sequence[Observation], kinds: set[str]) -> tuple[Observation | None, Observation | None]:
    """The first failure that is about memory, or a check that a figure fails; and one that was recovered from."""
    recovered: Observation | None = None
    for index, observation in enumerate(observations):
        if (
            observation.kind in FAILURES
            and "title" not in observation.values
            and not is_harmless(observation, kinds)
            and not stages_llamacpp.harmless(observations, index)
        ):
            if observation.kind not in stages_llamacpp.RECOVERABLE or not stages_llamacpp.recovered(
                observations, index
            ):
                return _inside(observation, observations[index + 1 :]), recovered
            recovered = recovered or observation
        if observation.kind == "available_kv" and _negative(observation):
            return observation, recovered
        if observation.kind == "tr_budget" and _negative(observation):
            return observation, recovered
        if observation.kind == "sg_profiled" and _no_tokens(observation, kinds):
            return observation, recovered
        if observation.kind in ("v0_terms", "v0_results") and _nothing_left(observation, kinds):
            return observation, recovered
    return None, recovered


def _inside(failure: Observation, behind: Sequence[Observation]) -> Observation:
    """A load that failed, of whatever it was, gives way to the line of the same message that says what was short."""
    if failure.kind not in OF_ANYTHING or _LACK.search(failure.text):
        return failure
    near = (o for o in behind if o.line - failure.line <= WINDOW)
    return next((o for o in near if o.kind in FAILURES and o.kind not in OF_ANYTHING), failure)


def _trouble(observations: Sequence[Observation], up: int) -> Observation | None:
    """The first that ended the run; a wrapper's line gives way to the one inside it that says what."""
    troubles = [
        observation
        for observation in observations
        if observation.kind in TROUBLES and "title" not in observation.values and _ends(observation, observations, up)
    ]
    if not troubles or not _wraps(troubles[0]):
        return troubles[0] if troubles else None
    if troubles[0].kind == "x_crash" and _asserted(troubles[0], observations) and len(troubles) == 1:
        return None  # the exception that was not caught says what it was
    report = any(o.kind == "ol_runner_died" and o.line == troubles[0].line for o in observations)
    far = FAR if report else NEAR  # a client's words, and the server's log behind them
    inside = (o for o in troubles if not _wraps(o) and abs(o.line - troubles[0].line) <= far)
    return next(inside, troubles[0])


def _over_working_set(observations: Sequence[Observation]) -> Observation | None:
    """Metal's warning, or its buffers together above the limit that it printed."""
    limit = next((o.values.get("limit") for o in observations if o.kind == "lc_metal_limit"), None)
    for observation in observations:
        used = observation.values.get("used")
        full = isinstance(used, int) and isinstance(limit, int) and used > limit
        if observation.kind == "lc_metal_full" and ("used" not in observation.values or full):
            return observation
    return None


def _titled(trouble: Observation, observations: Sequence[Observation]) -> Observation | None:
    """A crash that does not say of what, below a title that does."""
    if trouble.kind != "x_crash" or "what" in trouble.values:
        return None
    return next((o for o in observations if is_heading(o) and not _WISHES.search(o.text)), None)


def _asserted(crash: Observation, observations: Sequence[Observation]) -> bool:
    """A native program's own assertion stands beside the abort that it led to (TensorRT-LLM's TllmException)."""
    near = (o for o in observations if o.kind == "exception" and abs(o.line - crash.line) <= NEAR)
    return any(observation.values.get("type") == "Assertion failed" for observation in near)


def _wraps(observation: Observation) -> bool:
    """A line that hands on what another one says: a validator, an abort, the exception of NCCL's watchdog."""
    handed_on = (word for kind, words in _HANDED_ON.items() if observation.kind == kind for word in words)
    return observation.kind in WRAPPERS or any(word in observation.text for word in handed_on)


# exceptions that are raised around another one, whose words stand near
_HANDED_ON: Final[dict[LogKind, tuple[str, ...]]] = {
    "x_nccl": ("DistBackendError",),
    "x_compiler": ("torch._dynamo.exc", "torch._inductor.exc", "BackendCompilerFailed", "InductorError"),
}


def _ends(observation: Observation, observations: Sequence[Observation], up: int) -> bool:
    """This trouble ended the run: the server was not up behind it, nor before it where only a start can fail of it."""
    if observation.line <= up or (observation.kind == "x_nccl" and "WARN" in observation.text[:80]):
        return False
    if observation.kind == "x_ray_wait":  # every start waits a little: only where nothing came of it
        return not any(later.line > observation.line and later.kind in MILESTONES for later in observations)
    return not (up and observation.kind in AT_START)


def _stated(observation: Observation) -> bool:
    """An engine or an allocator says it, not a person: a place, a process, an exception or a figure is on the line."""
    figures = observation.values.keys() - {"about", "source"}
    program = _is_exception(observation.text) or " failed: " in observation.text[:200]
    return bool(observation.process or "source" in observation.values or figures or program)


def _is_exception(text: str) -> bool:
    return text.split(":")[0].rsplit(".", 1)[-1].endswith(("Error", "Exception", "error", "ERROR"))


def _ended_badly(observation: Observation) -> bool:
    if observation.kind == "sign_exit":
        return observation.values.get("status") not in STOPPED and "HTTP" not in observation.text
    return observation.kind == "sign_signal" and str(observation.values.get("signal", "")) not in (
        "SIGTERM",
        "SIGINT",
        "15",
        "2",
    )


def _aside(observation: Observation, kinds: set[str]) -> bool:
    """A refused request or a helper's complaint in a server that was up."""
    up = "concurrency" in kinds or not READY.isdisjoint(kinds)
    if observation.kind == "exception" and observation.values.get("type") in NOT_FATAL:
        return up or observation.values.get("type") != "ValidationError"
    if observation.kind == "secondary" and "signal_handler" in observation.text:
        return up  # stopped on request
    return (
        observation.kind in ("exception", "frame")
        and up
        and observation.process not in ("EngineCore", "Worker", "VllmWorker")
    )


_SAY_WHAT: Final[frozenset[LogKind]] = frozenset(
    {"bus_error", "torch_oom", "cuda_error_oom", "x_nccl", "x_hardware", "x_bad_address", "x_crash", "x_no_kernel",
     "x_import", "x_mismatch", "x_compiler"}
)  # fmt: skip
_BY_RAY: Final = "died or was killed while executing a task"
RAYS_LIST: Final = "causes"  # Ray lists what may have ended a worker, the kernel first: a guess, not a report


def is_harmless(observation: Observation, kinds: set[str]) -> bool:
    # raised while the model is built or compiled: a run that printed its concurrency is another run than this line's
    if observation.kind in ("fp8e4nv", "e5m2_refused") and "concurrency" in kinds:
        return True
    if observation.kind == "kv_need_part":
        return "kv_need" in kinds or "kv_len_part" not in kinds
    if observation.kind in ("sigkill", "host_kill") and (RAYS_LIST in observation.text or _BY_RAY in observation.text):
        return not kinds.isdisjoint(_SAY_WHAT)
    if observation.kind == "sigkill" and (observation.text.strip() == "Killed" or "using SIGKILL" in observation.text):
        # a parent that clears up after an error
        return bool(kinds & {"exception", "engine_failed", "engine_dead", "secondary", "sg_exception"})
    return observation.kind == "cuda_error_oom" and "Tried to allocate" in observation.text


def _negative(observation: Observation) -> bool:
    value = observation.values.get("available")
    return isinstance(value, (int, float)) and value <= 0


def _no_tokens(observation: Observation, kinds: set[str]) -> bool:
    """SGLang's pool comes out negative and the start ends there; a draft model's pool is the target's all the same."""
    tokens = observation.values.get("tokens")
    return isinstance(tokens, int) and tokens <= 0 and not kinds & {"sg_capture_begin", "sg_ready", "sg_serving"}


def _nothing_left(observation: Observation, kinds: set[str]) -> bool:
    """V0 goes on to the block check: what is below a hundredth of any card cannot hold one request."""
    value = observation.values.get("available")
    if isinstance(value, (int, float)) and value <= 0:
        return True
    return isinstance(value, (int, float)) and value < 1 << 28 and not kinds & {"v0_blocks", "kv_tokens", "kv_need_v0"}
