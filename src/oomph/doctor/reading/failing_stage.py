"""The stage of one failure: by its own words, by the frames above it, by how far the log had got, and last by what is
left of it."""

from collections.abc import Sequence

from oomph.doctor.reading.guesses import STARTS, guess, starting
from oomph.doctor.reading.meanings import (
    COMPONENTS,
    FAILURES,
    MILESTONES,
    NATIVE,
    NATIVE_FILES,
    ORDER,
    READY,
    TROUBLES,
    WEAK,
    stage_of,
)
from oomph.doctor.reading.milestones import milestone
from oomph.doctor.reading.places import compiles, place_stage
from oomph.doctor.reading.towers import in_tower
from oomph.doctor.reading.tracebacks import frame_stage, joins_ranks
from oomph.engines.llamacpp.log import stages as stages_llamacpp
from oomph.facts.loglines import compiled
from oomph.facts.vllm.files import FILES
from oomph.ir import StageName
from oomph.ir.evidence import Placed
from oomph.ir.log_kinds import LogKind
from oomph.ir.observation import Observation
from oomph.text.late import late_pattern

_NEAR = 40  # lines around a failure in which a C++ frame of it may stand


def failing_stage(
    failure: Observation,
    functions: Sequence[str],
    files: Sequence[str],
    before: Sequence[Observation],
    everything: Sequence[Observation],
    story_stage: StageName | None = None,
) -> Placed:
    """`before` is what the log has above the failure, `story_stage` what people name. The first that knows decides: the
    engine's words, its frames, what the failure is about, how far the log had got, what people say, what is left."""
    return (
        _by_words(failure, functions, files, before, everything)
        or _by_frames(failure, functions, files, everything)
        or _by_what_it_is_about(failure, before, everything, story_stage)
        or _by_progress(failure, before, everything, story_stage)
        or _by_what_is_left(failure, functions, files, everything, story_stage)
    )


def _by_words(
    failure: Observation,
    functions: Sequence[str],
    files: Sequence[str],
    before: Sequence[Observation],
    everything: Sequence[Observation],
) -> Placed | None:
    stated = stage_of(FAILURES, failure.kind) or stage_of(TROUBLES, failure.kind)
    if "title" in failure.values and stated == "other" and (below := _below_a_title(functions, files)):
        return below, "traceback"
    if failure.kind in ("available_kv", "v0_terms", "v0_results", "sg_profiled", "tr_budget"):
        return "kv_check", "message"
    if failure.kind == "tr_component":
        component, _, purpose = str(failure.values.get("component", "")).partition(" (")
        return ("profile_run" if "temporary" in purpose else COMPONENTS.get(component, "other")), "message"
    if failure.kind == "tr_no_engine" and _building(failure, before):
        return "other", "message"  # TensorRT's builder, not a server that reads its engine
    if "wake_up" in failure.text and failure.kind not in TROUBLES:
        return "runtime_request", "message"  # only an engine that was up is woken
    if failure.kind == "x_architecture":
        return _where_unknown(failure, functions, files, before)
    if failure.kind == "x_mismatch" and (_IN_CONFIG.search(failure.text) or _validated(failure, everything)):
        return "other", "message"  # found while the settings are read
    if stated == "other" and failure.kind in TROUBLES:
        reached = milestone(before)
        if (frame_stage(functions, files) or place_stage(functions, files)) == "runtime_request":
            return "runtime_request", "traceback"
        if reached is None and _ran(functions, files):
            return "profile_run", "traceback"  # a layer is run for the first time while profiling
        return (reached if reached and ORDER.index(reached) >= ORDER.index("weights_load") else stated), "message"
    if failure.kind == "cumem_oom":  # with --enable-sleep-mode weights and KV cache come from the same allocator
        if placed := frame_stage(functions, files):
            return placed, "traceback"
        reached = milestone(before)
        if not any(observation.kind in ("slept", "woken") for observation in before) and reached != "runtime_request":
            return ("kv_alloc", "milestone") if reached in _KV_IS_NEXT else ("weights_load", "milestone")
    if stated is not None:
        return stated, "message"
    if failure.kind == "exception" and failure.values.get("type") in OF_CLIENTS:
        return "runtime_request", "message"
    if failure.kind == "dumped_step" or failure.values.get("place") in AT_RUN_TIME:
        return "runtime_request", "message"
    return None


