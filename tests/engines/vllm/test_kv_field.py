"""Start-ups that people posted: the printed KV memory in, the printed tokens and concurrency out.

The log rounds the memory to 0.01 GiB, so the printed figures must lie between those of the two ends.
"""

from __future__ import annotations

from typing import Any

import pytest

from oomph.engines.vllm.kv.cache import kv
from oomph.engines.vllm.resolve.steps import resolve
from oomph.ir.deployment import Deployment, Engine
from oomph.ir.hardware import Device
from oomph.ir.model import Attention, Block, Layer, Mixer, Model, State
from oomph.units import GIB

L4 = Device("L4", 23654532382, (8, 9), driver_name="NVIDIA L4")
RTX4090 = Device("RTX 4090", 25254407700, (8, 9), driver_name="NVIDIA GeForce RTX 4090")
RTX5090 = Device("RTX 5090", 33672543600, (12, 0), driver_name="NVIDIA GeForce RTX 5090")
H200 = Device("H200", 150753352089, (9, 0), driver_name="NVIDIA H200")


def model(architecture: str, length: int, mixers: list[Mixer], heads: int, kv_heads: int) -> Model:
    layers = tuple(Layer(i, f"model.layers.{i}", (m,), Block()) for i, m in enumerate(mixers))
    return Model("m", architecture, "BF16", 1, 1, length, layers, Block(), (), num_heads=heads, num_kv_heads=kv_heads)


QWEN25_7B = model("Qwen2ForCausalLM", 32768, [Attention("full", 28, 4, 128, 128)] * 28, 28, 4)
QWEN3_8B = model("Qwen3ForCausalLM", 40960, [Attention("full", 32, 8, 128, 128)] * 36, 32, 8)
GDN = State("gdn", conv_kernel=4, num_heads=32, head_dim=128, groups=16, key_dim=128)
FULL = Attention("full", 16, 2, 256, 256)
QWEN3_NEXT = model("Qwen3NextForCausalLM", 262144, ([GDN] * 3 + [FULL]) * 12, 16, 2)
SLIDING = Attention("sliding_window", 16, 8, 256, 256, window=1024)
GLOBAL = Attention("full", 16, 2, 512, 512)
GEMMA4_26B = model("Gemma4ForCausalLM", 262144, ([SLIDING] * 5 + [GLOBAL]) * 5, 16, 8)


@pytest.mark.parametrize(
    ("version", "what", "gpu", "gib", "tokens", "concurrency", "flags"),
    [
        ("0.28.0", QWEN25_7B, L4, 3.3, 61_776, 1.89, {"max_model_len": 32768}),
        ("0.28.0", QWEN25_7B, L4, 6.6, 123_664, 3.77, {"max_model_len": 32768}),
        ("0.21.0", QWEN25_7B, RTX4090, 4.45, 83_376, 40.71, {"max_model_len": 2048}),
        ("0.10.2", QWEN3_8B, RTX4090, 8.6, 62_608, 61.14, {"max_model_len": 1024, "dtype": "float16"}),
        ("0.10.2", QWEN3_NEXT, H200, 44.59, 973_760, 14.77, {"tensor_parallel_size": 2}),
        (
            "0.20.2", GEMMA4_26B, RTX5090, 4.58, 286_007, 1.12,
            {"max_model_len": 256000, "kv_cache_dtype": "fp8_e4m3", "max_num_batched_tokens": 16384, "max_num_seqs": 2},
        ),
    ],
)  # fmt: skip
def test_printed_figures(
    version: str, what: Model, gpu: Device, gib: float, tokens: int, concurrency: float, flags: dict[str, Any]
) -> None:
    r = resolve(what, Deployment(Engine("vllm", version), "m", flags, (gpu,)))
    assert r.refusal is None
    low, high = kv(r, round((gib - 0.005) * GIB)), kv(r, round((gib + 0.005) * GIB))
    assert low.logged_tokens <= tokens <= high.logged_tokens
    assert round(low.max_concurrency, 2) <= concurrency <= round(high.max_concurrency, 2)


def test_a_printed_refusal() -> None:
    """1.75 GiB needed, 1.1 GiB there, 20,512 tokens would fit (Qwen2.5-7B-Instruct-AWQ, L4, 0.28.0)."""
    r = resolve(QWEN25_7B, Deployment(Engine("vllm", "0.28.0"), "m", {"max_model_len": 32768}, (L4,)))
    low, high = (kv(r, round((1.1 + d) * GIB)).refusal for d in (-0.005, 0.005))
    assert low is not None and high is not None and "(1.75 GiB KV cache is needed" in low.message
    fits = [int(x.message.split("maximum model length is ")[1].split(".")[0]) for x in (low, high)]
    assert fits[0] <= 20_512 <= fits[1]


def test_the_block_of_a_hybrid_as_its_log_prints_it() -> None:
    """`Setting attention block size to 544 tokens`, `Padding mamba page size by 1.49%` (0.10.2, tp 2)."""
    r = resolve(QWEN3_NEXT, Deployment(Engine("vllm", "0.10.2"), "m", {"tensor_parallel_size": 2}, (H200,)))
    assert r.block_size == 544
    assert r.mamba_page_size_padded is not None
    state = next(m.spec.state_bytes for m in r.kv_layers if m.spec.kind == "mamba")
    assert round(100 * (r.mamba_page_size_padded - state) / state, 2) == 1.49
