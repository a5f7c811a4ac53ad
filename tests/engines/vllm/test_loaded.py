"""Weights after loading and the way there, against real start-ups and the engine's source."""

from __future__ import annotations

from typing import Any

import pytest
from h200_truth import Case, rows

from oomph.engines.common.ranks import Rank
from oomph.engines.vllm.run import Run
from oomph.engines.vllm.weights.loaded import WeightsPlan, first_failing_allocation, weights_terms
from oomph.facts.vllm.versions import NEWEST
from oomph.ir.deployment import Deployment, Engine
from oomph.ir.hardware import Device
from oomph.ir.model import Model
from oomph.sources.build import build_model
from oomph.units import GIB, MIB

ROWS = {row["id"]: row for row in rows()}
MEASURED = [row for row in ROWS.values() if row["weights_bytes"]]
LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "dtype": "bfloat16", "hidden_size": 4096,
    "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
    "vocab_size": 128256, "max_position_embeddings": 8192, "rope_theta": 500000.0, "tie_word_embeddings": False,
}  # fmt: skip


def planned(model: Model, version: str = "0.21.0", capability: tuple[int, int] = (9, 0), **flags: Any) -> WeightsPlan:
    device = Device("GPU", 80 * GIB, capability, sm_count=132)
    deployment = Deployment(Engine("vllm", version), model.name, flags, (device,))
    plan = weights_terms(Run(model, deployment), Rank(0, 0, 0, device))
    assert sum(plan.parts.values()) == plan.loaded_bytes
    assert plan.low <= plan.loaded_bytes <= plan.high
    assert plan.peak_bytes >= plan.loaded_bytes
    return plan


@pytest.fixture(scope="module")
def llama() -> Model:
    return build_model("llama", LLAMA)


@pytest.mark.parametrize("row", MEASURED, ids=lambda row: row["id"])
def test_measured_weights(row: dict[str, Any]) -> None:
    assert Case(row).plan().loaded_bytes == row["weights_bytes"]
    # what a checkpoint's own weights leave differs from dummy ones by a block or two
    real = Case(row, load_format="auto").plan()
    assert real.loaded_bytes == pytest.approx(row["weights_bytes"], rel=5e-4)


def test_the_allocation_that_failed() -> None:
    """13.71 GiB allocated, "Tried to allocate 224.00 MiB"."""
    case = Case(ROWS["f3_llama8b_15gib_weights_oom"])
    point = case.failing(round(13.75 * GIB))
    assert point is not None
    assert (point.layer, point.module, point.tried) == (31, "mlp.gate_up_proj", 224 * MIB)
    before_load = 2048 * 4096 * 2 + 117_760
    assert (point.total - point.tried + before_load) / GIB == pytest.approx(13.71, abs=0.005)


def test_gemma_4_in_nvfp4_passes_14_gib_at_layer_55() -> None:
    config = {
        "architectures": ["Gemma4ForConditionalGeneration"], "model_type": "gemma4", "dtype": "bfloat16",
        "text_config": {
            "attention_k_eq_v": True, "hidden_size": 5376, "hidden_size_per_layer_input": 0,
            "intermediate_size": 21504, "max_position_embeddings": 262144, "num_attention_heads": 32,
            "num_global_key_value_heads": 4, "num_hidden_layers": 60, "num_key_value_heads": 16, "head_dim": 256,
            "global_head_dim": 512, "sliding_window": 1024, "vocab_size": 262144, "tie_word_embeddings": True,
            "model_type": "gemma4_text",
            "layer_types": (["sliding_attention"] * 5 + ["full_attention"]) * 10,
            "rope_parameters": {
                "full_attention": {"partial_rotary_factor": 0.25, "rope_theta": 1e6, "rope_type": "proportional"},
                "sliding_attention": {"rope_theta": 1e4, "rope_type": "default"},
            },
        },
        "vision_config": {"model_type": "gemma4_vision"},
        "quantization_config": {
            "quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16,
            "ignore": ["lm_head", "*self_attn*", "model.vision_tower*", "model.embed_vision*"],
        },
    }  # fmt: skip
    model = build_model("gemma", config)
    flags = {"tensor_parallel_size": 2, "language_model_only": True, "max_model_len": 1024}
    device = Device("RTX 5070 Ti", round(15.47 * GIB), (12, 0), sm_count=70)
    deployment = Deployment(Engine("vllm", "0.21.0"), "gemma", flags, (device, device))
    run, rank = Run(model, deployment), Rank(0, 0, 0, device)
    plan = weights_terms(run, rank)
    tables = plan.parts["buffers"]
    assert (plan.created_bytes - tables) / GIB == pytest.approx(14.76, abs=0.01)
    point = first_failing_allocation(run, rank, 14 * GIB)
    assert point is not None
    assert (point.layer + 1, point.module, point.tried, point.doing) == (55, "mlp.gate_up_proj", 56 * MIB, "building")


