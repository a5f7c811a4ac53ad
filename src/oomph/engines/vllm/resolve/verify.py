"""Flags that vLLM's config classes refuse, in its own words."""

from collections.abc import Iterable, Mapping
from typing import Any

from oomph.engines.vllm.kv.specs import Refused
from oomph.engines.vllm.traits import Traits
from oomph.facts.vllm.caches import ALIGN_NEEDS_CHUNKS, ALIGN_NEEDS_MM_CHUNKS, CacheDtypes
from oomph.facts.vllm.facts import Facts
from oomph.facts.vllm.flag_checks import Check, FlagSet
from oomph.facts.vllm.flag_values import NO_TOOL_PARSER, Values, unknown_value
from oomph.facts.vllm.known import NO_PIPELINE, NO_PIPELINE_REFUSAL
from oomph.facts.vllm.lora import ASSERTS_NO_LORA, NO_LORA, LoraFacts, class_name
from oomph.facts.vllm.refusals import Refusals
from oomph.ir import Device, Model

_BOUNDS = {
    "greater_than": "Input should be greater than {bound}",
    "greater_than_equal": "Input should be greater than or equal to {bound}",
    "less_than_equal": "Input should be less than or equal to {bound}",
}
HEADS_REFUSED = "Total number of attention heads ({heads}) must be divisible by tensor parallel size ({tp})."
_DTYPES = ("auto", "half", "float16", "bfloat16", "float", "float32")


def invalid(owner: str, *fields: tuple[str, str, str, Any]) -> Refused:
    """A pydantic error without its links; fields: (name, text, type of error, value)."""
    errors = "errors" if len(fields) > 1 else "error"
    lines = [f"{len(fields)} validation {errors} for {owner}"]
    for name, text, kind, value in fields:
        lines.append(f"{name}\n  {text} [type={kind}, input_value={value!r}, input_type={type(value).__name__}]")
    return Refused("ValidationError", "\n".join(lines))


def outside(name: str, kind: str, bound: int, value: Any) -> tuple[str, str, str, Any]:
    return name, _BOUNDS[kind].format(bound=bound), kind, value


def one_of(options: tuple[str, ...]) -> str:
    return "Input should be " + ", ".join(f"'{n}'" for n in options[:-1]) + f" or '{options[-1]}'"


def verify_value(field: str, value: str, known: tuple[str, ...]) -> None:
    """ "" = not set."""
    if value and value not in known:
        raise Refused(*unknown_value(field, value, known))


def verify_values(flags: Mapping[str, Any], values: Values) -> None:
    """Flags that the parser takes with any word and a registry refuses later."""
    verify_value("load_format", str(flags.get("load_format") or "").lower(), values.load_format)
    verify_value("tokenizer_mode", str(flags.get("tokenizer_mode") or ""), values.tokenizer_mode)
    encoder = str(flags.get("mm_encoder_attn_backend") or "").upper()
    verify_value("mm_encoder_attn_backend", encoder, values.attention_backend)


def verify_parsers(flags: Mapping[str, Any], values: Values) -> None:
    """The names of parsers of tools and of reasoning; a plug-in may register any."""
    tools, reasoning = str(flags.get("tool_call_parser") or ""), str(flags.get("reasoning_parser") or "")
    if flags.get("enable_auto_tool_choice") and not flags.get("tool_parser_plugin"):
        if not tools:
            raise Refused(*NO_TOOL_PARSER)
        verify_value("tool_call_parser", tools, values.tool_call_parser)
    if not flags.get("reasoning_parser_plugin"):
        verify_value("reasoning_parser", reasoning, values.reasoning_parser)


def unknown_dtype(flag: str) -> Refused:
    literal = "dtype.literal[" + ",".join(f"'{n}'" for n in _DTYPES) + "]"
    instance = ("dtype.is-instance[dtype]", "Input should be an instance of dtype", "is_instance_of", flag)
    return invalid("ModelConfig", (literal, one_of(_DTYPES), "literal_error", flag), instance)


def verify_dtype(dtype: str, gpu: Device) -> None:
    """platforms/cuda.py:636 check_if_supports_dtype, asked when the worker starts (gpu_worker.py:503, 0.32.0)."""
    if dtype == "bfloat16" and gpu.vendor == "nvidia" and 0 < gpu.sm < 80:
        name, capability = gpu.driver_name or gpu.name, f"{gpu.sm // 10}.{gpu.sm % 10}"
        raise Refused(
            "ValueError",
            "Bfloat16 is only supported on GPUs with compute capability of at least 8.0. "
            f"Your {name} GPU has compute capability {capability}. You can use float16 instead by explicitly setting "
            "the `dtype` flag in CLI, for example: --dtype=half.",
        )


def verified_utilization(flags: Mapping[str, Any], facts: Facts) -> float:
    value = flags.get("gpu_memory_utilization")
    if value is None:
        return facts.limits.utilization
    if not value > 0:
        raise invalid("CacheConfig", outside("gpu_memory_utilization", "greater_than", 0, value))
    if value > 1:
        raise invalid("CacheConfig", outside("gpu_memory_utilization", "less_than_equal", 1, value))
    return float(value)


