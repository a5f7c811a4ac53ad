"""What a kind of line means for a run: the stage that has begun with it, that it ended there, that it was up. A row of
facts/*/logs.py says it of its kind; what no single line says is here."""

from collections.abc import Mapping
from typing import Final, cast

from oomph.facts.troubles import ROWS as TROUBLE_ROWS
from oomph.ir import StageName
from oomph.ir.log_kinds import LogKind
from oomph.logs.parse import ALL

# the stage that has begun once a line of this kind was printed
MILESTONES: Final[dict[LogKind, StageName]] = {row.kind: row.stage for row in ALL if row.stage}
_NOT_MEMORY: Final = frozenset(row.kind for row in TROUBLE_ROWS)
# Lines that are the failure itself, and the stage they belong to (None = where the log had got to).
FAILURES: Final[dict[LogKind, StageName | None]] = {
    row.kind: None if row.ends == "here" else row.ends for row in ALL if row.ends and row.kind not in _NOT_MEMORY
}
# TensorRT-LLM's names for what it was creating (py_executor_creator.py); the executor's last step records the graphs
COMPONENTS: Final[dict[str, StageName]] = {
    "Model": "weights_load", "Draft model for speculative decoding": "weights_load", "Initial KV cache": "profile_run",
    "Initial KV Cache": "profile_run",
    "Guided Decoder": "profile_run", "Speculative decoding resources": "profile_run",
    "Sampler": "profile_run", "Drafter": "profile_run", "Model resources created during usage": "profile_run",
    "KV cache": "kv_alloc", "Additional executor resources": "cudagraph_capture",
    "EXTRA_RESOURCES": "cudagraph_capture", "INIT_EXTRA_RESOURCES": "profile_run",
}  # fmt: skip
# the stage behind each of them, for a report without the name of what failed: its list ends with the last that was made
AFTER_COMPONENTS: Final[dict[str, StageName]] = {
    "model": "profile_run", "sampler": "profile_run", "draft_model": "profile_run", "drafter": "profile_run",
    "_no_capture_init_kv_cache": "profile_run", "_no_capture_init_extra_resources": "profile_run",
    "spec_resource_manager": "profile_run", "model_extra": "kv_alloc", "kv_cache": "cudagraph_capture",
    "executor_extra": "runtime_request",
}  # fmt: skip
# What the words of a bar that is being drawn say; the first that applies.
BARS: Final[tuple[tuple[str, StageName], ...]] = (
    (r"(?i)download|fetch", "other"),
    (r"(?i)captur|cuda ?graph|warm|tuning", "cudagraph_capture"),
    (r"(?i)shard|weight|checkpoint|tensor|load", "weights_load"),
    (r"(?i)compil", "profile_run"),
    (r"(?i)prompt|request|generat|infer|sampl|decod", "runtime_request"),
)
# TensorRT-LLM's C++ functions (cpp/tensorrt_llm), of the innermost frame that has a row: a step of the loop, the pools
# and buffers of a start, an engine that is being read. A constructor is named like its class. The order is that of
# TrtGptModelInflightBatching's constructor (batch_manager/trtGptModelInflightBatching.cpp, 0.17): TllmRuntime, buffers,
# decoder, managed weights, LoRA's and states' managers, KV cache; forwardAsync and forwardSync are its steps.
NATIVE: Final[tuple[tuple[str, StageName], ...]] = (
    (
        r"forwardAsync|forwardSync|::forward|executionLoop|execution_loop|decoderStep|setFromInputs|prepareStep|"
        r"execute(?:Step|Context|Batch)|generateBatched|::generate|enqueue|::step$|run(?:Gemm|Moe)|Runner::run",
        "runtime_request",
    ),
    (r"ipcUtils|IpcMemory|NcclCommunicator|setupNccl|CustomAllReduce\w{0,20}Buffers", "startup_free_memory"),
    (
        r"allocatePools|[Kk][Vv]CacheManager|BlockManager|createBuffers|RuntimeBuffers|createContexts|addContext|createDecoder|"
        r"DecoderBuffers|::setup|createKvCache|PeftCacheManager|RnnStateManager|calculateMaxNumBlocks|ExecutionContext|DecoderState|createRuntime\w{0,20}Buffers",
        "kv_alloc",
    ),
    (
        r"TllmRuntime::TllmRuntime|deserialize|loadEngine|loadManagedWeights|Plugin::(?:init|\w{1,40}Plugin)|GemmPlugin|RawEngine|ManagedWeights|"
        r"loadModel",
        "weights_load",
    ),
)
# the source files that its errors name at their end, where no frame stands beside them
NATIVE_FILES: Final[dict[str, StageName]] = {
    "tllmBuffers": "kv_alloc", "ipcUtils": "startup_free_memory", "ipcNvlsMemory": "startup_free_memory",
    "mpiUtils": "other",
    "tllmRuntime": "weights_load", "rawEngine": "weights_load", "kvCacheManager": "kv_alloc",
    "blockManager": "kv_alloc", "gptSession": "kv_alloc", "runtimeBuffers": "kv_alloc", "peftCacheManager": "kv_alloc",
    "allreducePlugin": "runtime_request", "gptAttentionCommon": "runtime_request", "attentionOp": "runtime_request",
}  # fmt: skip
# They name the failure but not its kind: used only when nothing above was printed.
WEAK: Final[tuple[LogKind, ...]] = (
    "engine_failed",
    "engine_dead",
    "secondary",
    "sg_exception",
    "tr_executor",
    "exception",
    "frame",
    "dumped_step",
    "tr_forward",
    "tr_free",
)
ORDER: Final[tuple[StageName, ...]] = (
    "other", "startup_free_memory", "weights_load", "profile_run", "cudagraph_profile", "kv_check", "kv_alloc",
    "cudagraph_capture", "sampler_warmup", "runtime_request", "host_ram",
)  # fmt: skip
NOT_FATAL: Final = frozenset(
    {"ValidationError", "KeyboardInterrupt", "BadRequestError", "CancelledError", "HTTPException"}
)
# The same for failures that are not about GPU memory (facts/troubles.py, not_memory.py): "other" is a start that
# ended before anything of the model was on a GPU. A server that was up afterwards overrules all of them.
TROUBLES: Final[dict[LogKind, StageName | None]] = {
    row.kind: None if row.ends == "here" else row.ends for row in ALL if row.ends and row.kind in _NOT_MEMORY
}
# Whoever printed one of these was up.
READY: Final[frozenset[LogKind]] = frozenset(row.kind for row in ALL if row.up)
# Something went wrong, and nothing says what: no all-clear with one of these at the end.
SIGNS: Final[frozenset[LogKind]] = frozenset(
    {"sign_exit", "sign_signal", "sign_error", "sign_level", "sign_backoff", "exception", "oom_mentioned", "secondary",
     "traceback", "chained"}
)  # fmt: skip
# what settles a log that ends before the server is up and has no error in it
UNFINISHED: Final = "whether it came up: the lines behind the last one say so, or the error does"


def stage_of(table: Mapping[LogKind, StageName | None], kind: str) -> StageName | None:
    """What a table here says of an observation's kind."""
    return cast(Mapping[str, StageName | None], table).get(kind)
