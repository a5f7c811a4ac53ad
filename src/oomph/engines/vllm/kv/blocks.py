"""The block size of a model's caches: platforms/interface.py update_block_size_for_backend (0.21.0)."""

import itertools
import math

from msgspec import Struct
from msgspec.structs import replace

from oomph.engines.vllm.kv.deepseek_v4 import V4_BLOCK, is_v4
from oomph.engines.vllm.kv.dtypes import token_bytes
from oomph.engines.vllm.kv.state import state_bytes
from oomph.engines.vllm.resolve.backend_query import Query, kernel_blocks, preferred_block
from oomph.engines.vllm.traits import Traits
from oomph.facts.vllm.attention import FIXED_BLOCKS, Backend
from oomph.facts.vllm.facts import Facts
from oomph.ir import Attention, Model, State
from oomph.units import cdiv, round_up


class Setup(Struct, frozen=True):
    """The settings that the caches depend on."""

    sm: int
    dtype: str
    kv_dtype: str
    tp: int
    block_size: int | None
    mamba_block_size: int | None
    mamba_mode: str
    max_model_len: int
    drafts: int  # speculative tokens
    attention_backend: str
    fa_version: int
    mm_prefix: bool
    softcap: bool
    dcp: int
    pcp: int
    skip_layers: tuple[str, ...]
    conv_dtype: str
    ssm_dtype: str  # "" = as the model's states say
    uses_drafts: bool
    stages: tuple[tuple[int, int], ...]  # layer ranges of the pipeline stages
    gpu_name: str
    kv_method: bool = False  # the checkpoint's quantisation has scales for caches of its own
    is_cuda: bool = True  # NVIDIA's platform class
    mla_rope: int = 0  # a rotary width the engine reads wrongly; 0 = the model's


class Work(Struct, frozen=True):
    """What every step below reads."""

    model: Model
    traits: Traits
    setup: Setup
    facts: Facts
    queries: dict[int, Query]
    chosen: dict[int, Backend]
    plain: dict[int, tuple[Query, Backend]]  # mixers of which some layers keep an unquantised cache

    @property
    def first(self) -> int | None:
        """The first attention layer's mixer: its backend sets the block size."""
        return next((i for i in self.chosen if self.traits.positions[i]), None)

    def skips(self, layer: int) -> bool:
        """Only layers by number: `sliding_window` is in the queries."""
        return str(layer) in self.setup.skip_layers

    def backend(self, index: int, layer: int) -> tuple[Query, Backend]:
        if index in self.plain and self.skips(layer):
            return self.plain[index]
        return self.queries[index], self.chosen[index]


class Blocks(Struct, frozen=True):
    block: int
    mamba: int | None = None
    padded: int | None = None
    shared: int = 0  # the page that layers of different dtypes share; 0 = none is set


