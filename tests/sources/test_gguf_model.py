"""GGUF metadata to cache geometry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import making
from oomph.answers.inspection import inspect
from oomph.errors import HeaderError
from oomph.ir.model import Attention, Model, State
from oomph.sources.folder import read_path
from oomph.sources.gguf.model import role_of


def made(tmp_path: Path, arch: str, tensors: making.Tensors | None = None, **keys: Any) -> Model:
    base = {"block_count": 4, "context_length": 8192, "embedding_length": 256, "feed_forward_length": 512}
    base |= {"attention.head_count": 8, "attention.head_count_kv": 2}
    given = {k.replace("__", "."): v for k, v in keys.items()}
    metadata = {"general.architecture": arch, **{f"{arch}.{k}": v for k, v in (base | given).items()}}
    return read_path(
        making.gguf(tmp_path / "m.gguf", metadata, tensors or {"token_embd.weight": ((256, 1000), "Q8_0")})
    )


def kinds(model: Model) -> list[str]:
    return ["+".join(m.kind for m in layer.mixers) or "none" for layer in model.layers]


def test_plain(tmp_path: Path) -> None:
    tensors: making.Tensors = {
        "token_embd.weight": ((256, 1000), "Q8_0"),
        "output_norm.weight": ((256,), "F32"),
        "output.weight": ((256, 1000), "Q6_K"),
        **{f"blk.{i}.attn_output.weight": ((256, 256), "Q4_K") for i in range(4)},
        **{f"blk.{i}.ffn_up.weight": ((256, 512), "Q4_K") for i in range(4)},
    }
    model = made(tmp_path, "llama", tensors)
    assert kinds(model) == ["full"] * 4
    assert {(s.role, s.dtype): s.nbytes for s in model.stored} == {
        ("attention", "Q4_K"): 4 * 256 * 144,
        ("embed", "Q8_0"): 8 * 1000 * 34,
        ("lm_head", "Q6_K"): 1000 * 210,
        ("mlp", "Q4_K"): 4 * 512 * 144,
        ("norm", "F32"): 1024,
    }
    assert (model.vocab_size, model.max_position, model.tied) == (1000, 8192, False)
    assert model.layers[0].block is model.layers[3].block
    assert inspect(model).kv_bytes_per_token == 4 * 2 * 2 * 32 * 2


@pytest.mark.parametrize(
    ("arch", "keys", "expected"),
    [
        ("gemma2", {}, ["sliding_window", "full"] * 2),
        ("gemma3", {"attention__sliding_window": 1024, "block_count": 6}, ["sliding_window"] * 5 + ["full"]),
        ("gpt-oss", {"attention__sliding_window": 128}, ["sliding_window", "full"] * 2),
        ("gemma4", {"attention__sliding_window": 512, "attention__sliding_window_pattern": [True, False] * 2},
         ["sliding_window", "full"] * 2),
        ("phi3", {"attention__sliding_window": 2047}, ["full"] * 4),
        ("llama4", {}, ["chunked_local"] * 3 + ["full"]),
        ("smallthinker", {"attention__sliding_window": 512}, ["full"] + ["sliding_window"] * 3),
    ],
)  # fmt: skip
def test_windows(tmp_path: Path, arch: str, keys: dict[str, Any], expected: list[str]) -> None:
    assert kinds(made(tmp_path, arch, **keys)) == expected


SSM = {"ssm__conv_kernel": 4, "ssm__inner_size": 512, "ssm__state_size": 128, "ssm__time_step_rank": 8,
       "ssm__group_count": 1}  # fmt: skip


@pytest.mark.parametrize(
    ("arch", "keys", "expected"),
    [
        ("mamba", SSM | {"attention__head_count": 0, "attention__head_count_kv": 0}, ["mamba1"] * 4),
        ("granitehybrid", SSM | {"attention__head_count_kv": [0, 0, 2, 0]}, ["mamba2", "mamba2", "full", "mamba2"]),
        ("nemotron_h", SSM | {"attention__head_count_kv": [0, 0, 2, 0], "feed_forward_length": [0, 512, 0, 0]},
         ["mamba2", "none", "full", "mamba2"]),
        ("falcon-h1", SSM, ["full+mamba2"] * 4),
        ("qwen3next", SSM, ["gdn"] * 3 + ["full"]),
        ("qwen35", SSM | {"attention__recurrent_layers": [False, True, True, False]}, ["full", "gdn", "gdn", "full"]),
        ("lfm2", {"shortconv__l_cache": 3, "attention__head_count_kv": [0, 2, 0, 2]}, ["short_conv", "full"] * 2),
    ],
)  # fmt: skip
def test_recurrent_layers(tmp_path: Path, arch: str, keys: dict[str, Any], expected: list[str]) -> None:
    assert kinds(made(tmp_path, arch, **keys)) == expected


def test_mamba_state_is_llama_cpps(tmp_path: Path) -> None:
    """(conv - 1) x (inner + 2 x groups x state) + state x inner values of F32."""
    found = inspect(made(tmp_path, "granitehybrid", **SSM, attention__head_count_kv=[0, 0, 2, 0]))
    assert found.state_bytes_per_sequence == 3 * 4 * (3 * (512 + 2 * 128) + 128 * 512)


def test_latent_attention_only_in_files_made_for_it(tmp_path: Path) -> None:
    keys = {"attention__kv_lora_rank": 512, "attention__key_length": 192, "attention__value_length": 128,
            "rope__dimension_count": 64, "attention__head_count_kv": 8}  # fmt: skip
    old = made(tmp_path, "deepseek2", **keys).layers[0].mixers[0]
    new = made(tmp_path, "deepseek2", **keys, attention__key_length_mla=192, attention__value_length_mla=128)
    assert isinstance(old, Attention)
    assert (old.kind, old.num_kv_heads, old.head_dim, old.head_dim_v) == ("full", 8, 192, 128)
    assert inspect(new).kv_bytes_per_token == 4 * (512 + 64) * 2


def test_shared_caches_and_drafts(tmp_path: Path) -> None:
    model = made(tmp_path, "gemma4", attention__shared_kv_layers=2, attention__sliding_window=512,
                 attention__sliding_window_pattern=[True, False] * 2)  # fmt: skip
    shares = [m.shares_cache_of for x in model.layers for m in x.mixers if isinstance(m, Attention)]
    assert shares == [None, None, 0, 1]
    glm = made(tmp_path, "glm4moe", nextn_predict_layers=1)
    assert (len(glm.layers), len(glm.drafts)) == (3, 1)


def test_what_is_not_known_is_not_guessed(tmp_path: Path) -> None:
    model = made(tmp_path, "tomorrow")
    assert (model.opaque, model.layers, model.nbytes) == (True, (), 8 * 1000 * 34)
    assert "mmproj" in made(tmp_path, "clip").warnings[0]


@pytest.mark.parametrize(
    "keys",
    [
        {"block_count": 0},
        {"block_count": 2_000_000_000},
        {"block_count": "many"},
        {"attention__head_count_kv": [2, 2]},
        {"attention__head_count_kv": [-1] * 4},
        {"embedding_length": 1.5},
        {"attention__sliding_window": 8, "attention__sliding_window_pattern": [True]},
    ],
)
def test_metadata_that_lies(tmp_path: Path, keys: dict[str, Any]) -> None:
    with pytest.raises(HeaderError):
        made(tmp_path, "gemma3", **keys)


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("blk.3.attn_output.weight", "attention"),
        ("blk.3.attn_q_norm.weight", "norm"),
        ("blk.3.ffn_gate_inp.weight", "router"),
        ("blk.3.ffn_down_exps.weight", "experts"),
        ("blk.3.ffn_up_shexp.weight", "shared_experts"),
        ("blk.3.ffn_norm.weight", "norm"),
        ("blk.3.ssm_in.weight", "linear_attn"),
        ("blk.3.nextn.eh_proj.weight", "other"),
        ("blk.3.post_attention_norm.weight", "norm"),
        ("output.weight", "lm_head"),
        ("output_norm.weight", "norm"),
        ("per_layer_token_embd.weight", "embed"),
        ("v.blk.0.attn_q.weight", "multimodal"),
        ("rope_freqs.weight", "other"),
    ],
)
def test_roles(name: str, role: str) -> None:
    assert role_of(name) == role


def test_a_state_is_a_state(tmp_path: Path) -> None:
    mixer = made(tmp_path, "mamba2", **SSM).layers[0].mixers[0]
    assert isinstance(mixer, State)
    assert mixer.num_heads * mixer.head_dim == 512
