"""After the KV cache: what capture takes, what warm-up leaves, and what the fullest batch of requests needs.

Two figures differ here. What a pass *needs* must be free at once, or the server dies. What it *keeps* is what
nvidia-smi shows afterwards: PyTorch does not give memory back, sizes of different passes do not match, and so a part of
every pass stays reserved until the driver refuses an allocation; only then is it freed. Capture empties the cache.
The laws are from allocator traces of vLLM 0.26.0 on an H200 (tests/truth/h200-served.jsonl).
"""

from msgspec import Struct
from msgspec.structs import replace

from oomph.engines.vllm.graphs.memory import Graphs, v2_captured
from oomph.engines.vllm.profile.activation import forward_bytes, forward_tensors, scan_tensors
from oomph.engines.vllm.profile.batch import Batch
from oomph.engines.vllm.profile.encoder import Encoder
from oomph.engines.vllm.serving.kept import PROMPT, SHORT_PROMPT, Kept, Passes, play
from oomph.engines.vllm.traits import Traits
from oomph.facts.dtypes import nbytes
from oomph.facts.vllm import serving as facts
from oomph.ir import Model, Term
from oomph.units import GIB, MIB, cdiv

# Chosen from 27 start-ups. What a pass needs beyond its tensors: rounding, pieces that do not fit together. What it
# leaves: a forward pass has tensors of many sizes, more so where inputs are quantised, a sampling pass of one; and of
# the smaller passes a part stays beside the largest.
_ROUNDING = 0.05
_FORWARD_KEPT, _QUANTISED_KEPT, _SAMPLING_KEPT = 1.3, 1.7, 1.08
_OTHERS_V1, _OTHERS_V2 = 0.6, 0.35
# What is in use beside the played passes: kernels loaded after profiling, and in the V1 runner a segment that a buffer
# made while profiling keeps from being given back. Measured: the median of 30 and of 31 start-ups.
_BESIDE_V1, _BESIDE_V2 = 150 * MIB, 60 * MIB
_CAPTURE_V1 = 1.25  # actual over estimated, in the same start-ups
_CAPTURE_OFF = 0.35


class Load(Struct, frozen=True):
    """Requests of one kind, and the working memory of the step that serves them."""

    name: str
    bytes: int
    reserved: float = _SAMPLING_KEPT  # what it leaves reserved, over what it needs


class Working(Struct, frozen=True):
    """Working memory beyond what is resident."""

    needed: Term  # must be free at once
    reserved: Term  # stays reserved while there is room
    worst: int = 0  # must be free at once if every request asks for every sampling option


def captured(estimate: Term, graphs: Graphs, batch: Batch) -> Term:
    """What capture takes in the end."""
    if not graphs.largest:
        return Term("captured", 0, 0, 0, "exact", {}, why="no CUDA graphs")
    if estimate.basis == "given" or "first capture" not in estimate.parts:
        n = estimate.bytes
    elif batch.runner == "v2":
        n = v2_captured(estimate.parts)
    else:
        n = round(_CAPTURE_V1 * estimate.bytes)
    off = (estimate.high - estimate.bytes) / max(1, estimate.bytes)
    slack = round(max(_CAPTURE_OFF, off) * n)
    return Term("captured", n, n - slack, n + slack, "measured", {}, why="CUDA graphs as captured")


def after_start(
    traits: Traits, batch: Batch, rules: facts.AfterStart, graphs: Graphs, seen: Encoder
) -> tuple[Working, Working]:
    """Of warm-up and of a full batch of requests."""
    batch = replace(batch, cold=False, profiling=False)
    played = _played(traits, batch, rules, graphs, seen)
    return _warm_up(traits, batch, rules, graphs, played), _serving(traits, batch, rules, seen, played)


