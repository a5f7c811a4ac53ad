"""Why a vLLM plan dies where it does: the largest thing in the way, with its figures."""

from oomph.ir import Linear, Model, Plan, RankPlan
from oomph.ir.roles import role_words
from oomph.units import gib, human


def reasons(plan: Plan, model: Model) -> tuple[str, ...]:
    if plan.verdict.outcome == "fits" or not plan.ranks:
        return ()
    rank = plan.ranks[min(plan.verdict.rank, len(plan.ranks) - 1)]
    stage = plan.verdict.stage or plan.verdict.first_to_break
    sentence = {
        "startup_free_memory": _free_memory,
        "weights_load": _weights,
        "cudagraph_profile": _graph_profiling,
        "kv_check": _kv_check,
    }.get(stage)
    words = sentence(plan, rank, model) if sentence is not None else _resident(plan, rank)
    return (words,) if words else ()


def _free_memory(plan: Plan, rank: RankPlan, model: Model) -> str:
    free = max(0, rank.total_bytes - rank.stages[0].resident_bytes)
    return f"The budget of {gib(rank.requested_bytes)} must be free at the start; {gib(free)} is."


def _weights(plan: Plan, rank: RankPlan, model: Model) -> str:
    size, total = rank.terms["weights"].bytes, rank.total_bytes
    whole = f"The weights take {gib(size)} of each GPU's {gib(total)}" if len(plan.ranks) > 1 else ""
    whole = whole or f"The weights take {gib(size)} of the GPU's {gib(total)}"
    return f"{whole}. {_unquantised(plan, model)}".removesuffix(" ")


def _unquantised(plan: Plan, model: Model) -> str:
    """What a quantised checkpoint left as it was, where that is much."""
    if model.quantization is None or not model.layers:
        return ""
    plain: dict[str, int] = {}
    for layer in model.layers:
        for module in layer.block.modules:
            if (
                isinstance(module, Linear)
                and module.scheme is None
                and module.role in ("attention", "mlp", "linear_attn")
            ):
                plain[module.role] = plain.get(module.role, 0) + module.out_features * module.in_features * 2
    name, size = max(plain.items(), key=lambda pair: pair[1], default=("", 0))
    if size < 0.2 * sum(rank.terms["weights"].bytes for rank in plan.ranks):
        return ""
    each = gib(size / max(1, len(plan.ranks)))
    return f"Only part of this checkpoint is quantised: {role_words(name)} is still 16-bit, {each} of every GPU."


def _graph_profiling(plan: Plan, rank: RankPlan, model: Model) -> str:
    note = next((stage.note for stage in rank.stages if stage.name == "cudagraph_profile"), "")
    return f"vLLM tries CUDA graphs out on {note}, which are thrown away again; the utilisation is not read there."


def _kv_check(plan: Plan, rank: RankPlan, model: Model) -> str:
    kv = plan.kv
    if kv is None:
        return ""
    if not plan.fits and kv.need_bytes <= kv.available_bytes:
        sequences = plan.resolved["max_num_seqs"]
        if sequences <= kv.num_blocks:
            return ""
        return f"Up to {sequences:,} requests run at once, each needs a block for its states; {kv.num_blocks:,} fit."
    need, left = human(kv.need_bytes), human(max(0, kv.available_bytes))
    return f"One request of {plan.resolved['max_model_len']:,} tokens needs {need} of KV cache; {left} is left."


def _resident(plan: Plan, rank: RankPlan) -> str:
    stage = next((s for s in rank.stages if s.name == (plan.verdict.stage or plan.verdict.first_to_break)), None)
    return "" if stage is None else f"{gib(stage.peak_bytes)} of the GPU's {gib(rank.total_bytes)} are in use then."
