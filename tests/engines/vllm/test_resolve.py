"""Settings that vLLM resolves, and its refusals."""

from __future__ import annotations

from typing import Any

import pytest

from oomph.engines.vllm.kv.cache import kv
from oomph.engines.vllm.kv.specs import Refused
from oomph.engines.vllm.resolve.backend_query import Query
from oomph.engines.vllm.resolve.backends import choose
from oomph.engines.vllm.resolve.steps import Resolved, resolve
from oomph.facts.vllm.facts import at
from oomph.facts.vllm.versions import RELEASES
from oomph.ir.deployment import Deployment, Engine
from oomph.ir.hardware import Device
from oomph.ir.model import Attention, Block, Layer, Model, Quantization
from oomph.units import GIB

H100 = Device("H100", 85523536281, (9, 0), driver_name="NVIDIA H100 80GB HBM3")
A100 = Device("A100", 85094039552, (8, 0), driver_name="NVIDIA A100-SXM4-80GB")
B200 = Device("B200", 191126044672, (10, 0), driver_name="NVIDIA B200")
L4 = Device("L4", 23654532382, (8, 9), driver_name="NVIDIA L4")


def llama(**kw: Any) -> Model:
    heads = kw.pop("heads", 32)
    layers = tuple(Layer(i, f"model.layers.{i}", (Attention("full", heads, 8, 128, 128),), Block()) for i in range(32))
    facts: dict[str, Any] = {"num_heads": heads, "num_kv_heads": 8, "model_type": "llama"} | kw
    return Model("m", "LlamaForCausalLM", "BF16", 4096, 128256, 131072, layers, Block(), (), **facts)


def settle(
    version: str = "0.21.0",
    gpu: Device = H100,
    m: Model | None = None,
    usage: str = "serve",
    env: Any = None,
    **flags: Any,
) -> Resolved:
    return resolve(
        m or llama(),
        Deployment(Engine("vllm", version), "m", flags, (gpu,), environment=env or {}, usage=usage),  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("version", "gpu", "usage", "tokens", "seqs"),
    [
        ("0.21.0", H100, "serve", 8192, 1024),
        ("0.21.0", H100, "llm", 16384, 1024),
        ("0.21.0", A100, "serve", 2048, 256),
        ("0.21.0", A100, "llm", 8192, 256),
        ("0.21.0", L4, "serve", 2048, 256),
        ("0.21.0", B200, "serve", 8192, 1024),
        ("0.28.0", B200, "serve", 16384, 1024),
        ("0.28.0", H100, "serve", 8192, 1024),
    ],
)
def test_batch_defaults(version: str, gpu: Device, usage: str, tokens: int, seqs: int) -> None:
    r = settle(version, gpu, usage=usage)
    assert (r.max_num_batched_tokens, r.max_num_seqs) == (tokens, seqs)


def test_batch_limits_follow_the_context() -> None:
    r = settle(max_model_len=4, max_num_seqs=8)
    assert r.max_num_batched_tokens == 32
    assert settle(max_num_batched_tokens=128).max_num_seqs == 128
    assert settle(performance_mode="throughput").max_num_batched_tokens == 16384


