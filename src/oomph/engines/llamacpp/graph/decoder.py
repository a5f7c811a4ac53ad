"""The whole graph of a micro-batch: embedding, layers, output (src/models/*.cpp)."""

from oomph.engines.llamacpp.ggml.tensor import (
    F32,
    I32,
    I64,
    Tensor,
    concat,
    cont,
    get_rows,
    graph_input,
    mul_mat,
    permute,
    reshape,
    set_rows,
    strided,
    transpose,
    unary,
)
from oomph.engines.llamacpp.graph.attention import attention
from oomph.engines.llamacpp.graph.context import Batch, Context, LayerParts, Parts
from oomph.engines.llamacpp.graph.feedforward import dense, experts, feed_forward
from oomph.engines.llamacpp.graph.recurrent import recurrent
from oomph.ir import Attention

# Rows whose logits are wanted are taken at the end: hidden states of every token are kept for multi-token prediction.
# Before the last norm, or behind it.
ROWS_BEFORE_NORM = frozenset(("gpt-oss",))
RESIDUAL_FIRST = frozenset(("lfm2", "lfm2moe"))
NO_LOGITS = frozenset(("lfm2", "lfm2moe"))  # an embedding server of theirs computes no logits
ROWS_AFTER_NORM = frozenset(("gemma4", "qwen35", "qwen35moe"))


def build_graph(parts: Parts, batch: Batch) -> Context:
    build = Context(parts, batch)
    family = parts.family
    drafts = "nextn.eh_proj.weight" in parts.layers[0].weights
    table = parts.root.get("per_layer_token_embd.weight")
    rows = get_rows(table, graph_input((batch.tokens,), I32)) if table is not None else None
    if rows is not None and batch.facts.embedding == "mixed, rows first":
        build.graph.expand(rows)
    hidden = _draft_input(build) if drafts else _embedding(build)
    per_layer = _per_layer_inputs(build, hidden, rows) if rows is not None else None
    late = family in ROWS_BEFORE_NORM or family in ROWS_AFTER_NORM
    if family == "bert":
        hidden = _bert_input(build, hidden)
    for index, layer in enumerate(parts.layers):
        last = index == len(parts.layers) - 1 and not late
        if family == "bert":
            hidden = _bert_layer(build, layer, hidden, last=last)
        else:
            hidden = _layer(build, layer, hidden, last=last)
        if per_layer is not None:
            hidden = _with_layer_input(build, layer, hidden, per_layer)
        if "layer_output_scale.weight" in layer.weights:
            hidden = unary("MUL", hidden, layer.weights["layer_output_scale.weight"])
    if family in ROWS_BEFORE_NORM:
        hidden.is_output = True  # t_h_nextn
        hidden = get_rows(hidden, build.output_ids)
    if "output_norm.weight" in parts.root:
        hidden = build.norm(hidden, parts.root["output_norm.weight"], None)
    if family in ROWS_AFTER_NORM:
        hidden.is_output = True
        hidden = get_rows(hidden, build.output_ids)
    hidden.is_output = True  # t_embd
    headless = "output" not in parts.root or (batch.embeddings and family in NO_LOGITS)
    logits = hidden if headless else mul_mat(parts.root["output"], hidden)
    if family in ("gemma2", "gemma4", "granitehybrid"):
        logits = unary("SCALE", logits)
    logits.is_output = True
    build.graph.expand(logits)
    _pool(build, hidden)
    return build


def _embedding(build: Context) -> Tensor:
    tokens = graph_input((build.batch.tokens,), I32)
    vectors = graph_input((build.parts.embd, build.batch.tokens), F32)
    table = build.parts.root["token_embd.weight"]
    hidden = get_rows(table, tokens)
    way = build.batch.facts.embedding
    count = build.batch.tokens
    mixed = get_rows(table, graph_input((count,), I32))
    if way == "mixed, rows first":  # ggml_build_forward_order
        build.graph.expand(hidden)
        build.graph.expand(mixed)
    build.graph.expand(hidden)
    build.graph.expand(vectors)
    if way != "select":  # a batch of tokens and images at once: rows are written into a copy of the vectors
        both = unary("DUP", graph_input(vectors.ne, F32))
        build.graph.expand(set_rows(both, mixed, graph_input((count,), I64)))
    if build.parts.family.startswith("gemma"):
        hidden = unary("SCALE", hidden)
    return hidden


