"""Flags, GPU and model -> the settings vLLM ends up with, or its refusal (EngineArgs.create_engine_config and after).

Besides the Model's own fields these params are read, where a config.json has them (sources/build.py collects them):
`derived_max_len`, `max_len_key`, `model_max_length`, `rope_type`, `rope_factor`, `rope_original`,
`original_max_position_embeddings` (context length); `is_mm_prefix_lm`, `use_bidirectional_attention`,
`attn_logit_softcapping` (backend choice); `mm_item_tokens` (largest item of a prefix-LM);
`kv_cache_dtype_from` = "config" where only config.json's own quantization_config asks for a KV dtype.
"""

from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from oomph.engines.vllm.kv.blocks import Setup
from oomph.engines.vllm.kv.check import Refusal
from oomph.engines.vllm.kv.groups import Layers
from oomph.engines.vllm.kv.layers import lay_out
from oomph.engines.vllm.kv.specs import Refused
from oomph.engines.vllm.resolve.attention import (
    cache_layout,
    forced_backend,
    has_kv_method,
    layer_dtype,
    mla_rope,
    mm_prefix_lm,
    skipped_layers,
    state_dtypes,
)
from oomph.engines.vllm.resolve.build import (
    verify_build,
    verify_chunked_turboquant,
    verify_encoder_sinks,
    verify_replicas,
    verify_towers,
)
from oomph.engines.vllm.resolve.expert_setting import expert_setting
from oomph.engines.vllm.resolve.kernels import verify_tower_kernels
from oomph.engines.vllm.resolve.modes import (
    in_flight_batches,
    pipeline_stages,
    verify_convert,
    with_pooling,
)
from oomph.engines.vllm.resolve.modules import refusal_of_modules
from oomph.engines.vllm.resolve.plain_flags import PlainFlags, plain_flags
from oomph.engines.vllm.resolve.settling import STEPS, Settling
from oomph.engines.vllm.resolve.transformers import verify_transformers_build
from oomph.engines.vllm.resolve.verify import (
    verified_utilization,
    verify_adapter_class,
    verify_adapters,
    verify_arguments,
    verify_cache_dtype,
    verify_dtype,
    verify_flags,
    verify_sparse_dcp,
)
from oomph.engines.vllm.resolve.windows import without_windows
from oomph.engines.vllm.traits import REMEMBERED, Traits, traits_of, with_drafts
from oomph.facts.vllm.facts import Facts, at
from oomph.facts.vllm.flag_checks import FlagSet
from oomph.ir import Deployment, Model


class Resolved(Struct, frozen=True):
    facts: Facts
    architecture: str
    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int
    gpu_memory_utilization: float
    auto_fit: bool = False
    kv_cache_memory_bytes: int | None = None
    num_gpu_blocks_override: int | None = None
    enable_chunked_prefill: bool = True
    enable_prefix_caching: bool = True
    async_scheduling: bool = False
    max_in_flight_batches: int = 1
    model_runner: str = "v1"
    dtype: str = "bfloat16"
    kv_cache_dtype: str = "auto"
    quantization: str | None = None
    block_size: int = 16
    mamba_block_size: int | None = None
    mamba_page_size_padded: int | None = None
    mamba_cache_mode: str = ""  # "" = no recurrent layers
    disable_hybrid_kv_cache_manager: bool = False
    hybrid_off_because: str = ""
    cudagraph_mode: str = "NONE"
    cudagraph_capture_sizes: tuple[int, ...] = ()
    enforce_eager: bool = False
    attention: tuple[tuple[str, int], ...] = ()  # backend, layers of the first stage
    kv_cache_layout: str = ""
    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    data_parallel_size: int = 1
    enable_expert_parallel: bool = False
    decode_context_parallel_size: int = 1
    prefill_context_parallel_size: int = 1
    stages: tuple[tuple[int, int], ...] = ()  # layer ranges
    speculative_method: str = ""
    num_speculative_tokens: int = 0
    uses_drafts: bool = False  # the checkpoint's own multi-token-prediction layers are loaded
    reserve_full_isl: bool = True
    encoder_tokens: int = 0
    flags: PlainFlags = PlainFlags()
    kv_layers: tuple[Layers, ...] = ()
    refusal: Refusal | None = None
    notes: tuple[str, ...] = ()


def share_apart(deployment: Deployment) -> tuple[float | None, Deployment]:
    """The share of the GPU, and the same command without it and without notes. None: a share that is refused."""
    flags = {name: value for name, value in deployment.flags.items() if name != "gpu_memory_utilization"}
    try:
        share = verified_utilization(deployment.flags, at(deployment.engine.version))
    except (Refused, TypeError):
        share = None
    return share, replace(deployment, flags=flags, notes=(), spelling={})


