"""Flags, GPU and model to the settings that TensorRT-LLM's PyTorch backend ends up with, or its refusal."""

from collections.abc import Mapping
from typing import Any

from oomph.engines.trtllm.command.options_file import GRAPHS, OFF
from oomph.engines.trtllm.settings import Settings
from oomph.errors import CannotPlan
from oomph.facts.dtypes import TORCH
from oomph.facts.trtllm import memory
from oomph.facts.trtllm.facts import Facts
from oomph.facts.trtllm.memory import GRAPH_LIMIT
from oomph.ir import Attention, Deployment, Model
from oomph.text.tables import first_that_holds

# kv_cache_config.dtype -> the cache's dtype in our words
_KV_DTYPES = {"fp8": "F8_E4M3", "nvfp4": "F4", "bfloat16": "BF16", "float16": "F16", "half": "F16"}
# rope types whose factor is in the length already (model_loader.py, get_max_seq_len of the model engine)
_STRETCHED = ("yarn", "llama3", "longrope", "su", "deepseek_yarn")
_TWO_MODELS = ("DraftTarget", "draft_target")
_SELF_DRAFTS = ("MTP", "Eagle", "Eagle3", "EAGLE3")


def resolve(model: Model, deployment: Deployment, facts: Facts) -> Settings:
    flags = deployment.flags
    backend = str(flags.get("backend") or "pytorch")
    if backend != "pytorch":
        raise CannotPlan(
            f"--backend {backend} cannot be planned: a built TensorRT engine or AutoDeploy decides its memory itself",
            hint="its logs can be explained; the default backend, pytorch, can be planned",
        )
    tp, pp = _number(flags, "tensor_parallel_size", 1), _number(flags, "pipeline_parallel_size", 1)
    ep = _number(flags, "moe_expert_parallel_size", 1)
    batch = _number(flags, "max_batch_size", memory.MAX_BATCH_SIZE)
    tokens = _number(flags, "max_num_tokens", memory.MAX_NUM_TOKENS)
    drafts, layers, extra_kv = _drafts(flags)
    overlap = not flags.get("disable_overlap_scheduler")
    length = _number(flags, "max_seq_len", default_length(model))
    fraction = flags.get("kv_cache_config.free_gpu_memory_fraction")
    graphs = graph_batch_sizes(flags, facts.memory.graphs_by_default, batch, tokens, drafts)
    sm = deployment.gpus[0].sm if deployment.gpus else 0
    return Settings(
        tp_size=tp,
        pp_size=pp,
        ep_size=ep,
        pp_partition=tuple(flags.get("pp_partition") or ()),
        enable_attention_dp=bool(flags.get("enable_attention_dp")),
        lm_head_tp=bool(flags.get("enable_lm_head_tp_in_adp")),
        max_batch_size=batch,
        max_num_tokens=tokens,
        max_seq_len=length,
        max_beam_width=_number(flags, "max_beam_width", memory.MAX_BEAM_WIDTH),
        free_gpu_memory_fraction=memory.FREE_FRACTION if fraction is None else float(fraction),
        max_tokens=flags.get("kv_cache_config.max_tokens"),
        max_gpu_total_bytes=int(flags.get("kv_cache_config.max_gpu_total_bytes") or 0),
        tokens_per_block=_block(flags, model, sm),
        dtype=_dtype(flags, model),
        kv_dtype=_kv_dtype(flags, model),
        enable_block_reuse=flags.get("kv_cache_config.enable_block_reuse") is not False,
        manager_v2=str(flags.get("kv_cache_config.use_kv_cache_manager_v2")).lower() == "true",
        max_util_for_resume=_share(flags.get("kv_cache_config.max_util_for_resume"), memory.MAX_UTIL_FOR_RESUME),
        host_cache_size=flags.get("kv_cache_config.host_cache_size"),
        lora_share=_lora_share(flags),
        # resource_manager.py: windows are cut to the context before anything is sized
        windows=tuple(min(length, window) for window in flags.get("kv_cache_config.max_attention_window") or ()),
        graph_batch_sizes=graphs,
        overlap=overlap,
        chunked_prefill=bool(flags.get("enable_chunked_prefill")),
        policy=str(flags.get("scheduler_config.capacity_scheduler_policy") or POLICIES[0]),
        moe_backend=str(flags.get("moe_config.backend") or "AUTO"),
        moe_max_num_tokens=_number(flags, "moe_config.max_num_tokens", 0),
        attn_backend=str(flags.get("attn_backend") or "TRTLLM"),
        decoding_type=str(flags.get("speculative_config.decoding_type") or ""),
        draft_tokens=drafts,
        draft_layers=layers,
        draft_model=draft_name(flags),
        draft_apart=_draft_apart(flags),
        extra_tokens=_extra_tokens(facts, overlap, drafts, extra_kv),
        compiles_pieces=bool(flags.get("torch_compile_config")),
        estimates=_estimates(flags, deployment, facts),
        fail_fast=bool(flags.get("fail_fast_on_attention_window_too_large")),
        refusal=refusal(flags, model, (tp, pp, ep), sm, facts),
    )


