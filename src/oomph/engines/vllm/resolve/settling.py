"""A command to its settings, in the order in which vLLM builds its configurations (EngineArgs.create_engine_config)."""

from msgspec.structs import replace

from oomph.engines.vllm.graphs.modes import breaks_graphs, capture_sizes, cudagraph_mode
from oomph.engines.vllm.kv.specs import Refused
from oomph.engines.vllm.resolve.attention import (
    cache_dtype,
    largest_item,
    verify_backend,
)
from oomph.engines.vllm.resolve.build import (
    verify_config,
)
from oomph.engines.vllm.resolve.limits import (
    Quantised,
    batch_limits,
    requests_of_class,
    resolve_dtype,
    resolve_length,
    resolve_quantization,
    verify_card_format,
    verify_quantization,
)
from oomph.engines.vllm.resolve.modes import (
    Speculation,
    async_scheduling,
    hybrid_off,
    mamba_mode,
    model_runner,
    prefix_and_chunks,
    speculation,
    verify_draft,
    verify_draft_model,
)
from oomph.engines.vllm.resolve.transformers import verify_transformers_config
from oomph.engines.vllm.resolve.verify import (
    verified_utilization,
    verify_balancing,
    verify_batch,
    verify_caches,
    verify_chunks,
    verify_flags,
    verify_items,
    verify_parallel,
    verify_parsers,
    verify_routed,
    verify_sizes,
    verify_values,
)
from oomph.engines.vllm.traits import traits_of
from oomph.facts.vllm.facts import Facts
from oomph.facts.vllm.flag_checks import FlagSet
from oomph.facts.vllm.known import STRICT_WINDOW_REFUSAL
from oomph.ir import Deployment, Model


class Settling:
    """A command while vLLM settles it: every step reads what the steps before it have found, and may refuse."""

    dtype: str
    length: int
    quantization: Quantised
    flag_set: FlagSet  # what the checks of the release look at
    prefix: bool
    chunked: bool
    kv_dtype: str
    utilization: float
    spec: Speculation
    tokens: int
    seqs: int
    mode: str  # of the recurrent states' cache
    runner: str
    asynchronous: bool
    graphs: str
    sizes: tuple[int, ...] = ()
    hybrid: tuple[bool, str]  # whether the manager of several groups is off, and why

    def __init__(self, model: Model, deployment: Deployment, facts: Facts, draft: Model | None) -> None:
        self.model, self.deployment, self.facts, self.draft = model, deployment, facts, draft
        self.flags, self.traits, self.gpu = deployment.flags, traits_of(model), deployment.gpus[0]
        self.stages = int(deployment.flags.get("pipeline_parallel_size", 1))


def _read_model(state: Settling) -> None:
    """config/model.py: parsers, class, dtype, context, quantisation."""
    model, flags, facts = state.model, state.flags, state.facts
    verify_parsers(flags, facts.values)
    verify_config(model, facts.support, by_transformers=flags.get("model_impl") == "transformers")
    verify_transformers_config(model, flags, facts.structure)
    state.dtype = resolve_dtype(model, str(flags.get("dtype", "auto")), state.gpu.sm)
    state.length = resolve_length(model, flags.get("max_model_len"), state.deployment.environment, facts)
    if flags.get("disable_sliding_window") and model.architecture in facts.support.strict_windows:
        raise Refused("StrictDataclassFieldValidationError", STRICT_WINDOW_REFUSAL)
    quantization, described = str(flags.get("quantization") or ""), bool(flags.get("quantization_config"))
    state.quantization = resolve_quantization(model, quantization, facts, state.gpu.sm, described=described)
    verify_items(model, flags)
    pools_only = model.pooling and not _generates(model)
    state.flag_set = FlagSet(flags, pools_only, state.traits.is_mla, state.quantization.name or "", state.length)
    verify_flags(facts.checks.model, state.flag_set)


def _read_cache(state: Settling) -> None:
    """config/cache.py: prefix caching, chunked prefill, the cache's dtype, the share of the GPU."""
    flags, facts = state.flags, state.facts
    state.prefix, state.chunked = prefix_and_chunks(state.model, state.traits, flags, facts)
    state.kv_dtype = cache_dtype(state.model, str(flags.get("kv_cache_dtype", "auto")), facts, state.gpu.sm)
    state.utilization = verified_utilization(flags, facts)
    verify_sizes(flags, facts)


def _check_parallel(state: Settling) -> None:
    """config/parallel.py."""
    verify_flags(state.facts.checks.parallel, state.flag_set)
    verify_balancing(state.flags, state.facts.refusals)
    verify_flags(state.facts.checks.parallel_end, state.flag_set)


