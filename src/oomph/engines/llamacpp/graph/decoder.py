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
from oomph.engines.llamacpp.graph.altup import altup_layer, stacked, unstacked
from oomph.engines.llamacpp.graph.attention import attention
from oomph.engines.llamacpp.graph.context import Batch, Context, LayerParts, Parts
from oomph.engines.llamacpp.graph.feedforward import dense, experts, feed_forward
from oomph.engines.llamacpp.graph.latent import latent_attention
from oomph.engines.llamacpp.graph.recurrent import recurrent
from oomph.ir import Attention

BERTS = frozenset(("bert", "jina-bert-v2", "jina-bert-v3", "nomic-bert", "nomic-bert-moe"))


def build_graph(parts: Parts, batch: Batch) -> Context:
    build = Context(parts, batch)
    drafts = "nextn.eh_proj.weight" in parts.layers[0].weights
    table = parts.root.get("per_layer_token_embd.weight")
    rows = get_rows(table, graph_input((batch.tokens,), I32)) if table is not None else None
    if rows is not None and batch.facts.embedding == "mixed, rows first":
        build.graph.expand(rows)
    hidden = _draft_input(build) if drafts else _embedding(build)
    per_layer = _per_layer_inputs(build, hidden, rows) if rows is not None else None
    hidden = _first_steps(build, hidden)
    hidden = _altup(build, hidden, per_layer) if _is_altup(build) else _layers(build, hidden, per_layer)
    _pool(build, _last_steps(build, hidden))
    return build


def _layers(build: Context, hidden: Tensor, per_layer: Tensor | None) -> Tensor:
    layers, skip = build.parts.layers, hidden
    for index, layer in enumerate(layers):
        last = index == len(layers) - 1 and build.style.rows == "last layer"
        if build.parts.family in BERTS:
            hidden = _bert_layer(build, layer, hidden, last=last)
        else:
            hidden = _layer(build, layer, hidden, last=last)
        hidden = _deep_stack(build, layer, hidden, skip)
        if per_layer is not None:
            hidden = _with_layer_input(build, layer, hidden, per_layer)
        if "layer_output_scale.weight" in layer.weights and build.parts.family != "talkie":
            hidden = unary("MUL", hidden, layer.weights["layer_output_scale.weight"])
    return hidden


def _is_altup(build: Context) -> bool:
    """A catalogue's entry does not name these small matrices."""
    return "altup_proj.weight" in build.parts.root and "altup_router.weight" in build.parts.layers[0].weights


def _altup(build: Context, hidden: Tensor, per_layer: Tensor | None) -> Tensor:
    hidden = stacked(build, hidden)
    for layer in build.parts.layers:
        hidden = altup_layer(build, layer, hidden, per_layer if per_layer is not None else hidden)
    return unstacked(build, hidden)


def _embedding(build: Context) -> Tensor:
    stacked = int(build.numbers.get("n_deepstack_layers", 0))
    tokens = graph_input((build.batch.tokens,), I32)
    width = build.parts.embd * (1 + stacked)
    vectors = graph_input((width, build.batch.tokens), F32)
    table = build.parts.root["token_embd.weight"]
    hidden = get_rows(table, tokens)
    way = build.batch.facts.embedding
    count = build.batch.tokens
    mixed = get_rows(table, graph_input((count,), I32))
    if stacked:  # images come with inputs for the first layers
        hidden, mixed = (Tensor("PAD", (width, count), F32, (rows,)) for rows in (hidden, mixed))
    if way == "mixed, rows first":  # ggml_build_forward_order
        build.graph.expand(hidden)
        build.graph.expand(mixed)
    build.graph.expand(hidden)
    build.graph.expand(vectors)
    if way != "select":  # a batch of tokens and images at once: rows are written into a copy of the vectors
        both = unary("DUP", graph_input(vectors.ne, F32))
        build.graph.expand(set_rows(both, mixed, graph_input((count,), I64)))
    if stacked:
        hidden = strided(hidden, (build.parts.embd, count), (hidden.nb[1],))
    hidden = build.scaled(hidden, "embedding_scale", build.style.embedding_scale)
    build.graph.expand(hidden)
    return unary("SCALE", hidden) if build.style.scales_embedding else hidden


