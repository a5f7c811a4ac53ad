"""The peak of the profiling pass: which tensors are alive at once, phase by phase.

For T tokens every live tensor is T x width elements; a phase is a list of widths. The peak is what stays for good
(cuBLAS workspace, expert workspace) plus the widest phase, or the sampler's logits where max_num_seqs is large, or,
with an empty compile cache, the embedding table that Inductor clones while it tunes.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from oomph.engines.vllm.batch import Batch, Phase, PhaseKind
from oomph.engines.vllm.live import has_experts, layer_phases
from oomph.engines.vllm.live_experts import expert_workspace, quantises_input
from oomph.engines.vllm.traits import Traits
from oomph.facts.dtypes import nbytes
from oomph.facts.vllm import activation as facts, serving as sampling
from oomph.ir import Block, Layer, Linear, Mixer, Model, Term
from oomph.units import power_of_two, round_up


def activation(traits: Traits, batch: Batch) -> "Activation":
    """The torch peak above what was allocated when profiling began. A search asks for the same batch often, and only
    latent attention looks at the context."""
    return _activation(traits, batch if traits.is_mla else replace(batch, length=0))


class Activation(Struct, frozen=True):
    term: Term
    phase: Phase  # where the peak is


def forward_bytes(traits: Traits, batch: Batch) -> int:
    """The layers' own tensors at their peak, without what stays for good: workspaces, cuBLAS."""
    return _forward_bytes(traits, batch if traits.is_mla else replace(batch, length=0))


def forward_tensors(traits: Traits, batch: Batch) -> tuple[tuple[int, ...], ...]:
    """The tensors of each phase of a pass, in its order."""
    return _forward_tensors(traits, batch if traits.is_mla else replace(batch, length=0))


@lru_cache(maxsize=4096)
def _forward_tensors(traits: Traits, batch: Batch) -> tuple[tuple[int, ...], ...]:
    width = batch.tokens * nbytes(batch.dtype, 1)
    phases = (phase for phase, _ in _forward_phases(traits, batch))
    return tuple((*(wide * width for wide in phase.widths), phase.extra) for phase in phases)


@lru_cache(maxsize=4096)
def _forward_bytes(traits: Traits, batch: Batch) -> int:
    return max((phase.bytes for phase, _ in _forward_phases(traits, batch)), default=0)


def _forward_phases(traits: Traits, batch: Batch) -> Iterator[tuple[Phase, int]]:
    """Every phase of a pass, with the last layer that has it."""
    model = traits.model
    holding = facts.HOLDING.get(model.architecture, facts.Holding())
    embedded = batch.embeds and holding.lent_input
    lent = batch.tokens * model.hidden_size * nbytes(batch.dtype, 1) if embedded else 0
    for layer, last in _structure(traits)[0]:
        before = model.layers[max(0, last - 1)]
        for phase in layer_phases(model, layer, before, batch):
            yield replace(phase, bytes=max(0, phase.bytes - lent)), last
        if embedded and batch.compiled:  # only the first layer, whose kernels are tuned, runs on the lent buffer
            for phase in layer_phases(model, layer, before, replace(batch, cold=False)):
                yield phase, last


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


@lru_cache(maxsize=4096)
def _activation(traits: Traits, batch: Batch) -> Activation:
    top = max(_peaks(traits, batch), key=lambda p: p.bytes)
    total, phase = top.bytes, top.phase
    parts = {phase.name: phase.bytes, "expert workspace": top.workspace, "cuBLAS workspace": top.cublas}
    parts["encoder outputs"] = top.encoded
    slack = round(total * _spread(traits.model, batch, phase.kind))
    high = total + (total if phase.kind == "encoder" and not batch.encoder_traced else slack)
    parts = {name: size for name, size in parts.items() if size}
    term = Term("activation_peak", total, total - slack, high, "formula", parts, f"peak at: {phase.name}")
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


@lru_cache(maxsize=256)
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
