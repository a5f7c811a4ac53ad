"""Whole plans: the three cases that oomph was started for, the contract, nonsense, and what must always hold."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from msgspec.structs import replace

from oomph.answers.plan import parse, plan, run, with_gpus
from oomph.errors import CommandError, OomphError
from oomph.facts.vllm.facts import at
from oomph.facts.vllm.versions import NEWEST
from oomph.ir.deployment import Deployment
from oomph.ir.timeline import STAGES
from oomph.units import GIB

GEMMA_NVFP4 = (
    "vllm serve --model nvidia/Gemma-4-31B-IT-NVFP4 --max_num_batched_tokens 1024 --language-model-only "
    "--max_num_seqs 1 --max-model-len 1024 --kv-cache-dtype fp8 --gpu-memory-utilization 0.9 --tensor_parallel_size 2"
)
GEMMA_INT4 = (
    "vllm serve cyankiwi/gemma-4-31B-it-AWQ-4bit --tensor-parallel-size 2 --max-num-seqs 1 "
    "--gpu-memory-utilization 0.96 --max-model-len 131072 --enable-prefix-caching --async-scheduling "
    '--limit-mm-per-prompt \'{"image": 0, "audio": 0, "video": 0}\''
)
QWEN_MTP = (
    "vllm serve cyankiwi/Qwen3.6-27B-AWQ-INT4 --gpu-memory-utilization 0.8 --enable-prefix-caching "
    "--language-model-only --max-model-len 16384 --kv-cache-dtype fp8 "
    '--speculative-config \'{"method": "mtp", "num_speculative_tokens": 2}\''
)


def test_gemma_nvfp4_dies_in_the_weights_near_the_last_layers() -> None:
    made = plan(GEMMA_NVFP4, gpu="2x RTX 5070 Ti used 0.86GiB", engine="vllm==0.21.0")
    assert (made.verdict.fits, made.verdict.stage) == (False, "weights_load")
    weights = made.ranks[0].terms["weights"]
    parameters = made.ranks[0].created_bytes - weights.parts["buffers"]
    assert parameters / GIB == pytest.approx(14.76, abs=0.005)
    note = next(s.note for s in made.ranks[0].stages if s.name == "weights_load")
    layer = int(note.split("layer ")[1].split(" ")[0])
    assert 53 <= layer <= 60
    assert made.verdict.message.startswith("Failed to load model - not enough GPU memory.")


def test_gemma_int4_prints_what_the_issue_printed() -> None:
    old = plan(GEMMA_INT4, gpu="2x RTX 3090", engine="vllm==0.19.1", given={"available_kv": "11.54GiB"})
    assert old.kv is not None
    assert (old.kv.num_blocks, old.kv.logged_tokens, round(old.kv.max_concurrency, 2)) == (9453, 25200, 1.87)
    new = plan(GEMMA_INT4, gpu="2x RTX 3090", engine="vllm==0.21.0", given={"available_kv": "11.54GiB"})
    assert new.kv is not None and new.kv.logged_tokens == 244817


def test_gemma_int4_without_the_log() -> None:
    made = plan(GEMMA_INT4, gpu="2x RTX 3090", engine="vllm==0.19.1", compile_cache="warm")
    assert made.fits
    assert made.ranks[0].terms["weights"].bytes / GIB == pytest.approx(10.46, rel=0.08)
    assert made.ranks[0].terms["available_kv"].low <= 11.54 * GIB * 1.1


def test_qwen_mtp_dies_in_the_throw_away_cache() -> None:
    made = plan(QWEN_MTP, gpu="RTX 5090", engine="vllm==0.19.1")
    assert (made.verdict.fits, made.verdict.stage) == (False, "cudagraph_profile")
    assert made.kv is not None
    assert {(g.block_size, g.page_bytes) for g in made.kv.groups} == {(1600, 3276800)}
    note = next(s.note for s in made.ranks[0].stages if s.name == "cudagraph_profile")
    assert note.startswith("512 throw-away KV blocks of 53.125 MiB")  # 17 tensors of 3.125 MiB pages


def test_contract() -> None:
    made = plan("vllm serve meta-llama/Llama-3.1-8B-Instruct", gpu="H100", engine="vllm==0.21.0").to_dict()
    assert json.loads(json.dumps(made)) == made
    assert made["schema"] == 1 and made["engine"]["name"] == "vllm"
    assert set(made["verdict"]) >= {"fits", "stage", "short_bytes", "message"}
    rank = made["ranks"][0]
    assert set(rank["terms"]) >= {
        "weights", "load_peak", "context", "activation_peak", "non_torch", "cudagraph", "available_kv",
    }  # fmt: skip
    for term in rank["terms"].values():
        assert term["low"] <= term["bytes"] <= term["high"]
        assert isinstance(term["bytes"], int)
    assert {s["name"] for s in rank["stages"]} <= set(STAGES)
    assert set(made["kv"]) >= {
        "available_bytes", "num_blocks", "bytes_per_block", "block_size", "logged_tokens", "max_concurrency", "groups",
    }  # fmt: skip
    assert set(made["resolved"]) >= {
        "max_model_len",
        "max_num_batched_tokens",
        "max_num_seqs",
        "cudagraph_capture_sizes",
    }


@pytest.mark.parametrize(
    ("command", "gpu", "words"),
    [
        ("vllm serve meta-llama/Llama-3.1-8B-Instruct -tp 3", "3x H100", "32"),
        ("vllm serve meta-llama/Llama-3.1-8B-Instruct --max-model-len 999999", "H100", "max_model_len"),
        ("vllm serve meta-llama/Llama-3.1-8B-Instruct -tp 4", "2x H100", "World size (4)"),
        ("vllm serve cyankiwi/gemma-4-31B-it-AWQ-4bit --kv-cache-dtype fp8_e4m3", "2x RTX 3090", ""),
    ],
)
def test_nonsense_gets_the_engines_verdict(command: str, gpu: str, words: str) -> None:
    made = plan(command, gpu=gpu, engine="vllm==0.21.0")
    assert not made.fits and made.verdict.message
    assert words in made.verdict.message


@pytest.mark.parametrize(
    "flags", ["--gpu-memory-utilization 1.5", "--max-model-len nine", "--kv-cache-dtype int3", "--swap-space 4"]
)
def test_nonsense_values_are_one_sentence(flags: str) -> None:
    with pytest.raises(OomphError) as refused:
        made = plan(f"vllm serve meta-llama/Llama-3.1-8B-Instruct {flags}", gpu="H100", engine="vllm==0.21.0")
        raise OomphError(made.verdict.message)
    assert "\n" not in str(refused.value)


MODELS = st.sampled_from([
    "meta-llama/Llama-3.1-8B-Instruct", "google/gemma-3-27b-it", "openai/gpt-oss-20b", "Qwen/Qwen3-30B-A3B",
    "deepseek-ai/DeepSeek-V2-Lite", "Qwen/Qwen3.6-27B", "nvidia/NVIDIA-Nemotron-Nano-9B-v2",
])  # fmt: skip
GPUS = st.sampled_from(["RTX 4090", "H100", "H200", "L40S", "RTX 5090", "A100-SXM4-80GB"])
VERSIONS = st.sampled_from(["0.12.0", "0.19.1", "0.21.0", "0.25.1", NEWEST])
FLAGS = st.fixed_dictionaries({}, optional={
    "max_model_len": st.sampled_from([2048, 8192, 40960]),
    "max_num_seqs": st.integers(1, 512),
    "max_num_batched_tokens": st.sampled_from([2048, 8192, 16384]),
    "gpu_memory_utilization": st.sampled_from([0.3, 0.8, 0.9, 0.95]),
    "enforce_eager": st.just(True),
    "language_model_only": st.just(True),
})  # fmt: skip


def deployment(model: str, gpu: str, version: str, flags: dict[str, Any]) -> Deployment:
    base = with_gpus(parse(["vllm", "serve", model], f"vllm=={version}"), gpu)
    if version == "0.12.0":
        flags = {k: v for k, v in flags.items() if k != "language_model_only"}
    return replace(base, flags={**base.flags, **flags})


@settings(max_examples=60, deadline=None)
@given(MODELS, GPUS, VERSIONS, FLAGS)
def test_the_ledger_adds_up_and_stages_are_ordered(model: str, gpu: str, version: str, flags: dict[str, Any]) -> None:
    made = run(deployment(model, gpu, version, flags))
    for rank in made.ranks:
        weights = rank.terms["weights"]
        assert sum(weights.parts.values()) == weights.bytes
        peak = rank.terms["activation_peak"]
        assert sum(peak.parts.values()) == peak.bytes
        order = [STAGES.index(s.name) for s in rank.stages]
        captures_last = made.resolved["model_runner"] == "v2" and at(version).after_start.v2_captures_last
        last_two = (STAGES.index("sampler_warmup"), STAGES.index("cudagraph_capture"))
        if captures_last and set(last_two) <= set(order):  # the V2 runner warms up before it captures
            begin = order.index(last_two[0])
            assert tuple(order[begin : begin + 2]) == last_two
            order[begin : begin + 2] = reversed(last_two)
        assert order == sorted(order)
        assert all(s.resident_bytes <= s.peak_bytes for s in rank.stages)


@settings(max_examples=40, deadline=None)
@given(MODELS, GPUS, VERSIONS, FLAGS, st.integers(1, 8 * GIB))
def test_more_memory_never_breaks_a_fitting_plan(
    model: str, gpu: str, version: str, flags: dict[str, Any], used: int
) -> None:
    free = deployment(model, gpu, version, flags)
    taken = replace(free, gpus=tuple(replace(g, used_bytes=min(used, g.total_bytes)) for g in free.gpus))
    if run(taken).fits:
        assert run(free).fits


@settings(max_examples=40, deadline=None)
@given(MODELS, GPUS, VERSIONS, FLAGS, st.sampled_from(["max_model_len", "max_num_seqs"]))
def test_asking_for_less_never_breaks_a_fitting_plan(
    model: str, gpu: str, version: str, flags: dict[str, Any], what: str
) -> None:
    made = run(deployment(model, gpu, version, flags))
    if made.fits:
        less = {**flags, what: max(1, made.resolved[what] // 2)}
        if what == "max_num_seqs":  # the default batch follows it in some releases: hold it
            less["max_num_batched_tokens"] = made.resolved["max_num_batched_tokens"]
        assert run(deployment(model, gpu, version, less)).fits


@settings(max_examples=40, deadline=None)
@given(MODELS, VERSIONS, st.integers(1 * GIB, 60 * GIB), st.integers(0, 20 * GIB))
def test_tokens_never_fall_when_kv_memory_grows(model: str, version: str, kv: int, more: int) -> None:
    base = deployment(model, "H200", version, {"max_model_len": 2048})
    small, large = (run(replace(base, given={"available_kv": n})) for n in (kv, kv + more))
    if small.fits and small.kv and large.kv:
        assert large.fits
        assert large.kv.logged_tokens >= small.kv.logged_tokens
        assert large.kv.num_blocks >= small.kv.num_blocks


@settings(max_examples=30, deadline=None)
@given(MODELS, st.sampled_from([1, 2, 4]), VERSIONS)
def test_ranks_together_hold_the_checkpoint(model: str, tp: int, version: str) -> None:
    """At least what one rank alone would create; at most that plus what is replicated."""
    alone = run(deployment(model, "8x H200", version, {"max_model_len": 2048}))
    split = run(deployment(model, "8x H200", version, {"max_model_len": 2048, "tensor_parallel_size": tp}))
    if alone.ranks and split.ranks:
        whole = alone.ranks[0].created_bytes
        together = sum(r.created_bytes for r in split.ranks)
        assert whole * 0.999 <= together <= whole * 1.25 * tp


def test_a_draft_model_has_a_kv_cache_too() -> None:
    spec = '{"model": "Qwen/Qwen3-0.6B", "num_speculative_tokens": 3}'
    made = plan(["vllm", "serve", "Qwen/Qwen3-8B", "--speculative-config", spec], gpu="H100", engine="vllm==0.21.0")
    assert made.kv is not None and sum(g.layers for g in made.kv.groups) == 36 + 28


def test_the_tightest_replica_is_planned() -> None:
    made = plan("vllm serve Qwen/Qwen3-8B -dp 2 --max-model-len 8192", gpu="RTX 4090, RTX 5070 Ti")
    assert made.ranks[0].gpu == "RTX 5070 Ti" and not made.fits


def test_a_bare_assertion_is_said_in_words() -> None:
    made = plan("vllm serve microsoft/phi-4 -tp 8", gpu="8x H100")
    assert made.verdict.message == "AssertionError" and "10 KV heads" in made.warnings[-1]


def test_a_saving_that_the_engine_gives_to_the_cache_is_explained() -> None:
    gpu = {"name": "RTX 3090", "total_bytes": 19 << 30, "used_bytes": 0}
    flags = "--enforce-eager --gpu-memory-utilization 0.985 --max-model-len 1024 --language-model-only"
    made = plan(f"vllm serve Qwen/Qwen3-VL-4B-Instruct {flags}", gpu=gpu, engine="vllm==0.24.0")
    assert made.verdict.stage == "sampler_warmup"
    assert any("the KV cache takes all" in w for w in made.warnings)


def test_turing_has_no_bfloat16() -> None:
    made = plan("vllm serve Qwen/Qwen3-0.6B --dtype bfloat16", gpu="T4", engine="vllm==0.21.0")
    assert made.verdict.stage == "other"
    assert "Your Tesla T4 GPU has compute capability 7.5" in made.verdict.message
    assert plan("vllm serve Qwen/Qwen3-0.6B", gpu="T4", engine="vllm==0.21.0").resolved["dtype"] == "float16"


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--compilation-config", '{"cudagraph_capture_sizes": ["a"]}'], "cudagraph_capture_sizes.0"),
        (["--compilation-config", '{"cudagraph_capture_sizes": 5}'], "valid list"),
        (["--compilation-config", '{"max_cudagraph_capture_size": "x"}'], "valid integer"),
        (["-tp", "1000000000"], "World size (1000000000)"),
    ],
)
def test_nonsense_is_refused_in_words(flags: list[str], said: str) -> None:
    made = plan(["vllm", "serve", "Qwen/Qwen3-8B", *flags], gpu="H100")
    assert made.verdict.stage == "other" and said in made.verdict.message


@pytest.mark.parametrize("limits", ['{"image": ["a"]}', '{"image": "auto"}', '{"image": {"count": 0}}'])
def test_limits_of_any_form_are_planned(limits: str) -> None:
    made = plan(["vllm", "serve", "Qwen/Qwen3-VL-4B-Instruct", "--limit-mm-per-prompt", limits], gpu="H100")
    assert made.ranks


def test_given_is_a_number_of_bytes() -> None:
    for value in (-1, True):
        with pytest.raises(CommandError, match="not a number of bytes"):
            plan("vllm serve Qwen/Qwen3-8B", gpu="H100", given={"available_kv": value})
