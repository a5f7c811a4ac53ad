"""Where a start-up died: the first real exception, the frames above it, and the last milestone before it.

The traceback decides when it is there; the milestones (a stage is entered when the previous one's closing line was
printed) when it is not; a log without any error has not failed, and is said to end in the stage after its last
milestone.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from oomph.doctor import stages_llamacpp
from oomph.doctor.guesses import STARTS, guess, said, starting
from oomph.doctor.tracebacks import behind, frame_stage, traceback
from oomph.ir.observation import Observation
from oomph.ir.timeline import StageName

# the stage that has begun once a line of this kind was printed
MILESTONES: dict[str, StageName] = {
    "world": "startup_free_memory", "nccl": "startup_free_memory",
    "load_begin": "weights_load", "load_files": "weights_load", "checkpoint_size": "weights_load",
    "load_files_done": "weights_load", "draft_load": "weights_load", "draft_shares": "weights_load",
    "weights": "profile_run", "encoder_budget": "profile_run", "mm_profile": "profile_run",
    "mm_worst_case": "profile_run",
    "dynamo": "profile_run", "compiled": "profile_run", "compiled_cold": "profile_run",
    "warmup_run": "profile_run", "gdn_warmup": "profile_run",
    "graph_profile": "cudagraph_profile", "graph_estimate": "kv_check", "available_kv": "kv_check",
    "graph_util": "kv_check", "graph_estimate_off": "kv_check", "manual_kv": "kv_check", "memory_profile": "kv_check",
    "v0_budget": "kv_check", "v0_terms": "kv_check", "v0_results": "kv_check", "requested": "profile_run",
    "kv_tokens": "kv_alloc", "concurrency": "kv_alloc", "v0_blocks": "kv_alloc",
    "capture_capped": "cudagraph_capture", "dumped_step": "runtime_request",
    "capture_begin": "cudagraph_capture", "autotune": "cudagraph_capture", "kernel_warmup": "cudagraph_capture",
    "graphs": "sampler_warmup", "graph_pool": "runtime_request", "ledger": "runtime_request",
    "engine_ready": "runtime_request", "serving": "runtime_request", "stats": "runtime_request",
    "slept": "runtime_request",
    "sg_load_begin": "weights_load", "sg_weights": "kv_alloc", "sg_kv": "kv_alloc", "sg_pool": "cudagraph_capture",
    "sg_capture_begin": "cudagraph_capture", "sg_capture_end": "runtime_request", "sg_ready": "runtime_request",
    "sg_serving": "runtime_request", "sg_retract": "runtime_request",
    "lc_file": "weights_load", "lc_layers": "weights_load", "lc_weights": "kv_alloc", "lc_param": "kv_alloc",
    "lc_kv": "kv_alloc", "lc_kv_total": "kv_alloc", "lc_kv_cells": "kv_alloc", "lc_compute": "runtime_request",
    "lc_copies": "kv_alloc", "lc_serving": "runtime_request", "lc_prompt_cache": "runtime_request",
    "lc_slots": "runtime_request", "lc_request": "runtime_request", "lc_state": "kv_alloc", "lc_output": "kv_alloc",
    "ol_server": "weights_load", "ol_offload": "weights_load", "ol_weights": "weights_load",
    "ol_runner": "weights_load", "ol_started": "runtime_request",
    "sg_stats": "runtime_request", "sg_available": "kv_alloc",
    "tr_engine": "weights_load", "tr_context": "kv_alloc", "tr_weights": "profile_run", "tr_activation": "kv_check",
    "tr_budget": "kv_alloc", "tr_kv": "runtime_request",
}  # fmt: skip

# Lines that are the failure itself, and the stage they belong to ("" = where the log had got to).
FAILURES: dict[str, StageName | None] = {
    "torch_oom": None, "cuda_error_oom": None, "nccl_oom": None, "triton_oom": None, "cumem_oom": "runtime_request",
    "cuda_busy": "startup_free_memory", "free_short": "startup_free_memory", "external_weights": "startup_free_memory",
    "load_oom": "weights_load", "heads_divide": "other", "shape_divide": "other", "e5m2_refused": "other",
    "swap_flag": "other", "bad_flag": "other",
    "fp8e4nv": "profile_run", "sampler_oom": None, "pooler_oom": "profile_run", "freed_while_profiling": "profile_run",
    "kv_none": "kv_check", "kv_need": "kv_check", "kv_need_part": "kv_check", "kv_need_v0": "kv_check",
    "auto_fit_none": "kv_check", "mamba_blocks": "kv_check", "kv_alloc_failed": "kv_alloc",
    "sleep_twice": "startup_free_memory", "swap_exhausted": "runtime_request", "workspace_locked": "runtime_request",
    "encoder_item": "runtime_request",
    "mmap_failed": "host_ram", "driver_oom": "host_ram",
    "host_kill": "host_ram", "container_kill": "host_ram", "ray_kill": "host_ram", "sigkill": "host_ram",
    "shm_full": "other", "bus_error": "other",
    "sg_unbalanced": "startup_free_memory",
    "sg_no_pool": "kv_check", "sg_capture_failed": "cudagraph_capture", "sg_pool_full": "runtime_request",
    "sg_no_slots": "runtime_request", "sg_resume_oom": "runtime_request", "sg_no_state": "kv_check",
    "lc_alloc_weights": None, "lc_no_weights": None, "lc_alloc_compute": None, "lc_no_compute": None, "lc_no_kv": None,
    "lc_malloc": None, "lc_cpu_malloc": "host_ram", "lc_no_output": "host_ram", "lc_late": "runtime_request",
    "lc_cublas": None, "lc_no_context": "kv_alloc", "lc_load_failed": "weights_load",
    "ol_host_refused": "host_ram", "ol_layout": "weights_load", "ol_runner_died": None, "ol_panic": None,
    "ol_timeout": "other", "ol_stopped": "runtime_request", "lc_crash": "other", "lc_guard": "startup_free_memory",
    "lc_bad_flag": "other",
    "tr_late": "runtime_request", "tr_no_engine": "weights_load", "tr_load_oom": "weights_load",
    "tr_component": None, "tr_oom": None, "tr_no_sequence": "kv_alloc",
}  # fmt: skip
# TensorRT-LLM's names for what it was creating (py_executor_creator.py); the executor's last step records the graphs
COMPONENTS: dict[str, StageName] = {
    "Model": "weights_load", "Draft model for speculative decoding": "weights_load", "Initial KV cache": "kv_alloc",
    "Sampler": "profile_run", "Drafter": "profile_run", "Model resources created during usage": "profile_run",
    "KV cache": "kv_alloc", "Additional executor resources": "cudagraph_capture",
}  # fmt: skip
# They name the failure but not its kind: used only when nothing above was printed.
WEAK = ("engine_failed", "engine_dead", "secondary", "sg_exception", "tr_executor", "exception", "frame", "dumped_step")
ORDER: tuple[StageName, ...] = (
    "other", "startup_free_memory", "weights_load", "profile_run", "cudagraph_profile", "kv_check", "kv_alloc",
    "cudagraph_capture", "sampler_warmup", "runtime_request", "host_ram",
)  # fmt: skip
NOT_FATAL = frozenset({"ValidationError", "KeyboardInterrupt", "BadRequestError", "CancelledError", "HTTPException"})


class Death(Struct, frozen=True):
    failed: bool
    stage: StageName | None
    basis: str  # "traceback", "message", "milestone", "said" (beside the log), "the log ends here", "guess"
    line: int = 0  # of the failure
    kind: str = ""
    functions: tuple[str, ...] = ()  # of the traceback, outermost first
    files: tuple[str, ...] = ()
    completed: frozenset[str] = frozenset()  # kinds seen before the failure


def last_run(observations: Sequence[Observation]) -> Sequence[Observation]:
    """Of a log with several start-ups the last that failed, else the last."""
    starts = [i for i, o in enumerate(observations) if o.kind == "args"]
    if len(starts) < 2:
        return observations
    runs = [observations[a:b] for a, b in zip(starts, [*starts[1:], len(observations)])]
    failed = [run for run in runs if _failure(run) is not None]
    return failed[-1] if failed else runs[-1]


def death(observations: Sequence[Observation]) -> Death:
    failure = _failure(observations)
    if failure is None:
        return _ended(observations)
    index = next(i for i, o in enumerate(observations) if o is failure)
    before = observations[:index]
    completed = frozenset(o.kind for o in before)
    functions, files = traceback(observations, index)
    if failure.kind == "engine_failed" and frame_stage(functions, files) is None:
        functions, files = behind(observations, index)  # the workers' tracebacks stand above it, its own below
    if _llama(failure, observations):
        stage = stages_llamacpp.phase(observations, index, milestone(before)) or guess(failure, observations)
        failed = not stages_llamacpp.recovered(observations, index)
        return Death(failed, stage, "message", failure.line, failure.kind, completed=completed)
    stage, basis = _stage(failure, functions, files, observations[:index], observations)
    return Death(True, stage, basis, failure.line, failure.kind, functions, files, completed)


def _llama(failure: Observation, observations: Sequence[Observation]) -> bool:
    """A line of ggml's, of llama.cpp's or of Ollama's, or a bare "CUDA error: out of memory" among them."""
    if failure.kind.startswith(("lc_", "ol_")):
        return FAILURES.get(failure.kind) is None or failure.kind in stages_llamacpp.RECOVERABLE
    return failure.kind in ("cuda_error_oom", "cuda_busy") and any(
        o.kind == "lc_where" and 0 <= o.line - failure.line <= 3 for o in observations
    )


