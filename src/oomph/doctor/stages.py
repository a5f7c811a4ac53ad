"""Where a start-up died: the first real exception, the frames above it, and the last milestone before it.

The traceback decides when it is there; the milestones (a stage is entered when the previous one's closing line was
printed) when it is not; a log without any error has not failed, and is said to end in the stage after its last
milestone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from oomph.doctor import stages_llamacpp
from oomph.doctor.failure import find_doubt, find_failure, last_ready, unworded_doubt
from oomph.doctor.guesses import STARTS, guess, said, starting
from oomph.doctor.meanings import (
    AFTER_COMPONENTS,
    BARS,
    COMPONENTS,
    FAILURES,
    MILESTONES,
    NATIVE,
    ORDER,
    TROUBLES,
    UNFINISHED,
    WEAK,
)
from oomph.doctor.places import compiles, place_stage
from oomph.doctor.prose import activity
from oomph.doctor.raised import raised_stage
from oomph.doctor.tracebacks import behind, frame_stage, joins_ranks, traceback
from oomph.facts.loglines import compiled
from oomph.facts.vllm.files import FILES
from oomph.ir.log_kinds import LogKind
from oomph.ir.observation import Observation
from oomph.ir.timeline import StageName
from oomph.logs.clean import Line
from oomph.logs.structure import runs


class Death(Struct, frozen=True):
    failed: bool | None  # None: there are signs of an error, and nothing says that the run ended of it
    stage: StageName | None
    basis: str  # "traceback", "message", "milestone", "said" (beside the log), "plan", "the log ends here", "guess"
    line: int = 0  # of the failure, or of the sign
    kind: LogKind | None = None
    functions: tuple[str, ...] = ()  # of the traceback, outermost first
    files: tuple[str, ...] = ()
    completed: frozenset[LogKind] = frozenset()  # kinds seen before the failure
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
        stage, basis = stages_llamacpp.phase(observations, runner, milestone(before)) or "other", "message"
        return Death(True, stage, basis, failure.line, failure.kind, completed=completed, quote=failure.text)
    if _llama(failure, observations):
        by_lines = stages_llamacpp.phase(observations, index, milestone(before))
        stage, basis = by_lines or guess(failure, observations), "message"
        if by_lines is None or stages_llamacpp.alone(observations, index):
            weakest, how = _weakest(failure, stage, (), (), observations, lines)
            has = weakest not in ("cudagraph_capture", "profile_run", "cudagraph_profile", "sampler_warmup", "kv_check")
            stage, basis = (weakest, how) if how == "said" and has else (stage, basis)
        went_on = failure.kind in stages_llamacpp.RECOVERABLE and stages_llamacpp.recovered(observations, index)
        return Death(not went_on, stage, basis, failure.line, failure.kind, completed=completed, quote=failure.text)
    subject = failure
    if failure.kind in PARENTS and (own := _child(observations, index)) is not None:
        subject = observations[own]  # what the child itself raised stands above its parent's report
        functions, files = traceback(observations, own)
    stage, basis = _stage(subject, functions, files, observations[:index], observations)
    if basis == "guess":
        stage, basis = _weakest(failure, stage, functions, files, observations, lines)
    return Death(True, stage, basis, failure.line, failure.kind, functions, files, completed, quote=failure.text)


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


_CALLED = re.compile(r"\b([A-Za-z_]\w{4,80})\(")
_NEAR = 40  # lines of code above a failure that may be what is left of its traceback


def code_names(lines: Sequence[Line], failing: int) -> list[str]:
    """Functions called by the lines of code above a failure: of a traceback that lost its frames."""
    near = [line.text[:400] for line in lines if 0 <= abs(failing - line.number) <= _NEAR]
    names = [name for text in near if not text.startswith(("INFO", "DEBUG")) for name in _CALLED.findall(text)]
    return [*names, "capture_begin"] if any("torch.cuda.graph(" in text for text in near) else names


_WHILE_LOADING = re.compile(
    r"(?:while|when|during) load(?:ing)? (?:the )?(?:model )?(?:weights?|checkpoints?|shards?)\b"
)


def _weakest(
    failure: Observation,
    guessed: StageName,
    functions: Sequence[str],
    files: Sequence[str],
    everything: Sequence[Observation],
    lines: Sequence[Line],
) -> tuple[StageName, str]:
    """Nothing of the log says it: the code of a traceback that lost its frames, then what its owner tells."""
    names = code_names(lines, failure.line)
    if by_code := frame_stage(names) or place_stage(names, ()):
        return ("other" if by_code == "startup_free_memory" and failure.kind in TROUBLES else by_code), "traceback"
    if compiles(files):
        return "profile_run", "traceback"
    if _WHILE_LOADING.search(failure.text[:2000]):
        return "weights_load", "message"
    if by_words := raised_stage(failure.text):
        return by_words, "message"
    started = not did_not_start(everything) and not STARTING.intersection(functions)
    doing = activity(lines, failure.line)
    if doing in ("capturing", "profiling") and failure.kind not in TROUBLES:
        return ("cudagraph_capture" if doing == "capturing" else "profile_run"), "said"
    if doing == "loading" and failure.kind not in TROUBLES:
        return "weights_load", "said"
    if doing == "serving" and started:
        return "runtime_request", "said"
    memory = failure.kind not in WEAK and failure.kind not in TROUBLES
    if doing == "starting" and (guessed == "runtime_request" or (guessed == "other" and memory)):
        return (_while_starting(failure) if failure.kind not in TROUBLES else "other"), "said"
    return guessed, "guess"


def _native(failure: Observation, everything: Sequence[Observation]) -> StageName | None:
    """The innermost C++ frame near the failure that has a row."""
    near = (o for o in everything if o.kind == "tr_line" and abs(o.line - failure.line) <= _NEAR)
    names = (str(o.values["function"]) for o in near if "function" in o.values)
    rows = (stage for name in names for pattern, stage in NATIVE if compiled(pattern).search(name))
    return next(rows, None)


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
            failure.kind == "lc_malloc"
            and not any(k.startswith(("lc_", "ol_")) for k in others)
            and MILESTONES.keys() & others
        ):
            return False  # SYCL's and Vulkan's words, in another engine's log
        return FAILURES.get(failure.kind) is None or failure.kind in stages_llamacpp.RECOVERABLE
    return failure.kind in ("cuda_error_oom", "cuda_busy") and any(
        observation.kind == "lc_where" and 0 <= observation.line - failure.line <= 3 for observation in observations
    )


def _stage(
    failure: Observation,
    functions: Sequence[str],
    files: Sequence[str],
    before: Sequence[Observation],
    everything: Sequence[Observation],
) -> tuple[StageName, str]:
    stated = FAILURES.get(failure.kind) or TROUBLES.get(failure.kind)
    if failure.kind in ("available_kv", "v0_terms", "v0_results", "sg_profiled", "tr_budget"):
        return "kv_check", "message"
    if failure.kind == "tr_component":
        component, _, purpose = str(failure.values.get("component", "")).partition(" (")
        return ("profile_run" if "temporary" in purpose else COMPONENTS.get(component, "other")), "message"
    if "wake_up" in failure.text and failure.kind not in TROUBLES:
        return "runtime_request", "message"  # only an engine that was up is woken
    if failure.kind == "x_architecture":
        return "other", "message"
    if failure.kind == "x_mismatch" and (_IN_CONFIG.search(failure.text) or _validated(failure, everything)):
        return "other", "message"  # found while the settings are read
    if stated == "other" and failure.kind in TROUBLES:
        reached = milestone(before)
        if (frame_stage(functions, files) or place_stage(functions, files)) == "runtime_request":
            return "runtime_request", "traceback"
        if reached is None and _ran(functions, files):
            return "profile_run", "traceback"  # a layer is run for the first time while profiling
        return (reached if reached and ORDER.index(reached) >= ORDER.index("weights_load") else stated), "message"
    if stated is not None:
        return stated, "message"
    if failure.kind == "dumped_step" or failure.values.get("place") in AT_RUN_TIME:
        return "runtime_request", "message"
    from_frames = frame_stage(functions, files)
    if not from_frames:
        from_frames = frame_stage(_method(failure, everything))
    if not from_frames and (callee := _callee(failure.text)):
        from_frames = frame_stage([callee]) or place_stage([callee], ())
    if from_frames == "startup_free_memory" and (failure.kind == "x_nccl" or joins_ranks(failure.kind, files)):
        return "other", "traceback"  # v1/worker/gpu_worker.py:263, 282 (0.20.0): ranks are joined before memory is read
    from_frames = from_frames or place_stage(functions, files)
    if from_frames:
        return from_frames, "traceback"
    reached = milestone((*before, *(o for o in everything if o.line == failure.line and o.kind in MILESTONES)))
    native = _native(failure, everything)
    if native is not None and reached != "runtime_request":
        joined = native == "startup_free_memory" and failure.kind in TROUBLES
        return ("other" if joined else native), "traceback"
    if failure.kind in TROUBLES and reached == "startup_free_memory":
        return "other", "milestone"  # the ranks are joined there; nothing of the model is on a GPU
    if failure.kind in TROUBLES and reached is None and (computing := stages_llamacpp.where(everything, failure.line)):
        return computing, "message"
    about = failure.values.get("about")
    if about is not None and reached != "runtime_request":
        return next(stage for stage in ORDER if stage == about), "message"
    if failure.kind == "frame" and starting(failure) and reached is None:
        return "profile_run", "traceback"  # the model ran while the engine was starting: only profiling does that
    if failure.kind == "sampler_oom":
        # the same words in both passes; without a line before them the second, where everything else is on the card
        return ("profile_run" if reached == "profile_run" else "sampler_warmup"), "message"
    if reached == "runtime_request" or _serving(failure) or failure.kind == "engine_dead":
        return "runtime_request", "milestone"  # the server was up
    if any(o.kind == "engine_dead" for o in everything) and not did_not_start(everything):
        return "runtime_request", "message"  # said of an engine that had started
    if failure.values.get("who") == "Engine core" and milestone(everything) is None:
        return "runtime_request", "message"  # core_client.py:541 (0.11.0): watched from its ready message on
    if failure.kind in ("engine_failed", "secondary"):
        # a child died, of what is not in the log; what it had got to may be
        loading = reached is not None and ORDER.index(reached) >= ORDER.index("weights_load")
        return (reached, "milestone") if reached is not None and loading else ("other", "guess")
    if failure.kind == "x_nccl" and int(failure.values.get("sequence") or 0) > START_COLLECTIVES:
        return "runtime_request", "message"
    if reached is None and not failure.process and "source" not in failure.values:
        reached = milestone(everything)  # a title or a sentence above the log, not a line of it
    if reached is None and failure.kind == "tr_pool_full":
        return "runtime_request", "message"  # requests take blocks; the dummy batches of a start print lines before it
    if reached == "kv_alloc" and _no_room_for_tokens(failure, everything):
        return "kv_check", "milestone"
    if reached:
        stage, beside = _after(reached, failure, everything), said(everything)
        later = beside is not None and stage == "kv_alloc" and ORDER.index(beside) > ORDER.index(stage)
        return (beside, "said") if beside is not None and later else (stage, "milestone")
    if failure.kind == "x_compiler":
        return "profile_run", "guess"  # kernels and graphs are compiled when the model first runs
    if did_not_start(everything) and _forward(functions, files):
        return "profile_run", "traceback"  # the model ran, and the engine never came up
    speaks = any(o.kind in ("memory_short", "oom_mentioned", "said_oom") for o in everything)
    if speaks and "_initialize_kv_caches" in functions and failure.kind not in TROUBLES:
        return (
            "profile_run",
            "guess",
        )  # v1/engine/core.py: it begins with the memory profile, where most of its errors are
    if "get_response" in functions:
        return "other", "guess"  # an answer to the executor: behind the load, but not which one
    began = bool(STARTING.intersection(functions))
    if (beside := said(everything)) and not (began and beside == "runtime_request"):
        return beside, "said"
    if any("/v1/sample/" in path for path in files):
        return "sampler_warmup", "guess"  # its worst case is run after the capture, which is where it mostly fails
    if failure.kind != "torch_oom" and "forward" in functions:
        return ("profile_run" if _vision(functions, files) else "runtime_request"), "guess"
    guessed = guess(failure, everything)
    if guessed == "other" and failure.kind not in TROUBLES and failure.kind not in WEAK and began:
        guessed = _while_starting(failure)  # memory that ran out while an engine was built was the model's
    if guessed == "runtime_request" and (did_not_start(everything) or STARTING.intersection(functions)):
        guessed = _while_starting(failure)
    return guessed, "guess"


def _no_room_for_tokens(failure: Observation, everything: Sequence[Observation]) -> bool:
    """SGLang behind its load: the check's own words, or less memory left than a tenth of what was free before, which
    is the least that --mem-fraction-static keeps back (model_runner.py profile_max_num_token)."""
    if not any(observation.kind == "sg_weights" for observation in everything):
        return False
    if failure.kind == "memory_short" and "Not enough memory" in failure.text:
        return True
    before, left = _least(everything, ("sg_load_begin", "sg_init")), _least(everything, ("sg_weights",))
    return failure.kind != "torch_oom" and before is not None and left is not None and left < before / 10


def _least(observations: Sequence[Observation], kinds: tuple[LogKind, ...]) -> int | None:
    free = [observation.values.get("avail") for observation in observations if observation.kind in kinds]
    return min((size for size in free if isinstance(size, int)), default=None)


_IN_CONFIG = re.compile(r"[Qq]uantization method|rope_scaling|[Tt]okenizer|chat template|config file")


def _validated(failure: Observation, everything: Sequence[Observation]) -> bool:
    """Inside of a validator's message, which is about settings."""
    return any(
        observation.kind == "x_setting" and 0 <= failure.line - observation.line <= 3 for observation in everything
    )