def _draft_input(build: Context) -> Tensor:
    """graph_mtp: the token's embedding beside the hidden state that the main model left."""
    layer = build.parts.layers[0]
    state = graph_input((build.parts.embd, build.batch.tokens), F32)
    token = get_rows(build.parts.root["token_embd.weight"], graph_input((build.batch.tokens,), I32))
    token = build.norm(token, layer.weights.get("nextn.enorm.weight"), layer)
    both = concat(token, build.norm(state, layer.weights.get("nextn.hnorm.weight"), layer))
    return mul_mat(layer.weights["nextn.eh_proj.weight"], both)


def _first_steps(build: Context, hidden: Tensor) -> Tensor:
    """Token types, positions that are learnt, a norm of the embedding."""
    root = build.parts.root
    if "token_types.weight" in root:
        hidden = unary("ADD", hidden, strided(root["token_types.weight"], (build.parts.embd,), ()))
    if "position_embd.weight" in root:
        rows = get_rows(root["position_embd.weight"], build.positions)
        bert = build.parts.family in BERTS
        hidden = unary("ADD", rows, hidden) if bert else unary("ADD", hidden, rows)
    if "token_embd_norm.weight" in root:
        first = build.parts.layers[0]
        hidden = build.norm(hidden, root["token_embd_norm.weight"], first, root.get("token_embd_norm.bias"))
    elif build.parts.family == "talkie":
        hidden = unary("RMS_NORM", hidden)
    if build.parts.family == "nemotron_h" or build.parts.family == "nemotron_h_moe":
        build.graph.expand(hidden)
    return hidden


def _last_steps(build: Context, hidden: Tensor) -> Tensor:
    root, style, batch = build.parts.root, build.style, build.batch
    if style.rows == "before norm":
        hidden.is_output = True  # t_h_nextn
        hidden = get_rows(hidden, build.output_ids)
    norm = root.get("output_norm.weight") or root.get("enc.output_norm.weight")
    if norm is not None:
        hidden = build.norm(hidden, norm, None, root.get("output_norm.bias"))
    elif style.bare:
        hidden = unary(style.norm, hidden)
    if style.rows == "behind norm":
        hidden.is_output = True
        hidden = get_rows(hidden, build.output_ids)
    hidden.is_output = True  # t_embd
    headless = "output" not in root or style.logits == "never"
    if headless or (batch.embeddings and style.logits == "not for embeddings"):
        build.graph.expand(hidden)
        return hidden
    source = unary("SCALE", hidden) if build.parts.family == "minicpm3" else hidden
    logits = build.product(root["output"], source, root.get("output.bias"))
    logits = build.scaled(logits, "logit_scale", style.logit_scale) if style.logit_scale else logits
    if style.soft_cap == "always" or (style.soft_cap and build.numbers.get("final_logit_softcapping")):
        logits = unary("SCALE", unary("UNARY", unary("SCALE", logits)))
    if build.parts.family == "chameleon":
        logits = Tensor("SET", logits.ne, F32, (logits, unary("CLAMP", Tensor("NONE", (8192,), F32))))
    logits.is_output = True
    build.graph.expand(logits)
    return hidden


def _layer(build: Context, layer: LayerParts, hidden: Tensor, *, last: bool) -> Tensor:
    weights, style = layer.weights, build.style
    before, first = hidden, weights.get("attn_norm.weight")
    swin = bool(build.numbers.get("swin_norm"))  # Chameleon: norms stand behind
    logits = mul_mat(weights["ffn_gate_inp.weight"], hidden) if style.router == "layer input" else None
    normed = hidden
    if (first is not None or style.bare) and not swin:
        normed = build.norm(hidden, first, layer, weights.get("attn_norm.bias"))
    if style.first_norm_at_once:
        build.graph.expand(normed)
    mixed = _mixed(build, layer, hidden, normed)
    if len(layer.mixers) == 2:  # attention and state side by side: the sum is taken before rows are dropped
        before = unary("ADD", mixed, before)
        if last:
            before = get_rows(before, build.output_ids)
        source = build.norm(before, weights.get("ffn_norm.weight"), layer)
        return unary("ADD", feed_forward(build, layer, source), before)
    if build.parts.family == "afmoe":
        mixed = build.norm(mixed, weights.get("post_attention_norm.weight"), layer)
    if last:
        mixed, before = get_rows(mixed, build.output_ids), get_rows(before, build.output_ids)
        logits = get_rows(logits, build.output_ids) if logits is not None else None
    if style.parallel:
        return _side_by_side(build, layer, normed, mixed, before, last=last)
    mixed = _behind_attention(build, layer, mixed, swin=swin)
    middle = _sum(mixed, before, residual_first=style.residual_first in ("attention", "both"))
    if not layer.mixers or not _has_mlp(layer):
        return middle  # Mamba: no MLP; Nemotron-H: a layer is one or the other
    if "ffn_norm_exps.weight" in weights:
        return _beside_experts(build, layer, middle, before)
    output = _mlp(build, layer, normed, middle, logits, last=last)
    if "post_ffw_norm.weight" in weights:
        output = build.norm(output, weights["post_ffw_norm.weight"], None if style.loose_post_norm else layer)
    elif swin:
        output = build.norm(output, weights.get("ffn_norm.weight"), layer)
    output = build.scaled(output, "residual_scale", style.residual_scale)
    total = _sum(output, middle, residual_first=style.residual_first in ("mlp", "both"))
    return total


