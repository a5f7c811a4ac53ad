"""DeepSeek-V4's pools: compressed caches, a window pool and rings of states (DSV4PoolConfigurator, 0.5.23)."""

from msgspec import Struct

from oomph.engines.sglang.resolve.settings import Settings
from oomph.facts.sglang.facts import Facts
from oomph.ir import Attention, Model
from oomph.units import round_up

_TOKEN = 584  # kv_layout.py V4: 448 FP8 values, 64 BF16 ones, 8 bytes of scales
_PAGE_ALIGNMENT = 576
_STATE = 4  # SGLANG_DSV4_COMPRESS_STATE_DTYPE: float32
_RINGS = {4: 8, 128: 128}  # get_compress_state_ring_size without drafts
_DRAFT_RINGS = {4: 16, 128: 256}


class V4Pool(Struct, frozen=True):
    per_token: float  # bytes of a token in the full pool
    fixed: int  # bytes that follow the number of requests
    per_window_token: float


def v4_pool(model: Model, settings: Settings, facts: Facts, stage: range) -> V4Pool:
    """The window pool always follows the ratio: the architecture's rule sets one, and that counts as asked for
    (kv_cache_hook.py:415 runs after model_overrides/deepseek_v4.py)."""
    attention = [m for layer in model.layers if layer.index in stage for m in layer.mixers if isinstance(m, Attention)]
    by_ratio = {ratio: sum(1 for m in attention if m.compress_ratio == ratio) for ratio in (4, 128)}
    head = attention[0].head_dim
    index = next((m.indexer.head_dim for m in attention if m.indexer is not None), 0)
    rings = _DRAFT_RINGS if settings.drafts else _RINGS
    page = settings.page_size
    state = 4 * (head + index) * _STATE  # kv and score, overlapping windows
    state_page = page if facts.pools.v4_pages_padded else max(m.window or page for m in attention)
    per_window = _bytes_per_token(facts, page) * len(attention) + rings[4] / state_page * state * by_ratio[4]
    if not facts.pools.v4_rings_by_request:
        per_window += rings[128] / state_page * 2 * head * _STATE * by_ratio[128]
    compressed = (_bytes_per_token(facts, page // 4) / 4 + (index + index // 128 * 4) / 4) * by_ratio[4]
    compressed += _bytes_per_token(facts, page // 128) / 128 * by_ratio[128]
    per_token = settings.swa_full_tokens_ratio * per_window + compressed
    if settings.drafts:
        inflation = (len(attention) + 1) / len(attention)
        per_token, per_window = per_token * inflation, per_window * inflation
    requests = max(1, (settings.max_running_requests or facts.pools.v4_requests) // settings.attn_dp_size)
    fixed = _ring_bytes(requests, rings[128], head) * by_ratio[128] if facts.pools.v4_rings_by_request else 0
    return V4Pool(per_token, fixed, per_window)


def _bytes_per_token(facts: Facts, page: int) -> float:
    """A page is padded to whole rows of the reader's stride."""
    return round_up(page * _TOKEN, _PAGE_ALIGNMENT) / page if facts.pools.v4_pages_padded else float(_TOKEN)


def _ring_bytes(requests: int, ring: int, head: int) -> int:
    """Ratio 128 keeps raw tokens of every request until they are compressed."""
    return round_up((requests + 1) * ring + ring + 1, 128) * 2 * head * _STATE
