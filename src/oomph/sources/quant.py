"""A checkpoint's quantisation config, and which scheme it gives to which linear layer.

Each method has its own way of naming what it leaves alone; they are read here as vLLM reads them (file names are of
0.21.0, model_executor/layers/quantization/). A fused layer is quantised only if all its parts are.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from oomph.errors import ConfigError
from oomph.ir.model import Quantization, Scheme

Kind = Literal["linear", "experts", "lm_head"]


class Quant(Struct, frozen=True):
    """`scheme(name, kind)`: how the module of that checkpoint name is stored; None = not quantised."""

    facts: Quantization
    scheme: Callable[[str, Kind], Scheme | None]


# model_arch_config_convertor.py:176 (0.21.0) _normalize_quantization_config; 0.32.0 has the same
_FILE_ALGORITHMS = ("FP8", "FP8_PER_CHANNEL_PER_TOKEN", "FP8_PB_WO", "NVFP4")


def file_notes(config: Mapping[str, Any], hf_quant_config: Mapping[str, Any] | None) -> tuple[str, ...]:
    """What vLLM makes of a hf_quant_config.json that is all a checkpoint says of its quantisation."""
    if not hf_quant_config or config.get("quantization_config"):
        return ()
    producer, told = hf_quant_config.get("producer"), hf_quant_config.get("quantization")
    algorithm = str(told.get("quant_algo") or "").upper() if isinstance(told, Mapping) else ""
    if not isinstance(producer, Mapping) or producer.get("name") != "modelopt":
        return (
            "hf_quant_config.json names no producer: vLLM then ignores it and builds the weights unquantised; planned "
            "as the file says",
        )
    if algorithm and algorithm not in _FILE_ALGORITHMS:
        return (f"only hf_quant_config.json says {algorithm}: vLLM refuses it (Unknown ModelOpt quant algo)",)
    return ()


def read_quant(config: Mapping[str, Any] | None, hf_quant_config: Mapping[str, Any] | None) -> Quant | None:
    """`config` is config.json's quantization_config, `hf_quant_config` the file of that name beside it (ModelOpt)."""
    if config:
        method = str(config.get("quant_method", "")).lower()
        reader = _READERS.get(method)
        if reader is None and "quant_algo" in config:
            reader = _modelopt
        if reader is None:
            raise ConfigError(f"quantization_config: quant_method {config.get('quant_method')!r} is not known")
        return reader(config)
    if hf_quant_config and isinstance(hf_quant_config.get("quantization"), Mapping):
        return _modelopt(hf_quant_config)
    return None


