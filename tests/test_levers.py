"""The flags that a plan offers: each was planned, exists in that release, and needs no more GPUs than there are."""

from __future__ import annotations

import io

import pytest

from oomph.commands import parse_command
from oomph.facts.vllm.versions import NEWEST
from oomph.ir.plan import Plan
from oomph.levers import Lever, levers, mildest, useless
from oomph.plan import load, plan, run
from oomph.report.text import print_plan


def made(command: str, gpu: str, engine: str = "vllm==0.21.0") -> Plan:
    return plan(command, gpu=gpu, engine=engine)


def found(p: Plan) -> list[Lever]:
    return levers(p, load(p.deployment.model), run)


def screen(p: Plan) -> str:
    out = io.StringIO()
    print_plan(p, out=out)
    return out.getvalue()


@pytest.mark.parametrize("version", ["0.11.0", "0.21.0", NEWEST])
@pytest.mark.parametrize(
    ("command", "gpu"),
    [("vllm serve Qwen/Qwen3-8B", "RTX 4090 used 3GiB"), ("vllm serve openai/gpt-oss-20b", "RTX 5070 Ti")],
)
def test_what_fits_is_a_command_of_that_release(command: str, gpu: str, version: str) -> None:
    for x in found(made(command, gpu, f"vllm=={version}")):
        again = parse_command(f"{command} {x.label}".split(), engine=f"vllm=={version}")
        if x.fits:
            assert plan(again, gpu=gpu).fits, x.label


def test_too_little_free_memory_needs_a_lower_share_and_a_smaller_cache() -> None:
    p = made("vllm serve Qwen/Qwen3-8B", "RTX 4090 used 3GiB")
    assert p.verdict.stage == "startup_free_memory"
    best = next(x for x in found(p) if x.fits)
    assert "gpu_memory_utilization" in best.flags and len(best.flags) == 2
    assert "--gpu-memory-utilization" not in useless(found(p))


def test_a_text_model_is_not_told_to_leave_out_its_images() -> None:
    assert "--language-model-only" not in useless(found(made("vllm serve Qwen/Qwen3-32B", "RTX 4090")))


def test_data_parallel_ranks_hold_the_other_gpus() -> None:
    labels = [x.label for x in found(made("vllm serve Qwen/Qwen3-8B -dp 4", "4x H100"))]
    assert labels and not any("tensor-parallel" in x for x in labels)


def test_a_plan_that_fits_is_offered_tokens_not_offloading() -> None:
    p = made("vllm serve Qwen/Qwen3-8B", "H100")
    text = screen(p)
    assert "More" in text and "--kv-cache-dtype fp8" in text and "--cpu-offload-gb" not in text
    assert "--max-num-seqs 1 " not in text


def test_mildest_keeps_one_setting_of_each_flag() -> None:
    names = [x.label.split()[0] for x in mildest(found(made("vllm serve Qwen/Qwen3-8B", "H100")))]
    assert len(names) == len(set(names))


def test_fused_all_reduce_is_a_lever_where_it_takes_memory() -> None:
    """Three buffers of 512 MiB on Hopper with several ranks, 0.17 to 0.24 (docs/field.md)."""
    label = "--compilation-config.pass_config.fuse_allreduce_rms false"
    command = "vllm serve meta-llama/Llama-3.3-70B-Instruct -tp 4"
    lever = next(x for x in found(made(command, "4x H200")) if x.label == label)
    assert lever.gain_bytes == 3 * 512 << 20 and lever.fits
    before, after = (made(c, "4x H200").ranks[0].terms["available_kv"].bytes for c in (command, f"{command} {label}"))
    assert after - before == 3 * 512 << 20
    for gpu, release in (("4x L40S", "0.21.0"), ("4x H200", "0.16.0")):
        assert not any(x.label == label for x in found(made(command, gpu, f"vllm=={release}")))
