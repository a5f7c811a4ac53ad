"""Facts of config.json that engines read beside the layers, by one name each (Model.params)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from oomph.sources.config import Config

Params = tuple[tuple[str, int | float | str], ...]

# model_arch_config_convertor.py derive_max_model_len_and_key: the smallest of these is the context length
_LENGTH_KEYS = (
    "max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "model_max_length", "max_target_positions",
    "max_sequence_length", "max_seq_length", "seq_len",
)  # fmt: skip
# `layer_types` that every Transformers release that checks them knows, of models that are many; others are kept, so
# that an engine can ask its release
_EVERYDAY_TYPES = frozenset({"full_attention", "sliding_attention", "chunked_attention", "linear_attention", "conv"})


def engine_params(config: Config, text: Config) -> Params:
    out: dict[str, int | float | str] = {}
    lengths = [
        (size, key)
        for key in _LENGTH_KEYS
        if isinstance(size := text.get(key), int) and not isinstance(size, bool) and size > 0
    ]
    if lengths:
        length, key = min(lengths, key=lambda pair: pair[0])
        key = "max_position_embeddings" if key == "n_positions" else key  # GPT2Config.attribute_map and its like
        own = text.get("model_max_length")
        if isinstance(own, int) and own > 0:
            length, key = own, "model_max_length"
            out["model_max_length"] = own
        out["derived_max_len"], out["max_len_key"] = length, key
    original = text.get("original_max_position_embeddings")
    if isinstance(original, int) and original > 0:
        out["original_max_position_embeddings"] = original
    for rope in _ropes(text):
        kind = rope.get("rope_type", rope.get("type"))
        if isinstance(kind, str) and kind not in ("default", "mrope"):
            out["rope_type"] = kind
            _number(out, "rope_factor", rope.get("factor"))
            _number(out, "rope_original", rope.get("original_max_position_embeddings"))
    if isinstance(text.get("kv_lora_rank"), int) and isinstance(head := text.get("head_dim"), int):
        out["mla_head_dim"] = head
    if text.get("attn_logit_softcapping"):
        out["attn_logit_softcapping"] = 1
    if config.get("is_mm_prefix_lm"):
        out["is_mm_prefix_lm"] = 1
    types = text.get("layer_types")
    if isinstance(types, list) and all(isinstance(t, str) for t in types) and not _EVERYDAY_TYPES.issuperset(types):
        out["layer_types"] = " ".join(types)
    quant = config.get("quantization_config")
    if isinstance(quant, Mapping) and "scale_fmt" not in quant:
        out["no_scale_fmt"] = 1
    bidirectional = text.get("use_bidirectional_attention")
    if isinstance(bidirectional, str):
        out["use_bidirectional_attention"] = bidirectional
    _number(out, "num_nextn_predict_layers", text.get("num_nextn_predict_layers"))
    if text is not config:
        out["nested_text"] = 1
    if not text.get("dtype", "torch_dtype") and not config.get("dtype", "torch_dtype"):
        out["no_dtype"] = 1
    vision = config.get("vision_config")
    if isinstance(vision, Mapping):
        out["has_vision_config"] = 1
        for key in ("num_hidden_layers", "hidden_size"):
            _number(out, f"vision_{key}", config.sub("vision_config").get(key))
    return tuple(out.items())


def _ropes(text: Config) -> Iterable[Mapping[str, Any]]:
    rope = text.get("rope_parameters", "rope_scaling")
    if not isinstance(rope, Mapping):
        return
    nested = [v for v in rope.values() if isinstance(v, Mapping)]
    yield from nested or [rope]


def _number(out: dict[str, int | float | str], name: str, value: Any) -> None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        out[name] = value