def _warm_up(traits: Traits, batch: Batch, rules: facts.AfterStart, graphs: Graphs, played: Kept | None) -> Working:
    """Everything between the KV cache and the first request."""
    cold = _is_cold(batch, rules, graphs)
    passes = [Load("warm-up", 0) if cold else _warm_sampling(traits.model, batch, rules)]
    if _is_tuned(batch, rules, graphs):
        passes.append(Load("a batch of max_num_batched_tokens", forward_bytes(traits, batch), _forward_kept(traits)))
    working = _working("warm_up", passes, batch)
    return Working(working.needed, _as_played(working.reserved, played.warmed, batch)) if played else working


def _serving(traits: Traits, batch: Batch, rules: facts.AfterStart, seen: Encoder, played: Kept | None) -> Working:
    """A full batch: prompts at the batch limit, every sequence decoding, images. What it keeps and the worst case
    count penalties and log-probabilities in every request; the V2 runner warms up with the very passes that requests
    run."""
    prompts, decoding, images, options, *_ = loads(traits, batch, seen)
    ordinary = _working("serving", [prompts, decoding, images], batch, seen.outputs)
    total = played.loaded + seen.outputs if played else 0
    if batch.runner == "v2":
        return Working(ordinary.needed, _as_played(ordinary.reserved, total, batch)) if played else ordinary
    warmed = _warm_sampling(traits.model, batch, rules)
    full = _working("serving", [warmed, prompts, options, images], batch, seen.outputs)
    reserved = _as_played(full.reserved, total, batch) if played else full.reserved
    return Working(ordinary.needed, reserved, full.needed.high)


def _is_cold(batch: Batch, rules: facts.AfterStart, graphs: Graphs) -> bool:
    """Does the server begin without a warm-up of its sampler? --enforce-eager: neither compiled nor captured."""
    return batch.runner == "v2" and rules.v2_eager_is_cold and not batch.compiled and not graphs.largest


def _is_tuned(batch: Batch, rules: facts.AfterStart, graphs: Graphs) -> bool:
    """Is the cache left by a whole batch? Capture empties it."""
    return rules.tunes_kernels and batch.sm >= 90 and not graphs.largest


def _as_played(reserved: Term, total: int, batch: Batch) -> Term:
    """The interval is that of the passes' sum."""
    total += _BESIDE_V2 if batch.runner == "v2" else _BESIDE_V1
    return replace(
        reserved, bytes=total, low=min(reserved.low, round(0.9 * total)), high=max(reserved.high, round(1.1 * total))
    )


