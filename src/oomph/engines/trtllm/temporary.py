"""The temporary KV pool with which the peak is measured (_util.py _get_token_num_for_estimation).

Dummy requests fill max_num_tokens; the pool holds them, whole blocks each. Since 1.2.0rc8 it also holds a block for
every slot of the batch, so that max_batch_size, and not max_num_tokens, is what makes it large.
"""

from __future__ import annotations

from oomph.engines.trtllm.settings import Settings
from oomph.facts.trtllm.facts import Facts
from oomph.units import cdiv


def dummy_requests(settings: Settings) -> dict[int, int]:
    """Length -> how many: one rank's dummy requests (_create_dummy_context_requests)."""
    longest = min(settings.max_num_tokens, max(1, settings.max_seq_len - 1))
    whole, rest = divmod(settings.max_num_tokens, longest)
    return {longest: whole} | ({rest: 1} if rest else {})


def temporary_blocks(settings: Settings, facts: Facts) -> int:
    """Before the share of what is free limits it."""
    rules, block = facts.memory, settings.tokens_per_block
    if not settings.estimates:
        return 0
    if rules.temporary == "tokens":
        sequences = cdiv(settings.max_num_tokens, settings.max_seq_len)
        tokens = max(settings.max_batch_size, settings.max_num_tokens + sequences * block, settings.max_seq_len)
        return cdiv(tokens, block)
    requests = dummy_requests(settings)
    blocks = sum(count * cdiv(length + settings.extra_tokens, block) for length, count in requests.items())
    if settings.enable_attention_dp and rules.temporary_of_all_ranks:
        blocks *= settings.tp_size
    blocks *= settings.max_beam_width
    if rules.temporary == "slots":
        blocks = max(blocks, _graph_blocks(settings, facts), settings.max_batch_size)
    return blocks


def _graph_blocks(settings: Settings, facts: Facts) -> int:
    """One sequence of the whole context, and a block for every other one of the largest graph."""
    longest, block = settings.max_seq_len + 1, settings.tokens_per_block
    sequence = longest // block if facts.memory.graph_sequence == "floor" else cdiv(longest, block)
    return sequence + settings.graph_batch - 1


def made_large_by(settings: Settings, facts: Facts) -> str:
    """The setting that decides the temporary pool, where it is not max_num_tokens."""
    if not settings.estimates or facts.memory.temporary != "slots":
        return ""
    graphs, slots = _graph_blocks(settings, facts), settings.max_batch_size
    if temporary_blocks(settings, facts) > max(graphs, slots):
        return ""
    return "max_batch_size" if slots >= graphs else "max_seq_len"


def clamped_blocks(blocks: int, settings: Settings, facts: Facts, free: int, bytes_per_token: int) -> int:
    """Never more than the share of what is free. The oldest rule and the newest one look at it."""
    if facts.memory.temporary == "requests" or not bytes_per_token:
        return blocks
    most = int(settings.free_gpu_memory_fraction * max(0, free)) // (bytes_per_token * settings.tokens_per_block)
    return min(blocks, most)
