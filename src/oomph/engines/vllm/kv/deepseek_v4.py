"""The caches of DeepSeek-V4 and of sparse MLA's indexer.

deepseek_v4_attention.py and deepseek_compressor.py (0.20-0.22), models/deepseek_v4/ (0.22+).
"""

from oomph.engines.vllm.kv.specs import Refused, Spec
from oomph.facts.vllm.facts import Facts
from oomph.ir import Attention, Model
from oomph.units import round_up

V4_BLOCK = 256  # DeepseekV4IndexerBackend, DeepseekSparseSWABackend.get_preferred_block_size
_WINDOW_BLOCK = 64  # DeepseekV4SWACache
_STATE = 584  # 448 B of fp8 latent, 128 B of rotary key, 8 B of scales
_ALIGN = 576  # FlashMLA wants pages of whole 576 B rows
_F32 = 4


def is_v4(model: Model) -> bool:
    return model.architecture.startswith("DeepseekV4")


def indexer_width(head_dim: int) -> int:
    """fp8 keys with one fp32 scale per 128 values (deepseek_v2.py DeepseekV32IndexerCache)."""
    return head_dim + head_dim // 128 * 4


def v4_specs(attention: Attention, block: int, kv_dtype: str, facts: Facts, sm: int) -> list[tuple[Spec | None, str]]:
    """The window's cache; then, where the layer compresses, the indexer's and the compressed states, each with the
    compressor's own window of fp32 partial states."""
    if not (kv_dtype.startswith("fp8") or (kv_dtype == "auto" and facts.deepseek_v4.auto_is_fp8)):
        raise Refused(facts.deepseek_v4.refusal_type, facts.deepseek_v4.refusal.format(dtype=kv_dtype))
    name = facts.deepseek_v4.backend_sm12 if sm // 10 == 12 else facts.deepseek_v4.backend
    out: list[tuple[Spec | None, str]] = [
        (
            _spec("sliding_window_mla", _WINDOW_BLOCK, _STATE, attention.head_dim, window=attention.window or 128),
            "DEEPSEEK_SPARSE_SWA",
        )
    ]
    ratio = attention.compress_ratio
    if ratio <= 1:
        return [*out, (None, name)]
    if attention.indexer is not None and ratio == 4:
        width = indexer_width(attention.indexer.head_dim)
        out += [
            (_spec("mla", block, width, width, ratio=ratio, role="v4_indexer"), "DEEPSEEK_V4_INDEXER"),
            (_partial(attention.indexer.head_dim, ratio), "CompressorBackend"),
        ]
    out += [
        (_spec("mla", block, _STATE, attention.head_dim, ratio=ratio), name),
        (_partial(attention.head_dim, ratio), "CompressorBackend"),
    ]
    return out


def _partial(head_dim: int, ratio: int) -> Spec:
    """deepseek_compressor.py: overlapping windows at ratio 4, blocks of 4 or 8 tokens."""
    overlap = 1 + (ratio == 4)
    width = 2 * overlap * head_dim  # kv state and score state
    return _spec(
        "sliding_window_mla",
        4 if ratio == 4 else 8,
        width * _F32,
        width,
        window=overlap * ratio,
        dtype="float32",
        role="v4",
    )


def _spec(
    kind: str,
    block: int,
    state: int,
    head: int,
    *,
    window: int = 0,
    ratio: int = 1,
    dtype: str = "uint8",
    role: str = "",
) -> Spec:
    page = block // ratio * state
    padded = round_up(page, _ALIGN)
    return Spec(
        kind,  # type: ignore[arg-type]
        block,
        state,
        tokens_per_state=ratio,
        padded=padded if padded != page else 0,
        window=window,
        num_kv_heads=1,
        head_size=head,
        dtype=dtype,
        cache_dtype="" if role else "fp8_ds_mla",
        role=role or "deepseek_v4",
    )