# folders of TensorRT-LLM's C++ sources whose assertions are about a batch that runs
AT_RUN_TIME = ("batch_manager", "plugins", "kernels")
# Collectives of a start: two per layer and a gather in each of the passes that warm up and capture. A watchdog whose
# count is above it has seen requests. Assumed, not counted: the largest models have about 200 in one pass.
START_COLLECTIVES = 4000

# who builds an engine (engine/llm_engine.py, v1/engine/core.py, entrypoints/llm.py): not there while it serves
STARTING = frozenset({"from_engine_args", "from_vllm_config", "_init_engine", "_init_executor", "_init_workers_ray",
                      "launch_core_engines", "wait_for_engine_startup", "run_mp_engine",
                      "_initialize_kv_caches"})  # fmt: skip


def did_not_start(observations: Sequence[Observation]) -> bool:
    """A parent says that its engine never came up."""
    return any(
        observation.kind in ("secondary", "engine_failed") and _NEVER_UP.search(observation.text)
        for observation in observations
    )


_NEVER_UP = re.compile(r"initialization failed|failed to start")


def _while_starting(failure: Observation) -> StageName:
    """By the figures of PyTorch's line: little of our own on the card is a load, more is the profiling run."""
    allocated, total = failure.values.get("allocated"), failure.values.get("total")
    little = isinstance(allocated, int) and isinstance(total, int) and allocated < total * 0.3
    return "weights_load" if little else "profile_run"


