"""Embedding models, rerankers and reward models: BERT and RoBERTa encoders, and decoders without an output head.

vLLM: models/bert.py, roberta.py; adapters.py (as_embedding_model, as_seq_cls_model).
"""

from oomph.ir import Attention, Block, Layer, Module, Param, Vocab
from oomph.sources.arch.base import Builder, Site, Skeleton
from oomph.sources.arch.decoder import Style, decoder_layers, decoder_root, fill
from oomph.sources.arch.llama import LLAMA, MISTRAL, QWEN2, QWEN3
from oomph.sources.config import Config

_ENCODERS = {
    "BertModel": "",
    "BertForSequenceClassification": "bert.",
    "BertForTokenClassification": "bert.",
    "RobertaModel": "",
    "RobertaForSequenceClassification": "roberta.",
    "RobertaForTokenClassification": "roberta.",
    "XLMRobertaModel": "",
    "XLMRobertaForSequenceClassification": "roberta.",
    "XLMRobertaForTokenClassification": "roberta.",
}
# (style, prefix of the checkpoint's names, head in the order of its linear layers: rows of "hidden" or "labels")
_DECODERS: dict[str, tuple[Style, str, tuple[str, ...]]] = {
    "LlamaForSequenceClassification": (LLAMA, "model", ("score",)),
    "LlamaModel": (LLAMA, "", ()),
    "MistralModel": (MISTRAL, "", ()),
    "Qwen2ForProcessRewardModel": (QWEN2, "model", ("score.0", "score.2")),
    "Qwen2ForRewardModel": (QWEN2, "model", ("score.0", "score.2")),
    "Qwen2ForSequenceClassification": (QWEN2, "model", ("score",)),
    "Qwen2Model": (QWEN2, "", ()),
    "Qwen3ForSequenceClassification": (QWEN3, "model", ("score",)),
    "Qwen3Model": (QWEN3, "", ()),
}


def build(builder: Builder) -> Skeleton:
    if builder.architecture in _DECODERS:
        return _decoder(builder, *_DECODERS[builder.architecture])
    return _encoder(builder, _ENCODERS[builder.architecture])


def labels(text: Config) -> int:
    """transformers: num_labels, or as many as id2label names, or two."""
    return text.integer("num_labels", default=len(text.table("id2label")) or 2)


def _decoder(builder: Builder, style: Style, prefix: str, head: tuple[str, ...]) -> Skeleton:
    text = builder.text
    fill(builder, style)
    hidden = text.integer("hidden_size")
    at = f"{prefix}." if prefix else ""
    root: list[Module] = [
        Vocab(f"{at}embed_tokens", text.integer("vocab_size"), hidden, builder.dtype, "embed"),
        Param(f"{at}norm.weight", (hidden,), builder.dtype, "norm"),
    ]
    for n, name in enumerate(head):
        out = labels(text) if n == len(head) - 1 else hidden
        root += float32_head(builder, name, out, hidden, bias=len(head) > 1)
    if not head and not builder.told.get("modules.json", True):
        # config/model.py:1270 (0.32.0): without Sentence Transformers' files the class is the one that generates
        generates = decoder_root(builder, style, prefix)
        return Skeleton(decoder_layers(builder, style, prefix), generates)
    return Skeleton(decoder_layers(builder, style, prefix), builder.block(root), pooling=True)


def float32_head(builder: Builder, name: str, out: int, width: int, *, bias: bool) -> list[Module]:
    """A pooling model's head is float32 (config/model.py _get_head_dtype)."""
    modules: list[Module] = [Param(f"{name}.weight", (out, width), builder.dtype, "lm_head", created_dtype="F32")]
    return [*modules, Param(f"{name}.bias", (out,), builder.dtype, "lm_head", created_dtype="F32")] if bias else modules


