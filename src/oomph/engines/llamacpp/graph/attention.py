"""Attention of one layer: projections, cache, scores (build_qkv, build_attn, build_attn_mha)."""

from oomph.engines.llamacpp.ggml.tensor import (
    F16,
    F32,
    Tensor,
    cast,
    cont,
    mul_mat,
    permute,
    reshape,
    set_rows,
    strided,
    transpose,
    unary,
    view,
)
from oomph.engines.llamacpp.graph.context import AttentionInputs, Context, LayerParts
from oomph.ir import Attention

Qkv = tuple[Tensor, Tensor | None, Tensor | None]


def attention(build: Context, layer: LayerParts, source: Tensor, shape: Attention) -> Tensor:
    query, key, value, gate = projections(build, layer, source, shape)
    weights, style = layer.weights, build.style
    output = attend(build, layer, shape, (query, key, value))
    if gate is not None:
        output = unary("MUL", output, unary("UNARY", gate))
    elif style.gate and "attn_gate.weight" in weights:
        output = _gated(output, mul_mat(weights["attn_gate.weight"], source), shape)
    if "attn_sub_norm.weight" in weights:  # BitNet
        output = build.norm(output, weights["attn_sub_norm.weight"], layer)
    output = build.product(weights["attn_output.weight"], output, weights.get("attn_output.bias"))
    return build.scaled(output, "attention.value_scale", default=False)


def _gated(output: Tensor, gate: Tensor, shape: Attention) -> Tensor:
    gate = unary("UNARY", gate)
    if gate.ne[0] != shape.num_heads:
        return unary("MUL", output, gate)
    tokens = output.ne[1]
    by_head = reshape(output, shape.head_dim_v, shape.num_heads, tokens)
    return reshape(unary("MUL", by_head, reshape(gate, 1, shape.num_heads, tokens)), *output.ne)


def projections(
    build: Context, layer: LayerParts, source: Tensor, shape: Attention
) -> tuple[Tensor, Tensor | None, Tensor | None, Tensor | None]:
    """(query, key, value, gate); keys and values are None where the layer reads those of another one."""
    weights, tokens = layer.weights, build.batch.tokens
    heads, width = (shape.num_heads, shape.num_kv_heads), (shape.head_dim, shape.head_dim_v)
    gate: Tensor | None = None
    key: Tensor | None = None
    value: Tensor | None = None
    if "attn_qkv.weight" in weights:
        query, key, value = _fused(build, layer, source, shape)
    else:
        query = _clamped(build, build.product(weights["attn_q.weight"], source, weights.get("attn_q.bias")))
        if query.ne[0] == 2 * heads[0] * width[0]:  # Qwen3-Next and its kin: query and gate from one matrix
            both = (8 * width[0], 8 * width[0] * heads[0])
            gate = cont(strided(query, (width[0], heads[0], tokens), both), (width[0] * heads[0], tokens))
            query = strided(query, (width[0], heads[0], tokens), both)
        else:
            query = _by_head(build, layer, query, (width[0], heads[0]), "attn_q_norm")
        if shape.shares_cache_of is None and "attn_k.weight" in weights:
            plain = _clamped(build, build.product(weights["attn_k.weight"], source, weights.get("attn_k.bias")))
            key = _by_head(build, layer, plain, (width[0], heads[1]), "attn_k_norm")
            if "attn_v.weight" in weights:
                plain = _clamped(build, build.product(weights["attn_v.weight"], source, weights.get("attn_v.bias")))
            value = reshape(plain, width[1], heads[1], tokens)
    query = _turned(build, layer, query, "attn_q_norm", shape)
    if key is not None:
        key = _turned(build, layer, key, "attn_k_norm", shape)
    if value is not None and build.style.value_norm:
        value = unary("RMS_NORM", value)
    return _scaled_query(build, layer, query, shape), key, value, gate


def _fused(build: Context, layer: LayerParts, source: Tensor, shape: Attention) -> tuple[Tensor, Tensor, Tensor]:
    weights, tokens = layer.weights, build.batch.tokens
    fused = _clamped(build, build.product(weights["attn_qkv.weight"], source, weights.get("attn_qkv.bias")))
    norm = weights.get("attn_q_norm.weight")
    if norm is not None and norm.ne[0] > shape.head_dim:  # norms over all heads read them together
        parts = [
            cont(strided(fused, (count * width, tokens), (fused.nb[1],)))
            for count, width in ((shape.num_heads, shape.head_dim), (shape.num_kv_heads, shape.head_dim))
        ]
        query = _by_head(build, layer, parts[0], (shape.head_dim, shape.num_heads), "attn_q_norm")
        key = _by_head(build, layer, parts[1], (shape.head_dim, shape.num_kv_heads), "attn_k_norm")
        value = cont(strided(fused, (shape.num_kv_heads * shape.head_dim_v, tokens), (fused.nb[1],)))
        return query, key, reshape(value, shape.head_dim_v, shape.num_kv_heads, tokens)
    query, key, value = (
        strided(fused, (width, count, tokens), (4 * width, fused.nb[1]))
        for count, width in (
            (shape.num_heads, shape.head_dim),
            (shape.num_kv_heads, shape.head_dim),
            (shape.num_kv_heads, shape.head_dim_v),
        )
    )
    return query, key, value


def _clamped(build: Context, product: Tensor) -> Tensor:
    return unary("CLAMP", product) if build.numbers.get("attention.clamp_kqv") else product


def _scaled_query(build: Context, layer: LayerParts, query: Tensor, shape: Attention) -> Tensor:
    style = build.style
    by_position = build.numbers.get("attention.temperature_scale") and build.parts.family == "mistral3"
    if by_position or (style.scales_unrotated and not rotated(build, layer, shape)):
        query = unary("MUL", query, build.query_scale)
    return unary("SCALE", query) if style.scales_query else query