def _played(traits: Traits, batch: Batch, rules: facts.AfterStart, graphs: Graphs, seen: Encoder) -> Kept | None:
    """What the passes leave, where logits are sampled."""
    model = traits.model
    if model.pooling or not batch.last_stage:
        return None
    short = min(batch.seqs, max(1, batch.tokens // SHORT_PROMPT))
    forward, v2 = forward_tensors(traits, batch), batch.runner == "v2"
    passes = Passes(
        profiled=(() if v2 else seen.profiled) + forward_tensors(traits, replace(batch, profiling=True)),
        forward=(*forward, batch.draft_pass),
        scan=scan_tensors(traits, batch, batch.tokens, min(batch.seqs, cdiv(batch.tokens, PROMPT))),
        short_scan=scan_tensors(traits, batch, min(batch.tokens, short * SHORT_PROMPT), short),
        encoder=seen.served,
        tokens=batch.tokens,
        sequences=min(batch.seqs, batch.tokens // (1 + batch.drafts)),
        vocabulary=model.vocab_size,
        width=nbytes(batch.dtype, 1),
        drafts=batch.drafts,
        warmed_by_forward=_is_tuned(batch, rules, graphs),
        warmed_by_sampling=not _is_cold(batch, rules, graphs),
        emptied=v2 and rules.v2_captures_last and graphs.largest > 0,
        v2=v2,
        programs=min(batch.seqs, batch.sm_count),
    )
    return play(passes)


def loads(traits: Traits, batch: Batch, seen: Encoder) -> list[Load]:
    """What requests may bring about. The last two depend on what a request asks for: penalties and log-probabilities,
    and prompt log-probabilities, which the V1 runner makes for all prompt tokens of a step at once."""
    model, width = traits.model, nbytes(batch.dtype, 1)
    v1 = batch.runner != "v2"
    samples = batch.last_stage and not model.pooling
    rows = min(batch.seqs, batch.tokens // (1 + batch.drafts)) * samples
    decoding = _sampling(model, batch, rows, batch.drafts)
    scanned = sum(scan_tensors(traits, batch, batch.tokens, batch.seqs))
    prompts = max(forward_bytes(traits, batch), scanned)
    every = facts.v1_drafted_every_option(width, batch.drafts) if batch.drafts else width + facts.V1_EVERY_OPTION
    options = rows * model.vocab_size * every if v1 else decoding
    chunk = batch.tokens if v1 else min(batch.tokens, facts.V2_PROMPT_CHUNK)
    each = width + facts.V1_PROMPT_LOGPROBS if v1 else 2 * width
    return [
        Load("prompts at the batch limit", prompts, _forward_kept(traits)),
        Load("every sequence decoding", decoding),
        Load("images at the encoder's limit", seen.served_bytes, _FORWARD_KEPT),
        Load("every sequence decoding with penalties and log-probabilities", options),
        Load("prompt log-probabilities", chunk * model.vocab_size * each * samples),
    ]


def _sampling(model: Model, batch: Batch, rows: int, drafts: int) -> int:
    """A row of logits for each sequence; with drafts, the step that verifies them, or, in the V2 runner, the one that
    follows the prompts where that is larger."""
    width = nbytes(batch.dtype, 1)
    if model.pooling or not batch.last_stage:
        return 0
    if batch.runner == "v2":
        return rows * model.vocab_size * max(2 * width + facts.V2_SAMPLING, (1 + drafts) * 2 * width)
    return rows * model.vocab_size * (facts.v1_drafted(width, drafts) if drafts else width + facts.V1_SAMPLING)


def _warm_sampling(model: Model, batch: Batch, rules: facts.AfterStart) -> Load:
    """V1 samples for every sequence and verifies one draft for each; V2 has each sequence read two tokens more than its
    drafts and decode once."""
    rows = min(batch.seqs, batch.tokens)
    if batch.runner == "v2":
        if not rules.v2_warm_up:
            return Load("warm-up", 0)
        rows = min(batch.seqs, batch.tokens // (2 + batch.drafts))
        return Load("warm-up", _sampling(model, batch, rows, batch.drafts))
    return Load("warm-up", _sampling(model, batch, rows, min(1, batch.drafts)))


def _forward_kept(traits: Traits) -> float:
    return _QUANTISED_KEPT if traits.has_eight_bit_inputs else _FORWARD_KEPT


def _working(name: str, passes: list[Load], batch: Batch, cached_outputs: int = 0) -> Working:
    top = max(passes, key=lambda p: p.bytes)
    largest, others = top.bytes, sum(p.bytes for p in passes) - top.bytes
    parts = {p.name: p.bytes for p in passes if p.bytes}
    why = f"largest pass: {top.name}" if largest else ""
    need = round((1 + _ROUNDING) * largest) + cached_outputs
    needed = Term(
        name,
        need,
        min(need, round(0.95 * largest)),
        need + round(0.15 * largest) + 64 * MIB,
        "measured",
        parts,
        why=why,
    )
    share = _OTHERS_V2 if batch.runner == "v2" else _OTHERS_V1
    keep = max((round(p.reserved * p.bytes + share * (largest + others - p.bytes)) for p in passes), default=0)
    keep = max(need, keep + cached_outputs)
    high = round(1.3 * (largest + others)) + cached_outputs + GIB // 4
    reserved = Term(name, keep, min(keep, round(0.85 * largest)), max(keep, high), "measured", parts, why=why)
    return Working(needed, reserved)


def risk_text(needed: Term, tokens: int, seqs: int) -> str:
    """The load that breaks a server which started."""
    largest = max(needed.parts, key=lambda name: needed.parts[name], default="")
    size = f"{tokens:,} tokens per step, {seqs:,} sequences"
    return f"{largest} ({size}) needs {needed.bytes / GIB:.2f} GiB beyond what the start leaves in use"
