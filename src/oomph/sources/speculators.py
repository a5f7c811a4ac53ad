"""Drafters as the speculators library writes them: the layers' own config inside, the method's keys around it.

vLLM: transformers_utils/configs/speculators/algos.py (0.32.0).
"""

from collections.abc import Mapping
from typing import Any

# speculators_model_type -> the drafter's class by the inner model_type; "" = whatever it is
_CLASSES: dict[str, dict[str, str]] = {
    "dflash": {"": "DFlashDraftModel"},
    "dflash2": {"": "DFlash2DraftModel"},
    "dspark": {"": "Qwen3DSparkModel"},
    "eagle3": {"llama": "Eagle3LlamaForCausalLM", "qwen3": "Eagle3Qwen3ForCausalLM"},
    "peagle": {"llama": "PeagleLlamaForCausalLM", "qwen3": "PeagleQwen3ForCausalLM"},
}
_KEPT = (
    "draft_vocab_size", "target_hidden_size", "norm_before_fc", "fc_norm", "eagle_aux_hidden_state_layer_ids",
    "markov_rank", "enable_confidence_head", "confidence_head_with_markov", "mask_token_id", "torch_dtype", "dtype",
    "quantization_config",
)  # fmt: skip
_FLASH_KEYS = ("conv_kernel_size", "conv_group_size", "selector_rank", "selector_top_k")


def plain_config(raw: Any) -> Any:
    """The config of such a drafter as other writers would have written it; every other config as it is."""
    if not isinstance(raw, Mapping) or not isinstance(raw.get("transformer_layer_config"), Mapping):
        return raw
    inner = dict(raw["transformer_layer_config"])
    classes = _CLASSES.get(str(raw.get("speculators_model_type")))
    if classes is None:
        return raw
    name = classes.get("") or classes.get(str(inner.get("model_type", "llama")))
    if name is None:
        return raw
    inner |= {key: raw[key] for key in _KEPT if raw.get(key) is not None}
    layers = raw.get("aux_hidden_state_layer_ids")
    if isinstance(layers, list):
        flash = {key: raw[key] for key in _FLASH_KEYS if raw.get(key) is not None}
        inner["dflash_config"] = {"target_layer_ids": layers, **flash}
    return {**inner, "architectures": [name]}
