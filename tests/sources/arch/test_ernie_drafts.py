"""ERNIE 4.5's MTP layer has a cache of its own. The blocks are what vLLM's own Python counts in 30 GiB."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import oomph

CONFIG = {
    "architectures": ["Ernie4_5_MoeForCausalLM"], "model_type": "ernie4_5_moe", "hidden_size": 2560,
    "intermediate_size": 12288, "num_hidden_layers": 28, "num_attention_heads": 20, "num_key_value_heads": 4,
    "head_dim": 128, "moe_num_experts": 64, "moe_k": 6, "moe_intermediate_size": 1536, "moe_num_shared_experts": 2,
    "moe_layer_start_index": 1, "moe_layer_interval": 1, "moe_layer_end_index": 27, "vocab_size": 103424,
    "max_position_embeddings": 131072, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
    "num_nextn_predict_layers": 1, "rope_theta": 500000,
}  # fmt: skip


@pytest.mark.parametrize("version", ["0.21.0", "0.32.0"])
def test_the_draft_layer_has_a_cache(version: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    draft = ["--speculative-config", '{"method": "mtp", "num_speculative_tokens": 1}']
    for flags, blocks in ((draft, 33_897), ([], 35_108)):
        command = ["vllm", "serve", str(tmp_path), *flags]
        plan = oomph.plan(command, gpu="H100", engine=f"vllm=={version}", given={"available_kv": 30 << 30})
        assert plan.kv is not None
        assert plan.kv.num_blocks == blocks
