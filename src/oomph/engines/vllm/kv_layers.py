"""Layers of a model -> their KV cache specs on one rank: geometry, dtype, backend.

Follows the layers' get_kv_cache_spec.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from oomph.engines.vllm.backend_query import Query, kernel_blocks
from oomph.engines.vllm.backends import choose, choose_diff_kv
from oomph.engines.vllm.kv_blocks import Blocks, Setup, Work, block_sizes, platform_block, rank_kv_heads
from oomph.engines.vllm.kv_dtypes import token_bytes
from oomph.engines.vllm.kv_groups import Layers
from oomph.engines.vllm.kv_specs import Refused, Spec
from oomph.engines.vllm.kv_state import state_bytes
from oomph.engines.vllm.kv_v4 import indexer_width, is_v4, v4_specs
from oomph.engines.vllm.traits import Traits, head_size
from oomph.errors import UnknownCache
from oomph.facts.vllm.attention import Backend
from oomph.facts.vllm.facts import Facts
from oomph.ir.model import Attention, Indexer, Layer, Mixer, Model, State

STATE_BACKENDS = {
    "mamba1": "MAMBA1_ATTN", "mamba2": "MAMBA2_ATTN", "gdn": "GDN_ATTN", "kda": "GDN_ATTN",
    "short_conv": "SHORT_CONV_ATTN", "linear_attention": "LINEAR_ATTN",
}  # fmt: skip
DS_MLA_STATE = {"fp8_ds_mla": 656, "nvfp4_ds_mla": 352}  # flashmla_sparse.py


class Layout(Struct, frozen=True):
    layers: tuple[Layers, ...]
    block_size: int
    mamba_block_size: int | None
    mamba_page_size_padded: int | None
    backends: tuple[tuple[str, int], ...]  # name, layers of the first stage
    kv_cache_layout: str


def lay_out(model: Model, traits: Traits, s: Setup, facts: Facts) -> Layout:
    """Raises Refused where vLLM refuses to build a layer."""
    queries = {i: _query(m, traits, s, facts) for i, m in enumerate(traits.mixers) if isinstance(m, Attention)}
    chosen: dict[int, Backend] = {}
    plain: dict[int, tuple[Query, Backend]] = {}
    numbers = any(name.isdigit() for name in s.skip_layers) and s.kv_dtype != "auto"
    for i, q in queries.items():  # layers that keep a plain cache are built before those behind them
        skipped = numbers and str(traits.first_layers[i]) in s.skip_layers
        skipped = skipped and (facts.cache_dtypes.skips_mla_layers or not q.mla)
        if skipped and _used(i, traits, s) and not is_v4(model) and not _differs(traits.mixers[i], facts):
            choose(replace(q, kv_dtype="auto"), s.attention_backend)
    for i, q in queries.items():
        m = traits.mixers[i]
        assert isinstance(m, Attention)
        if not _used(i, traits, s):
            continue
        _check_heads(m, s.tp)
        if _differs(m, facts):
            chosen[i] = choose_diff_kv(q, facts.layer_caches.unequal_widths)
        elif not is_v4(model):
            chosen[i] = choose(q, s.attention_backend)
            _check_fp8(chosen[i], q, s, facts)
            if numbers and (facts.cache_dtypes.skips_mla_layers or not q.mla):
                unquantised = replace(q, kv_dtype="auto")
                plain[i] = unquantised, choose(unquantised, s.attention_backend)
    for state in (m for i, m in enumerate(traits.mixers) if isinstance(m, State) and _used(i, traits, s)):
        _check_groups(state, s.tp)
    w = Work(model, traits, s, facts, queries, chosen, plain)
    blocks = block_sizes(w)
    specs: dict[Spec, tuple[list[int], str]] = {}
    names: dict[str, int] = {}
    for index, layer, counts in _counted(model, traits, s):
        for spec, backend in _specs(w, index, layer, blocks):
            if spec is not None:
                total = specs.setdefault(spec, ([0] * len(s.stages), layer.prefix))[0]
                for stage, count in enumerate(counts):
                    total[stage] += count
            if counts[0]:
                names[backend] = names.get(backend, 0) + counts[0]
    layers = tuple(Layers(spec, tuple(counts), name) for spec, (counts, name) in specs.items())
    if facts.layer_caches.attention_first:
        layers = tuple(sorted(layers, key=lambda m: m.spec.kind == "mamba"))
    return Layout(
        layers, blocks.block, blocks.mamba, blocks.padded, tuple(names.items()), _layout_name(names, s, facts)
    )


def _differs(m: Mixer, facts: Facts) -> bool:
    """K and V of different widths have backends of their own."""
    unequal = isinstance(m, Attention) and m.kind != "mla" and m.head_dim_v != m.head_dim
    return unequal and bool(facts.layer_caches.unequal_widths)


def _used(index: int, traits: Traits, s: Setup) -> bool:
    return bool(traits.positions[index]) or (s.uses_drafts and any(index in r for r in traits.draft_rows))


def _counted(model: Model, traits: Traits, s: Setup) -> Iterator[tuple[int, Layer, list[int]]]:
    """(mixer, its first layer, layers per stage) in the order in which the layers register; drafts come last."""
    last = len(s.stages) - 1
    if any(name.isdigit() for name in s.skip_layers):  # two layers with one mixer may differ
        for stage, (begin, end) in enumerate(s.stages):
            for i in range(begin, end):
                for index in traits.rows[i]:
                    yield index, model.layers[i], [int(n == stage) for n in range(last + 1)]
    else:
        for index, (first, positions) in enumerate(zip(traits.first_layers, traits.positions, strict=True)):
            if positions:
                counts = [bisect_left(positions, end) - bisect_left(positions, begin) for begin, end in s.stages]
                yield index, model.layers[first], counts
    if s.uses_drafts:
        for layer, row in zip(model.drafts, traits.draft_rows, strict=True):
            for index in row:
                yield index, layer, [int(n == last) for n in range(last + 1)]


def _check_heads(m: Attention, tp: int) -> None:
    """KV heads divide the ranks or the ranks divide them (QKVParallelLinear): a bare assert."""
    if m.kind == "mla":
        return
    ok = tp % m.num_kv_heads == 0 if tp > m.num_kv_heads else m.num_kv_heads % tp == 0
    if not ok:
        raise Refused("AssertionError", "")


def _check_fp8(b: Backend, q: Query, s: Setup, facts: Facts) -> None:
    if q.kv_dtype == "fp8_e5m2" and s.kv_method:  # attention.py:168 (0.21.0) _init_kv_cache_quant
        raise Refused("ValueError", "fp8_e5m2 kv-cache is not supported with fp8 checkpoints.")
    refuses = b.name == "TRITON_ATTN" or (b.name == "TRITON_MLA" and facts.cache_dtypes.triton_mla_refuses_fp8)
    if not refuses or not facts.cache_dtypes.triton_fp8_refused or not q.kv_dtype.startswith("fp8") or s.sm >= 89:
        return
    capability = f"{s.sm // 10}.{s.sm % 10}"
    dtype = "float16" if s.sm < 80 else "bfloat16"
    text = facts.cache_dtypes.triton_fp8_refused
    text = text.replace("Triton attention", "Triton MLA") if b.mla else text
    raise Refused("ValueError", text.format(gpu=s.gpu_name, capability=capability, dtype=dtype))


def _query(m: Attention, traits: Traits, s: Setup, facts: Facts) -> Query:
    mla = m.kind == "mla"
    query = Query(
        attention=facts.attention,
        sm=s.sm,
        head_size=head_size(m, s.mla_rope),
        dtype=s.dtype,
        kv_dtype="auto" if m.kind == "sliding_window" and "sliding_window" in s.skip_layers else s.kv_dtype,
        # before, platforms/cuda.py:351 (0.17.1) hid the block size from the backends
        block_size=s.block_size if facts.blocks.from_backend else None,
        mla=mla,
        sink=m.sinks,
        sparse=mla and traits.topk > 0,
        mm_prefix=s.mm_prefix and not mla,
        sliding=m.kind == "sliding_window",
        num_heads=m.num_heads // s.tp,
        num_kv_heads=1 if mla else rank_kv_heads(traits.num_kv_heads, s.tp),
        qk_nope=m.qk_nope_head_dim,
        qk_rope=s.mla_rope or m.qk_rope_head_dim,
        v_head=m.head_dim_v,
        kv_lora=m.kv_lora_rank,
        topk=traits.topk if mla else 0,
        dcp=s.dcp,
        pcp=s.pcp,
        fa_version=s.fa_version,
        softcap=s.softcap,
        attn_type={"cross": "encoder_decoder", "encoder_only": "encoder_only"}.get(m.kind, "decoder"),
    )
    if facts.blocks.from_backend:
        return query
    return replace(query, platform_block=platform_block(query, facts, s.block_size, ""))


def _specs(w: Work, index: int, layer: Layer, blocks: Blocks) -> list[tuple[Spec | None, str]]:
    """A layer without a cache of its own still names its backend."""
    m = w.traits.mixers[index]
    if isinstance(m, State):
        return [_state_spec(m, w.s, w.facts, blocks)]
    if m.shares_cache_of is not None or m.kind == "encoder_only":
        return [(None, w.backend(index, layer.index)[1].name)] if index in w.chosen else []
    if is_v4(w.model):
        return v4_specs(m, blocks.block, w.s.kv_dtype, w.facts, w.s.sm)
    q, backend = w.backend(index, layer.index)
    if m.kind == "mla":
        return _mla_specs(m, blocks.block, w.s, q.kv_dtype, backend)
    spec = _attention_spec(w, m, blocks, q, backend)
    if m.kind == "full" and m.indexer is not None:
        return _block_sparse_specs(m.indexer, spec, w.s)
    return [(spec, backend.name)]


def _attention_spec(w: Work, m: Attention, blocks: Blocks, q: Query, backend: Backend) -> Spec:
    s = w.s
    if m.kind not in ("full", "sliding_window", "chunked_local", "cross"):
        raise UnknownCache(f"attention of kind {m.kind!r} has no known cache")
    heads = rank_kv_heads(m.num_kv_heads, s.tp)
    keeps_v = {"full": w.facts.kv.full_head_v, "sliding_window": w.facts.kv.sliding_head_v}.get(m.kind, False)
    v = m.head_dim_v if keeps_v else m.head_dim
    per_token = token_bytes(q.kv_dtype, s.dtype, heads, m.head_dim, v)
    sliding = m.kind == "sliding_window"
    return Spec(
        kind=m.kind,
        block_size=_sliding_block(w, blocks, q, backend, per_token) if sliding else blocks.block,
        state_bytes=per_token,
        padded=blocks.shared if sliding else 0,
        window=m.window if sliding else 0,
        chunk=m.chunk if m.kind == "chunked_local" else 0,
        num_kv_heads=heads,
        head_size=m.head_dim,
        head_size_v=v,
        dtype=s.dtype if q.kv_dtype == "auto" else q.kv_dtype,
        strided=backend.name != "TURBOQUANT",
    )


def _sliding_block(w: Work, blocks: Blocks, q: Query, backend: Backend, per_token: int) -> int:
    """attention.py _largest_kernel_block_within, in tokens: the largest kernel block inside the manager's."""
    sizes = kernel_blocks(backend, q)
    if not w.facts.blocks.sliding:
        return blocks.block
    if w.facts.blocks.sliding == "smallest":
        candidates = list(sizes)
        budget = blocks.shared // per_token
    else:
        budget = blocks.shared // per_token or blocks.block
        candidates = [max(n, budget // n * n) for n in sizes] if backend.multiple else list(sizes)
    fitting = [n for n in candidates if n <= budget]
    return max(fitting) if fitting else min(candidates)


def _block_sparse_specs(indexer: Indexer, main: Spec, s: Setup) -> list[tuple[Spec | None, str]]:
    """minimax_m3/common/indexer.py (0.32.0): beside K and V, one index key a token in the model's dtype."""
    width = token_bytes("auto", s.dtype, 1, indexer.head_dim, 0)
    size = indexer.head_dim
    keys = Spec("mla", main.block_size, width, num_kv_heads=1, head_size=size, dtype=s.dtype, cache_dtype="auto")
    return [(keys, "MINIMAX_M3_SPARSE_INDEXER"), (main, "MINIMAX_M3_SPARSE")]


def _mla_specs(m: Attention, block: int, s: Setup, cache_dtype: str, backend: Backend) -> list[tuple[Spec | None, str]]:
    plain = ("auto", "fp8", "fp8_e4m3") if backend.name == "FLASHINFER_MLA_SPARSE_SM120" else ("fp8", "fp8_e4m3")
    if backend.name in ("FLASHMLA_SPARSE", "FLASHINFER_MLA_SPARSE_SM120") and cache_dtype in plain:
        cache_dtype = "fp8_ds_mla"  # mla_attention.py:386 (0.21.0)
    size = head_size(m, s.mla_rope)
    per_token = DS_MLA_STATE.get(cache_dtype) or token_bytes(cache_dtype, s.dtype, 1, size, 0)
    dtype = s.dtype if cache_dtype == "auto" else "uint8"
    main = Spec("mla", block, per_token, num_kv_heads=1, head_size=size, dtype=dtype, cache_dtype=cache_dtype)
    if m.indexer is None:
        return [(main, backend.name)]
    width = indexer_width(m.indexer.head_dim)
    keys = Spec("mla", block, width, num_kv_heads=1, head_size=width, dtype="uint8", role="indexer")
    return [(keys, "DEEPSEEK_V32_INDEXER"), (main, backend.name)]


def _check_groups(m: State, tp: int) -> None:
    """mamba_mixer2.py:286 (0.21.0)."""
    if m.kind == "mamba2" and m.groups % tp and m.groups != 1:
        text = "If tensor parallel world size does not divide num_groups, then num_groups must equal 1."
        raise Refused("AssertionError", text)


def _state_spec(m: State, s: Setup, facts: Facts, blocks: Blocks) -> tuple[Spec, str]:
    # models/kimi_k3/nvidia/kda.py:463 resolve_kda_prefill_backend (0.32.0)
    flash_kda = m.backend == "KIMI_K3_KDA" and (s.sm == 90 or 100 <= s.sm < 130)
    size = state_bytes(m, s.tp, s.drafts, s.conv_dtype, s.ssm_dtype, facts)
    if blocks.padded and blocks.padded < size:  # kv_cache_interface.py:558 (0.21.0)
        raise Refused("AssertionError", "")
    spec = Spec(
        "mamba",
        blocks.mamba or s.max_model_len,
        size,
        padded=blocks.padded or 0,
        role=m.kind,
        speculative_blocks=s.drafts,
        checkpoint_blocks=int(facts.states.checkpoint_block and (m.kind == "mamba2" or flash_kda)),
    )
    return spec, m.backend or STATE_BACKENDS[m.kind]


def _layout_name(names: dict[str, int], s: Setup, facts: Facts) -> str:
    """resolve_kv_cache_layout (v1/attention/backends/utils.py): the first layout that every backend takes."""
    if not facts.layer_caches.has_layouts:
        return ""
    if "DEEPSEEK_V4_INDEXER" in names:
        return "BLHNC"
    head_first = s.sm // 10 == 10 and any(n in names for n in ("FLASHINFER", "TRITON_FLASHINFER"))
    if head_first and "TURBOQUANT" in names:
        sets = "[['LBHNC', 'BLHNC'], ['LBNHC']]"
        raise Refused("ValueError", f"No KV cache layout satisfies every supported set: {sets}.")
    return "LBHNC" if head_first else "LBNHC"
