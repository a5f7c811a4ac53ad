"""Layers of a model -> their KV cache specs on one rank: geometry, dtype, backend.

Follows the layers' get_kv_cache_spec.
"""

from bisect import bisect_left
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from oomph.engines.vllm.kv.blocks import Blocks, Setup, Work, block_sizes, platform_block, rank_kv_heads
from oomph.engines.vllm.kv.deepseek_v4 import indexer_width, is_v4, v4_specs
from oomph.engines.vllm.kv.dtypes import token_bytes
from oomph.engines.vllm.kv.groups import Layers
from oomph.engines.vllm.kv.specs import Refused, Spec
from oomph.engines.vllm.kv.state import state_bytes
from oomph.engines.vllm.resolve.backend_query import Query, kernel_blocks
from oomph.engines.vllm.resolve.backends import choose, choose_diff_kv
from oomph.engines.vllm.traits import Traits, head_size
from oomph.errors import UnknownCache
from oomph.facts.vllm.attention import Backend
from oomph.facts.vllm.facts import Facts
from oomph.facts.vllm.known import NO_REPEATED_HEADS
from oomph.ir import Attention, ConvWindow, Indexer, Layer, Mixer, Model, State

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


def lay_out(model: Model, traits: Traits, setup: Setup, facts: Facts) -> Layout:
    """Raises Refused where vLLM refuses to build a layer."""
    queries = {
        i: _query(mixer, traits, setup, facts) for i, mixer in enumerate(traits.mixers) if isinstance(mixer, Attention)
    }
    chosen: dict[int, Backend] = {}
    plain: dict[int, tuple[Query, Backend]] = {}
    numbers = any(name.isdigit() for name in setup.skip_layers) and setup.kv_dtype != "auto"
    for i, query in queries.items():  # layers that keep a plain cache are built before those behind them
        skipped = numbers and str(traits.first_layers[i]) in setup.skip_layers
        skipped = skipped and (facts.cache_dtypes.skips_mla_layers or not query.mla)
        if skipped and _used(i, traits, setup) and not is_v4(model) and not _differs(traits.mixers[i], facts):
            choose(replace(query, kv_dtype="auto"), setup.attention_backend)
    for i, query in queries.items():
        mixer = traits.mixers[i]
        assert isinstance(mixer, Attention)
        if not _used(i, traits, setup):
            continue
        _check_heads(mixer, setup.tp, model.architecture)
        if _differs(mixer, facts):
            chosen[i] = choose_diff_kv(query, facts.layer_caches.unequal_widths)
        elif not is_v4(model):
            chosen[i] = choose(query, setup.attention_backend)
            _check_fp8(chosen[i], query, setup, facts)
            if (
                mixer.shares_cache_of is not None and chosen[i].name == "FLEX_ATTENTION"
            ):  # flex_attention.py:1195 (0.32.0)
                raise Refused("NotImplementedError", "FlexAttention does not support kv sharing yet.")
            if numbers and (facts.cache_dtypes.skips_mla_layers or not query.mla):
                unquantised = replace(query, kv_dtype="auto")
                plain[i] = unquantised, choose(unquantised, setup.attention_backend)
    for state in (
        mixer for i, mixer in enumerate(traits.mixers) if isinstance(mixer, State) and _used(i, traits, setup)
    ):
        _check_groups(state, setup.tp)
    work = Work(model, traits, setup, facts, queries, chosen, plain=plain)
    blocks = block_sizes(work)
    specs: dict[Spec, tuple[list[int], str]] = {}
    names: dict[str, int] = {}
    for index, layer, counts in _counted(model, traits, setup):
        for spec, backend in _specs(work, index, layer, blocks):
            if spec is not None:
                total = specs.setdefault(spec, ([0] * len(setup.stages), layer.prefix))[0]
                for stage, count in enumerate(counts):
                    total[stage] += count
            if counts[0]:
                names[backend] = names.get(backend, 0) + counts[0]
    layers = tuple(Layers(spec, tuple(counts), name) for spec, (counts, name) in specs.items())
    if facts.layer_caches.attention_first:
        layers = tuple(sorted(layers, key=lambda mixer: mixer.spec.kind == "mamba"))
    return Layout(
        layers, blocks.block, blocks.mamba, blocks.padded, tuple(names.items()), _layout_name(names, setup, facts)
    )


def _differs(mixer: Mixer, facts: Facts) -> bool:
    """K and V of different widths have backends of their own."""
    unequal = isinstance(mixer, Attention) and mixer.kind != "mla" and mixer.head_dim_v != mixer.head_dim
    return unequal and bool(facts.layer_caches.unequal_widths)


