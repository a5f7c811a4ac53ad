"""What one rank's memory is made of: every term of the ledger, from the settings to bytes."""

from msgspec import Struct
from msgspec.structs import replace

from oomph.engines.common.created import by_part
from oomph.engines.common.ranks import Rank
from oomph.engines.trtllm.settings import Settings
from oomph.engines.trtllm.weights import (
    absorbed_bytes,
    created_weights,
    expert_scheme,
    tied_head_bytes,
    widened_inputs,
)
from oomph.facts.dtypes import nbytes
from oomph.facts.trtllm import outside, weights as facts
from oomph.ir import Basis, Deployment, Device, Experts, Linear, Model, Term
from oomph.units import cdiv, round_up


class Terms(Struct, frozen=True):
    context: Term  # what is gone before the model is created
    weights: Term
    load_peak: Term
    runner: Term  # the engine's buffers inside PyTorch, graph pools included
    non_torch: Term  # what comes to the context outside of PyTorch: communicators, workspaces, graphs
    activation: Term  # of the dummy prefill
    cudagraph: Term  # the part of the two before that graphs have
    decode_logits: Term  # of a full batch: what the dummy prefill does not see
    printed_weights: int  # "Use ... GB for model weights"

    @property
    def resident(self) -> tuple[Term, ...]:
        """What is there when the dummy requests begin, the temporary pool aside."""
        return self.context, self.weights, self.runner, self.non_torch


def rank_terms(
    model: Model, settings: Settings, deployment: Deployment, rank: Rank, draft: Model | None = None
) -> Terms:
    weights, printed = _weights(model, settings, rank)
    if draft is not None:
        weights = _with_draft(weights, draft, settings, rank)
    weights = deployment.pin(weights)
    context = deployment.pin(interval("context", outside.BEFORE_LOADING, "CUDA context and libraries"))
    non_torch = _non_torch(model, settings, rank.device)
    if settings.lora_share:
        free = rank.device.total_bytes - rank.device.used_bytes - context.bytes - weights.bytes
        non_torch = _with_adapters(non_torch, round(settings.lora_share * max(0, free)))
    return Terms(
        context=context,
        weights=weights,
        load_peak=deployment.pin(_load_peak(weights, model, rank.device)),
        runner=_runner(model, settings),
        non_torch=deployment.pin(non_torch),
        activation=deployment.pin(_activation(model, settings)),
        cudagraph=Term("cudagraph", 0, 0, 0, "formula", {}, why="in the buffers and the memory outside PyTorch"),
        decode_logits=_decode_logits(model, settings),
        printed_weights=printed,
    )


def _with_draft(weights: Term, draft: Model, settings: Settings, rank: Rank) -> Term:
    """A drafter's own checkpoint, divided as the model's; an embedding or head that it shares is not known from here:
    the lower end."""
    alone = replace(settings, pp_size=1, pp_partition=(), draft_layers=0)
    parts = by_part(created_weights(draft, alone, 0))
    size = sum(parts.values())
    shared = parts.get("embed", 0) + parts.get("lm_head", 0)
    low, high = weights.low + size - shared, weights.high + size
    named = {**weights.parts, "draft model": size}
    return Term(weights.name, weights.bytes + size, low, high, weights.basis, named, why=weights.why)


def _with_adapters(term: Term, size: int) -> Term:
    """PeftCacheManager is created with the executor: its cache is in the peak. lora_config.max_loras sets it to what so
    many adapters need, which their ranks decide: the interval is wide."""
    named = {**term.parts, "LoRA cache": size}
    return Term(term.name, term.bytes + size, term.low, term.high + 3 * size, term.basis, named, why=term.why)


def interval(name: str, values: outside.Interval, why: str) -> Term:
    low, expected, high = values
    return Term(name, expected, low, high, "measured", {}, why=f"{why}, from posted start-ups")


def _weights(model: Model, settings: Settings, rank: Rank) -> tuple[Term, int]:
    parts = by_part(created_weights(model, settings, rank.pp_rank))
    if absorbed := absorbed_bytes(model, settings, rank.pp_rank):
        parts["absorbed projections"] = absorbed
    if wide := widened_inputs(model, settings):
        parts["experts"] = parts.get("experts", 0) + wide
    created = sum(parts.values())
    printed = created - parts.get("buffers", 0) + tied_head_bytes(model, settings, rank.pp_rank)
    low, expected, high = (
        round(parts.get("experts", 0) * (factor - 1)) for factor in _expert_factors(model, settings, rank.device.sm)
    )
    why = "every tensor that this rank creates"
    if high:
        why += ", and what the backend of the experts may add"
    basis: Basis = "formula" if high else "exact"
    n = created + expected
    return Term("weights", n, created + low, created + high, basis, parts, why=why), printed + expected


def _expert_factors(model: Model, settings: Settings, sm: int) -> tuple[float, float, float]:
    scheme = expert_scheme(model)
    if not scheme:
        return 1.0, 1.0, 1.0
    factors = (
        settings.moe_backend in ("CUTLASS", "TRTLLM", "DEEPGEMM") or sm < 100
    )  # older cards have no kernels of TRTLLM-Gen
    if scheme == "modelopt_fp4" or (scheme in ("mxfp4", "fp8") and factors):
        return 1.0, 1.0, 1.0
    return facts.UNPRINTED_EXPERTS


