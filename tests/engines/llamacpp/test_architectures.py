# ruff: noqa: E501 - a row is a line
"""Every architecture against the real llama.cpp: weights, KV cache, state and output buffers to the printed 0.01 MiB."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from grown import Seed, grow
from native import Native
from test_native import MIB, config, foreseen, native, printed

from oomph.engines.llamacpp.cache import refusal
from oomph.engines.llamacpp.measure import HOST, measure, subject
from oomph.engines.llamacpp.settings import resolve
from oomph.facts.llamacpp.backends import RPC
from oomph.facts.llamacpp.flags import EXPERTS
from oomph.sources.gguf.header import read
from oomph.sources.gguf.model import gguf_model

__all__ = ["native"]

WINDOW = "attention.sliding_window"
MOE = {"expert_count": 4, "expert_used_count": 2, "expert_feed_forward_length": 128}
SIGMOID = {**MOE, "expert_gating_func": 2}
SSM = {"ssm.conv_kernel": 4, "ssm.inner_size": 512, "ssm.state_size": 16, "ssm.time_step_rank": 8, "ssm.group_count": 2}
DELTA = {
    "ssm.conv_kernel": 4,
    "ssm.inner_size": 512,
    "ssm.state_size": 32,
    "ssm.time_step_rank": 16,
    "ssm.group_count": 4,
}
MLA = {
    "attention.head_count_kv": 1, "attention.key_length": 160, "attention.value_length": 128,
    "attention.key_length_mla": 64, "attention.value_length_mla": 32, "attention.kv_lora_rank": 128,
    "attention.q_lora_rank": 64,
}  # fmt: skip
GEMMA4 = {
    "block_count": 6, WINDOW: 512, "attention.sliding_window_pattern": [True, True, True, False, True, False],
    "attention.key_length": 64, "attention.value_length": 64, "attention.key_length_swa": 32,
    "attention.value_length_swa": 32, "rope.dimension_count": 64, "rope.dimension_count_swa": 32,
}  # fmt: skip
SOME = {"attention.head_count_kv": [0, 2, 0, 2]}
CONV: tuple[Seed, ...] = (("blk.{i}.ssm_conv1d.bias", (576,), (0, 2)),)
QKV: tuple[Seed, ...] = (
    ("blk.{i}.attn_qkv.weight", (256, 768), (0, 1, 2)),
    ("blk.{i}.attn_gate.weight", (256, 512), (0, 1, 2)),
)
NORMS: tuple[Seed, ...] = (("blk.{i}.attn_q_norm.weight", (32,), ()), ("blk.{i}.attn_k_norm.weight", (32,), ()))

# architecture, or architecture and what is special: what is unusual in the metadata, tensors that are not asked for
ARCHITECTURES: dict[str, tuple[dict[str, Any], tuple[Seed, ...]]] = {
    "llama": ({}, ()), "llama moe": (MOE, (("blk.{i}.ffn_gate_exps.weight", (256, 128, 4), ()),)),
    "llama4": ({**MOE, WINDOW: 512}, ()), "llama4 unwindowed": ({**MOE, WINDOW: 0}, ()), "deci": ({}, ()), "falcon": ({}, ()),
    "grok": (MOE, ()), "qwen2": ({}, ()), "qwen2moe": (MOE, ()), "qwen3vl": ({"n_deepstack_layers": 0}, ()),
    "qwen3next": ({**MOE, **DELTA}, QKV), "qwen35": (DELTA, QKV), "qwen35moe": ({**MOE, **DELTA}, QKV),
    "phi3": ({WINDOW: 512}, (("blk.{i}.attn_qkv.weight", (256, 384), ()),)), "phimoe": (MOE, ()),
    "plamo2": ({**SSM, **SOME, "ssm.group_count": 0}, ()), "plamo3": ({WINDOW: 512, "block_count": 9}, ()),
    "minicpm": ({}, ()), "minicpm3": ({"attention.key_length": 64, "attention.head_count_kv": 8}, ()), "gemma2": ({WINDOW: 512}, ()),
    "gemma3 every third": ({WINDOW: 256, "attention.sliding_window_pattern": 3}, ()), "gemma3n": ({WINDOW: 512, "block_count": 22}, ()),
    "gemma4": (GEMMA4 | {"attention.shared_kv_layers": 2, "embedding_length_per_layer_input": 64}, ()),
    "gemma4 moe": (GEMMA4 | MOE | {"embedding_length_per_layer_input": 0, "attention.head_count_kv": [2, 2, 2, 1, 2, 1]}, ()),
    "gemma-embedding": ({WINDOW: 512}, ()), "mamba2": ({**SSM, "attention.head_count": 0, "feed_forward_length": 0}, ()),
    "jamba": ({**SSM, **MOE, **SOME}, ()), "falcon-h1": (SSM, (("blk.{i}.ssm_conv1d.bias", (576,), ()),)),
    "cohere2": ({WINDOW: 512}, ()), "cohere2moe": ({**MOE, WINDOW: 512}, ()), "olmo2": ({WINDOW: 512}, ()),
    "openelm": ({"attention.head_count": [8, 8, 4, 4], "attention.head_count_kv": [2, 2, 1, 4], "feed_forward_length": [512, 512, 640, 768]}, ()),
    "deepseek2": ({**MOE, **MLA}, ()), "glm4": ({}, ()), "bitnet": ({}, ()), "nemotron": ({}, ()),
    "nemotron_h": ({**SSM, "attention.head_count_kv": [0, 2, 0, 0], "feed_forward_length": [0, 0, 768, 0]}, (("blk.{i}.ssm_conv1d.bias", (576,), (0, 3)),)),
    "exaone4": ({WINDOW: 512}, ()), "exaone-moe": ({**MOE, WINDOW: 128}, ()), "granitehybrid": ({**SSM, **SOME}, CONV),
    "afmoe": ({**MOE, WINDOW: 512}, ()), "laguna": ({**MOE, WINDOW: 512}, (("blk.{i}.attn_gate.weight", (256, 8), ()),)),
    "ernie4_5-moe": (MOE, ()), "hunyuan-moe": (MOE, ()), "smollm3": ({}, ()), "gpt-oss": ({**MOE, WINDOW: 128}, ()),
    "lfm2": ({**SOME, "shortconv.l_cache": 3}, ()), "smallthinker": ({**SIGMOID, WINDOW: 512}, ()), "dream": ({}, ()),
    "minimax-m2": (SIGMOID, ()), "mistral3": ({}, ()), "mellum": ({**MOE, WINDOW: 512}, ()), "modern-bert": ({WINDOW: 512}, ()),
    "mimo2": ({**SIGMOID, WINDOW: 128, "attention.sliding_window_pattern": [True, False, True, True]}, ()),
    "kimi-linear": ({**MOE, **MLA, "ssm.conv_kernel": 4, "kda.head_dim": 32, "attention.head_count_kv": [0, 0, 1, 0]}, ()),
}  # fmt: skip


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_buffers(native: Native, tmp_path: Path, name: str) -> None:
    numbers, seeds = ARCHITECTURES[name]
    _compare(native, grow(native, tmp_path / "x.gguf", name.partition(" ")[0], numbers, seeds), name)


# the trunk, and then a layer of multi-token prediction behind it, which is loaded for draft-mtp only
PREDICTING: dict[str, tuple[dict[str, Any], tuple[Seed, ...]]] = {
    "glm4moe": ({**SIGMOID, "expert_shared_count": 1}, (*NORMS, ("blk.{i}.exp_probs_b.bias", (4,), (1, 2, 3)), ("output.weight", (256, 512), (0,)))),
    "qwen35": (DELTA, (*QKV, ("output.weight", (256, 512), (0,)))),
    "deepseek2": ({**MOE, **MLA}, (("output.weight", (256, 512), (0,)),)),
}  # fmt: skip


@pytest.mark.parametrize("arch", PREDICTING)
@pytest.mark.parametrize("load", (False, True))
def test_layers_of_multi_token_prediction(native: Native, tmp_path: Path, arch: str, load: bool) -> None:
    numbers, seeds = PREDICTING[arch]
    trunk = read(grow(native, tmp_path / "trunk.gguf", arch, numbers, seeds))
    known: tuple[Seed, ...] = tuple((t.name, t.shape, (0,)) for t in trunk.tensors)
    head: Seed = ("blk.4.nextn.eh_proj.weight", (512, 256), (0,))
    more = {**numbers, "block_count": 5, "nextn_predict_layers": 1}
    path = grow(native, tmp_path / "x.gguf", arch, more, (*known, head))
    _compare(native, path, arch, load_mtp=load)


def _compare(native: Native, path: Path, name: str, *, load_mtp: bool = False) -> None:
    model = gguf_model(name, read(path))
    dice, compared, wrong = random.Random(name), 0, []
    mixers = [m for layer in model.layers for m in layer.mixers]
    for _ in range(8):
        flags, told, gpus = config("mla" if any(m.kind == "mla" for m in mixers) else name, dice)
        if load_mtp:  # llama-server asks for a state to go back to for each token of a draft, 3 unless told
            length = dice.choice((None, 1, 5))
            flags |= {"spec_type": "draft-mtp"} | ({"draft_max": length} if length else {})
            told |= {"load_mtp": True, "n_rs_seq": length or 3}
        s = resolve(flags, model.max_position, flash=bool(model.param("flash_attention", 1)))
        answer, no = native.ask(path=str(path), **told), refusal(model.layers, s)
        if answer["error"] or no:
            text = "".join(answer["lines"])
            if no is None or (no.message.partition(": ")[2] or no.message) not in text:
                wrong.append(f"{told}: llama.cpp {answer['error']!r} {text[-200:]}, oomph {no}")
            continue
        real, ours = printed(native, answer), foreseen(model, s, gpus)
        compared += 1
        for key in {k for k in (*real, *ours) if k[0] != "compute"}:
            if abs(real.get(key, 0.0) - ours.get(key, 0.0)) > 0.0251:
                wrong.append(f"{told} {key}: llama.cpp {real.get(key)}, oomph {ours.get(key)}")
    assert not wrong and compared, wrong[:3]


def _shape(e: int, heads: int, kv: Any, head: int, ff: int, vocab: int, **more: Any) -> dict[str, Any]:
    return {
        "embedding_length": e, "attention.head_count": heads, "attention.head_count_kv": kv, "attention.key_length": head,
        "attention.value_length": head, "rope.dimension_count": head, "feed_forward_length": ff, "vocab_size": vocab,
        "context_length": 131072, **more,
    }  # fmt: skip


def _experts(count: int, used: int, ff: int) -> dict[str, int]:
    return {"expert_count": count, "expert_used_count": used, "expert_feed_forward_length": ff}


def _delta(inner: int, heads: int) -> dict[str, Any]:
    return {"ssm.conv_kernel": 4, "ssm.inner_size": inner, "ssm.state_size": 128, "ssm.time_step_rank": heads,
            "ssm.group_count": 16, "rope.dimension_count": 64}  # fmt: skip


SHAPES: dict[str, tuple[str, dict[str, Any], tuple[Seed, ...]]] = {
    "Phi-4": ("phi3", _shape(5120, 40, 10, 128, 17920, 100352), (("blk.{i}.attn_qkv.weight", (5120, 7680), ()),)),
    "Nemotron-4B": ("nemotron", _shape(3072, 24, 8, 128, 9216, 256000), ()),
    "OLMoE": ("olmoe", _shape(2048, 16, 16, 128, 1024, 50304) | _experts(64, 8, 1024), ()),
    "Qwen3-30B-A3B": ("qwen3moe", _shape(2048, 32, 4, 128, 6144, 151936) | _experts(128, 8, 768), ()),
    "GLM-4.5-Air": ("glm4moe", _shape(4096, 96, 8, 128, 10944, 151552, expert_gating_func=2) | _experts(128, 8, 1408),
                    (("blk.{i}.exp_probs_b.bias", (128,), (1, 2, 3)), ("output.weight", (4096, 151552), (0,)))),
    "DeepSeek-V3": ("deepseek2", _shape(7168, 128, 1, 576, 18432, 129280) | _experts(256, 8, 2048) | {
        "attention.value_length": 512, "attention.key_length_mla": 192, "attention.value_length_mla": 128,
        "attention.kv_lora_rank": 512, "attention.q_lora_rank": 1536, "rope.dimension_count": 64}, ()),
    "gpt-oss-20b": ("gpt-oss", _shape(2880, 64, 8, 64, 2880, 201088) | _experts(32, 4, 2880) | {WINDOW: 128}, ()),
    "Llama-4-Scout": ("llama4", _shape(5120, 40, 8, 128, 16384, 202048) | _experts(16, 1, 8192), ()),
    "Gemma-4-E4B": ("gemma4", _shape(2560, 8, 2, 512, 10240, 262144) | {
        "block_count": 12, WINDOW: 512, "attention.sliding_window_pattern": ([True] * 5 + [False]) * 2,
        "attention.shared_kv_layers": 6, "attention.key_length_swa": 256, "attention.value_length_swa": 256,
        "rope.dimension_count_swa": 256, "embedding_length_per_layer_input": 256}, ()),
    "Qwen3.5-27B": ("qwen35", _shape(5120, 24, 4, 256, 17408, 248320) | _delta(6144, 48),
                    (("blk.{i}.attn_qkv.weight", (5120, 10240), (0, 1, 2)), ("blk.{i}.attn_gate.weight", (5120, 6144), (0, 1, 2)))),
    "Qwen3.5-35B-A3B": ("qwen35moe", _shape(2048, 16, 2, 256, 512, 248320) | _experts(256, 8, 512) | _delta(4096, 32),
                        (("blk.{i}.attn_qkv.weight", (2048, 8192), (0, 1, 2)), ("blk.{i}.attn_gate.weight", (2048, 4096), (0, 1, 2)))),
    "Mamba2-2.7B": ("mamba2", {"embedding_length": 2560, "vocab_size": 50288, "attention.head_count": 0, "feed_forward_length": 0,
                               "ssm.conv_kernel": 4, "ssm.inner_size": 5120, "ssm.state_size": 128, "ssm.time_step_rank": 80,
                               "ssm.group_count": 1}, ()),
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
def test_compute_with_flash_attention(native: Native, tmp_path: Path, name: str) -> None:
    """All layers on one GPU, by the shapes of real models: to 1 MiB."""
    arch, numbers, seeds = SHAPES[name]
    path = grow(native, tmp_path / "x.gguf", arch, numbers, seeds)
    x = subject(gguf_model(name, read(path)))
    for ctx, ubatch, parallel in ((4096, 512, 1), (32768, 512, 4), (16384, 2048, 1)):
        flags = {"ctx_size": ctx, "ubatch_size": ubatch, "parallel": parallel, "kv_unified": True, "n_gpu_layers": 99}
        answer = native.ask(
            path=str(path), gpus=1, ngl=99, n_ctx=ctx, n_ubatch=ubatch, n_seq_max=parallel, kv_unified=True,
            flash_attn="on", n_outputs_max=parallel, no_alloc=True,
        )  # fmt: skip
        real = printed(native, answer)
        m = measure(x, resolve(flags, 131072), [1], backend=RPC, fitting=True)
        assert m.devices[0].compute.nbytes / MIB == pytest.approx(real["compute", 0], abs=1), flags
        assert m.host.compute.nbytes / MIB == pytest.approx(real["compute", HOST], abs=1), flags


@pytest.mark.parametrize("name", ("Qwen3-30B-A3B", "GLM-4.5-Air", "gpt-oss-20b", "DeepSeek-V3"))
def test_compute_with_experts_on_the_cpu(native: Native, tmp_path: Path, name: str) -> None:
    arch, numbers, seeds = SHAPES[name]
    path = grow(native, tmp_path / "x.gguf", arch, {**numbers, "block_count": 5}, seeds)
    x = subject(gguf_model(name, read(path)))
    for layers in (range(2), range(5)):
        patterns = [rf"blk\.{i}{EXPERTS}" for i in layers]
        flags = {"ctx_size": 8192, "parallel": 1, "n_gpu_layers": 99, "override_tensor": [(p, "CPU") for p in patterns]}
        answer = native.ask(
            path=str(path), gpus=1, ngl=99, n_ctx=8192, n_seq_max=1, flash_attn="on", n_outputs_max=1, no_alloc=True,
            cpu_patterns=patterns,
        )  # fmt: skip
        real = printed(native, answer)
        m = measure(x, resolve(flags, 131072), [1], backend=RPC, fitting=True)
        assert m.devices[0].compute.nbytes / MIB == pytest.approx(real["compute", 0], abs=1), layers
        assert m.host.compute.nbytes / MIB == pytest.approx(real["compute", HOST], abs=1), layers