def _used(index: int, traits: Traits, setup: Setup) -> bool:
    return bool(traits.positions[index]) or (setup.uses_drafts and any(index in r for r in traits.draft_rows))


def _counted(model: Model, traits: Traits, setup: Setup) -> Iterator[tuple[int, Layer, list[int]]]:
    """(mixer, its first layer, layers per stage) in the order in which the layers register; drafts come last."""
    last = len(setup.stages) - 1
    if any(name.isdigit() for name in setup.skip_layers):  # two layers with one mixer may differ
        for stage, (begin, end) in enumerate(setup.stages):
            for i in range(begin, end):
                for index in traits.rows[i]:
                    yield index, model.layers[i], [int(n == stage) for n in range(last + 1)]
    else:
        for index, (first, positions) in enumerate(zip(traits.first_layers, traits.positions, strict=True)):
            if positions:
                counts = [bisect_left(positions, end) - bisect_left(positions, begin) for begin, end in setup.stages]
                yield index, model.layers[first], counts
    if setup.uses_drafts:
        for layer, row in zip(model.drafts, traits.draft_rows, strict=True):
            for index in row:
                yield index, layer, [int(n == last) for n in range(last + 1)]


def _check_heads(attention: Attention, tp: int, architecture: str) -> None:
    """KV heads divide the ranks or the ranks divide them (QKVParallelLinear): a bare assert."""
    if attention.kind == "mla":
        return
    if architecture in NO_REPEATED_HEADS and tp > attention.num_kv_heads:
        raise Refused("ZeroDivisionError", "integer modulo by zero")
    ok = tp % attention.num_kv_heads == 0 if tp > attention.num_kv_heads else attention.num_kv_heads % tp == 0
    if not ok:
        raise Refused("AssertionError", "")


def _check_fp8(backend: Backend, query: Query, setup: Setup, facts: Facts) -> None:
    if query.kv_dtype == "fp8_e5m2" and setup.kv_method:  # attention.py:168 (0.21.0) _init_kv_cache_quant
        raise Refused("ValueError", "fp8_e5m2 kv-cache is not supported with fp8 checkpoints.")
    refuses = backend.name == "TRITON_ATTN" or (
        backend.name == "TRITON_MLA" and facts.cache_dtypes.triton_mla_refuses_fp8
    )
    if (
        not refuses
        or not setup.is_cuda  # triton_attn.py asks current_platform.is_cuda() first
        or not facts.cache_dtypes.triton_fp8_refused
        or not query.kv_dtype.startswith("fp8")
        or setup.sm >= 89
    ):
        return
    capability = f"{setup.sm // 10}.{setup.sm % 10}"
    dtype = "float16" if setup.sm < 80 else "bfloat16"
    text = facts.cache_dtypes.triton_fp8_refused
    text = text.replace("Triton attention", "Triton MLA") if backend.mla else text
    raise Refused("ValueError", text.format(gpu=setup.gpu_name, capability=capability, dtype=dtype))


def _query(attention: Attention, traits: Traits, setup: Setup, facts: Facts) -> Query:
    mla = attention.kind == "mla"
    query = Query(
        attention=facts.attention,
        sm=setup.sm,
        head_size=head_size(attention, setup.mla_rope),
        dtype=setup.dtype,
        kv_dtype="auto"
        if attention.kind == "sliding_window" and "sliding_window" in setup.skip_layers
        else setup.kv_dtype,
        # before, platforms/cuda.py:351 (0.17.1) hid the block size from the backends
        block_size=setup.block_size if facts.blocks.from_backend else None,
        mla=mla,
        sink=attention.sinks,
        sparse=mla and traits.topk > 0,
        mm_prefix=setup.mm_prefix and not mla,
        sliding=attention.kind == "sliding_window",
        num_heads=attention.num_heads // setup.tp,
        num_kv_heads=1 if mla else rank_kv_heads(traits.num_kv_heads, setup.tp),
        qk_nope=attention.qk_nope_head_dim,
        qk_rope=setup.mla_rope or attention.qk_rope_head_dim,
        v_head=attention.head_dim_v,
        kv_lora=attention.kv_lora_rank,
        topk=traits.topk if mla else 0,
        dcp=setup.dcp,
        pcp=setup.pcp,
        fa_version=setup.fa_version,
        softcap=setup.softcap,
        attn_type={"cross": "encoder_decoder", "encoder_only": "encoder_only"}.get(attention.kind, "decoder"),
    )
    if facts.blocks.from_backend:
        return query
    return replace(query, platform_block=platform_block(query, facts, setup.block_size, ""))


