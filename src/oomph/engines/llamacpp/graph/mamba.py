"""Mamba's two generations (mamba-base.cpp), and PLaMo 2's mixture of both (plamo2.cpp)."""

from oomph.engines.llamacpp.ggml.tensor import (
    Tensor,
    concat,
    cont,
    copy_into,
    mul_mat,
    permute,
    reshape,
    strided,
    transpose,
    unary,
    view,
)
from oomph.engines.llamacpp.graph.context import Context, LayerParts
from oomph.engines.llamacpp.graph.states import keep_history, load_states, states_of
from oomph.ir import State


def mamba1(build: Context, layer: LayerParts, source: Tensor, shape: State) -> Tensor:
    """build_mamba_layer: one head for each channel."""
    weights, batch = layer.weights, build.batch
    tokens, sequences = batch.sequence_tokens, batch.sequences
    inner, size, rank, history = shape.intermediate, shape.state_size, shape.num_heads, shape.conv_kernel - 1
    conv_states, scan_states = states_of(build, layer, history * inner), states_of(build, layer, inner * size)
    past = reshape(load_states(build, conv_states), history, inner, sequences)
    mixed = mul_mat(weights["ssm_in.weight"], reshape(source, source.ne[0], tokens, sequences))
    moving, gate = (strided(mixed, (inner, tokens, sequences), (mixed.nb[1], mixed.nb[2])) for _ in range(2))
    inputs = concat(past, transpose(moving))
    keep_history(build, conv_states, inputs, history, inner, snapshots=False)
    conv = Tensor("SSM_CONV", (inner, tokens, sequences), 4, (inputs, layer.small("ssm_conv1d.weight")))
    active = unary("UNARY", unary("ADD", conv, layer.small("ssm_conv1d.bias")))
    split = mul_mat(weights["ssm_x.weight"], active)
    steps = strided(split, (rank, tokens, sequences), (split.nb[1], split.nb[2]))
    writes, reads = (
        strided(split, (size, 1, tokens, sequences), (size * split.nb[0], split.nb[1], split.nb[2])) for _ in range(2)
    )
    if "ssm_dt_norm.weight" in weights:  # Jamba
        steps = build.norm(steps, weights["ssm_dt_norm.weight"], layer)
        writes = build.norm(writes, weights.get("ssm_b_norm.weight"), layer)
        reads = build.norm(reads, weights.get("ssm_c_norm.weight"), layer)
    else:
        steps = cont(steps)
    steps = unary("ADD", mul_mat(weights["ssm_dt.weight"], steps), layer.small("ssm_dt.bias"))
    rows = reshape(scan_states, *scan_states.ne[:2])
    states = reshape(rows, size, 1, inner, rows.ne[1])
    scanned = reshape(active, 1, inner, tokens, sequences)
    length = inner * tokens * sequences + size * inner * sequences
    scan = Tensor("SSM_SCAN", (length,), 4,
                  (states, scanned, steps, layer.small("ssm_a"), writes, reads, build.copied_states))  # fmt: skip
    result = load_states(build, scan_states, scan)
    count = size * inner * sequences
    build.graph.expand(copy_into(view(result, "VIEW", (count,), None), strided(scan_states, (count,), ())))
    output = strided(result, (inner, tokens, sequences), (4 * inner, 4 * inner * tokens))
    output = unary("ADD", output, unary("MUL", active, layer.small("ssm_d")))
    gates = cont(gate)
    output = mul_mat(weights["ssm_out.weight"], Tensor("GLU", gates.ne, 4, (gates, output)))
    return reshape(output, output.ne[0], tokens * sequences)


