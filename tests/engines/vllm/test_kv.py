"""The KV cache block for block: the three cases, admission, auto-fit, overrides, stages, and what must always hold."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from oomph.engines.vllm.kv.cache import kv
from oomph.engines.vllm.kv.check import KvInput, KvPlan, plan
from oomph.engines.vllm.kv.groups import Layers
from oomph.engines.vllm.kv.specs import Spec
from oomph.engines.vllm.resolve.steps import Resolved, resolve
from oomph.facts.vllm.facts import at
from oomph.facts.vllm.versions import NEWEST
from oomph.ir.deployment import Deployment, Engine
from oomph.ir.hardware import Device
from oomph.ir.model import Attention, Block, Layer, Model, State
from oomph.units import GIB, MIB

SLIDING = Attention("sliding_window", 32, 16, 256, 256, window=1024)
GLOBAL = Attention("full", 32, 4, 512, 512)
GEMMA = tuple(GLOBAL if i % 6 == 5 else SLIDING for i in range(60))
GDN = State("gdn", conv_kernel=4, num_heads=48, head_dim=128, groups=16, key_dim=128, dtype="F32")
FULL = Attention("full", 24, 4, 256, 256)
QWEN = tuple(FULL if i % 4 == 3 else GDN for i in range(64))
RTX4090 = Device("RTX 4090", 25254407700, (8, 9), driver_name="NVIDIA GeForce RTX 4090")
RTX5090 = Device("RTX 5090", 33672543600, (12, 0), driver_name="NVIDIA GeForce RTX 5090")
H100 = Device("H100", 85523536281, (9, 0), driver_name="NVIDIA H100 80GB HBM3")


def model(mixers: tuple[Attention | State, ...], architecture: str, length: int, heads: int, kv_heads: int) -> Model:
    layers = tuple(Layer(i, f"model.layers.{i}", (m,), Block()) for i, m in enumerate(mixers))
    draft = (Layer(0, "mtp.layers.0", (FULL,), Block()),) if architecture.startswith("Qwen3_5") else ()
    return Model(
        "test", architecture, "BF16", 5376, 262144, length, layers, Block(), (), drafts=draft, num_heads=heads,
        num_kv_heads=kv_heads,
    )  # fmt: skip


GEMMA4 = model(GEMMA, "Gemma4ForCausalLM", 262144, 32, 16)
QWEN36 = model(QWEN, "Qwen3_5ForConditionalGeneration", 262144, 24, 4)
LLAMA = model((Attention("full", 32, 8, 128, 128),) * 32, "LlamaForCausalLM", 131072, 32, 8)


def settle(m: Model, version: str, gpu: Device, **flags: Any) -> Resolved:
    r = resolve(m, Deployment(Engine("vllm", version), "test", flags, (gpu, gpu)))
    assert r.refusal is None, r.refusal
    return r


def cache(m: Model, version: str, gpu: Device, memory: float, **flags: Any) -> KvPlan:
    return kv(settle(m, version, gpu, **flags), round(memory))


@pytest.mark.parametrize(
    ("version", "tokens", "concurrency"),
    [("0.19.1", 25_200, "1.87"), ("0.20.0", 25_200, "1.87"), ("0.21.0", 244_817, "1.87"), ("0.32.0", 217_334, "1.66")],
)
def test_gemma_4_31b_on_two_24_gb_cards(version: str, tokens: int, concurrency: str) -> None:
    told = cache(GEMMA4, version, RTX4090, 11.54 * GIB, tensor_parallel_size=2, max_model_len=131072)
    assert told.num_blocks == 9453
    assert told.logged_tokens == tokens
    assert f"{told.max_concurrency:.2f}" == concurrency
    assert [(g.kind, g.layers, g.block_size, g.page_bytes) for g in told.groups] == [
        *[("sliding_window", 10, 16, 131072)] * 5,
        ("full", 10, 32, 131072),
    ]


def test_the_longest_prompt_of_0_19_waits_for_blocks_it_never_holds() -> None:
    told = cache(GEMMA4, "0.19.1", RTX4090, 11.54 * GIB, tensor_parallel_size=2, max_model_len=131072)
    assert told.longest_request == 27_488  # PR 39866's issue: longer prompts wait for ever
    fixed = cache(GEMMA4, "0.20.0", RTX4090, 11.54 * GIB, tensor_parallel_size=2, max_model_len=131072)
    assert fixed.longest_request == 131_072


def test_admission_before_and_after_pr_39866() -> None:
    flags: dict[str, Any] = {"tensor_parallel_size": 2, "max_num_batched_tokens": 8192, "max_model_len": 131072}
    before = cache(GEMMA4, "0.19.1", H100, 40 * GIB, **flags)
    after = cache(GEMMA4, "0.21.0", H100, 40 * GIB, **flags)
    assert before.blocks_for(16_016)[:5] == (1001,) * 5
    assert after.blocks_for(16_016)[:5] == (577,) * 5
    assert before.blocks_for(16_016)[5] == after.blocks_for(16_016)[5] == 501


def test_qwen3_6_27b_with_mtp_and_fp8() -> None:
    told = cache(
        QWEN36, "0.19.1", RTX5090, 8e9, max_model_len=65536, kv_cache_dtype="fp8",
        speculative_config={"method": "mtp", "num_speculative_tokens": 3},
    )  # fmt: skip
    attention = told.groups[-1]
    assert (attention.kind, attention.layers, attention.block_size) == ("full", 17, 1600)
    assert attention.page_bytes == 3.125 * MIB
    assert {g.page_bytes for g in told.groups} == {attention.page_bytes}


def test_hybrid_manager_off_keeps_blocks_for_all_tokens() -> None:
    flags: dict[str, Any] = {
        "tensor_parallel_size": 2,
        "max_model_len": 131072,
        "disable_hybrid_kv_cache_manager": True,
    }
    told = cache(GEMMA4, "0.21.0", RTX4090, 11.54 * GIB, **flags)
    assert told.refusal is not None
    assert "(55.0 GiB KV cache is needed" in told.refusal.message
    assert "estimated maximum model length is 27488" in told.refusal.message
    later = cache(GEMMA4, "0.32.0", RTX4090, 11.54 * GIB, **flags)
    assert later.refusal is not None and "is 27472" in later.refusal.message


def test_the_null_block_is_held_back_since_0_29() -> None:
    exact = 40 * GIB  # Llama-3.1-70B's 131072 tokens at tp 1
    seventy = model((Attention("full", 64, 8, 128, 128),) * 80, "LlamaForCausalLM", 131072, 64, 8)
    assert cache(seventy, "0.28.0", H100, exact).refusal is None
    refused = cache(seventy, "0.29.0", H100, exact).refusal
    assert refused is not None and "(40.0 GiB KV cache is needed" in refused.message


def test_error_texts_per_release() -> None:
    texts = {}
    for version in ("0.12.0", "0.13.0", "0.14.0", "0.22.0"):
        refusal = cache(LLAMA, version, H100, GIB, max_model_len=32768).refusal
        assert refusal is not None and refusal.stage == "kv_cache_config"
        texts[version] = refusal.message
    assert "models's max seq len (32768), (4.00 GiB KV" in texts["0.12.0"]
    assert texts["0.12.0"].endswith("when initializing the engine.")
    assert texts["0.13.0"].endswith("for more details.")
    assert "(4.0 GiB KV" in texts["0.14.0"] and "is 8192. Try" in texts["0.14.0"]
    assert "model's max seq len" in texts["0.22.0"]
    none = cache(LLAMA, "0.32.0", H100, -5).refusal
    assert none is not None and none.message.startswith("No available memory for the cache blocks.")


def test_auto_fit() -> None:
    told = cache(LLAMA, "0.21.0", H100, GIB, max_model_len=-1)
    assert (told.max_model_len, told.refusal) == (8192, None)
    assert told.need_before_fit_bytes == 16 * GIB
    assert cache(LLAMA, "0.32.0", H100, GIB, max_model_len=-1).max_model_len == 8176
    nothing = cache(LLAMA, "0.21.0", H100, 1000, max_model_len=-1).refusal
    assert nothing is not None and nothing.message.startswith("Cannot auto-fit max_model_len")


def test_blocks_override() -> None:
    told = cache(LLAMA, "0.20.0", H100, GIB, max_model_len=8192, num_gpu_blocks_override=512)
    assert (told.num_blocks, told.refusal) == (512, None)
    short = cache(LLAMA, "0.21.0", H100, 64 * GIB, max_model_len=8208, num_gpu_blocks_override=512)
    assert short.refusal is not None  # checked since 0.20.1, however much memory there is
    assert cache(LLAMA, "0.19.1", H100, 64 * GIB, max_model_len=8208, num_gpu_blocks_override=512).refusal is None


def test_kv_cache_memory_bytes_takes_the_place_of_what_is_free() -> None:
    assert cache(LLAMA, "0.21.0", H100, 99 * GIB, max_model_len=8192, kv_cache_memory_bytes=GIB).num_blocks == 512


def test_pipeline_stages_take_the_smaller_share() -> None:
    r = settle(LLAMA, "0.21.0", H100, pipeline_parallel_size=2, max_model_len=8192)
    told = kv(r, [2 * GIB, GIB])
    assert [s[0].layers for s in told.stage_groups] == [16, 16]
    assert told.num_blocks == 1024
    uneven = model((Attention("full", 32, 8, 128, 128),) * 33, "LlamaForCausalLM", 131072, 32, 8)
    assert settle(uneven, "0.21.0", H100, pipeline_parallel_size=4).stages == ((0, 8), (8, 16), (16, 25), (25, 33))


@pytest.mark.parametrize(("version", "kind"), [("0.21.0", "AssertionError"), ("0.32.0", "ZeroDivisionError")])
def test_a_stage_without_layers(version: str, kind: str) -> None:
    refusal = cache(LLAMA, version, H100, 8 * GIB, pipeline_parallel_size=40).refusal
    assert refusal is not None and (refusal.stage, refusal.type) == ("kv_cache_config", kind)


def test_context_parallelism_shares_the_tokens() -> None:
    mla = Attention("mla", 128, 128, 192, 128, kv_lora_rank=512, qk_rope_head_dim=64, qk_nope_head_dim=128)
    deep = model((mla,) * 61, "DeepseekV3ForCausalLM", 163840, 128, 128)
    one = cache(deep, "0.21.0", H100, 10 * GIB, tensor_parallel_size=8)
    four = cache(deep, "0.21.0", H100, 10 * GIB, tensor_parallel_size=8, decode_context_parallel_size=4)
    assert four.max_concurrency == pytest.approx(4 * one.max_concurrency)
    assert four.logged_tokens == 4 * one.logged_tokens
    old = cache(deep, "0.19.1", H100, 10 * GIB, tensor_parallel_size=8, decode_context_parallel_size=4)
    assert old.logged_tokens == old.num_blocks * 16 * 4


def test_a_draft_model_adds_its_layers() -> None:
    """LLAMA with an EAGLE-3 head; as vLLM 0.21.0 groups gpt-oss with one: the draft's layer joins the full ones."""
    eagle = model((Attention("full", 32, 8, 128, 128),), "LlamaForCausalLMEagle3", 131072, 32, 8)
    flags = {"speculative_config": {"method": "eagle3", "model": "head", "num_speculative_tokens": 3}}
    deployment = Deployment(Engine("vllm", "0.21.0"), "test", flags, (H100,))
    plain, drafted = kv(resolve(LLAMA, deployment), 20 * GIB), kv(resolve(LLAMA, deployment, eagle), 20 * GIB)
    assert drafted.bytes_per_block * 32 == plain.bytes_per_block * 33
    assert resolve(LLAMA, deployment, eagle).attention == (("FLASH_ATTN", 33),)