def test_a_drafter_builds_tables_that_it_drops_again() -> None:
    row = ROWS["g03_qwen36_bf16_mtp_default"]
    plan = Case(row).plan()
    assert plan.loaded_bytes == row["weights_bytes"]
    table = 248_320 * 5120 * 2
    assert plan.peak_bytes - plan.loaded_bytes == pytest.approx(2 * table, rel=0.01)
    assert plan.peak_where.doing == "draft model"


def test_mxfp4_on_hopper_needs_gigabytes_while_it_repacks() -> None:
    plan = Case(ROWS["c_gpt-oss-20b_eager_b8192"]).plan()
    assert plan.parts["repacking"] > 0
    assert plan.peak_bytes - plan.loaded_bytes > 2 * GIB
    assert plan.peak_where.doing == "repacking"


def test_quantising_while_loading(llama: Model) -> None:
    """fp8.py: 0.12 has all of it in 16 bits first, 0.13 to 0.15 keeps both, 0.16 goes layer by layer."""
    plain = planned(llama)
    after, held, meta = (planned(llama, version, quantization="fp8") for version in ("0.12.0", "0.14.1", "0.16.0"))
    linear = plain.parts["attention"] + plain.parts["mlp"]
    for plan in (after, held, meta):
        assert plan.loaded_bytes == pytest.approx(plain.loaded_bytes - linear / 2, rel=2e-3)
    assert after.peak_bytes == pytest.approx(plain.loaded_bytes, rel=0.01)
    assert held.peak_bytes == pytest.approx(plain.loaded_bytes + linear / 2, rel=0.01)
    assert meta.peak_bytes == pytest.approx(meta.loaded_bytes + 2 * 28672 * 4096, rel=0.01)


