"""The kernel that runs the experts, and what follows from it. The bytes are what vLLM's own classes create."""

from __future__ import annotations

import pytest

import oomph
from oomph.engines.common.expert_kernel import ExpertSetting, _query, routing_method
from oomph.engines.common.shard import Layout
from oomph.facts.vllm.expert_kernels import KERNELS, Query
from oomph.facts.vllm.facts import at
from oomph.ir.model import Experts, Routing, Scheme

CREATED = [
    ("google/gemma-4-26B-A4B-it", "4x B200", "-tp 4", 14_203_711_306),
    ("google/gemma-4-26B-A4B-it", "4x B200", "-tp 4 --enable-expert-parallel", 14_203_726_666),
    ("Qwen/Qwen3-30B-A3B", "4x B200", "-tp 4 --enable-lora", 15_295_738_624),
    ("deepseek-ai/DeepSeek-V2-Lite", "8x B200", "-tp 8", 4_009_516_464),
    ("moonshotai/Kimi-K3", "16x A100 80GB", "-tp 16", 139_316_476_248),
    ("deepseek-ai/DeepSeek-V3", "16x H200", "-tp 8 -dp 2 --enable-expert-parallel", 46_517_472_112),
]


@pytest.mark.parametrize(("model", "gpu", "flags", "created"), CREATED)
def test_created_weights_follow_the_kernel(model: str, gpu: str, flags: str, created: int) -> None:
    plan = oomph.plan(f"vllm serve {model} {flags}", gpu=gpu, engine="vllm==0.32.0")
    assert plan.ranks[0].created_bytes == created


def test_the_plan_names_the_kernel() -> None:
    plan = oomph.plan("vllm serve openai/gpt-oss-20b", gpu="H100", engine="vllm==0.32.0")
    assert plan.resolved["expert_kernels"] == ["TRITON"]
    assert "TRITON kernel" in plan.text(everything=True)
    dense = oomph.plan("vllm serve Qwen/Qwen3-8B", gpu="H100", engine="vllm==0.32.0")
    assert "expert_kernels" not in dense.resolved


@pytest.mark.parametrize(
    ("version", "query", "name"),
    [
        ("0.32.0", Query("plain", 100), "FLASHINFER_TRTLLM"),
        ("0.32.0", Query("plain", 100, "gelu_tanh", routing="gemma4"), "FLASHINFER_CUTLASS"),
        ("0.21.0", Query("plain", 100, "gelu_tanh", routing="gemma4"), "TRITON"),
        ("0.32.0", Query("plain", 100, routing="default"), "FLASHINFER_CUTLASS"),
        ("0.32.0", Query("plain", 100, lora=True), "TRITON"),
        ("0.32.0", Query("plain", 100, routing="minimax2"), "FLASHINFER_TRTLLM"),
        ("0.30.0", Query("plain", 100, routing="minimax2"), "FLASHINFER_CUTLASS"),
        ("0.21.0", Query("plain", 90), "FLASHINFER_CUTLASS"),
        ("0.23.0", Query("plain", 90), "TRITON"),
        ("0.32.0", Query("plain", 120, dp=2), "TRITON"),
        ("0.32.0", Query("fp8_block", 90, expert_parallel=True), "FLASHINFER_CUTLASS"),
        ("0.32.0", Query("fp8_block", 90), "TRITON"),
        ("0.32.0", Query("fp8_channel", 80), "MARLIN"),
        ("0.11.0", Query("mxfp4", 90, "swigluoai"), "MARLIN"),
        ("0.12.0", Query("mxfp4", 90, "swigluoai"), "TRITON"),
        ("0.32.0", Query("mxfp4", 120, "swigluoai"), "MARLIN"),
        ("0.32.0", Query("plain", 90, backend="flashinfer_cutlass"), "FLASHINFER_CUTLASS"),
    ],
)
def test_the_first_kernel_that_takes_the_layer_runs_it(version: str, query: Query, name: str) -> None:
    assert at(version).expert_kernels.kernel(query) == name