@pytest.mark.parametrize(("version", "block"), [("0.21.0", 16), ("0.25.1", 32), ("0.32.0", 32)])
def test_layers_that_keep_an_unquantised_cache(version: str, block: int) -> None:
    r = settle(LLAMA, version, H100, kv_cache_dtype="fp8", kv_cache_dtype_skip_layers=["0", "1"])
    made = kv(r, 20 * GIB)
    assert r.block_size == block
    assert made.bytes_per_block == block * 2 * 8 * 128 * (30 + 2 * 2)


def test_layers_without_quantisation_have_a_kernel_of_their_own() -> None:
    r = settle(LLAMA, "0.21.0", H100, kv_cache_dtype="turboquant_4bit_nc")
    assert dict(r.attention) == {"FLASH_ATTN": 4, "TURBOQUANT": 28}


def test_layers_that_do_not_divide_are_padded() -> None:
    cache = plan(_uneven(12, 13), [10 * GIB])
    assert [g.layers for g in cache.groups] == [12, 13]
    old = plan(_uneven(12, 13, "0.11.0"), [10 * GIB])
    assert [g.layers for g in old.groups] == [12, 7, 6]
    # 16 to 12 layers: one group each since 0.18 (ratio 1.5), three before (ratio 1.25)
    assert len(plan(_uneven(12, 16), [10 * GIB]).groups) == 2
    assert len(plan(_uneven(12, 16, "0.17.1"), [10 * GIB]).groups) == 3