def test_utilization() -> None:
    assert settle("0.19.1").gpu_memory_utilization == 0.9
    assert settle("0.20.0").gpu_memory_utilization == 0.92
    for value, text in (
        (1.2, "Input should be less than or equal to 1 [type=less_than_equal, input_value=1.2, input_type=float]"),
        (0, "Input should be greater than 0 [type=greater_than, input_value=0, input_type=int]"),
    ):
        refusal = settle(gpu_memory_utilization=value).refusal
        told = f"1 validation error for CacheConfig\ngpu_memory_utilization\n  {text}"
        assert refusal is not None and (refusal.stage, refusal.message) == ("engine_config", told)


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (
            {"tensor_parallel_size": 3},
            "Total number of attention heads (32) must be divisible by tensor parallel size (3).",
        ),
        (
            {"enable_expert_parallel": True},
            "Number of experts in the model must be greater than 0 when expert parallelism",
        ),
        (
            {"max_num_batched_tokens": 8, "max_num_seqs": 9},
            "max_num_batched_tokens (8) must be greater than or equal to",
        ),
        ({"max_model_len": 200000}, "User-specified max_model_len (200000) is greater than the derived max_model_len"),
        ({"dtype": "int7"}, "2 validation errors for ModelConfig\ndtype.literal['auto',"),
        ({"kv_cache_dtype": "fp9"}, "1 validation error for CacheConfig\ncache_dtype\n  Input should be 'auto', 'fl"),
        ({"max_model_len": -5}, "1 validation error for ModelConfig\nmax_model_len\n  Input should be greater than or"),
        ({"max_num_seqs": 0}, "2 validation errors for SchedulerConfig\nmax_num_batched_tokens\n  Input should be"),
        ({"tensor_parallel_size": 0}, "integer modulo by zero"),
        ({"tensor_parallel_size": 4, "decode_context_parallel_size": 3}, "tp_size=4 must be divisible bydcp_size=3."),
        (
            {"tensor_parallel_size": 2, "decode_context_parallel_size": 2},
            "Assertion failed, tensor parallel size 2 must be greater than total num kv heads 8 when enable decode",
        ),
        ({"data_parallel_size": 0}, "data_parallel_rank (0) must be in the range [0, 0)"),
        ({"quantization": "awq"}, "Cannot find the config file for awq"),
        (
            {"async_scheduling": True, "speculative_config": {"method": "ngram", "num_speculative_tokens": 2}},
            "Currently, async scheduling is only supported with EAGLE/MTP/Draft Model/NGram GPU kind of",
        ),
        (
            {"speculative_config": {"method": "mtp", "num_speculative_tokens": 1}},
            "Unsupported speculative method: 'mtp'",
        ),
        ({"speculative_config": {"method": "eagle"}}, "A speculative model was provided, but `num_speculative_tokens`"),
        (
            {"enable_chunked_prefill": False, "max_num_batched_tokens": 2048},
            "max_num_batched_tokens (2048) is smaller than",
        ),
    ],
)
def test_refusals(flags: dict[str, Any], text: str) -> None:
    refusal = settle(**flags).refusal
    assert refusal is not None and refusal.stage == "engine_config"
    assert refusal.message.startswith(text), refusal.message


def test_a_long_context_can_be_forced() -> None:
    assert settle(max_model_len=200000, env={"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"}).max_model_len == 200000


def test_kv_heads_that_neither_divide_nor_are_divided() -> None:
    phi = llama(heads=40)
    odd = tuple(Layer(0, "model.layers.0", (Attention("full", 40, 10, 128, 128),), Block()) for _ in range(1))
    m = Model("m", "Phi3ForCausalLM", "BF16", 1, 1, 16384, odd, Block(), (), num_heads=40, num_kv_heads=10)
    refusal = settle(m=m, tensor_parallel_size=4).refusal
    assert refusal is not None and (refusal.stage, refusal.type, refusal.message) == (
        "model_build",
        "AssertionError",
        "",
    )
    assert settle(m=m, tensor_parallel_size=2).refusal is None
    assert settle(m=phi, tensor_parallel_size=8).refusal is None


def test_yarn_counts_until_0_30() -> None:
    params = (("derived_max_len", 32768), ("rope_type", "yarn"), ("rope_factor", 4.0), ("rope_original", 32768))
    m = llama(params=params)
    assert settle("0.21.0", m=m).max_model_len == 131072
    assert settle("0.30.0", m=m).max_model_len == 32768