def resolve(model: Model, deployment: Deployment, draft: Model | None = None) -> Resolved:
    """Never raises for a bad flag combination: the engine's refusal is in `.refusal`.

    `draft`: the model that --speculative-config names, where it is another one; its layers have caches too.
    """
    facts = at(deployment.engine.version)
    model = with_pooling(traits_of(model), deployment.flags, facts).model
    if deployment.flags.get("disable_sliding_window"):
        model = without_windows(model)
    base = Resolved(facts, model.architecture, model.max_position, 0, 0, facts.limits.utilization)
    try:
        settled = _settings(model, deployment, facts, base, draft)
    except Refused as error:
        return replace(base, refusal=Refusal("engine_config", error.type, error.message))
    try:
        return replace(settled, **_caches(CacheQuestion(model, deployment, facts, settled, draft)))
    except Refused as error:
        return replace(settled, refusal=Refusal("model_build", error.type, error.message))


def _settings(model: Model, dep: Deployment, facts: Facts, base: Resolved, draft: Model | None) -> Resolved:
    state = Settling(model, dep, facts, draft)
    for step in STEPS:
        step(state)
    return _settled(state, base)


def _settled(state: Settling, base: Resolved) -> Resolved:
    model, flags, spec, pp = state.model, state.flags, state.spec, state.stages
    off, why = state.hybrid
    environment = state.deployment.environment
    return replace(
        base,
        max_model_len=state.length,
        auto_fit=flags.get("max_model_len") == -1,
        max_num_seqs=state.seqs,
        max_num_batched_tokens=state.tokens,
        gpu_memory_utilization=state.utilization,
        kv_cache_memory_bytes=flags.get("kv_cache_memory_bytes"),
        num_gpu_blocks_override=flags.get("num_gpu_blocks_override"),
        enable_chunked_prefill=state.chunked,
        enable_prefix_caching=state.prefix,
        async_scheduling=state.asynchronous,
        max_in_flight_batches=in_flight_batches(state.asynchronous, state.runner, pp),
        model_runner=state.runner,
        dtype=state.dtype,
        kv_cache_dtype=state.kv_dtype,
        quantization=state.quantization.name,
        block_size=int(flags.get("block_size") or 16),
        mamba_cache_mode=state.mode,
        disable_hybrid_kv_cache_manager=off,
        hybrid_off_because=why,
        cudagraph_mode=state.graphs,
        cudagraph_capture_sizes=state.sizes,
        enforce_eager=bool(flags.get("enforce_eager")),
        tensor_parallel_size=int(flags.get("tensor_parallel_size", 1)),
        pipeline_parallel_size=pp,
        data_parallel_size=int(flags.get("data_parallel_size", 1)),
        enable_expert_parallel=bool(flags.get("enable_expert_parallel")),
        decode_context_parallel_size=int(flags.get("decode_context_parallel_size", 1)),
        prefill_context_parallel_size=int(flags.get("prefill_context_parallel_size", 1)),
        stages=pipeline_stages(len(model.layers), pp, environment.get("VLLM_PP_LAYER_PARTITION", "")),
        speculative_method=spec.method,
        num_speculative_tokens=spec.tokens,
        uses_drafts=spec.own_drafts and bool(model.drafts),
        reserve_full_isl=bool(flags.get("scheduler_reserve_full_isl", True)),
        encoder_tokens=state.tokens,
        flags=plain_flags(model, flags, state.facts.support.whole_encoders),
    )


class CacheQuestion:
    """What the settings of the layers' caches depend on: of the context only where a state is as long as it. A search,
    and a batch, ask for many contexts of one command."""

    __slots__ = ("deployment", "draft", "facts", "model", "settled", "text")

    def __init__(
        self, model: Model, deployment: Deployment, facts: Facts, settled: Resolved, draft: Model | None
    ) -> None:
        if not any(traits_of(one).has_state for one in (model, draft) if one is not None):
            flags = {name: value for name, value in deployment.flags.items() if name != "max_model_len"}
            deployment, settled = replace(deployment, flags=flags), replace(settled, max_model_len=0)
        self.model, self.deployment, self.facts, self.settled, self.draft = model, deployment, facts, settled, draft
        try:
            self.text = msgspec.msgpack.encode(deployment)
        except (TypeError, ValueError, OverflowError):  # flags hold what cannot be written down
            self.text = repr(deployment).encode()

    def __hash__(self) -> int:
        return hash(self.text)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CacheQuestion) or self.text != other.text:
            return False
        return self.model is other.model and self.draft is other.draft and self.settled == other.settled


