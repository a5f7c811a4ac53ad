"""What one rank's layers create on the GPU, as TensorRT-LLM's layers divide a model.

The walk over the modules is shared with vLLM (engines/common/created.py): both split by columns and rows and by heads.
What is divided otherwise is taken from a second walk: experts by expert parallelism, and everything but the experts
whole on every rank under attention data parallelism.
"""

from msgspec.structs import replace

from oomph.engines.common.created import Build, Placed, created
from oomph.engines.common.shard import Layout
from oomph.engines.common.walks import choose_parts, with_experts
from oomph.engines.trtllm.kv.pool import stage_layers
from oomph.engines.trtllm.settings import Settings
from oomph.facts.dtypes import nbytes
from oomph.facts.trtllm import weights as facts
from oomph.ir import Attention, Experts, Model, Vocab
from oomph.units import round_up


def created_weights(model: Model, settings: Settings, pp_rank: int = 0) -> tuple[Placed, ...]:
    ranks, experts = settings.tp_size, ("experts",)
    model = with_experts(model, lambda module: _padded(module, settings, facts.MXFP4_ALIGNMENT))
    places = _walk(model, settings, pp_rank, 1 if settings.enable_attention_dp else ranks)
    if settings.enable_attention_dp and settings.lm_head_tp:
        places = choose_parts(places, _walk(model, settings, pp_rank, ranks), ("lm_head",))
    elif not settings.enable_attention_dp and model.architecture in facts.WHOLE_EMBEDDINGS and ranks > 1:
        places = choose_parts(places, _walk(model, settings, pp_rank, 1), ("embed",))
    if settings.ep_size > 1 or settings.enable_attention_dp:
        share = with_experts(model, lambda module: replace(module, count=-(-module.count // settings.ep_size)))
        places = choose_parts(places, _walk(share, settings, pp_rank, settings.moe_tp), experts)
    return tuple(_without_shared(place) for place in places)


def _without_shared(place: Placed) -> Placed:
    """Multi-token-prediction layers read the model's own embedding and head (modeling_deepseekv3.py DeepseekV3MTP)."""
    if place.layer >= 0 or place.where == "root":
        return place
    return replace(place, tensors=tuple(tensor for tensor in place.tensors if tensor.part not in ("embed", "lm_head")))


def _walk(model: Model, settings: Settings, pp_rank: int, ranks: int) -> tuple[Placed, ...]:
    sizes = tuple(len(stage_layers(len(model.layers), settings, rank)) for rank in range(settings.pp_size))
    layout = Layout(tp=ranks, pp=settings.pp_size, pp_rank=pp_rank, partition=sizes)
    drafts = settings.draft_layers > 0
    return created(model, Build(facts.creation(), layout, settings.dtype, drafts=drafts, habits=facts.HABITS))


def absorbed_bytes(model: Model, settings: Settings, pp_rank: int) -> int:
    """modules/attention.py MLA: k_b_proj_trans and v_b_proj, copies of kv_b_proj for decoding, in the model's dtype."""
    stage = stage_layers(len(model.layers), settings, pp_rank)
    mixers = [
        mixer
        for layer in model.layers
        if layer.index in stage
        for mixer in layer.mixers
        if isinstance(mixer, Attention) and mixer.kind == "mla"
    ]
    elements = sum(
        latent.num_heads // settings.cache_tp * (latent.qk_nope_head_dim + latent.head_dim_v) * latent.kv_lora_rank
        for latent in mixers
    )
    return nbytes(settings.dtype, elements)


def tied_head_bytes(model: Model, settings: Settings, pp_rank: int) -> int:
    """ "Use ... for model weights" sums parameters by name: a tied head is in it twice, in memory once."""
    if pp_rank != settings.pp_size - 1 or settings.pp_size > 1:
        return 0
    heads = [
        module
        for module in model.root.modules
        if isinstance(module, Vocab) and module.role == "lm_head" and module.tied
    ]
    ranks = 1 if settings.enable_attention_dp else settings.tp_size
    return sum(nbytes(settings.dtype, -(-m.rows // ranks) * m.dim) for m in heads)


def expert_scheme(model: Model) -> str | None:
    """The quantisation of the routed experts; None: there are none, "" = they are not quantised."""
    for layer in model.layers:
        for module in layer.block.modules:
            if isinstance(module, Experts):
                return module.scheme.method if module.scheme is not None else ""
    return None


def widened_inputs(model: Model, settings: Settings) -> int:
    """Bytes that the first projection of MXFP4 experts has more, where its backend wants wider inputs than outputs."""
    wide = facts.MXFP4_INPUT_ALIGNMENT.get(settings.moe_backend, 0)
    if not wide or expert_scheme(model) != "mxfp4":
        return 0
    sizes = []
    for alignment in (facts.MXFP4_ALIGNMENT, wide):
        padded = with_experts(model, lambda module, a=alignment: _padded(module, settings, a))  # type: ignore[misc]
        places = _walk(padded, settings, 0, settings.tp_size)
        sizes.append(
            sum(
                tensor.nbytes
                for place in places
                for tensor in place.tensors
                if tensor.part == "experts" and tensor.name.startswith("w13")
            )
        )
    return (sizes[1] - sizes[0]) // settings.pp_size


def _padded(experts: Experts, settings: Settings, alignment: int) -> Experts:
    """`alignment` of the hidden size; the intermediate size of every rank is a multiple of 128."""
    if experts.scheme is None or experts.scheme.method != "mxfp4":
        return experts
    share = round_up(-(-experts.intermediate // settings.moe_tp), facts.MXFP4_ALIGNMENT)
    return replace(experts, hidden=round_up(experts.hidden, alignment), intermediate=share * settings.moe_tp)
