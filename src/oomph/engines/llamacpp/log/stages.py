"""Where a llama.cpp or Ollama load died: the line that failed, the lines behind it, and whether it went on.

ggml prints the failing allocation first (cudaMalloc, Vulkan, SYCL, the CPU), then who asked for it (alloc_tensor_range:
weights or KV cache; ggml_gallocr_reserve_n: compute buffers), and llama.cpp or Ollama last, in words that name the
phase.
"""

import re
from collections.abc import Sequence
from itertools import islice

from oomph.doctor.reading.meanings import READY
from oomph.facts.loglines import compiled
from oomph.ir import StageName
from oomph.ir.evidence import Placed
from oomph.ir.observation import Observation
from oomph.text.late import late_pattern

_MARKS = ("lc_line", "sign_error")  # whose a line is, and that it is an error
BEHIND = 8  # observations behind a failed allocation that may still be about it

# words that name the phase whatever stands before them; the first row that is there wins
_NAMED: tuple[tuple[str, StageName], ...] = (
    ("lc_late", "runtime_request"), ("lc_no_kv", "kv_alloc"), ("lc_no_weights", "weights_load"),
    ("lc_metal_full", "weights_load"),
    ("lc_no_compute", "kv_alloc"), ("lc_no_context", "kv_alloc"), ("lc_load_failed", "weights_load"),
)  # fmt: skip
_HOST = re.compile(r"CPU\w*|\w+_Host|BLAS", re.IGNORECASE)
# ggml-cuda.cu: who called when a CUDA, ROCm or cuBLAS call failed
_FUNCTIONS: tuple[tuple[str, StageName], ...] = (
    ("get_device_memory", "startup_free_memory"), ("cuda_init", "startup_free_memory"),
    ("set_device", "startup_free_memory"), ("ggml_backend_cuda_device", "startup_free_memory"),
    ("set_tensor", "weights_load"), ("buffer_clear", "kv_alloc"), ("host_malloc", "host_ram"),
)  # fmt: skip
# who printed a line: the function before its first colon (llama.cpp's own names, old and new)
_PRINTERS: tuple[tuple[str, StageName], ...] = (
    (r"^clip_image_\w{0,10}encode|^clip_image_batch|^mtmd_encode|^mtmd_helper_\w{0,10}eval", "runtime_request"),
    # Ollama's runner (runner/ollamarunner/runner.go, runner/llamarunner/runner.go): the methods of its server
    (r"^(?:processBatch|computeBatch|forwardBatch|completion|embeddings)$", "runtime_request"),
    (r"^(?:reserveWorstCaseGraph|allocModel)$", "kv_alloc"),
    (r"^(?:loadModel|load)$", "weights_load"),
    (r"^ggml_backend_sched_graph_compute|^llama_(?:decode|encode|perf_)|^process_ubatch|^update_slots|^params_from_|^log_server_r|^operator|^send_error|^common_perf_",
     "runtime_request"),
    (r"^llama_(?:kv_cache|context|new_context|init_from_|memory_)|_reserve$|compute_meta$|^clip_|^mtmd_|^mllama_|"
     r"^common_init_from_params", "kv_alloc"),
    (r"^load_tensors|^llm_load_|^llama_(?:model_load|load_model)|^print_info|^create_tensor|^load_all_data|getting_tensors",
     "weights_load"),
)  # fmt: skip
# kinds that a run can recover from, if what stands behind them says so
RECOVERABLE = frozenset(
    {"lc_malloc", "lc_cpu_malloc", "lc_alloc_weights", "lc_alloc_compute", "lc_no_compute", "lc_no_kv", "lc_no_weights",
     "lc_load_failed", "lc_no_context", "lc_late"}
)  # fmt: skip
_WENT_ON = frozenset({"lc_serving", "ol_started", "lc_pipeline_retry", "lc_request", "lc_slots"})
_ENDED = frozenset({"ol_runner_died", "ol_layout", "ol_panic", "ol_host_refused", "ol_timeout", "lc_late"})


def of_function(name: str) -> StageName | None:
    return next((stage for pattern, stage in _PRINTERS if compiled(pattern).search(name)), None)


def recovered(observations: Sequence[Observation], index: int) -> bool:
    """Behind the failure the same load went on: without pipeline parallelism, with fewer layers, a smaller context."""
    for observation in observations[index + 1 :]:
        if observation.kind in _ENDED:
            return False
        if observation.kind in _WENT_ON:
            return True
    return False


def harmless(observations: Sequence[Observation], index: int) -> bool:
    """Pinned host memory is only faster to copy from: llama.cpp goes on without it, Vulkan's error line or not."""
    line = observations[index].line
    near = observations[max(0, index - 3) : index + 3]  # on a line of its own, or on the same one
    pinned = any(o.kind == "lc_pinned" and 0 <= line - o.line <= 1 for o in near)
    return observations[index].kind == "lc_malloc" and pinned