def _encoder(builder: Builder, at: str) -> Skeleton:
    text = builder.text
    if not text.dtype(builder.config.dtype()):
        builder.dtype = "F32"
    text.fill(
        vocab_size=30522, hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072,
        max_position_embeddings=512, type_vocab_size=2,
    )  # fmt: skip
    heads, hidden = text.integer("num_attention_heads"), text.integer("hidden_size")
    attention = Attention("encoder_only", heads, heads, hidden // heads, hidden // heads)
    layers = tuple(_encoder_layer(site, attention) for site in builder.sites(f"{at}encoder.layer"))
    roberta = "Roberta" in builder.architecture
    return Skeleton(layers, _encoder_root(builder, at, roberta), pooling=True)


def _encoder_layer(site: Site, attention: Attention) -> Layer:
    text = site.b.text
    hidden, inner, heads = text.integer("hidden_size"), text.integer("intermediate_size"), attention.num_heads
    modules: list[Module] = [
        site.qkv(
            hidden, heads, heads, attention.head_dim, at="attention.self", bias=True, names=("query", "key", "value")
        ),
        site.row("attention.output.dense", hidden, hidden, "attention", bias=True),
        *_norm(site.b, "attention.output.LayerNorm", hidden),
        site.column("intermediate.dense", inner, hidden, "mlp", bias=True),
        site.row("output.dense", hidden, inner, "mlp", bias=True),
        *_norm(site.b, "output.LayerNorm", hidden),
    ]
    return site.layer([attention], modules)


def _norm(builder: Builder, name: str, dim: int) -> list[Module]:
    return [Param(f"{name}.{part}", (dim,), builder.dtype, "norm") for part in ("weight", "bias")]


def _encoder_root(builder: Builder, at: str, roberta: bool) -> Block:
    """bert.py splits all three embeddings as vocabularies, roberta.py only the words."""
    text, hidden = builder.text, builder.text.integer("hidden_size")
    positions, kinds = text.integer("max_position_embeddings"), text.integer("type_vocab_size")
    modules: list[Module] = [
        Vocab(f"{at}embeddings.word_embeddings", text.integer("vocab_size"), hidden, builder.dtype, "embed")
    ]
    for name, rows in (("position_embeddings", positions), ("token_type_embeddings", kinds)):
        whole = f"{at}embeddings.{name}"
        if roberta:
            words = "RoBERTa splits its words"
            modules.append(Param(f"{whole}.weight", (rows, hidden), builder.dtype, "embed", only=words))
            split = "RoBERTa splits its embeddings"
            modules.append(Vocab(whole, rows, hidden, builder.dtype, "embed", stored=False, only=split))
        else:
            modules.append(Vocab(whole, rows, hidden, builder.dtype, "embed"))
    modules += [
        *_norm(builder, f"{at}embeddings.LayerNorm", hidden),
        Param(f"{at}embeddings.position_ids", (1, positions), "I64", "embed", stored=False, created_dtype="I64"),
    ]
    return builder.block([*modules, *_encoder_head(builder, at, roberta)])


def _encoder_head(builder: Builder, at: str, roberta: bool) -> list[Module]:
    hidden = builder.text.integer("hidden_size")
    if not at:  # an embedding model takes a token's state; the checkpoint's own pooler is not used
        pooler = (("weight", (hidden, hidden)), ("bias", (hidden,)))
        return [Param(f"pooler.dense.{n}", shape, builder.dtype, "lm_head", created=False) for n, shape in pooler]
    if builder.architecture.endswith("ForTokenClassification"):
        return float32_head(builder, "classifier", labels(builder.text), hidden, bias=True)
    if roberta:
        dense = float32_head(builder, "classifier.dense", hidden, hidden, bias=True)
        return [*dense, *float32_head(builder, "classifier.out_proj", labels(builder.text), hidden, bias=True)]
    pooled = float32_head(builder, "bert.pooler.dense", hidden, hidden, bias=True)
    return [*pooled, *float32_head(builder, "classifier", labels(builder.text), hidden, bias=True)]