def _uneven(sliding: int, full: int, version: str = "0.21.0") -> KvInput:
    window = Spec(
        "sliding_window", 16, 4096, window=128, num_kv_heads=8, head_size=128, head_size_v=128, dtype="bfloat16"
    )
    whole = Spec("full", 16, 4096, num_kv_heads=8, head_size=128, head_size_v=128, dtype="bfloat16")
    layers = (Layers(window, (sliding,)), Layers(whole, (full,)))
    return KvInput(at(version).kv, layers, max_model_len=32768, max_num_batched_tokens=2048)


def test_pages_that_do_not_divide() -> None:
    small = Spec("full", 16, 3000, num_kv_heads=1, head_size=1500, dtype="uint8")
    large = Spec("sliding_window", 16, 4096, window=128, num_kv_heads=8, head_size=128, dtype="bfloat16")
    layers = (Layers(small, (2,), "a"), Layers(large, (2,), "b"))
    for version, fails in (("0.12.0", True), ("0.21.0", True), ("0.29.0", False)):
        told = plan(KvInput(at(version).kv, layers, 8192, 2048), [GIB])
        assert (told.refusal is not None) == fails
    padded = plan(KvInput(at("0.29.0").kv, layers, 8192, 2048), [GIB])
    assert {g.page_bytes for g in padded.groups} == {65536}


