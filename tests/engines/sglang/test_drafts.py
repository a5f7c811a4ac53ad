"""Drafters: their weights, their rows of every token, and what they are counted as, release by release."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from sglang_truth import heads

from oomph.answers.plan import load, parse, run
from oomph.engines.sglang.planner import plan_sglang
from oomph.errors import CannotPlan
from oomph.ir.plan import Plan
from oomph.sources.build import build_model
from oomph.sources.gpu import parse_gpus
from oomph.units import GIB


def planned(command: str, gpus: str, release: str = "0.5.23", head: str = "") -> Plan:
    words = f"python -m sglang.launch_server --model-path {command}".split()
    deployment = replace(parse(words, f"sglang=={release}"), gpus=parse_gpus(gpus))
    if head:
        return plan_sglang(load(deployment.model), deployment, build_model(head, heads()[head]))
    return run(deployment)


def tokens(plan: Plan) -> int:
    assert plan.kv is not None
    return plan.kv.logged_tokens


STANDALONE = "--speculative-algorithm STANDALONE --speculative-draft-model-path Qwen/Qwen3-0.6B"


def test_a_model_of_its_own_brings_all_of_its_weights() -> None:
    plan = planned(f"Qwen/Qwen3-8B {STANDALONE}", "H100")
    weights = plan.ranks[0].terms["weights"]
    alone = planned("Qwen/Qwen3-0.6B", "H100").ranks[0].terms["weights"]
    assert weights.parts["drafter"] == alone.bytes
    assert weights.bytes - planned("Qwen/Qwen3-8B", "H100").ranks[0].terms["weights"].bytes == alone.bytes
    assert plan.resolved["max_running_requests"] == 48  # where nobody says it


def test_a_head_shares_the_embedding() -> None:
    plan = planned("meta-llama/Llama-3.1-8B-Instruct --speculative-algorithm EAGLE3", "H100", head="eagle3-llama-8b")
    drafter = plan.ranks[0].terms["weights"].parts["drafter"]
    model = build_model("eagle3-llama-8b", heads()["eagle3-llama-8b"])
    assert drafter == pytest.approx(model.nbytes, rel=0.05)  # the checkpoint holds no embedding
    plain = planned("meta-llama/Llama-3.1-8B-Instruct --max-running-requests 48", "H100")
    assert tokens(plan) < tokens(plain) * 32 / 33


def test_layers_that_come_with_the_checkpoint() -> None:
    """DeepSeek-V3's draft layer with its experts; DeepSeek-V4-Pro's was posted: 3.07 GiB on each of eight GPUs
    (SemiAnalysisAI/InferenceX issue 2128)."""
    drafting = planned("deepseek-ai/DeepSeek-V3 --tp 8 --speculative-algorithm NEXTN", "8x H200")
    assert drafting.ranks[0].terms["weights"].parts["drafter"] / GIB == pytest.approx(1.97, abs=0.05)
    flags = "--speculative-algorithm EAGLE --speculative-num-steps 3 --speculative-eagle-topk 1"
    pro = planned(f"deepseek-ai/DeepSeek-V4-Pro --tp 8 {flags}", "8x B200")
    assert pro.ranks[0].terms["weights"].parts["drafter"] / GIB == pytest.approx(3.07, abs=0.9)


def test_older_releases_size_the_pools_without_the_drafter() -> None:
    old = planned(f"Qwen/Qwen3-8B {STANDALONE} --mem-fraction-static 0.8", "H100", "0.5.13")
    plain = planned("Qwen/Qwen3-8B --mem-fraction-static 0.8", "H100", "0.5.13")
    assert tokens(old) == tokens(plain)
    parts = old.ranks[0].terms["non_torch"].parts
    assert parts["drafter"] > GIB and parts["drafter's cache"] == 114_688 * (tokens(old) + 1)
    assert tokens(planned(f"Qwen/Qwen3-8B {STANDALONE} --mem-fraction-static 0.8", "H100", "0.5.14")) < tokens(old)


def test_states_that_wait_for_verification_are_allocated() -> None:
    plan = planned("Qwen/Qwen3.6-27B-FP8 --speculative-algorithm NEXTN", "H100")
    stages = {stage.name: stage for stage in plan.ranks[0].stages}
    static = stages["kv_alloc"].resident_bytes
    share = plan.ranks[0].terms["free_before_load"].bytes * plan.resolved["mem_fraction_static"]
    used = plan.ranks[0].total_bytes - plan.ranks[0].terms["free_before_load"].bytes
    assert static - used == pytest.approx(share, rel=0.02)


def test_what_is_not_planned_is_refused_in_a_sentence() -> None:
    with pytest.raises(CannotPlan, match="DFLASH with the draft model some/drafter is not planned"):
        planned("Qwen/Qwen3-8B --speculative-algorithm DFLASH --speculative-draft-model-path some/drafter", "H200")
    plain = planned("Qwen/Qwen3-8B --speculative-draft-model-path some/drafter", "H200")
    assert plain.verdict.outcome == "fits"  # nothing drafts without an algorithm