def _number(flags: Mapping[str, Any], field: str, default: int) -> int:
    value = flags.get(field)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else default


def default_length(model: Model) -> int:
    """py_executor_creator.py, model_engine.py: the config's own length, times a rope factor that is not in it yet."""
    length = int(model.param("derived_max_len")) or model.max_position or 2048
    factor = float(model.param("rope_factor") or 1.0)
    if factor == 1.0 or str(model.param("rope_type") or "") in _STRETCHED or model.param("rope_original"):
        return length
    return int(length * factor)


def _drafts(flags: Mapping[str, Any]) -> tuple[int, int, int]:
    """(draft tokens, further layers in the pool, extra KV tokens)."""
    kind = str(flags.get("speculative_config.decoding_type") or "")
    if not kind:
        return 0, 0, 0
    layers = flags.get("speculative_config.num_nextn_predict_layers")
    tokens = flags.get("speculative_config.max_draft_len")
    if kind.upper() == "MTP":
        count = int(layers or tokens or 1)
        return count, count, count - 1
    count = int(tokens or 0)
    one_engine = kind in _SELF_DRAFTS and flags.get("speculative_config.eagle3_one_model", True) is not False
    return count, 0, max(0, count - 1) if one_engine else 0


def draft_name(flags: Mapping[str, Any]) -> str:
    """The checkpoint of a drafter; its field was renamed in 2026."""
    names = (flags.get(f"speculative_config.{field}") for field in ("speculative_model", "speculative_model_dir"))
    return next((str(name) for name in names if isinstance(name, str) and name), "")


def _draft_apart(flags: Mapping[str, Any]) -> bool:
    """py_executor_creator.py: DraftTarget, and Eagle unless it is one engine with the model (eagle3_one_model)."""
    kind = str(flags.get("speculative_config.decoding_type") or "")
    return kind in _TWO_MODELS or (
        kind in _SELF_DRAFTS and flags.get("speculative_config.eagle3_one_model", True) is False
    )


def _lora_share(flags: Mapping[str, Any]) -> float:
    """llm_args.py PeftCacheConfig.device_cache_percent: of the free device memory after the engine is loaded."""
    if not (flags.get("enable_lora") or flags.get("lora_config")):
        return 0.0
    config = flags.get("peft_cache_config")
    share = config.get("device_cache_percent") if isinstance(config, Mapping) else None
    return _share(share, memory.LORA_SHARE)


def _share(value: Any, default: float) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if number and 0 < value <= 1 else default