def _specs(work: Work, index: int, layer: Layer, blocks: Blocks) -> list[tuple[Spec | None, str]]:
    """A layer without a cache of its own still names its backend."""
    mixer = work.traits.mixers[index]
    if isinstance(mixer, State):
        return [_state_spec(mixer, work.setup, work.facts, blocks)]
    if mixer.shares_cache_of is not None or mixer.kind == "encoder_only":
        return [(None, work.backend(index, layer.index)[1].name)] if index in work.chosen else []
    if is_v4(work.model):
        return v4_specs(mixer, blocks.block, work.setup.kv_dtype, work.facts, work.setup.sm)
    query, backend = work.backend(index, layer.index)
    if mixer.kind == "mla":
        return _mla_specs(mixer, blocks.block, work.setup, query.kv_dtype, backend)
    spec = _attention_spec(work, mixer, blocks, query, backend)
    if mixer.kind == "full" and mixer.indexer is not None:
        return _block_sparse_specs(mixer.indexer, spec, work.setup)
    if mixer.convolution is not None:
        main = replace(spec, block_size=blocks.block, padded=0)
        return _convolution_specs(mixer.convolution, main, work.setup)
    return [(spec, backend.name)]


def _attention_spec(work: Work, attention: Attention, blocks: Blocks, query: Query, backend: Backend) -> Spec:
    setup = work.setup
    if attention.kind not in ("full", "sliding_window", "chunked_local", "cross"):
        raise UnknownCache(f"attention of kind {attention.kind!r} has no known cache")
    heads = rank_kv_heads(attention.num_kv_heads, setup.tp)
    keeps_v = {"full": work.facts.kv.full_head_v, "sliding_window": work.facts.kv.sliding_head_v}.get(
        attention.kind, False
    )
    value_dim = attention.head_dim_v if keeps_v else attention.head_dim
    per_token = token_bytes(query.kv_dtype, setup.dtype, heads, attention.head_dim, value_dim)
    sliding = attention.kind == "sliding_window"
    return Spec(
        kind=attention.kind,
        block_size=_sliding_block(work, blocks, query, backend, per_token) if sliding else blocks.block,
        state_bytes=per_token,
        padded=blocks.shared if sliding else 0,
        window=attention.window if sliding else 0,
        extra_retained=_extra_retained(work) if sliding else 0,
        chunk=attention.chunk if attention.kind == "chunked_local" else 0,
        num_kv_heads=heads,
        head_size=attention.head_dim,
        head_size_v=value_dim,
        dtype=setup.dtype if query.kv_dtype == "auto" else query.kv_dtype,
        strided=backend.name != "TURBOQUANT",
        stride_base=_stride_base(work, query, backend),
    )


def _extra_retained(work: Work) -> int:
    """config/speculative.py use_multi_module_mtp: one draft module that is called again reads no further ahead."""
    modules = sum(bool(layer.mixers) for layer in work.model.drafts) if work.setup.uses_drafts else 0
    several = min(modules, work.setup.drafts) > 1
    return work.setup.drafts - 1 if several and work.facts.kv.windows_keep_drafts else 0


def _stride_base(work: Work, query: Query, backend: Backend) -> int:
    """worker/utils.py customize_attention_spec (0.32.0): layers of two backends may be alike in everything else."""
    if backend.multiple or not work.facts.kv.stride_bases:
        return 0
    return max(kernel_blocks(backend, query), default=0)