def _where_unknown(
    failure: Observation, functions: Sequence[str], files: Sequence[str], before: Sequence[Observation]
) -> Placed:
    """llama.cpp's loader meets an architecture in the file that it reads (llama-model.cpp, load_arch); SGLang looks
    the class up when it loads (model_loader/utils.py get_model_architecture), vLLM when it reads the configuration."""
    if _LOADER.search(failure.text):
        return "weights_load", "message"
    loading = milestone(before) == "weights_load" and any(o.kind == "sg_load_begin" for o in before)
    in_loader = any("/srt/" in path for path in files) and place_stage(functions, files) == "weights_load"
    return ("weights_load", "traceback") if in_loader or loading else ("other", "message")


# Stages after which the next thing that sleep mode's allocator is asked for is the KV cache.
_KV_IS_NEXT = ("profile_run", "cudagraph_profile", "kv_check", "kv_alloc")
_LOADER = late_pattern(r"(?i)unknown (?:model architecture|pre-tokenizer type|projector type)|decoder rope type")


def _building(failure: Observation, before: Sequence[Observation]) -> bool:
    """The builder's own lines stand near above, and none of an engine that was loaded behind them."""
    near = [observation.kind for observation in before if failure.line - observation.line <= _NEAR]
    return "tr_building" in near and "tr_engine" not in near[near.index("tr_building") :]


def _below_a_title(functions: Sequence[str], files: Sequence[str]) -> StageName | None:
    """Where the traceback was whose error only the title names."""
    return (
        frame_stage(functions, files) or place_stage(functions, files) or ("profile_run" if compiles(files) else None)
    )


def _by_frames(
    failure: Observation, functions: Sequence[str], files: Sequence[str], everything: Sequence[Observation]
) -> Placed | None:
    from_frames = frame_stage(functions, files)
    if not from_frames:
        from_frames = frame_stage(_method(failure, everything))
    if not from_frames and (callee := _callee(failure.text)):
        from_frames = frame_stage([callee]) or place_stage([callee], ())
    if from_frames == "startup_free_memory" and (failure.kind == "x_nccl" or joins_ranks(failure.kind, files)):
        return "other", "traceback"  # v1/worker/gpu_worker.py:263, 282 (0.20.0): ranks are joined before memory is read
    from_frames = from_frames or place_stage(functions, files)
    return (from_frames, "traceback") if from_frames else None


def _reached(
    failure: Observation, before: Sequence[Observation], everything: Sequence[Observation]
) -> StageName | None:
    """The last milestone above the failure, or on its own line."""
    return milestone((*before, *(o for o in everything if o.line == failure.line and o.kind in MILESTONES)))


def _by_what_it_is_about(
    failure: Observation,
    before: Sequence[Observation],
    everything: Sequence[Observation],
    story_stage: StageName | None,
) -> Placed | None:
    """C++ frames and sentences that name a thing, unless the server was up by then."""
    reached = _reached(failure, before, everything)
    advised = any(o.kind == "sg_capture_failed" and o.line >= failure.line for o in everything)
    if advised and failure.kind == "torch_oom" and reached != "runtime_request":
        return "cudagraph_capture", "message"  # SGLang's report of what ended its capture
    native = _native(failure, everything)
    if native is not None and reached != "runtime_request":
        joined = native == "startup_free_memory" and failure.kind in TROUBLES
        return ("other" if joined else native), "traceback"
    if failure.kind in TROUBLES and reached == "startup_free_memory":
        return "other", "milestone"  # the ranks are joined there; nothing of the model is on a GPU
    if failure.kind in TROUBLES and reached is None and (computing := stages_llamacpp.where(everything, failure.line)):
        return computing, "message"
    about = failure.values.get("about")
    by_people = failure.kind == "memory_short" and not failure.process and "source" not in failure.values
    if by_people and about is not None and story_stage is not None:
        return story_stage, "said"  # a person's sentence about many things: the one that says what it was doing counts
    if by_people and about == "runtime_request" and not _OF_REQUESTS.search(failure.text):
        return None  # "it will prompt that there is not enough memory"
    if about is not None and reached != "runtime_request":
        return next(stage for stage in ORDER if stage == about), "message"
    if failure.kind == "frame" and starting(failure) and reached is None:
        return "profile_run", "traceback"  # the model ran while the engine was starting: only profiling does that
    if failure.kind == "sampler_oom":
        # the same words in both passes; without a line before them the second, where everything else is on the card
        return ("profile_run" if reached == "profile_run" else "sampler_warmup"), "message"
    return None