def _failure(observations: Sequence[Observation]) -> Observation | None:
    """The first line that is a failure; a parent's report of its child's death only where nothing else was printed."""
    done = {o.kind for o in observations}
    recovered: Observation | None = None
    for index, o in enumerate(observations):
        if o.kind in FAILURES and not _harmless(o, done) and not stages_llamacpp.harmless(observations, index):
            if o.kind not in stages_llamacpp.RECOVERABLE or not stages_llamacpp.recovered(observations, index):
                return o
            recovered = recovered or o
        if o.kind == "available_kv" and _negative(o):
            return o
        if o.kind == "sg_profiled" and _no_tokens(o, done):
            return o
        if o.kind in ("v0_terms", "v0_results") and _nothing_left(o, done):
            return o
    if not any(k.startswith(("lc_", "ol_")) for k in done):
        for kind in WEAK:
            for o in observations:
                if o.kind == kind and not _aside(o, done):
                    return o
    return recovered


def _aside(o: Observation, done: set[str]) -> bool:
    """A refused request or a helper's complaint in a server that was up."""
    if o.kind == "exception" and o.values.get("type") in NOT_FATAL:
        return True
    up = "concurrency" in done or "serving" in done
    if o.kind == "secondary" and "signal_handler" in o.text:
        return up  # stopped on request
    return o.kind in ("exception", "frame") and up and o.process not in ("EngineCore", "Worker", "VllmWorker")


