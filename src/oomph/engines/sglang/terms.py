"""What one rank's memory is made of: every term of the ledger, from the settings to bytes."""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from oomph.engines.common.created import Placed
from oomph.engines.common.ranks import Rank
from oomph.engines.sglang.drafts import drafter_bytes
from oomph.engines.sglang.resolve.settings import ModelShape, Settings
from oomph.engines.sglang.weights.created import RankPlace, RankWeights, rank_weights
from oomph.engines.sglang.weights.lora import Lora, lora_of, slot_bytes
from oomph.engines.sglang.weights.online import as_loaded
from oomph.facts import unified
from oomph.facts.dtypes import nbytes
from oomph.facts.sglang import outside
from oomph.facts.sglang.drafts import FAMILY
from oomph.facts.sglang.facts import Facts
from oomph.ir import Attention, Basis, Deployment, Device, Experts, Linear, Model, State, Term
from oomph.ir.gate import quadrature
from oomph.units import GIB

DEFAULT_MULTIPROCESSORS = 132  # an H100's, where a card's multiprocessors are not known


class Terms(Struct, frozen=True):
    context: Term  # everything outside PyTorch before the first weight
    weights: Term
    load_peak: Term
    cudagraph: Term
    activation: Term
    created_bytes: int
    free_before_load: Term
    drafter_bytes: int = 0  # its weights


def rank_terms(
    model: Model,
    shape: ModelShape,
    settings: Settings,
    facts: Facts,
    deployment: Deployment,
    rank: Rank,
    draft: Model | None = None,
) -> Terms:
    device = rank.device
    context = deployment.pin(_context(device, settings.tp_size * settings.pp_size))
    place = RankPlace(rank.pp_rank, device.sm)
    loaded = as_loaded(model, str(deployment.flags.get("quantization") or ""))
    created = rank_weights(loaded, shape, settings, facts, place)
    host = offloaded_bytes(created.places, deployment.flags.get("cpu_offload_gb"))
    drafter = drafter_bytes(model, draft, shape, settings, facts, place) if settings.drafts else 0
    weights = _in_host_memory(_weights(model, shape, settings, created, online=loaded is not model), host)
    weights = _with_slots(weights, model, settings, lora_of(model, deployment.flags))
    weights = deployment.pin(_with_drafter(weights, drafter if facts.drafts.counted else 0))
    peak = _load_peak(weights)
    if loaded is not model:
        peak = _before_quantising(peak, weights, rank_weights(model, shape, settings, facts, place).held_bytes)
    peak = deployment.pin(peak)
    return Terms(
        context=context,
        weights=weights,
        load_peak=peak,
        cudagraph=deployment.pin(_graphs(model, settings)),
        activation=deployment.pin(_beside_layer(_activation(model, settings), created.places, host)),
        created_bytes=created.created_bytes,
        free_before_load=_free(device, context, deployment),
        drafter_bytes=drafter,
    )


def _with_drafter(weights: Term, drafter: int) -> Term:
    """From 0.5.14 on a drafter is loaded before the pools are sized."""
    if not drafter:
        return weights
    parts = {**weights.parts, "drafter": drafter}
    low, high = weights.low + drafter - drafter // 20, weights.high + drafter + drafter // 20
    return replace(weights, bytes=weights.bytes + drafter, low=low, high=high, parts=parts)


