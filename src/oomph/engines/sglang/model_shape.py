"""What SGLang's settings and pools ask of a Model, computed once per plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from oomph.errors import CannotPlan
from oomph.facts.sglang.facts import Facts
from oomph.ir import Attention, Layer, Model, State

_LATENT_OWN = ("DeepseekV4ForCausalLM",)  # its attention is no latent attention to SGLang (configs/model_config.py)
_DELTA = ("KimiLinearForCausalLM", "KimiK3ForConditionalGeneration", "BailingMoeV3ForCausalLM")


class ModelShape(Struct, frozen=True):
    architecture: str
    is_multimodal: bool
    has_windows: bool  # two pools: is_hybrid_swa
    is_latent: bool  # attention_arch MLA
    is_sparse: bool  # DeepSeek's sparse attention: an indexer chooses
    is_v4: bool
    has_delta_attention: bool
    has_sinks: bool
    full: Attention | None  # the geometry of the layers in the first pool
    window: Attention | None  # of those in the second
    states: tuple[tuple[int, State], ...]  # layer and state

    @property
    def attention(self) -> Attention | None:
        return self.full or self.window

    @property
    def unequal_widths(self) -> bool:
        """K and V rows of different width in either pool (ModelConfig.has_asymmetric_kv)."""
        return any(m is not None and m.head_dim != m.head_dim_v for m in (self.full, self.window))


def takes_images(model: Model, facts: Facts, flags: Mapping[str, Any]) -> bool:
    """configs/model_config.py:820 (0.5.23) is_multimodal."""
    lists = facts.architectures
    wanted = flags.get("enable_multimodal")
    if flags.get("language_model_only") or wanted is False:
        return False
    if wanted is None and model.architecture in lists.images_asked_for:
        return False
    nested = lists.nested_text_is_multimodal and bool(model.param("nested_text"))
    return model.architecture in lists.multimodal or nested


def shape_of(model: Model, facts: Facts, flags: Mapping[str, Any]) -> ModelShape:
    lists, name = facts.architectures, model.architecture
    attention = [m for layer in model.layers for m in layer.mixers if isinstance(m, Attention)]
    if any(m.convolution is not None for m in attention):
        raise CannotPlan("what SGLang keeps of short convolutions beside attention is not known here")
    if any(sum(isinstance(m, Attention) for m in layer.mixers) > 1 for layer in model.layers):
        raise CannotPlan("how SGLang caches layers that run several times is not known here")
    windows = [m for m in attention if m.kind in ("sliding_window", "chunked_local")]
    has_windows = name in lists.hybrid_window and bool(windows)
    fulls = [m for m in attention if m not in windows] if has_windows else attention
    is_v4 = name in _LATENT_OWN
    latent = any(m.kind == "mla" for m in attention) and not is_v4
    return ModelShape(
        architecture=name,
        is_multimodal=takes_images(model, facts, flags),
        has_windows=has_windows or is_v4,
        is_latent=latent,
        is_sparse=latent and name in lists.sparse and any(m.indexer is not None for m in attention),
        is_v4=is_v4,
        has_delta_attention=name in _DELTA,
        has_sinks=any(m.sinks for m in attention),
        full=fulls[0] if fulls else None,
        window=windows[0] if has_windows else None,
        states=tuple((layer.index, m) for layer in model.layers for m in layer.mixers if isinstance(m, State)),
    )


def is_window(layer: Layer, shape: ModelShape) -> bool:
    return shape.has_windows and any(
        isinstance(mixer, Attention) and mixer.kind in ("sliding_window", "chunked_local") for mixer in layer.mixers
    )


def context_length(model: Model) -> int:
    """utils/hf_transformers/common.py get_context_length: the config's own length, times the rope factor only where
    the rope parameters do not say which length they stretch."""
    length = int(model.param("derived_max_len")) or model.max_position or 2048
    factor = float(model.param("rope_factor") or 1.0)
    if factor == 1.0 or model.param("rope_original") or model.param("rope_type") == "llama3":
        return length
    bases = {m.rope.theta for layer in model.layers for m in layer.mixers if isinstance(m, Attention) and m.rope}
    if len(bases) > 1:  # transformers keeps one set of parameters for each kind of layer, and the factor inside it
        return length
    return int(length * factor)
