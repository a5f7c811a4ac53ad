"""--runner pooling and --convert: a generative model that is served for its hidden states."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from msgspec.structs import replace

from oomph.engines.vllm.traits import Traits, traits_of
from oomph.ir.model import Model, Module, Param, Vocab

_TASKS = ("embed", "embedding", "classify", "score", "reward", "encode")
_LABELS = 2  # transformers: num_labels of a config that names none


def with_pooling(traits: Traits, flags: Mapping[str, Any]) -> Traits:
    """--runner, --convert and --task of older releases. A model that pools by its class stays as it is."""
    words = (flags.get("convert"), flags.get("task"))
    if traits.model.pooling or not (flags.get("runner") == "pooling" or any(word in _TASKS for word in words)):
        return traits
    return _without_head(traits, classifies="classify" in words or "score" in words)


@lru_cache(maxsize=64)
def _without_head(traits: Traits, *, classifies: bool) -> Traits:
    """adapters.py:145 (0.32.0) no_init_weights: no ParallelLMHead is created; as_seq_cls_model adds a float32 score."""
    model = traits.model
    modules: list[Module] = [m for m in model.root.modules if not (isinstance(m, Vocab) and m.role == "lm_head")]
    if classifies:
        score = (_LABELS, model.hidden_size)
        modules.append(Param("score.weight", score, model.dtype, "lm_head", stored=False, created_dtype="F32"))
    pooled: Model = replace(model, pooling=True, root=replace(model.root, modules=tuple(modules)))
    return traits_of(pooled)
