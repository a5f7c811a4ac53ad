"""Attention of one layer: projections, cache, scores (build_qkv, build_attn, build_attn_mha, deepseek2.cpp)."""

from oomph.engines.llamacpp.ggml.tensor import (
    F16,
    Tensor,
    cast,
    concat,
    cont,
    mul_mat,
    permute,
    repeat,
    reshape,
    set_rows,
    strided,
    transpose,
    unary,
    view,
)
from oomph.engines.llamacpp.graph.context import AttentionInputs, Context, LayerParts, cache_tensor
from oomph.ir import Attention

Qkv = tuple[Tensor, Tensor | None, Tensor | None]
# Q is scaled in a step of its own (gemma*.cpp, phi3.cpp)
SCALED_QUERY = frozenset(("gemma2", "gemma3", "gemma", "phi3", "phi2"))


def attention(build: Context, layer: LayerParts, source: Tensor, shape: Attention) -> Tensor:
    if shape.kind == "mla":
        return _latent(build, layer, source, shape)
    if "attn_kv_a_mqa.weight" in layer.weights:
        return _expanded_latent(build, layer, source, shape)
    gated = _gated(layer, shape)
    query, key, value, gate = projections(build, layer, source, shape, gated=gated)
    weights = layer.weights
    output = attend(build, layer, shape, (query, key, value))
    if gate is not None:
        output = unary("MUL", output, unary("UNARY", gate))
    return build.product(weights["attn_output.weight"], output, weights.get("attn_output.bias"))


def _gated(layer: LayerParts, shape: Attention) -> bool:
    """Qwen3-Next and its kin: query and gate from one matrix."""
    matrix = layer.weights.get("attn_q.weight")
    return matrix is not None and matrix.ne[1] == 2 * shape.num_heads * shape.head_dim


def projections(
    build: Context, layer: LayerParts, source: Tensor, shape: Attention, *, gated: bool
) -> tuple[Tensor, Tensor | None, Tensor | None, Tensor | None]:
    weights, tokens = layer.weights, build.batch.tokens
    heads, width = (shape.num_heads, shape.num_kv_heads), (shape.head_dim, shape.head_dim_v)
    gate: Tensor | None = None
    key: Tensor | None = None
    value: Tensor | None = None
    if "attn_qkv.weight" in weights:
        fused = build.product(weights["attn_qkv.weight"], source, weights.get("attn_qkv.bias"))
        query = strided(fused, (width[0], heads[0], tokens), (4 * width[0], fused.nb[1]))
        key = strided(fused, (width[0], heads[1], tokens), (4 * width[0], fused.nb[1]))
        value = strided(fused, (width[1], heads[1], tokens), (4 * width[1], fused.nb[1]))
    else:
        query = build.product(weights["attn_q.weight"], source, weights.get("attn_q.bias"))
        if gated:
            both = (8 * width[0], 8 * width[0] * heads[0])
            gate = cont(strided(query, (width[0], heads[0], tokens), both), (width[0] * heads[0], tokens))
            query = strided(query, (width[0], heads[0], tokens), both)
        else:
            query = _by_head(build, layer, query, (width[0], heads[0]), "attn_q_norm.weight")
        if shape.shares_cache_of is None and "attn_k.weight" in weights:
            plain = build.product(weights["attn_k.weight"], source, weights.get("attn_k.bias"))
            key = _by_head(build, layer, plain, (width[0], heads[1]), "attn_k_norm.weight")
            if "attn_v.weight" in weights:
                plain = build.product(weights["attn_v.weight"], source, weights.get("attn_v.bias"))
            value = reshape(plain, width[1], heads[1], tokens)
    windowed = shape.kind == "sliding_window"
    query = _turned(build, layer, query, "attn_q_norm.weight", windowed=windowed)
    if key is not None:
        key = _turned(build, layer, key, "attn_k_norm.weight", windowed=windowed)
    if value is not None and build.parts.family in ("gemma4", "gemma3n"):
        value = unary("RMS_NORM", value)
    if build.parts.family in SCALED_QUERY:
        query = unary("SCALE", query)
    return query, key, value, gate