def rank_kv_heads(total: int, tp: int) -> int:
    return max(1, total // tp)


def block_sizes(work: Work) -> Blocks:
    setup, traits = work.setup, work.traits
    if is_v4(work.model):
        return Blocks(setup.block_size or V4_BLOCK)
    first = work.first
    block = 16 if first is None else _preferred(work, first)
    if setup.block_size and (work.facts.blocks.from_backend or first is None):
        block = setup.block_size
    sizes = Blocks(block)
    if traits.has_state:
        own = setup.mamba_block_size or (setup.max_model_len if setup.mamba_mode == "none" else block)
        sizes = _align_hybrid(work, first, block, own) if traits.is_hybrid and first is not None else Blocks(block, own)
    return sizes if first is None else _align_skipped(work, first, sizes)


def _align_skipped(work: Work, first: int, blocks: Blocks) -> Blocks:
    """`_align_heterogeneous_kv_block_size`: a quantised page covers one of the layers that are not quantised."""
    setup, traits = work.setup, work.traits
    if not work.facts.blocks.skipped_layers or not setup.skip_layers:
        return blocks
    query, backend = work.backend(first, traits.first_layers[first])
    heads = 1 if query.mla else rank_kv_heads(traits.num_kv_heads, setup.tp)
    size = traits.head_size
    # The first layer's backend packs (0.28+); before, the spec did, but not TurboQuant's.
    by_backend = work.facts.blocks.skipped_layers == "backend"
    packs = backend is work.chosen[first] if by_backend else not setup.kv_dtype.startswith("turboquant_")
    ours = token_bytes(setup.kv_dtype if packs or setup.kv_dtype == "auto" else "fp8", setup.dtype, heads, size, size)
    theirs = token_bytes("auto", setup.dtype, heads, size, size)
    if theirs == ours:
        return blocks
    smallest = min(kernel_blocks(backend, _model_query(query, traits)))
    step = max(smallest, blocks.block)
    block = max(blocks.block, step * cdiv(max(theirs * smallest, blocks.padded or 0), step * ours))
    page = block * ours
    return Blocks(block, blocks.mamba, page if blocks.padded else None, page)


def _preferred(work: Work, first: int) -> int:
    query, backend = work.backend(first, work.traits.first_layers[first])
    if not work.facts.blocks.from_backend:
        return platform_block(query, work.facts, work.setup.block_size, work.setup.attention_backend)
    if work.facts.blocks.hybrid == "config" and work.traits.is_hybrid:
        return 16
    if any(isinstance(m, Attention) and m.kind == "full" and m.indexer for m in work.traits.mixers):
        return FIXED_BLOCKS["MINIMAX_M3_SPARSE"]
    if query.sparse:  # the indexer's cache registers before the layer's own
        return FIXED_BLOCKS["DEEPSEEK_V32_INDEXER"]
    pairs = {choice.name: (work.queries[i], choice) for i, choice in work.chosen.items()} | {
        choice.name: (query, choice) for query, choice in work.plain.values()
    }
    if len(pairs) == 1 or not work.facts.blocks.from_all_backends:
        return preferred_block(backend, _model_query(query, work.traits))
    sizes = [kernel_blocks(choice, _model_query(query, work.traits)) for query, choice in pairs.values()]
    if all(any(16 % n == 0 for n in choices) for choices in sizes):
        return 16
    return min(math.lcm(*one_each) for one_each in itertools.product(*sizes))


def _model_query(query: Query, traits: Traits) -> Query:
    """A backend that is asked without a layer reads the model's head size (the largest of Gemma 4's two)."""
    return query if query.mla else replace(query, head_size=traits.head_size)


def platform_block(query: Query, facts: Facts, wanted: int | None, selected: str) -> int:
    """platforms/cuda.py check_and_update_config before 0.18: an MLA kernel has its own block, whatever was asked."""
    block = wanted or 16
    if not query.mla:
        return block
    if query.sparse:
        return 64
    if not selected:
        selected = "FLASHMLA"
        if query.major == 10:
            flashinfer = query.qk_nope == 128 and facts.blocks.mla_sm100 == "flashinfer"
            selected = "FLASHINFER_MLA" if flashinfer else "CUTLASS_MLA"
    if selected == "FLASHMLA" and query.major == 9 and block % 64:
        return 64
    if selected == "CUTLASS_MLA" and block % 128:
        return 128
    return 64 if selected == "FLASHINFER_MLA" and block != 32 and block % 64 else block


def _kernel_alignment(work: Work, first: int, block: int) -> tuple[int, int]:
    """(the block's granularity, what it is rounded up to besides)."""
    query, facts = work.queries[first], work.facts
    if facts.blocks.hybrid == "config":
        wide = facts.blocks.hybrid_of_32_on_sm100 and query.major == 10 and query.head_size == 256
        return (64 if query.mla else 32 if wide else 16), 1
    smallest = max(min(kernel_blocks(work.chosen[first], _model_query(query, work.traits))), block)
    if query.mla and facts.blocks.hybrid_mla_128:
        smallest = max(smallest, 128)
    if facts.blocks.hybrid != "lcm":
        return smallest, 1
    minima = [min(kernel_blocks(b, _model_query(work.queries[i], work.traits))) for i, b in work.chosen.items()]
    return smallest, math.lcm(*minima, *([FIXED_BLOCKS["DEEPSEEK_V32_INDEXER"]] if query.sparse else []))


def _align_hybrid(work: Work, first: int, block: int, own: int) -> Blocks:
    """`_align_hybrid_block_size`: one attention page holds one state."""
    setup, traits = work.setup, work.traits
    mamba = max(
        state_bytes(mixer, setup.tp, _config_drafts(work, mixer), setup.conv_dtype, setup.ssm_dtype, work.facts)
        for mixer in traits.mixers
        if isinstance(mixer, State)
    )
    mla = work.queries[first].mla
    heads = 1 if mla else rank_kv_heads(traits.num_kv_heads, setup.tp)
    per_token = token_bytes(setup.kv_dtype, setup.dtype, heads, traits.head_size, 0 if mla else traits.head_size)
    if setup.kv_dtype.startswith("turboquant_") and setup.skip_layers:
        # a page that both kinds of layers fill (interface.py:581, 0.21.0)
        per_token = math.lcm(per_token, token_bytes("auto", setup.dtype, heads, traits.head_size, traits.head_size))
    kernel, also = _kernel_alignment(work, first, block)
    if setup.mamba_mode == "all":
        chunk = math.lcm(setup.mamba_block_size or _chunk_size(traits), kernel)
        wanted = own = chunk * cdiv(cdiv(mamba, per_token), chunk)
    else:
        wanted = round_up(kernel * cdiv(mamba, kernel * per_token), also)
    block = max(block, wanted)
    if setup.mamba_mode == "align":
        own = block
    page = block * per_token
    return Blocks(block, own, None if page == mamba else page)


def _config_drafts(work: Work, state: State) -> int:
    """Speculative tokens as the model's class counts them in its state's size."""
    counted = state.kind in ("gdn", "kda") or any(
        work.model.architecture.startswith(architecture) for architecture in work.facts.states.counts_drafts
    )
    return work.setup.drafts if counted else 0


def _chunk_size(traits: Traits) -> int:
    return next((m.chunk_size for m in traits.mixers if isinstance(m, State) and m.chunk_size), 2048)
