"""AutoRound checkpoints (quant_method "auto-round"; vLLM: quantization/inc.py): GPTQ or AWQ packing, with a list of
blocks to quantise and exceptions by name or pattern."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from oomph.errors import ConfigError
from oomph.ir import Quantization, Scheme
from oomph.sources.quant.fields import Kind, Quant, bits_of, group_size_of
from oomph.sources.quant.patterns import Allowance, Pattern

_SPECIAL = frozenset(r"*+?^$()[]{}|\\")


def read(config: Mapping[str, Any]) -> Quant:
    packing = str(config.get("packing_format") or "auto_round:auto_gptq")
    base = Scheme(
        "awq" if "awq" in packing else "gptq",
        bits_of(config, "bits", 4),
        "int",
        "group",
        group_size_of(config, 128),
        symmetric=bool(config.get("sym", True)),
        format="auto_round",
    )
    blocks = _blocks(config)
    exceptions = config.get("extra_config")
    if exceptions is None:
        exceptions = {}
    if not isinstance(exceptions, Mapping):
        raise ConfigError("quantization_config: extra_config is not an object")
    allowance = Allowance()
    patterns = [
        (Pattern(str(name), allowance), change)
        for name, change in exceptions.items()
        if any(c in _SPECIAL for c in str(name))
    ]

    def pick(name: str, kind: Kind) -> Scheme | None:
        """inc.py:133 get_layer_config (0.21.0): the exact name first, then patterns, then the blocks."""
        if name in exceptions:
            return _changed(base, exceptions[name], True)
        allowance.compare(len(blocks))
        inside = any(name.startswith(b) for b in blocks) if blocks else kind != "lm_head"
        for pattern, change in patterns:
            if pattern.search(name):
                return _changed(base, change, inside)
        return base if inside else None

    skipped = tuple(str(n) for n, c in exceptions.items() if isinstance(c, Mapping) and c.get("bits", 0) == 16)
    return Quant(Quantization("auto-round", base, "", skipped), pick)


def _blocks(config: Mapping[str, Any]) -> tuple[str, ...]:
    value = config.get("block_name_to_quantize") or config.get("to_quant_block_names") or ()
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not all(isinstance(n, str) for n in names):
        raise ConfigError("quantization_config: block_name_to_quantize is neither a name nor a list of names")
    return tuple(n.strip() for n in names if n.strip())


def _changed(base: Scheme, change: Any, inside: bool) -> Scheme | None:
    if not isinstance(change, Mapping):
        raise ConfigError("quantization_config: extra_config holds something that is not an object")
    bits = bits_of(change, "bits", base.bits if inside else 16)
    if bits >= 16:
        return None
    group = group_size_of(change, base.group_size)
    return replace(base, bits=bits, group_size=group, symmetric=bool(change.get("sym", base.symmetric)))
