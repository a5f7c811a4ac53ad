"""Patterns from strangers end in time, in every place where a quantisation config may have one."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from oomph.errors import ConfigError
from oomph.sources.load import load_model
from oomph.sources.quant import patterns
from oomph.sources.quant.patterns import Allowance, Pattern, compile_bounded, contains_any

# Each needs exponential time in an engine that backtracks. The end `\b\B` can never match, and it hides this from an
# engine that first looks for a letter which must occur.
EVIL = (r"((\w|\w\w|\.)*)*\b\B", r"(\w+\.?)+!$", r"(.{1,50}){1,50}\b\B", r"((((a|.)*)*)*)*\b\B", r"(.*)*(.*)*(.*)*\b\B")
BASE = {
    "architectures": ["Qwen3ForCausalLM"], "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 512, "dtype": "bfloat16",
    "max_position_embeddings": 2048,
}  # fmt: skip


def compressed(**more: Any) -> dict[str, Any]:
    group = {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float", "strategy": "channel"}}
    return {"quant_method": "compressed-tensors", "format": "float-quantized", "config_groups": {"0": group}, **more}


def places(pattern: str) -> list[dict[str, Any]]:
    named = compressed()
    named["config_groups"]["0"]["targets"] = [f"re:{pattern}"]
    return [
        compressed(ignore=[f"re:{pattern}"]),
        named,
        {"quant_method": "gptq", "bits": 4, "dynamic": {f"-:{pattern}": {}}},
        {"quant_method": "gptq", "bits": 4, "dynamic": {f"+:{pattern}": {"bits": 8}}},
        {"quant_method": "auto-round", "bits": 4, "extra_config": {pattern: {"bits": 8}}},
    ]


def read(tmp_path: Path, quantization: dict[str, Any], **more: Any) -> Any:
    (tmp_path / "config.json").write_text(json.dumps({**BASE, **more, "quantization_config": quantization}))
    return load_model(str(tmp_path))


@pytest.mark.parametrize("pattern", EVIL)
@pytest.mark.parametrize("place", range(5))
def test_no_pattern_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pattern: str, place: int) -> None:
    monkeypatch.setattr(patterns, "MATCH_SECONDS", 0.05)  # the test below has the whole second
    begin = time.process_time()
    try:
        read(tmp_path, places(pattern)[place])
    except ConfigError as refused:
        assert "pattern" in refused.message
    assert time.process_time() - begin < 6


def test_the_time_is_that_of_all_patterns_together(tmp_path: Path) -> None:
    begin = time.process_time()
    with pytest.raises(ConfigError, match="too long"):
        read(tmp_path, compressed(ignore=[rf"re:((\w|\w\w|\.)*)*{n}\b\B" for n in range(200)] + [f"re:{EVIL[2]}"] * 50))
    assert time.process_time() - begin < 10


@pytest.mark.parametrize(
    "pattern",
    [
        "a{999999999}", "((a{1000}b){1000}c){1000}", "(?R)", "(a|(?1))*", "(?P<n>a|(?&n))", "(?P>n)", "(?-1)(a)",
        "(?:model){e<=9}", "(" * 4000 + ")" * 4000, "x" * 20_000, "(", "[", "(?V1)" + "[" * 3000, "\\L<words>",
        "(?P<1>a)", "\\N{nobody}", "(?i", "*",
    ],
)  # fmt: skip
def test_what_cannot_be_bounded_is_refused(pattern: str) -> None:
    with pytest.raises(ConfigError) as refused:
        compile_bounded(pattern)
    assert "\n" not in refused.value.message and len(refused.value.message) < 400


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        (r".*self_attn.*", "model.layers.3.self_attn.q_proj", True),
        (r"^model\.layers\.(0|1|2)\..*_proj$", "model.layers.2.mlp.up_proj", True),
        (r"^model\.layers\.(0|1|2)\..*_proj$", "model.layers.12.mlp.up_proj", False),
        (r"(?:.*\.)?lm_head$", "lm_head", True),
        (r"model\.layers\.\d{1,2}\.mlp\.(?!gate$).*", "model.layers.7.mlp.gate", False),
    ],
)
def test_real_patterns_are_read_as_vllm_reads_them(pattern: str, name: str, matches: bool) -> None:
    assert Pattern(pattern, Allowance()).match(name) is matches


def test_lists_have_a_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert patterns.MOST_COMPARISONS == 20_000_000  # about a second
    monkeypatch.setattr(patterns, "MOST_COMPARISONS", 400_000)
    long = [f"x{n}" for n in range(2_000)]
    begin = time.process_time()
    for config in (
        {"quant_method": "awq", "bits": 4, "modules_to_not_convert": long},
        {"quant_method": "gptq", "bits": 4, "modules_to_not_convert": long},
        {"quant_method": "bitsandbytes", "load_in_4bit": True, "llm_int8_skip_modules": long},
        {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": long},
        {"quant_method": "auto-round", "bits": 4, "block_name_to_quantize": long},
    ):
        with pytest.raises(ConfigError, match="too long"):
            read(tmp_path, config, num_hidden_layers=250)
    assert time.process_time() - begin < 10
    with pytest.raises(ConfigError, match="characters"):
        read(tmp_path, {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": [f"*{n}*" for n in range(9000)]})


@pytest.mark.parametrize(
    "config",
    [
        {"quant_method": "gptq", "bits": 0, "group_size": 0},
        {"quant_method": "gptq", "bits": 4, "group_size": 0},
        {"quant_method": "awq", "bits": 0},
        {"quant_method": "awq", "bits": 64},
        {"quant_method": "auto-round", "bits": -1},
        {"quant_method": "gptq", "bits": 4, "dynamic": {"+:.*": {"bits": 0}}},
        {"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 0},
        compressed(config_groups={"0": {"targets": ["Linear"], "weights": {"num_bits": 0}}}),
        compressed(config_groups={"0": {"targets": ["Linear"], "weights": {"strategy": "group", "group_size": 0}}}),
    ],
)
def test_no_bits_and_empty_groups_are_a_sentence(tmp_path: Path, config: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"bits|group_size"):
        read(tmp_path, config)


_WORDS_AND_NUMBERS = st.lists(st.sampled_from(["model", "layers", "1", "17", "2", "mlp", "self_attn", ""]), max_size=6)


@given(st.lists(_WORDS_AND_NUMBERS, max_size=8), _WORDS_AND_NUMBERS)
def test_a_name_contains_one_of_the_parts(parts: list[list[str]], name: list[str]) -> None:
    texts, whole = [".".join(part) for part in parts], ".".join(name)
    assert contains_any(texts, Allowance())(whole) == any(text in whole for text in texts)
