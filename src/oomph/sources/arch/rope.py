"""Rotary tables, and the context length that a config derives from them."""

from collections.abc import Iterable, Mapping
from typing import Any

from oomph.errors import ConfigError
from oomph.ir import Rope
from oomph.sources.config import Config

_LENGTHS = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "model_max_length",
    "max_target_positions",
    "max_sequence_length",
    "max_seq_length",
    "seq_len",
)


def rope_of(
    text: Config,
    head_dim: int,
    *,
    theta: float = 0.0,
    params: object = None,
    positions: int = 0,
    dtype: str = "",
    bounded: bool = False,
) -> Rope:
    """The rotary table vLLM builds for these rope parameters (model_executor/layers/rotary_embedding/__init__.py).
    `positions`: the class's own max_position, where it is not max_position_embeddings; `bounded`: a multimodal class
    whose positions stay below the number of tokens."""
    key = (head_dim, theta, positions, dtype, bounded)
    if params is None and key in text.derived:
        rope: Rope = text.derived[key]
        return rope
    table = _rope(text, head_dim, theta, params, positions, dtype, bounded)
    if params is None:
        text.derived[key] = table
    return table


def _rope(text: Config, head_dim: int, theta: float, params: object, positions: int, dtype: str, bounded: bool) -> Rope:
    rope = dict(params) if isinstance(params, dict) else dict(text.table("rope_parameters", "rope_scaling"))
    scaling = Config(rope, f"{text.where}, rope parameters")
    kind = scaling.text("rope_type", "type", default="default")
    own = scaling.has("rope_theta")  # the text config's may be a list, one for each layer
    base = scaling.number("rope_theta", default=0.0) if own else text.number("rope_theta", default=theta or 10000.0)
    partial = scaling.number(
        "partial_rotary_factor", default=text.number("partial_rotary_factor", "rotary_pct", default=1.0)
    )
    if not 0 < partial <= 1:  # get_rope: "must be between 0.0 and 1.0"
        raise ConfigError(f"{text.where}: partial_rotary_factor is {partial:g}, not between 0 and 1")
    length = positions or text.integer("max_position_embeddings", "n_positions", "max_seq_len", default=8192)
    # gemma4_rope.py: "proportional" rotates a part of each head but its table is as wide as the head
    dim = head_dim if kind == "proportional" else int(head_dim * partial)
    extra = tuple(
        sorted((k, float(v)) for k, v in rope.items() if isinstance(v, int | float) and not isinstance(v, bool))
    )
    rows = _rows(kind, scaling, text, length)
    if bounded and "mrope_section" in rope:
        return Rope(
            dim,
            positions=rows,
            theta=base,
            kind=kind,
            dtype=dtype,
            params=extra,
            short=rows // 4,
            only="mrope tables four times the longest sequence",
        )
    if kind == "dynamic" and rows != length:
        return Rope(
            dim,
            positions=rows,
            theta=base,
            kind=kind,
            dtype=dtype,
            params=extra,
            short=length,
            only="dynamic tables stretched by their factor",
        )
    return Rope(dim, rows, base, kind, dtype, extra)


def _factor(scaling: Config, default: float = 1.0) -> float:
    factor = scaling.number("factor", default=default)
    if not 0 < factor <= 1e6:
        raise ConfigError(f"{scaling.where}: factor is {factor:g}, which no context is stretched by")
    return factor


def _rows(kind: str, scaling: Config, text: Config, length: int) -> int:
    factor = _factor(scaling)
    original = scaling.integer(
        "original_max_position_embeddings", default=text.integer("original_max_position_embeddings", default=length)
    )
    # mrope.py: `cache_max_position_num` is four times the longest sequence
    times = 4 if "mrope_section" in scaling.raw else 1
    if kind in ("yarn", "deepseek_yarn"):  # yarn_scaling_rope.py: original length x factor
        return round(original * times * factor)
    if kind in ("longrope", "su"):  # phi3_long_rope_scaled_rope.py: a short table and a long one
        return original + length
    if kind in ("linear", "dynamic") and "alpha" not in scaling.raw:
        return round(length * factor)
    return length * times


def _parameter_sets(text: Config) -> Iterable[Mapping[str, Any]]:
    """transformers 5: one set of rope parameters, or one for each kind of layer."""
    table = text.table("rope_parameters", "rope_scaling")
    nested = [v for v in table.values() if isinstance(v, Mapping)]
    return nested or [table]


def context_length(text: Config) -> int:
    """config/model.py:2065 _get_and_verify_max_len (0.21.0): the smallest length key (Cohere's model_max_length above
    all), times the rope factor; with yarn, times the original length. 0 = the config does not say."""
    lengths = [n for n in (text.integer(key, default=0, low=0) for key in _LENGTHS) if n]
    length = text.integer("model_max_length", default=0, low=0) or min(lengths, default=0)
    if not length or "gemma3" in text.text("model_type"):
        return length
    factor = 1.0
    for raw in _parameter_sets(text):
        rope = Config(raw, f"{text.where}, rope parameters")
        kind = rope.text("rope_type", "type", default="default")
        if kind not in ("su", "longrope", "llama3"):
            factor = _factor(rope, factor)
            if kind == "yarn":
                length = rope.integer("original_max_position_embeddings", default=length)
    return int(length * factor)
