"""The catalogue's schema: a model's facts as small as they can be read again.

Common keys have short names. A list that repeats is its period and length; a list of module names is one template per
shape of name, with the numbers as ranges. What is packed here is what sources/build.py reads, and nothing else.
"""

from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any

from oomph.text.late import late_pattern

# ours -> the key of config.json that the templates read
KEYS: dict[str, str] = {
    "a": "architectures", "d": "dtype", "D": "torch_dtype", "m": "model_type", "t": "text_config",
    "v": "vision_config", "au": "audio_config", "q": "quantization_config", "cc": "compression_config",
    "h": "hidden_size", "L": "num_hidden_layers", "H": "num_attention_heads", "K": "num_key_value_heads",
    "hd": "head_dim", "f": "intermediate_size", "V": "vocab_size", "x": "max_position_embeddings",
    "tie": "tie_word_embeddings", "rt": "rope_theta", "rs": "rope_scaling", "rp": "rope_parameters",
    "w": "sliding_window", "W": "use_sliding_window", "lt": "layer_types", "ab": "attention_bias",
    "E": "num_experts", "El": "num_local_experts", "Er": "n_routed_experts", "Es": "n_shared_experts",
    "k": "num_experts_per_tok", "fe": "moe_intermediate_size", "fd": "first_k_dense_replace",
    "lr": "kv_lora_rank", "lq": "q_lora_rank", "nr": "qk_rope_head_dim", "nn": "qk_nope_head_dim", "nv": "v_head_dim",
    "mtp": "num_nextn_predict_layers", "tv": "transformers_version", "g": "config_groups", "ig": "ignore",
    "qm": "quant_method", "qa": "quant_algo", "ex": "exclude_modules", "kq": "kv_cache_quant_algo",
    "gs": "group_size", "ql": "quantized_layers", "nc": "modules_to_not_convert", "wt": "weights",
    "ia": "input_activations", "tg": "targets", "nb": "num_bits", "st": "strategy", "ty": "type",
    "sy": "symmetric", "dy": "dynamic", "bs": "weight_block_size", "hp": "hybrid_override_pattern",
    "pr": "partial_rotary_factor", "om": "original_max_position_embeddings", "rk": "rope_type", "fc": "factor",
}  # fmt: skip
_SHORT = {long: short for short, long in KEYS.items()}
assert len(_SHORT) == len(KEYS)

_NUMBER = late_pattern(r"(?<=\.)\d+(?=\.|\*|$)")
_MIN_LIST = 6


def pack(value: Any) -> Any:
    if isinstance(value, Mapping):
        if (
            len(value) > _MIN_LIST
            and all(isinstance(v, Mapping) for v in value.values())
            and _NUMBER.search(str(value))
        ):
            return {"~m": _pack_named(value)}
        return {_SHORT.get(k, k): pack(v) for k, v in value.items()}
    if isinstance(value, list) and len(value) >= _MIN_LIST:
        if all(isinstance(v, str) for v in value) and any(_NUMBER.search(v) for v in value):
            return {"~n": pack_names(value)}
        if all(isinstance(v, (str, int, float, bool)) for v in value):
            return _pack_repeats(value)
    return [pack(v) for v in value] if isinstance(value, list) else value


def unpack(value: Any) -> Any:
    if isinstance(value, list):
        return [unpack(v) for v in value]
    if not isinstance(value, dict):
        return value
    if "~n" in value:
        return unpack_names(value["~n"])
    if "~p" in value:
        period, count = value["~p"]
        return [period[i % len(period)] for i in range(count)]
    if "~r" in value:
        return [v for v, count in value["~r"] for _ in range(count)]
    if "~m" in value:
        return {name: unpack(v) for v, names in value["~m"] for name in unpack_names(names)}
    return {KEYS.get(k, k): unpack(v) for k, v in value.items()}


def _pack_repeats(values: list[Any]) -> Any:
    for period in range(1, len(values) // 2 + 1):
        if all(values[i] == values[i % period] for i in range(len(values))):
            return {"~p": [values[:period], len(values)]}
    runs: list[list[Any]] = []
    for value in values:
        if runs and runs[-1][0] == value:
            runs[-1][1] += 1
        else:
            runs.append([value, 1])
    return {"~r": runs} if len(runs) * 2 < len(values) else values


def pack_names(names: Iterable[str]) -> dict[str, str]:
    """'model.layers.0.mlp', ..., 'model.layers.9.mlp' -> {'model.layers.#.mlp': '0-9'}. Names with several numbers
    keep the last as one range per run of equal ranges; the order of names is not kept."""
    shapes: dict[str, set[tuple[int, ...]]] = {}
    for name in names:
        numbers = tuple(int(n) for n in _NUMBER.findall(name))
        shapes.setdefault(_NUMBER.sub("#", name), set()).add(numbers)
    return {shape: ";".join(_boxes(rows)) for shape, rows in sorted(shapes.items())}


def unpack_names(shapes: dict[str, str]) -> list[str]:
    out: list[str] = []
    for shape, boxes in shapes.items():
        parts = shape.split("#")
        for box in boxes.split(";"):
            out.extend(
                "".join(p + str(n) for p, n in zip(parts, numbers)) + parts[-1]
                for numbers in product(*(_numbers(axis) for axis in box.split()))
            )
    return out


def _boxes(rows: set[tuple[int, ...]]) -> list[str]:
    """Boxes of ranges: rows with the same rest share one box."""
    if rows == {()}:
        return [""]
    rests: dict[tuple[str, ...], set[int]] = {}
    heads: dict[int, set[tuple[int, ...]]] = {}
    for first, *rest in rows:
        heads.setdefault(first, set()).add(tuple(rest))
    for first, below in heads.items():
        rests.setdefault(tuple(_boxes(below)), set()).add(first)
    return [f"{_ranges(firsts)} {rest}".strip() for rest_list, firsts in rests.items() for rest in rest_list]


def _ranges(numbers: set[int]) -> str:
    runs: list[list[int]] = []
    for n in sorted(numbers):
        if runs and runs[-1][1] == n - 1:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    return ",".join(f"{a}-{b}" if b > a else str(a) for a, b in runs)


def _numbers(axis: str) -> list[int]:
    out: list[int] = []
    for run in axis.split(","):
        first, _, last = run.partition("-")
        out += range(int(first), int(last or first) + 1)
    return out


def _pack_named(table: Mapping[str, Any]) -> list[Any]:
    """A table by module name, turned round: each value once, with the names that have it."""
    groups: list[tuple[Any, list[str]]] = []
    for name, value in table.items():
        for keys, names in groups:
            if keys == value:
                names.append(name)
                break
        else:
            groups.append((value, [name]))
    return [[pack(value), pack_names(names)] for value, names in groups]