def _harmless(o: Observation, done: set[str]) -> bool:
    # raised while the model is built or compiled: a run that printed its concurrency is another run than this line's
    if o.kind in ("fp8e4nv", "e5m2_refused") and "concurrency" in done:
        return True
    if o.kind == "kv_need_part":
        return "kv_need" in done or "kv_len_part" not in done
    if o.kind == "sigkill" and (o.text.strip() == "Killed" or "using SIGKILL" in o.text):
        return bool(
            done & {"exception", "engine_failed", "engine_dead", "secondary"}
        )  # a parent that clears up after an error
    return o.kind == "cuda_error_oom" and "Tried to allocate" in o.text


def _negative(o: Observation) -> bool:
    value = o.values.get("available")
    return isinstance(value, (int, float)) and value <= 0


def _no_tokens(o: Observation, done: set[str]) -> bool:
    """SGLang's pool comes out negative and the start ends there; a draft model's pool is the target's all the same."""
    tokens = o.values.get("tokens")
    return isinstance(tokens, int) and tokens <= 0 and not done & {"sg_capture_begin", "sg_ready", "sg_serving"}


def _nothing_left(o: Observation, done: set[str]) -> bool:
    """V0 goes on to the block check: what is below a hundredth of any card cannot hold one request."""
    value = o.values.get("available")
    return isinstance(value, (int, float)) and value < 1 << 28 and not done & {"v0_blocks", "kv_tokens", "kv_need_v0"}