def _by_head(build: Context, layer: LayerParts, product: Tensor, shape: tuple[int, int], norm: str) -> Tensor:
    """OLMo, MiniMax: one norm over all heads, before they are told apart."""
    weight = layer.weights.get(norm)
    if weight is not None and weight.ne[0] > shape[0]:
        product = build.norm(product, weight, layer)
    return reshape(product, *shape, product.ne[1])


def _turned(build: Context, layer: LayerParts, tensor: Tensor, norm: str, *, windowed: bool) -> Tensor:
    weight = layer.weights.get(norm)
    if weight is not None and weight.ne[0] <= tensor.ne[0]:
        tensor = build.norm(tensor, weight, layer)
    return build.rope(tensor, layer, windowed=windowed)


def attend(
    build: Context, layer: LayerParts, shape: Attention, qkv: Qkv, decompress: Tensor | None = None,
    latent: int = 0,
) -> Tensor:  # fmt: skip
    """build_attn without the output's product."""
    windowed = shape.kind in ("sliding_window", "chunked_local")
    inputs = build.window if windowed and build.window is not None else build.full
    query, key, value = qkv
    if inputs.rotate_k is not None:
        query = _rotated(query, inputs.rotate_k)
        key = _rotated(key, inputs.rotate_k) if key is not None else None
    if inputs.rotate_v is not None and value is not None:
        value = _rotated(value, inputs.rotate_v)
    graph = build.graph
    for tensor in (query, key, value) if build.windowed else (query, value, key):
        if tensor is not None:
            graph.expand(tensor)
    if shape.kind == "encoder_only":
        keys, values = key or query, value or query
    else:
        keys, values = _cached(build, layer, shape, inputs, key, value, windowed=windowed, latent=latent)
    output = _scores(build, layer, query, keys, values, inputs.mask, decompress)
    if inputs.rotate_v is not None:
        output = _rotated(output, inputs.rotate_v)
    return output


