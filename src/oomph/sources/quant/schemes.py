"""A checkpoint's quantisation config, and which scheme it gives to which linear layer.

Each method has its own way of naming what it leaves alone; they are read here as vLLM reads them (file names are of
0.21.0, model_executor/layers/quantization/). A fused layer is quantised only if all its parts are.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Literal

from msgspec.structs import replace

from oomph.errors import ConfigError
from oomph.ir import Quantization, Scheme
from oomph.sources.quant.fields import Kind, Quant, bits_of, group_size_of, make_quant, names_of, table_of
from oomph.sources.quant.patterns import Allowance, Pattern, contains_any

# Scheme.format of what not every release reads (facts/vllm/weights.py)
EXPERTS_MADE_ANEW = "ModelOpt experts in an FP8 checkpoint"


# model_arch_config_convertor.py:176 (0.21.0) _normalize_quantization_config; 0.32.0 has the same
_FILE_ALGORITHMS = ("FP8", "FP8_PER_CHANNEL_PER_TOKEN", "FP8_PB_WO", "NVFP4")


def as_filed(facts: Quantization, config: Mapping[str, Any], hf_quant_config: Mapping[str, Any] | None) -> Quantization:
    """With what vLLM makes of files that do not name their method: it takes the method from `quant_method`, or where
    ModelOpt signed as the producer from the algorithm, and else sees no quantisation at all."""
    own = config.get("quantization_config")
    table = own if isinstance(own, Mapping) else hf_quant_config
    if not table:
        return facts
    producer, inner = table.get("producer"), table.get("quantization")
    signed = isinstance(producer, Mapping) and producer.get("name") == "modelopt"
    algorithm = inner.get("quant_algo") if isinstance(inner, Mapping) else None
    if signed and algorithm is not None:
        if str(algorithm).upper() in _FILE_ALGORITHMS:
            return facts
        return replace(facts, refused=f"Unknown ModelOpt quant algo: {algorithm}")
    return facts if table.get("quant_method") else replace(facts, ignored=True)


def read_quant(config: Mapping[str, Any] | None, hf_quant_config: Mapping[str, Any] | None) -> Quant | None:
    """`config` is config.json's quantization_config, `hf_quant_config` the file of that name beside it (ModelOpt)."""
    if config:
        method = str(config.get("quant_method", "")).lower()
        reader = _READERS.get(method)
        if reader is None and "quant_algo" in config:
            reader = _modelopt
        if reader is None:
            raise ConfigError(f"quantization_config: quant_method {config.get('quant_method')!r} is not known")
        quant = reader(config)
        return quant if quant.facts.kv_cache else _with_kv_beside(quant, hf_quant_config)
    if hf_quant_config and isinstance(hf_quant_config.get("quantization"), Mapping):
        return _modelopt(hf_quant_config)
    return None


def _with_kv_beside(quant: Quant, hf_quant_config: Mapping[str, Any] | None) -> Quant:
    """With the KV dtype that only hf_quant_config.json names: SGLang reads it there, vLLM does not look."""
    inner = hf_quant_config.get("quantization") if hf_quant_config else None
    algorithm = inner.get("kv_cache_quant_algo") if isinstance(inner, Mapping) else None
    if not isinstance(algorithm, str):
        return quant
    return replace(quant, facts=replace(quant.facts, kv_cache_beside=algorithm.lower()))


# --- AWQ and GPTQ --------------------------------------------------------------------------------------------------


def _awq(config: Mapping[str, Any]) -> Quant:
    """awq.py: a module is skipped when an entry of modules_to_not_convert is a substring of its name."""
    scheme = Scheme(
        "awq",
        bits_of(config, "bits", 4),
        "int",
        "group",
        group_size_of(config, 128),
        symmetric=not config.get("zero_point", True),
    )
    skip = names_of(config.get("modules_to_not_convert"))

    skipped = contains_any(skip, Allowance())

    def pick(name: str, kind: Kind) -> Scheme | None:
        return None if kind == "lm_head" or skipped(name) else scheme

    return make_quant("awq", scheme, skip, pick)


def _gptq(config: Mapping[str, Any]) -> Quant:
    """gptq.py: `dynamic` has regexes behind "-:" (skip) and "+:" (override); lm_head only if `lm_head` is true."""
    base = Scheme(
        "gptq",
        bits_of(config, "bits", 4),
        "int",
        "group",
        group_size_of(config, 128),
        symmetric=bool(config.get("sym", True)),
        desc_act=bool(config.get("desc_act", False)),
    )
    allowance = Allowance()
    rules: list[tuple[Pattern, Scheme | None]] = []
    for pattern, change in table_of(config, "dynamic").items():
        skip = str(pattern).startswith("-:")
        compiled = Pattern(str(pattern)[2:] if str(pattern)[:2] in ("-:", "+:") else str(pattern), allowance)
        rules.append((compiled, None if skip else _override(base, change)))
    lm_head = bool(config.get("lm_head", False))
    skip_names = names_of(config.get("modules_to_not_convert"))
    skipped = contains_any(skip_names, allowance)

    def pick(name: str, kind: Kind) -> Scheme | None:
        for pattern, scheme in rules:
            if pattern.match(name):
                return scheme
        return None if (kind == "lm_head" and not lm_head) or skipped(name) else base

    return make_quant("gptq", base, skip_names, pick)


def _override(base: Scheme, change: Any) -> Scheme:
    if not isinstance(change, Mapping):
        return base
    return Scheme(
        base.method,
        bits_of(change, "bits", base.bits),
        "int",
        "group",
        group_size_of(change, base.group_size),
        symmetric=bool(change.get("sym", base.symmetric)),
        desc_act=bool(change.get("desc_act", base.desc_act)),
    )