@pytest.mark.parametrize(
    ("routing", "name"),
    [
        (Routing(), "renormalize_naive"),
        (Routing(renormalised=False), "default"),
        (Routing("sigmoid", True, 8, biased=True), "deepseek_v3"),
        (Routing("sigmoid", True, 0, biased=True), "minimax2"),
        (Routing("sigmoid", False, 8, biased=True), "unspecified"),
        (Routing(biased=True), "unspecified"),
        (Routing("sqrtsoftplus", biased=True), "deepseek_v4"),
        (Routing("sigmoid", custom="llama4"), "llama4"),
    ],
)
def test_a_router_has_the_name_that_kernels_know(routing: Routing, name: str) -> None:
    assert routing_method(routing) == name


def test_every_family_ends_in_a_kernel_for_plain_layers() -> None:
    families = {row.family for row in KERNELS}
    for version in ("0.12.0", "0.21.0", "0.27.0", "0.32.0"):
        for family in families:
            assert all(at(version).expert_kernels.kernel(Query(family, sm)) for sm in (80, 89, 90, 100, 103, 120)), (
                family
            )


@pytest.mark.parametrize(
    ("model", "gpu", "flags", "says"),
    [
        ("Qwen/Qwen3-30B-A3B", "H100", "--moe-backend marlin", "moe_backend='marlin' is not supported"),
        ("Qwen/Qwen3-30B-A3B", "H100", "--moe-backend flashinfer_trtllm", "FlashInfer TRTLLM does not support"),
        ("Qwen/Qwen3-30B-A3B-FP8", "B200", "--moe-backend flashinfer_cutlass", "FP8 MoE backend FLASHINFER_CUTLASS"),
        ("Qwen/Qwen3-30B-A3B", "H100", "--enable-expert-parallel --enable-eplb", "EPLB requires tensor"),
        ("Qwen/Qwen3-30B-A3B", "8x H100", "-tp 8 --quantization mxfp8", ""),
        ("tiiuae/Falcon-H1-7B-Instruct", "H100", "--kv-cache-dtype turboquant_k8v4", "TurboQuant KV cache requires"),
    ],
)
def test_what_vllm_refuses_is_refused(model: str, gpu: str, flags: str, says: str) -> None:
    plan = oomph.plan(f"vllm serve {model} {flags}", gpu=gpu, engine="vllm==0.32.0")
    assert says in plan.verdict.message
    assert bool(says) == (plan.verdict.stage == "other")


@pytest.mark.parametrize(
    ("version", "method", "created"),
    [
        # GLM-4.5 over 8 ranks: 192 features per rank, in whole blocks 256
        ("0.32.0", "fp8_per_block", 116_488_375_360),
        ("0.21.0", "fp8_per_block", 88_491_396_160),
    ],
)
def test_experts_quantised_on_the_fly_come_in_whole_blocks(version: str, method: str, created: int) -> None:
    plan = oomph.plan(
        f"vllm serve zai-org/GLM-4.5 -tp 8 --quantization {method}", gpu="8x H200", engine=f"vllm=={version}"
    )
    assert abs(plan.ranks[0].created_bytes - created) < created / 1000


def test_sparse_attention_wants_the_quantised_cache_under_dcp() -> None:
    flags = "-tp 8 --decode-context-parallel-size 8"
    for version, refused in (("0.28.0", False), ("0.32.0", True)):
        plan = oomph.plan(f"vllm serve deepseek-ai/DeepSeek-V3.2 {flags}", gpu="8x H200", engine=f"vllm=={version}")
        assert ("requires an fp8_ds_mla" in plan.verdict.message) is refused


@pytest.mark.parametrize(("method", "cutlass"), [("compressed-tensors", True), ("fp8", False), (None, False)])
def test_a_kernel_is_looked_for_with_cutlass_where_the_checkpoint_is_compressed(
    method: str | None, cutlass: bool
) -> None:
    scheme = Scheme(method, 8, "float", "tensor") if method else None
    experts = Experts("experts", 8, 256, 128, 2, "BF16")
    for width, parallel in ((1, False), (2, False), (1, True), (2, True)):
        layout = Layout(tp=width, expert_parallel=parallel)
        query = _query(experts, scheme, "fp8", layout, ExpertSetting())
        assert query.cutlass is cutlass and query.expert_parallel is (parallel and width > 1)
