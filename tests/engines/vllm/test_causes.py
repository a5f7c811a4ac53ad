"""Starts that vLLM refuses, or divides otherwise, for a reason that no flag names: each class by a small example."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import oomph

LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 1024, "intermediate_size": 2816,
    "num_hidden_layers": 4, "num_attention_heads": 16, "num_key_value_heads": 4, "vocab_size": 32064,
    "max_position_embeddings": 8192, "torch_dtype": "bfloat16",
}  # fmt: skip
EAGLE3 = {**LLAMA, "architectures": ["LlamaForCausalLMEagle3"], "num_hidden_layers": 1, "draft_vocab_size": 16000}
MIXTRAL = {
    **LLAMA, "architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "num_local_experts": 8,
    "num_experts_per_tok": 2,
}  # fmt: skip


def folder(path: Path, name: str, config: dict[str, Any]) -> str:
    (path / name).mkdir(exist_ok=True)
    (path / name / "config.json").write_text(json.dumps(config))
    return str(path / name)


def planned(model: str, *flags: str, gpu: str = "H100", release: str = "0.32.0", **known: int) -> dict[str, Any]:
    command = ["vllm", "serve", model, *flags]
    return oomph.plan(command, gpu=gpu, engine=f"vllm=={release}", given=known or None).to_dict()


def drafting(drafter: str, method: str = "eagle3") -> tuple[str, str]:
    return "--speculative-config", json.dumps({"method": method, "model": drafter, "num_speculative_tokens": 3})


@pytest.mark.parametrize("release", ["0.30.0", "0.32.0"])
def test_dual_chunk_attention_has_no_backend(tmp_path: Path, release: str) -> None:
    config = {**LLAMA, "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2"}
    model = folder(tmp_path, "long", {**config, "dual_chunk_attention_config": {"chunk_size": 4096}})
    plan = planned(model, release=release)
    assert plan["verdict"]["message"].endswith("got an unexpected keyword argument 'layer_idx'")
    assert plan["advice"]["fixes"][0]["change"] == """--hf-overrides '{"dual_chunk_attention_config": null}'"""
    assert planned(model, "--hf-overrides", '{"dual_chunk_attention_config": null}')["verdict"]["fits"]


def test_what_a_layer_hands_on_must_be_taken_by_its_backend(tmp_path: Path) -> None:
    step = folder(tmp_path, "step", {**LLAMA, "architectures": ["Step1ForCausalLM"], "model_type": "step1"})
    assert planned(step)["verdict"]["message"] == "use_alibi_sqrt is not supported by backend FLASH_ATTN."
    assert planned(step, "--attention-backend", "TRITON_ATTN")["verdict"]["fits"]


def test_a_drafter_stands_whole_on_the_last_stage(tmp_path: Path) -> None:
    model, drafter = folder(tmp_path, "model", LLAMA), folder(tmp_path, "drafter", EAGLE3)
    parts = [
        rank["terms"]["weights"]["parts"]
        for rank in planned(model, "-pp", "2", *drafting(drafter), gpu="2xH100")["ranks"]
    ]
    (alone,) = planned(model, *drafting(drafter))["ranks"]
    assert "draft model" not in parts[0]
    embedding = 32064 * 1024 * 2  # the target's is on the other stage
    assert parts[1]["draft model"] - embedding >= alone["terms"]["weights"]["parts"]["draft model"]


def test_one_release_hands_expert_parallelism_on_to_the_drafter(tmp_path: Path) -> None:
    model, drafter = folder(tmp_path, "model", MIXTRAL), folder(tmp_path, "drafter", EAGLE3)
    flags = ("-tp", "2", "--enable-expert-parallel", *drafting(drafter))
    fits = {
        r: planned(model, *flags, gpu="2xH100", release=r)["verdict"]["fits"] for r in ("0.29.0", "0.30.0", "0.32.0")
    }
    assert fits == {"0.29.0": True, "0.30.0": False, "0.32.0": True}


def test_falcon_keeps_its_cache_in_the_model_dtype(tmp_path: Path) -> None:
    config = {**LLAMA, "architectures": ["FalconForCausalLM"], "model_type": "falcon", "multi_query": True,
              "alibi": False, "new_decoder_architecture": False, "parallel_attn": True, "bias": False}  # fmt: skip
    model = folder(tmp_path, "falcon", config)
    blocks = [
        planned(model, *flags, available_kv=8 << 30)["kv"]["num_blocks"] for flags in ((), ("--kv-cache-dtype", "fp8"))
    ]
    assert blocks[0] == blocks[1] > 0


def test_a_drafter_with_another_backend_is_no_group_with_its_target(tmp_path: Path) -> None:
    """gpt-oss on consumer Blackwell: FlashInfer for sinks, FlashAttention for the drafter; as vLLM 0.32.0 counts."""
    target = {
        "architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", "num_hidden_layers": 24,
        "num_local_experts": 32, "num_experts_per_tok": 4, "hidden_size": 2880, "intermediate_size": 2880,
        "head_dim": 64, "vocab_size": 201088,
        "num_attention_heads": 64, "num_key_value_heads": 8, "sliding_window": 128, "max_position_embeddings": 131072,
        "layer_types": ["sliding_attention", "full_attention"] * 12, "torch_dtype": "bfloat16",
        "quantization_config": {"quant_method": "mxfp4"},
    }  # fmt: skip
    drafter = {**EAGLE3, "hidden_size": 2880, "intermediate_size": 17280, "num_attention_heads": 64, "head_dim": 64,
               "num_key_value_heads": 8, "vocab_size": 201088, "draft_vocab_size": 32000,
               "max_position_embeddings": 131072}  # fmt: skip
    model, head = folder(tmp_path, "model", target), folder(tmp_path, "drafter", drafter)
    flags = ("--max-model-len", "32768", *drafting(head))
    kv = planned(model, *flags, gpu="RTX 5090", available_kv=8 << 30)["kv"]
    assert (kv["num_blocks"], kv["logged_tokens"]) == (262144, 288214)


def test_quantising_while_loading_wants_16_bits(tmp_path: Path) -> None:
    model = folder(tmp_path, "model", LLAMA)
    plan = planned(model, "--quantization", "int8_per_channel_weight_only", "--dtype", "float32")
    assert plan["verdict"]["message"].startswith("torch.float32 is not supported for quantization method")


@pytest.mark.parametrize(("release", "fits"), [("0.13.0", True), ("0.17.1", False), ("0.21.0", True)])
def test_a_method_that_was_to_go_and_stayed(tmp_path: Path, release: str, fits: bool) -> None:
    model = folder(tmp_path, "model", MIXTRAL)
    plan = planned(model, "--quantization", "experts_int8", release=release)
    assert plan["verdict"]["fits"] is fits, plan["verdict"]
    if not fits:
        allowed = planned(model, "--quantization", "experts_int8", "--allow-deprecated-quantization", release=release)
        assert allowed["verdict"]["fits"]


def test_a_package_that_vllm_does_not_bring_is_named(tmp_path: Path) -> None:
    suffix = json.dumps({"method": "suffix", "num_speculative_tokens": 8})
    plan = planned(folder(tmp_path, "model", LLAMA), "--speculative-config", suffix)
    assert any("arctic-inference" in warning for warning in plan["warnings"])


def test_an_architecture_is_refused_before_its_release(tmp_path: Path) -> None:
    config = {**LLAMA, "architectures": ["LlamaBidirectionalModel"]}
    assert planned(folder(tmp_path, "older", config), release="0.32.0")["verdict"]["fits"]
    new = {**LLAMA, "architectures": ["PanguUltraMoEForCausalLM"], "kv_lora_rank": 512, "q_lora_rank": 384,
           "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}  # fmt: skip
    model = folder(tmp_path, "new", new)
    refused = "Model architectures ['PanguUltraMoEForCausalLM'] are not supported for now."
    assert planned(model, release="0.11.0")["verdict"]["message"] == refused
    assert planned(model, release="0.12.0")["verdict"]["fits"]


def test_a_release_refuses_what_it_refuses_itself(tmp_path: Path) -> None:
    """Laguna's windows of layers were None with --disable-sliding-window in a later release than 0.21.0."""
    config = {
        **LLAMA, "architectures": ["LagunaForCausalLM"], "model_type": "laguna", "head_dim": 64, "sliding_window": 512,
        "layer_types": ["full_attention", "sliding_attention", "sliding_attention", "sliding_attention"],
        "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 256,
        "shared_expert_intermediate_size": 256,
        "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"], "num_attention_heads_per_layer": [16, 16, 16, 16],
        "rope_parameters": {
            kind: {"rope_type": "default", "rope_theta": 10000.0} for kind in ("full_attention", "sliding_attention")
        },
    }  # fmt: skip
    model = folder(tmp_path, "laguna", config)
    messages = {
        release: planned(model, "--disable-sliding-window", release=release)["verdict"]["message"]
        for release in ("0.21.0", "0.32.0")
    }
    assert "NoneType" in messages["0.32.0"]
    assert "NoneType" not in messages["0.21.0"]


def test_a_draft_without_a_model_stands_on_pipeline_stages(tmp_path: Path) -> None:
    """PLaMo 2 with --pipeline-parallel-size and n-grams was said to fail with a bare AssertionError; it starts."""
    config = {
        "architectures": ["Plamo2ForCausalLM"], "model_type": "plamo2", "hidden_size": 1024, "intermediate_size": 2816,
        "num_hidden_layers": 4, "num_attention_heads": 16, "num_key_value_heads": 4, "hidden_size_per_head": 64,
        "vocab_size": 32064, "max_position_embeddings": 8192, "torch_dtype": "bfloat16", "mamba_enabled": True,
        "mamba_step": 2, "mamba_d_state": 64, "mamba_d_conv": 4, "mamba_num_heads": 16, "mamba_chunk_size": 256,
        "attention_window_size": 2048, "full_attention_idx": [], "rms_norm_eps": 1e-6, "tie_word_embeddings": True,
    }  # fmt: skip
    ngram = ("--speculative-config", '{"method": "ngram", "num_speculative_tokens": 4}')
    model = folder(tmp_path, "plamo", config)
    assert planned(model, "-pp", "2", *ngram, gpu="2xH100", release="0.21.0")["verdict"]["fits"]