def _read_drafts(state: Settling) -> None:
    """config/speculative.py."""
    facts, spec = state.facts, speculation(state.model, state.deployment)
    state.spec = spec
    state.flag_set = replace(
        state.flag_set, method=spec.method, drafts=spec.tokens, target_vocab=state.model.vocab_size
    )
    verify_draft(state.model, state.flags, facts, spec)
    verify_flags(facts.checks.speculative, state.flag_set)
    if state.draft is not None and spec.method:
        verify_draft_model(state.draft, state.flag_set, facts.checks)
        refused = facts.refusals.drafter_needs_experts
        if refused and state.flags.get("enable_expert_parallel") and not traits_of(state.draft).is_moe:
            raise Refused("ValidationError", refused)


def _read_batch(state: Settling) -> None:
    """config/scheduler.py: how many tokens and requests one step may have."""
    facts, item = state.facts, largest_item(state.model, state.flags)
    state.tokens, seqs = batch_limits(
        state.flags,
        facts,
        state.gpu,
        state.deployment.usage,
        length=state.length,
        chunked=state.chunked,
        one_item=item,
    )
    state.flag_set = replace(state.flag_set, tokens=state.tokens, seqs=seqs, queries_per_kv=state.traits.queries_per_kv)
    verify_batch(state.tokens, seqs, state.length, state.chunked)
    state.seqs = requests_of_class(state.model, seqs)
    verify_flags(facts.checks.scheduler, state.flag_set)
    verify_flags(facts.checks.lora, state.flag_set)
    verify_backend(state.flags, facts.values)
    verify_values(state.flags, facts.values)


def _check_whole(state: Settling) -> None:
    """config/vllm.py: what the parts say together."""
    flags, facts = state.flags, state.facts
    state.mode, state.prefix = mamba_mode(state.model, state.traits, flags, facts, state.prefix, state.spec)
    verify_chunks(state.mode, state.chunked)
    verify_parallel(state.model, state.traits, flags, facts.refusals)
    verify_flags(facts.checks.whole, state.flag_set)
    verify_quantization(state.quantization, state.gpu.sm, state.dtype)
    verify_card_format(state.quantization, state.model, state.gpu, facts.card_formats)
    verify_caches(
        state.traits, flags, state.mode, state.kv_dtype, facts.cache_dtypes, length=state.length, prefix=state.prefix
    )


def _choose_runner(state: Settling) -> None:
    """Which model runner, and whether it is scheduled while a step runs."""
    model, facts, quantized = state.model, state.facts, state.quantization.name is not None
    state.runner = model_runner(
        model, state.traits, state.deployment, facts, state.spec, state.mode, quantized=quantized
    )
    state.asynchronous = async_scheduling(
        model, state.flags, facts.async_scheduling, state.spec, state.runner, state.stages, state.mode
    )


def _check_routed(state: Settling) -> None:
    sides = [int(state.flags.get(f"{side}_context_parallel_size", 1)) for side in ("decode", "prefill")]
    verify_routed(
        state.flags,
        state.facts.refusals,
        v2=state.runner == "v2",
        generates=not state.model.pooling,
        moe=state.traits.is_moe,
        prefix=state.prefix,
        one_stage=state.stages == 1,
        whole_context=max(sides) == 1,
    )


def _choose_graphs(state: Settling) -> None:
    """CUDA graphs, and the manager of the cache's groups."""
    model, flags, facts = state.model, state.flags, state.facts
    encoder_decoder = "cross" in state.traits.kinds
    breakable = breaks_graphs(model.architecture, state.deployment.environment, facts.capture, state.gpu.vendor)
    state.graphs = cudagraph_mode(
        flags, facts.capture, pooling=model.pooling, encoder_decoder=encoder_decoder, breakable=breakable
    )
    if state.graphs != "NONE":
        state.sizes = capture_sizes(
            flags,
            facts.capture,
            architecture=model.architecture,
            sm=state.gpu.sm,
            seqs=state.seqs,
            tokens=state.tokens,
            drafts=state.spec.tokens,
        )
    verify_flags(facts.checks.whole_end, state.flag_set)
    state.hybrid = hybrid_off(state.traits, state.deployment, facts, state.spec)


def _generates(model: Model) -> bool:
    """Whether the class of a pooling model generates too: Sentence Transformers' files make it pool."""
    return model.architecture.endswith(("ForCausalLM", "ForConditionalGeneration"))


# The order in which EngineArgs.create_engine_config builds its configurations: the first refusal is vLLM's.
STEPS = (
    _read_model,
    _read_cache,
    _check_parallel,
    _read_drafts,
    _read_batch,
    _check_whole,
    _choose_runner,
    _check_routed,
    _choose_graphs,
)
