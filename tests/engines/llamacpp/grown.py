"""GGUF files that llama.cpp itself asks for: a header that grows by the complaints of the loader.

"tensor 'blk.0.attn_q.weight' not found" adds it, "has wrong shape; expected 256, 512" corrects it, and "key not found
in model" is answered from a table, so that a file of any architecture takes a line: what is not usual in its metadata,
and the tensors that the loader takes for optional and the graph does not.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import toys
from native import Native

Tensor = tuple[tuple[int, ...], str]
# (name with {i} for the layer, shape, the layers; all where there are none)
Seed = tuple[str, tuple[int, ...], tuple[int, ...]]

USUAL: dict[str, Any] = {
    "block_count": 4, "context_length": 4096, "embedding_length": 256, "feed_forward_length": 768, "vocab_size": 512,
    "attention.head_count": 8, "attention.head_count_kv": 2, "attention.key_length": 32, "attention.value_length": 32,
    "attention.layer_norm_rms_epsilon": 1e-5, "attention.layer_norm_epsilon": 1e-5, "rope.dimension_count": 32,
    "rope.freq_base": 10000.0,
}  # fmt: skip
ASKED: dict[str, Any] = {
    "expert_feed_forward_length": 128, "expert_shared_feed_forward_length": 128, "expert_shared_count": 1,
    "expert_weights_scale": 1.0, "leading_dense_block_count": 1, "interleave_moe_layer_step": 1,
    "expert_group_scale": 1.0, "experts_per_group": 2, "expert_chunk_feed_forward_length": 128,
    "attention.q_lora_rank": 64, "attention.kv_lora_rank": 128, "embedding_length_per_layer_input": 64,
    "attention.group_norm_epsilon": 1e-5, "rope.dimension_sections": [8, 8, 8, 8], "moe_every_n_layers": 2,
    "attention.clamp_kqv": 1.0, "attention.max_alibi_bias": 8.0, "expert_gating_func": 1, "logit_scale": 1.0,
    "use_parallel_residual": True,
}  # fmt: skip
_OPTIONAL = ("attn_k.weight", "attn_k_norm.weight", "attn_q_norm.weight")  # of some layers only (gemma4, glm4moe)
_PLAIN = ("norm", "conv", "_inp", "ssm_a", "ssm_d")  # stay F32


class Grown(Exception):
    """llama.cpp does not want this file, and does not say what it wants."""


def _type(name: str, shape: tuple[int, ...]) -> str:
    small = not name.endswith("weight") or len(shape) < 2 or shape[0] % 32
    return "F32" if small or any(part in name for part in _PLAIN) else "Q8_0"


def grow(native: Native, path: Path, arch: str, numbers: dict[str, Any], seeds: tuple[Seed, ...] = ()) -> Path:
    meta = {f"{arch}.{k}": v for k, v in {**USUAL, **numbers}.items() if v is not None}
    meta |= {"general.architecture": arch, "tokenizer.ggml.model": "none"}
    table = (meta[f"{arch}.embedding_length"], meta[f"{arch}.vocab_size"])
    tensors: dict[str, Tensor] = {"token_embd.weight": (table, "Q8_0")}
    for name, shape, layers in seeds:
        for i in layers or range(meta[f"{arch}.block_count"]):
            tensors[name.format(i=i)] = (shape, _type(name, shape))
    try:
        return _grow(native, path, arch, dict(meta), dict(tensors), alike=True)
    except Grown:  # a layer does not have what the one before it has
        return _grow(native, path, arch, meta, tensors, alike=False)


def _grow(
    native: Native, path: Path, arch: str, meta: dict[str, Any], tensors: dict[str, Tensor], *, alike: bool
) -> Path:
    """`alike`: a layer is taken to have what the one before it has, which saves most of the questions."""
    for _ in range(1500):
        toys.write(path, meta, [(name, shape, kind) for name, (shape, kind) in tensors.items()])
        answer = native.ask(path=str(path), gpus=0, ngl=0, n_ctx=512, no_alloc=True, load_mtp=True)
        if not answer["error"]:
            return path
        text = "".join(answer["lines"])
        if alike and (layer := re.search(r"tensor 'blk\.(\d+)\.[^']+' not found", text)):
            _repeat(int(layer[1]), tensors)
        if not _answered(text, arch, meta, tensors):
            raise Grown(f"{arch}: {answer['error']}: {text[-400:]}")
    raise Grown(f"{arch}: it never has enough")


def _repeat(layer: int, tensors: dict[str, Tensor]) -> None:
    """The tensors of a layer are those of the one before it, once llama.cpp asks for the first of them."""
    own, before = f"blk.{layer}.", f"blk.{layer - 1}."
    for name in [name for name in tensors if name.startswith(before) and not name.endswith(_OPTIONAL)]:
        tensors.setdefault(own + name.removeprefix(before), tensors[name])


def _answered(text: str, arch: str, meta: dict[str, Any], tensors: dict[str, Tensor]) -> bool:
    if key := re.search(r"key not found in model: (?:array )?(\S+)", text):
        short = key[1].removeprefix(f"{arch}.")
        known = short in ASKED and key[1] not in meta
        meta[key[1]] = ASKED.get(short)
        return known
    if missing := re.search(r"tensor '([^']+)' not found", text):
        tensors.setdefault(missing[1], ((meta[f"{arch}.embedding_length"],), "F32"))
        return True
    if wrong := re.search(r"tensor '([^']+)' has wrong shape; expected\s+(.+?), got", text):
        shape = tuple(int(n) for n in re.findall(r"\d+", wrong[2]))
        while len(shape) > 1 and shape[-1] == 1:
            shape = shape[:-1]
        before, tensors[wrong[1]] = tensors.get(wrong[1]), (shape, _type(wrong[1], shape))
        return before != tensors[wrong[1]]
    return False