_OF_REQUESTS = late_pattern(
    r"(?i)prefill|decod\w{1,3}|\brequests?\b|\bprompts\b|(?:long|the|a|an|each|my) prompt|forward pass"
)


def _by_progress(
    failure: Observation,
    before: Sequence[Observation],
    everything: Sequence[Observation],
    story_stage: StageName | None,
) -> Placed | None:
    reached = _reached(failure, before, everything)
    if _serving(failure) or any(observation.kind in READY for observation in before):
        return "runtime_request", "message"  # the server had said that it was up, or only a server prints this
    if reached == "runtime_request" or failure.kind == "engine_dead":
        return "runtime_request", "milestone"
    if any(o.kind == "engine_dead" for o in everything) and not did_not_start(everything):
        return "runtime_request", "message"  # said of an engine that had started
    if failure.values.get("who") == "Engine core" and milestone(everything) is None:
        return "runtime_request", "message"  # core_client.py:541 (0.11.0): watched from its ready message on
    if failure.kind in ("engine_failed", "secondary"):
        # a child died, of what is not in the log; what it had got to may be
        return (reached, "milestone") if reached is not None and reached != "other" else ("other", "guess")
    if failure.kind == "x_nccl" and int(failure.values.get("sequence") or 0) > START_COLLECTIVES:
        return "runtime_request", "message"
    if reached is None and not failure.process and "source" not in failure.values:
        reached = milestone(everything)  # a title or a sentence above the log, not a line of it
    if reached is None and failure.kind == "tr_pool_full":
        return "runtime_request", "message"  # requests take blocks; the dummy batches of a start print lines before it
    if reached == "kv_alloc" and failure.kind in TROUBLES and stages_llamacpp.loading(before):
        return "weights_load", "milestone"  # llama-model.cpp: the buffers are there, and their data is being read
    if reached == "kv_alloc" and _no_room_for_tokens(failure, everything):
        return "kv_check", "milestone"
    if reached:
        stage = _after(reached, failure, everything)
        later = story_stage is not None and stage == "kv_alloc" and ORDER.index(story_stage) > ORDER.index(stage)
        return (story_stage, "said") if story_stage is not None and later else (stage, "milestone")
    return None


def _by_what_is_left(
    failure: Observation,
    functions: Sequence[str],
    files: Sequence[str],
    everything: Sequence[Observation],
    story_stage: StageName | None,
) -> Placed:
    if failure.kind == "x_compiler":
        return "profile_run", "guess"  # kernels and graphs are compiled when the model first runs
    if did_not_start(everything) and _forward(functions, files):
        return "profile_run", "traceback"  # the model ran, and the engine never came up
    speaks = any(o.kind in ("memory_short", "oom_mentioned", "said_oom") for o in everything)
    if "_initialize_kv_caches" in functions and failure.kind not in TROUBLES:
        # v1/engine/core.py, engine/llm_engine.py: it begins with the memory profile, and goes on to the check
        return ("kv_check" if any(_KV_IN_TITLE.search(o.text) for o in everything) else "profile_run"), "guess"
    if speaks and failure.kind in WEAK and _computes(functions, files):
        return "profile_run", "guess"  # a layer's own code ran; that it was a request somebody would say
    if "get_response" in functions:
        return "other", "guess"  # an answer to the executor: behind the load, but not which one
    began = bool(STARTING.intersection(functions))
    if story_stage is not None and failure.kind not in TROUBLES and not (began and story_stage == "runtime_request"):
        return story_stage, "said"
    if any("/v1/sample/" in path for path in files):
        return "sampler_warmup", "guess"  # its worst case is run after the capture, which is where it mostly fails
    if failure.kind != "torch_oom" and "forward" in functions:
        return ("profile_run" if in_tower(functions, files) else "runtime_request"), "guess"
    guessed = guess(failure, everything)
    if guessed == "other" and failure.kind not in TROUBLES and failure.kind not in WEAK and began:
        guessed = while_starting(failure)  # memory that ran out while an engine was built was the model's
    if guessed == "runtime_request" and (did_not_start(everything) or STARTING.intersection(functions)):
        guessed = while_starting(failure)
    return guessed, "guess"


