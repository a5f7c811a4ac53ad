"""GGUF files under vLLM: the file's own bytes, merged layers padded, and the releases that read them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import making
from oomph.answers.plan import plan
from oomph.engines.vllm.resolve.reading import as_created
from oomph.facts.dtypes import nbytes
from oomph.ir.model import Param
from oomph.sources.load import load_model

HIDDEN, HEADS, KV, FFN, LAYERS, VOCAB = 512, 4, 2, 1024, 3, 1024
WIDTH = HIDDEN // HEADS
METADATA: dict[str, Any] = {
    "general.architecture": "llama", "llama.block_count": LAYERS, "llama.embedding_length": HIDDEN,
    "llama.attention.head_count": HEADS, "llama.attention.head_count_kv": KV, "llama.feed_forward_length": FFN,
    "llama.context_length": 4096, "llama.attention.key_length": WIDTH, "llama.attention.value_length": WIDTH,
}  # fmt: skip


def layer(number: int) -> making.Tensors:
    """Shapes in ggml's order: inputs first. attn_v is wider than its neighbours, as in every Q4_K_M."""
    tensors = {
        "attn_norm": ((HIDDEN,), "F32"), "ffn_norm": ((HIDDEN,), "F32"),
        "attn_q": ((HIDDEN, HEADS * WIDTH), "Q4_K"), "attn_k": ((HIDDEN, KV * WIDTH), "Q4_K"),
        "attn_v": ((HIDDEN, KV * WIDTH), "Q6_K"), "attn_output": ((HEADS * WIDTH, HIDDEN), "Q4_K"),
        "ffn_gate": ((HIDDEN, FFN), "Q4_K"), "ffn_up": ((HIDDEN, FFN), "Q4_K"), "ffn_down": ((FFN, HIDDEN), "Q6_K"),
    }  # fmt: skip
    return {f"blk.{number}.{name}.weight": value for name, value in tensors.items()}


@pytest.fixture(name="path")
def make_path(tmp_path: Path) -> Path:
    tensors: making.Tensors = {
        "token_embd.weight": ((HIDDEN, VOCAB), "Q4_K"), "output.weight": ((HIDDEN, VOCAB), "Q6_K"),
        "output_norm.weight": ((HIDDEN,), "F32"),
    }  # fmt: skip
    for number in range(LAYERS):
        tensors |= layer(number)
    return making.gguf(tmp_path / "small-Q4_K_M.gguf", METADATA, tensors)


def quantised_bytes(tp: int = 1) -> int:
    """By hand: every quantised tensor in its own type, the rows of q and k filled up to those of v."""
    rows = HIDDEN // 256
    merged = (HEADS + 2 * KV) * WIDTH * rows * 210  # Q6_K has 210 bytes for 256 weights
    others = (HEADS * WIDTH * HIDDEN + 2 * HIDDEN * FFN) // 256 * 144 + HIDDEN * FFN // 256 * 210
    root = HIDDEN * VOCAB // 256 * (144 + 210)
    return (LAYERS * (merged + others) + root) // tp


def norm_bytes() -> int:
    return (2 * LAYERS + 1) * HIDDEN * 2


def test_the_bytes_of_the_files_own_types(path: Path) -> None:
    model = as_created(load_model(str(path)))
    blocks = [model.root, *(layer.block for layer in model.layers)]
    params = [module for block in blocks for module in block.modules if isinstance(module, Param)]
    sizes = sum(nbytes(param.created_dtype or "F16", making.elements(param.shape)) for param in params)
    assert sizes == quantised_bytes() + norm_bytes()
    assert {param.name for param in params if param.name.endswith(".padding")} == {"attn_q.padding"}


@pytest.mark.parametrize("tp", [1, 2])
def test_the_plan_holds_them(path: Path, tp: int) -> None:
    found = plan(f"vllm serve {path} -tp {tp}", gpu=f"{tp}x RTX 4090", engine="vllm==0.21.0", advise=False)
    weights = found.ranks[0].terms["weights"]
    quantised = sum(weights.parts.get(role, 0) for role in ("attention", "mlp", "embed", "lm_head"))
    assert quantised == quantised_bytes(tp)


def test_a_release_without_gguf_refuses_it(path: Path) -> None:
    found = plan(f"vllm serve {path}", gpu="RTX 4090", engine="vllm==0.32.0")
    assert found.verdict.outcome == "fails" and found.verdict.stage == "other"
    assert "Invalid repository ID" in found.verdict.message
    assert any("vllm-gguf-plugin" in note for note in found.warnings)


def test_where_nobody_names_a_release_the_last_with_gguf_is_meant(path: Path) -> None:
    found = plan(f"vllm serve {path}", gpu="RTX 4090", advise=False)
    assert found.deployment.engine.version == "0.23.0" and found.fits
    assert any("nobody names a release" in note for note in found.warnings)