def _stage(
    failure: Observation,
    functions: Sequence[str],
    files: Sequence[str],
    before: Sequence[Observation],
    everything: Sequence[Observation],
) -> tuple[StageName, str]:
    stated = FAILURES.get(failure.kind)
    if failure.kind in ("available_kv", "v0_terms", "v0_results", "sg_profiled"):
        return "kv_check", "message"
    if failure.kind == "tr_component":
        return COMPONENTS.get(str(failure.values.get("component", "")).partition(" (")[0], "other"), "message"
    if stated is not None:
        return stated, "message"
    if failure.kind == "dumped_step":
        return "runtime_request", "message"
    from_frames = frame_stage(functions, files)
    if not from_frames:
        from_frames = frame_stage(_method(failure, everything))
    if from_frames:
        return from_frames, "traceback"
    reached = milestone(before)
    if failure.kind == "frame" and starting(failure) and reached is None:
        return "profile_run", "traceback"  # the model ran while the engine was starting: only profiling does that
    if failure.kind == "sampler_oom":
        # the same words in both passes; without a line before them the second, where everything else is on the card
        return ("profile_run" if reached == "profile_run" else "sampler_warmup"), "message"
    if reached == "runtime_request" or _serving(failure) or failure.kind == "engine_dead":
        return "runtime_request", "milestone"  # the server was up
    if failure.values.get("who") == "Engine core" and milestone(everything) is None:
        return "runtime_request", "message"  # core_client.py:541 (0.11.0): watched from its ready message on
    if failure.kind in ("engine_failed", "secondary"):
        return "other", "guess"  # a child died, of what and doing what is not in the log
    if reached is None and not failure.process and "source" not in failure.values:
        reached = milestone(everything)  # a title or a sentence above the log, not a line of it
    if reached:
        return _after(reached, failure, before), "milestone"
    if "get_response" in functions:
        return "other", "guess"  # an answer to the executor: behind the load, but not which one
    if told := said(everything):
        return told, "said"
    if failure.kind != "torch_oom" and "forward" in functions:
        return "runtime_request", "guess"
    return guess(failure, everything), "guess"


def _method(failure: Observation, observations: Sequence[Observation]) -> list[str]:
    """What the executor had asked its worker for, on the failure's own line."""
    own = (o.values.get("method") for o in observations if o.kind == "engine_failed" and o.line == failure.line)
    return [str(name) for name in own if name]


def _serving(o: Observation) -> bool:
    """Printed by V0's loop over requests (engine/multiprocessing/engine.py start, 0.6 to 0.9), not by its start."""
    file, _, line = str(o.values.get("source", "")).partition(":")
    return file == "async_llm_engine.py" or (file == "engine.py" and 0 < int(line or 0) < STARTS)


def milestone(observations: Sequence[Observation]) -> StageName | None:
    best: StageName | None = None
    for o in observations:
        stage = MILESTONES.get(o.kind)
        if o.kind == "blocks_override" and o.values.get("before") == 0:
            stage = "cudagraph_profile"
        if stage and (best is None or ORDER.index(stage) >= ORDER.index(best)):
            best = stage
    return best


def _after(reached: StageName, failure: Observation, before: Sequence[Observation]) -> StageName:
    """What an exception after the last milestone was doing."""
    tried, total = failure.values.get("tried"), failure.values.get("total")
    if reached == "profile_run" and isinstance(tried, int) and isinstance(total, int) and tried > total * 0.6:
        return "kv_alloc"  # no forward asks for most of a card at once: V0's state cache for max_num_seqs
    if reached == "kv_check" and failure.kind in ("torch_oom", "cuda_error_oom", "triton_oom"):
        return "kv_alloc"  # the check is a ValueError; an allocation behind it is the cache's
    return reached


def _ended(observations: Sequence[Observation]) -> Death:
    return Death(False, milestone(observations), "the log ends here", completed=frozenset(o.kind for o in observations))