def _ran(functions: Sequence[str], files: Sequence[str]) -> bool:
    """A layer's or a model's forward is among the frames."""
    return any(
        function.startswith("forward") and "/model_executor/" in path for function, path in zip(functions, files)
    )


def _forward(functions: Sequence[str], files: Sequence[str]) -> bool:
    """Something of an engine's own ran a pass: a layer, an attention backend."""
    own = ("/vllm/", "/sglang/", "/tensorrt_llm/")
    return any(
        function.startswith("forward") and any(part in path for part in own) for function, path in zip(functions, files)
    )


def _vision(functions: Sequence[str], files: Sequence[str]) -> bool:
    """An encoder's frames: its worst case runs while profiling, which is where it mostly fails."""
    words = ("vision", "visual", "patch_embed", "mllama", "siglip", "clip", "vit", "split_qkv", "all_gather_interleave")
    return any(word in name.lower() for name in (*functions, *files) for word in words)


def _method(failure: Observation, observations: Sequence[Observation]) -> list[str]:
    """What the executor had asked its worker for, on the failure's own line."""
    own = (
        observation.values.get("method")
        for observation in observations
        if observation.kind in ("engine_failed", "x_slow_start") and observation.line == failure.line
    )
    return [str(name) for name in own if name]


_CALLEE = re.compile(r"TypeError: (?:(?P<owner>\w{1,80})\.)?(?P<name>\w{1,80})\(\) (?:got|missing|takes)")
_A_MODEL = re.compile(
    r"For(?:CausalLM|ConditionalGeneration|SequenceClassification)|(?:Attention|MLP|MoE|DecoderLayer)$"
)


