"""Small GGUF files of each kind of model: a true header, and zeros where the weights would be."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

from oomph.facts.dtypes import BLOCKS, GGML

IDS = {name: number for number, name in GGML.items()}
Tensors = list[tuple[str, tuple[int, ...], str]]


def _string(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def _value(value: Any) -> bytes:
    if isinstance(value, bool):
        return struct.pack("<IB", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + _string(value)
    first = value[0]
    if isinstance(first, str):
        return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(_string(v) for v in value)
    kind, form = (7, "B") if isinstance(first, bool) else (6, "f") if isinstance(first, float) else (5, "i")
    return struct.pack(f"<IIQ{len(value)}{form}", 9, kind, len(value), *value)


def write(path: Path, metadata: dict[str, Any], tensors: Tensors) -> None:
    """Header, then a hole of the weights' size."""
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(metadata))
    head += b"".join(_string(k) + _value(v) for k, v in metadata.items())
    offset = 0
    for name, shape, dtype in tensors:
        block, size = BLOCKS[dtype]
        count = 1
        for dim in shape:
            count *= dim
        head += _string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, IDS[dtype], offset)
        offset += -(-(count // block * size) // 32) * 32
    head += b"\0" * (-len(head) % 32)
    with open(path, "wb") as file:
        file.write(head)
        file.truncate(len(head) + offset)


def vocabulary(arch: str, size: int) -> dict[str, Any]:
    """Its size without its words: reading 262,144 of them takes llama.cpp longer than everything else."""
    return {"tokenizer.ggml.model": "none", f"{arch}.vocab_size": size}


class Shape:
    """The numbers that make a toy, or a real model's shape."""

    def __init__(self, **numbers: Any) -> None:
        base = {"layers": 5, "embd": 256, "heads": 8, "kv": 2, "head": 32, "ff": 768, "vocab": 512, "tied": False}
        self.n: dict[str, Any] = {**base, "weights": "Q8_0", "context": 4096, **numbers}

    def __getattr__(self, name: str) -> Any:
        return self.__dict__["n"].get(name, 0)


def dense(s: Shape, arch: str) -> tuple[dict[str, Any], Tensors]:
    w, e = s.weights, s.embd
    meta: dict[str, Any] = {
        "general.architecture": arch,
        f"{arch}.block_count": s.layers,
        f"{arch}.context_length": s.context,
        f"{arch}.embedding_length": e,
        f"{arch}.feed_forward_length": s.ff,
        f"{arch}.attention.head_count": s.heads,
        f"{arch}.attention.head_count_kv": s.kv,
        f"{arch}.attention.key_length": s.head,
        f"{arch}.attention.value_length": s.head,
        f"{arch}.attention.layer_norm_rms_epsilon": 1e-5,
        f"{arch}.rope.dimension_count": s.head,
    }
    if s.window:
        meta[f"{arch}.attention.sliding_window"] = s.window
    tensors: Tensors = [("token_embd.weight", (e, s.vocab), w), ("output_norm.weight", (e,), "F32")]
    if not s.tied:
        tensors.append(("output.weight", (e, s.vocab), w))
    norms = ["attn_norm", "ffn_norm"]
    if arch == "gemma3":
        norms += ["post_attention_norm", "post_ffw_norm"]
    for i in range(s.layers):
        b = f"blk.{i}."
        tensors += [(f"{b}{n}.weight", (e,), "F32") for n in norms]
        if arch in ("qwen3", "qwen3moe", "gemma3"):
            tensors += [(f"{b}attn_{x}_norm.weight", (s.head,), "F32") for x in "qk"]
        tensors += [
            (f"{b}attn_q.weight", (e, s.heads * s.head), w),
            (f"{b}attn_k.weight", (e, s.kv * s.head), w),
            (f"{b}attn_v.weight", (e, s.kv * s.head), w),
            (f"{b}attn_output.weight", (s.heads * s.head, e), w),
        ]
        tensors += experts(s, b) if s.experts else ffn(s, b)
    if s.experts:
        meta |= {
            f"{arch}.expert_count": s.experts,
            f"{arch}.expert_used_count": s.used,
            f"{arch}.expert_feed_forward_length": s.expert_ff,
        }
    return meta, tensors


def ffn(s: Shape, b: str) -> Tensors:
    up = (s.embd, s.ff)
    return [
        (f"{b}ffn_gate.weight", up, s.weights),
        (f"{b}ffn_up.weight", up, s.weights),
        (f"{b}ffn_down.weight", (s.ff, s.embd), s.weights),
    ]


def experts(s: Shape, b: str) -> Tensors:
    up = (s.embd, s.expert_ff, s.experts)
    return [
        (f"{b}ffn_gate_inp.weight", (s.embd, s.experts), "F32"),
        (f"{b}ffn_gate_exps.weight", up, s.weights),
        (f"{b}ffn_up_exps.weight", up, s.weights),
        (f"{b}ffn_down_exps.weight", (s.expert_ff, s.embd, s.experts), s.weights),
    ]


def mla(s: Shape) -> tuple[dict[str, Any], Tensors]:
    """DeepSeek-V2's latent attention with the absorbed projections (kv_b split in two)."""
    arch, w, e, rank, rope, nope, value = "deepseek2", s.weights, s.embd, 128, 32, 32, 32
    meta = {
        "general.architecture": arch,
        f"{arch}.block_count": s.layers,
        f"{arch}.context_length": s.context,
        f"{arch}.embedding_length": e,
        f"{arch}.feed_forward_length": s.ff,
        f"{arch}.attention.head_count": s.heads,
        f"{arch}.attention.head_count_kv": 1,
        f"{arch}.attention.key_length": rank + rope,
        f"{arch}.attention.value_length": rank,
        f"{arch}.attention.key_length_mla": nope + rope,
        f"{arch}.attention.value_length_mla": value,
        f"{arch}.attention.kv_lora_rank": rank,
        f"{arch}.attention.q_lora_rank": 64,
        f"{arch}.attention.layer_norm_rms_epsilon": 1e-5,
        f"{arch}.rope.dimension_count": rope,
        f"{arch}.leading_dense_block_count": 1,
        f"{arch}.expert_count": 4,
        f"{arch}.expert_used_count": 2,
        f"{arch}.expert_shared_count": 1,
        f"{arch}.expert_feed_forward_length": 128,
        f"{arch}.expert_weights_scale": 1.0,
    }
    tensors: Tensors = [
        ("token_embd.weight", (e, s.vocab), w), ("output_norm.weight", (e,), "F32"), ("output.weight", (e, s.vocab), w),
    ]  # fmt: skip
    moe = Shape(**{**s.n, "experts": 4, "expert_ff": 128})
    for i in range(s.layers):
        b = f"blk.{i}."
        tensors += [
            (f"{b}attn_norm.weight", (e,), "F32"),
            (f"{b}ffn_norm.weight", (e,), "F32"),
            (f"{b}attn_kv_a_norm.weight", (rank,), "F32"),
            (f"{b}attn_q_a.weight", (e, 64), w),
            (f"{b}attn_q_a_norm.weight", (64,), "F32"),
            (f"{b}attn_q_b.weight", (64, s.heads * (nope + rope)), w),
            (f"{b}attn_kv_a_mqa.weight", (e, rank + rope), w),
            (f"{b}attn_k_b.weight", (nope, rank, s.heads), w),
            (f"{b}attn_v_b.weight", (rank, value, s.heads), w),
            (f"{b}attn_output.weight", (s.heads * value, e), w),
        ]
        if i < 1:
            tensors += ffn(s, b)
        else:
            tensors += experts(moe, b)
            tensors += [
                (f"{b}ffn_gate_shexp.weight", (e, 128), w),
                (f"{b}ffn_up_shexp.weight", (e, 128), w),
                (f"{b}ffn_down_shexp.weight", (128, e), w),
            ]
    return meta, tensors


def mamba(s: Shape) -> tuple[dict[str, Any], Tensors]:
    arch, w, e = "mamba", s.weights, s.embd
    inner, state, conv, rank = 2 * e, 16, 4, 32
    meta = {
        "general.architecture": arch,
        f"{arch}.block_count": s.layers,
        f"{arch}.context_length": s.context,
        f"{arch}.embedding_length": e,
        f"{arch}.feed_forward_length": 0,
        f"{arch}.attention.head_count": 0,
        f"{arch}.attention.layer_norm_rms_epsilon": 1e-5,
        f"{arch}.ssm.conv_kernel": conv,
        f"{arch}.ssm.inner_size": inner,
        f"{arch}.ssm.state_size": state,
        f"{arch}.ssm.time_step_rank": rank,
    }
    tensors: Tensors = [("token_embd.weight", (e, s.vocab), w), ("output_norm.weight", (e,), "F32")]
    for i in range(s.layers):
        b = f"blk.{i}."
        tensors += [
            (f"{b}attn_norm.weight", (e,), "F32"),
            (f"{b}ssm_in.weight", (e, 2 * inner), w),
            (f"{b}ssm_conv1d.weight", (conv, inner), "F32"),
            (f"{b}ssm_conv1d.bias", (inner,), "F32"),
            (f"{b}ssm_x.weight", (inner, rank + 2 * state), w),
            (f"{b}ssm_dt.weight", (rank, inner), w),
            (f"{b}ssm_dt.bias", (inner,), "F32"),
            (f"{b}ssm_a", (state, inner), "F32"),
            (f"{b}ssm_d", (inner,), "F32"),
            (f"{b}ssm_out.weight", (inner, e), w),
        ]
    return meta, tensors


KINDS = {
    "dense": lambda s: dense(s, "llama"),
    "qwen3": lambda s: dense(s, "qwen3"),
    "moe": lambda s: dense(s, "qwen3moe"),
    "window": lambda s: dense(s, "gemma3"),
    "mla": mla,
    "mamba": mamba,
}


def make(path: Path, kind: str, **numbers: Any) -> Path:
    s = Shape(**numbers)
    meta, tensors = KINDS[kind](s)
    write(path, meta | vocabulary(meta["general.architecture"], s.vocab), tensors)
    return path
