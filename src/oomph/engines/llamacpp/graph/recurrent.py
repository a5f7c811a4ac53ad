"""Recurrent layers: Mamba-2 (mamba-base.cpp) and gated delta nets (delta-net-base.cpp, qwen35.cpp, qwen3next.cpp)."""

from oomph.engines.llamacpp.ggml.tensor import (
    F32,
    Tensor,
    cache,
    concat,
    cont,
    copy_into,
    get_rows,
    mul_mat,
    repeat,
    reshape,
    strided,
    transpose,
    unary,
    view,
)
from oomph.engines.llamacpp.graph.context import Context, LayerParts
from oomph.ir import State


def recurrent(build: Context, layer: LayerParts, source: Tensor, shape: State) -> Tensor:
    if shape.kind == "gdn" and "attn_qkv.weight" in layer.weights:
        return _delta_net(build, layer, source, shape)
    if shape.kind == "mamba2" and "ssm_in.weight" in layer.weights:
        return _mamba2(build, layer, source, shape)
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
    states = _states(build, layer, history * width)
    past = reshape(_load(build, states), history, width, sequences)
    inputs = concat(past, gated)
    _keep_history(build, states, inputs, history, width)
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


def _states(build: Context, layer: LayerParts, width: int) -> Tensor:
    rows = build.batch.sequences * (1 + build.batch.snapshots)
    return cache((width, rows), F32, layer.cache_home)


def _load(build: Context, states: Tensor, make: "Tensor | None" = None) -> Tensor:
    """build_rs: the states of this batch's sequences; `make` reads them itself."""
    graph = build.graph
    rows = reshape(states, *states.ne[:2])
    zero = view(rows, "VIEW", (0,), rows.nb)
    graph.expand(view(zero, "SCALE", zero.ne, zero.nb, (zero,)))
    loaded = make if make is not None else get_rows(rows, build.copied_states)
    graph.expand(loaded)
    rest = get_rows(rows, build.extra_states)
    graph.expand(copy_into(rest, strided(states, (states.ne[0], 0), (states.nb[1],))))
    return loaded


def _keep_history(build: Context, states: Tensor, inputs: Tensor, history: int, channels: int) -> None:
    for _ in range(1 + build.batch.snapshots):
        last = strided(inputs, (history, channels, build.batch.sequences), (inputs.nb[1], inputs.nb[2]))
        target = strided(states, (history * channels, build.batch.sequences), (states.nb[1],))
        build.graph.expand(copy_into(last, target))


def _mamba2(build: Context, layer: LayerParts, source: Tensor, shape: State) -> Tensor:
    weights, batch = layer.weights, build.batch
    tokens, sequences = batch.sequence_tokens, batch.sequences
    inner, size, heads = shape.intermediate or shape.num_heads * shape.head_dim, shape.state_size, shape.num_heads
    groups, width, history = shape.groups or 1, inner // heads, shape.conv_kernel - 1
    channels = inner + 2 * groups * size
    conv_states, scan_states = _states(build, layer, history * channels), _states(build, layer, inner * size)
    past = reshape(_load(build, conv_states), history, channels, sequences)
    mixed = mul_mat(weights["ssm_in.weight"], source)
    mixed = reshape(mixed, mixed.ne[0], tokens, sequences)
    gate = strided(mixed, (width, heads, tokens, sequences), (4 * width, mixed.nb[1], mixed.nb[2]))
    moving = strided(mixed, (channels, tokens, sequences), (mixed.nb[1], mixed.nb[2]))
    steps = strided(mixed, (heads, tokens, sequences), (mixed.nb[1], mixed.nb[2]))
    inputs = concat(past, transpose(moving))
    _keep_history(build, conv_states, inputs, history, channels)
    conv = Tensor("SSM_CONV", (channels, tokens, sequences), 4, (inputs, layer.small("ssm_conv1d.weight")))
    if "ssm_conv1d.bias" in weights:
        conv = unary("ADD", conv, weights["ssm_conv1d.bias"])
    conv = unary("UNARY", conv)
    scanned = strided(conv, (width, heads, tokens, sequences), (4 * width, conv.nb[1], conv.nb[2]))
    writes, reads = (strided(conv, (size, groups, tokens, sequences), (4 * size, conv.nb[1], conv.nb[2]))
                     for _ in range(2))  # fmt: skip
    dt = unary("ADD", cont(steps), layer.small("ssm_dt.bias"))
    rows = reshape(scan_states, *scan_states.ne[:2])
    states = reshape(rows, size, width, heads, rows.ne[1])
    length = width * heads * tokens * sequences + (1 + batch.snapshots) * size * inner * sequences
    scan = Tensor("SSM_SCAN", (length,), 4,
                  (states, scanned, dt, layer.small("ssm_a"), writes, reads, build.copied_states))  # fmt: skip
    result = _load(build, scan_states, scan)
    new = view(result, "VIEW", (size * inner, sequences, 1 + batch.snapshots), None)
    target = strided(scan_states, (size * inner, sequences, 1 + batch.snapshots), (scan_states.nb[1],) * 2)
    build.graph.expand(copy_into(new, target))
    output = view(result, "VIEW", (width, heads, tokens, sequences),
                  (4, 4 * width, 4 * width * heads, 4 * width * heads * tokens))  # fmt: skip
    output = unary("ADD", output, unary("MUL", scanned, layer.small("ssm_d")))
    gates = cont(gate)
    output = Tensor("GLU", gates.ne, 4, (gates, output))
    if "ssm_norm.weight" in weights:
        output = build.norm(
            reshape(output, inner // groups, groups, tokens, sequences), weights["ssm_norm.weight"], layer
        )
    return mul_mat(weights["ssm_out.weight"], reshape(output, inner, tokens * sequences))


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
    conv_states = _states(build, layer, history * channels)
    scan_states = _states(build, layer, key_dim * inner)
    past = reshape(_load(build, conv_states), history, channels, sequences)
    inputs = concat(past, transpose(mixed))
    _keep_history(build, conv_states, inputs, history, channels)
    state = reshape(_load(build, scan_states), value_dim, value_dim, value_heads, sequences)
    conv = Tensor("SSM_CONV", (channels, tokens, sequences), 4, (inputs, layer.small("ssm_conv1d.weight")))
    conv = unary("UNARY", conv)
    strides = (conv.nb[1], conv.nb[2])
    query, key = (
        unary("L2_NORM", strided(conv, (key_dim, key_heads, tokens, sequences), (4 * key_dim, *strides)))
        for _ in range(2)
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