@lru_cache(REMEMBERED)
def _caches(question: CacheQuestion) -> dict[str, Any]:
    """Of the settings those of the layers' caches."""
    model, dep, draft = question.model, question.deployment, question.draft
    facts, resolved = question.facts, question.settled
    external = draft is not None and bool(resolved.num_speculative_tokens)
    if draft is not None and external:
        after = resolved.speculative_method != "draft_model"
        model = with_drafts(traits_of(model), traits_of(draft), after=after).model
    flags, traits, gpu = dep.flags, traits_of(model), dep.gpus[0]
    verify_dtype(resolved.dtype, gpu)
    verify_build(model, facts.support, resolved.stages)
    verify_adapter_class(model, flags)
    verify_encoder_sinks(traits, gpu.sm)
    verify_replicas(model, traits, resolved.tensor_parallel_size)
    verify_transformers_build(model, flags)
    verify_convert(model, flags)
    setup = _setup(model, traits, dep, facts, resolved, external=external)
    towers = _verify_towers(model, traits, facts, resolved, gpu.sm)
    verify_chunked_turboquant(model, resolved.kv_cache_dtype, setup.skip_layers)
    layout = lay_out(model, traits, setup, facts)
    flag_set = FlagSet(flags, mla=traits.is_mla, block_size=layout.block_size)
    verify_flags((*facts.checks.latent, *facts.checks.blocks), flag_set)
    verify_arguments(model, layout.backends, facts.refusals)
    verify_cache_dtype(layout.backends, resolved.kv_cache_dtype, gpu, facts.refusals)
    verify_sparse_dcp(layout.backends, resolved.kv_cache_dtype, resolved.decode_context_parallel_size, facts.refusals)
    _verify_modules(traits, dep, facts, resolved, towers=towers)
    verify_adapters(model, flags, facts.lora)  # behind the weights: load_model wraps what it has built
    return {
        "block_size": layout.block_size,
        "mamba_block_size": layout.mamba_block_size,
        "mamba_page_size_padded": layout.mamba_page_size_padded,
        "attention": layout.backends,
        "kv_cache_layout": cache_layout(layout.kv_cache_layout, flags, mla=traits.is_mla),
        "kv_layers": layout.layers,
    }


def _setup(model: Model, traits: Traits, dep: Deployment, facts: Facts, resolved: Resolved, *, external: bool) -> Setup:
    """What the layers' caches are laid out by. `external`: drafts come from a checkpoint of their own."""
    flags, gpu = dep.flags, dep.gpus[0]
    mm_prefix = mm_prefix_lm(model, flags, facts.backend_choice)
    backend, fa = forced_backend(model, traits, flags, gpu.sm, resolved.kv_cache_dtype, facts)
    conv, ssm = state_dtypes(model, traits, flags, facts, resolved.dtype)
    refused = facts.states.drafts_refused
    if refused and traits.has_state and resolved.num_speculative_tokens and model.model_type != "qwen3_next":
        raise Refused("NotImplementedError", refused)
    return Setup(
        sm=gpu.sm,
        dtype=resolved.dtype,
        kv_dtype=layer_dtype(model, resolved.kv_cache_dtype, facts),
        tp=resolved.tensor_parallel_size,
        block_size=flags.get("block_size"),
        mamba_block_size=flags.get("mamba_block_size"),
        mamba_mode=resolved.mamba_cache_mode or "none",
        max_model_len=resolved.max_model_len,
        drafts=resolved.num_speculative_tokens,
        attention_backend=backend,
        fa_version=fa,
        mm_prefix=mm_prefix,
        softcap=bool(model.param("attn_logit_softcapping", 0)),
        dcp=resolved.decode_context_parallel_size,
        pcp=resolved.prefill_context_parallel_size,
        skip_layers=skipped_layers(model, traits, flags, resolved.kv_cache_dtype),
        conv_dtype=conv,
        ssm_dtype=ssm,
        uses_drafts=resolved.uses_drafts or external,
        stages=resolved.stages,
        kv_method=has_kv_method(model, facts, resolved.quantization),
        mla_rope=mla_rope(model, facts),
        gpu_name=gpu.driver_name or gpu.name,
        is_cuda=gpu.vendor == "nvidia",
    )


def _verify_towers(model: Model, traits: Traits, facts: Facts, resolved: Resolved, sm: int) -> bool:
    """Whether encoders are built and divided; refused where they do not divide or no kernel takes them."""
    tp = resolved.tensor_parallel_size
    build_habits = facts.structure.habits(sm)
    multimodal = resolved.flags.multimodal
    built_anyway = facts.support.unused_towers_built or not multimodal.text_only
    towers = bool(model.towers) and built_anyway and not multimodal.encoder_per_rank
    if towers:
        verify_towers(model, tp, build_habits)
        verify_tower_kernels(traits, facts.linear_kernels, build_habits, tp=tp, sm=sm, dtype=resolved.dtype)
    return towers


def _verify_modules(traits: Traits, dep: Deployment, facts: Facts, resolved: Resolved, *, towers: bool) -> None:
    flags, sm = dep.flags, dep.gpus[0].sm
    tp, dp, ep = resolved.tensor_parallel_size, resolved.data_parallel_size, resolved.enable_expert_parallel
    experts = expert_setting(facts, sm, resolved.flags, dep.environment)
    linear_backend = str(flags.get("linear_backend", "auto"))
    refusal = refusal_of_modules(
        traits, facts, tp, dp, ep, sm, resolved.dtype, towers, resolved.quantization, experts, linear_backend
    )
    if refusal is not None:
        raise Refused(refusal.type, refusal.message)
