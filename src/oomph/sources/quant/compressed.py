"""compressed-tensors checkpoints: groups of targets, each with its scheme, and a list of what is left alone.

vLLM: quantization/compressed_tensors/ (0.21.0).
"""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, Literal

from oomph.errors import ConfigError
from oomph.ir import Scheme
from oomph.sources.quant.fields import Kind, Quant, bits_of, group_size_of, make_quant, names_of, small_int, table_of
from oomph.sources.quant.patterns import Allowance, Pattern, is_plain


def read(config: Mapping[str, Any]) -> Quant:
    """compressed_tensors/utils.py: `ignore` and `targets` hold names, "re:" patterns or class names ("Linear")."""
    ignore = names_of(config.get("ignore"))
    allowance = Allowance()
    ignored = _name_matcher(ignore, allowance)
    groups: list[tuple[tuple[str, ...], Callable[[str], bool], Scheme]] = []
    for group in table_of(config, "config_groups").values():
        if isinstance(group, Mapping) and isinstance(group.get("weights"), Mapping):
            targets = names_of(group.get("targets"))
            groups.append(
                (
                    targets,
                    _name_matcher(targets, allowance),
                    _ct_scheme(group, str(group.get("format") or config.get("format", ""))),
                )
            )

    def pick(name: str, kind: Kind) -> Scheme | None:
        if ignored(name):
            return None
        allowance.compare(len(groups))
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
    texts = (*ignore, *(target for targets, _, _ in groups for target in targets))
    # a pattern with two points side by side may count the digits of a number
    are_plain = all(is_plain(t[3:]) and ".." not in t.replace(".*", "") for t in texts if t.startswith("re:"))
    compared = texts if are_plain else None
    return make_quant("compressed-tensors", groups[0][2] if groups else None, ignore, pick, kv, compared=compared)


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
        bits=bits_of(weights, "num_bits", 8),
        kind="float" if weights.get("type") == "float" else "int",
        strategy=strategy,  # type: ignore[arg-type]
        group_size=group_size_of(weights, 128)
        if strategy in ("group", "tensor_group")
        else small_int(weights, "group_size", 0),
        block=(block[0], block[1]),
        symmetric=bool(weights.get("symmetric", True)),
        format=fmt,
        desc_act=weights.get("actorder") in ("group", True),
        activation=activation,
        input_bits=small_int(inputs, "num_bits", 16) if isinstance(inputs, Mapping) else 16,
    )


def _name_matcher(patterns: Iterable[str], allowance: Allowance) -> Callable[[str], bool]:
    whole = frozenset(p for p in patterns if not p.startswith("re:"))
    regexes = [Pattern(p[3:], allowance) for p in patterns if p.startswith("re:")]

    @cache
    def match(name: str) -> bool:
        return name in whole or any(r.match(name) for r in regexes)

    return match