def _by_head(build: Context, layer: LayerParts, product: Tensor, shape: tuple[int, int], norm: str) -> Tensor:
    """OLMo, MiniMax, MPT: one norm over all heads, before they are told apart."""
    weight = layer.weights.get(f"{norm}.weight")
    if weight is not None and weight.rows == 1 and weight.ne[0] > shape[0]:
        product = build.norm(product, weight, layer, layer.weights.get(f"{norm}.bias"), build.style.head_norm)
    return reshape(product, *shape, product.ne[1])


def rotated(build: Context, layer: LayerParts, shape: Attention) -> bool:
    style = build.style
    windowed = shape.kind in ("sliding_window", "chunked_local")
    if style.rope == "windowed":  # EXAONE 4 without windows rotates all
        dense = style.dense_rotated and layer.index < build.numbers.get("leading_dense_block_count", 0)
        return windowed or dense or not build.windowed
    if style.rope == "stepped":
        return (layer.index + 1) % style.step != 0
    if style.rope == "stepped from 0":
        return layer.index % style.step != 0 or style.step == build.parts.depth or not build.windowed
    if style.rope == "finetuned":  # Granite's switch
        return bool(build.numbers.get("rope.scaling.finetuned", 1))
    return style.rope == "every" or (style.rope == "of 32 layers" and build.parts.depth == 32)


def _turned(build: Context, layer: LayerParts, tensor: Tensor, norm: str, shape: Attention) -> Tensor:
    """Norm of each head and rotation, in the family's order."""
    turns, late = rotated(build, layer, shape), build.style.late_head_norms
    windowed = shape.kind == "sliding_window"
    if turns and late:
        tensor = build.rope(tensor, layer, windowed=windowed)
    weight = layer.weights.get(f"{norm}.weight")
    if weight is not None and (weight.ne[0] <= tensor.ne[0] or weight.rows > 1):
        tensor = build.norm(tensor, weight, layer, layer.weights.get(f"{norm}.bias"), build.style.head_norm)
    elif build.style.plain_key_norm and norm == "attn_k_norm":
        tensor = unary("RMS_NORM", tensor)
    if turns and not late:
        tensor = build.rope(tensor, layer, windowed=windowed)
        if build.style.plain_head_norms:
            tensor = unary("RMS_NORM", tensor)
    return tensor


def attend(
    build: Context, layer: LayerParts, shape: Attention, qkv: Qkv, decompress: Tensor | None = None,
    latent: int = 0,
) -> Tensor:  # fmt: skip
    """build_attn without the output's product."""
    query, key, value = qkv
    if shape.kind == "encoder_only" or build.style.uncached:
        for tensor in (query, key, value):
            if tensor is not None:
                build.graph.expand(tensor)
        mask = build.batch_masks[1 if shape.window else 0]
        return _scores(build, layer, query, key or query, value or query, mask, decompress, turned=False)
    windowed = shape.kind in ("sliding_window", "chunked_local")
    inputs = build.window if windowed and build.window is not None else build.full
    if inputs.rotate_k is not None:
        query = _rotated(query, inputs.rotate_k)
        key = _rotated(key, inputs.rotate_k) if key is not None else None
    if inputs.rotate_v is not None and value is not None:
        value = _rotated(value, inputs.rotate_v)
    for tensor in (query, key, value) if build.windowed else (query, value, key):
        if tensor is not None:
            build.graph.expand(tensor)
    keys, values = _cached(build, layer, shape, inputs, key, value, windowed=windowed, latent=latent)
    turned = build.batch.turned_values and decompress is None
    output = _scores(build, layer, query, keys, values, inputs.mask, decompress, turned=turned)
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
    owner = layer.index if shape.shares_cache_of is None else shape.shares_cache_of
    keys = build.cache(("keys", owner), rows, cells, layer.cache_home)
    if key is not None:
        flat = strided(key, (rows, batch.tokens), (key.nb[2],))
        merged = reshape(keys, rows, cells * batch.streams) if batch.streams > 1 else keys
        build.graph.expand(set_rows(merged, flat, inputs.key_ids))
    read_k = _read(keys, (width_k, heads, cells, batch.streams))
    if latent:  # the values are a part of the keys
        read_v = view(read_k, "VIEW", (width_v, heads, cells, batch.streams), read_k.nb)
        return read_k, read_v
    wide = build.parts.window_widest if batch.turned_values else 0
    values = build.cache(("values", owner), max(heads * width_v, wide), cells, layer.cache_home)
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
    decompress: Tensor | None, *, turned: bool,
) -> Tensor:  # fmt: skip
    """build_attn_mha. `turned`: the cache has the values' columns together."""
    streams = keys.ne[3]
    query = strided(
        query, (query.ne[0], query.ne[1], query.ne[2] // streams, streams),
        (query.nb[1], query.nb[2], query.nb[3] // streams),
    )  # fmt: skip
    query, keys, values = (permute(t, 0, 2, 1, 3) for t in (query, keys, values))
    sinks = [w for name in ("attn_sinks.weight",) if (w := layer.weights.get(name)) is not None]
    if build.batch.flash:
        keys, values = (cast(t, F16) if t.element == F32 or t.cache_type == "f32" else t for t in (keys, values))
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
    if build.style.capped_scores:  # attn_logit_softcapping
        scores = unary("SCALE", unary("UNARY", unary("SCALE", scores)))
    scores = unary("SOFT_MAX", scores, mask, *sinks)
    if not turned:
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
