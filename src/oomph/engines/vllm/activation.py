"""The peak of the profiling pass: which tensors are alive at once, phase by phase.

For T tokens every live tensor is T x width elements; a phase is a list of widths. The peak is what stays for good
(cuBLAS workspace, expert workspace) plus the widest phase, or the sampler's logits where max_num_seqs is large, or,
with an empty compile cache, the embedding table that Inductor clones while it tunes.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from oomph.engines.vllm.shard import Layout, in_features, outs
from oomph.facts.dtypes import nbytes
from oomph.facts.vllm import activation as facts
from oomph.ir.ledger import Term
from oomph.ir.model import Attention, Block, Experts, Layer, Linear, Mixer, Model, Param, State
from oomph.units import round_up


class Batch(Struct, frozen=True):
    """The profiling batch and what runs it."""

    tokens: int
    seqs: int
    length: int
    dtype: str
    layout: Layout
    sm: int
    sm_count: int
    rules: facts.ProfileRules
    compiled: bool
    cold: bool
    runner: str = "v1"
    drafts: int = 0
    last_stage: bool = True
    first_stage: bool = True
    encoder_bytes: int = 0
    triton_gdn: bool = True  # gated delta nets prefill with Triton kernels (FlashInfer's on Hopper unless told so)


class Phase(Struct, frozen=True):
    name: str
    bytes: int


_TERMS: dict[tuple[int, Batch], tuple[Model, Term]] = {}


def activation(model: Model, batch: Batch) -> Term:
    """The torch peak above what was allocated when profiling began. Kept: a search asks for the same batch often, and
    only latent attention looks at the context."""
    layers, _ = _structure(model)
    if not any(isinstance(m, Attention) and m.kind == "mla" for x, _ in layers for m in x.mixers):
        batch = replace(batch, length=0)
    key = (id(model), batch)
    found = _TERMS.get(key)
    if found is None or found[0] is not model:
        if len(_TERMS) > 4096:
            _TERMS.clear()
        found = _TERMS[key] = (model, _activation(model, batch))
    return found[1]


def _activation(model: Model, batch: Batch) -> Term:
    held = facts.HOLDING.get(model.architecture, facts.Holding())
    width = nbytes(batch.dtype, 1)
    layers, first = _structure(model)
    workspace = (
        max((_expert_workspace(x.block, batch) for x, _ in layers), default=0) if batch.rules.moe_workspace else 0
    )
    cublas = _cublas(model, batch)
    phases = []
    for layer, last in layers:
        before = workspace if last < first else 0  # dense layers ahead of all experts run before their workspace exists
        phases += [replace(p, bytes=p.bytes - before) for p in _layer_phases(model, layer, held, batch, width)]
    if batch.last_stage:
        phases.append(_sampler(model, batch, width))
    if batch.compiled and batch.cold and batch.first_stage:
        phases.append(_cold_embedding(model, batch, width))
    if batch.encoder_bytes:
        phases.append(Phase("multimodal encoder", batch.encoder_bytes))
    top = max(phases, key=lambda p: p.bytes)
    # Kernels that are not cuBLAS run the quantised projections: its workspace then comes with the output head.
    early = 0 if top.name == "compile cache is empty" or (top.name != "sampler" and _all_quantised(layers)) else cublas
    total = workspace + early + top.bytes
    spread = _spread(model, top.name)
    parts = {top.name: top.bytes, "expert workspace": workspace, "cuBLAS workspace": early}
    slack = round(total * spread)
    high = total + (total if top.name == "multimodal encoder" else slack)
    return Term(
        "activation_peak", total, total - slack, high, "formula",
        {k: v for k, v in parts.items() if v}, f"peak at: {top.name}",
    )  # fmt: skip


def _spread(model: Model, phase: str) -> float:
    """How far the law was off where it was checked; what was never measured is said to be so."""
    if phase == "sampler":
        return 0.05
    if phase in ("attention", "mlp", "compile cache is empty"):
        return 0.03
    if phase == "multimodal encoder":
        return 0.5
    return 0.15


_Kinds = list[tuple[Layer, int]]
_STRUCTURES: dict[int, tuple[Model, _Kinds, int]] = {}


def _structure(model: Model) -> tuple[_Kinds, int]:
    """Each kind of layer once, with the index of its last occurrence; and the first layer that has experts."""
    found = _STRUCTURES.get(id(model))
    if found is None or found[0] is not model:
        kinds: dict[tuple[int, tuple[Mixer, ...]], tuple[Layer, int]] = {}
        for layer in model.layers:
            key = (id(layer.block), layer.mixers)
            kinds[key] = (kinds[key][0] if key in kinds else layer, layer.index)
        first = min((x.index for x, _ in kinds.values() if _has_experts(x)), default=len(model.layers))
        if len(_STRUCTURES) > 256:
            _STRUCTURES.clear()
        found = _STRUCTURES[id(model)] = (model, list(kinds.values()), first)
    return found[1], found[2]


def _has_experts(layer: Layer) -> bool:
    return any(isinstance(m, Experts) for m in layer.block.modules)


def _all_quantised(layers: list[tuple[Layer, int]]) -> bool:
    return all(m.scheme is not None for x, _ in layers for m in x.block.modules if isinstance(m, Linear))


def _cublas(model: Model, batch: Batch) -> int:
    return facts.CUBLAS_WORKSPACE_HOPPER if batch.sm >= 90 else facts.CUBLAS_WORKSPACE


# --- one layer -----------------------------------------------------------------------------------------------------


def _layer_phases(model: Model, layer: Layer, held: facts.Holding, batch: Batch, width: int) -> Iterator[Phase]:
    h, t = model.hidden_size, batch.tokens
    for mixer in layer.mixers:
        if isinstance(mixer, Attention):
            elements = (
                _mla(mixer, layer.block, batch) if mixer.kind == "mla" else _attention(model, mixer, layer.block, batch)
            )
            extra = _mla_workspace(mixer, batch, width) if mixer.kind == "mla" and batch.rules.mla_workspace else 0
            alive = held.attention - 1 if mixer.kind == "mla" else held.attention
            yield Phase(
                "attention", t * (elements + alive * h) * width + extra + _requantised(layer.block, "attention", batch)
            )
        else:
            state = _state(mixer, layer.block, batch, scaled=len(layer.mixers) > 1)
            tuned = mixer.kind == "gdn" and batch.rules.tunes_gdn and batch.triton_gdn
            flush = facts.TRITON_FLUSH_BYTES if tuned else 0
            yield Phase("recurrent layer", t * (state + held.state * h) * width + flush)
    mlp = _mlp(layer.block, batch)
    if mlp:
        extra = _requantised(layer.block, "mlp", batch) if held.keeps_gate_up else 0
        yield Phase("mlp", t * (mlp + held.mlp * h) * width + extra)
    shared = _mlp(layer.block, batch, role="shared_experts")
    if _has_experts(layer):
        kernel = _monolithic_experts(layer.block, batch)
        yield Phase("experts", t * (max(shared, kernel) + 4 * h) * width)


def _linears(block: Block, role: str) -> list[Linear]:
    return [m for m in block.modules if isinstance(m, Linear) and m.role == role]


def _attention(model: Model, m: Attention, block: Block, batch: Batch) -> int:
    """qkv, the normalised copies of q, k (and v), and the attention output."""
    tp = batch.layout.tp
    projections = [x for x in _linears(block, "attention") if x.shard != "row"]
    widest = max((sum(outs(x, tp)) for x in projections), default=0)
    heads, kv = max(1, m.num_heads // tp), max(1, m.num_kv_heads // tp)
    names = {x.name for x in block.modules if isinstance(x, Param)}
    normalised = 0
    if any("q_norm" in n for n in names):
        normalised += heads * m.head_dim + kv * m.head_dim
        if model.architecture in facts.NORMALISES_V:
            normalised += kv * m.head_dim_v
    return widest + normalised + heads * m.head_dim_v


def _mla(m: Attention, block: Block, batch: Batch) -> int:
    """deepseek_v2.py: the down projection, the query heads and the latent key-value state."""
    tp = batch.layout.tp
    query = max(1, m.num_heads // tp) * (m.qk_nope_head_dim + m.qk_rope_head_dim)
    down = sum(sum(outs(x, tp)) for x in _linears(block, "attention") if x.shard == "replicated")
    return query + down


def _mla_workspace(m: Attention, batch: Batch, width: int) -> int:
    """mla_attention.py:634 (0.21.0): room for the keys and values of chunked context, allocated while profiling."""
    block = 16
    tokens = min(max(8 * batch.length, 4 * batch.seqs * block), 64 * 1024)
    return tokens * max(1, m.num_heads // batch.layout.tp) * (m.qk_nope_head_dim + m.head_dim_v) * width


def _mlp(block: Block, batch: Batch, *, role: str = "mlp") -> int:
    """gate_up and its activation; an MLP without a gate holds up, its activation and the activation's square."""
    tp = batch.layout.tp
    ups = [sum(outs(x, tp)) for x in _linears(block, role) if x.shard == "column"]
    downs = [in_features(x, tp) for x in _linears(block, role) if x.shard == "row"]
    if not ups or not downs:
        return 0
    up, down = max(ups), max(downs)
    return up + down if up >= 2 * down else 3 * down


