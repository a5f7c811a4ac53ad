"""--runner pooling and --convert: a generative model that is served for its hidden states."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from msgspec.structs import replace

from oomph.engines.vllm.kv_specs import Refused
from oomph.engines.vllm.traits import Traits, traits_of
from oomph.facts.vllm.facts import Facts
from oomph.ir import Model, Module, Param, Vocab

_TASKS = ("embed", "embedding", "classify", "score", "reward", "encode")
_LABELS = 2  # transformers: num_labels of a config that names none


def with_pooling(traits: Traits, flags: Mapping[str, Any], facts: Facts) -> Traits:
    """--runner, --convert and --task of older releases. A model that pools by its class stays as it is."""
    if traits.model.pooling:
        return traits
    convert, task = flags.get("convert"), flags.get("task")
    converts = convert in _TASKS and facts.support.convert_pools and flags.get("runner") in (None, "auto")
    if flags.get("runner") != "pooling" and task not in _TASKS and not converts:
        return traits
    return _without_head(traits, classifies="classify" in (convert, task) or task == "score")


def verify_convert(model: Model, flags: Mapping[str, Any]) -> None:
    """adapters.py:255 (0.21.0) _init_pooler: a bare assert where a converted class is to generate."""
    if flags.get("convert") in _TASKS and not model.pooling:
        raise Refused("AssertionError", "")


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