def _has_mlp(layer: LayerParts) -> bool:
    return "ffn_up.weight" in layer.weights or "ffn_down_exps.weight" in layer.weights


def _behind_attention(build: Context, layer: LayerParts, mixed: Tensor, *, swin: bool) -> Tensor:
    weights, style = layer.weights, build.style
    post = weights.get("post_attention_norm.weight")
    before_mlp = weights.get("ffn_norm.weight") is None and weights.get("attn_norm.weight") is not None
    if build.parts.family == "afmoe":
        pass  # before the rows were dropped
    elif post is not None and not before_mlp:
        mixed = build.norm(mixed, post, layer)
    elif style.output_norm == "post":
        mixed = build.norm(mixed, weights.get("attn_output_norm.weight"), layer)
    elif swin:
        mixed = build.norm(mixed, weights.get("attn_norm.weight"), layer)
    return build.scaled(mixed, "residual_scale", style.residual_scale)


def _mlp(
    build: Context, layer: LayerParts, normed: Tensor, middle: Tensor, logits: Tensor | None, *, last: bool
) -> Tensor:
    """What follows attention: its norm, and the dense part or the experts."""
    weights, family, style = layer.weights, build.parts.family, build.style
    if family == "gemma4" and "ffn_gate_inp.weight" in weights:
        return _gemma4_experts(build, layer, middle)
    norm = weights.get("ffn_norm.weight")
    if norm is None and weights.get("attn_norm.weight") is not None:
        norm = weights.get("post_attention_norm.weight")
    if style.output_norm == "mlp":
        norm = weights.get("attn_output_norm.weight")
    source = middle
    if norm is not None or style.bare:
        if not build.numbers.get("swin_norm"):
            source = build.norm(middle, norm, layer, weights.get("ffn_norm.bias"))
    elif family == "stablelm":  # reads what attention read
        source = get_rows(normed, build.output_ids) if last else normed
    return feed_forward(build, layer, source, logits)


def _beside_experts(build: Context, layer: LayerParts, middle: Tensor, before: Tensor) -> Tensor:
    """Arctic: the dense part follows attention, the experts read what the layer began with."""
    weights = layer.weights
    output = dense(build, layer, build.norm(middle, weights.get("ffn_norm.weight"), layer))
    output = unary("ADD", output, middle)
    source = build.norm(before, weights["ffn_norm_exps.weight"], layer)
    return unary("ADD", experts(build, layer, source), output)


def _sum(new: Tensor, residual: Tensor, *, residual_first: bool) -> Tensor:
    """The first of the two gives its place to the sum."""
    return unary("ADD", residual, new) if residual_first else unary("ADD", new, residual)


def _side_by_side(
    build: Context, layer: LayerParts, normed: Tensor, mixed: Tensor, before: Tensor, *, last: bool
) -> Tensor:
    """Command R, Falcon, Phi-2: attention and MLP read the same norm; GPT-NeoX: each its own."""
    weights, style = layer.weights, build.style
    if style.own_norm and not build.numbers.get("use_parallel_residual", 1):
        middle = unary("ADD", mixed, before)
        source = build.norm(middle, weights.get("ffn_norm.weight"), layer, weights.get("ffn_norm.bias"))
        return unary("ADD", feed_forward(build, layer, source), middle)
    if style.own_norm:
        source = build.norm(before, weights.get("ffn_norm.weight"), layer, weights.get("ffn_norm.bias"))
    else:
        source = get_rows(normed, build.output_ids) if last else normed
    output = feed_forward(build, layer, source)
    if style.parallel == "attention first":
        return unary("ADD", unary("ADD", mixed, output), before)
    order = (before, mixed) if style.parallel == "residual then attention" else (mixed, before)
    return unary("ADD", unary("ADD", output, order[0]), order[1])


