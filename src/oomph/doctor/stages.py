"""Where a start-up died: the first real exception, the frames above it, and the last milestone before it.

The traceback decides when it is there; the milestones (a stage is entered when the previous one's closing line was
printed) when it is not; a log without any error has not failed, and is said to end in the stage after its last
milestone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from oomph.doctor import stages_llamacpp
from oomph.ir.observation import Observation
from oomph.ir.timeline import StageName
from oomph.logs.release import positions

# Functions of vLLM's worker (v1/worker/gpu_worker.py, gpu_model_runner.py) -> stage. The first row that any frame of
# the traceback is in wins: capture_model also runs inside profile_cudagraph_memory.
FRAMES: tuple[tuple[StageName, frozenset[str]], ...] = (
    ("cudagraph_profile", frozenset({"profile_cudagraph_memory", "_init_minimal_kv_cache_for_profiling"})),
    ("weights_load", frozenset({"load_model", "create_weights", "process_weights_after_loading", "load_weights",
                                "make_layers", "initialize_model", "get_model", "load_draft_model",
                                "create_lora_manager", "load_lora_model", "create_lora_weights"})),
    ("kv_check", frozenset({"_check_enough_kv_cache_memory", "check_enough_kv_cache_memory", "get_kv_cache_configs",
                            "get_kv_cache_config", "raise_if_cache_size_invalid"})),
    ("kv_alloc", frozenset({"initialize_from_config", "initialize_cache", "_init_cache_engine"})),
    ("profile_run", frozenset({"profile_run", "determine_available_memory", "determine_num_available_blocks"})),
    ("kv_alloc", frozenset({"_allocate_kv_cache_tensors", "_allocate_kv_cache", "initialize_kv_cache",
                            "allocate_kv_cache"})),
    ("cudagraph_capture", frozenset({"capture_model", "_capture_cudagraphs", "_warmup_and_capture"})),
    ("sampler_warmup", frozenset({"_dummy_sampler_run", "_dummy_pooler_run"})),
    ("cudagraph_capture", frozenset({"kernel_warmup", "compile_or_warm_up_model", "flashinfer_autotune"})),
    ("runtime_request", frozenset({"execute_model", "sample_tokens", "wake_up", "create_and_map", "execute_dummy_batch",
                                   "run_busy_loop", "_get_prompt_logprobs_dict"})),
    ("startup_free_memory", frozenset({"init_device", "request_memory", "set_device",
                                       "init_worker_distributed_environment"})),
    ("profile_run", frozenset({"_dummy_run"})),
)  # fmt: skip

# the stage that has begun once a line of this kind was printed
MILESTONES: dict[str, StageName] = {
    "world": "startup_free_memory", "nccl": "startup_free_memory",
    "load_begin": "weights_load", "load_files": "weights_load", "checkpoint_size": "weights_load",
    "load_files_done": "weights_load", "draft_load": "weights_load", "draft_shares": "weights_load",
    "weights": "profile_run", "encoder_budget": "profile_run", "mm_profile": "profile_run",
    "mm_worst_case": "profile_run",
    "dynamo": "profile_run", "compiled": "profile_run", "warmup_run": "profile_run", "gdn_warmup": "profile_run",
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
    "tr_weights": "profile_run", "tr_activation": "kv_check", "tr_budget": "kv_alloc", "tr_kv": "runtime_request",
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
    "host_kill": "host_ram", "container_kill": "host_ram", "ray_kill": "host_ram", "sigkill": "host_ram",
    "shm_full": "other", "bus_error": "other",
    "sg_no_pool": "kv_check", "sg_capture_failed": "cudagraph_capture", "sg_pool_full": "runtime_request",
    "sg_no_slots": "runtime_request", "sg_no_state": "kv_check",
    "lc_alloc_weights": None, "lc_no_weights": None, "lc_alloc_compute": None, "lc_no_compute": None, "lc_no_kv": None,
    "lc_malloc": None, "lc_cpu_malloc": "host_ram", "lc_no_output": "host_ram", "lc_late": "runtime_request",
    "lc_cublas": None, "lc_no_context": "kv_alloc", "lc_load_failed": "weights_load",
    "ol_host_refused": "host_ram", "ol_layout": "weights_load", "ol_runner_died": None, "ol_panic": None,
    "ol_timeout": "other",
    "tr_oom": None, "tr_no_sequence": "kv_alloc",
}  # fmt: skip
# They name the failure but not its kind: used only when nothing above was printed.
WEAK = ("engine_failed", "secondary", "exception", "frame")
ORDER: tuple[StageName, ...] = (
    "other", "startup_free_memory", "weights_load", "profile_run", "cudagraph_profile", "kv_check", "kv_alloc",
    "cudagraph_capture", "sampler_warmup", "runtime_request", "host_ram",
)  # fmt: skip
NOT_FATAL = frozenset({"ValidationError", "KeyboardInterrupt", "BadRequestError", "CancelledError", "HTTPException"})


class Death(Struct, frozen=True):
    failed: bool
    stage: StageName | None
    basis: str  # "traceback", "message", "milestone", "the log ends here", "guess"
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
    functions, files = _traceback(observations, index)
    if _llama(failure, observations):
        stage = stages_llamacpp.phase(observations, index, milestone(before)) or _guess(failure)
        failed = not stages_llamacpp.recovered(observations, index)
        return Death(failed, stage, "message", failure.line, failure.kind, completed=completed)
    stage, basis = _stage(failure, functions, before)
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
    return o.kind in ("exception", "frame") and up and o.process not in ("EngineCore", "Worker", "VllmWorker")


def _harmless(o: Observation, done: set[str]) -> bool:
    # raised while the model is built or compiled: a run that printed its concurrency is another run than this line's
    if o.kind in ("fp8e4nv", "e5m2_refused") and "concurrency" in done:
        return True
    if o.kind == "kv_need_part":
        return "kv_need" in done or "kv_len_part" not in done
    return o.kind == "cuda_error_oom" and "Tried to allocate" in o.text


def _negative(o: Observation) -> bool:
    value = o.values.get("available")
    return isinstance(value, (int, float)) and value <= 0


def _nothing_left(o: Observation, done: set[str]) -> bool:
    """V0 goes on to the block check: what is below a hundredth of any card cannot hold one request."""
    value = o.values.get("available")
    return isinstance(value, (int, float)) and value < 1 << 28 and not done & {"v0_blocks", "kv_tokens", "kv_need_v0"}


def _traceback(observations: Sequence[Observation], index: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Frames of the same process: above the failure back to the previous exception, or right behind it."""
    own = observations[index]
    above: list[Observation] = []
    for o in reversed(observations[max(0, index - 400) : index]):
        if o.kind == "exception" and o.line < own.line and above:
            break
        if o.kind == "frame" and _same_process(o, own):
            above.append(o)
    frames = above[::-1]
    if own.kind == "frame":
        frames.append(own)
    if not frames:
        frames = [o for o in observations[index : index + 120] if o.kind == "frame"]
    return (
        tuple(str(o.values.get("function", "")) for o in frames),
        tuple(str(o.values.get("path", "")) for o in frames),
    )