def _draft_input(build: Context) -> Tensor:
    """graph_mtp: the token's embedding beside the hidden state that the main model left."""
    layer = build.parts.layers[0]
    state = graph_input((build.parts.embd, build.batch.tokens), F32)
    token = get_rows(build.parts.root["token_embd.weight"], graph_input((build.batch.tokens,), I32))
    token = build.norm(token, layer.weights.get("nextn.enorm.weight"), layer)
    both = concat(token, build.norm(state, layer.weights.get("nextn.hnorm.weight"), layer))
    return mul_mat(layer.weights["nextn.eh_proj.weight"], both)


def _layer(build: Context, layer: LayerParts, hidden: Tensor, *, last: bool) -> Tensor:
    weights = layer.weights
    before, first = hidden, weights.get("attn_norm.weight")
    normed = hidden
    if first is not None:
        normed = build.norm(hidden, first, layer, weights.get("attn_norm.bias"), _norm_op(layer))
    if build.parts.family in ("qwen35", "qwen35moe", "qwen3next"):
        build.graph.expand(normed)
    mixed = _mixed(build, layer, hidden, normed)
    if len(layer.mixers) == 2:  # attention and state side by side: the sum is taken before rows are dropped
        before = unary("ADD", mixed, before)
        if last:
            before = get_rows(before, build.output_ids)
        normed = build.norm(before, weights.get("ffn_norm.weight") or weights.get("ffn_norm"), layer)
        return unary("ADD", feed_forward(build, layer, normed), before)
    if last:
        mixed, before = get_rows(mixed, build.output_ids), get_rows(before, build.output_ids)
    post, pre = weights.get("post_attention_norm.weight"), weights.get("ffn_norm.weight")
    own_norm = build.parts.family == "gptneox"  # use_parallel_residual: a norm of its own for the MLP
    if own_norm or (first is not None and post is None and pre is None and "ffn_up.weight" in weights):
        if own_norm:
            normed = build.norm(before, pre, layer, weights.get("ffn_norm.bias"), "NORM")
        return _side_by_side(build, layer, normed, mixed, before, last=last and not own_norm)
    if post is not None and (pre is not None or first is None):
        mixed = build.norm(mixed, post, layer)
    middle = _sum(build, mixed, before)
    if "ffn_up.weight" not in weights and "ffn_down_exps.weight" not in weights:
        return middle  # Mamba: no MLP
    if build.parts.family == "gemma4" and "ffn_gate_inp.weight" in weights:
        output = _gemma4_experts(build, layer, middle)
    else:
        inner = pre if pre is not None else post if first is not None else None
        source = middle
        if inner is not None:
            source = build.norm(middle, inner, layer, weights.get("ffn_norm.bias"), _norm_op(layer))
        output = feed_forward(build, layer, source)
    if "post_ffw_norm.weight" in weights:
        output = build.norm(output, weights["post_ffw_norm.weight"], None)
    return _sum(build, output, middle)


def _sum(build: Context, new: Tensor, residual: Tensor) -> Tensor:
    """The first of the two gives its place to the sum."""
    return unary("ADD", residual, new) if build.parts.family in RESIDUAL_FIRST else unary("ADD", new, residual)


def _side_by_side(
    build: Context, layer: LayerParts, normed: Tensor, mixed: Tensor, before: Tensor, *, last: bool
) -> Tensor:
    """Command R, Falcon, Phi-2: attention and MLP read the same norm."""
    if last:
        normed = get_rows(normed, build.output_ids)
    output = feed_forward(build, layer, normed)
    if build.parts.family == "phi2":
        return unary("ADD", unary("ADD", mixed, output), before)
    return unary("ADD", unary("ADD", output, before), mixed)


def _norm_op(layer: LayerParts) -> str:
    return "NORM" if "attn_norm.bias" in layer.weights else "RMS_NORM"


def _mixed(build: Context, layer: LayerParts, hidden: Tensor, normed: Tensor) -> Tensor:
    outputs = []
    for mixer in layer.mixers:
        if isinstance(mixer, Attention):
            outputs.append(attention(build, layer, normed, mixer))
        else:
            source = normed
            if outputs:  # Falcon-H1 takes the norm once more
                source = build.norm(hidden, layer.weights.get("attn_norm.weight"), layer)
            outputs.append(recurrent(build, layer, source, mixer))
    if not outputs:
        return normed
    return outputs[0] if len(outputs) == 1 else unary("ADD", *outputs)