def _mixed(build: Context, layer: LayerParts, hidden: Tensor, normed: Tensor) -> Tensor:
    outputs = []
    for mixer in layer.mixers:
        if isinstance(mixer, Attention):
            attend = latent_attention if "attn_kv_a_mqa.weight" in layer.weights else attention
            outputs.append(attend(build, layer, _attended(build, layer, hidden, normed), mixer))
        else:
            source = normed
            if outputs:  # Falcon-H1 takes the norm once more
                source = build.norm(hidden, layer.weights.get("attn_norm.weight"), layer)
            outputs.append(recurrent(build, layer, source, mixer))
    if not outputs:
        return feed_forward(build, layer, normed)  # Nemotron-H: the MLP is a layer of its own
    return outputs[0] if len(outputs) == 1 else unary("ADD", *outputs)


def _attended(build: Context, layer: LayerParts, hidden: Tensor, normed: Tensor) -> Tensor:
    """Falcon 40B: attention has a norm of its own."""
    second = layer.weights.get("attn_norm_2.weight")
    if second is None or build.parts.family != "falcon":
        return normed
    return build.norm(hidden, second, layer, layer.weights.get("attn_norm_2.bias"))


def _deep_stack(build: Context, layer: LayerParts, hidden: Tensor, skip: Tensor) -> Tensor:
    """Qwen3-VL: an image's inputs of the first layers. Talkie: the embedding, weighed, in every layer."""
    if build.parts.family == "talkie":
        if hidden.ne[1] != skip.ne[1]:
            skip = get_rows(skip, build.output_ids)
        return unary("ADD", hidden, unary("MUL", skip, layer.weights["layer_output_scale.weight"]))
    if layer.index >= int(build.numbers.get("n_deepstack_layers", 0)):
        return hidden
    padded = skip.view or skip
    return unary("ADD", hidden, strided(padded, (build.parts.embd, build.batch.tokens), (padded.nb[1],)))


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


def _bert_layer(build: Context, layer: LayerParts, hidden: Tensor, *, last: bool) -> Tensor:
    weights = layer.weights
    mixed, before = _mixed(build, layer, hidden, hidden), hidden
    if last:
        mixed, before = get_rows(mixed, build.output_ids), get_rows(before, build.output_ids)
    middle = build.norm(
        unary("ADD", mixed, before), weights.get("attn_output_norm.weight"), layer, weights.get("attn_output_norm.bias")
    )
    if "attn_norm_2.weight" in weights:  # Jina v2
        middle = unary("ADD", middle, before)
        middle = build.norm(middle, weights["attn_norm_2.weight"], layer, weights.get("attn_norm_2.bias"))
    output = unary("ADD", feed_forward(build, layer, middle), middle)
    return build.norm(output, weights.get("layer_output_norm.weight"), layer, weights.get("layer_output_norm.bias"))


def _pool(build: Context, hidden: Tensor) -> None:
    batch, root = build.batch, build.parts.root
    if not batch.embeddings:
        return
    pooled = hidden
    ranks = batch.pooling == "rank"
    if batch.pooling == "mean" or (ranks and build.parts.family == "modern-bert"):
        means = graph_input((batch.tokens, batch.sequences), F32)
        pooled = mul_mat(cont(transpose(hidden)), means)
    elif batch.pooling in ("cls", "last", "rank"):
        pooled = get_rows(hidden, graph_input((batch.sequences,), I32))
    if ranks and "cls.weight" in root:
        pooled = unary("UNARY", build.product(root["cls.weight"], pooled, root.get("cls.bias")))
    if ranks and "cls.output.weight" in root:
        pooled = build.product(root["cls.output.weight"], pooled, root.get("cls.output.bias"))
    for name in ("dense_2.weight", "dense_3.weight"):
        if name in root:
            pooled = mul_mat(root[name], pooled)
    pooled.is_output = True
    build.graph.expand(pooled)