def _requantised(block: Block, role: str, batch: Batch) -> int:
    """FP8 activations: the row projection's input once more in one byte, with a float32 scale for every 128."""
    total = 0
    for x in _linears(block, role):
        if x.shard == "row" and x.scheme is not None and x.scheme.input_bits == 8 and x.scheme.strategy == "block":
            k = in_features(x, batch.layout.tp)
            total = max(total, batch.tokens * (k + k // 128 * 4))
    return total


def _state(m: State, block: Block, batch: Batch, *, scaled: bool) -> int:
    """mamba_mixer2.py: the input projection (and a scaled copy beside an attention mixer), the scan's output and its
    gated norm."""
    tp = batch.layout.tp
    linears = [x for x in _linears(block, "linear_attn") if x.shard != "row"]
    widest = max((sum(outs(x, tp)) for x in linears), default=0)
    if m.kind in ("gdn", "kda"):
        # gdn_linear_attn.py:737: qkvz, a copy of z, b and a twice, the attention's output
        return widest + 2 * (m.num_heads * m.head_dim // tp) + 4 * (m.num_heads // tp)
    return widest * (2 if scaled else 1) + 2 * max(1, m.intermediate // tp)


def _expert_workspace(block: Block, batch: Batch) -> int:
    """fused_moe.py TritonExperts.workspace_shapes: two buffers of tokens x top_k rows, shared by all layers."""
    best = 0
    for e in (m for m in block.modules if isinstance(m, Experts)):
        if e.scheme is not None and e.scheme.method == "mxfp4":
            continue
        ranks = 1 if batch.layout.expert_parallel else batch.layout.moe_ranks
        inter = e.intermediate // ranks
        wide = inter * (2 if e.gated else 1)
        rows = batch.tokens * e.top_k
        width = nbytes(batch.dtype, 1)
        best = max(
            best, round_up(rows * max(inter, e.hidden) * width, 256) + round_up(rows * max(wide, e.hidden) * width, 256)
        )
    return best


def _monolithic_experts(block: Block, batch: Batch) -> int:
    """MXFP4 experts through triton_kernels: both products of tokens x top_k rows, not kept."""
    for e in (m for m in block.modules if isinstance(m, Experts)):
        if e.scheme is not None and e.scheme.method == "mxfp4":
            ranks = 1 if batch.layout.expert_parallel else batch.layout.moe_ranks
            return e.top_k * (e.intermediate // ranks + e.hidden)
    return 0


# --- outside the layers --------------------------------------------------------------------------------------------


def _sampler(model: Model, batch: Batch, width: int) -> Phase:
    """V1: logits in the model's dtype and three float32 copies, the hidden states of the batch and of the sampled
    rows, and the top-k/top-p kernel's buffer of one float32 row a program (topk_topp_triton.py:1010). A rank's own part
    of gathered logits is gone by then: a 70B model printed 4.84 GiB with one rank and with two (0.11.0)."""
    v, t, h = model.vocab_size, batch.tokens, model.hidden_size
    s = min(batch.seqs, batch.tokens)
    if model.pooling:
        return Phase("pooler", 3 * t * h * width + s * h * 4)
    if batch.runner == "v2":
        return Phase("sampler", t * h * width + s * v * (width + 4) + 2 * s * h * width)
    if batch.rules.sampler_passes == "old":
        return Phase("sampler", t * h * width + round(facts.OLD_SAMPLER_COPIES * 4 * s * v))
    buffer = 4 * v * min(_power_of_2(min(s, batch.sm_count or 132)), batch.sm_count or 132)
    drafts = 4 * v * 2 * s if batch.drafts else 0
    return Phase("sampler", t * h * width + s * v * (width + 12) + buffer + drafts + 2 * s * h * width)


def _power_of_2(n: int) -> int:
    return 1 << max(0, n - 1).bit_length()


def _cold_embedding(model: Model, batch: Batch, width: int) -> Phase:
    """Inductor tunes the embedding's kernel on a clone of its table (measured: the table and two batches of hidden
    states, to 0.1 %)."""
    rows = round_up(model.vocab_size, 64) // batch.layout.tp
    size = rows * model.hidden_size * width + 2 * batch.tokens * model.hidden_size * width
    return Phase("compile cache is empty", size)
