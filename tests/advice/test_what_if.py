"""what_if(): the blogs' fixes, planned."""

from __future__ import annotations

import pytest

from oomph.advice.what_if import WhatIf
from oomph.answers.plan import plan, try_changes
from oomph.facts.vllm.versions import NEWEST
from oomph.ir.advice import KINDS, Judged
from oomph.units import GIB


def looked(command: str, gpu: str, version: str = NEWEST) -> tuple[WhatIf, dict[str, Judged]]:
    table = try_changes(plan(command, gpu=gpu, engine=f"vllm=={version}", advise=False))
    return table, {row.label: row.judged for row in table.rows}


def test_weights_that_do_not_fit_do_not_care_for_the_budget() -> None:
    """(000): lowering utilisation, the context or the batch cannot help before the weights are loaded."""
    found, rows = looked(
        "vllm serve nvidia/Gemma-4-31B-IT-NVFP4 -tp 2 --max-model-len 2048 --max-num-seqs 2 --language-model-only",
        "2x RTX 5070 Ti",
    )
    assert found.binding == "weights_load"
    budget = next(r for label, r in rows.items() if label.startswith("--gpu-memory-utilization") and "0.8" in label)
    assert budget.effect == "nothing"
    assert next(row for row in found.rows if row.judged is budget).advised
    assert rows["--max-model-len 1024"].effect == "nothing"
    assert rows["--enforce-eager"].effect == "nothing"
    assert rows["cyankiwi/gemma-4-31B-it-AWQ-4bit"].gain_bytes > 4 * GIB
    assert any(r.effect == "fixes" for r in found.rows if r.judged.change.kind == "checkpoint")
    assert "before the weights" in rows["--max-model-len 1024"].why


def test_too_long_a_context_is_fixed_by_a_shorter_one() -> None:
    found, rows = looked("vllm serve meta-llama/Llama-3.1-8B-Instruct", "RTX 4090")
    assert found.binding == "kv_check"
    assert rows["--max-model-len 4096"].effect == "fixes"
    assert rows["--gpu-memory-utilization 0.8"].effect == "worse"
    assert rows["--gpu-memory-utilization 0.8"].gain_bytes < 0
    assert rows["--kv-cache-dtype fp8"].effect in ("helps", "fixes")


@pytest.mark.parametrize(("version", "effect"), [("0.17.1", "nothing"), ("0.18.0", "refused"), (NEWEST, "refused")])
def test_swap_space_never_helped(version: str, effect: str) -> None:
    _, rows = looked("vllm serve Qwen/Qwen3-8B --max-model-len 4096", "RTX 4090", version)
    assert rows["--swap-space 4"].effect == effect
    assert "never" in rows["--swap-space 4"].why


def test_rows_are_sorted_and_say_what_the_plan_says() -> None:
    found, rows = looked("vllm serve Qwen/Qwen3-8B --max-model-len 16384", "RTX 4090")
    assert found.binding == "KV cache"
    helps = [r.tokens_change or 0 for r in found.rows if r.effect == "helps"]
    assert helps == sorted(helps, reverse=True)
    eager = plan("vllm serve Qwen/Qwen3-8B --max-model-len 16384 --enforce-eager", gpu="RTX 4090")
    assert eager.kv is not None
    assert rows["--enforce-eager"].tokens == eager.kv.logged_tokens
    assert "Each change alone" in found.text(width=100)


def test_every_row_that_fixes_it_fits() -> None:
    before = plan("vllm serve cyankiwi/Qwen3.6-27B-AWQ-INT4 --max-model-len 262144", gpu="RTX 5090", advise=False)
    assert not before.fits
    for row in try_changes(before).rows:
        assert (row.effect == "fixes") == (row.judged.outcome == "fits")


def test_a_command_the_engine_refuses_has_nothing_to_vary() -> None:
    before = plan("vllm serve Qwen/Qwen3-8B --max-model-len 99999999", gpu="RTX 4090")
    assert before.verdict.stage == "other"
    assert not try_changes(before).rows


def test_a_larger_card_gives_its_memory_where_the_plan_dies() -> None:
    table, judged = looked("vllm serve Qwen/Qwen3-32B", "RTX 4090")
    cards = {label: judged for label, judged in judged.items() if label.startswith("on ")}
    assert cards["on H200"].gain_bytes > 100 << 30
    assert all(judged.gain_bytes > 0 for judged in cards.values() if judged.effect == "fixes")
    kinds = [row.judged.change.kind for row in table.rows if row.effect == "fixes"]
    assert kinds == sorted(kinds, key=KINDS.index)


def test_a_refused_change_changes_no_tokens() -> None:
    found, _ = looked("vllm serve Qwen/Qwen3-8B --max-model-len 4096", "RTX 4090")
    refused = [row for row in found.rows if row.effect == "refused"]
    assert refused and all(row.tokens_change is None for row in refused)
    assert {row["tokens_change"] for row in found.to_dict()["rows"] if row["effect"] == "refused"} == {None}
