"""vLLM's resolved configuration to the command that says the same: what is planned is what vLLM will do.

Flags are not read: people who start vLLM through Ray, a trainer or a notebook have none. Where a resolved value only
repeats what vLLM decides by itself (a quantisation that the checkpoint brings), it is left to the planner.
"""

import json
import os
from collections.abc import Iterator
from typing import Any, NamedTuple


class Setting(NamedTuple):
    path: str  # below VllmConfig
    flag: str
    kind: str = "value"  # value: always; true: a switch where it is true; on_off: a switch or its --no- form


SETTINGS = (
    Setting("model_config.max_model_len", "--max-model-len"),
    Setting("model_config.dtype", "--dtype"),
    Setting("model_config.enforce_eager", "--enforce-eager", "true"),
    Setting("model_config.enable_sleep_mode", "--enable-sleep-mode", "true"),
    Setting("model_config.revision", "--revision"),
    Setting("model_config.multimodal_config.language_model_only", "--language-model-only", "true"),
    Setting("cache_config.gpu_memory_utilization", "--gpu-memory-utilization"),
    Setting("cache_config.kv_cache_memory_bytes", "--kv-cache-memory-bytes"),
    Setting("cache_config.cache_dtype", "--kv-cache-dtype"),
    Setting("cache_config.enable_prefix_caching", "--enable-prefix-caching", "on_off"),
    Setting("scheduler_config.max_num_seqs", "--max-num-seqs"),
    Setting("scheduler_config.max_num_batched_tokens", "--max-num-batched-tokens"),
    Setting("parallel_config.tensor_parallel_size", "--tensor-parallel-size"),
    Setting("parallel_config.pipeline_parallel_size", "--pipeline-parallel-size"),
    Setting("parallel_config.data_parallel_size", "--data-parallel-size"),
    Setting("parallel_config.decode_context_parallel_size", "--decode-context-parallel-size"),
    Setting("parallel_config.enable_expert_parallel", "--enable-expert-parallel", "true"),
    Setting("offload_config.uva.cpu_offload_gb", "--cpu-offload-gb"),
    Setting("lora_config.max_loras", "--max-loras"),
    Setting("lora_config.max_lora_rank", "--max-lora-rank"),
)
_UNSAID = (None, "", 0, 1, "auto")  # values of optional settings that say nothing
_ALWAYS = (
    "--gpu-memory-utilization",
    "--max-num-seqs",
    "--max-num-batched-tokens",
    "--max-model-len",
    "--tensor-parallel-size",
)
_SECRET = ("KEY", "TOKEN", "SECRET", "PASSWORD")


def words(config: Any) -> list[str]:
    """`vllm serve MODEL --flag value ...`"""
    said = ["vllm", "serve", str(value_at(config, "model_config.model"))]
    for setting in SETTINGS:
        said += _said(setting, value_at(config, setting.path))
    if value_at(config, "lora_config") is not None:
        said.append("--enable-lora")
    for flag, value in _structured(config):
        said += [flag, value]
    return said


def _said(setting: Setting, value: Any) -> list[str]:
    if setting.kind == "true":
        return [setting.flag] if value is True else []
    if setting.kind == "on_off":
        return {True: [setting.flag], False: ["--no-" + setting.flag[2:]]}.get(value, [])
    if value is None or (value in _UNSAID and setting.flag not in _ALWAYS):
        return []
    return [setting.flag, str(value).removeprefix("torch.")]


def _structured(config: Any) -> Iterator[tuple[str, str]]:
    if (method := value_at(config, "model_config.quantization")) and not _brings_quantization(config):
        yield "--quantization", str(method)
    if value_at(config, "model_config.runner_type") == "pooling":
        yield "--runner", "pooling"
    overrides = value_at(config, "model_config.hf_overrides")
    if isinstance(overrides, dict) and overrides:
        yield "--hf-overrides", json.dumps(overrides, default=str)
    if draft := _speculation(config):
        yield "--speculative-config", json.dumps(draft)
    limits: dict[str, Any] = dict(value_at(config, "model_config.multimodal_config.limit_per_prompt") or {})
    counts = {kind: int(getattr(limit, "count", limit)) for kind, limit in limits.items()}
    if counts:
        yield "--limit-mm-per-prompt", json.dumps(counts)
    if not value_at(config, "model_config.enforce_eager") and (graphs := _graphs(config)):
        yield "--compilation-config", json.dumps(graphs)


def _brings_quantization(config: Any) -> bool:
    hf = value_at(config, "model_config.hf_config")
    text = getattr(hf, "text_config", None)
    return any(getattr(each, "quantization_config", None) for each in (hf, text) if each is not None)


def _speculation(config: Any) -> dict[str, Any]:
    names = ("method", "model", "num_speculative_tokens", "draft_tensor_parallel_size")
    draft = {name: value_at(config, f"speculative_config.{name}") for name in names}
    if draft["model"] == value_at(config, "model_config.model"):
        draft["model"] = None  # MTP layers of the target itself
    return {name: value for name, value in draft.items() if isinstance(value, str | int)}


def _graphs(config: Any) -> dict[str, Any]:
    mode, sizes = (
        value_at(config, f"compilation_config.{name}") for name in ("cudagraph_mode", "cudagraph_capture_sizes")
    )
    graphs: dict[str, Any] = {}
    if name := getattr(mode, "name", ""):
        graphs["cudagraph_mode"] = name
    if sizes:
        graphs["cudagraph_capture_sizes"] = [int(size) for size in sizes]
    return graphs


def value_at(config: Any, path: str) -> Any:
    """None where a release has no such field."""
    for name in path.split("."):
        config = getattr(config, name, None)
        if config is None:
            return None
    return config


def environment() -> dict[str, str]:
    """vLLM's and PyTorch's variables, without what could be a secret, a path or an address."""
    names = ("VLLM_", "PYTORCH_", "TORCH_", "CUDA_VISIBLE_DEVICES", "CUDA_MODULE_LOADING")
    kept = {name: value for name, value in os.environ.items() if name.startswith(names) and "/" not in value}
    return {name: value for name, value in kept.items() if not any(word in name for word in _SECRET)}
