"""Bounds of vLLM's rules that no other test noticed when one was moved (`make mutants`)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from oomph.engines.vllm.command.container import refusal
from oomph.engines.vllm.command.values import Refused as ValueRefused, json_value
from oomph.engines.vllm.kv import check as kv_check
from oomph.engines.vllm.kv.dtypes import TURBOQUANT, token_bytes
from oomph.engines.vllm.kv.specs import Refused
from oomph.engines.vllm.resolve.backend_query import fa_version
from oomph.engines.vllm.resolve.verify import verify_parallel
from oomph.facts.vllm.flags import options_of
from oomph.facts.vllm.versions import NEWEST


@pytest.mark.parametrize(
    ("head_size", "hd256", "version"),
    [
        (64, False, 4), (128, False, 4), (129, False, 2), (192, False, 4), (192, True, 2), (256, False, 2),
        (None, False, 4),
    ],
)  # fmt: skip
def test_flash_attention_4_takes_small_heads_and_those_of_192(head_size: int | None, hd256: bool, version: int) -> None:
    query: Any = SimpleNamespace(sm=100, major=10, fa_version=4, attention=SimpleNamespace(hd256=hd256))
    assert fa_version(query, head_size) == version


def test_turboquant_stores_as_many_bits_as_its_name_says() -> None:
    """128 elements of n bits, two bytes beside quantised keys, four beside values; k8: keys in FP8."""
    expected = {"k8v4": 128 + 64 + 4, "4bit_nc": 66 + 68, "k3v4_nc": 50 + 68, "3bit_nc": 50 + 52}
    assert {name: token_bytes(f"turboquant_{name}", "bfloat16", 1, 128, 128) for name in expected} == expected
    assert TURBOQUANT.keys() == {f"turboquant_{name}" for name in expected}


@pytest.mark.parametrize(("memory", "is_refused"), [(-1, True), (0, True), (1, False)])
def test_no_memory_is_none_and_one_byte_is_some(memory: int, is_refused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kv_check, "_workers", lambda context, checked: [(None, memory)])
    monkeypatch.setattr(kv_check, "need_bytes", lambda context, stage, length: 1)
    context: Any = SimpleNamespace(
        rules=SimpleNamespace(text=SimpleNamespace(none="none")), request=SimpleNamespace(max_model_len=8)
    )
    refusal = kv_check._memory_check(context, [memory])
    assert (refusal is not None and refusal.message == "none") is is_refused


@pytest.mark.parametrize(("ranks", "is_refused"), [(0, False), (2, True), (5, False)])
def test_an_odd_number_of_heads_is_served_by_one_gpu(ranks: int, is_refused: bool) -> None:
    flags = {"tensor_parallel_size": ranks} if ranks else {}
    model: Any = SimpleNamespace(num_heads=25, architecture="A")
    traits: Any = SimpleNamespace(is_moe=False, is_mla=False, num_kv_heads=5)
    refusals: Any = SimpleNamespace(dcp_too_wide="", dcp_few_ranks="")
    if is_refused:
        with pytest.raises(Refused):
            verify_parallel(model, traits, flags, refusals)
    else:
        verify_parallel(model, traits, flags, refusals)


@pytest.mark.parametrize(
    ("words", "left_out"),
    [("vllm serve M", "'vllm serve' out"), ("serve M", "'serve' out"), ("vllm M", "'vllm' out"), ("M", "")],
)
def test_the_image_starts_the_program_itself(words: str, left_out: str) -> None:
    said = refusal("vllm/vllm-openai:v0.21.0", words.split())
    assert left_out in said if left_out else said == ""


@pytest.mark.parametrize(("length", "is_read"), [(1 << 16, True), ((1 << 16) + 1, False)])
def test_json_is_as_long_as_an_argument_may_be(length: int, is_read: bool) -> None:
    text = '{"a": 1}' + " " * (length - 8)
    if is_read:
        assert json_value(text, options_of(NEWEST), human=False) == {"a": 1}
        return
    with pytest.raises(ValueRefused, match="characters of JSON"):
        json_value(text, options_of(NEWEST), human=False)
