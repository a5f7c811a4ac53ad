"""--linear-backend, --model-impl transformers, layer types: what vLLM builds otherwise, or refuses, because of them."""

from __future__ import annotations

from typing import Any

import pytest

from oomph.answers.plan import plan
from oomph.errors import CannotPlan
from oomph.ir.plan import Plan
from oomph.sources.build import build_model

A100, H100 = "A100 SXM 80GB", "H100 SXM"


def of(words: str, gpu: str = H100, release: str = "0.32.0", model: Any = None) -> Plan:
    command = ["vllm", "serve", *words.split()]
    return plan(command, gpu=gpu, engine=f"vllm=={release}", model=model, advise=False)


def created(answer: Plan) -> int:
    return answer.ranks[0].created_bytes


@pytest.mark.parametrize(
    ("backend", "gpu", "release", "refusal"),
    [
        ("deep_gemm", A100, "0.27.0", "only Hopper and Blackwell GPUs are supported"),
        ("deep_gemm", H100, "0.27.0", ""),
        ("torch", A100, "0.27.0", "--linear-backend=torch was requested but no 'torch' kernel exists for this layer"),
        ("machete", A100, "0.27.0", "no 'machete' kernel exists"),
        ("machete", A100, "0.32.0", ""),  # a warning since 0.28
        ("triton", A100, "0.27.0", ""),
        ("cutlass", A100, "0.32.0", "The device compute capability of80 is not supported"),
    ],
)
def test_a_backend_without_a_kernel_for_fp8_blocks(backend: str, gpu: str, release: str, refusal: str) -> None:
    message = of(f"Qwen/Qwen3-8B-FP8 --linear-backend {backend}", gpu, release).verdict.message
    assert (refusal in message) if refusal else not message


def test_a_backend_chooses_among_the_kernels_for_packed_integers() -> None:
    packed = "RedHatAI/Qwen3-8B-quantized.w4a16 --linear-backend"
    assert "MacheteLinearKernel requires capability 90" in of(f"{packed} machete", A100).verdict.message
    assert of(f"{packed} machete").verdict.fits
    assert of(f"{packed} marlin", A100).verdict.fits


def test_transformers_keeps_frequencies_instead_of_a_table() -> None:
    own, theirs = of("Qwen/Qwen3-8B"), of("Qwen/Qwen3-8B --model-impl transformers")
    assert created(own) - created(theirs) == 40960 * 128 * 2 - 128 * 4


@pytest.mark.parametrize(
    ("model", "release", "refusal"),
    [
        ("tiiuae/Falcon-H1-7B-Instruct", "0.27.0", "is not compatible with vLLM"),
        ("tiiuae/Falcon-H1-7B-Instruct", "0.32.0", "does not dispatch through the Transformers attention interface"),
        ("internlm/internlm2_5-7b-chat", "0.32.0", "Cannot find model module. 'InternLM2ForCausalLM'"),
    ],
)
def test_what_transformers_cannot_serve(model: str, release: str, refusal: str) -> None:
    assert refusal in of(f"{model} --model-impl transformers", release=release).verdict.message


@pytest.mark.parametrize("kind", ["indexed_attention", "deepseek_sparse_attention", "hybrid_sliding"])
def test_layer_types_that_transformers_does_not_know(kind: str) -> None:
    config = {
        "architectures": ["Qwen3ForCausalLM"], "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 1000, "layer_types": [kind] * 2,
    }  # fmt: skip
    model = build_model("own", config)
    for release, refused in (("0.19.0", False), ("0.27.0", True), ("0.29.0", False)):
        message = of("own", release=release, model=model).verdict.message
        assert ("The `layer_types` entries must be in" in message) is refused


def test_experts_follow_the_names_that_a_release_asks_for() -> None:
    words = "RedHatAI/DeepSeek-V4-Flash-NVFP4-FP8 --tensor-parallel-size 8 --kv-cache-dtype fp8"
    before, later = (of(words, "8x B200", release) for release in ("0.30.0", "0.32.0"))
    assert created(later) > 3 * created(before)  # w1, w2 and w3 are no target of the config: BF16
    assert [any("builds them unquantised" in note for note in p.warnings) for p in (before, later)] == [False, True]


def test_token_classifiers() -> None:
    """Created bytes of vLLM 0.32.0's own Python for the config classes' defaults, eight layers."""
    sizes = {"BertForTokenClassification": 161_195_144, "ModernBertForTokenClassification": 160_892_040}
    base = {"num_hidden_layers": 8, "dtype": "bfloat16", "hidden_size": 768, "num_attention_heads": 12}
    for name, size in sizes.items():
        model = build_model(name, {"architectures": [name], **base})
        assert created(of(name, model=model)) == size


INKLING: dict[str, Any] = {
    "architectures": ["InklingForConditionalGeneration"], "model_type": "inkling_mm_model", "dtype": "bfloat16",
    "text_config": {
        "hidden_size": 6144, "num_hidden_layers": 8, "num_attention_heads": 64, "num_key_value_heads": 8,
        "head_dim": 128, "max_position_embeddings": 131072, "conv_kernel_size": 4, "intermediate_size": 24576,
        "moe_intermediate_size": 3072, "n_routed_experts": 256, "num_experts_per_tok": 6, "n_shared_experts": 2,
    },
}  # fmt: skip


def test_inkling_keeps_a_window_of_its_convolutions() -> None:
    """vLLM 0.32.0's own Python on a config of these sizes: two groups, whose pages are made equal."""
    model = build_model("inkling", INKLING)
    command = "vllm serve inkling --tensor-parallel-size 4 --max-model-len 16384 --max-num-seqs 1 --block-size 16"
    gpu, room = "4x RTX PRO 6000 Blackwell Server", {"available_kv": 8 << 30}
    answer = plan(command, gpu=gpu, engine="vllm==0.32.0", model=model, given=room, advise=False)
    assert answer.kv is not None
    groups = sorted((group.layers, group.block_size, group.page_bytes) for group in answer.kv.groups)
    assert groups == [(8, 4, 32768), (8, 32, 32768)]
    assert (answer.kv.num_blocks, answer.kv.logged_tokens) == (32768, 116483)
    weights = 2_470_182_912 + 478_543_872 + 57_982_058_496 + 453_083_136 + 617_545_728 + 25_952_256 + 212_992
    assert abs(created(answer) - weights) < 1000


def test_other_engines_do_not_guess_its_caches() -> None:
    model = build_model("inkling", INKLING)
    with pytest.raises(CannotPlan):
        plan("python -m sglang.launch_server --model-path inkling", gpu="8x B200", model=model, advise=False)
    refused = plan("trtllm-serve inkling", gpu="8x B200", model=model, advise=False)
    assert not refused.verdict.fits and "Unknown architecture" in refused.verdict.message