def _callee(text: str) -> str:
    """The function that a TypeError says was called wrongly: the next frame of a traceback that is not there."""
    match = _CALLEE.search(text[:4000])
    if match is None:
        return ""
    built = match["name"] == "__init__" and _A_MODEL.search(match["owner"] or "")
    return "load_model" if built else match["name"]


def _serving(observation: Observation) -> bool:
    """Printed by a file that only requests reach, or by the loop over them of V0 (engine/multiprocessing/engine.py, 0.6
    to 0.9), not by its start."""
    file, _, line = str(observation.values.get("source", "")).partition(":")
    if file.startswith("serving_") or FILES.get(file) == "runtime_request":
        return True
    return file == "async_llm_engine.py" or (file == "engine.py" and 0 < int(line or 0) < STARTS)


def milestone(observations: Sequence[Observation]) -> StageName | None:
    best: StageName | None = None
    for observation in observations:
        stage = MILESTONES.get(observation.kind)
        if observation.kind == "blocks_override" and observation.values.get("before") == 0:
            stage = "cudagraph_profile"
        elif observation.kind == "tr_kv":
            stage = _trtllm_pool(observations, observation)
        elif observation.kind == "tr_graphs":  # twice as well: lines of the dummy run follow the first time
            later = {other.kind for other in observations if other.line > observation.line}
            stage = "profile_run" if later & {"tr_weights", "tr_activation", "tr_budget"} else "cudagraph_capture"
        elif observation.kind == "tr_step":
            stage = AFTER_COMPONENTS.get(str(observation.values.get("component", "")))
        elif observation.kind == "bar":
            what = str(observation.values.get("what", ""))
            stage = next((name for pattern, name in BARS if compiled(pattern).search(what)), None)
        elif observation.kind == "placed":
            stage = next(name for name in ORDER if name == observation.values.get("stage"))
        elif observation.kind == "lc_phase":
            stage = stages_llamacpp.of_function(str(observation.values.get("function", "")))
        if stage and (best is None or ORDER.index(stage) >= ORDER.index(best)):
            best = stage
    return best


