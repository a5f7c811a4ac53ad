"""Plans of TensorRT-LLM deployments: stages, the temporary pool, the served context, what is given."""

from __future__ import annotations

import ast
import math
from pathlib import Path

import pytest
from msgspec.structs import replace

import oomph
from oomph.engines.trtllm.resolve import graph_batch_sizes
from oomph.errors import CannotPlan, CommandError
from oomph.ir.plan import Plan
from oomph.units import GIB

SERVE = "trtllm-serve Qwen/Qwen3-8B"
SOURCE = Path(oomph.__file__).parent


def plan(command: str, gpu: str = "RTX 4090", **more: object) -> Plan:
    return oomph.plan(command, gpu=gpu, engine=str(more.pop("engine", "")), **more)  # type: ignore[arg-type]


def test_the_temporary_pool_starves_a_small_card_and_the_batch_is_the_lever() -> None:
    """1.2.1 keeps a block for each of 2,048 slots; the engine's own hint is max_num_tokens."""
    default = plan(SERVE, advise=False)
    assert default.verdict.outcome != "fits" and default.verdict.stage == "profile_run"
    assert "reduce max_num_tokens" in default.verdict.message
    assert default.resolved["temporary_pool_follows"] == "max_batch_size"
    fewer_tokens = plan(f"{SERVE} --max_num_tokens 1024", advise=False)
    assert fewer_tokens.resolved["temporary_blocks"] == default.resolved["temporary_blocks"]
    smaller_batch = plan(f"{SERVE} --max_batch_size 64 --max_seq_len 16384", advise=False)
    assert smaller_batch.verdict.fits
    older = plan(SERVE, engine="trtllm==1.1.0", advise=False)
    assert older.resolved["temporary_blocks"] < 300 and older.verdict.fits


def test_the_advice_starts_again_as_it_is_printed() -> None:
    advice = plan(SERVE).advice
    assert advice is not None and advice.fixes
    for fix in advice.fixes:
        again = plan(fix.command, advise=False)
        assert again.verdict.outcome == "fits", fix.command


def test_a_pool_smaller_than_the_context_serves_less() -> None:
    short = plan(f"{SERVE} --max_batch_size 8", engine="trtllm==1.1.0", advise=False)
    assert short.verdict.fits and short.kv is not None
    assert short.kv.longest_request == short.resolved["served_max_seq_len"] < 40960
    assert any("it starts, but with" in note for note in short.warnings)
    assert "longer than" in short.verdict.risk
    command = f"{SERVE} --max_batch_size 8 --fail_fast_on_attention_window_too_large"
    refused = plan(command, engine="trtllm==1.1.0", advise=False)
    assert not refused.verdict.fits and refused.verdict.stage == "kv_check"


def test_a_given_peak_makes_the_tokens_exact() -> None:
    command = f"{SERVE} --max_batch_size 32 --max_seq_len 8192"
    free = plan(command, advise=False)
    pinned = plan(command, given={"peak": "18.00GiB"}, advise=False)
    term = pinned.ranks[0].terms["available_kv"]
    assert term.low == term.bytes == term.high and term.basis == "given"
    temporary = pinned.ranks[0].terms["temporary_kv"].bytes
    assert term.bytes == int((pinned.ranks[0].total_bytes - 18 * GIB + temporary) * 0.9)
    assert free.ranks[0].terms["available_kv"].low < free.ranks[0].terms["available_kv"].high


def test_more_ranks_and_limits() -> None:
    one = plan("trtllm-serve Qwen/Qwen3-32B --max_batch_size 64", "H100", advise=False)
    four = plan("trtllm-serve Qwen/Qwen3-32B --max_batch_size 64 --tp_size 4", "4x H100", advise=False)
    assert len(four.ranks) == 4
    assert 4 * four.ranks[0].terms["weights"].bytes >= one.ranks[0].terms["weights"].bytes
    staged = plan("trtllm-serve Qwen/Qwen3-32B --max_batch_size 64 --pp_size 2", "2x H100", advise=False)
    total = sum(rank.terms["weights"].bytes for rank in staged.ranks)
    assert abs(total - one.ranks[0].terms["weights"].bytes) < GIB // 10
    assert any("pipeline stages" in text for text in staged.assumptions)


def test_refusals() -> None:
    assert plan("trtllm-serve Qwen/Qwen3-32B --tp_size 3", "3x H100", advise=False).verdict.stage == "other"
    with pytest.raises(CannotPlan, match="--backend tensorrt"):
        plan(f"{SERVE} --backend tensorrt", advise=False)
    with pytest.raises(CommandError, match="between 0 and 1"):
        plan(f"{SERVE} --kv_cache_free_gpu_memory_fraction 1.5", advise=False)


def test_graph_sizes() -> None:
    """Posted: 32 graphs for a batch of 32; 11 with padding for 64; with padding for 256 the list ends 120, 128, 256."""
    assert len(graph_batch_sizes({}, True, 32, 8192, 0)) == 32
    padded = {"cuda_graph_config.enable_padding": True}
    assert len(graph_batch_sizes(padded, True, 64, 8192, 0)) == 11
    assert graph_batch_sizes({**padded, "cuda_graph_config.max_batch_size": 256}, True, 2048, 8192, 0)[-3:] == (
        120,
        128,
        256,
    )
    assert graph_batch_sizes({"cuda_graph_config": "null"}, True, 2048, 8192, 0) == ()
    assert graph_batch_sizes({}, False, 2048, 8192, 0) == ()


