"""The feed-forward part of a layer: dense, experts, shared experts (build_ffn, build_moe_ffn)."""

from oomph.engines.llamacpp.ggml.tensor import (
    Tensor,
    cont,
    get_rows,
    mul_mat,
    mul_mat_id,
    repeat,
    reshape,
    strided,
    unary,
    view,
)
from oomph.engines.llamacpp.graph.context import Context, LayerParts

# the experts' weights are not made to sum to one (`norm_w` of build_moe_ffn is false)
NOT_NORMED = frozenset(
    ("gpt-oss", "gpt_oss", "deepseek2", "deepseek_v2", "llama4", "qwen2moe", "olmoe", "dbrx", "grok")
)


def feed_forward(build: Context, layer: LayerParts, source: Tensor) -> Tensor:
    weights = layer.weights
    if "ffn_gate_inp.weight" not in weights or "ffn_down_exps.weight" not in weights:
        return dense(build, layer, source)
    output = experts(build, layer, source)
    if "ffn_up_shexp.weight" in weights:
        shared = dense(build, layer, source, "_shexp")
        if "ffn_gate_inp_shexp.weight" in weights:
            gate = unary("UNARY", mul_mat(weights["ffn_gate_inp_shexp.weight"], source))
            shared = unary("MUL", shared, gate)
        output = unary("ADD", output, shared)
    return output


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
        active = unary("UNARY", wide)
    return build.product(down, active, weights.get(f"ffn_down{suffix}.bias"))


def router(build: Context, layer: LayerParts, logits: Tensor) -> tuple[Tensor, Tensor]:
    """(the weights of the chosen experts, their numbers)."""
    weights, used, tokens = layer.weights, build.parts.experts_used, logits.ne[1]
    if "ffn_gate_inp.bias" in weights:
        logits = unary("ADD", logits, weights["ffn_gate_inp.bias"])
    late = "ffn_gate_exps.bias" in weights  # gpt-oss: softmax over the chosen ones only
    probabilities = logits if late else unary("SOFT_MAX", logits)
    chosen_by = probabilities
    if "exp_probs_b.bias" in weights:
        chosen_by = unary("ADD", probabilities, weights["exp_probs_b.bias"])
    order = Tensor("ARGSORT", chosen_by.ne, 4, (chosen_by,))
    ids = view(order, "VIEW", (used, tokens), order.nb)
    chosen = get_rows(reshape(probabilities, 1, *probabilities.ne[:2]), ids)
    flat = (used, tokens)
    if late:
        chosen = reshape(unary("SOFT_MAX", reshape(chosen, *flat)), 1, *flat)
    if build.parts.family not in NOT_NORMED:
        rows = reshape(chosen, *flat)
        total = unary("CLAMP", Tensor("SUM_ROWS", (1, tokens), 4, (rows,)))
        chosen = reshape(unary("DIV", rows, total), 1, *flat)
    return build.graph.expand(chosen), ids


def experts(build: Context, layer: LayerParts, source: Tensor, logits: Tensor | None = None) -> Tensor:
    weights, used, tokens = layer.weights, build.parts.experts_used, source.ne[1]
    if logits is None:
        logits = mul_mat(weights["ffn_gate_inp.weight"], source)
    shares, ids = router(build, layer, logits)
    each = reshape(source, source.ne[0], 1, tokens)
    before = build.parts.family == "llama4"  # weighs what goes in
    if before:
        each = unary("MUL", repeat(each, (source.ne[0], used, tokens)), shares)
    active = _activation(layer, each, ids)
    output = mul_mat_id(weights["ffn_down_exps.weight"], active, ids)
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


def _activation(layer: LayerParts, each: Tensor, ids: Tensor) -> Tensor:
    weights = layer.weights
    if "ffn_gate_up_exps.weight" in weights:
        both = mul_mat_id(weights["ffn_gate_up_exps.weight"], each, ids)
        half = (both.ne[0] // 2, both.ne[1], both.ne[2])
        gate, up = (view(both, "VIEW", half, both.nb) for _ in range(2))
        return Tensor("GLU", half, 4, (gate, up))
    up = mul_mat_id(weights["ffn_up_exps.weight"], each, ids)
    if "ffn_up_exps.bias" in weights:
        up = unary("ADD_ID", up, weights["ffn_up_exps.bias"], ids)
    if "ffn_gate_exps.weight" not in weights:
        return unary("UNARY", up)
    gate = mul_mat_id(weights["ffn_gate_exps.weight"], each, ids)
    if "ffn_gate_exps.bias" in weights:
        gate = unary("ADD_ID", gate, weights["ffn_gate_exps.bias"], ids)
    return Tensor("GLU", gate.ne, 4, (gate, up))


def _scaled(source: Tensor, scale: Tensor, ids: Tensor) -> Tensor:
    """build_lora_mm_id: one factor for each expert."""
    count, tokens = scale.ne[0], source.ne[2]
    spread = repeat(reshape(scale, 1, count, 1), (1, count, tokens))
    return unary("MUL", source, get_rows(spread, ids))
