"""What a recurrent layer holds while prompts are read. Profiling runs no scan, so that the budget does not know it.

Mamba-2 and gated delta nets cut a prompt into chunks and keep a state at every chunk's end; a sequence begins a chunk
of its own, so that many short prompts need more than one long one. Counted in the source of vLLM 0.26.0 and equal to
the allocator's peak under load to 0.3 % in seven loads on an H200 (tests/engines/vllm/test_scan.py).
"""

from functools import lru_cache

from oomph.engines.vllm.batch import Batch
from oomph.engines.vllm.live import mixer_widths
from oomph.engines.vllm.traits import Traits
from oomph.facts.dtypes import TORCH, nbytes
from oomph.facts.vllm import activation as facts
from oomph.ir import Layer, Model, State
from oomph.units import cdiv

_GATED_CHUNK = 64  # third_party/flash_linear_attention/ops/utils.py FLA_CHUNK_SIZE
_MAMBA_CHUNK = 256  # mamba_chunk_size where a configuration is silent
_FLOAT = 4

Sizes = tuple[int, ...]


def scan_tensors(traits: Traits, batch: Batch, tokens: int, sequences: int) -> Sizes:
    """Bytes of the tensors alive at once in the widest recurrent layer while `sequences` prompts of `tokens` tokens
    together are read; () where no layer scans."""
    return _scan_tensors(traits, batch, tokens, sequences) if traits.has_state else ()


@lru_cache(maxsize=4096)
def _scan_tensors(traits: Traits, batch: Batch, tokens: int, sequences: int) -> Sizes:
    candidates = [
        one
        for layer in traits.recurrent_layers
        for state in layer.mixers
        if isinstance(state, State)
        for one in _alive(traits.model, layer, state, batch, tokens, max(1, min(sequences, tokens)))
    ]
    return max(candidates, key=sum, default=())


def _alive(model: Model, layer: Layer, state: State, batch: Batch, tokens: int, sequences: int) -> list[Sizes]:
    width = nbytes(batch.dtype, 1)
    around = tuple(tokens * wide * width for wide in _around(model, layer, batch))
    if state.kind == "mamba2":
        return [around + scanned for scanned in _mamba(model, state, batch, tokens, sequences)]
    if state.kind in ("gdn", "kda"):
        return [around + _gated(state, batch, tokens, sequences)]
    return []


def _around(model: Model, layer: Layer, batch: Batch) -> Sizes:
    """The layer's own: the input projection, the scan's output, and hidden states. Compiled, the residual alone."""
    holding = facts.HOLDING.get(model.architecture, facts.Holding())
    return mixer_widths(model, layer, batch) + (1 if batch.compiled else holding.scan) * (model.hidden_size,)


def _chunks(tokens: int, sequences: int, size: int) -> int:
    return sequences * cdiv(cdiv(tokens, sequences), size)


def _mamba(model: Model, state: State, batch: Batch, tokens: int, sequences: int) -> list[Sizes]:
    """ops/ssd_combined.py: the chunks' states in float32 and once more as they are passed on; later those, the chunks'
    products and every sequence's last state. Beside them the convolution's output and two sums of decays."""
    tp, width = batch.layout.tp, nbytes(batch.dtype, 1)
    size, heads = state.chunk_size or _MAMBA_CHUNK, max(1, state.num_heads // tp)
    groups = max(1, state.groups // tp)
    chunks = _chunks(tokens, sequences, size)
    one = heads * state.head_dim * state.state_size
    stored = _FLOAT if model.architecture.startswith("NemotronH") else _stored(state, batch)
    convolved = tokens * (max(1, state.intermediate // tp) + 2 * groups * state.state_size) * width
    decays = 2 * (heads * chunks * size * _FLOAT,)
    passing = chunks * one * _FLOAT, chunks * one * stored
    last = chunks * one * stored, chunks * groups * size * size * _FLOAT, sequences * one * stored
    return [(convolved, *decays, *passing), (convolved, *decays, *last)]


def _gated(state: State, batch: Batch, tokens: int, sequences: int) -> Sizes:
    """gdn/qwen_gdn_linear_attn.py and flash_linear_attention/ops/chunk.py: the convolution's output, query, key and
    value copied out of it, every sequence's first and last state, and between them the inverted chunk products, w, u,
    the states, the new values and the output. FlashInfer's kernel keeps what is between them to itself."""
    tp, width = batch.layout.tp, nbytes(batch.dtype, 1)
    heads, groups = max(1, state.num_heads // tp), max(1, (state.groups or state.num_heads) // tp)
    key_dim = state.key_dim or state.head_dim
    key, value = tokens * groups * key_dim * width, tokens * heads * state.head_dim * width
    one = heads * state.head_dim * key_dim
    stored = _stored(state, batch)
    ends = sequences * one * stored, sequences * one * _FLOAT
    copied = 2 * key + value, key, key, value
    if not batch.triton_gdn:
        return (*copied, *ends, value)
    products = tokens * heads * _GATED_CHUNK * width
    states = _chunks(tokens, sequences, _GATED_CHUNK) * one * width
    return (*copied, *ends, products, tokens * heads * key_dim * width, value, states, value, value)


def _stored(state: State, batch: Batch) -> int:
    """Bytes of an element of the cached state."""
    return nbytes(TORCH.get(state.dtype, state.dtype) or batch.dtype, 1)
