"""Recurrent layers: gated delta nets (delta-net-base.cpp, qwen35.cpp, qwen3next.cpp, kimi-linear.cpp) and short
convolutions (lfm2.cpp); Mamba is in mamba.py."""

from oomph.engines.llamacpp.ggml.tensor import (
    F32,
    Tensor,
    concat,
    cont,
    copy_into,
    mul_mat,
    repeat,
    reshape,
    strided,
    transpose,
    unary,
    view,
)
from oomph.engines.llamacpp.graph.context import Context, LayerParts
from oomph.engines.llamacpp.graph.mamba import mamba1, mamba2, plamo2
from oomph.engines.llamacpp.graph.states import keep_history, load_states, states_of
from oomph.ir import State


def recurrent(build: Context, layer: LayerParts, source: Tensor, shape: State) -> Tensor:
    if shape.kind == "gdn" and "attn_qkv.weight" in layer.weights:
        return _delta_net(build, layer, source, shape)
    if shape.kind == "kda" and "ssm_f_b.weight" in layer.weights:
        return _kimi_delta(build, layer, source, shape)
    if shape.kind == "mamba2" and "ssm_in.weight" in layer.weights:
        return mamba2(build, layer, source, shape)
    if shape.kind == "mamba1" and "ssm_x.weight" in layer.weights:
        return (plamo2 if build.parts.family == "plamo2" else mamba1)(build, layer, source, shape)
    if shape.kind == "short_conv" and "shortconv.in_proj.weight" in layer.weights:
        return _short_conv(build, layer, source, shape)
    return _unknown(build, layer, source)


def _short_conv(build: Context, layer: LayerParts, source: Tensor, shape: State) -> Tensor:
    """lfm2.cpp: a gate before a short convolution, and one behind it."""
    weights, batch = layer.weights, build.batch
    tokens, sequences, width, history = batch.sequence_tokens, batch.sequences, source.ne[0], shape.conv_kernel - 1
    mixed = mul_mat(weights["shortconv.in_proj.weight"], reshape(source, width, tokens, sequences))
    before, behind, moving = (strided(mixed, (width, tokens, sequences), (mixed.nb[1], mixed.nb[2])) for _ in range(3))
    gated = transpose(unary("MUL", before, moving))
    states = states_of(build, layer, history * width)
    past = reshape(load_states(build, states), history, width, sequences)
    inputs = concat(past, gated)
    keep_history(build, states, inputs, history, width)
    conv = Tensor("SSM_CONV", (width, tokens, sequences), 4, (inputs, layer.small("shortconv.conv.weight")))
    output = mul_mat(weights["shortconv.out_proj.weight"], unary("MUL", behind, conv))
    return reshape(output, output.ne[0], tokens * sequences)


def _unknown(build: Context, layer: LayerParts, source: Tensor) -> Tensor:
    """A kind whose graph is not written down: its input matrices side by side, a step for each, and the output."""
    wide = [t for name, t in layer.weights.items() if t.ne[0] == source.ne[0] and t.ne[1] > 1 and "ffn" not in name]
    back = [t for name, t in layer.weights.items() if t.ne[1] == source.ne[0] and t not in wide and "ffn" not in name]
    steps = [unary("UNARY", reshape(product, *product.ne[:2])) for product in (mul_mat(t, source) for t in wide)]
    total = sum(step.ne[0] for step in steps)
    if not total:
        return source
    mixed = Tensor("SCAN", (total, source.ne[1]), F32, steps)
    if not back:
        return Tensor("MUL_MAT", source.ne, F32, (mixed,))
    inner = view(mixed, "VIEW", (back[-1].ne[0], source.ne[1]), mixed.nb)
    return mul_mat(back[-1], inner)


def _delta_net(build: Context, layer: LayerParts, source: Tensor, shape: State) -> Tensor:
    weights, batch = layer.weights, build.batch
    tokens, sequences = batch.sequence_tokens, batch.sequences
    value_heads, key_heads, key_dim, value_dim = shape.num_heads, shape.groups, shape.key_dim, shape.head_dim
    inner = value_heads * value_dim
    channels, history = inner + 2 * key_heads * key_dim, shape.conv_kernel - 1
    mixed = mul_mat(weights["attn_qkv.weight"], source)
    mixed = reshape(mixed, mixed.ne[0], tokens, sequences)
    gates = mul_mat(weights["attn_gate.weight"], source)
    beta, decay = _rates(layer, source, shape, tokens, sequences)
    conv_states = states_of(build, layer, history * channels)
    scan_states = states_of(build, layer, key_dim * inner)
    past = reshape(load_states(build, conv_states), history, channels, sequences)
    inputs = concat(past, transpose(mixed))
    keep_history(build, conv_states, inputs, history, channels)
    state = reshape(load_states(build, scan_states), value_dim, value_dim, value_heads, sequences)
    conv = Tensor("SSM_CONV", (channels, tokens, sequences), 4, (inputs, layer.small("ssm_conv1d.weight")))
    conv = unary("UNARY", conv)
    strides = (conv.nb[1], conv.nb[2])
    query, key = (
        _unit_length(strided(conv, (key_dim, key_heads, tokens, sequences), (4 * key_dim, *strides))) for _ in range(2)
    )
    value = strided(conv, (value_dim, value_heads, tokens, sequences), (4 * value_dim, *strides))
    if key_heads != value_heads and "ssm_ba.weight" in weights:  # Qwen3-Next repeats, its followers do not
        times = value_heads // key_heads
        query, key = (_repeated(t, times, tokens, sequences) for t in (query, key))
    snapshots = 1 + batch.snapshots
    rows = tokens * sequences + snapshots * value_dim * sequences
    result = Tensor("GATED_DELTA_NET", (inner, rows), 4, (query, key, value, decay, beta, state))
    output = view(result, "VIEW", (value_dim, value_heads, tokens, sequences),
                  (4, 4 * value_dim, 4 * inner, 4 * inner * tokens))  # fmt: skip
    new = view(result, "VIEW", (value_dim * inner, sequences, snapshots), None)
    target = strided(scan_states, (value_dim * inner, sequences, snapshots), (scan_states.nb[1],) * 2)
    build.graph.expand(copy_into(new, target))
    normed = build.norm(output, weights.get("ssm_norm.weight"), layer)
    gates = reshape(gates, value_dim, value_heads, tokens, sequences)
    output = unary("MUL", normed, unary("UNARY", gates))
    output = mul_mat(weights["ssm_out.weight"], reshape(output, inner, tokens, sequences))
    return reshape(output, output.ne[0], tokens * sequences)