def test_checkpoint_driven_fp8_cache() -> None:
    asked = llama(quantization=Quantization("modelopt_fp4", kv_cache="fp8"))
    assert settle(m=asked).kv_cache_dtype == "fp8_e4m3"
    assert settle("0.13.0", m=asked).kv_cache_dtype == "auto"
    assert settle(m=asked, kv_cache_dtype="bfloat16").kv_cache_dtype == "bfloat16"
    scheme = llama(quantization=Quantization("compressed-tensors", kv_cache="fp8"))
    r = settle(m=scheme)
    assert r.kv_cache_dtype == "auto"  # the layers turn to fp8, the setting does not
    assert kv(r, GIB).bytes_per_block == kv(settle(), GIB).bytes_per_block // 2


def test_minimum_capability() -> None:
    m = llama(quantization=Quantization("modelopt_mixed"))
    ampere = Device("RTX 3090", 25308094791, (8, 6), driver_name="NVIDIA GeForce RTX 3090")
    refusal = settle(gpu=ampere, m=m).refusal
    assert refusal is not None and refusal.message.endswith("Minimum capability: 89. Current capability: 86.")
    assert settle("0.32.0", gpu=ampere, m=m).refusal is None


@pytest.mark.parametrize(
    ("version", "gpu", "flags", "count", "largest"),
    [
        ("0.21.0", H100, {}, 51, 512),
        ("0.21.0", H100, {"max_num_seqs": 256}, 51, 512),
        ("0.21.0", H100, {"max_num_seqs": 128}, 35, 256),
        ("0.21.0", H100, {"max_num_seqs": 16}, 7, 32),
        ("0.11.0", H100, {}, 67, 512),
        ("0.28.0", B200, {}, 83, 1024),
        ("0.21.0", H100, {"enforce_eager": True}, 0, 0),
        ("0.21.0", H100, {"optimization_level": 0}, 0, 0),
        ("0.21.0", H100, {"cudagraph_capture_sizes": [1, 2, 9]}, 3, 9),
        ("0.21.0", H100, {"max_cudagraph_capture_size": 64}, 11, 64),
        ("0.21.0", H100, {"max_num_batched_tokens": 300, "max_num_seqs": 256}, 38, 300),
    ],
)
def test_capture_sizes(version: str, gpu: Device, flags: dict[str, Any], count: int, largest: int) -> None:
    sizes = settle(version, gpu, **flags).cudagraph_capture_sizes
    assert (len(sizes), max(sizes, default=0)) == (count, largest)


def test_graph_modes() -> None:
    assert settle().cudagraph_mode == "FULL_AND_PIECEWISE"
    assert settle(optimization_level=1).cudagraph_mode == "PIECEWISE"
    assert settle(m=llama(pooling=True)).cudagraph_mode == "PIECEWISE"
    assert settle(compilation_config={"cudagraph_mode": "full_decode_only"}).cudagraph_mode == "FULL_DECODE_ONLY"


def test_model_runner_spreads() -> None:
    seen = [settle(v).model_runner for v in ("0.21.0", "0.22.0", "0.23.0", "0.25.0", "0.29.0", "0.32.0")]
    assert seen == ["v1", "v1", "v2", "v2", "v2", "v2"]
    assert settle("0.32.0", env={"VLLM_USE_V2_MODEL_RUNNER": "0"}).model_runner == "v1"
    assert settle("0.32.0", pipeline_parallel_size=2).max_in_flight_batches == 3


def test_what_turns_the_hybrid_manager_off() -> None:
    transfer = {"kv_connector": "LMCacheConnectorV1", "kv_role": "kv_both"}
    assert settle(kv_transfer_config=transfer).hybrid_off_because == "--kv-transfer-config"
    assert settle("0.32.0", kv_transfer_config={"kv_connector": "NixlConnector"}).hybrid_off_because == ""
    assert settle(kv_transfer_config=transfer, disable_hybrid_kv_cache_manager=False).hybrid_off_because == ""
    scout = tuple(
        Layer(i, f"model.layers.{i}", (Attention("chunked_local", 40, 8, 128, 128, chunk=8192),), Block())
        for i in range(4)
    )
    m = Model("m", "Llama4ForCausalLM", "BF16", 1, 1, 131072, scout, Block(), (), num_heads=40, num_kv_heads=8)
    assert settle("0.13.0", m=m).disable_hybrid_kv_cache_manager
    assert not settle("0.14.0", m=m).disable_hybrid_kv_cache_manager