def _native(failure: Observation, everything: Sequence[Observation]) -> StageName | None:
    """The innermost C++ frame near the failure that has a row."""
    near = (o for o in everything if o.kind == "tr_line" and abs(o.line - failure.line) <= _NEAR)
    names = (str(o.values["function"]) for o in near if "function" in o.values)
    functions = list(names)
    rows = (stage for name in functions for pattern, stage in NATIVE if compiled(pattern).search(name))
    if stage := next(rows, None):
        return stage
    if any("reshape" in name for name in functions):
        return "kv_alloc"  # buffers are sized when a session is set up, and again in a step, whose frame is beside it
    near_failures = (o for o in everything if o.kind == "tr_oom" and abs(o.line - failure.line) <= _NEAR)
    sources = (str(o.values.get("file", "")) for o in (failure, *near_failures))
    return next((NATIVE_FILES[source] for source in sources if source in NATIVE_FILES), None)


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


_IN_CONFIG = late_pattern(r"[Qq]uantization method|rope_scaling|[Tt]okenizer|chat template|config file")


def _validated(failure: Observation, everything: Sequence[Observation]) -> bool:
    """Inside of a validator's message, which is about settings."""
    return any(
        observation.kind == "x_setting" and 0 <= failure.line - observation.line <= 3 for observation in everything
    )


# raised by whoever asks a server: httpx, httpcore, requests, aiohttp, the openai package
OF_CLIENTS = frozenset({"RemoteProtocolError", "APIConnectionError", "APITimeoutError", "ReadTimeout", "ReadError",
                        "ClientPayloadError", "ServerDisconnectedError", "ChunkedEncodingError", "InternalServerError",
                        "APIError", "ClientConnectorError"})  # fmt: skip
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


_NEVER_UP = late_pattern(r"initialization failed|failed to start")


def while_starting(failure: Observation) -> StageName:
    """By the figures of PyTorch's line: little of our own on the card is a load, more is the profiling run."""
    allocated, total = failure.values.get("allocated"), failure.values.get("total")
    little = isinstance(allocated, int) and isinstance(total, int) and allocated < total * 0.3
    return "weights_load" if little else "profile_run"


def _ran(functions: Sequence[str], files: Sequence[str]) -> bool:
    """A layer's or a model's forward is among the frames."""
    return any(
        function.startswith("forward") and "/model_executor/" in path for function, path in zip(functions, files)
    )


_KV_IN_TITLE = late_pattern(r"(?i)^# .{0,200}\bKV[ _-]?cache")


def _computes(functions: Sequence[str], files: Sequence[str]) -> bool:
    """The innermost frame is of a layer or a kernel, and not of its construction or its load."""
    return bool(files) and any(
        part in files[-1] for part in ("/model_executor/layers/", "/_custom_ops.py", "/v1/attention/")
    )


def _forward(functions: Sequence[str], files: Sequence[str]) -> bool:
    """Something of an engine's own ran a pass: a layer, an attention backend."""
    own = ("/vllm/", "/sglang/", "/tensorrt_llm/")
    return any(
        function.startswith("forward") and any(part in path for part in own) for function, path in zip(functions, files)
    )


def _method(failure: Observation, observations: Sequence[Observation]) -> list[str]:
    """What the executor had asked its worker for, on the failure's own line."""
    own = (
        observation.values.get("method")
        for observation in observations
        if observation.kind in ("engine_failed", "x_slow_start") and observation.line == failure.line
    )
    return [str(name) for name in own if name]


_CALLEE = late_pattern(r"TypeError: (?:(?P<owner>\w{1,80})\.)?(?P<name>\w{1,80})\(\) (?:got|missing|takes)")
_A_MODEL = late_pattern(
    r"For(?:CausalLM|ConditionalGeneration|SequenceClassification)|(?:Attention|MLP|MoE|DecoderLayer)$"
)


def _callee(text: str) -> str:
    """The function that a TypeError says was called wrongly: the next frame of a traceback that is not there."""
    match = _CALLEE.search(text[:4000])
    if match is None:
        return ""
    is_model = match["name"] == "__init__" and _A_MODEL.search(match["owner"] or "")
    return "load_model" if is_model else match["name"]


def _serving(observation: Observation) -> bool:
    """Printed by a file that only requests reach, or by the loop over them of V0 (engine/multiprocessing/engine.py, 0.6
    to 0.9), not by its start."""
    file, _, line = str(observation.values.get("source", "")).partition(":")
    if file.startswith("serving_") or FILES.get(file) == "runtime_request":
        return True
    return file == "async_llm_engine.py" or (file == "engine.py" and 0 < int(line or 0) < STARTS)


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
