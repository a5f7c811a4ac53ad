"""Speculative decoding: a drafter's settings as SGLang resolves them, its layers in the pools, and its weights."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from oomph.engines.common.created import Placed
from oomph.engines.sglang.resolve.settings import ModelShape, Settings
from oomph.engines.sglang.weights.created import RankPlace, created_weights, held_bytes
from oomph.errors import CannotPlan
from oomph.facts.sglang.drafts import CHAIN, FAMILY, TREE, Choice
from oomph.facts.sglang.facts import Facts
from oomph.ir import Attention, Deployment, Model
from oomph.text.tables import first_that_holds

_NGRAM_TOKENS = 12  # _handle_ngram
_NO_GROUPS = {
    "STANDALONE": "ValueError: Currently standalone speculative decoding does not support dp attention.",
    "NGRAM": "ValueError: Currently ngram speculative decoding does not support dp attention.",
}
_PAGED_TREES = ("flashinfer", "fa3", "triton")


def load_drafter(deployment: Deployment) -> Model | None:
    """The model that drafts, where it is a checkpoint of its own."""
    from oomph.sources.load import load_once

    name = deployment.flags.get("speculative_draft_model_path")
    if not isinstance(name, str) or not name or name == deployment.model:
        return None
    algorithm = str(deployment.flags.get("speculative_algorithm") or "").upper()
    if not algorithm:  # nothing drafts without one
        return None
    if algorithm not in FAMILY | {"NEXTN"}:
        raise CannotPlan(
            f"SGLang's {algorithm} with the draft model {name} is not planned: its weights, cache and graphs would be "
            f"missing",
            hint="EAGLE, EAGLE3, NEXTN, STANDALONE and NGRAM are planned",
        )
    return load_once(name)


def with_drafts(
    settings: Settings, model: Model, shape: ModelShape, draft: Model | None, facts: Facts, flags: Mapping[str, Any]
) -> Settings:
    """handle_speculative_decoding, as far as memory follows from it. `draft`: a checkpoint of its own."""
    if not settings.drafts:
        return settings
    if settings.max_running_requests is None:  # DeepSeek-V4's own rule comes first
        requests = facts.pools.v4_requests if shape.is_v4 else facts.drafts.requests
        settings = replace(settings, max_running_requests=requests)
    if settings.speculative_algorithm == "NGRAM":
        tokens = int(flags.get("speculative_num_draft_tokens") or _NGRAM_TOKENS)
        breadth = int(flags.get("speculative_ngram_max_bfs_breadth") or 10)
        return replace(settings, speculative_num_draft_tokens=tokens, speculative_eagle_topk=breadth)
    if settings.speculative_algorithm not in FAMILY:
        return settings
    steps, breadth, tokens = _choice(settings, model, facts, flags)
    if breadth == 1:
        tokens = steps + 1
    return replace(
        settings,
        speculative_num_draft_tokens=tokens,
        speculative_eagle_topk=breadth,
        draft_layers=_layers(model, draft) if facts.drafts.counted else 0,
    )


def _choice(settings: Settings, model: Model, facts: Facts, flags: Mapping[str, Any]) -> Choice:
    steps = flags.get("speculative_num_steps")
    if steps is not None:
        tokens = int(flags.get("speculative_num_draft_tokens") or int(steps) + 1)
        return int(steps), int(flags.get("speculative_eagle_topk") or 1), tokens
    if settings.speculative_algorithm == "STANDALONE":
        return CHAIN
    if model.architecture in facts.drafts.trees:
        return TREE
    return CHAIN if model.architecture in facts.drafts.chains else facts.drafts.other_models


def _layers(model: Model, draft: Model | None) -> int:
    """eagle_draft_num_layers: of the draft's own config, or of the target's, which a config may not say."""
    return len(draft.layers) if draft is not None else int(model.param("num_nextn_predict_layers") or 0)


def draft_refusal(settings: Settings, shape: ModelShape, flags: Mapping[str, Any]) -> str:
    """What SGLang says before it loads anything."""
    algorithm, breadth = settings.speculative_algorithm, flags.get("speculative_eagle_topk")
    if not settings.drafts:
        return ""
    if shape.is_v4 and algorithm == "EAGLE" and breadth != 1:  # deepseek_v4_hook.py:157, before the default is chosen
        return f"AssertionError: Only EAGLE speculative algorithm with topk == 1 is supported for {shape.architecture}"
    if settings.attn_dp_size > 1 and algorithm in _NO_GROUPS:
        return _NO_GROUPS[algorithm]
    if algorithm not in FAMILY or settings.speculative_eagle_topk <= 1:
        return ""
    return first_that_holds(
        (
            "trtllm_mha" in (settings.prefill_attention_backend, settings.decode_attention_backend),
            "ValueError: trtllm_mha backend only supports topk = 1 for speculative decoding.",
        ),
        (
            settings.page_size > 1 and settings.attention_backend not in _PAGED_TREES,
            f"ValueError: speculative_eagle_topk > 1 with page_size > 1 is only supported on {_PAGED_TREES}; got "
            f"attention_backend={settings.attention_backend!r}. Use page_size == 1 or one of those backends.",
        ),
    )


# ---- what a drafter takes --------------------------------------------------------------------------------------------


def drafter_bytes(
    model: Model, draft: Model | None, shape: ModelShape, settings: Settings, facts: Facts, place: RankPlace
) -> int:
    """Its weights after loading: an EAGLE head gives its embedding back for the target's, one that comes with the
    checkpoint its output head too (speculative/eagle_worker_v2.py set_embed_and_head); a model of its own keeps all."""
    if settings.speculative_algorithm not in FAMILY:
        return 0
    if draft is None:
        drafting = _created(model, shape, replace(settings, builds_drafts=True), facts, place)
        return held_bytes(drafting) - held_bytes(_created(model, shape, settings, facts, place))
    plain = replace(settings, draft_layers=0, quantization="")
    places = _created(draft, shape, plain, facts, place)
    if settings.speculative_algorithm == "STANDALONE":
        return held_bytes(places)
    shared = ("embed",) if settings.speculative_algorithm == "EAGLE3" else ("embed", "lm_head")
    return held_bytes([_without(place, shared) for place in places])


def _created(model: Model, shape: ModelShape, settings: Settings, facts: Facts, place: RankPlace) -> tuple[Placed, ...]:
    return created_weights(model, shape, settings, facts, place)


def _without(place: Placed, parts: tuple[str, ...]) -> Placed:
    return replace(place, tensors=tuple(tensor for tensor in place.tensors if tensor.part not in parts))


def drafter_row(model: Model, draft: Model | None, settings: Settings, per_layer: int) -> int:
    """Bytes of one token in the drafter's own cache, where the pools do not count it. `per_layer`: the target's."""
    if settings.speculative_algorithm not in FAMILY:
        return 0
    if draft is None:
        return per_layer * len(model.drafts)
    mixers = [mixer for layer in draft.layers for mixer in layer.mixers if isinstance(mixer, Attention)]
    heads = [max(1, mixer.num_kv_heads // settings.attn_tp_size) * 2 * mixer.head_dim for mixer in mixers]
    return 2 * sum(heads)