def _unit_length(source: Tensor) -> Tensor:
    """build_gdn_l2_norm."""
    return unary("SCALE", unary("RMS_NORM", source))


def _kimi_delta(build: Context, layer: LayerParts, source: Tensor, shape: State) -> Tensor:
    """kimi-linear.cpp: a convolution each for queries, keys and values, a gate for each number of a head."""
    weights, batch = layer.weights, build.batch
    tokens, sequences, heads, width = batch.sequence_tokens, batch.sequences, shape.num_heads, shape.head_dim
    inner, history, every = heads * width, shape.conv_kernel - 1, batch.tokens
    conv_states = states_of(build, layer, 3 * history * inner)
    past = load_states(build, conv_states)

    def convolved(name: str) -> Tensor:
        stride = (4 * history, 4 * 3 * history * inner)
        old = strided(past, (history, inner, sequences), stride)
        new = reshape(mul_mat(weights[f"attn_{name}.weight"], source), inner, tokens, sequences)
        inputs = concat(old, transpose(new))
        last = strided(inputs, (history, inner, sequences), (inputs.nb[1], inputs.nb[2]))
        build.graph.expand(copy_into(last, strided(conv_states, (history, inner, sequences), stride)))
        conv = Tensor("SSM_CONV", (inner, tokens, sequences), 4, (inputs, layer.small(f"ssm_conv1d_{name}.weight")))
        return reshape(unary("UNARY", reshape(conv, inner, every)), width, heads, tokens, sequences)

    query, key, value = (convolved(name) for name in ("q", "k", "v"))
    decay = mul_mat(weights["ssm_f_b.weight"], mul_mat(weights["ssm_f_a.weight"], source))
    decay = reshape(unary("UNARY", unary("ADD", decay, layer.small("ssm_dt.bias"))), width, heads, every)
    decay = reshape(unary("MUL", decay, reshape(layer.small("ssm_a"), 1, heads, 1)), width, heads, tokens, sequences)
    beta = unary("UNARY", reshape(mul_mat(weights["ssm_beta.weight"], source), 1, heads, tokens, sequences))
    states = states_of(build, layer, width * inner)
    state = reshape(load_states(build, states), width, width, heads, sequences)
    query, key = _unit_length(query), _unit_length(key)
    rows = tokens * sequences + width * sequences
    result = Tensor("GATED_DELTA_NET", (inner, rows), 4, (query, key, value, decay, beta, state))
    output = cont(view(result, "VIEW", (width, heads, tokens, sequences),
                       (4, 4 * width, 4 * inner, 4 * inner * tokens)))  # fmt: skip
    new = view(result, "VIEW", (width, width, heads, sequences), None)
    build.graph.expand(copy_into(new, strided(states, (width * inner * sequences,), ())))
    gate = mul_mat(weights["ssm_g_b.weight"], mul_mat(weights["ssm_g_a.weight"], source))
    normed = build.norm(reshape(output, width, heads, every), weights.get("ssm_norm.weight"), layer)
    gated = unary("MUL", normed, unary("UNARY", reshape(gate, width, heads, every)))
    return mul_mat(weights["attn_output.weight"], cont(gated, (inner, every)))


def _repeated(tensor: Tensor, times: int, tokens: int, sequences: int) -> Tensor:
    width, heads = tensor.ne[0], tensor.ne[1]
    flat = reshape(tensor, width, 1, heads, tokens * sequences)
    return reshape(repeat(flat, (width, times, heads, tokens * sequences)), width, heads * times, tokens, sequences)


def _rates(layer: LayerParts, source: Tensor, shape: State, tokens: int, sequences: int) -> tuple[Tensor, Tensor]:
    """(beta, the gate of the state)."""
    weights, heads = layer.weights, shape.num_heads
    each = (1, heads, tokens, sequences)
    if "ssm_ba.weight" in weights:
        both = mul_mat(weights["ssm_ba.weight"], source)
        per = heads // shape.groups
        both = reshape(both, 2 * per, shape.groups, tokens, sequences)
        half = (per, shape.groups, tokens, sequences)
        beta = reshape(unary("UNARY", cont(view(both, "VIEW", half, both.nb))), *each)
        alpha = cont(view(both, "VIEW", half, both.nb), (heads, tokens, sequences))
    else:
        beta = unary("UNARY", reshape(mul_mat(weights["ssm_beta.weight"], source), *each))
        alpha = reshape(mul_mat(weights["ssm_alpha.weight"], source), heads, tokens, sequences)
    step = unary("UNARY", unary("ADD", alpha, layer.small("ssm_dt.bias")))
    return beta, reshape(unary("MUL", step, layer.small("ssm_a")), *each)
