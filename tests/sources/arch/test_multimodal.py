"""Llama 4, Mistral 3, Muse Glimmer and Step 3.7."""

from __future__ import annotations

from typing import Any

from arch_build import build, elements, mixers, tensors, windows

from oomph.ir.model import Attention, Experts

TEXT: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 48,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 500,
    "max_position_embeddings": 256,
}


def test_llama4_chunks_and_global_layers() -> None:
    text = {**TEXT, "attention_chunk_size": 32, "num_local_experts": 4, "interleave_moe_layer_step": 2}
    model = build("Llama4ForConditionalGeneration", text_config={**text, "intermediate_size_mlp": 80})
    kinds = [(m.kind, m.chunk, m.rope is None) for m in mixers(model) if isinstance(m, Attention)]
    assert kinds == [("chunked_local", 32, False)] * 3 + [("full", 0, True)]
    sparse = [any(isinstance(m, Experts) for m in layer.block.modules) for layer in model.layers]
    assert sparse == [False, True, False, True]
    names = tensors(model)
    assert names["language_model.model.layers.0.feed_forward.up_proj.weight"] == ((80, 64), "BF16")
    assert names["vision_model.positional_embedding_vlm"] == ((1025, 768), "BF16")


def test_mistral3_tower_and_projector() -> None:
    vision = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2,
              "image_size": 112, "patch_size": 14}  # fmt: skip
    said: dict[str, Any] = {"text_config": {**TEXT, "sliding_window": None}, "vision_config": vision}
    model = build("Mistral3ForConditionalGeneration", **said, tie_word_embeddings=False)
    assert build("Mistral3ForConditionalGeneration", **said).tied  # the outer config's default
    names = tensors(model)
    assert names["multi_modal_projector.patch_merger.merging_layer.weight"] == ((32, 128), "BF16")
    assert names["vision_tower.transformer.layers.0.attention.q_proj.weight"] == ((32, 32), "BF16")
    assert "language_model.lm_head.weight" in names
    assert [m.max_tokens for m in model.modalities] == [16]
    assert windows(model) == [0] * 4


def test_muse_glimmer_gates_and_windows() -> None:
    model = build("MuseGlimmerForConditionalGeneration", text_config={**TEXT, "sliding_window": 8})
    assert windows(model) == [8, 8, 8, 0]
    assert tensors(model)["model.language_model.layers.0.self_attn.gate_proj.weight"] == ((64, 64), "BF16")
    assert not model.towers


def test_step_is_all_defaults_where_the_config_is_flat() -> None:
    model = build("Step3p7FlashForCausalLM", hidden_size=4096, vocab_size=128896, num_hidden_layers=45)
    assert elements(model) == {"BF16": 197_824_859_968}


def test_published_counts() -> None:
    """meta-llama/Llama-4-Scout-17B-16E-Instruct, mistralai/Mistral-Small-3.2-24B, meta-models/Muse-Glimmer-30B."""
    assert elements(build("Llama4ForConditionalGeneration", text_config={})) == {"BF16": 108_225_039_360}
    mistral = build(
        "Mistral3ForConditionalGeneration",
        text_config={"hidden_size": 5120, "intermediate_size": 32768, "num_hidden_layers": 40, "head_dim": 128,
                     "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 131072},
        vision_config={"image_size": 1540, "patch_size": 14},
    )  # fmt: skip
    assert elements(mistral) == {"BF16": 24_011_361_280}
    muse = build(
        "MuseGlimmerForConditionalGeneration",
        text_config={"hidden_size": 6656, "intermediate_size": 19968, "num_hidden_layers": 52, "head_dim": 128,
                     "num_attention_heads": 32, "num_key_value_heads": 2, "vocab_size": 202048, "sliding_window": 2048},
        vision_config={"hidden_size": 1536},
    )  # fmt: skip
    assert elements(muse) == {"BF16": 29_776_626_688}