def test_backends() -> None:
    base = {
        "attention": at("0.21.0").attention,
        "head_size": 128,
        "dtype": "bfloat16",
        "kv_dtype": "auto",
        "num_heads": 32,
    }
    assert choose(Query(sm=90, **base)).name == "FLASH_ATTN"  # type: ignore[arg-type]
    assert choose(Query(sm=100, **base)).name == "FLASHINFER"  # type: ignore[arg-type]
    assert choose(Query(sm=89, **base | {"kv_dtype": "fp8"})).name == "FLASHINFER"  # type: ignore[arg-type]
    assert choose(Query(sm=90, **base | {"kv_dtype": "fp8"})).name == "FLASH_ATTN"  # type: ignore[arg-type]
    assert choose(Query(sm=75, **base | {"dtype": "float16"})).name == "FLASHINFER"  # type: ignore[arg-type]
    with pytest.raises(Refused, match="Selected backend"):
        choose(Query(sm=89, **base), "FLASH_ATTN_MLA")  # type: ignore[arg-type]


def test_triton_refuses_fp8_before_ada() -> None:
    big = tuple(Layer(i, f"model.layers.{i}", (Attention("full", 8, 8, 512, 512),), Block()) for i in range(2))
    m = Model("m", "LlamaForCausalLM", "BF16", 1, 1, 8192, big, Block(), (), num_heads=8, num_kv_heads=8)
    ampere = Device("RTX A6000", 50927574712, (8, 6), driver_name="NVIDIA RTX A6000")
    refusal = settle("0.32.0", gpu=ampere, m=m, kv_cache_dtype="fp8", attention_backend="TRITON_ATTN").refusal
    assert refusal is not None and refusal.message.endswith("Re-run with --kv-cache-dtype bfloat16.")


def test_every_release_resolves() -> None:
    for release in RELEASES:
        r = settle(release, max_model_len=8192)
        told = kv(r, 10 * GIB)
        assert r.refusal is None and told.refusal is None
        assert told.num_blocks == 5120 and told.logged_tokens == 81920


@pytest.mark.parametrize(
    ("config", "method"),
    [
        ({"model": "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B"}, "eagle3"),
        ({"model": "yuhuili/EAGLE-LLaMA3-Instruct-8B"}, "eagle"),
        ({"model": "Qwen/Qwen3-0.6B"}, "draft_model"),
        ({"model": "[ngram]"}, "ngram"),
        ({"method": "deepseek_mtp", "model": "mtp-layers"}, "mtp"),
    ],
)
def test_the_method_that_a_draft_stands_for(config: dict[str, Any], method: str) -> None:
    assert settle(speculative_config=config | {"num_speculative_tokens": 2}).speculative_method == method


@pytest.mark.parametrize(
    ("version", "method", "on"),
    [("0.21.0", "draft_model", False), ("0.28.0", "draft_model", True), ("0.21.0", "eagle3", True)],
)
def test_which_drafts_are_scheduled_ahead(version: str, method: str, on: bool) -> None:
    config = {"method": method, "model": "draft", "num_speculative_tokens": 2}
    assert settle(version, speculative_config=config).async_scheduling is on


def test_tokens_without_a_draft_model() -> None:
    refusal = settle(speculative_config={"method": "eagle3", "num_speculative_tokens": 2}).refusal
    assert refusal is not None
    assert refusal.message == "num_speculative_tokens was provided but without speculative model."