def _window(observations: Sequence[Observation], index: int) -> list[Observation]:
    """What may still be about it: a line has several rows, and those that say nothing of their own do not count."""
    return list(islice((o for o in observations[index:] if o.kind not in _MARKS), BEHIND))


def phase(observations: Sequence[Observation], index: int, reached: StageName | None) -> Placed | None:
    """`reached`: the stage that the lines before the failure had got to."""
    placed = _phase(observations, index)
    if placed is None:
        placed = _by_words_of_ggml(observations, index, reached)
    if placed is None and reached is not None:
        placed = reached, "milestone"
    if placed is None and observations[index].kind == "lc_malloc":
        placed = "weights_load", "guess"
    if placed is None:
        return None
    stage, basis = placed
    return ("sampler_warmup" if stage == "runtime_request" and _warming_up(observations[:index]) else stage), basis


def _warming_up(before: Sequence[Observation]) -> bool:
    """The empty run has begun (common/common.cpp), or the last buffer is there, and no slot is there yet."""
    marks = ("lc_warmup", "lc_compute")
    last = next((o.kind for o in reversed(before) if o.kind in marks or o.kind in _WENT_ON or o.kind in READY), None)
    return last in marks


def _phase(observations: Sequence[Observation], index: int) -> Placed | None:
    """By what llama.cpp or Ollama say of it."""
    failure, window = observations[index], _window(observations, index)
    kinds = {o.kind for o in window}
    if failure.kind == "ol_panic":
        return panic(str(failure.values.get("map", ""))), "message"
    if failure.kind == "ol_runner_died":
        return _runner_died(observations, index)
    if "lc_cpu_malloc" in kinds or any(_HOST.fullmatch(str(o.values.get("buffer", ""))) for o in window if _failing(o)):
        return "host_ram", "message"
    blamed = next((o for o in window if o.kind == "lc_phase" and _FAILED.search(o.text)), None)
    stage_of = of_function(str(blamed.values.get("function", ""))) if blamed is not None else None
    if stage_of == "runtime_request":
        return stage_of, "message"  # an encoder's buffers are made when an image comes
    for kind, stage in _NAMED:
        if kind in kinds:
            return stage, "message"
    return (stage_of, "message") if stage_of is not None else None


def _runner_died(observations: Sequence[Observation], index: int) -> Placed:
    sentence = runner(str(observations[index].values.get("why", "")))
    if sentence == "other" and _on_the_cpu(observations):
        return "host_ram", "guess"
    if sentence == "other":  # an exit status or an assertion: the runner's own lines say how far it was
        before = _load_lines(observations[:index]) or _load_lines(observations)  # a client's words come first
        return (before, "milestone") if before is not None else ("other", "guess")
    kinds = {o.kind for o in _window(observations, index)}
    compute = sentence == "weights_load" and kinds & {"lc_alloc_compute", "lc_no_compute"}
    if sentence == "weights_load" and not compute and _BARE.search(str(observations[index].values.get("why", ""))):
        return sentence, "guess"
    return ("kv_alloc" if compute else sentence), "message"


# CUDA's words alone, which are the same for each buffer: llama.cpp's own line behind them has not come along
_BARE = late_pattern(
    r"^\W*(?:(?:cuda|hip|musa)Malloc(?:Managed)? failed\W{1,3})?out of memory"
    r"(?!.{0,80}(?:alloc|unable|load|buffer|ggml|llama_))"
)


def _by_words_of_ggml(observations: Sequence[Observation], index: int, reached: StageName | None) -> Placed | None:
    """By who asked ggml for the memory, which has the same words for several stages."""
    failure, window = observations[index], _window(observations, index)
    kinds = {o.kind for o in window}
    if projector(observations[:index]):
        return "kv_alloc", "milestone"
    if "lc_alloc_compute" in kinds:
        return ("runtime_request" if reached == "runtime_request" else "kv_alloc"), "message"
    if "lc_alloc_weights" in kinds:
        cache = reached in ("kv_alloc", "runtime_request") and not loading(observations[:index])
        return ("kv_alloc" if cache else "weights_load"), "message"
    if window and (called := where(window, failure.line)):
        return called, "message"
    if failure.kind == "lc_malloc" and _larger_than_model(failure, observations):
        return "kv_alloc", "guess"
    return ("runtime_request", "guess") if failure.kind == "lc_cublas" else None