def test_bitsandbytes_keeps_a_maximum_for_every_64_values(llama: Model) -> None:
    plan = planned(llama, quantization="bitsandbytes", load_format="bitsandbytes")
    values = 32 * (6144 * 4096 + 4096 * 4096 + 28672 * 4096 + 4096 * 14336)
    assert plan.parts["attention"] + plan.parts["mlp"] == values // 2
    assert plan.parts["repacking"] == pytest.approx(values // 16, rel=0.08)


def test_offloading_takes_parameters_in_order(llama: Model) -> None:
    plain = planned(llama)
    off = planned(llama, cpu_offload_gb=4)
    layer = 2 * (6144 * 4096 + 4096 * 4096 + 28672 * 4096 + 4096 * 14336)
    assert 4 * GIB <= off.host_bytes < 4 * GIB + layer
    assert off.loaded_bytes == pytest.approx(plain.loaded_bytes - off.host_bytes, rel=1e-3)
    assert off.peak_bytes < plain.peak_bytes
    only = planned(llama, cpu_offload_gb=4, cpu_offload_params=["down_proj"])
    assert only.host_bytes == 32 * 2 * 4096 * 14336  # all there is of it


def test_prefetched_layers_keep_one_set_on_the_gpu(llama: Model) -> None:
    off = planned(llama, offload_group_size=8, offload_num_in_group=2, offload_prefetch_step=2)
    assert off.host_bytes == pytest.approx(8 * off.after_load_bytes / 2, rel=1e-3)


def test_lora_slots_grow_with_adapters_and_rank(llama: Model) -> None:
    small = planned(llama, enable_lora=True).parts["LoRA slots"]
    large = planned(llama, enable_lora=True, max_loras=4, max_lora_rank=64).parts["LoRA slots"]
    assert 10 < large / small < 18
    assert "LoRA slots" not in planned(llama).parts


def test_a_whole_file_on_the_gpu(llama: Model) -> None:
    plan = planned(llama, load_format="fastsafetensors")
    assert plan.peak_bytes - plan.loaded_bytes == pytest.approx(5e9, rel=0.02)


@pytest.mark.parametrize("version", ["0.11.0", "0.14.1", "0.18.1", "0.20.2", "0.25.1", "0.28.0", NEWEST])
@pytest.mark.parametrize("capability", [(8, 0), (8, 9), (9, 0), (10, 0), (12, 0)])
@pytest.mark.parametrize("name", ["Llama-3.1-8B-AWQ", "Llama-3.1-8B-NVFP4", "Qwen3-30B-A3B-FP8block", "gpt-oss-20b"])
def test_every_release_and_gpu(name: str, capability: tuple[int, int], version: str) -> None:
    model = Case(next(row for row in ROWS.values() if row["model"] == name)).model
    plan = planned(model, version, capability, tensor_parallel_size=1)
    assert plan.loaded_bytes == pytest.approx(plan.created_bytes, rel=0.12)


def test_without_a_limit_on_splitting_little_is_lost(llama: Model) -> None:
    """0.21.0 stops splitting blocks of 20 MiB and more while it loads."""
    before, after = planned(llama, "0.20.2"), planned(llama, "0.21.0")
    assert before.created_bytes == after.created_bytes
    assert before.parts["allocator rounding"] < MIB
    assert after.parts["allocator rounding"] >= before.parts["allocator rounding"]


def test_balancing_experts_keeps_one_layer_of_them_twice() -> None:
    model = Case(ROWS["c_Qwen3-30B-A3B_eager_b8192"]).model
    flags = {"enable_expert_parallel": True, "tensor_parallel_size": 4}
    plain = planned(model, **flags)
    balanced = planned(model, **flags, enable_eplb=True, eplb_config={"num_redundant_experts": 8})
    layer = plain.parts["experts"] // 48
    assert balanced.parts["experts"] == plain.parts["experts"] * 34 // 32
    assert balanced.parts["expert balancing"] == pytest.approx(layer * 34 / 32 + 4 * 1001 * 48 * 136, rel=0.01)


def test_buffers_as_long_as_the_largest_batch() -> None:
    config = LLAMA | {
        "architectures": ["DeepseekV32ForCausalLM"], "model_type": "deepseek_v32", "hidden_size": 1024,
        "num_hidden_layers": 2, "num_attention_heads": 16, "num_key_value_heads": 16, "q_lora_rank": 256,
        "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "index_topk": 2048,
        "index_n_heads": 8, "index_head_dim": 128, "first_k_dense_replace": 2, "n_routed_experts": 8,
        "n_shared_experts": 1, "num_experts_per_tok": 2, "moe_intermediate_size": 256, "vocab_size": 32000,
    }  # fmt: skip
    plan = planned(build_model("sparse", config), max_num_batched_tokens=4096)
    assert plan.parts["batch buffers"] == 4096 * 2048 * 4 + 4096 * 16 * 576 * 2
    assert plan.parts["attention workspace"] == 128 * MIB
