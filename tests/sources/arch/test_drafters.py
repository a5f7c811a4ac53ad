"""EAGLE-3 heads and DFlash."""

from __future__ import annotations

from typing import Any

from arch_build import build, elements, tensors

SMALL: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 500,
    "max_position_embeddings": 256,
}


def test_eagle3_reads_two_states_and_has_a_vocabulary_of_its_own() -> None:
    names = tensors(build("LlamaForCausalLMEagle3", **SMALL, draft_vocab_size=128))
    assert names["midlayer.self_attn.q_proj.weight"] == ((64, 128), "BF16")
    assert names["fc.weight"] == ((64, 192), "BF16")
    assert names["lm_head.weight"] == ((128, 64), "BF16")
    assert names["d2t"] == ((128,), "I64")


def test_eagle3_of_llama_3_1_8b() -> None:
    """yuhuili/EAGLE3-LLaMA3.1-Instruct-8B: one layer, 32,000 draft tokens."""
    model = build(
        "LlamaForCausalLMEagle3", hidden_size=4096, intermediate_size=14336, num_hidden_layers=1,
        num_attention_heads=32, num_key_value_heads=8, vocab_size=128256, draft_vocab_size=32000, torch_dtype="float16",
    )  # fmt: skip
    attention, mlp = 2 * 4096 * (4096 + 2048) + 4096 * 4096, 3 * 4096 * 14336
    assert elements(model)["F16"] == attention + mlp + 3 * 4096 * 4096 + 32000 * 4096 + 4 * 4096


def test_dflash_fuses_the_layers_it_is_told() -> None:
    config = {**SMALL, "num_hidden_layers": 2, "head_dim": 16, "dflash_config": {"target_layer_ids": [1, 9, 17]}}
    names = tensors(build("DFlashDraftModel", **config))
    assert names["fc.weight"] == ((64, 192), "BF16")
    assert names["layers.1.self_attn.q_norm.weight"] == ((16,), "BF16")
    assert "lm_head.weight" not in names
