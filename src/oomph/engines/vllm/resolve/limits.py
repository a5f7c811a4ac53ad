"""Context length, batch limits, dtype and quantisation, as engine/arg_utils.py and config/model.py resolve them."""

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from oomph.engines.vllm.kv.specs import Refused
from oomph.engines.vllm.resolve.verify import invalid, outside, unknown_dtype, verify_value
from oomph.facts.vllm.card_formats import FP8_NOT_ON_THIS_CARD, CardFormats
from oomph.facts.vllm.facts import Facts
from oomph.facts.vllm.flag_values import METHODS_THAT_LEFT
from oomph.facts.vllm.known import DECIDING_NAMES, DESC_ACT_REFUSED, RENAMED, Method
from oomph.facts.vllm.refusals import WANTS_CONFIG_FILE, Refusals
from oomph.facts.vllm.running import BATCHED_DP_TOKENS
from oomph.facts.vllm.vendors import is_gaudi
from oomph.ir import Attention, Device, Linear, Model, Scheme
from oomph.units import GIB

_TORCH = {"BF16": "bfloat16", "F16": "float16", "F32": "float32", "F64": "float64"}
_DTYPES = {
    "half": "float16", "float16": "float16", "float": "float32", "float32": "float32", "bfloat16": "bfloat16",
}  # fmt: skip
_NO_FLOAT16 = {  # config/model.py _FLOAT16_NOT_SUPPORTED_MODELS
    "gemma2": "Numerical instability. Please use bfloat16 or float32 instead.",
    "gemma3": "Numerical instability. Please use bfloat16 or float32 instead.",
    "gemma3_text": "Numerical instability. Please use bfloat16 or float32 instead.",
    "plamo2": "Numerical instability. Please use bfloat16 or float32 instead.",
    "glm4": "Numerical instability. Please use bfloat16 or float32 instead.",
}


def torch_dtype(name: str) -> str:
    return _TORCH.get(name, name.removeprefix("torch."))


def resolve_dtype(model: Model, flag: str, sm: int) -> str:
    supported = ["bfloat16", "float16", "float32"] if sm >= 80 or sm == 0 else ["float16", "float32"]
    if model.model_type in _NO_FLOAT16:
        supported.remove("float16")
    flag = flag.lower()
    if flag != "auto":
        if flag not in _DTYPES:
            raise unknown_dtype(flag)
        dtype = _DTYPES[flag]
        if dtype == "float16" and model.model_type in _NO_FLOAT16:
            reason = _NO_FLOAT16[model.model_type]
            raise Refused(
                "ValidationError", f"The model type {model.model_type!r} does not support float16. Reason: {reason}"
            )
        return dtype
    preferred = "float16" if model.pooling and "float16" in supported else supported[0]
    own = torch_dtype(model.dtype)
    if own == "float32":
        own = preferred
    return own if own in supported else preferred


class Quantised(Struct, frozen=True):
    """The method's name after overrides, and what it asks of the card and of the activations."""

    name: str | None = None
    method: Method | None = None
    refusal: tuple[str, str] | None = None  # of its config class: the type of the error and its words


def resolve_quantization(model: Model, flag: str, facts: Facts, sm: int, *, described: bool = False) -> Quantised:
    """config/model.py ModelConfig._verify_quantization. `described`: --quantization-config says what a load does."""
    support, methods = facts.support, facts.values.quantization
    own = (
        model.quantization.method.lower().replace("compressed_tensors", "compressed-tensors")
        if model.quantization
        else ""
    )
    if not own:
        verify_value("quantization", flag, methods)
        # a method for a checkpoint that is not quantised (weight_utils.py get_quant_config)
        if not flag:
            return Quantised()
        lacks = None if described and flag == "online" else _without_config(flag, facts.refusals)
        return Quantised(flag, support.methods.get(flag), lacks)
    row = support.methods.get(own)
    if row and row.fallback and (0 < sm < row.fallback_below or flag == row.fallback):
        row = replace(row, name=row.fallback, min_sm=row.fallback_min, dtypes=("float16",))
    name = row.name if row else own
    renamed = ""
    if support.renames_methods:
        scheme = model.quantization.scheme if model.quantization else None
        renamed = RENAMED.get((model.architecture, scheme.format if scheme else ""), "")
        renamed = renamed or RENAMED.get((model.architecture, own), "")
        name = renamed or name
    words = row.words if row else ()
    by_file = bool(model.param("quantised_apart")) and own != "modelopt" and not support.files_decide
    decides = renamed in DECIDING_NAMES or (row is not None and row.decides and not by_file)
    if flag and not decides and flag not in (name, own, *words):
        raise Refused(
            "ValidationError",
            f"Quantization method specified in the model config ({name if renamed else own}) does not match the "
            f"quantization method specified in the `quantization` argument ({flag}).",
        )
    if name in METHODS_THAT_LEFT:
        verify_value("quantization", name, methods)
    method = support.methods.get(name) if name in RENAMED.values() else None
    reordered = row is not None and not row.desc_act and _desc_act(model)
    refusal = ("ValidationError", DESC_ACT_REFUSED) if reordered else None
    return Quantised(name, (method or row) if row else None, refusal)


