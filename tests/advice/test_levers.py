"""What a plan advises: each change was planned, exists in that release, and is read again from its printed command."""

from __future__ import annotations

import io

import pytest

from oomph.answers.plan import plan, try_changes
from oomph.commands import parse_command
from oomph.facts.vllm.versions import NEWEST
from oomph.ir.advice import Advice, Judged
from oomph.ir.plan import Plan
from oomph.report.views import print_answer


def planned(command: str, gpu: str, engine: str = "vllm==0.21.0") -> Plan:
    return plan(command, gpu=gpu, engine=engine)


def advice(of: Plan) -> Advice:
    assert of.advice is not None
    return of.advice


def tried(of: Plan) -> dict[str, Judged]:
    return {row.label: row.judged for row in try_changes(of).rows}


def screen(of: Plan) -> str:
    out = io.StringIO()
    print_answer(of, out=out)
    return out.getvalue()


@pytest.mark.parametrize("version", ["0.11.0", "0.21.0", NEWEST])
@pytest.mark.parametrize(
    ("command", "gpu"),
    [("vllm serve Qwen/Qwen3-8B", "RTX 4090 used 3GiB"), ("vllm serve openai/gpt-oss-20b", "RTX 5070 Ti")],
)
def test_a_fix_is_a_command_of_that_release(command: str, gpu: str, version: str) -> None:
    before = planned(command, gpu, f"vllm=={version}")
    assert advice(before).fixes
    for fix in advice(before).fixes:
        again = parse_command([fix.command], engine=f"vllm=={version}")
        gpus = fix.change.gpus or before.deployment.gpus
        assert plan(again, gpu=[{"name": g.name, "used_bytes": g.used_bytes} for g in gpus]).verdict.outcome == "fits"


def test_too_little_free_memory_needs_a_lower_share_and_a_smaller_cache() -> None:
    before = planned("vllm serve Qwen/Qwen3-8B", "RTX 4090 used 3GiB")
    assert before.verdict.stage == "startup_free_memory"
    best = advice(before).fixes[0]
    assert best.change.flags.keys() == {"gpu_memory_utilization", "max_model_len"}


def test_a_text_model_is_not_told_to_leave_out_its_images() -> None:
    assert "--language-model-only" not in tried(planned("vllm serve Qwen/Qwen3-32B", "RTX 4090"))


def test_data_parallel_ranks_hold_the_other_gpus() -> None:
    table = tried(planned("vllm serve Qwen/Qwen3-8B -dp 4", "4x H100"))
    assert table and not any(judged.change.kind == "layout" for judged in table.values())


def test_a_plan_that_fits_is_offered_tokens_not_offloading() -> None:
    text = screen(planned("vllm serve Qwen/Qwen3-8B", "H100"))
    assert "More" in text and "--kv-cache-dtype fp8" in text and "--cpu-offload-gb" not in text
    assert "--max-num-seqs 1 " not in text


def test_fused_all_reduce_is_a_lever_where_it_takes_memory() -> None:
    """Three buffers of 512 MiB on Hopper with several ranks, 0.17 to 0.24 (docs/field.md)."""
    label = "--compilation-config.pass_config.fuse_allreduce_rms false"
    command = "vllm serve meta-llama/Llama-3.3-70B-Instruct -tp 4"
    lever = tried(planned(command, "4x H200"))[label]
    assert lever.gain_bytes == 3 * 512 << 20 and lever.outcome == "fits"
    before, after = (
        planned(c, "4x H200").ranks[0].terms["available_kv"].bytes for c in (command, f"{command} {label}")
    )
    assert after - before == 3 * 512 << 20
    for gpu, release in (("4x L40S", "0.21.0"), ("4x H200", "0.16.0")):
        assert label not in tried(planned(command, gpu, f"vllm=={release}"))


def test_offloaded_weights_are_the_last_resort() -> None:
    fixes = advice(planned("vllm serve deepseek-ai/DeepSeek-R1 -tp 8", "8x H100", f"vllm=={NEWEST}")).fixes
    kinds = [fix.change.kind for fix in fixes]
    assert kinds[-1] == "offload" and "hardware" in kinds


def test_nothing_else_than_the_question_is_called_useless() -> None:
    """Only flags that the user set, or that the engine's own message recommends."""
    text = screen(planned("vllm serve Qwen/Qwen3-32B", "RTX 4090", f"vllm=={NEWEST}"))
    useless = [line for line in text.splitlines() if "Useless" in line]
    assert len(useless) == 1 and "--gpu-memory-utilization" in useless[0]
    own = screen(planned("vllm serve Qwen/Qwen3-32B --kv-cache-dtype fp8_e4m3 --max-num-seqs 16", "RTX 4090"))
    assert "--max-num-seqs: the number of sequences is not read before the weights are loaded" in " ".join(own.split())


def test_a_combination_is_searched_where_no_single_flag_is_enough() -> None:
    before = planned(
        "vllm serve Qwen/Qwen3-8B --gpu-memory-utilization 0.7 --max-model-len 32768", "RTX 4090 used 1GiB"
    )
    best = advice(before).fixes[0]
    assert best.outcome == "fits" and best.change.kind == "flag"
    assert plan(best.command, gpu="RTX 4090 used 1GiB", engine="vllm==0.21.0").verdict.outcome == "fits"


def test_a_share_that_starts_holds_a_request_where_a_higher_one_does() -> None:
    """SGLang starts with a pool for 1,959 tokens at 0.7, which serves nobody who sends 8,192."""
    command = "python -m sglang.launch_server --model-path meta-llama/Llama-3.1-8B-Instruct --context-length 8192"
    fixes = {fix.change.lever: fix for fix in advice(planned(command, "L4", "sglang==0.5.23")).fixes}
    assert fixes["mem_fraction_static_up"].concurrency >= 1
