"""Latent attention: one compressed vector for keys and values (deepseek2, minicpm3, plm, kimi-linear.cpp)."""

from oomph.engines.llamacpp.ggml.tensor import Tensor, concat, cont, mul_mat, permute, repeat, reshape, strided, unary
from oomph.engines.llamacpp.graph.attention import attend, rotated
from oomph.engines.llamacpp.graph.context import Context, LayerParts
from oomph.ir import Attention


def latent_attention(build: Context, layer: LayerParts, source: Tensor, shape: Attention) -> Tensor:
    if shape.kind == "mla":
        return _latent(build, layer, source, shape)
    return _expanded_latent(build, layer, source, shape)


def _latent(build: Context, layer: LayerParts, source: Tensor, shape: Attention) -> Tensor:
    """MLA with the matrices absorbed: one key of rank + rope for all heads."""
    weights, tokens, heads = layer.weights, build.batch.tokens, shape.num_heads
    rank, rope, nope = shape.kv_lora_rank, shape.qk_rope_head_dim, shape.qk_nope_head_dim
    query = _latent_query(build, layer, source, heads, nope + rope)
    compressed = mul_mat(weights["attn_kv_a_mqa.weight"], source)
    row = 4 * (rank + rope)
    turned = _turned(build, layer, strided(compressed, (rope, 1, tokens), (row, row)), shape)
    normed = build.norm(strided(compressed, (rank, tokens), (row,)), weights.get("attn_kv_a_norm.weight"), layer)
    plain = strided(query, (nope, heads, tokens), (query.nb[1], query.nb[2]))
    rotary = _turned(build, layer, strided(query, (rope, heads, tokens), (query.nb[1], query.nb[2])), shape)
    absorbed = permute(mul_mat(weights["attn_k_b.weight"], permute(plain, 0, 2, 1, 3)), 0, 2, 1, 3)
    full_query = _by_position(build, concat(absorbed, rotary))
    value = reshape(normed, rank, 1, tokens)
    key = concat(value, turned)
    cached = Attention("mla", heads, 1, rank + rope, rank, kv_lora_rank=rank, qk_rope_head_dim=rope)
    output = attend(build, layer, cached, (full_query, key, value), weights["attn_v_b.weight"], latent=rank)
    return build.product(weights["attn_output.weight"], output)


def _turned(build: Context, layer: LayerParts, tensor: Tensor, shape: Attention) -> Tensor:
    return build.rope(tensor, layer) if rotated(build, layer, shape) else tensor


def _by_position(build: Context, query: Tensor) -> Tensor:
    scaled = build.numbers.get("attention.temperature_scale")
    return unary("MUL", query, build.query_scale) if scaled else query


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
    query = _turned(build, layer, _latent_query(build, layer, source, heads, shape.head_dim), shape)
    query = _by_position(build, query)
    compressed = mul_mat(shared, source)
    row = 4 * (rank + rope)
    turned = _turned(build, layer, strided(compressed, (rope, 1, tokens), (row, row)), shape)
    normed = build.norm(strided(compressed, (rank, tokens), (row,)), weights.get("attn_kv_a_norm.weight"), layer)
    both = mul_mat(weights["attn_kv_b.weight"], normed)
    strides = (4 * (nope + wide), 4 * (nope + wide) * heads)
    key = concat(strided(both, (nope, heads, tokens), strides), repeat(turned, (rope, heads, tokens)))
    value = cont(strided(both, (wide, heads, tokens), strides))
    output = attend(build, layer, shape, (query, key, value))
    return build.product(weights["attn_output.weight"], output)