def verify_sizes(flags: Mapping[str, Any], facts: Facts) -> None:
    """ParallelConfig; before it arg_utils.py _check_feature_supported."""
    if int(flags.get("max_num_partial_prefills") or 1) > 1:
        feature = "Concurrent Partial Prefill"
        text = f"{feature} is not supported. We recommend to remove {feature} from your config."
        raise Refused("NotImplementedError", text)
    names = ("pipeline_parallel_size", "tensor_parallel_size", "data_parallel_size")
    small = [outside(n, "greater_than_equal", 1, flags[n]) for n in names if int(flags.get(n, 1)) < 1]
    if small and facts.limits.sizes_are_fields:
        raise invalid("ParallelConfig", *small)
    if int(flags.get("tensor_parallel_size", 1)) == 0:
        raise Refused("ZeroDivisionError", "integer modulo by zero")
    size = int(flags.get("data_parallel_size", 1))
    if size < 1:
        raise Refused("ValidationError", f"data_parallel_rank (0) must be in the range [0, {size})")


def verify_balancing(flags: Mapping[str, Any], refusals: Refusals) -> None:
    """config/parallel.py ParallelConfig: checked before the scheduler's settings are."""
    if not flags.get("enable_eplb"):
        return
    if not flags.get("enable_expert_parallel"):
        raise Refused("ValidationError", "enable_expert_parallel must be True to use EPLB.")
    sizes = (f"{name}_parallel_size" for name in ("tensor", "data", "prefill_context"))
    tp, dp, pcp = (int(flags.get(name, 1)) for name in sizes)
    if tp * dp * pcp <= 1:
        _refuse(refusals.eplb_alone, tp=tp, dp=dp, pcp=pcp)