def _extra_tokens(facts: Facts, overlap: bool, drafts: int, extra_kv: int) -> int:
    """_util.py _get_token_num_for_estimation: the generated token, the overlap scheduler's, drafts (twice with it)."""
    extra = 1 + (1 if overlap and facts.memory.overlap_token else 0)
    return extra + drafts * (2 if overlap else 1) + extra_kv


def _dtype(flags: Mapping[str, Any], model: Model) -> str:
    name = str(flags.get("dtype") or "auto")
    return TORCH.get(name, "") or (model.dtype if model.dtype in ("BF16", "F16", "F32") else "BF16")


def _kv_dtype(flags: Mapping[str, Any], model: Model) -> str:
    """ "auto": what the checkpoint's quantisation asks for, else the model's dtype."""
    name = str(flags.get("kv_cache_config.dtype") or "auto").lower()
    if name != "auto":
        if name not in _KV_DTYPES:
            raise CannotPlan(f"kv_cache_config.dtype {name[:40]}: the size of such a cache is not known")
        return _KV_DTYPES[name]
    quantization = model.quantization
    checkpoint = (quantization.kv_cache or quantization.kv_cache_beside) if quantization is not None else ""
    return _KV_DTYPES.get(checkpoint.lower().removesuffix("_e4m3"), "") or _dtype(flags, model)


def _block(flags: Mapping[str, Any], model: Model, sm: int) -> int:
    size = flags.get("kv_cache_config.tokens_per_block")
    if isinstance(size, int) and size > 0:
        return size
    latent = any(isinstance(m, Attention) and m.kind == "mla" for layer in model.layers for m in layer.mixers)
    return memory.FLASH_MLA_BLOCK if latent and sm == 90 else memory.TOKENS_PER_BLOCK


def _estimates(flags: Mapping[str, Any], deployment: Deployment, facts: Facts) -> bool:
    skips = deployment.environment.get("TRTLLM_SKIP_KV_CACHE_ESTIMATION") == "1"
    if skips and facts.memory.may_skip_estimation:
        return False
    return str(flags.get("attn_backend") or "").upper() != "VANILLA" and _number(flags, "context_parallel_size", 1) == 1


# Which batch sizes get a CUDA graph (llm_args.py CudaGraphConfig, model_engine.py _filter_cuda_graph_batch_sizes).


def graph_batch_sizes(
    flags: Mapping[str, Any], by_default: bool, max_batch_size: int, max_num_tokens: int, draft_tokens: int
) -> tuple[int, ...]:
    named = any(field.startswith(f"{GRAPHS}.") for field in flags)
    if flags.get(GRAPHS) == OFF or flags.get("use_cuda_graph") is False:
        return ()
    if not (by_default or named or flags.get("use_cuda_graph")):
        return ()
    sizes = flags.get(f"{GRAPHS}.batch_sizes")
    if not sizes:
        limit = int(flags.get(f"{GRAPHS}.max_batch_size") or 0) or GRAPH_LIMIT
        sizes = _generated(limit, bool(flags.get(f"{GRAPHS}.enable_padding")))
    return _filtered(sorted(set(sizes)), max_batch_size, max_num_tokens, draft_tokens, bool(named))


def _generated(limit: int, padding: bool) -> list[int]:
    """_generate_cuda_graph_batch_sizes: padded batches need fewer graphs. A posted log of 1.2.0rc6 lists them for 256:
    ..., 120, 128, 256."""
    sizes = [1, 2, 4, *range(8, 129, 8)] if padding else [*range(1, 32), 32, 64, 128]
    size = 256
    while size <= limit:
        sizes.append(size)
        size *= 2
    sizes = [size for size in sizes if size <= limit]
    return sizes if sizes and sizes[-1] == limit else [*sizes, limit]


