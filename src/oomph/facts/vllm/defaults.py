"""Defaults that vLLM resolves from the GPU, the usage and the model: `defaults(version)` gathers the rows in force.

Rows: running.py (how a model is run), caches.py (shapes and dtypes of caches), known.py (architectures and methods).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

from msgspec import Struct

from oomph.facts.vllm import caches, known, running
from oomph.facts.vllm.known import Gone, Known
from oomph.facts.vllm.kv import Row
from oomph.facts.vllm.refusals import ASYNC_DRAFTS_REFUSED, SIZES_ARE_FIELDS
from oomph.facts.vllm.running import Runner, Tier
from oomph.facts.vllm.versions import pick, select

HybridBlock = Literal["config", "backend", "lcm"]


class Defaults(Struct, frozen=True):
    utilization: float
    mm_raises_tokens: bool
    capture_step_16: bool
    capture_spec: bool
    capture_tokens: bool
    capture_sm100: int
    capture_decode: bool
    capture_gpt_oss: int
    v32_fp8: str
    capture_seqs: bool
    hybrid_prefix_caching: bool
    mamba_modes: str
    attention_first: bool
    hybrid_block: HybridBlock
    hybrid_mla_128: bool
    hybrid_config_alignment: bool
    block_from_backend: bool
    all_backends_block: bool
    sliding_block: str
    skip_page: str
    mla_skip: bool
    kv_layout: bool
    mamba2_checkpoint: bool
    mamba2_spec_conv: bool
    kda_spec_conv: bool
    short_conv_spec: bool
    checkpoint_kv_dtype: bool
    fp8_kv_on_sm100: str
    v4_auto: bool
    v4_refusal: str
    v4_refusal_type: str
    v4_backends: tuple[str, ...]
    yarn_multiplies: bool
    longrope_original: bool
    async_default: bool
    async_needs_v2_for_pp: bool
    async_with_pp: bool
    async_with_mamba: bool
    async_pooling: bool
    mla_block_sm100: str
    async_drafts: tuple[str, ...]
    async_refused: str
    sizes_are_fields: bool
    draft_pipeline: bool
    chunked_local_hybrid: bool
    connector_off: str
    kv_events_off: bool
    v1_methods: tuple[str, ...]
    v1_flags: tuple[str, ...]
    v1_eagle3_pp: bool
    v1_states: str
    renames: bool
    kv_dtypes: tuple[str, ...]
    triton_fp8_text: str
    triton_mla_fp8_text: bool
    e5m2_without_scheme: bool
    turboquant_fa2: bool
    mamba_cache_modes: tuple[str, ...]
    mm_prefix: bool
    mm_prefix_needs_mm: bool
    gemma4: str
    gemma4_per_layer_fp8: bool
    mm_prefix_nested: bool
    kv_scheme: str
    pp_refused: tuple[str, ...]
    fp8_block_moe: str
    gone: tuple[Gone, ...]
    glm_rope_from_head: bool
    length_is_float: str
    uncompiled_graphs: str
    encoder_decoder_graphs: str
    dcp_piecewise: bool
    chunked_forced: bool
    spec_state: tuple[str, ...]
    mamba_spec_refused: str
    unknown: dict[str, Known]
    diff_kv: str
    kv_dtype_ignored: str
    nemotron_state: str
    mamba_all: bool
    runner: Runner
    tiers: tuple[Tier, ...]


@lru_cache(maxsize=64)
def defaults(version: str) -> Defaults:
    def of(rows: tuple[Row, ...]) -> str | int | float:
        return pick(rows, version).value

    def yes(rows: tuple[Row, ...]) -> bool:
        return bool(of(rows))

    def words(rows: tuple[Row, ...]) -> tuple[str, ...]:
        return tuple(str(of(rows)).split())

    return Defaults(
        utilization=float(of(running.UTILIZATION)),
        mm_raises_tokens=yes(running.MM_RAISES_TOKENS),
        capture_step_16=yes(running.CAPTURE_STEP_16),
        capture_spec=yes(running.CAPTURE_SPEC),
        capture_tokens=yes(running.CAPTURE_TOKENS),
        capture_sm100=int(of(running.CAPTURE_SM100)),
        capture_decode=yes(running.CAPTURE_DECODE),
        capture_gpt_oss=int(of(running.CAPTURE_GPT_OSS)),
        v32_fp8=str(of(caches.V32_FP8)),
        capture_seqs=yes(running.CAPTURE_SEQS),
        hybrid_prefix_caching=yes(caches.HYBRID_PREFIX_CACHING),
        mamba_modes=str(of(caches.MAMBA_MODES)),
        attention_first=yes(caches.ATTENTION_FIRST),
        hybrid_block=of(caches.HYBRID_BLOCK),  # type: ignore[arg-type]
        hybrid_mla_128=yes(caches.HYBRID_MLA_128),
        hybrid_config_alignment=yes(caches.HYBRID_CONFIG_ALIGNMENT),
        block_from_backend=yes(caches.BLOCK_FROM_BACKEND),
        all_backends_block=yes(caches.ALL_BACKENDS_BLOCK),
        sliding_block=str(of(caches.SLIDING_BLOCK)),
        skip_page=str(of(caches.SKIP_PAGE)),
        mla_skip=yes(caches.MLA_SKIP),
        kv_layout=yes(caches.KV_LAYOUT),
        mamba2_checkpoint=yes(caches.MAMBA2_CHECKPOINT),
        mamba2_spec_conv=yes(caches.MAMBA2_SPEC_CONV),
        kda_spec_conv=yes(caches.KDA_SPEC_CONV),
        short_conv_spec=yes(caches.SHORT_CONV_SPEC),
        checkpoint_kv_dtype=yes(caches.CHECKPOINT_KV_DTYPE),
        fp8_kv_on_sm100=str(of(caches.FP8_KV_ON_SM100)),
        v4_auto=yes(caches.V4_AUTO),
        v4_refusal=str(of(caches.V4_REFUSAL)),
        v4_refusal_type=str(of(caches.V4_REFUSAL_TYPE)),
        v4_backends=words(caches.V4_BACKENDS),
        yarn_multiplies=yes(running.YARN_MULTIPLIES),
        longrope_original=yes(running.LONGROPE_ORIGINAL),
        async_default=yes(running.ASYNC_DEFAULT),
        async_needs_v2_for_pp=yes(running.ASYNC_NEEDS_V2_FOR_PP),
        async_with_pp=yes(running.ASYNC_WITH_PP),
        async_with_mamba=yes(running.ASYNC_WITH_MAMBA),
        async_pooling=yes(running.ASYNC_POOLING),
        mla_block_sm100=str(of(caches.MLA_BLOCK_SM100)),
        async_drafts=words(running.ASYNC_DRAFTS),
        async_refused=str(of(ASYNC_DRAFTS_REFUSED)),
        sizes_are_fields=yes(SIZES_ARE_FIELDS),
        draft_pipeline=yes(running.DRAFT_PIPELINE),
        chunked_local_hybrid=yes(running.CHUNKED_LOCAL_HYBRID),
        connector_off=str(of(running.CONNECTOR_OFF)),
        kv_events_off=yes(running.KV_EVENTS_OFF),
        v1_methods=words(running.V1_METHODS),
        v1_flags=words(running.V1_FLAGS),
        v1_eagle3_pp=yes(running.V1_EAGLE3_PP),
        v1_states=str(of(running.V1_STATES)),
        renames=yes(known.RENAMES),
        kv_dtypes=words(caches.KV_DTYPES),
        triton_fp8_text=str(of(caches.TRITON_FP8_TEXT)),
        triton_mla_fp8_text=yes(caches.TRITON_MLA_FP8_TEXT),
        e5m2_without_scheme=yes(caches.E5M2_WITHOUT_SCHEME),
        turboquant_fa2=yes(caches.TURBOQUANT_FA2),
        mamba_cache_modes=words(caches.MAMBA_CACHE_MODES),
        mm_prefix=yes(caches.MM_PREFIX),
        mm_prefix_needs_mm=yes(caches.MM_PREFIX_NEEDS_MM),
        gemma4=str(of(caches.GEMMA4)),
        gemma4_per_layer_fp8=yes(caches.GEMMA4_PER_LAYER_FP8),
        mm_prefix_nested=yes(caches.MM_PREFIX_NESTED),
        kv_scheme=str(of(caches.KV_SCHEME)),
        pp_refused=words(known.PP_REFUSED),
        fp8_block_moe=str(of(known.FP8_BLOCK_MOE)),
        gone=select(known.GONE, version),
        glm_rope_from_head=yes(caches.GLM_ROPE_FROM_HEAD),
        length_is_float=str(of(running.LENGTH_IS_FLOAT)),
        uncompiled_graphs=str(of(running.UNCOMPILED_GRAPHS)),
        encoder_decoder_graphs=str(of(running.ENCODER_DECODER_GRAPHS)),
        dcp_piecewise=yes(running.DCP_PIECEWISE),
        chunked_forced=yes(running.CHUNKED_FORCED),
        spec_state=words(caches.SPEC_STATE),
        mamba_spec_refused=str(of(caches.MAMBA_SPEC_REFUSED)),
        unknown={k.architecture: k for k in known.KNOWN if not k.holds(version)},
        diff_kv=str(of(caches.DIFF_KV)),
        kv_dtype_ignored=str(of(caches.KV_DTYPE_IGNORED)),
        nemotron_state=str(of(caches.NEMOTRON_STATE)),
        mamba_all=yes(caches.MAMBA_ALL_MODE),
        runner=pick(running.RUNNERS, version),
        tiers=select(running.TIERS, version),
    )