def _without_config(method: str, refusals: Refusals) -> tuple[str, str] | None:
    if method in WANTS_CONFIG_FILE:
        return "ValidationError", f"Cannot find the config file for {method}"
    missing = refusals.wants_arguments.get(method)
    return None if missing is None else ("TypeError", missing)


def verify_card_format(quantised: Quantised, model: Model, gpu: Device, facts: CardFormats) -> None:
    """platforms/interface.py verify_quantization, which ModelConfig._verify_quantization calls; then the kernels."""
    platform = "hpu" if is_gaudi(gpu.name) else {"amd": "rocm", "intel": "xpu"}.get(gpu.vendor)
    if platform is None or not quantised.name:
        return
    name = quantised.name.removesuffix("_marlin")  # whose overrides are CUDA's alone
    formats = facts.rocm | facts.rocm_for_a_while if platform == "rocm" else facts.xpu
    if name not in formats and (platform == "rocm" or (platform == "xpu" and facts.xpu_checks)):
        raise Refused("ValidationError", f"{name} quantization is currently not supported in {platform}.")
    scheme = model.quantization.scheme if model.quantization else None
    is_nvfp4 = scheme is not None and (scheme.kind, scheme.bits, scheme.group_size) == ("float", 4, 16)
    if is_nvfp4 and gpu.vendor not in facts.nvfp4_vendors:
        raise Refused("ValueError", f"no kernel for NVFP4 quantization on {platform}")
    if platform == "rocm" and gpu.sm not in facts.rocm_fp8 and _multiplies_in_fp8(name, scheme):
        raise Refused("RuntimeError", FP8_NOT_ON_THIS_CARD.format(card=gpu.name))


def _multiplies_in_fp8(name: str, scheme: Scheme | None) -> bool:
    """Weights and activations of 8 bits, scaled by tensor or channel. `scheme` is None where the load quantises."""
    if scheme is None:
        return name in ("fp8", "fp8_per_tensor", "fp8_per_channel")
    return (scheme.kind, scheme.bits, scheme.activation != "none") == ("float", 8, True) and scheme.strategy != "block"


def verify_quantization(quantised: Quantised, sm: int, dtype: str) -> None:
    """config/vllm.py _get_quantization_config."""
    if quantised.refusal is not None:
        raise Refused(*quantised.refusal)
    if quantised.method is not None and quantised.name:
        _check_method(quantised.method, quantised.name, sm, dtype)


def _check_method(row: Method, name: str, sm: int, dtype: str) -> None:
    if 0 < sm < row.min_sm:
        raise Refused(
            "ValidationError",
            f"The quantization method {name} is not supported for the current GPU. Minimum capability: {row.min_sm}. "
            f"Current capability: {sm}.",
        )
    if dtype not in row.dtypes:
        supported = ", ".join(f"torch.{d}" for d in row.dtypes)
        raise Refused(
            "ValidationError",
            f"torch.{dtype} is not supported for quantization method {name}. Supported dtypes: [{supported}]",
        )


def _desc_act(model: Model) -> bool:
    scheme = model.quantization.scheme if model.quantization else None
    if scheme is not None:
        return scheme.desc_act and scheme.group_size != -1
    return any(
        isinstance(module, Linear) and module.scheme is not None and module.scheme.desc_act
        for layer in model.layers[:1]
        for module in layer.block.modules
    )


def derived_length(model: Model, facts: Facts) -> tuple[float, str]:
    """The length the config gives, rope scaling included, and the key it came from."""
    key = str(model.param("max_len_key", "max_position_embeddings"))
    length = float(model.param("derived_max_len", model.max_position) or 0)
    if not length:
        return 2048.0, "None"
    rope = str(model.param("rope_type", ""))
    if "gemma3" in model.model_type or not rope or rope in ("su", "longrope", "llama3", "default"):
        return length, key
    if rope in ("yarn", "deepseek_yarn", "deepseek_llama_scaling") and not facts.limits.yarn_multiplies:
        return length, key
    if rope == "yarn":
        length = float(model.param("rope_original", length))
    return length * float(model.param("rope_factor", 1.0)), key


