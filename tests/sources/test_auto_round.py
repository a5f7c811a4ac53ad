"""AutoRound's lists, and FBGEMM FP8."""

from __future__ import annotations

from typing import Any

import pytest

from oomph.errors import ConfigError
from oomph.facts.quantization import linear_tensors
from oomph.sources.quant.schemes import read_quant

BASE: dict[str, Any] = {"quant_method": "auto-round", "bits": 4, "group_size": 128, "sym": True}


def test_blocks_and_exceptions() -> None:
    quant = read_quant(
        {
            **BASE,
            "block_name_to_quantize": "model.language_model.layers",
            "extra_config": {
                "model.language_model.layers.0.mlp.up_proj": {"bits": 16},
                ".*in_proj_[ab]$": {"bits": 16},
                ".*down_proj$": {"bits": 8, "group_size": 64},
            },
        },
        None,
    )
    assert quant is not None
    at = "model.language_model.layers.0"
    assert quant.scheme(f"{at}.mlp.up_proj", "linear") is None
    assert quant.scheme(f"{at}.linear_attn.in_proj_a", "linear") is None
    assert quant.scheme("model.visual.blocks.0.attn.qkv", "linear") is None
    plain, other = quant.scheme(f"{at}.mlp.gate_proj", "linear"), quant.scheme(f"{at}.mlp.down_proj", "linear")
    assert plain is not None
    assert other is not None
    assert (plain.method, plain.bits, other.bits, other.group_size) == ("gptq", 4, 8, 64)


def test_it_writes_no_activation_order() -> None:
    quant = read_quant(BASE, None)
    assert quant is not None
    assert quant.scheme("lm_head", "lm_head") is None
    names = [t[0] for t in linear_tensors(quant.scheme("model.layers.0.mlp.up_proj", "linear"), 256, 256, "BF16")]
    assert names == [".qweight", ".qzeros", ".scales"]


def test_awq_packing() -> None:
    quant = read_quant({**BASE, "packing_format": "auto_round:auto_awq"}, None)
    assert quant is not None
    scheme = quant.scheme("model.layers.0.mlp.up_proj", "linear")
    assert scheme is not None
    assert scheme.method == "awq"


@pytest.mark.parametrize(
    "change", [{"extra_config": [1]}, {"extra_config": {"x": 1}}, {"block_name_to_quantize": 3}, {"bits": "4"}]
)
def test_lists_that_lie(change: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        quant = read_quant({**BASE, **change}, None)
        assert quant is not None
        quant.scheme("x", "linear")


def test_fbgemm_fp8() -> None:
    quant = read_quant({"quant_method": "fbgemm_fp8", "modules_to_not_convert": ["model.layers.0.self_attn"]}, None)
    assert quant is not None
    assert quant.scheme("model.layers.0.self_attn.q_proj", "linear") is None
    scheme = quant.scheme("model.layers.0.mlp.up_proj", "linear")
    assert linear_tensors(scheme, 8, 4, "BF16") == [(".weight", (8, 4), "F8_E4M3"), (".weight_scale", (8, 1), "F32")]