def _on_the_cpu(observations: Sequence[Observation]) -> bool:
    """Ollama's estimate of the whole model is above what is there, and no layer goes to a GPU."""
    for observation in observations:
        full, available = observation.values.get("full"), observation.values.get("available")
        if observation.kind == "ol_offload" and isinstance(full, int) and isinstance(available, int):
            return full > available and not observation.values.get("on_gpu")
    return False


ANY_MODEL = 600 << 30  # bytes: more than one device would be given of any file that people serve


def _larger_than_model(failure: Observation, observations: Sequence[Observation]) -> bool:
    """More in one buffer than the whole file: only a compute buffer is as large (micro-batch, pipeline copies)."""
    tried = failure.values.get("tried")
    sizes = [size for o in observations if o.kind == "lc_file" and isinstance(size := o.values.get("size"), int)]
    return isinstance(tried, int) and tried > (1.1 * max(sizes) if sizes else ANY_MODEL)


def _load_lines(before: Sequence[Observation]) -> StageName | None:
    """How far a runner's own lines go, from the last start of one."""
    stage: StageName | None = None
    for observation in before:
        if observation.kind in ("ol_server", "ol_runner", "ol_started"):
            stage = None
        elif observation.kind in _CONTEXT:
            stage = "kv_alloc"
        elif observation.kind in _LOADED or observation.kind == "ol_progress":
            stage = "weights_load"
        elif observation.kind == "lc_phase":
            stage = of_function(str(observation.values.get("function", ""))) or stage
    return stage if stage in ("weights_load", "kv_alloc") else None


def where(observations: Sequence[Observation], line: int, far: int = BEHIND) -> StageName | None:
    """The stage of the function that ggml names below an error of the device."""
    own = (o for o in observations if o.kind == "lc_where" and 0 <= o.line - line <= far)
    function = next((str(observation.values.get("function", "")) for observation in own), None)
    if function is None:
        return None
    return next((stage for part, stage in _FUNCTIONS if part in function), "runtime_request")


def loading(before: Sequence[Observation]) -> bool:
    """The last line of the load itself is about tensors: no context was begun behind it."""
    last = next((o for o in reversed(before) if o.kind in _LOADED or o.kind in _CONTEXT or o.kind == "lc_phase"), None)
    if last is None or last.kind in _CONTEXT:
        return False
    return last.kind in _LOADED or of_function(str(last.values.get("function", ""))) == "weights_load"


_LOADED = frozenset({"lc_weights", "lc_layers", "lc_file", "lc_loading"})
_CONTEXT = frozenset(
    {"lc_param", "lc_kv", "lc_kv_total", "lc_kv_cells", "lc_state", "lc_output", "lc_compute", "lc_serving"}
)


def alone(observations: Sequence[Observation], index: int) -> bool:
    """No other line of llama.cpp's says what was going on: an allocation that failed, and its echo."""
    echo = {"lc_malloc", "lc_line", "lc_pinned", "lc_device", "lc_free", "lc_where"}
    others = {observation.kind for observation in observations} - echo
    return observations[index].kind == "lc_malloc" and not any(kind.startswith(("lc_", "ol_")) for kind in others)


_FAILED = re.compile(r"fail|error|unable")


def projector(before: Sequence[Observation]) -> bool:
    """The last that was printed is the image tower's loader, which runs behind the context's buffers."""
    last = next(
        (o for o in reversed(before) if o.kind.startswith("lc_") and o.kind not in ("lc_line", "lc_where")), None
    )
    return last is not None and str(last.values.get("function", "")).startswith(("clip_", "mtmd_", "mllama_", "alloc_"))


def _failing(observation: Observation) -> bool:
    return observation.kind in ("lc_alloc_weights", "lc_alloc_compute", "lc_no_weights")


def panic(text: str) -> StageName:
    """Ollama's map of a failed layout: sizes end in A (allocated), F (failed) or U; CPU stands before GPUs."""
    cpu, _, gpus = text.partition("GPUs:")
    if re.search(r"\dF", cpu):
        return "host_ram"
    return "weights_load" if re.search(r"Weights:\[[^\[\]]*\dF", gpus) else "kv_alloc"


def runner(why: str) -> StageName:
    """What Ollama says of a runner that died while it was loading."""
    if re.search(r"signal: killed|_Host buffer|CPU buffer|bad_alloc|insufficient memory", why):
        return "host_ram"
    if re.search(r"context|kv cache|compute|CUDA error: out of memory|ROCm error: out of memory", why):
        return "kv_alloc"
    if re.search(
        r"cudaMalloc failed|unable to allocate|error loading model|GGML_ASSERT|failed to allocate|out of memory", why
    ):
        return "weights_load"
    return "other"  # an assertion, a missing library, an exit code; 2023's "may not have enough" is any exit
