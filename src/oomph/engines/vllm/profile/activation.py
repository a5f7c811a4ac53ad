"""The peak of the profiling pass: which tensors are alive at once, phase by phase.

For T tokens every live tensor is T x width elements; a phase is a list of widths. The peak is what stays for good
(cuBLAS workspace, expert workspace) plus the widest phase, or the sampler's logits where max_num_seqs is large, or,
with an empty compile cache, the embedding table that Inductor clones while it tunes.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from oomph.engines.vllm.profile.batch import Batch, Phase, PhaseKind
from oomph.engines.vllm.profile.live import has_experts, layer_phases, mixer_widths
from oomph.engines.vllm.profile.live_experts import expert_workspace, quantises_input
from oomph.engines.vllm.traits import REMEMBERED, Traits
from oomph.facts.dtypes import TORCH, nbytes
from oomph.facts.vllm import activation as facts, serving as sampling
from oomph.ir import Block, Layer, Linear, Mixer, Model, State, Term
from oomph.units import cdiv, power_of_two, round_up


def activation(traits: Traits, batch: Batch) -> "Activation":
    """The torch peak above what was allocated when profiling began. A search asks for the same batch often, and only
    latent attention looks at the context."""
    return _activation(traits, batch if traits.is_mla else replace(batch, length=0))


class Activation(Struct, frozen=True):
    term: Term
    phase: Phase  # where the peak is


def forward_bytes(traits: Traits, batch: Batch) -> int:
    """The layers' own tensors at their peak, without what stays for good: workspaces, cuBLAS."""
    return max((phase.bytes for phase, _ in _forward_phases(traits, batch)), default=0)


def forward_tensors(traits: Traits, batch: Batch) -> tuple[tuple[int, ...], ...]:
    """The tensors of each phase of a pass, in its order."""
    width = batch.tokens * nbytes(batch.dtype, 1)
    phases = (phase for phase, _ in _forward_phases(traits, batch))
    return tuple((*(wide * width for wide in phase.widths), phase.extra) for phase in phases)


def _forward_phases(traits: Traits, batch: Batch) -> tuple[tuple[Phase, int], ...]:
    """Every phase of a pass, with the last layer that has it: the same on every stage, whatever is beside the layers,
    and but for latent attention for every number of sequences."""
    layout = replace(batch.layout, pp=1, pp_rank=0, tp_rank=0, partition=())
    layers = replace(
        batch, layout=layout, sm_count=0, first_stage=True, last_stage=True, drafts=0, draft_pass=(), encoder_bytes=0,
        encoder_kept=0, encoder_traced=False,
    )  # fmt: skip
    return _layers_phases(traits, layers if traits.is_mla else replace(layers, seqs=0, length=0, block_size=0))


@lru_cache(REMEMBERED)
def _layers_phases(traits: Traits, batch: Batch) -> tuple[tuple[Phase, int], ...]:
    model = traits.model
    holding = facts.HOLDING.get(model.architecture, facts.Holding())
    embedded = batch.embeds and holding.lent_input
    lent = batch.tokens * model.hidden_size * nbytes(batch.dtype, 1) if embedded else 0
    phases = []
    for layer, last in _structure(traits)[0]:
        before = model.layers[max(0, last - 1)]
        for phase in layer_phases(model, layer, before, batch):
            phases.append((replace(phase, bytes=max(0, phase.bytes - lent)), last))
        if embedded and batch.compiled:  # only the first layer, whose kernels are tuned, runs on the lent buffer
            phases += [(phase, last) for phase in layer_phases(model, layer, before, replace(batch, cold=False))]
    return tuple(phases)


def draft_tensors(model: Model, layers: Sequence[Layer], batch: Batch, states: int) -> tuple[int, ...]:
    """The drafter's widest layer beside what the model's pass left for it: `states` tensors of hidden states."""
    phases = [phase for layer in layers for phase in layer_phases(model, layer, layer, batch)]
    top = max(phases, key=lambda phase: phase.bytes, default=Phase("draft model", 0))
    one = batch.tokens * nbytes(batch.dtype, 1)
    return (*(wide * one for wide in states * (model.hidden_size,) + top.widths), top.extra)


