"""What one rank's layers create on the GPU, before anything is loaded, as SGLang's layers divide a model.

The walk over the modules is shared with vLLM (engines/vllm/weights.py): both engines' layers have the same lineage.
What SGLang divides otherwise is taken from a second walk: attention by its own groups, experts by expert parallelism.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from oomph.engines.sglang.built import as_built
from oomph.engines.sglang.model_shape import ModelShape
from oomph.engines.sglang.settings import Settings
from oomph.engines.vllm.shard import Layout
from oomph.engines.vllm.weights import Build, Created, Placed, created
from oomph.facts.sglang.facts import Facts
from oomph.facts.sglang.weights import HABITS, creation
from oomph.ir.model import Block, Experts, Model
from oomph.units import round_up

_ATTENTION = ("attention", "linear_attn")


class RankPlace(Struct, frozen=True):
    pp_rank: int = 0
    sm: int = 90


def created_weights(
    model: Model, shape: ModelShape, settings: Settings, facts: Facts, place: RankPlace
) -> tuple[Placed, ...]:
    built = as_built(model, shape, facts)
    expert_ranks = max(1, settings.tp_size // settings.ep_size)
    if 100 <= place.sm < 130:
        multiples = facts.weights.mxfp4_blackwell
        built = _with_experts(built, lambda experts: _padded(experts, multiples, expert_ranks))
    whole = _walk(built, settings, facts, place, settings.tp_size)
    if settings.attn_dp_size > 1:
        groups = _walk(built, settings, facts, place, settings.attn_tp_size)
        whole = _choose(whole, groups, _ATTENTION)
        whole = _choose(whole, _walk(built, settings, facts, place, 1), ("embed",))
    if settings.ep_size > 1:
        share = _with_experts(built, lambda experts: replace(experts, count=experts.count // settings.ep_size))
        whole = _choose(whole, _walk(share, settings, facts, place, expert_ranks), ("experts",))
    return whole


def _walk(model: Model, settings: Settings, facts: Facts, place: RankPlace, ranks: int) -> tuple[Placed, ...]:
    layout = Layout(tp=ranks, pp=settings.pp_size, pp_rank=place.pp_rank)
    build = Build(
        creation(place.sm),
        layout,
        settings.dtype,
        drafts=settings.draft_layers > 0,
        habits=HABITS,
        head_quantised=model.quantization is not None and model.quantization.method in facts.weights.quantised_heads,
    )
    return created(model, build)


def _choose(places: tuple[Placed, ...], others: tuple[Placed, ...], parts: tuple[str, ...]) -> tuple[Placed, ...]:
    """The same places, with the tensors of some parts as another walk has them."""
    return tuple(
        replace(place, tensors=tuple(_either(a, b, parts) for a, b in zip(place.tensors, other.tensors, strict=True)))
        for place, other in zip(places, others, strict=True)
    )


def _either(tensor: Created, other: Created, parts: tuple[str, ...]) -> Created:
    return other if tensor.part in parts else tensor


def _with_experts(model: Model, change: Callable[[Experts], Experts]) -> Model:
    blocks: dict[int, Block] = {}

    def changed(block: Block) -> Block:
        if id(block) not in blocks:
            blocks[id(block)] = Block(
                tuple(change(module) if isinstance(module, Experts) else module for module in block.modules)
            )
        return blocks[id(block)]

    return replace(model, layers=tuple(replace(layer, block=changed(layer.block)) for layer in model.layers))


def _padded(experts: Experts, multiples: tuple[int, int], ranks: int) -> Experts:
    """layers/quantization/mxfp4.py:478: every rank's share is rounded up."""
    if experts.scheme is None or experts.scheme.method != "mxfp4":
        return experts
    share = round_up(experts.intermediate // ranks, multiples[1])
    return replace(experts, hidden=round_up(experts.hidden, multiples[0]), intermediate=share * ranks)