def _names(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
        raise ConfigError("quantization_config: a list of module names holds something that is not a name")
    return tuple(value)


def _table(config: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = config.get(key) or {}
    if not isinstance(value, Mapping):
        raise ConfigError(f"quantization_config: {key} is not an object")
    return value


def _int(config: Mapping[str, Any], key: str, default: int) -> int:
    value = config.get(key, default)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or not -1 <= value <= 1 << 20:
        raise ConfigError(f"quantization_config: {key} is {value!r}, not a sensible number")
    return value


def _quant(
    method: str,
    scheme: Scheme | None,
    ignore: tuple[str, ...],
    pick: Callable[[str, Kind], Scheme | None],
    kv: str = "",
) -> Quant:
    return Quant(Quantization(method, scheme, kv, ignore), pick)


# --- AWQ and GPTQ --------------------------------------------------------------------------------------------------


def _awq(config: Mapping[str, Any]) -> Quant:
    """awq.py: a module is skipped when an entry of modules_to_not_convert is a substring of its name."""
    scheme = Scheme(
        "awq",
        _int(config, "bits", 4),
        "int",
        "group",
        _int(config, "group_size", 128),
        symmetric=not config.get("zero_point", True),
    )
    skip = _names(config.get("modules_to_not_convert"))

    def pick(name: str, kind: Kind) -> Scheme | None:
        return None if kind == "lm_head" or any(s in name for s in skip) else scheme

    return _quant("awq", scheme, skip, pick)


def _gptq(config: Mapping[str, Any]) -> Quant:
    """gptq.py: `dynamic` has regexes behind "-:" (skip) and "+:" (override); lm_head only if `lm_head` is true."""
    base = Scheme(
        "gptq",
        _int(config, "bits", 4),
        "int",
        "group",
        _int(config, "group_size", 128),
        symmetric=bool(config.get("sym", True)),
        desc_act=bool(config.get("desc_act", False)),
    )
    rules: list[tuple[re.Pattern[str], Scheme | None]] = []
    for pattern, change in _table(config, "dynamic").items():
        skip = str(pattern).startswith("-:")
        compiled = _regex(str(pattern)[2:] if str(pattern)[:2] in ("-:", "+:") else str(pattern))
        rules.append((compiled, None if skip else _override(base, change)))
    lm_head = bool(config.get("lm_head", False))
    skip_names = _names(config.get("modules_to_not_convert"))

    def pick(name: str, kind: Kind) -> Scheme | None:
        for pattern, scheme in rules:
            if pattern.match(name):
                return scheme
        if (kind == "lm_head" and not lm_head) or any(s in name for s in skip_names):
            return None
        return base

    return _quant("gptq", base, skip_names, pick)


def _override(base: Scheme, change: Any) -> Scheme:
    if not isinstance(change, Mapping):
        return base
    return Scheme(
        base.method,
        _int(change, "bits", base.bits),
        "int",
        "group",
        _int(change, "group_size", base.group_size),
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
    skip = _names(config.get("ignored_layers") or config.get("modules_to_not_convert"))
    whole = frozenset(skip)
    # ModelOpt over an FP8 checkpoint (DeepSeek-V4): the layers it made anew are named with their own algorithm
    made_anew = config.get("quantized_layers")
    remade = {
        str(k): _modelopt_scheme(str(v.get("quant_algo", "")), v)
        for k, v in (made_anew.items() if isinstance(made_anew, Mapping) else ())
        if isinstance(v, Mapping)
    }

    def pick(name: str, kind: Kind) -> Scheme | None:
        if kind == "experts":
            for parent, own in remade.items():
                if name == parent or name.startswith(f"{parent}."):
                    return own
        return None if kind == "lm_head" or name in whole or _parent_listed(name, whole) else scheme

    return _quant("fp8", scheme, skip, pick)


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
    skip = _names(config.get("modules_to_not_convert"))
    return _quant("mxfp4", scheme, skip, lambda name, kind: scheme if kind == "experts" else None)


def _bitsandbytes(config: Mapping[str, Any]) -> Quant:
    """bitsandbytes.py: llm_int8_skip_modules are components of the dotted name, or prefixes of it."""
    four = bool(config.get("load_in_4bit", config.get("_load_in_4bit", False)))
    scheme = Scheme(
        "bitsandbytes", 4 if four else 8, "float" if four else "int", "group" if four else "channel", 64 if four else -1
    )
    skip = _names(config.get("llm_int8_skip_modules"))

    def pick(name: str, kind: Kind) -> Scheme | None:
        components = name.split(".")
        skipped = kind == "lm_head" or any(s in components or name.startswith(s) for s in skip)
        return None if skipped else scheme

    return _quant("bitsandbytes", scheme, skip, pick)


# --- compressed-tensors --------------------------------------------------------------------------------------------


def _compressed_tensors(config: Mapping[str, Any]) -> Quant:
    """compressed_tensors/utils.py: `ignore` and `targets` hold names, "re:" patterns or class names ("Linear")."""
    ignore = _names(config.get("ignore"))
    ignored = _name_matcher(ignore)
    groups: list[tuple[tuple[str, ...], Callable[[str], bool], Scheme]] = []
    for group in _table(config, "config_groups").values():
        if isinstance(group, Mapping) and isinstance(group.get("weights"), Mapping):
            targets = _names(group.get("targets"))
            groups.append(
                (
                    targets,
                    _name_matcher(targets),
                    _ct_scheme(group, str(group.get("format") or config.get("format", ""))),
                )
            )

    def pick(name: str, kind: Kind) -> Scheme | None:
        if ignored(name):
            return None
        for _, named, scheme in groups:
            if named(name):
                return scheme
        if kind == "lm_head":
            return None
        for targets, _, scheme in groups:
            if "Linear" in targets:
                return scheme
        return None

    kv = "fp8" if isinstance(config.get("kv_cache_scheme"), Mapping) else ""
    return _quant("compressed-tensors", groups[0][2] if groups else None, ignore, pick, kv)


def _ct_scheme(group: Mapping[str, Any], fmt: str) -> Scheme:
    weights = group["weights"]
    inputs = group.get("input_activations")
    activation: Literal["none", "dynamic", "static"] = "none"
    if isinstance(inputs, Mapping):
        # "local" is NVFP4's dynamic-within-a-static-global-scale: the checkpoint has a global scale
        activation = "dynamic" if inputs.get("dynamic") is True else "static"
    block = weights.get("block_structure") or (0, 0)
    if not (isinstance(block, list | tuple) and len(block) == 2 and all(isinstance(b, int) for b in block)):
        raise ConfigError(f"quantization_config: block_structure is {block!r}, not two numbers")
    strategy = str(weights.get("strategy", "tensor"))
    if strategy not in ("tensor", "channel", "group", "block", "tensor_group"):
        raise ConfigError(f"quantization_config: weight strategy {strategy!r} is not known")
    return Scheme(
        "compressed-tensors",
        _int(weights, "num_bits", 8),
        "float" if weights.get("type") == "float" else "int",
        strategy,  # type: ignore[arg-type]
        _int(weights, "group_size", 0),
        (block[0], block[1]),
        bool(weights.get("symmetric", True)),
        fmt,
        desc_act=weights.get("actorder") in ("group", True),
        activation=activation,
        input_bits=_int(inputs, "num_bits", 16) if isinstance(inputs, Mapping) else 16,
    )


def _name_matcher(patterns: Iterable[str]) -> Callable[[str], bool]:
    whole = frozenset(p for p in patterns if not p.startswith("re:"))
    regexes = [_regex(p[3:]) for p in patterns if p.startswith("re:")]

    @cache
    def match(name: str) -> bool:
        return name in whole or any(r.match(name) for r in regexes)

    return match


# --- ModelOpt ------------------------------------------------------------------------------------------------------


def _modelopt(config: Mapping[str, Any]) -> Quant:
    """modelopt.py: from hf_quant_config.json ("quantization": {...}) or from config.json (flat, `ignore`)."""
    inner = config.get("quantization")
    flat = inner if isinstance(inner, Mapping) else config
    algo = str(flat.get("quant_algo", config.get("quant_algo", ""))).upper()
    ignore = _names(flat.get("exclude_modules") or flat.get("ignore"))
    kv_algo = flat.get("kv_cache_quant_algo") or ("FP8" if isinstance(flat.get("kv_cache_scheme"), Mapping) else "")
    kv = "fp8" if str(kv_algo).upper() == "FP8" else str(kv_algo).lower()
    excluded = _modelopt_excluded(ignore)
    layers = flat.get("quantized_layers")
    if isinstance(layers, Mapping):
        known: dict[tuple[str, Any], Scheme | None] = {}  # lists name every expert: parse each kind once
        per_layer: dict[str, Scheme | None] = {}
        for layer, fields in layers.items():
            if isinstance(fields, Mapping):
                kind_of = (str(fields.get("quant_algo", "")), str(fields.get("group_size")))
                if kind_of not in known:
                    known[kind_of] = _modelopt_scheme(kind_of[0], fields)
                per_layer[str(layer)] = known[kind_of]
        first = next(iter(per_layer.values()), None)
        inside: dict[str, Scheme | None] = {}  # what the first listed layer below each name has
        for name, listed in per_layer.items():
            inside.setdefault(name, listed)
            end = name.rfind(".")
            while end > 0 and name[:end] not in inside:
                inside[name[:end]] = listed
                end = name.rfind(".", 0, end)

        def pick_listed(name: str, kind: Kind) -> Scheme | None:
            return inside.get(name) if kind == "experts" else per_layer.get(name)

        return _quant("modelopt_mixed", first, ignore, pick_listed, kv)
    scheme = _modelopt_scheme(algo, flat)
    groups = flat.get("config_groups")
    named = [g for g in groups.values() if isinstance(g, Mapping)] if isinstance(groups, Mapping) else []
    if scheme is not None and scheme.bits == 4 and named and not any(g.get("input_activations") for g in named):
        scheme = replace(scheme, activation="none")  # weight-only, as 0.30 and later read it

    def pick(name: str, kind: Kind) -> Scheme | None:
        return None if scheme is None or excluded(name) else scheme

    return _quant(scheme.method if scheme else "modelopt", scheme, ignore, pick, kv)


def _modelopt_scheme(algo: str, fields: Mapping[str, Any]) -> Scheme | None:
    algo = algo.upper()
    if algo in ("NVFP4", "NVFP4_AWQ", "W4A16_NVFP4", "W4A8_NVFP4_FP8"):
        return Scheme(
            "modelopt_fp4",
            4,
            "float",
            "tensor_group",
            _int(fields, "group_size", 16),
            activation="none" if algo == "W4A16_NVFP4" else "static",
            input_bits=16 if algo == "W4A16_NVFP4" else 4,
        )
    if algo == "FP8":
        return Scheme("modelopt", 8, "float", "tensor", activation="static", input_bits=8)
    if algo == "FP8_PER_CHANNEL_PER_TOKEN":
        return Scheme("modelopt", 8, "float", "channel", activation="dynamic", input_bits=8)
    if algo in ("FP8_PB_WO", "FP8_BLOCK"):
        return Scheme("modelopt", 8, "float", "block", block=(128, 128), input_bits=8)
    if algo in ("", "NONE"):
        return None
    if algo in ("MXFP8",):
        return Scheme("modelopt_mxfp8", 8, "float", "group", 32, input_bits=8)
    if algo in ("W4A16_AWQ", "INT4_AWQ"):
        return Scheme("modelopt_awq", 4, "int", "group", _int(fields, "group_size", 128))
    raise ConfigError(f"quantization_config: ModelOpt quant_algo {algo!r} is not known")


def _modelopt_excluded(patterns: tuple[str, ...]) -> Callable[[str], bool]:
    """modelopt.py:146 is_layer_excluded: a whole name; a name or its tail contained; shell wildcards, where "path*"
    also covers "path" itself."""
    plain = tuple(p for p in patterns if not any(c in p for c in "*?["))
    wild = (
        re.compile("|".join(f"(?:{fnmatch.translate(p)})" for p in patterns if any(c in p for c in "*?[")))
        if patterns
        else None
    )

    @cache
    def match(name: str) -> bool:
        if any(p == name or p in name for p in plain):
            return True
        return bool(wild and wild.pattern and wild.match(name))

    return match


def _regex(pattern: str) -> re.Pattern[str]:
    if len(pattern) > 10_000:
        raise ConfigError("quantization_config: a pattern is longer than 10,000 characters")
    try:
        return re.compile(pattern)
    except re.error as bad:
        raise ConfigError(f"quantization_config: {pattern[:80]!r} is not a regular expression ({bad})") from None


small_int, compile_pattern = _int, _regex


def _auto_round(config: Mapping[str, Any]) -> Quant:
    from oomph.sources.auto_round import read

    return read(config)


def _fbgemm_fp8(config: Mapping[str, Any]) -> Quant:
    """fbgemm_fp8.py: a scale for each output feature; modules_to_not_convert are whole names or parents."""
    scheme = Scheme("fbgemm_fp8", 8, "float", "channel", -1, activation="dynamic", input_bits=8)
    skip = _names(config.get("modules_to_not_convert"))
    whole = frozenset(skip)

    def pick(name: str, kind: Kind) -> Scheme | None:
        return None if kind == "lm_head" or name in whole or _parent_listed(name, whole) else scheme

    return _quant("fbgemm_fp8", scheme, skip, pick)


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