def _with_slots(weights: Term, model: Model, settings: Settings, lora: Lora | None) -> Term:
    """model_executor/model_runner.py initialize: the LoRA manager comes before the pools are sized."""
    if lora is None:
        return weights
    size = slot_bytes(model, settings, lora)
    low, high = (size // 4, 4 * size) if lora.is_assumed else (size, size)
    parts = {**weights.parts, "LoRA slots": size}
    return replace(weights, bytes=weights.bytes + size, low=weights.low + low, high=weights.high + high, parts=parts)


def offloaded_bytes(created: Sequence[Placed], gibibytes: object) -> int:
    """utils/offloader.py OffloaderV1: parameters of the decoder layers go to pinned host memory in build order, until
    --cpu-offload-gb GiB are there; the last one goes as a whole."""
    limit = round(gibibytes * GIB) if isinstance(gibibytes, (int, float)) else 0
    total = 0
    for tensor in (tensor for place in created if place.layer >= 0 for tensor in place.tensors):
        if total >= limit:
            break
        total += tensor.nbytes if tensor.part != "buffers" else 0
    return total


def _in_host_memory(weights: Term, host: int) -> Term:
    if not host:
        return weights
    parts = {**weights.parts, "kept in host memory": -host}
    return replace(weights, bytes=weights.bytes - host, low=weights.low - host, high=weights.high - host, parts=parts)


def _beside_layer(activation: Term, created: Sequence[Placed], host: int) -> Term:
    """A layer in host memory is copied to the GPU while it runs."""
    layer = max((place.nbytes for place in created if place.layer >= 0), default=0) if host else 0
    return replace(
        activation, bytes=activation.bytes + layer, low=activation.low + layer, high=activation.high + 2 * layer
    )


def _spread(name: str, n: int, spread: float, basis: Basis, why: str) -> Term:
    slack = round(n * spread)
    return Term(name, n, n - slack, n + slack, basis, {}, why=why)


def _context(device: Device, ranks: int) -> Term:
    if device.sees_system:
        low, n, high = unified.share(device.total_bytes, unified.CONTEXT)
        return Term("context", n, low, high, "measured", {}, why="container and CUDA context, from posted starts")
    n = outside.before_loading(device.sm, device.sm_count or DEFAULT_MULTIPROCESSORS, ranks)
    return _spread("context", n, 0.3, "measured", "CUDA context, libraries and communicators, from posted start-ups")


def _free(device: Device, context: Term, deployment: Deployment) -> Term:
    pinned = deployment.given.get("free_before_load")
    if pinned is not None:
        return Term("free_before_load", pinned, pinned, pinned, "given", {}, why="given")
    used = device.used_before
    if device.sees_system and used.low < used.high:  # nobody has read what the system holds
        low, n, high = unified.share(device.total_bytes, unified.FREE_BEFORE_SGLANG)
        return Term("free_before_load", n, low, high, "measured", {}, why="what posted starts on such machines read")
    room = device.total_bytes - used.bytes - context.bytes
    down = quadrature((used.high - used.bytes, context.high - context.bytes))
    up = quadrature((used.bytes - used.low, context.bytes - context.low))
    low, n, high = max(0, room - down), max(0, room), max(0, room + up)
    return Term("free_before_load", n, low, high, "formula", {}, why="total - others - context")


def _weights(model: Model, shape: ModelShape, settings: Settings, on_rank: RankWeights, *, online: bool) -> Term:
    absorbed, created = _absorbed(model, shape, settings), on_rank.created_bytes
    over = min(round(created * outside.LOAD_SHARE), outside.LOAD_MOST)
    n = on_rank.held_bytes + on_rank.growth + absorbed
    beside = {"absorbed projections": absorbed, "experts repacked": on_rank.growth}
    beside["allocator rounding"] = on_rank.held_bytes - created
    parts = {**on_rank.parts, **{name: size for name, size in beside.items() if size}}
    quantised = model.quantization is not None or online
    low, high = created - (created // 20 if quantised else 0), n + over + (created // 25 if quantised else 0)
    why = "every tensor this rank creates" + (", before the kernels' own repacking" if quantised else "")
    return Term("weights", n, low, high, "formula" if quantised else "exact", parts, why=why)


def _absorbed(model: Model, shape: ModelShape, settings: Settings) -> int:
    """models/deepseek_common: w_kc and w_vc, copies of kv_b_proj for decoding, in the model's dtype."""
    if not shape.is_latent:
        return 0
    mixers = [m for layer in model.layers for m in layer.mixers if isinstance(m, Attention) and m.kind == "mla"]
    elements = sum(m.num_heads * (m.qk_nope_head_dim + m.head_dim_v) * m.kv_lora_rank for m in mixers)
    return nbytes(settings.dtype, elements // settings.attn_tp_size // settings.pp_size)


def _load_peak(weights: Term) -> Term:
    """Layers are created on the GPU and filled from host memory, a tensor at a time."""
    return Term(
        "load_peak", weights.bytes, weights.low, weights.high, "formula", {}, why="created, then filled in place"
    )


def _before_quantising(peak: Term, weights: Term, whole: int) -> Term:
    """fp8.py process_weights_after_loading, one layer after the other when all of them are filled: the whole model is
    there in its own dtype first. Nobody has measured it: 2 % more may be held between the layers."""
    why = "every layer is filled in the model's dtype before the first is quantised"
    n = max(whole, weights.bytes)
    return replace(peak, bytes=n, low=n, high=max(weights.high, n + n // 50), why=why)


def _graphs(model: Model, settings: Settings) -> Term:
    """The driver's part of every graph, and one pool for all of them: it holds the tensors of the largest."""
    layers = len(model.layers) // settings.pp_size
    decode = len(settings.cuda_graph_bs) * max(outside.LEAST_DECODE_GRAPH, layers * outside.DECODE_GRAPH_LAYER)
    if settings.speculative_algorithm in FAMILY:  # the drafter's own graphs: its steps, and the tokens it is given
        decode += 2 * len(settings.cuda_graph_bs) * outside.LEAST_DECODE_GRAPH
    sizes = settings.prefill_graph_sizes if _has_attention_everywhere(model) else ()
    prefill = len(sizes) * outside.PER_PREFILL_GRAPH
    largest = max((*settings.cuda_graph_bs, *sizes), default=0)
    pool = layer_bytes(model, settings, largest) + _attention_bytes(model, settings, largest)
    term = _spread("cudagraph", decode + prefill + pool, outside.OFF_GRAPHS, "measured", "from start-ups of one H200")
    parts = {"decode graphs": decode, "prefill graphs": prefill, "tensors of the largest": pool}
    return replace(term, parts={name: n for name, n in parts.items() if n})


def _has_attention_everywhere(model: Model) -> bool:
    """cuda_graph_setup.py capture_prefill_graph (0.5.23): where a layer has none, as in Mamba's hybrids, prefill is not
    captured, though the share of the card was chosen as if it were."""
    linear = ("gdn", "kda", "linear_attention")
    return all(
        any(
            isinstance(mixer, Attention) or (isinstance(mixer, State) and mixer.kind in linear)
            for mixer in layer.mixers
        )
        for layer in model.layers
    )


def _activation(model: Model, settings: Settings) -> Term:
    """The widest layer of one prefill chunk: gate, up and their product beside the hidden states, and the logits of the
    requests that end in it (computed for last tokens only, in float32 once more)."""
    tokens = settings.chunked_prefill_size if settings.chunked_prefill_size > 0 else settings.max_prefill_tokens
    logits = 128 * model.vocab_size * 6
    n = layer_bytes(model, settings, tokens) + logits
    # nobody has measured it: a plan that is to hold assumes twice as much
    return Term("activation_peak", n, n // 2, 2 * n, "formula", {}, why=f"one prefill chunk of {tokens:,} tokens")


def layer_bytes(model: Model, settings: Settings, tokens: int) -> int:
    """The widest layer's tensors for so many tokens, beside the hidden states."""
    width = max((_width(block, settings) for block in dict.fromkeys(x.block for x in model.layers)), default=0)
    return nbytes(settings.dtype, tokens * (width + 4 * model.hidden_size))


def _attention_bytes(model: Model, settings: Settings, tokens: int) -> int:
    """A graph ends before every attention and begins again behind it: what goes in and what comes out is kept, twice
    (1.17 GiB of tensors for Qwen3-8B, 1.32 for Gemma 2 9B, 0.44 for Qwen3-0.6B: within 11 %)."""
    mixers = [mixer for layer in model.layers for mixer in layer.mixers if isinstance(mixer, Attention)]
    widths = [
        (mixer.num_heads + mixer.num_kv_heads) * (mixer.head_dim + mixer.head_dim_v)
        for mixer in mixers
        if mixer.kind != "mla"
    ]
    return nbytes(settings.dtype, 2 * tokens * max(widths, default=0) // settings.attn_tp_size)


def _width(block: object, settings: Settings) -> int:
    """Elements per token of the widest module on one rank."""
    widest = 0
    for module in getattr(block, "modules", ()):
        if isinstance(module, Experts):
            per_expert = 3 * module.intermediate // max(1, settings.tp_size // settings.ep_size) + module.hidden
            widest = max(widest, module.top_k * per_expert)
        elif isinstance(module, Linear) and module.role == "mlp" and module.shard == "column":
            widest = max(widest, 3 * module.out_features // 2 // settings.tp_size)
        elif isinstance(module, Linear) and module.role in ("attention", "linear_attn") and module.shard == "column":
            widest = max(widest, 2 * module.out_features // settings.attn_tp_size)
    return widest