def verify_parallel(model: Model, traits: Traits, flags: Mapping[str, Any], refusals: Refusals) -> None:
    """ModelConfig.verify_with_parallel_config."""
    tp, dcp = int(flags.get("tensor_parallel_size", 1)), int(flags.get("decode_context_parallel_size", 1))
    if tp < 1 or (model.num_heads and model.num_heads % tp):
        raise Refused("ValidationError", HEADS_REFUSED.format(heads=model.num_heads, tp=tp))
    if flags.get("enable_expert_parallel") and not traits.is_moe:
        raise Refused(
            "ValidationError",
            "Number of experts in the model must be greater than 0 when expert parallelism is enabled.",
        )
    if int(flags.get("pipeline_parallel_size", 1)) > 1 and model.architecture in NO_PIPELINE:
        raise Refused("NotImplementedError", NO_PIPELINE_REFUSAL)
    if dcp > 1 and not traits.is_mla and refusals.dcp_too_wide:
        heads = traits.num_kv_heads
        if not heads:  # no attention at all
            raise Refused("ZeroDivisionError", "integer division or modulo by zero")
        if tp <= heads:
            _refuse(refusals.dcp_few_ranks, tp=tp, kv=heads)
        elif dcp > tp // heads:
            _refuse(refusals.dcp_too_wide, tp=tp, kv=heads, dcp=dcp, most=tp // heads)


def verify_adapter_class(model: Model, flags: Mapping[str, Any]) -> None:
    """--enable-lora of a class whose constructor refuses it."""
    if flags.get("enable_lora") and model.architecture in ASSERTS_NO_LORA:
        raise Refused("AssertionError", "")


def verify_adapters(model: Model, flags: Mapping[str, Any], rules: LoraFacts) -> None:
    """--enable-lora of a class that has no adapters."""
    wrapped = flags.get("enable_lora") and flags.get("model_impl") != "transformers"
    if wrapped and model.architecture in rules.without:
        raise Refused("ValueError", NO_LORA.format(name=class_name(model.architecture)))


def verify_items(model: Model, flags: Mapping[str, Any]) -> None:
    """config/multimodal.py BaseDummyOptions: no number of images is below zero."""
    limits = flags.get("limit_mm_per_prompt")
    if not model.towers or not isinstance(limits, Mapping):
        return
    counts = [value.get("count") if isinstance(value, Mapping) else value for value in limits.values()]
    negative = next((count for count in counts if isinstance(count, int) and count < 0), None)
    if negative is not None:
        raise invalid("ModelConfig", outside("limit_per_prompt.count", "greater_than_equal", 0, negative))


def verify_routed(flags: Mapping[str, Any], refusals: Refusals, **holds: bool) -> None:
    """--enable-return-routed-experts; `holds`: which of the things that it needs are so."""
    if flags.get("enable_return_routed_experts"):
        for need, text in refusals.routed_needs:
            if not holds[need]:
                raise Refused("ValidationError", text)


class _Values(dict[str, Any]):
    """What a text of facts/vllm/flag_checks.py names: a property of the FlagSet, or a flag."""

    def __init__(self, flag_set: FlagSet) -> None:
        super().__init__()
        self.flag_set = flag_set

    def __missing__(self, name: str) -> Any:
        value = getattr(self.flag_set, name, None)
        return self.flag_set.flags.get(name, 1) if value is None else value


def verify_flags(checks: tuple[Check, ...], flag_set: FlagSet) -> None:
    for check in checks:
        if check.refuses(flag_set):
            raise Refused(check.type, check.text.format_map(_Values(flag_set)))


def _refuse(text: str, **values: int) -> None:
    """Releases that do not check have no text."""
    if text:
        raise Refused("ValidationError", text.format(**values))


def verify_sparse_dcp(backends: Iterable[tuple[str, int]], kv_dtype: str, dcp: int, refusals: Refusals) -> None:
    """flashmla_sparse.py: under decode context parallelism its cache must be the quantised one."""
    plain = kv_dtype in ("auto", "bfloat16", "float16")
    if dcp > 1 and plain and refusals.dcp_sparse and "FLASHMLA_SPARSE" in dict(backends):
        raise Refused("NotImplementedError", refusals.dcp_sparse)


_IMPLEMENTATIONS = {
    "FLASH_ATTN": "FlashAttentionImpl",
    "FLASHINFER": "FlashInferImpl",
    "FLEX_ATTENTION": "FlexAttentionImpl",
    "TRITON_ATTN": "TritonAttentionImpl",
}


def verify_cache_dtype(backends: Iterable[tuple[str, int]], kv_dtype: str, gpu: Device, refusals: Refusals) -> None:
    """A cache of another 16 bits than the model's, which the card does not compute in."""
    if kv_dtype == "bfloat16" and 0 < gpu.sm < 80 and "TRITON_ATTN" in dict(backends):
        capability = f"{gpu.sm // 10}.{gpu.sm % 10}"
        text = refusals.bfloat16_cache.format(gpu=gpu.driver_name or gpu.name, sm=capability)
        if text:
            raise Refused("ValueError", text)


def verify_arguments(model: Model, backends: Iterable[tuple[str, int]], refusals: Refusals) -> None:
    """attention.py:366 and 420 (0.32.0): a layer's own arguments, which the backend's class has to take."""
    argument = str(model.param("attention_argument", ""))
    kind, able = refusals.attention_arguments.get(argument) or ("", ())
    unable = next((name for name, _ in backends if name not in able), None)
    if not kind or unable is None:
        return
    if kind == "ValueError":
        raise Refused(kind, f"{argument} is not supported by backend {unable}.")
    owner = _IMPLEMENTATIONS.get(unable, unable)
    raise Refused(kind, f"{owner}.__init__() got an unexpected keyword argument '{argument}'")


def verify_chunks(mamba_mode: str, chunked: bool) -> None:
    """models/config.py MambaModelConfig, which is asked before the layout is."""
    if mamba_mode == "align" and not chunked:
        raise Refused("ValidationError", f"Assertion failed, {ALIGN_NEEDS_CHUNKS}")


def verify_caches(
    traits: Traits,
    flags: Mapping[str, Any],
    mamba_mode: str,
    kv_dtype: str,
    dtypes: CacheDtypes,
    *,
    length: int,
    prefix: bool,
) -> None:
    """config/vllm.py validate_block_size, validate_nvfp4_kv_cache_with_mla."""
    block = flags.get("mamba_block_size")
    if block is not None and block != length and not prefix:  # config/vllm.py validate_mamba_block_size
        raise Refused("ValidationError", "--mamba-block-size can only be set with --enable-prefix-caching")
    if mamba_mode == "align" and flags.get("disable_chunked_mm_input"):
        raise Refused("AssertionError", ALIGN_NEEDS_MM_CHUNKS)
    if traits.is_mla and kv_dtype.startswith("nvfp4") and not kv_dtype.endswith("_ds_mla"):
        raise Refused("ValidationError", dtypes.nvfp4_mla_refused)


def verify_batch(tokens: int, seqs: int, length: int, chunked: bool) -> None:
    """SchedulerConfig's fields and verify_max_model_len."""
    pairs = (("max_num_batched_tokens", tokens), ("max_num_seqs", seqs))
    small = [outside(name, "greater_than_equal", 1, value) for name, value in pairs if value < 1]
    if small:
        raise invalid("SchedulerConfig", *small)
    if tokens < length and not chunked:
        raise Refused(
            "ValidationError",
            f"max_num_batched_tokens ({tokens}) is smaller than max_model_len ({length}). This effectively limits the "
            "maximum sequence length to max_num_batched_tokens and makes vLLM reject longer sequences. Please increase "
            "max_num_batched_tokens or decrease max_model_len.",
        )
    if tokens < seqs:
        raise Refused(
            "ValidationError",
            f"max_num_batched_tokens ({tokens}) must be greater than or equal to max_num_seqs ({seqs}).",
        )
