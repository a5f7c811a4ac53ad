"""Which targets `"method": "mtp"` is a method for, and vocabularies that ranks cannot divide (vLLM 0.32.0)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import oomph
from oomph.errors import UnknownCache
from oomph.facts.vllm.architectures import UNPLANNED_DRAFTS, WITHIN
from oomph.facts.vllm.refusals import OWN_DRAFT_ARCHITECTURES, OWN_DRAFT_TYPES
from oomph.sources.arch import FAMILIES

SPECULATION = json.dumps({"method": "mtp", "num_speculative_tokens": 1})
SMALL = {
    "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 6, "head_dim": 64,
    "num_key_value_heads": 6, "vocab_size": 1024, "max_position_embeddings": 4096, "torch_dtype": "bfloat16",
}  # fmt: skip


def verdict(folder: Path, config: dict[str, Any], *flags: str, gpu: str = "H100") -> Any:
    folder = folder / str(len(list(folder.iterdir())))
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    return oomph.plan(["vllm", "serve", str(folder), *flags], gpu=gpu, engine="vllm==0.32.0").verdict


@pytest.mark.parametrize(
    ("architecture", "model_type"),
    [
        ("LlamaForCausalLM", "llama"),
        ("Qwen3ForCausalLM", "qwen3"),
        ("SmolLM3ForCausalLM", "smollm3"),
        ("Olmo3ForCausalLM", "olmo3"),
        ("GemmaForCausalLM", "gemma"),
        ("SolarForCausalLM", "solar"),
    ],
)
def test_a_target_without_draft_layers_has_no_method(architecture: str, model_type: str, tmp_path: Path) -> None:
    config = {"architectures": [architecture], "model_type": model_type, **SMALL}
    refused = verdict(tmp_path, config, "--speculative-config", SPECULATION)
    assert not refused.fits
    assert "Unsupported speculative method: 'mtp'" in refused.message


def test_a_type_that_has_them_and_a_checkpoint_that_does_not(tmp_path: Path) -> None:
    config = {"architectures": ["Qwen3NextForCausalLM"], "model_type": "qwen3_next", **SMALL, "num_experts": 4,
              "num_experts_per_tok": 2, "moe_intermediate_size": 64, "shared_expert_intermediate_size": 64,
              "linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 32,
              "linear_value_head_dim": 32, "linear_conv_kernel_dim": 4, "full_attention_interval": 2,
              "num_nextn_predict_layers": 0, "decoder_sparse_step": 1}  # fmt: skip
    refused = verdict(tmp_path, config, "--speculative-config", SPECULATION)
    assert not refused.fits
    assert "integer modulo by zero" in refused.message


def test_drafts_that_no_family_plans_are_not_left_out(tmp_path: Path) -> None:
    config = {"architectures": ["HYV4ForCausalLM"], "model_type": "hy_v4", **SMALL}
    with pytest.raises(UnknownCache, match="HYV4MTPModel"):
        verdict(tmp_path, {**config, "architectures": ["LlamaForCausalLM"]}, "--speculative-config", SPECULATION)


def test_every_target_of_a_planned_drafter_is_in_the_tables() -> None:
    """A family that plans drafts of its own is one that the override of config/speculative.py knows."""
    targets = {target for target in WITHIN.values() if target in FAMILIES}
    assert targets
    by_type = {name.lower() for name in OWN_DRAFT_TYPES}
    for target in targets:
        plain = target.lower().split("for")[0]
        kin = {plain, plain.replace("v3", "_v3"), plain.replace("_", "")}
        assert target in OWN_DRAFT_ARCHITECTURES or any(
            name.replace("_", "").startswith(k.replace("_", "")[:6]) for name in by_type for k in kin
        ), target
    assert set(UNPLANNED_DRAFTS) <= OWN_DRAFT_TYPES


def test_a_vocabulary_that_ranks_cannot_divide(tmp_path: Path) -> None:
    """vocab_parallel_embedding.py: 1,024 rows are a multiple of 64 and none of 3; 1,152 are both."""
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", **SMALL, "hidden_size": 384,
              "intermediate_size": 768}  # fmt: skip
    refused = verdict(tmp_path, config, "-tp", "3", gpu="3xH100")
    assert not refused.fits
    assert "1024 is not divisible by 3" in refused.message
    assert verdict(tmp_path, {**config, "vocab_size": 1100}, "-tp", "3", gpu="3xH100").fits