def _same_process(o: Observation, own: Observation) -> bool:
    if o.rank is not None and own.rank is not None and o.rank != own.rank:
        return False
    return o.process == own.process or not own.process or not o.process


def _stage(failure: Observation, functions: Sequence[str], before: Sequence[Observation]) -> tuple[StageName, str]:
    said = FAILURES.get(failure.kind)
    if failure.kind in ("available_kv", "v0_terms", "v0_results"):
        return "kv_check", "message"
    if said is not None:
        return said, "message"
    from_frames = frame_stage(functions)
    if failure.kind == "engine_failed" and not from_frames:
        from_frames = frame_stage([str(failure.values.get("method", ""))])
    if not from_frames and failure.kind == "frame" and _starting(failure):
        return "profile_run", "traceback"  # the model ran while the engine was starting: only profiling does that
    if from_frames:
        return from_frames, "traceback"
    if failure.kind in ("engine_failed", "secondary"):
        return "other", "guess"  # a child died, of what and doing what is not in the log
    reached = milestone(before)
    if failure.kind == "sampler_oom":
        return ("profile_run" if reached in ("profile_run", None) else "sampler_warmup"), "message"
    if reached:
        return _after(reached, failure, before), "milestone"
    return _guess(failure), "guess"


def _starting(frame: Observation) -> bool:
    """Printed by the handler that says "EngineCore failed to start": core.py, at (a patched build: near) its place."""
    source = str(frame.values.get("source", ""))
    file, _, line = source.partition(":")
    places = positions().get(("engine_failed", file), ())
    return file == "core.py" and any(abs(int(line or 0) - place) <= 5 for _, place in places)


def frame_stage(functions: Iterable[str]) -> StageName | None:
    names = set(functions)
    for stage, wanted in FRAMES:
        if names & wanted:
            inside_profile = names & {"profile_run", "determine_available_memory"}
            return "profile_run" if stage == "sampler_warmup" and inside_profile else stage
    return None


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


def _guess(failure: Observation) -> StageName:
    """A bare PyTorch line. Graph pools exist only after capture; a buffer of a whole card is sized by context."""
    values = failure.values
    tried, total = values.get("tried"), values.get("total")
    if isinstance(tried, int) and isinstance(total, int) and tried >= total * 0.6:
        return "kv_alloc"
    if isinstance(values.get("pools"), int):
        return "sampler_warmup"
    if failure.kind == "torch_oom":
        return "runtime_request"
    return "startup_free_memory" if failure.kind in ("cuda_error_oom", "nccl_oom") else "other"


def _ended(observations: Sequence[Observation]) -> Death:
    return Death(False, milestone(observations), "the log ends here", completed=frozenset(o.kind for o in observations))
