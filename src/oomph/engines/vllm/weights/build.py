"""From resolved settings to what decides the created weights."""

from oomph.engines.common.created import Build
from oomph.engines.common.ranks import Rank
from oomph.engines.common.shard import Layout
from oomph.engines.vllm.resolve.expert_setting import expert_setting
from oomph.engines.vllm.run import Run
from oomph.facts.dtypes import TORCH, nbytes
from oomph.facts.vllm.create_weights import mla_kv_scales
from oomph.facts.vllm.weights import EMBEDDING_METHODS
from oomph.ir import Attention, Model


def scaled_rotary(model: Model) -> bool:
    """Only DeepSeek's scaled rotary tables depend on the operators that turn the heads (weights.py _rope_dtype)."""
    mixers = (m for layer in model.layers[:8] for m in layer.mixers if isinstance(m, Attention))
    return any(m.rope is not None and m.rope.kind == "deepseek_yarn" for m in mixers)


def layout_of(run: Run, rank: Rank) -> Layout:
    settings = run.settings
    balancing = settings.flags.balancing if run.model.architecture not in run.facts.weights.without_spares else None
    return Layout(
        tp=settings.tensor_parallel_size,
        pp=settings.pipeline_parallel_size,
        dp=settings.data_parallel_size,
        expert_parallel=settings.enable_expert_parallel,
        pcp=settings.prefill_context_parallel_size,
        sequence_parallel_moe=settings.enable_expert_parallel
        and settings.tensor_parallel_size > 1
        and settings.data_parallel_size > 1
        and (settings.flags.all2all_backend or "allgather_reducescatter") in run.facts.weights.sequence_parallel,
        tp_rank=rank.tp_rank,
        pp_rank=rank.pp_rank,
        redundant_experts=balancing.spare_experts if balancing else 0,
        data_parallel_towers=settings.flags.multimodal.encoder_per_rank,
    )


_INPUTS = {"vision": frozenset({"image", "video"}), "audio": frozenset({"audio"})}


def _unused_towers(run: Run) -> frozenset[str]:
    """interfaces.py _mark_tower_model: an encoder goes where a prompt may have none of its inputs, others stay."""
    names = {modality.name for modality in run.model.modalities}
    allowed = run.settings.flags.multimodal.modalities
    kinds = (kind for kind, inputs in _INPUTS.items() if inputs & names and not inputs & allowed)
    return frozenset(kinds) if len(run.model.towers) > 1 else frozenset()


def build_for(run: Run, rank: Rank) -> Build:
    """What one rank's layers create is decided by this."""
    model, facts, settings, sm = run.model, run.facts, run.settings, rank.device.sm
    method = model.quantization.method if model.quantization else ""
    online = settings.quantization or ""
    scaled = (
        ""
        if model.architecture in facts.weights.unscaled
        else method or (settings.quantization or "" if facts.weights.online_scales else "")
    )
    habits = facts.structure.habits(sm)
    borrowed = f"{model.architecture} by transformers" in habits
    if borrowed and "attention in the tree of transformers' modules" not in habits:
        habits, scaled = habits - {"attention scales as buffers"}, ""
    kv = model.quantization.kv_cache if model.quantization else ""
    dtype = TORCH[settings.dtype]
    return Build(
        facts.creation,
        layout_of(run, rank),
        dtype,
        towers=not settings.flags.multimodal.text_only,
        unused=_unused_towers(run) if facts.support.unused_towers_built else frozenset(),
        drafts=False,
        kv_scales=facts.creation.kv_scales(scaled, nbytes(dtype, 1), kv),
        mla_kv_scales=mla_kv_scales(scaled, nbytes(dtype, 1)),
        rotary_kernels=settings.enforce_eager and scaled_rotary(model),
        habits=habits,
        separate_tied_head=facts.weights.separate_tied_head,
        head_quantised=method in facts.weights.quantised_heads,
        experts=expert_setting(facts, sm, settings.flags, run.deployment.environment, "" if method else online),
        context=settings.max_model_len if run.traits.caps_rotary_tables else 0,
        embeds_last=settings.speculative_method in EMBEDDING_METHODS
        and model.architecture in facts.weights.embeds_for_drafts,
    )
