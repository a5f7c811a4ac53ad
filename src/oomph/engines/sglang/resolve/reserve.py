"""mem_fraction_static: the share of the memory before loading that weights and caches may have together."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from oomph.engines.sglang.graphs import attention_groups
from oomph.engines.sglang.resolve.settings import ModelShape
from oomph.facts.sglang.facts import Facts
from oomph.facts.sglang.memory import ENCODER_SIZES, VIT_LARGE, Memory
from oomph.ir import Model


class GraphPlan(Struct, frozen=True):
    """What the reserve asks of the graphs."""

    largest_batch: int
    decode: bool
    prefill: str
    prefill_sizes: int
    prefill_tokens: int  # the largest


def static_fraction(
    model: Model,
    shape: ModelShape,
    facts: Facts,
    flags: Mapping[str, Any],
    card_mib: int,
    chunk: int,
    graphs: GraphPlan,
) -> float:
    """As --mem-fraction-static says, else what the card leaves after SGLang's guess of activations and graphs."""
    if flags.get("mem_fraction_static") is not None:
        return float(flags["mem_fraction_static"])
    reserve = reserved_mib(shape, facts, flags, card_mib, chunk, graphs)
    fraction = round((card_mib - reserve) / card_mib, 3)
    return fraction * _encoder_factor(model) if _pays_for_images(shape, facts.memory, flags) else fraction


def reserved_mib(
    shape: ModelShape, facts: Facts, flags: Mapping[str, Any], card_mib: int, chunk: int, graphs: GraphPlan
) -> float:
    """arg_groups/memory_hook.py:281 (0.5.23)."""
    memory = facts.memory
    mode = str(flags.get("disaggregation_mode") or "null")
    ranks = int(flags.get("tp_size") or 1) * int(flags.get("pp_size") or 1)
    reserve = memory.base + memory.per_token * _tokens(flags, chunk, graphs, mode, memory)
    reserve += ranks / 8 * memory.per_eight_ranks
    reserve += _graph_reserve(shape, memory, flags, graphs, mode)
    if card_mib > memory.large_card:
        reserve = max(reserve, memory.large_reserve)
    algorithm = str(flags.get("speculative_algorithm") or "")
    if algorithm and algorithm != "NGRAM":
        reserve += memory.standalone_reserve if algorithm == "STANDALONE" else memory.draft_reserve
    if mode != "prefill" and graphs.decode and flags.get("moe_a2a_backend") == "deepep":
        reserve += memory.deepep_reserve
    return reserve


def _tokens(flags: Mapping[str, Any], chunk: int, graphs: GraphPlan, mode: str, memory: Memory) -> int:
    """The tokens of one forward pass that activations are guessed from."""
    if mode == "decode" and not memory.reserve_without_graphs:
        requests = int(flags.get("max_running_requests") or graphs.largest_batch or 1)
        return max(requests * int(flags.get("speculative_num_draft_tokens") or 1), memory.fewest_tokens)
    tokens = chunk if chunk > 0 else int(flags.get("max_prefill_tokens") or 16384)
    return max(tokens, memory.fewest_tokens)


def _graph_reserve(shape: ModelShape, memory: Memory, flags: Mapping[str, Any], graphs: GraphPlan, mode: str) -> float:
    reserve = 0.0
    always = memory.reserve_without_graphs
    if always or (mode != "prefill" and graphs.decode):
        reserve += graphs.largest_batch * memory.per_graph
    groups = attention_groups(flags)
    if groups > 1 and (always or mode != "prefill"):
        reserve += graphs.largest_batch * groups * 3
        if graphs.largest_batch > 300:
            reserve += graphs.largest_batch * groups * 1.5
    if graphs.prefill != "disabled" and (always or mode != "decode"):
        if shape.is_latent and memory.mla_prefill_reserve:
            reserve += memory.mla_prefill_reserve
        elif memory.per_prefill_graph:
            reserve += graphs.prefill_sizes * memory.per_prefill_graph
        else:
            reserve += graphs.prefill_tokens // 8
        if graphs.prefill == "breakable" and flags.get("moe_a2a_backend") == "deepep":
            reserve += memory.deepep_prefill_reserve
    return reserve


def _pays_for_images(shape: ModelShape, memory: Memory, flags: Mapping[str, Any]) -> bool:
    if not shape.is_multimodal:
        return False
    if (memory.language_only and flags.get("language_only")) or (
        memory.language_model_only and flags.get("language_model_only")
    ):
        return False
    return not (memory.decode_worker_keeps_share and flags.get("disaggregation_mode") == "decode")


def _encoder_factor(model: Model) -> float:
    """adjust_mem_fraction_for_vlm: 5 % for an encoder, and 10 % more or less for each ViT-L more or less.

    The class reads `num_hidden_layers` and `hidden_size` of the vision config and takes ViT-L's own where a config
    calls them otherwise, as Qwen's do with `depth`.
    """
    if not model.param("has_vision_config"):
        return 1.0
    usual = ENCODER_SIZES.get(model.architecture, VIT_LARGE)
    layers = int(model.param("vision_num_hidden_layers", usual[0]))
    hidden = int(model.param("vision_hidden_size", usual[1]))
    size = layers * hidden**2 / (VIT_LARGE[0] * VIT_LARGE[1] ** 2)
    return 0.95 * max(0.8, min(1.05, 1.0 - 0.1 * (size - 1.0)))
