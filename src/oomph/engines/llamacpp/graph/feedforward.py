"""The feed-forward part of a layer: dense, experts, shared experts (build_ffn, build_moe_ffn)."""

from oomph.engines.llamacpp.ggml.tensor import (
    F32,
    I32,
    Tensor,
    cast,
    cont,
    get_rows,
    mul_mat,
    mul_mat_id,
    repeat,
    reshape,
    set_rows,
    strided,
    unary,
    view,
)
from oomph.engines.llamacpp.graph.context import Context, LayerParts
from oomph.facts.llamacpp.graphs import GATINGS, Gating


def feed_forward(build: Context, layer: LayerParts, source: Tensor, logits: Tensor | None = None) -> Tensor:
    """`logits`: of the router, where it reads something else."""
    weights = layer.weights
    if "ffn_gate_inp.weight" not in weights or "ffn_down_exps.weight" not in weights:
        return dense(build, layer, source)
    if "ffn_down_chexps.weight" in weights:
        return _with_chunk_experts(build, layer, source)
    if "ffn_latent_down.weight" in weights:
        logits = mul_mat(weights["ffn_gate_inp.weight"], source)
        output = experts(build, layer, mul_mat(weights["ffn_latent_down.weight"], source), logits)
        output = mul_mat(weights["ffn_latent_up.weight"], output)
    else:
        output = experts(build, layer, source, logits)
    if "ffn_up_shexp.weight" in weights:
        output = unary("ADD", output, _shared(build, layer, source))
        return unary("SCALE", output) if build.style.shared_scale else output
    if build.parts.family == "grok" and "ffn_up.weight" in weights:
        return unary("SCALE", unary("ADD", dense(build, layer, source), output))
    return output


def _shared(build: Context, layer: LayerParts, source: Tensor) -> Tensor:
    weights = layer.weights
    if "ffn_gate_inp_shexp.weight" not in weights:
        return dense(build, layer, source, "_shexp")
    logits = mul_mat(weights["ffn_gate_inp_shexp.weight"], source)
    gate = unary("UNARY", logits)
    if build.parts.family == "qwen2moe":
        gate = unary("DIV", gate, logits)
    return unary("MUL", dense(build, layer, source, "_shexp"), gate)


def dense(build: Context, layer: LayerParts, source: Tensor, suffix: str = "") -> Tensor:
    weights = layer.weights
    up = weights.get(f"ffn_up{suffix}.weight")
    down = weights.get(f"ffn_down{suffix}.weight")
    if up is None or down is None:
        return source
    wide = build.product(up, source, weights.get(f"ffn_up{suffix}.bias"))
    gate = weights.get(f"ffn_gate{suffix}.weight")
    if gate is not None:
        gated = build.product(gate, source, weights.get(f"ffn_gate{suffix}.bias"))
        active = Tensor("GLU", gated.ne, 4, (gated, wide))
    elif up.ne[1] == 2 * down.ne[0]:
        active = Tensor("GLU", (down.ne[0], *wide.ne[1:]), 4, (wide,))
    else:
        active = _activated(build, wide)
        if "ffn_act.scales" in weights:
            active = unary("DIV", active, weights["ffn_act.scales"])
    if "ffn_sub_norm.weight" in weights and not suffix:  # BitNet
        active = build.norm(active, weights["ffn_sub_norm.weight"], layer)
    return build.product(down, active, weights.get(f"ffn_down{suffix}.bias"))


def _activated(build: Context, wide: Tensor) -> Tensor:
    active = unary("UNARY", wide)
    return unary("SQR", active) if build.style.squared else active


def router(build: Context, layer: LayerParts, logits: Tensor, used: int, *, chunks: int = 0) -> tuple[Tensor, Tensor]:
    """(the weights of the chosen experts, their numbers). `chunks`: smaller experts that several of them share."""
    weights, tokens = layer.weights, logits.ne[1]
    if "ffn_gate_inp.bias" in weights:
        logits = unary("ADD", logits, weights["ffn_gate_inp.bias"])
    gating = _gating(build)
    probabilities = {
        "softmax": lambda: unary("SOFT_MAX", logits), "sigmoid": lambda: unary("UNARY", logits),
        "late softmax": lambda: logits, "sqrt softplus": lambda: unary("SQRT", unary("UNARY", logits)),
    }[gating]()  # fmt: skip
    chosen_by = probabilities
    if "exp_probs_b.bias" in weights:
        chosen_by = unary("ADD", probabilities, weights["exp_probs_b.bias"])
    if build.parts.family == "llama4":
        chosen_by = logits
    if build.parts.family == "grovemoe":
        chosen_by = unary("UNARY", logits)
    if (groups := int(build.numbers.get("expert_group_count", 0))) > 1:
        chosen_by = _of_groups(build, chosen_by, groups)
    ids = _top(chosen_by, used)
    if chunks:
        ids = cast(unary("SCALE", cast(ids, F32)), I32)
    gates = get_rows(reshape(probabilities, 1, *probabilities.ne[:2]), ids)
    flat = (used, tokens)
    if gating == "late softmax":
        gates = reshape(unary("SOFT_MAX", reshape(gates, *flat)), 1, *flat)
    if _normed(build):
        rows = reshape(gates, *flat)
        total = unary("CLAMP", Tensor("SUM_ROWS", (1, tokens), 4, (rows,)))
        gates = reshape(unary("DIV", rows, total), 1, *flat)
    if build.numbers.get("expert_weights_scale", 0) not in (0, 1):
        gates = unary("SCALE", gates)
    return build.graph.expand(gates), ids