def _runner(model: Model, settings: Settings) -> Term:
    """The engine's buffers; the experts' backend decides most of them."""
    scheme = expert_scheme(model)
    cutlass = scheme is not None and settings.moe_backend in ("CUTLASS", "AUTO")
    values = outside.CUTLASS_BUFFERS if cutlass else outside.BUFFERS
    term = interval("runner", values, "buffers beside the weights, graph pools included")
    if scheme is None or settings.moe_backend != "DEEPGEMM":
        return term
    n = deepgemm_workspace(model, settings)
    low, high = term.low + n * 9 // 10, term.high + n * 11 // 10
    if settings.enable_attention_dp:
        high += outside.DEEPGEMM_ATTENTION_DP
    return Term("runner", term.bytes + n, low, high, "formula", {"DeepGEMM workspace": n}, why=term.why)


def deepgemm_workspace(model: Model, settings: Settings) -> int:
    """fused_moe_deepgemm.py get_workspace: for every row of every expert of the rank FP8 inputs, a byte of scale for
    128 of them, and BF16 outputs."""
    experts = next(module for x in model.layers for module in x.block.modules if isinstance(module, Experts))
    tokens = settings.max_num_tokens * (settings.tp_size if settings.enable_attention_dp else 1)
    limit = settings.moe_max_num_tokens or min(tokens, facts.DEEPGEMM_TOKENS)
    chunks = 1 if tokens <= 2 * limit else cdiv(tokens, limit)
    rows = cdiv(experts.count, settings.ep_size) * round_up(cdiv(tokens, chunks), 128)
    intermediate = cdiv(experts.intermediate, settings.moe_tp)
    inputs = max(experts.hidden, intermediate)
    return rows * (inputs + round_up(cdiv(inputs, 128), 4) + 2 * max(2 * intermediate, experts.hidden))


def _load_peak(weights: Term, model: Model, device: Device) -> Term:
    """Layers are created on the GPU and filled from host memory. FP8 weights with block scales are rescaled layer by
    layer on Blackwell cards (linear.py resmooth_to_fp8_e8m0): a posted load had 3.6 GiB beside 8.8 of weights."""
    scheme = model.quantization.scheme if model.quantization is not None else None
    extra = 0
    if scheme is not None and scheme.method == "fp8" and scheme.strategy == "block" and device.sm >= 100:
        extra = 4 * _largest_linear(model)
    why = "created, then filled in place" + (", and rescaled layer by layer" if extra else "")
    return Term("load_peak", weights.bytes + extra, weights.low, weights.high + 4 * extra, "formula", {}, why=why)


def _largest_linear(model: Model) -> int:
    blocks = dict.fromkeys(layer.block for layer in model.layers)
    sizes = [
        module.out_features * module.in_features
        for block in blocks
        for module in block.modules
        if isinstance(module, Linear)
    ]
    return max(sizes, default=0)


def _non_torch(model: Model, settings: Settings, device: Device) -> Term:
    """The printed "outside torch" holds the context as well: it is taken off at both ends."""
    ranks = settings.tp_size * settings.pp_size
    linked = device.sm in outside.LINKED_CARDS
    table = outside.LINKED if linked else outside.UNLINKED
    values = outside.ALONE if ranks == 1 else table[next((n for n in sorted(table) if ranks <= n), max(table))]
    parts = [values]
    if settings.enable_attention_dp and ranks > 1:
        parts = [outside.ATTENTION_DP]
    elif settings.ep_size > 4 and linked:
        parts.append(outside.EXPERT_PARALLEL)
    if settings.compiles_pieces:
        parts.append(outside.COMPILED)
    low, expected, high = (sum(part[i] for part in parts) for i in range(3))
    context = outside.BEFORE_LOADING[1]
    if device.unified:  # the page cache of the checkpoint's own files counts as used there
        high += model.nbytes
    values = max(0, low - context), max(0, expected - context), max(0, high - context)
    return interval("non_torch", values, "communicators, workspaces and graphs outside PyTorch")


def _activation(model: Model, settings: Settings) -> Term:
    """The widest layer of one batch of max_num_tokens, beside the hidden states, and the logits of the last tokens."""
    tokens = settings.max_num_tokens
    blocks = dict.fromkeys(layer.block for layer in model.layers)
    width = max((_width(block.modules, settings) for block in blocks), default=0)
    n = nbytes(settings.dtype, tokens * (width + 4 * model.hidden_size)) + 6 * model.vocab_size
    n = max(n, outside.LEAST_ACTIVATION)
    low, high = round(n * outside.ACTIVATION_LOW), round(n * outside.ACTIVATION_HIGH)
    return Term("activation_peak", n, low, high, "formula", {}, why=f"a dummy prefill of {tokens:,} tokens")


def _width(modules: tuple[object, ...], settings: Settings) -> int:
    """Elements per token of the widest module on one rank."""
    widest = 0
    for module in modules:
        if isinstance(module, Experts):
            # the rows of every chosen expert, before and after it; posted peaks do not fall with expert parallelism
            per_expert = 3 * module.intermediate // settings.moe_tp + 2 * module.hidden
            widest = max(widest, module.top_k * per_expert)
        elif isinstance(module, Linear) and module.shard == "column":
            ranks = 1 if settings.enable_attention_dp else settings.tp_size
            widest = max(widest, 2 * module.out_features // ranks)
    return widest


def _decode_logits(model: Model, settings: Settings) -> Term:
    """A row of the vocabulary for every request (and draft) of a full batch, in the model's dtype and in float32."""
    rows = settings.max_batch_size * settings.max_beam_width * (1 + settings.draft_tokens)
    n = rows * model.vocab_size * (2 + 4)
    return Term("decode_logits", n, n // 2, n, "formula", {}, why=f"logits of {rows:,} rows")