class _Peak(Struct, frozen=True):
    """A phase with what is allocated beside it by then."""

    phase: Phase
    workspace: int
    cublas: int
    encoded: int = 0  # the multimodal encoder's batch and outputs

    @property
    def bytes(self) -> int:
        return self.phase.bytes + self.workspace + self.cublas + self.encoded


@lru_cache(REMEMBERED)
def _activation(traits: Traits, batch: Batch) -> Activation:
    top = max(_peaks(traits, batch), key=lambda p: p.bytes)
    total, phase = top.bytes, top.phase
    parts = {phase.name: phase.bytes, "expert workspace": top.workspace, "cuBLAS workspace": top.cublas}
    parts["encoder outputs"] = top.encoded
    slack = round(total * _spread(traits.model, batch, phase.kind))
    high = total + (total if phase.kind == "encoder" and not batch.encoder_traced else slack)
    parts = {name: size for name, size in parts.items() if size}
    term = Term("activation_peak", total, total - slack, high, "formula", parts, why=f"peak at: {phase.name}")
    return Activation(term, phase)


def _peaks(traits: Traits, batch: Batch) -> Iterator[_Peak]:
    model, width = traits.model, nbytes(batch.dtype, 1)
    layers, first = _structure(traits)
    workspace = (
        max((expert_workspace(x.block, batch) for x, _ in layers), default=0) if batch.rules.moe_workspace else 0
    )
    cublas = facts.cublas_workspace(batch.sm)
    # Kernels that are not cuBLAS run the quantised projections: its workspace then comes with the output head.
    early = 0 if _all_quantised(layers) else cublas
    outputs = batch.encoder_kept
    for phase, last in _forward_phases(traits, batch):
        # the first layer's experts allocate the workspace: what runs ahead of them does without
        ahead = last < first or (last == first and phase.before_experts)
        yield _Peak(phase, 0 if ahead else workspace, early, outputs)
    if batch.last_stage:
        yield _Peak(_sampler(model, batch, width), workspace, cublas, outputs)
    if batch.last_stage and batch.draft_pass:
        yield _Peak(Phase("draft model", sum(batch.draft_pass)), workspace, cublas, outputs)
    if batch.compiled and batch.cold and batch.first_stage and not batch.embeds:
        yield _Peak(_cold_embedding(model, batch, width), 0, 0)  # compiled before the experts' workspace is there
        if batch.tuned_states and batch.runner == "v2":
            yield _Peak(_cold_draft(model, batch, width), 0, 0)
    if batch.encoder_bytes:
        yield _Peak(Phase("multimodal encoder", batch.encoder_bytes, "encoder"), 0, cublas)


def _spread(model: Model, batch: Batch, phase: PhaseKind) -> float:
    """How far the formula was off where it was checked; an architecture that nobody traced may be much further off."""
    if phase == "encoder":
        return 0.15 if batch.encoder_traced else 0.5
    if phase in ("sampler", "embedding"):
        return 0.05
    return 0.04 if model.architecture in facts.TRACED else 0.15


_Kinds = list[tuple[Layer, int]]


@lru_cache(REMEMBERED)
def _structure(traits: Traits) -> tuple[_Kinds, int]:
    """Each kind of layer once, with the index of its last occurrence; and the first layer that has experts."""
    kinds: dict[tuple[Block, tuple[Mixer, ...]], tuple[Layer, int]] = {}
    for layer in traits.model.layers:
        key = (layer.block, layer.mixers)
        kinds[key] = (kinds[key][0] if key in kinds else layer, layer.index)
    first = min((x.index for x, _ in kinds.values() if has_experts(x)), default=len(traits.model.layers))
    return list(kinds.values()), first


def _all_quantised(layers: list[tuple[Layer, int]]) -> bool:
    return all(module.scheme is not None for x, _ in layers for module in x.block.modules if isinstance(module, Linear))


# --- outside the layers --------------------------------------------------------------------------------------------