def plamo2(build: Context, layer: LayerParts, source: Tensor, shape: State) -> Tensor:
    """build_plamo2_mamba_layer: Mamba's projections with the heads of Mamba-2."""
    weights, batch = layer.weights, build.batch
    tokens, sequences, history = batch.sequence_tokens, batch.sequences, shape.conv_kernel - 1
    inner, size, heads = shape.intermediate, shape.state_size, weights["ssm_a"].ne[0]
    width = inner // heads
    conv_states, scan_states = states_of(build, layer, history * inner), states_of(build, layer, inner * size)
    past = reshape(load_states(build, conv_states), history, inner, sequences)
    mixed = mul_mat(weights["ssm_in.weight"], reshape(source, source.ne[0], tokens, sequences))
    mixed = cont(permute(mixed, 0, 2, 1, 3), (2 * width, heads, tokens, sequences))
    halves = [strided(mixed, (width, heads, tokens, sequences), mixed.nb[1:]) for _ in range(2)]
    inputs = concat(past, transpose(cont(halves[0], (inner, tokens, sequences))))
    keep_history(build, conv_states, inputs, history, inner, snapshots=False)
    conv = Tensor("SSM_CONV", (inner, tokens, sequences), 4, (inputs, layer.small("ssm_conv1d.weight")))
    active = unary("UNARY", conv)
    split = mul_mat(weights["ssm_x.weight"], active)
    rank = split.ne[0] - 2 * size
    reads_writes_steps = (
        strided(split, (count, tokens, sequences), (split.nb[1], split.nb[2])) for count in (size, size, rank)
    )
    names = ("ssm_b_norm.weight", "ssm_c_norm.weight", "ssm_dt_norm.weight")
    writes, reads, steps = (
        build.norm(part, weights.get(name), layer) for part, name in zip(reads_writes_steps, names, strict=True)
    )
    steps = unary("ADD", mul_mat(weights["ssm_dt.weight"], steps), layer.small("ssm_dt.bias"))
    scanned = strided(active, (width, heads, tokens, sequences), (4 * width, 4 * inner, 4 * inner * tokens))
    writes, reads = (
        strided(part, (size, 1, tokens, sequences), (size * part.nb[0], part.nb[1], part.nb[2]))
        for part in (writes, reads)
    )
    rows = reshape(scan_states, *scan_states.ne[:2])
    states = reshape(rows, size, width, heads, rows.ne[1])
    length = inner * tokens * sequences + size * inner * sequences
    decay = reshape(weights["ssm_a"], 1, heads)
    scan = Tensor("SSM_SCAN", (length,), 4, (states, scanned, steps, decay, writes, reads, build.copied_states))
    result = load_states(build, scan_states, scan)
    count = size * inner * sequences
    build.graph.expand(copy_into(view(result, "VIEW", (count,), None), strided(scan_states, (count,), ())))
    output = strided(result, (width, heads, tokens, sequences), (4 * width, 4 * inner, 4 * inner * tokens))
    output = unary("ADD", output, unary("MUL", scanned, reshape(weights["ssm_d"], 1, heads)))
    gates = cont(halves[1])
    output = Tensor("GLU", gates.ne, 4, (gates, output))
    flat = strided(output, (inner, tokens, sequences), (output.nb[2], output.nb[3]))
    output = mul_mat(weights["ssm_out.weight"], flat)
    return reshape(output, output.ne[0], tokens * sequences)


def mamba2(build: Context, layer: LayerParts, source: Tensor, shape: State) -> Tensor:
    weights, batch = layer.weights, build.batch
    tokens, sequences = batch.sequence_tokens, batch.sequences
    inner, size, heads = shape.intermediate or shape.num_heads * shape.head_dim, shape.state_size, shape.num_heads
    groups, width, history = shape.groups or 1, inner // heads, shape.conv_kernel - 1
    channels = inner + 2 * groups * size
    conv_states, scan_states = states_of(build, layer, history * channels), states_of(build, layer, inner * size)
    past = reshape(load_states(build, conv_states), history, channels, sequences)
    mixed = mul_mat(weights["ssm_in.weight"], source)
    mixed = reshape(mixed, mixed.ne[0], tokens, sequences)
    gate = strided(mixed, (width, heads, tokens, sequences), (4 * width, mixed.nb[1], mixed.nb[2]))
    moving = strided(mixed, (channels, tokens, sequences), (mixed.nb[1], mixed.nb[2]))
    steps = strided(mixed, (heads, tokens, sequences), (mixed.nb[1], mixed.nb[2]))
    inputs = concat(past, transpose(moving))
    keep_history(build, conv_states, inputs, history, channels)
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
    result = load_states(build, scan_states, scan)
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