# --- FP8 (quant_method fp8) and MXFP4 ------------------------------------------------------------------------------


def _fp8(config: Mapping[str, Any]) -> Quant:
    """fp8.py: `ignored_layers` (or modules_to_not_convert) are whole names; weight_block_size gives block scales."""
    block = config.get("weight_block_size")
    static: Literal["dynamic", "static"] = "static" if config.get("activation_scheme") == "static" else "dynamic"
    if block is not None:
        if not (isinstance(block, list) and len(block) == 2 and all(isinstance(b, int) and b > 0 for b in block)):
            raise ConfigError(f"quantization_config: weight_block_size is {block!r}, not two positive numbers")
        scheme = Scheme("fp8", 8, "float", "block", block=(block[0], block[1]), activation=static, input_bits=8)
    else:
        scheme = Scheme("fp8", 8, "float", "tensor", activation=static, input_bits=8)
    skip = names_of(config.get("ignored_layers") or config.get("modules_to_not_convert"))
    whole = frozenset(skip)
    # ModelOpt over an FP8 checkpoint (DeepSeek-V4): the layers it made anew are named with their own algorithm
    made_anew = config.get("quantized_layers")
    remade = _made_anew(made_anew) if isinstance(made_anew, Mapping) else {}
    allowance = Allowance()

    def pick(name: str, kind: Kind) -> Scheme | None:
        if kind == "experts":
            allowance.compare(len(remade))
            for parent, own in remade.items():
                if name == parent or name.startswith(f"{parent}."):
                    return own
        return None if kind == "lm_head" or name in whole or _parent_listed(name, whole) else scheme

    return make_quant("fp8", scheme, skip, pick)


def _made_anew(layers: Mapping[str, Any]) -> dict[str, Scheme | None]:
    from oomph.sources.quant.modelopt import scheme_of

    schemes = {str(k): scheme_of(str(v.get("quant_algo", "")), v) for k, v in layers.items() if isinstance(v, Mapping)}
    return {name: scheme and replace(scheme, format=EXPERTS_MADE_ANEW) for name, scheme in schemes.items()}


def _parent_listed(name: str, whole: frozenset[str]) -> bool:
    """Lists such as DeepSeek's name whole sub-trees ("model.layers.3.mlp.gate" names the module itself): a listed
    parent covers what is below it."""
    end = name.rfind(".")
    while end > 0:
        name = name[:end]
        if name in whole:
            return True
        end = name.rfind(".")
    return False


def _mxfp4(config: Mapping[str, Any]) -> Quant:
    """mxfp4.py: only FusedMoE is quantised, 32 values to a scale of one byte."""
    scheme = Scheme("mxfp4", 4, "float", "group", 32)
    skip = names_of(config.get("modules_to_not_convert"))
    return make_quant("mxfp4", scheme, skip, lambda name, kind: scheme if kind == "experts" else None)


def _bitsandbytes(config: Mapping[str, Any]) -> Quant:
    """bitsandbytes.py: llm_int8_skip_modules are components of the dotted name, or prefixes of it."""
    four = bool(config.get("load_in_4bit", config.get("_load_in_4bit", False)))
    scheme = Scheme(
        "bitsandbytes", 4 if four else 8, "float" if four else "int", "group" if four else "channel", 64 if four else -1
    )
    skip = names_of(config.get("llm_int8_skip_modules"))
    allowance = Allowance()

    def pick(name: str, kind: Kind) -> Scheme | None:
        allowance.compare(len(skip))
        components = name.split(".")
        skipped = kind == "lm_head" or any(s in components or name.startswith(s) for s in skip)
        return None if skipped else scheme

    return make_quant("bitsandbytes", scheme, skip, pick)


def _file(name: str) -> Callable[[Mapping[str, Any]], Quant]:
    """A method with a file of its own, imported when a checkpoint has it."""

    def read(config: Mapping[str, Any]) -> Quant:
        quant: Quant = import_module(f"oomph.sources.quant.{name}").read(config)
        return quant

    return read


_auto_round, _compressed_tensors, _modelopt = _file("auto_round"), _file("compressed"), _file("modelopt")


def _fbgemm_fp8(config: Mapping[str, Any]) -> Quant:
    """fbgemm_fp8.py: a scale for each output feature; modules_to_not_convert are whole names or parents."""
    scheme = Scheme("fbgemm_fp8", 8, "float", "channel", -1, activation="dynamic", input_bits=8)
    skip = names_of(config.get("modules_to_not_convert"))
    whole = frozenset(skip)

    def pick(name: str, kind: Kind) -> Scheme | None:
        return None if kind == "lm_head" or name in whole or _parent_listed(name, whole) else scheme

    return make_quant("fbgemm_fp8", scheme, skip, pick)


_READERS: dict[str, Callable[[Mapping[str, Any]], Quant]] = {
    "auto-round": _auto_round,
    "awq": _awq,
    "awq_marlin": _awq,
    "fbgemm_fp8": _fbgemm_fp8,
    "gptq_marlin": _gptq,
    "inc": _auto_round,
    "intel/auto-round": _auto_round,
    "gptq": _gptq,
    "fp8": _fp8,
    "mxfp4": _mxfp4,
    "bitsandbytes": _bitsandbytes,
    "compressed-tensors": _compressed_tensors,
    "modelopt": _modelopt,
    "modelopt_fp4": _modelopt,
    "modelopt_mixed": _modelopt,
}