@given(
    memory=st.integers(0, 200 * GIB),
    more=st.integers(0, 10 * GIB),
    length=st.integers(1, 262144),
    version=st.sampled_from(["0.11.0", "0.14.1", "0.19.1", "0.21.0", "0.27.1", NEWEST]),
    which=st.sampled_from([GEMMA4, LLAMA, QWEN36]),
)
@settings(max_examples=150, deadline=None)
def test_more_memory_never_means_fewer_blocks(memory: int, more: int, length: int, version: str, which: Model) -> None:
    r = resolve(which, Deployment(Engine("vllm", version), "test", {"max_model_len": min(length, 131072)}, (H100,)))
    if r.refusal is not None:
        return
    first, second = kv(r, memory), kv(r, memory + more)
    assert second.num_blocks >= first.num_blocks
    assert second.logged_tokens >= first.logged_tokens
    if first.refusal is None:
        assert second.refusal is None
        assert second.longest_request >= first.longest_request
        assert first.num_blocks * first.bytes_per_block <= memory


@given(length=st.integers(1, 131072), shorter=st.integers(0, 131072), memory=st.integers(GIB, 60 * GIB))
@settings(max_examples=100, deadline=None)
def test_a_shorter_context_never_needs_more(length: int, shorter: int, memory: int) -> None:
    less = max(1, length - shorter)
    for which in (GEMMA4, LLAMA):
        long = cache(which, "0.21.0", H100, memory, max_model_len=length, max_num_batched_tokens=2048, max_num_seqs=8)
        short = cache(which, "0.21.0", H100, memory, max_model_len=less, max_num_batched_tokens=2048, max_num_seqs=8)
        assert short.need_bytes <= long.need_bytes
        assert not (long.refusal is None and short.refusal is not None)
