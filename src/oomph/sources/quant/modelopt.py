"""NVIDIA ModelOpt checkpoints: one algorithm with a list of exceptions, or an algorithm for each layer.

vLLM: quantization/modelopt.py (0.21.0).
"""

import fnmatch
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from msgspec.structs import replace

from oomph.errors import ConfigError
from oomph.ir import Scheme
from oomph.sources.quant.fields import Kind, Quant, group_size_of, make_quant, names_of
from oomph.sources.quant.patterns import Allowance, contains_any


def read(config: Mapping[str, Any]) -> Quant:
    """modelopt.py: from hf_quant_config.json ("quantization": {...}) or from config.json (flat, `ignore`)."""
    inner = config.get("quantization")
    flat = inner if isinstance(inner, Mapping) else config
    algo = str(flat.get("quant_algo", config.get("quant_algo", ""))).upper()
    ignore = names_of(flat.get("exclude_modules") or flat.get("ignore"))
    kv_algo = flat.get("kv_cache_quant_algo") or ("FP8" if isinstance(flat.get("kv_cache_scheme"), Mapping) else "")
    kv = "fp8" if str(kv_algo).upper() == "FP8" else str(kv_algo).lower()
    excluded = _excluded(ignore)
    layers = flat.get("quantized_layers")
    if isinstance(layers, Mapping):
        schemes: dict[tuple[str, Any], Scheme | None] = {}  # lists name every expert: parse each kind once
        per_layer: dict[str, Scheme | None] = {}
        for layer, fields in layers.items():
            if isinstance(fields, Mapping):
                kind_of = (str(fields.get("quant_algo", "")), str(fields.get("group_size")))
                if kind_of not in schemes:
                    scheme = scheme_of(kind_of[0], fields)
                    schemes[kind_of] = scheme and replace(scheme, format=f"mixed {kind_of[0].upper()}")
                per_layer[str(layer)] = schemes[kind_of]
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

        return make_quant("modelopt_mixed", first, ignore, pick_listed, kv)
    scheme = scheme_of(algo, flat)
    groups = flat.get("config_groups")
    named = [group for group in groups.values() if isinstance(group, Mapping)] if isinstance(groups, Mapping) else []
    if scheme is not None and scheme.bits == 4 and named and not any(g.get("input_activations") for g in named):
        scheme = replace(scheme, activation="none")  # weight-only, as 0.30 and later read it

    def pick(name: str, kind: Kind) -> Scheme | None:
        vision = "vision_tower" in name or "vision_model" in name  # modelopt.py:216: whatever the list says
        return None if scheme is None or vision or excluded(name) else scheme

    return make_quant(scheme.method if scheme else "modelopt", scheme, ignore, pick, kv)


_NVFP4 = Scheme("modelopt_fp4", 4, "float", "tensor_group", 16, activation="static", input_bits=4)
_BLOCKS = Scheme("modelopt", 8, "float", "block", block=(128, 128), input_bits=8)
_AWQ = Scheme("modelopt_awq", 4, "int", "group", 128)
_SCHEMES = {
    "NVFP4": _NVFP4,
    "NVFP4_AWQ": _NVFP4,
    "W4A8_NVFP4_FP8": _NVFP4,
    "W4A16_NVFP4": replace(_NVFP4, activation="none", input_bits=16),
    "FP8": Scheme("modelopt", 8, "float", "tensor", activation="static", input_bits=8),
    "FP8_PER_CHANNEL_PER_TOKEN": Scheme("modelopt", 8, "float", "channel", activation="dynamic", input_bits=8),
    "FP8_PB_WO": _BLOCKS,
    "FP8_BLOCK": _BLOCKS,
    "MXFP8": Scheme("modelopt_mxfp8", 8, "float", "group", 32, input_bits=8),
    "W4A16_AWQ": _AWQ,
    "INT4_AWQ": _AWQ,
}


def scheme_of(algo: str, fields: Mapping[str, Any]) -> Scheme | None:
    algo = algo.upper()
    if algo in ("", "NONE"):
        return None
    scheme = _SCHEMES.get(algo)
    if scheme is None:
        raise ConfigError(f"quantization_config: ModelOpt quant_algo {algo!r} is not known")
    has_groups = scheme.bits == 4  # 8 bits have none, or those of the format
    return replace(scheme, group_size=group_size_of(fields, scheme.group_size)) if has_groups else scheme


def _excluded(patterns: tuple[str, ...]) -> Callable[[str], bool]:
    """modelopt.py:146 is_layer_excluded: a whole name; a name or its tail contained; shell wildcards, where "path*"
    also covers "path" itself."""
    allowance = Allowance()
    plain = [pattern for pattern in patterns if not any(c in pattern for c in "*?[")]
    contains = contains_any(plain, allowance)
    # nearly all are "path*": these need no regular expression
    prefixes = tuple(p[:-1] for p in patterns if p.endswith("*") and not any(c in p[:-1] for c in "*?["))
    wildcards = [p for p in patterns if p not in plain and not (p.endswith("*") and p[:-1] in prefixes)]
    allowance.spend(wildcards)
    # fnmatch writes atomic groups: a name is matched in a time that is linear in its length for each wildcard
    wild = re.compile("|".join(f"(?:{fnmatch.translate(p)})" for p in wildcards)) if wildcards else None

    @cache
    def match(name: str) -> bool:
        allowance.compare(len(wildcards) + len(prefixes))
        return contains(name) or name.startswith(prefixes) or (wild is not None and wild.match(name) is not None)

    return match
