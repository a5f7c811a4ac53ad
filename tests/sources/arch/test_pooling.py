"""Embedding models, rerankers and reward models."""

from __future__ import annotations

from typing import Any

from arch_build import build, elements, mixers, tensors

from oomph.ir.model import Attention, Vocab

SMALL: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 500,
    "torch_dtype": "bfloat16",
}


def test_bge_m3_as_published() -> None:
    """BAAI/bge-m3: an XLM-RoBERTa of 24 layers, 567,754,752 parameters."""
    model = build(
        "XLMRobertaModel", hidden_size=1024, intermediate_size=4096, num_hidden_layers=24, num_attention_heads=16,
        vocab_size=250002, max_position_embeddings=8194, type_vocab_size=1, torch_dtype="float32",
    )  # fmt: skip
    assert elements(model) == {"F32": 567_754_752}
    assert model.pooling
    assert all(isinstance(m, Attention) and m.kind == "encoder_only" for m in mixers(model))


def test_decoders_without_an_output_head() -> None:
    embedding = build("MistralModel", **SMALL)
    assert [m.role for m in embedding.root.modules if isinstance(m, Vocab)] == ["embed"]
    assert "layers.0.self_attn.q_proj.weight" in tensors(embedding)
    ranker = tensors(build("Qwen3ForSequenceClassification", **SMALL, head_dim=16, id2label={"0": "x"}))
    assert ranker["score.weight"] == ((1, 64), "BF16")
    reward = tensors(build("Qwen2ForRewardModel", **SMALL, num_labels=1))
    assert reward["score.0.weight"] == ((64, 64), "BF16")
    assert reward["score.2.bias"] == ((1,), "BF16")


def test_rerankers_have_their_classifier() -> None:
    names = tensors(build("XLMRobertaForSequenceClassification", **SMALL, id2label={"0": "x"}))
    assert names["classifier.out_proj.weight"] == ((1, 64), "BF16")
    assert names["roberta.encoder.layer.0.attention.self.query.bias"] == ((64,), "BF16")
