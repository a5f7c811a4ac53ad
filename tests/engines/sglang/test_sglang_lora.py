"""SGLang's LoRA slots between weights and pools, and what it says of the adapters beside a command."""

import json
from pathlib import Path
from typing import Any

import pytest

from oomph import plan
from oomph.ir import Plan

MODEL = "python -m sglang.launch_server --model-path Qwen/Qwen3-8B"
GIB = 2**30


def adapter(folder: Path, **config: Any) -> Path:
    path = folder / "adapter"
    path.mkdir()
    (path / "adapter_config.json").write_text(json.dumps({"r": 64, "target_modules": ["q_proj", "v_proj"], **config}))
    return path


def planned(options: str = "", model: str = MODEL) -> Plan:
    return plan(f"{model} {options}", gpu="H100", advise=False)


def slots(own: Plan) -> int:
    return own.ranks[0].terms["weights"].parts.get("LoRA slots", 0)


def test_the_slots_are_those_of_the_memory_pool(tmp_path: Path) -> None:
    """lora/mem_pool.py by hand: 8 slots of rank 64, three stacked A of 4,096 and one B of 6,144, in 36 layers, BF16."""
    own = planned(f"--lora-paths my={adapter(tmp_path)}")
    assert slots(own) == 8 * 64 * (3 * 4096 + 6144) * 36 * 2
    assert own.kv is not None and planned().kv is not None
    assert own.kv.logged_tokens < planned().kv.logged_tokens  # type: ignore[union-attr]
    halved = planned(f"--lora-paths my={tmp_path / 'adapter'} --max-loras-per-batch 4")
    assert slots(halved) == slots(own) // 2


def test_every_expert_has_slots(tmp_path: Path) -> None:
    path = adapter(tmp_path, r=8, target_modules=["down_proj"])
    model = MODEL.replace("8B", "30B-A3B")
    assert slots(planned(f"--lora-paths my={path}", model)) == 8 * 8 * 128 * (768 + 2048) * 48 * 2


def test_a_vocabulary_that_is_a_target_is_counted_for_each_of_both_names(tmp_path: Path) -> None:
    path = adapter(tmp_path, r=8, target_modules=["embed_tokens", "lm_head"])
    assert slots(planned(f"--lora-paths my={path}")) == 8 * 8 * 2 * (2 * (151936 + 4096)) * 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--lora-paths my={} --lora-target-modules o_proj", "contains target modules ['qkv_proj'] that are not"),
        ("--enable-lora", "When no initial --lora-paths is provided"),
        ("--enable-lora --max-lora-rank 8", "When no initial --lora-paths is provided"),
    ],
)
def test_it_refuses_in_its_own_words(tmp_path: Path, options: str, words: str) -> None:
    own = planned(options.format(adapter(tmp_path)))
    assert own.verdict.outcome == "fails" and words in own.verdict.message


def test_targets_by_a_pattern_are_refused(tmp_path: Path) -> None:
    own = planned(f"--lora-paths my={adapter(tmp_path, target_modules='.*q_proj')}")
    assert "SGLang does not recognize target_modules='.*q_proj'" in own.verdict.message


def test_a_rank_above_the_slots_breaks_the_first_request(tmp_path: Path) -> None:
    own = planned(f"--lora-paths my={adapter(tmp_path)} --max-lora-rank 16")
    assert own.verdict.outcome == "at_risk" and "its rank 64 does not go into slots of 16" in own.verdict.risk


def test_an_adapter_of_the_hub_is_assumed_and_said() -> None:
    own = planned("--lora-paths acme/adapter")
    term = own.ranks[0].terms["weights"]
    assert any("rank 16 and every linear layer are assumed" in note for note in own.warnings)
    assert term.low < term.bytes - slots(own) // 2 and term.high > term.bytes + slots(own)


def test_off_is_off(tmp_path: Path) -> None:
    assert slots(planned("--max-lora-rank 64")) == 0