def _sampler(model: Model, batch: Batch, width: int) -> Phase:
    """V2: the logits alone, since a batch that asks for nothing is sampled without a copy (traces of 0.26.0).
    V1: logits in the model's dtype and three float32 copies, the hidden states of the batch and of the sampled
    rows, and the top-k/top-p kernel's buffer of one float32 row a program (topk_topp_triton.py:1010); where tokens are
    drafted, one for each sequence is verified too (gpu_model_runner.py:6244, 0.26.0), whatever the number of drafts. A
    rank's own part of gathered logits is gone by then: a 70B model printed 4.84 GiB with one rank and with two
    (0.11.0)."""
    vocabulary, tokens, hidden = model.vocab_size, batch.tokens, model.hidden_size
    seqs = min(batch.seqs, batch.tokens)
    if model.pooling:
        return Phase("pooler", 3 * tokens * hidden * width + seqs * hidden * 4, "pooler")
    if batch.runner == "v2":
        copies = width + 4 * batch.rules.v2_copies
        return Phase("sampler", tokens * hidden * width + seqs * vocabulary * copies + seqs * hidden * width, "sampler")
    if batch.rules.sampler_passes == "old":
        return Phase(
            "sampler", tokens * hidden * width + round(facts.OLD_SAMPLER_COPIES * 4 * seqs * vocabulary), "sampler"
        )
    buffer = 4 * vocabulary * min(power_of_two(min(seqs, batch.sm_count)), batch.sm_count)
    each = sampling.v1_drafted(width, 1) if batch.drafts else width + sampling.V1_SAMPLING
    return Phase(
        "sampler", tokens * hidden * width + seqs * vocabulary * each + buffer + 2 * seqs * hidden * width, "sampler"
    )


def _cold_embedding(model: Model, batch: Batch, width: int) -> Phase:
    """Inductor tunes the embedding's kernel on a clone of its table (measured: the table and two batches of hidden
    states, to 0.1 %). Where the kernel quantises the first layer's input too, it is timed with the L2 cache flushed
    (measured with FP8 in blocks: the table, one batch and a buffer as large as the cache)."""
    rows = round_up(model.vocab_size, 64) // batch.layout.tp
    table, states = rows * model.hidden_size * width, batch.tokens * model.hidden_size * width
    first = (
        next((module for module in model.layers[0].block.modules if isinstance(module, Linear)), None)
        if model.layers
        else None
    )
    timed = first is not None and quantises_input(first.scheme, batch.sm)
    tuned = max(states, batch.l2_bytes) if timed else states
    return Phase("compile cache is empty", table + states + tuned, "embedding")


def _cold_draft(model: Model, batch: Batch, width: int) -> Phase:
    """A drafter's first kernel embeds, normalises and joins: it is tuned on clones of the table, of the states that it
    reads and of what it writes, beside what the model's pass left."""
    rows = round_up(model.vocab_size, 64) // batch.layout.tp
    states = batch.tuned_states * batch.tokens * model.hidden_size * width
    return Phase("compile cache of the draft is empty", rows * model.hidden_size * width + states, "embedding")


# What a recurrent layer holds while prompts are read. Profiling runs no scan, so that the budget does not know it.
#
# Mamba-2 and gated delta nets cut a prompt into chunks and keep a state at every chunk's end; a sequence begins a chunk
# of its own, so that many short prompts need more than one long one. Counted in the source of vLLM 0.26.0 and equal to
# the allocator's peak under load to 0.3 % in seven loads on an H200 (tests/engines/vllm/test_scan.py).

_GATED_CHUNK = 64  # third_party/flash_linear_attention/ops/utils.py FLA_CHUNK_SIZE
_MAMBA_CHUNK = 256  # mamba_chunk_size where a configuration is silent
_FLOAT = 4

Sizes = tuple[int, ...]


def scan_tensors(traits: Traits, batch: Batch, tokens: int, sequences: int) -> Sizes:
    """Bytes of the tensors alive at once in the widest recurrent layer while `sequences` prompts of `tokens` tokens
    together are read; () where no layer scans."""
    return _scan_tensors(traits, batch, tokens, sequences) if traits.has_state else ()


@lru_cache(REMEMBERED)
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
