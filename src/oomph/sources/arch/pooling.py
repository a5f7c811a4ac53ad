"""Embedding models, rerankers and reward models: BERT and RoBERTa encoders, and decoders without an output head.

vLLM: models/bert.py, roberta.py; adapters.py (as_embedding_model, as_seq_cls_model).
"""

from msgspec.structs import replace

from oomph.ir import Attention, Block, Layer, Module, Param, Vocab
from oomph.sources.arch.base import Builder, Site, Skeleton
from oomph.sources.arch.decoder import Style, decoder_layers, decoder_root, fill
from oomph.sources.arch.dense import STYLES as DENSE
from oomph.sources.arch.llama import LLAMA, MISTRAL, QWEN2, QWEN3
from oomph.sources.config import Config

INTERNLM2 = DENSE["InternLM2ForCausalLM"]
_ENCODERS = {
    "BertForMaskedLM": "bert.",
    "BertModel": "",
    "BertSpladeSparseEmbeddingModel": "bert.",
    "BgeM3EmbeddingModel": "",
    "HF_ColBERT": "bert.",
    "RobertaForMaskedLM": "roberta.",
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
    "InternLM2ForRewardModel": (INTERNLM2, "model", ("v_head",)),
    "JinaEmbeddingsV5Model": (QWEN3, "model", ()),
    "JinaForRanking": (QWEN3, "model", ("projector.0", "projector.2")),
    "LlamaBidirectionalForSequenceClassification": (LLAMA, "model", ("score",)),
    "LlamaBidirectionalModel": (LLAMA, "", ()),
    "LlamaForSequenceClassification": (LLAMA, "model", ("score",)),
    "LlamaModel": (LLAMA, "", ()),
    "MistralModel": (MISTRAL, "", ()),
    "Qwen2ForProcessRewardModel": (QWEN2, "model", ("score.0", "score.2")),
    "Qwen2ForRewardModel": (QWEN2, "model", ("score.0", "score.2")),
    "Qwen2ForSequenceClassification": (QWEN2, "model", ("score",)),
    "Qwen2Model": (QWEN2, "", ()),
    "Qwen3ForSequenceClassification": (QWEN3, "model", ("score",)),
    "Qwen3Model": (QWEN3, "", ()),
    "VoyageQwen3BidirectionalEmbedModel": (QWEN3, "model", ("linear",)),
}
# classes that look both ways, and so have no cache (llama.py, voyage.py, 0.32.0)
_BOTH_WAYS = (
    "LlamaBidirectionalForSequenceClassification",
    "LlamaBidirectionalModel",
    "VoyageQwen3BidirectionalEmbedModel",
)


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
    on_all = {role: role in style.everywhere for role in ("embed", "norm")}
    root: list[Module] = [
        Vocab(
            f"{at}embed_tokens", text.integer("vocab_size"), hidden, builder.dtype, "embed", everywhere=on_all["embed"]
        ),
        Param(f"{at}norm.weight", (hidden,), builder.dtype, "norm", everywhere=on_all["norm"]),
    ]
    root += _decoder_head(builder, head)
    layers = decoder_layers(builder, style, prefix)
    if (
        not head
        and not prefix
        and builder.architecture not in _BOTH_WAYS
        and not builder.told.get("modules.json", True)
    ):
        # config/model.py:1270 (0.32.0): without Sentence Transformers' files the class is the one that generates
        return Skeleton(layers, decoder_root(builder, style, prefix))
    if builder.architecture in _BOTH_WAYS:
        layers = both_ways(layers)
    # qwen2_rm.py:105 (0.32.0) pools by steps, which are not found in a part of a prompt
    whole = (("pools_first", 1),) if builder.architecture == "Qwen2ForProcessRewardModel" else ()
    return Skeleton(layers, builder.block(root), pooling=True, params=whole)


def both_ways(layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """The same layers with attention that looks at all tokens: it keeps no cache."""
    return tuple(
        replace(
            layer,
            mixers=tuple(
                replace(mixer, kind="encoder_only", window=0) if isinstance(mixer, Attention) else mixer
                for mixer in layer.mixers
            ),
        )
        for layer in layers
    )


def _decoder_head(builder: Builder, head: tuple[str, ...]) -> list[Module]:
    text, hidden = builder.text, builder.text.integer("hidden_size")
    match builder.architecture:
        case "InternLM2ForRewardModel":  # internlm2.py:403 (0.32.0): split by its input
            name = f"{head[0]}.weight"
            head_of_one = Param(name, (1, hidden), builder.dtype, "lm_head", shard_dim=1, created_dtype="F32")
            return [replace(head_of_one, everywhere=True)]
        case "JinaForRanking":  # jina.py: plain layers in the model's dtype
            first, second = hidden // 2, text.integer("embedding_size", default=512)
            shapes = ((head[0], (first, hidden)), (head[1], (second, first)))
            return [Param(f"{name}.weight", shape, builder.dtype, "lm_head") for name, shape in shapes]
        case "Qwen2ForRewardModel" | "Qwen2ForProcessRewardModel":  # qwen2_rm.py: split, and of so many labels
            rows = 1 if builder.architecture == "Qwen2ForRewardModel" else 2
            sizes = (
                (("weight", (hidden, hidden), 0), ("bias", (hidden,), 0)),
                (("weight", (rows, hidden), 1), ("bias", (rows,), None)),
            )
            return [
                Param(f"{name}.{part}", shape, builder.dtype, "lm_head", shard_dim=shard, created_dtype="F32")
                for name, parts in zip(head, sizes, strict=True)
                for part, shape, shard in parts
            ]
        case "VoyageQwen3BidirectionalEmbedModel":
            return [Param(f"{head[0]}.weight", (labels(text), hidden), builder.dtype, "lm_head")]
    modules: list[Module] = []
    for n, name in enumerate(head):
        out = labels(text) if n == len(head) - 1 else hidden
        modules += float32_head(builder, name, out, hidden, bias=len(head) > 1)
    return modules


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
    roberta = "Roberta" in builder.architecture or builder.architecture == "BgeM3EmbeddingModel"
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


def _masked_head(builder: Builder, hidden: int) -> list[Module]:
    """bert.py BertMLMHead: plain layers, whole on every rank; the decoder is the embedding's in checkpoints."""
    rows, at = builder.text.integer("vocab_size"), "cls.predictions"
    return [
        Param(f"{at}.transform.dense.weight", (hidden, hidden), builder.dtype, "lm_head"),
        Param(f"{at}.transform.dense.bias", (hidden,), builder.dtype, "lm_head"),
        *_norm(builder, f"{at}.transform.LayerNorm", hidden),
        Param(f"{at}.decoder.weight", (rows, hidden), builder.dtype, "lm_head"),
        Param(f"{at}.decoder.bias", (rows,), builder.dtype, "lm_head"),
    ]


def _encoder_head(builder: Builder, at: str, roberta: bool) -> list[Module]:
    hidden = builder.text.integer("hidden_size")
    match builder.architecture:
        case "BertForMaskedLM" | "BertSpladeSparseEmbeddingModel":
            return _masked_head(builder, hidden)
        case "RobertaForMaskedLM":  # its output layers are not built
            return []
        case "HF_ColBERT":  # colbert.py: built while loading, as wide as the checkpoint has it
            return [Param("linear.weight", (128, hidden), builder.dtype, "lm_head", created=False)]
        case "BgeM3EmbeddingModel":
            sparse = float32_head(builder, "sparse_linear", 1, hidden, bias=True)
            return [*sparse, *float32_head(builder, "colbert_linear", hidden, hidden, bias=True)]
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
