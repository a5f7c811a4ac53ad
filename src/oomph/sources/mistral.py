"""Mistral's own params.json as the keys of a config.json, as vLLM reads it.

vLLM: transformers_utils/configs/mistral.py adapt_config_dict. The tensors of such a folder have names of their own, so
that its model is built from the parameters alone.
"""

from collections.abc import Mapping
from typing import Any

from oomph.errors import ConfigError, InputError

PARAMS = "params.json"
_NAMES = {
    "dim": "hidden_size",
    "norm_eps": "rms_norm_eps",
    "n_kv_heads": "num_key_value_heads",
    "n_layers": "num_hidden_layers",
    "n_heads": "num_attention_heads",
    "hidden_dim": "intermediate_size",
    "activation": "hidden_act",
    "tied_embeddings": "tie_word_embeddings",
}
_LONGEST = 128_000  # where params.json does not say how long a sequence may be
_YARN = {
    "factor": "factor",
    "original_max_position_embeddings": "original_max_position_embeddings",
    "beta": "beta_fast",
    "alpha": "beta_slow",
}


def config_of(params: Mapping[str, Any], where: str = PARAMS) -> dict[str, Any]:
    """What config.json would say."""
    if params.get("model_type") == "mamba" or params.get("qk_nope_head_dim"):
        raise ConfigError(f"{where}: this kind of model is not known here without its config.json")
    missing = [name for name in ("dim", "n_layers", "n_heads", "hidden_dim", "vocab_size") if name not in params]
    if missing:
        raise InputError(f"{where} does not name {missing[0]}", hint="give the repository's config.json, or its hub id")
    text = {_NAMES.get(key, key): value for key, value in params.items()}
    length = text.setdefault("max_position_embeddings", _LONGEST)
    text.setdefault("max_seq_len", length)
    text["model_type"] = "transformer"
    text.setdefault("sliding_window", None)  # its config class has no default, unlike Mistral's
    text.setdefault("dtype", "bfloat16")
    _set_windows(text, where)
    quantization = _quantization(text.pop("quantization", None), where)
    text["architectures"] = [_architecture(text, where)]
    yarn = text.pop("yarn", None)
    if isinstance(yarn, Mapping):
        text["rope_scaling"] = {"rope_type": "yarn"} | {_YARN[key]: yarn[key] for key in _YARN if key in yarn}
    config = _with_vision(text, where)
    return config | {"quantization_config": quantization} if quantization else config


def _architecture(text: dict[str, Any], where: str) -> str:
    if text.pop("moe", None):
        # vLLM 0.21 to 0.32 stops on such a folder too: "object has no attribute 'num_local_experts'"
        raise ConfigError(f"{where}: experts are not known here without the model's config.json")
    return "MistralForCausalLM"


def _set_windows(text: dict[str, Any], where: str) -> None:
    window, count = text.get("sliding_window"), text.get("num_hidden_layers")
    if isinstance(window, list):
        if not isinstance(count, int) or not 0 < len(window) <= count <= 10_000:
            raise ConfigError(f"{where}: sliding_window does not repeat over {count} layers")
        listed = window * (count // len(window))
        text["layer_types"] = ["full_attention" if w is None else "sliding_attention" for w in listed]
        text["sliding_window"] = next((w for w in window if w), None)


def _quantization(table: object, where: str) -> dict[str, Any] | None:
    if not isinstance(table, Mapping) or not table:
        return None
    if table.get("qformat_weight") == "fp8_e4m3":
        scheme = "dynamic" if table.get("qscheme_act") == "NO_SCALES" else "static"
        return {"quant_method": "fp8", "activation_scheme": scheme}
    method = str(table.get("quant_method", "")).lower().replace("_", "-")
    if method == "compressed-tensors":
        return {**table, "quant_method": method}
    raise ConfigError(f"{where}: a quantisation of this kind is not known")


def _with_vision(text: dict[str, Any], where: str) -> dict[str, Any]:
    several = text.pop("multimodal", None)
    vision = text.pop("vision_encoder", None)
    if isinstance(several, Mapping) and several.get("whisper_model_args"):
        raise ConfigError(f"{where}: Voxtral is not known here without its config.json")
    vision = vision or (several.get("vision_encoder_args") if isinstance(several, Mapping) else None)
    if not vision:
        return text
    if not isinstance(vision, Mapping):
        raise ConfigError(f"{where}: vision_encoder is no JSON object")
    return {
        "model_type": "pixtral",
        "architectures": ["PixtralForConditionalGeneration"],
        "text_config": text,
        "vision_config": dict(vision),
    }