def resolve_length(model: Model, flag: int | None, environment: Mapping[str, str], facts: Facts) -> int:
    if flag is not None and flag < -1:
        raise invalid("ModelConfig", outside("max_model_len", "greater_than_equal", -1, flag))
    derived, key = derived_length(model, facts)
    if facts.limits.sizes_are_fields and (flag == 0 or (flag == -1 and key == "None")):
        text = f"max_model_len must be a positive integer, got int: {flag}. Example: max_model_len=2048"
        raise Refused("ValidationError", text)
    if flag is not None and key == "None":
        return flag  # nothing says how long the model may be
    if flag is None or flag == -1:
        if str(model.param("rope_type", "")) in ("longrope", "su") and facts.limits.longrope_original:
            return int(model.param("original_max_position_embeddings", derived) or derived)
        return int(derived)
    if flag <= derived:
        return flag
    most = model.param("model_max_length", 0)
    if (most and flag <= float(most)) or environment.get("VLLM_ALLOW_LONG_MAX_MODEL_LEN", "0") not in ("", "0"):
        return flag
    rope = any(isinstance(m, Attention) and m.rope for layer in model.layers for m in layer.mixers)
    is_float = facts.limits.length_is_float == "always" or (facts.limits.length_is_float == "rope" and rope)
    shown = derived if is_float and "gemma3" not in model.model_type else int(derived)
    raise Refused(
        "ValidationError",
        f"User-specified max_model_len ({flag}) is greater than the derived max_model_len ({key}={shown} or "
        f"model_max_length={most or None} in model's config.json). To allow overriding this maximum, set the env var "
        "VLLM_ALLOW_LONG_MAX_MODEL_LEN=1. VLLM_ALLOW_LONG_MAX_MODEL_LEN must be used with extreme caution. If the "
        "model uses relative position encoding (RoPE), positions exceeding derived_max_model_len lead to nan. If "
        "the model uses absolute position encoding, positions exceeding derived_max_model_len will cause a CUDA "
        "array out-of-bounds error.",
    )


def batch_limits(
    flags: Mapping[str, Any],
    facts: Facts,
    gpu: Device,
    usage: Literal["serve", "llm"],
    *,
    length: int,
    chunked: bool,
    one_item: int,
) -> tuple[int, int]:
    """(max_num_batched_tokens, max_num_seqs). `one_item`: tokens of a prefix-LM's largest image or video; 0 = none."""
    a100 = "a100" in (gpu.driver_name or gpu.name).lower()
    tier = next(t for t in facts.limits.tiers if gpu.total_bytes >= t.min_gib * GIB and (t.a100 or not a100))
    tokens, seqs = flags.get("max_num_batched_tokens"), flags.get("max_num_seqs")
    batched_dp = flags.get("data_parallel_size", 1) > 1 and flags.get("enable_expert_parallel")
    low_latency = flags.get("all2all_backend") in ("deepep_low_latency", "nixl_ep", "pplx")
    default = tier.llm_tokens if usage == "llm" else tier.serve_tokens
    if batched_dp and low_latency:
        default = BATCHED_DP_TOKENS
    twice = 2 if flags.get("performance_mode") == "throughput" else 1
    seqs_now = seqs if seqs is not None else tier.seqs * twice
    if tokens is not None:
        tokens_now = tokens
    else:
        tokens_now = default * twice
        if not chunked:
            tokens_now = max(length, tokens_now)
        tokens_now = min(seqs_now * length, tokens_now)
        if facts.limits.batch_holds_an_item and one_item:
            tokens_now = max(tokens_now, one_item)
    if seqs is None:
        seqs_now = min(seqs_now, tokens_now)
    return tokens_now, seqs_now


_MANY = 128  # config/scheduler.py DEFAULT_MAX_NUM_SEQS


def requests_of_class(model: Model, seqs: int) -> int:
    """models/config.py DiffusionGemmaModelForBlockDiffusionConfig (0.32.0): a number that nobody can have meant becomes
    the class's own."""
    own = int(model.param("most_requests", 0))
    return own if own and seqs >= _MANY else seqs