def _filtered(
    sizes: list[int], max_batch_size: int, max_num_tokens: int, draft_tokens: int, padding: bool
) -> tuple[int, ...]:
    """No larger than a batch can be; the largest possible batch is added where a larger size was asked for."""
    most = min(max_batch_size, max_num_tokens // (1 + draft_tokens))
    captured = [size for size in sizes if size <= most]
    if most > 0 and len(captured) < len(sizes) and (not captured or captured[-1] != most):
        captured.append(most)
    return tuple(captured)


# What TensorRT-LLM refuses before anything of a model is on a GPU, in its own words where they were read.

POLICIES = ("GUARANTEED_NO_EVICT", "MAX_UTILIZATION", "STATIC_BATCH")
# llmapi/llm_utils.py _update_from_hf_quant_config: what is read of config.json's quantization_config. ModelOpt's
# checkpoints bring a file of their own.
_UNREAD = ("awq", "gptq", "bitsandbytes", "auto-round")
# Compute capability: nvidia.github.io/TensorRT-LLM/reference/support-matrix.html (0.18.2, 0.19.0 and the newest):
# Ampere has FP32, FP16, BF16, INT8 and INT4, Ada (8.9) and Hopper FP8 too, Blackwell FP4 too; older ones are not there.
_OLDEST, _OLDEST_FP8, _OLDEST_FP4 = 80, 89, 100


def refusal(flags: Mapping[str, Any], model: Model, sizes: tuple[int, int, int], sm: int, facts: Facts) -> str:
    """`sizes`: tensor, pipeline and expert parallelism; `sm`: of the first GPU, 0 = not known."""
    tp, pp, ep = sizes
    heads, layers = model.num_heads, len(model.layers)
    policy = str(flags.get("scheduler_config.capacity_scheduler_policy") or POLICIES[0])
    return first_that_holds(
        (
            not flags.get("custom_module_dirs") and model.architecture not in facts.models.classes,  # modeling_auto.py
            f"ValueError: Unknown architecture for AutoModelForCausalLM: {model.architecture}",
        ),
        (
            ep > tp or tp % ep,  # mapping.py
            f"ValueError: moe_tp_size * moe_ep_size * moe_cluster_size must equal to moe_world_size, but got "
            f"{tp // ep * ep} != {tp}",
        ),
        (
            heads and heads % tp and not flags.get("enable_attention_dp"),
            f"AssertionError: {heads} attention heads are not divisible by tp_size {tp}",
        ),
        (pp > max(1, layers), f"ValueError: pp_size {pp} exceeds the {layers} layers of the model"),
        (
            policy not in POLICIES,
            f"ValidationError: capacity_scheduler_policy: Input should be one of {', '.join(POLICIES)}",
        ),
        (True, _checkpoint(model, facts) or _card(model, sm)),
    )


def _checkpoint(model: Model, facts: Facts) -> str:
    quantization = model.quantization
    if quantization is None:
        return ""
    scheme = quantization.scheme
    is_fp8 = scheme is not None and scheme.method == "fp8"
    per_tensor = quantization.method == "fp8" and scheme is not None and scheme.strategy != "block"
    compressed = quantization.method == "compressed-tensors"
    reads = facts.memory.reads_compressed_tensors
    if quantization.method in _UNREAD or (compressed and not (reads and is_fp8)) or (per_tensor and not reads):
        return (
            f"NotImplementedError: Unsupported quantization_config: {{'quant_method': '{quantization.method}', ...}}."
        )
    return ""


def _card(model: Model, sm: int) -> str:
    method = model.quantization.method if model.quantization is not None else ""
    if not sm:
        return ""
    oldest, what = _OLDEST, "kernels"
    if method in ("fp8", "modelopt"):
        oldest, what = _OLDEST_FP8, "FP8 kernels"
    elif method == "modelopt_fp4":
        oldest, what = _OLDEST_FP4, "FP4 kernels"
    if sm >= oldest:
        return ""
    here, least = (f"{number // 10}.{number % 10}" for number in (sm, oldest))
    return f"TensorRT-LLM has no {what} for compute capability {here}, only from {least} on"
