"""Gemma 3n (gemma3n.cpp): four hidden states side by side, of which each layer predicts all and computes one."""

from oomph.engines.llamacpp.ggml.tensor import (
    F32,
    Tensor,
    cont,
    get_rows,
    mul_mat,
    permute,
    repeat,
    reshape,
    strided,
    transpose,
    unary,
)
from oomph.engines.llamacpp.graph.attention import attention
from oomph.engines.llamacpp.graph.context import Context, LayerParts
from oomph.ir import Attention

SPARSE_LAYERS = 10  # n_layer_sparsity


def stacked(build: Context, hidden: Tensor) -> Tensor:
    """The embedding and its projections, each as long as the embedding."""
    projection = build.parts.root["altup_proj.weight"]
    count = projection.ne[2]
    added = mul_mat(projection, repeat(hidden, (*hidden.ne[:2], count)))
    scaled = unary("DIV", unary("MUL", added, _magnitude(hidden)), _magnitude(added))
    return _stack(hidden, scaled)


def unstacked(build: Context, hidden: Tensor) -> Tensor:
    projection = build.parts.root["altup_unembd_proj.weight"]
    others = mul_mat(projection, _rest(hidden))
    scaled = unary("DIV", unary("MUL", others, _magnitude(_slice(hidden))), _magnitude(others))
    total = _slice(hidden)
    for _ in range(projection.ne[2]):
        total = unary("ADD", total, _slice(scaled))
    return get_rows(unary("SCALE", total), build.output_ids)


def altup_layer(build: Context, layer: LayerParts, hidden: Tensor, inputs: Tensor) -> Tensor:
    weights = layer.weights
    predictions = _predicted(build, layer, hidden)
    active = _slice(predictions)
    normed = build.norm(active, weights["attn_norm.weight"], layer)
    laurel = mul_mat(weights["laurel_r.weight"], mul_mat(weights["laurel_l.weight"], normed))
    laurel = unary("ADD", build.norm(laurel, weights["laurel_post_norm.weight"], layer), normed)
    shape = next(mixer for mixer in layer.mixers if isinstance(mixer, Attention))
    mixed = build.norm(attention(build, layer, normed, shape), weights["post_attention_norm.weight"], layer)
    middle = unary("SCALE", unary("ADD", unary("ADD", mixed, active), laurel))
    output = _mlp(build, layer, build.norm(middle, weights["ffn_norm.weight"], layer))
    output = build.norm(output, weights["post_ffw_norm.weight"], None)
    corrected = _corrected(build, layer, predictions, unary("ADD", output, middle))
    first = unary("MUL", _slice(corrected), weights["altup_correct_scale.weight"])
    first = unary("UNARY", mul_mat(weights["inp_gate.weight"], first))
    first = mul_mat(weights["proj.weight"], unary("MUL", first, _slice(inputs)))
    first = build.norm(first, weights["post_norm.weight"], layer)
    return _stack(_slice(corrected), unary("ADD", _rest(corrected), first))


def _mlp(build: Context, layer: LayerParts, source: Tensor) -> Tensor:
    weights = layer.weights
    up, gate = mul_mat(weights["ffn_up.weight"], source), mul_mat(weights["ffn_gate.weight"], source)
    if layer.index < SPARSE_LAYERS:
        gate = _sparse(gate)
    return mul_mat(weights["ffn_down.weight"], unary("MUL", up, unary("UNARY", gate)))


def _sparse(gate: Tensor) -> Tensor:
    """gaussian_topk: what is below a multiple of the standard deviation is left out."""
    mean = Tensor("MEAN", (1, *gate.ne[1:]), F32, (gate,))
    squares = unary("SQR", unary("SUB", gate, mean))
    deviation = unary("SQRT", unary("SCALE", Tensor("SUM_ROWS", (1, *gate.ne[1:]), F32, (squares,))))
    return unary("UNARY", unary("SUB", gate, unary("ADD", mean, unary("SCALE", deviation))))


def _modalities(build: Context, layer: LayerParts, source: Tensor) -> Tensor:
    normed = unary("SCALE", build.norm(source, layer.weights["altup_router_norm.weight"], layer))
    return unary("UNARY", mul_mat(layer.weights["altup_router.weight"], normed))


def _predicted(build: Context, layer: LayerParts, hidden: Tensor) -> Tensor:
    count, tokens = hidden.ne[2], hidden.ne[1]
    factors = mul_mat(layer.weights["altup_predict_coef.weight"], _modalities(build, layer, _slice(hidden)))
    turned = cont(permute(hidden, 1, 2, 0, 3))
    predictions = mul_mat(turned, reshape(factors, count, count, tokens))
    return unary("ADD", cont(permute(predictions, 0, 2, 1, 3)), hidden)


def _corrected(build: Context, layer: LayerParts, predictions: Tensor, active: Tensor) -> Tensor:
    count, tokens = predictions.ne[2], predictions.ne[1]
    modalities = _modalities(build, layer, active)
    innovation = unary("SUB", active, _slice(predictions))
    factors = unary("SCALE", mul_mat(layer.weights["altup_correct_coef.weight"], modalities))
    factors = cont(transpose(factors), (1, tokens, count))
    spread = repeat(innovation, (*innovation.ne[:2], count))
    return unary("ADD", unary("MUL", spread, factors), predictions)


def _magnitude(source: Tensor) -> Tensor:
    return unary("SQRT", Tensor("SUM_ROWS", (1, *source.ne[1:]), F32, (unary("SQR", source),)))


def _slice(source: Tensor) -> Tensor:
    return strided(source, source.ne[:2], (source.nb[1],))


def _rest(source: Tensor) -> Tensor:
    return strided(source, (*source.ne[:2], source.ne[2] - 1), source.nb[1:3])


def _stack(first: Tensor, rest: Tensor) -> Tensor:
    return Tensor("CONCAT", (*first.ne[:2], 1 + rest.ne[2]), F32, (first, rest))