def _rotated(source: Tensor, matrix: Tensor) -> Tensor:
    """llama_mul_mat_hadamard: rows of a quantised cache are turned before they are written."""
    elements = source.ne[0] * source.ne[1] * source.ne[2] * source.ne[3]
    contiguous = source.nb[1] == source.nb[0] * source.ne[0] and source.nb[2] == source.nb[1] * source.ne[1]
    shape = (matrix.ne[0], elements // matrix.ne[0])
    flat = reshape(source, *shape) if contiguous else cont(source, shape)
    return reshape(mul_mat(matrix, flat), *source.ne)


def _cached(
    build: Context, layer: LayerParts, shape: Attention, inputs: AttentionInputs, key: Tensor | None,
    value: Tensor | None, *, windowed: bool, latent: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """What is new is written to the cache, and all of it is read."""
    batch = build.batch
    cells = batch.window_cells if windowed else batch.cells
    heads, width_k, width_v = shape.num_kv_heads, shape.head_dim, latent or shape.head_dim_v
    rows = heads * width_k
    keys = cache_tensor(rows, cells, batch.streams, batch.key_bytes, layer.cache_home)
    if key is not None:
        flat = strided(key, (rows, batch.tokens), (key.nb[2],))
        merged = reshape(keys, rows, cells * batch.streams) if batch.streams > 1 else keys
        build.graph.expand(set_rows(merged, flat, inputs.key_ids))
    read_k = _read(keys, (width_k, heads, cells, batch.streams))
    if latent:  # the values are a part of the keys
        read_v = view(read_k, "VIEW", (width_v, heads, cells, batch.streams), read_k.nb)
        return read_k, read_v
    wide = build.parts.window_widest if batch.turned_values else 0
    values = cache_tensor(max(heads * width_v, wide), cells, batch.streams, batch.value_bytes, layer.cache_home)
    if value is not None:
        _write_values(build, values, value, inputs, heads * width_v)
    if not batch.turned_values:
        return read_k, _read(values, (width_v, heads, cells, batch.streams))
    turned = _read(values, (cells, heads, width_v, batch.streams))
    turned.nb = (2, 2 * cells * width_v, 2 * cells, turned.nb[3])
    return read_k, turned


def _read(tensor: Tensor, ne: tuple[int, ...]) -> Tensor:
    shown = view(tensor, "VIEW", ne, (2, 2 * ne[0], 2 * ne[0] * ne[1], 2 * ne[0] * ne[1] * ne[2]))
    shown.size = tensor.size
    return shown


def _write_values(build: Context, values: Tensor, value: Tensor, inputs: AttentionInputs, width: int) -> None:
    batch = build.batch
    if not batch.turned_values:
        flat = strided(value, (width, batch.tokens), (value.nb[2],))
        merged = reshape(values, values.ne[0], values.ne[1] * batch.streams) if batch.streams > 1 else values
    else:
        contiguous = value.nb[2] == 4 * width
        flat = reshape(value, width, batch.tokens) if contiguous else cont(value, (width, batch.tokens))
        if width < values.ne[0]:
            flat = Tensor("PAD", (values.ne[0], batch.tokens), 4, (flat,))
            width = values.ne[0]
        merged = reshape(values, 1, values.ne[0] * values.ne[1] * values.ne[2])
        flat = reshape(flat, 1, width * batch.tokens)
    build.graph.expand(set_rows(merged, flat, inputs.value_ids))


def _scores(
    build: Context, layer: LayerParts, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor,
    decompress: Tensor | None,
) -> Tensor:  # fmt: skip
    """build_attn_mha."""
    streams = keys.ne[3]
    query = strided(
        query, (query.ne[0], query.ne[1], query.ne[2] // streams, streams),
        (query.nb[1], query.nb[2], query.nb[3] // streams),
    )  # fmt: skip
    query, keys, values = (permute(t, 0, 2, 1, 3) for t in (query, keys, values))
    sinks = [w for name in ("attn_sinks.weight",) if (w := layer.weights.get(name)) is not None]
    if build.batch.flash:
        if keys.element == 4:
            keys, values = cast(keys, F16), cast(values, F16)
        ne = (values.ne[0], query.ne[2], query.ne[1], query.ne[3])
        output = Tensor("FLASH_ATTN_EXT", ne, 4, (query, keys, values, mask, *sinks))
        if build.batch.flash_copy:
            output.size += _flash_copy(build, keys, values, latent=decompress is not None)
        build.fused.append((output, layer.device))
        if decompress is not None:
            output = mul_mat(decompress, permute(output, 0, 2, 1, 3))
            output = cont(permute(output, 0, 2, 1, 3))
        result = reshape(output, output.ne[0] * output.ne[1], output.ne[2] * output.ne[3])
        return build.graph.expand(result)
    scores = mul_mat(keys, query)
    if build.parts.family == "gemma2":  # attn_logit_softcapping
        scores = unary("SCALE", unary("UNARY", unary("SCALE", scores)))
    scores = unary("SOFT_MAX", scores, mask, *sinks)
    if not build.batch.turned_values or decompress is not None:
        values = cont(transpose(values))
    output = mul_mat(values, scores)
    if decompress is not None:
        output = mul_mat(decompress, output)
    merged = permute(output, 0, 2, 1, 3)
    result = cont(merged, (merged.ne[0] * merged.ne[1], merged.ne[2] * merged.ne[3]))
    if not build.batch.kv_offload:
        result.backend = build.parts.cpu
    return build.graph.expand(result)


def _flash_copy(build: Context, keys: Tensor, values: Tensor, *, latent: bool) -> int:
    """ggml_cuda_flash_attn_ext_get_alloc_size: kernels for prompts read F16; a quantised cache is converted."""
    copy = 0
    if build.batch.key_bytes < F16:
        copy += F16 * keys.ne[0] * keys.rows
    if build.batch.value_bytes < F16 and not latent:
        copy += F16 * values.ne[0] * values.rows
    return copy


def _latent(build: Context, layer: LayerParts, source: Tensor, shape: Attention) -> Tensor:
    """MLA with the matrices absorbed: one key of rank + rope for all heads."""
    weights, tokens, heads = layer.weights, build.batch.tokens, shape.num_heads
    rank, rope, nope = shape.kv_lora_rank, shape.qk_rope_head_dim, shape.qk_nope_head_dim
    query = _latent_query(build, layer, source, heads, nope + rope)
    compressed = mul_mat(weights["attn_kv_a_mqa.weight"], source)
    row = 4 * (rank + rope)
    turned = unary("ROPE", strided(compressed, (rope, 1, tokens), (row, row)), build.positions)
    normed = build.norm(strided(compressed, (rank, tokens), (row,)), weights.get("attn_kv_a_norm.weight"), layer)
    plain = strided(query, (nope, heads, tokens), (query.nb[1], query.nb[2]))
    rotary = unary("ROPE", strided(query, (rope, heads, tokens), (query.nb[1], query.nb[2])), build.positions)
    absorbed = permute(mul_mat(weights["attn_k_b.weight"], permute(plain, 0, 2, 1, 3)), 0, 2, 1, 3)
    full_query = concat(absorbed, rotary)
    value = reshape(normed, rank, 1, tokens)
    key = concat(value, turned)
    cached = Attention("mla", heads, 1, rank + rope, rank, kv_lora_rank=rank, qk_rope_head_dim=rope)
    output = attend(build, layer, cached, (full_query, key, value), weights["attn_v_b.weight"], latent=rank)
    return build.product(weights["attn_output.weight"], output)


def _latent_query(build: Context, layer: LayerParts, source: Tensor, heads: int, width: int) -> Tensor:
    weights = layer.weights
    if "attn_q_a.weight" in weights:
        small = build.norm(mul_mat(weights["attn_q_a.weight"], source), weights.get("attn_q_a_norm.weight"), layer)
        query = mul_mat(weights["attn_q_b.weight"], small)
    else:
        query = mul_mat(weights["attn_q.weight"], source)
    return reshape(query, width, heads, build.batch.tokens)


def _expanded_latent(build: Context, layer: LayerParts, source: Tensor, shape: Attention) -> Tensor:
    """Older DeepSeek files: keys and values of every head are cached."""
    weights, tokens, heads = layer.weights, build.batch.tokens, shape.num_heads
    shared = weights["attn_kv_a_mqa.weight"]
    rank = weights["attn_kv_b.weight"].ne[0]
    rope = shared.ne[1] - rank
    nope, wide = shape.head_dim - rope, shape.head_dim_v
    query = unary("ROPE", _latent_query(build, layer, source, heads, shape.head_dim), build.positions)
    compressed = mul_mat(shared, source)
    row = 4 * (rank + rope)
    turned = unary("ROPE", strided(compressed, (rope, 1, tokens), (row, row)), build.positions)
    normed = build.norm(strided(compressed, (rank, tokens), (row,)), weights.get("attn_kv_a_norm.weight"), layer)
    both = mul_mat(weights["attn_kv_b.weight"], normed)
    strides = (4 * (nope + wide), 4 * (nope + wide) * heads)
    key = concat(strided(both, (nope, heads, tokens), strides), repeat(turned, (rope, heads, tokens)))
    value = cont(strided(both, (wide, heads, tokens), strides))
    output = attend(build, layer, shape, (query, key, value))
    return build.product(weights["attn_output.weight"], output)