def _trtllm_pool(observations: Sequence[Observation], pool: Observation) -> StageName:
    """The line is printed for the temporary pool, with which the peak is measured, and for the real one behind it. A
    built engine has one pool, and nothing to warm up."""
    kinds = {observation.kind for observation in observations if observation.line < pool.line}
    if kinds & {"tr_available", "tr_engine", "tr_context"}:
        return "runtime_request"
    others = {
        observation.values.get("tokens")
        for observation in observations
        if observation.kind == "tr_kv" and observation.line < pool.line
    }
    if kinds & {"tr_budget", "tr_estimate"} or others - {pool.values.get("tokens")}:
        return "cudagraph_capture"
    return "profile_run"


def _after(reached: StageName, failure: Observation, everything: Sequence[Observation]) -> StageName:
    """What an exception after the last milestone was doing."""
    tried, total = failure.values.get("tried"), failure.values.get("total")
    if reached == "profile_run" and isinstance(tried, int) and isinstance(total, int) and tried > total * 0.6:
        return "kv_alloc"  # no forward asks for most of a card at once: V0's state cache for max_num_seqs
    if (
        reached == "kv_alloc"
        and failure.kind == "cuda_error_oom"
        and not any(o.kind == "v0_blocks" for o in everything)
    ):
        # CUDA's own words: PyTorch's allocator, which makes the cache, has a message of its own (V0 pins memory there)
        return "cudagraph_capture"
    if reached == "kv_check" and failure.kind in ("torch_oom", "cuda_error_oom", "triton_oom"):
        return "kv_alloc"  # the check is a ValueError; an allocation behind it is the cache's
    return reached


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


def _ended(observations: Sequence[Observation], lines: Sequence[Line]) -> Death:
    """No failure is in the text. That nothing failed is said only of a server that was up: a start that is cut off has
    not failed yet, and nobody knows what came next."""
    completed = frozenset(observation.kind for observation in observations)
    doubt = find_doubt(observations) or unworded_doubt(lines, last_ready(observations))
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