def test_more_memory_is_never_worse() -> None:
    tokens = []
    for gib in (20, 24, 32, 48, 80):
        deployment = plan(f"{SERVE} --max_batch_size 16 --max_seq_len 4096", advise=False).deployment
        card = replace(deployment.gpus[0], total_bytes=gib * GIB)
        found = oomph.plan(replace(deployment, gpus=(card,)), advise=False)
        tokens.append(found.kv.logged_tokens if found.kv else 0)
    assert tokens == sorted(tokens) and tokens[-1] > tokens[0]


def test_every_option_is_read_or_listed() -> None:
    """What the plan does not read of the command line says why it is not."""
    from oomph.facts.trtllm.flag_effects import EFFECTS
    from oomph.facts.trtllm.flags import BY_FIELD

    listed = EFFECTS.listed()
    assert len(listed) == len(set(listed))
    modules = [
        p for p in (SOURCE / "engines" / "trtllm").rglob("*.py") if p.stem not in ("arm", "emit", "engine", "levers")
    ]
    texts = {
        node.value for p in modules for node in ast.walk(ast.parse(p.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }  # fmt: skip
    assert set(BY_FIELD) <= texts | set(listed)
    assert not texts & set(EFFECTS.not_planned)


def test_the_plan_says_what_it_does_not_follow() -> None:
    options = "{sparse_attention_config: {algorithm: rocket}}"
    command = f"bash -c '{SERVE} --max_batch_size 8 --config <(echo \"{options}\")'"
    notes = plan(command, "H100", advise=False).warnings
    assert any(note.startswith("sparse_attention_config is not in this plan") for note in notes)


def _serve(options: str) -> Plan:
    return plan(f"bash -c 'trtllm-serve Qwen/Qwen3-8B --max_seq_len 8192 --config <(echo \"{{{options}}}\")'", "H100")


def test_a_draft_model_has_weights_and_a_cache_of_its_own() -> None:
    """Two engines: the estimator counts both; one engine: the drafter's layers are in the pool only."""
    options = "speculative_config: {{decoding_type: {}, max_draft_len: 3, speculative_model: Qwen/Qwen3-0.6B}}"
    plain, two, one = (
        _serve("max_batch_size: 2048"),
        _serve(options.format("DraftTarget")),
        _serve(options.format("Eagle3")),
    )
    small = 2 * 28 * 8 * 128 * 2  # 28 layers, 8 KV heads of 128, BF16
    assert two.resolved["kv_bytes_per_token"] == plain.resolved["kv_bytes_per_token"] + small
    assert one.resolved["kv_bytes_per_token"] == plain.resolved["kv_bytes_per_token"]
    assert one.resolved["pool_bytes_per_token"] == two.resolved["pool_bytes_per_token"] == 147456 + small
    added = two.ranks[0].terms["weights"].parts["draft model"]
    assert two.ranks[0].terms["weights"].bytes == plain.ranks[0].terms["weights"].bytes + added
    assert 1.1 * GIB < added < 1.2 * GIB


def test_a_draft_model_that_cannot_be_read_is_named() -> None:
    answer = _serve(
        "speculative_config: {decoding_type: DraftTarget, max_draft_len: 3, speculative_model: no/such-model}"
    )
    assert any("of the draft model no/such-model are not in this plan" in note for note in answer.warnings)


def test_adapters_have_a_share_of_what_is_free_behind_the_weights() -> None:
    plain, lora = _serve("max_batch_size: 64"), _serve("max_batch_size: 64, enable_lora: true")
    terms = lora.ranks[0].terms
    free = lora.ranks[0].total_bytes - terms["context"].bytes - terms["weights"].bytes
    assert terms["non_torch"].parts["LoRA cache"] == round(0.02 * free)
    assert terms["non_torch"].bytes == plain.ranks[0].terms["non_torch"].bytes + round(0.02 * free)
    more = _serve("max_batch_size: 64, enable_lora: true, peft_cache_config: {device_cache_percent: 0.1}")
    assert more.ranks[0].terms["non_torch"].parts["LoRA cache"] == round(0.1 * free)


def test_the_second_cache_manager_knows_bytes_only() -> None:
    """max_tokens may fill 0.95 of its quota, and fewer KV heads than ranks do not shrink it twice."""
    first = _serve("kv_cache_config: {max_tokens: 32000}")
    second = _serve("kv_cache_config: {max_tokens: 32000, use_kv_cache_manager_v2: true}")
    assert first.kv is not None and second.kv is not None
    assert first.kv.num_blocks == 1000
    assert second.kv.num_blocks == math.ceil(32000 * 147456 / 0.95) // (147456 * 32)
    assert any("pins host memory too" in note for note in second.warnings)
    assert not any("pins host memory" in note for note in first.warnings)