def _gating(build: Context) -> Gating:
    style = build.style
    number = int(build.numbers.get("expert_gating_func", 0)) if style.gating_by_file else 0
    return GATINGS.get(number, style.gating)


def _normed(build: Context) -> bool:
    shares = build.style.shares_normed
    return shares == "yes" or (shares == "if set" and bool(build.numbers.get("expert_weights_norm", 0)))


def _top(scores: Tensor, count: int) -> Tensor:
    order = Tensor("ARGSORT", scores.ne, 4, (scores,))
    return view(order, "VIEW", (count, *scores.ne[1:]), order.nb)


def _of_groups(build: Context, scores: Tensor, groups: int) -> Tensor:
    """DeepSeek-V3: the best groups by their two best experts; the others are out."""
    tokens, each = scores.ne[1], scores.ne[0] // groups
    used = int(build.numbers.get("expert_group_used_count", 1))
    grouped = reshape(scores, each, groups, tokens)
    best = get_rows(reshape(grouped, 1, each, groups, tokens), _top(grouped, 2))
    sums = Tensor("SUM_ROWS", (1, groups, tokens), 4, (reshape(best, 2, groups, tokens),))
    top = _top(reshape(sums, groups, tokens), used)
    rest = get_rows(grouped, top)
    return reshape(set_rows(unary("FILL", grouped), rest, top), scores.ne[0], tokens)


def experts(
    build: Context, layer: LayerParts, source: Tensor, logits: Tensor | None = None, kind: str = "exps"
) -> Tensor:
    weights, tokens = layer.weights, source.ne[1]
    down = weights[f"ffn_down_{kind}.weight"]
    used = build.parts.experts_used
    if logits is None:
        logits = mul_mat(weights["ffn_gate_inp.weight"], source)
    shares, ids = router(build, layer, logits, used, chunks=down.ne[2] if kind == "chexps" else 0)
    each = reshape(source, source.ne[0], 1, tokens)
    before = build.parts.family == "llama4"  # weighs what goes in
    if before:
        each = unary("MUL", repeat(each, (source.ne[0], used, tokens)), shares)
    active = _activation(build, layer, each, ids, kind)
    output = mul_mat_id(down, active, ids)
    output.is_exact = build.style.exact_experts
    if "ffn_down_exps.scale" in weights:
        output = _scaled(output, weights["ffn_down_exps.scale"], ids)
    if "ffn_down_exps.bias" in weights:
        output = unary("ADD_ID", output, weights["ffn_down_exps.bias"], ids)
    if not before:
        output = unary("MUL", output, shares)
    build.graph.expand(output)
    parts = [build.graph.expand(strided(output, (output.ne[0], tokens), (output.nb[2],))) for _ in range(used)]
    total = parts[0]
    for part in parts[1:]:
        total = build.graph.expand(unary("ADD", total, part))
    return cont(total) if used == 1 else total


def _with_chunk_experts(build: Context, layer: LayerParts, source: Tensor) -> Tensor:
    """GroveMoE: small experts that several of the others share."""
    logits = mul_mat(layer.weights["ffn_gate_inp.weight"], source)
    output = experts(build, layer, source, logits)
    small = experts(build, layer, output, logits, "chexps")
    return unary("ADD", output, unary("SCALE", small))


def _activation(build: Context, layer: LayerParts, each: Tensor, ids: Tensor, kind: str) -> Tensor:
    weights = layer.weights
    if "ffn_gate_up_exps.weight" in weights:
        both = mul_mat_id(weights["ffn_gate_up_exps.weight"], each, ids)
        half = (both.ne[0] // 2, both.ne[1], both.ne[2])
        gate, up = (view(both, "VIEW", half, both.nb) for _ in range(2))
        return Tensor("GLU", half, 4, (gate, up))
    up = mul_mat_id(weights[f"ffn_up_{kind}.weight"], each, ids)
    if "ffn_up_exps.bias" in weights:
        up = unary("ADD_ID", up, weights["ffn_up_exps.bias"], ids)
    if f"ffn_gate_{kind}.weight" not in weights:
        return _activated(build, up)
    gate = mul_mat_id(weights[f"ffn_gate_{kind}.weight"], each, ids)
    if "ffn_gate_exps.bias" in weights:
        gate = unary("ADD_ID", gate, weights["ffn_gate_exps.bias"], ids)
    return Tensor("GLU", gate.ne, 4, (gate, up))


def _scaled(source: Tensor, scale: Tensor, ids: Tensor) -> Tensor:
    """build_lora_mm_id: one factor for each expert."""
    count, tokens = scale.ne[0], source.ne[2]
    spread = repeat(reshape(scale, 1, count, 1), (1, count, tokens))
    return unary("MUL", source, get_rows(spread, ids))
