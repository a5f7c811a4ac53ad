"""Files of vLLM whose log lines are printed in one stage only: the place of a line says how far a start had got.

The names are those of the wheels, listed in four of them between 0.8.5 and 0.32.0. A file that prints in several stages
(gpu_model_runner.py, core.py) has no row; the weaker word is that of the stage which has begun, as for the milestones
of doctor/reading/meanings.py.
"""

from typing import Final

from oomph.ir import StageName

_STAGES: Final[dict[StageName, tuple[str, ...]]] = {
    "weights_load": ("base_loader.py", "default_loader.py", "loader.py", "weight_utils.py", "bitsandbytes_loader.py",
                     "gguf_loader.py", "sharded_state_loader.py", "runai_streamer_loader.py", "tensorizer.py",
                     "marlin_utils_fp4.py", "marlin_utils_fp8.py"),
    "profile_run": ("backends.py", "monitor.py", "decorators.py", "fused_moe.py", "fp8_utils.py", "caching.py"),
    "cudagraph_capture": ("kernel_warmup.py", "deep_gemm_warmup.py"),
    "runtime_request": ("loggers.py", "metrics.py", "async_llm_engine.py", "chat_utils.py", "dump_input.py",
                        "request_logger.py", "serving_chat.py", "serving_completion.py", "output_processor.py"),
}  # fmt: skip
FILES: Final[dict[str, StageName]] = {file: stage for stage, files in _STAGES.items() for file in files}