def _gemma4_experts(build: Context, layer: LayerParts, middle: Tensor) -> Tensor:
    weights = layer.weights
    shared = dense(build, layer, build.norm(middle, weights.get("ffn_norm.weight"), layer))
    shared = build.norm(shared, weights.get("post_ffw_norm_1.weight"), layer)
    source = build.norm(middle, weights.get("pre_ffw_norm_2.weight"), layer)
    routed = unary("SCALE", unary("RMS_NORM", middle))
    if "ffn_gate_inp.scale" in weights:
        routed = unary("MUL", routed, weights["ffn_gate_inp.scale"])
    output = experts(build, layer, source, mul_mat(weights["ffn_gate_inp.weight"], routed))
    output = build.norm(output, weights.get("post_ffw_norm_2.weight"), layer)
    return unary("ADD", shared, output)


def _per_layer_inputs(build: Context, hidden: Tensor, rows: Tensor) -> Tensor:
    """Gemma: every layer's own input, looked up on the host and projected at once."""
    root, tokens = build.parts.root, build.batch.tokens
    width = root["per_layer_proj_norm.weight"].ne[0]
    count = rows.ne[0] // width
    if build.batch.facts.embedding == "mixed, rows first":
        looked_up = reshape(unary("SCALE", rows), width, count, tokens)
    else:
        looked_up = build.graph.expand(unary("SCALE", reshape(rows, width, count, tokens)))
    projected = unary("SCALE", mul_mat(root["per_layer_model_proj.weight"], hidden))
    projected = build.norm(reshape(projected, width, count, tokens), root["per_layer_proj_norm.weight"], None)
    both = unary("SCALE", unary("ADD", projected, looked_up))
    return cont(permute(both, 0, 2, 1, 3))


def _with_layer_input(build: Context, layer: LayerParts, hidden: Tensor, inputs: Tensor) -> Tensor:
    weights = layer.weights
    gate = unary("UNARY", mul_mat(weights["inp_gate.weight"], hidden))
    own = strided(inputs, (inputs.ne[0], inputs.ne[1]), (inputs.nb[1],))
    output = mul_mat(weights["proj.weight"], unary("MUL", gate, own))
    output = build.norm(output, weights.get("post_norm.weight"), layer)
    return unary("ADD", hidden, output)


def _bert_input(build: Context, hidden: Tensor) -> Tensor:
    root = build.parts.root
    if "token_types.weight" in root:
        hidden = unary("ADD", hidden, strided(root["token_types.weight"], (build.parts.embd,), ()))
    if "position_embd.weight" in root:
        hidden = unary("ADD", get_rows(root["position_embd.weight"], build.positions), hidden)
    return build.norm(
        hidden, root.get("token_embd_norm.weight"), build.parts.layers[0], root.get("token_embd_norm.bias"), "NORM"
    )


def _bert_layer(build: Context, layer: LayerParts, hidden: Tensor, *, last: bool) -> Tensor:
    weights = layer.weights
    mixed, before = _mixed(build, layer, hidden, hidden), hidden
    if last:
        mixed, before = get_rows(mixed, build.output_ids), get_rows(before, build.output_ids)
    middle = unary("ADD", mixed, before)
    middle = build.norm(
        middle, weights.get("attn_output_norm.weight"), layer, weights.get("attn_output_norm.bias"), "NORM"
    )
    output = unary("ADD", dense(build, layer, middle), middle)
    return build.norm(
        output, weights.get("layer_output_norm.weight"), layer, weights.get("layer_output_norm.bias"), "NORM"
    )


def _pool(build: Context, hidden: Tensor) -> None:
    batch = build.batch
    if not batch.embeddings:
        return
    pooled = hidden
    if batch.pooling == "mean":
        means = graph_input((batch.tokens, batch.sequences), F32)
        pooled = mul_mat(cont(transpose(hidden)), means)
    elif batch.pooling in ("cls", "last", "rank"):
        pooled = get_rows(hidden, graph_input((batch.sequences,), I32))
        for name in ("cls.weight", "cls.output.weight"):
            if batch.pooling == "rank" and name in build.parts.root:
                pooled = unary("UNARY", mul_mat(build.parts.root[name], pooled))
    pooled.is_output = True
    build.graph.expand(pooled)