def _sliding_block(work: Work, blocks: Blocks, query: Query, backend: Backend, per_token: int) -> int:
    """attention.py _largest_kernel_block_within, in tokens: the largest kernel block inside the manager's."""
    sizes = kernel_blocks(backend, query)
    if not work.facts.blocks.sliding:
        return blocks.block
    if work.facts.blocks.sliding == "smallest":
        candidates = list(sizes)
        budget = blocks.shared // per_token
    else:
        budget = blocks.shared // per_token or blocks.block
        candidates = [max(n, budget // n * n) for n in sizes] if backend.multiple else list(sizes)
    fitting = [n for n in candidates if n <= budget]
    return max(fitting) if fitting else min(candidates)


def _block_sparse_specs(indexer: Indexer, main: Spec, setup: Setup) -> list[tuple[Spec | None, str]]:
    """minimax_m3/common/indexer.py (0.32.0): beside K and V, one index key a token in the model's dtype."""
    width = token_bytes("auto", setup.dtype, 1, indexer.head_dim, 0)
    size = indexer.head_dim
    keys = Spec("mla", main.block_size, width, num_kv_heads=1, head_size=size, dtype=setup.dtype, cache_dtype="auto")
    return [(keys, "MINIMAX_M3_SPARSE_INDEXER"), (main, "MINIMAX_M3_SPARSE")]


def _convolution_specs(convolution: ConvWindow, main: Spec, setup: Setup) -> list[tuple[Spec | None, str]]:
    """models/inkling/nvidia/sconv_swa_attn.py (0.32.0): one window for all streams of a layer, beside its K and V."""
    if setup.tp > convolution.heads:
        text = f"sconv SWA cache supports tp_size <= num_kv_heads ({convolution.heads}), got {setup.tp}"
        raise Refused("AssertionError", text)
    if setup.dtype != "bfloat16":
        raise Refused("AssertionError", f"sconv SWA cache supports bfloat16 only, got torch.{setup.dtype}")
    heads, kernel = convolution.heads // setup.tp, convolution.kernel
    width = token_bytes("auto", setup.dtype, heads, convolution.width, 0)
    streams = Spec(
        "sliding_window", kernel, width, window=kernel, num_kv_heads=heads, head_size=convolution.width,
        dtype=setup.dtype,
    )  # fmt: skip
    return [(streams, "INKLING_SCONV"), (main, "FLASH_ATTN")]


def _mla_specs(
    attention: Attention, block: int, setup: Setup, cache_dtype: str, backend: Backend
) -> list[tuple[Spec | None, str]]:
    plain = ("auto", "fp8", "fp8_e4m3") if backend.name == "FLASHINFER_MLA_SPARSE_SM120" else ("fp8", "fp8_e4m3")
    if backend.name in ("FLASHMLA_SPARSE", "FLASHINFER_MLA_SPARSE_SM120") and cache_dtype in plain:
        cache_dtype = "fp8_ds_mla"  # mla_attention.py:386 (0.21.0)
    size = head_size(attention, setup.mla_rope)
    per_token = DS_MLA_STATE.get(cache_dtype) or token_bytes(cache_dtype, setup.dtype, 1, size, 0)
    dtype = setup.dtype if cache_dtype == "auto" else "uint8"
    main = Spec("mla", block, per_token, num_kv_heads=1, head_size=size, dtype=dtype, cache_dtype=cache_dtype)
    if attention.indexer is None:
        return [(main, backend.name)]
    width = indexer_width(attention.indexer.head_dim)
    keys = Spec("mla", block, width, num_kv_heads=1, head_size=width, dtype="uint8", role="indexer")
    return [(keys, "DEEPSEEK_V32_INDEXER"), (main, backend.name)]


def _check_groups(state: State, tp: int) -> None:
    """mamba_mixer2.py:286 (0.21.0)."""
    if state.kind == "mamba2" and state.groups % tp and state.groups != 1:
        text = "If tensor parallel world size does not divide num_groups, then num_groups must equal 1."
        raise Refused("AssertionError", text)


def _state_spec(state: State, setup: Setup, facts: Facts, blocks: Blocks) -> tuple[Spec, str]:
    # models/kimi_k3/nvidia/kda.py:463 resolve_kda_prefill_backend (0.32.0)
    flash_kda = state.backend == "KIMI_K3_KDA" and (setup.sm == 90 or 100 <= setup.sm < 130)
    size = state_bytes(state, setup.tp, setup.drafts, setup.conv_dtype, setup.ssm_dtype, facts)
    if blocks.padded and blocks.padded < size:  # kv_cache_interface.py:558 (0.21.0)
        raise Refused("AssertionError", "")
    spec = Spec(
        "mamba",
        blocks.mamba or setup.max_model_len,
        size,
        padded=blocks.padded or 0,
        role=state.kind,
        speculative_blocks=setup.drafts,
        checkpoint_blocks=int(facts.states.checkpoint_block and (state.kind == "mamba2" or flash_kda)),
    )
    return spec, state.backend or STATE_BACKENDS[state.kind]


def _layout_name(names: dict[str, int], setup: Setup, facts: Facts) -> str:
    """resolve_kv_cache_layout (v1/attention/backends/utils.py): the first layout that every backend takes."""
    if not facts.layer_caches.has_layouts:
        return ""
    if "DEEPSEEK_V4_INDEXER" in names:
        return "BLHNC"
    head_first = setup.sm // 10 == 10 and any(n in names for n in ("FLASHINFER", "TRITON_FLASHINFER"))
    if head_first and "TURBOQUANT" in names:
        sets = "[['LBHNC', 'BLHNC'], ['LBNHC']]"
        raise Refused("ValueError", f"No KV cache layout satisfies every supported set: {sets}.")
    return "LBHNC" if head_first else "LBNHC"
