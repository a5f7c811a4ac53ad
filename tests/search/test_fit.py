"""fit(): the documented cases, what is printed, and what is said where nothing fits."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys

import pytest

import oomph
from oomph.answers.plan import load, run
from oomph.errors import CommandError, OomphError
from oomph.ir.hardware import Device
from oomph.report.terminal import command_lines
from oomph.search.fit import PREFERENCES, Fit, fit
from oomph.search.outcome import judge
from oomph.search.request import Options, Want, context_grid, context_ladder, layouts, user_levels
from oomph.sources.gpu import parse_gpus


def made(model: str, gpu: str, want: Want, **more: bool) -> Fit:
    found = fit(model, parse_gpus(gpu), want, **more)  # type: ignore[arg-type]
    for a in (*found.front, *found.nearest):
        d = a.plan.deployment
        again = run(d, load(d.model))
        assert again.fits
        assert judge(again, margin=True).kind == "ok"
        assert again.resolved["max_model_len"] == a.point.context
        assert again.kv is not None
        assert again.kv.max_concurrency >= a.point.users
    return found


# The five cases of docs/fit.md -------------------------------------------------------------------------------------


def test_gemma_4_31b_on_two_16_gb_cards() -> None:
    """Only checkpoints whose attention is 4-bit too; NVIDIA's NVFP4, half of it BF16, does not load."""
    found = made("gemma-4-31b-it", "2x RTX 5070 Ti", Want(prefer="context"))
    assert found.met
    assert found.pick is not None
    p = found.pick.point
    assert p.arm.model != "nvidia/Gemma-4-31B-IT-NVFP4"
    assert p.arm.layout.gpus == 2
    assert p.context > 0.87 * max(a.point.context for a in found.front)
    assert p.context > 100_000
    refused = {r.checkpoint: r.why for r in found.refused}
    assert "loading the weights" in refused["nvidia/Gemma-4-31B-IT-NVFP4"]
    alone = made("cyankiwi/gemma-4-31B-it-AWQ-4bit", "2x RTX 5070 Ti", Want(prefer="context"), only=True)
    assert alone.pick is not None
    assert alone.pick.point.context > 100_000


def test_qwen_27b_with_mtp_on_one_rtx_5090() -> None:
    found = made("Qwen3.6-27B", "RTX 5090", Want(16384, options=Options(drafts=(1,))))
    assert found.pick is not None
    flags = found.pick.plan.deployment.flags
    assert flags["speculative_config"] == {"method": "mtp", "num_speculative_tokens": 1}
    assert flags["max_model_len"] >= 16384
    assert "draft model" in found.pick.plan.ranks[0].terms["weights"].parts


def test_llama_70b_on_two_a100() -> None:
    found = made("Llama-3.1-70B-Instruct", "2x A100 80GB", Want())
    assert found.pick is not None
    assert found.pick.point.arm.layout.tp == 2
    assert found.pick.point.arm.model == "meta-llama/Llama-3.1-70B-Instruct"  # as named, with enough context
    assert found.pick.point.context > 32768


def test_gpt_oss_120b_on_one_h100() -> None:
    found = made("gpt-oss-120b", "H100", Want())
    assert found.pick is not None
    assert found.pick.point.context == 131072
    assert not found.pick.point.arm.eager
    assert min(a.point.quality for a in found.front) == 0.0  # published in four bits: nothing is lost


def test_llama_8b_on_a_t4() -> None:
    """No bf16: float16. FP8 weights run through Marlin (compressed_tensors_w8a16_fp8.py: from 7.5), an FP8 KV cache
    does not; the BF16 checkpoint is larger than the card."""
    found = made("Llama-3.1-8B-Instruct", "T4", Want())
    assert found.pick is not None
    for a in found.front:
        assert a.plan.resolved["dtype"] == "float16"
        assert "kv_cache_dtype" not in a.plan.deployment.flags
    refused = {r.checkpoint: r.why for r in found.refused}
    assert "more than all GPUs have" in refused["meta-llama/Llama-3.1-8B-Instruct"]


# Requests ------------------------------------------------------------------------------------------------------------


def test_what_is_asked_is_there() -> None:
    found = made("Qwen/Qwen3-8B", "RTX 4090", Want(8192, 4))
    assert found.met
    assert all(a.point.context >= 8192 and a.point.users >= 4 for a in found.front)


@pytest.mark.parametrize("prefer", PREFERENCES)
def test_preference_decides(prefer: str) -> None:
    found = made("Qwen/Qwen3-8B", "RTX 4090", Want(4096, prefer=prefer))
    assert found.pick is not None
    own = [a for a in found.front if a.point.arm.model == found.model]  # the checkpoint that was named is kept
    p = found.pick.point
    assert p.arm.model == found.model
    if prefer in ("context", "users"):
        assert getattr(p, prefer) >= 0.87 * max(getattr(a.point, prefer) for a in own)
    elif prefer == "quality":
        assert p.quality == min(a.point.quality for a in own)
    else:
        assert found.pick.relative_speed >= 0.95 * max(a.relative_speed for a in own)


def test_not_met_says_the_nearest() -> None:
    found = made("Llama-3.1-8B-Instruct", "T4", Want(131072, 4))
    assert not found.met
    assert found.nearest
    assert found.pick in found.nearest
    text = found.text(width=100)
    assert "NOT MET" in text
    assert "The nearest that fits" in text


def test_longer_than_the_model_takes() -> None:
    found = made("Qwen/Qwen3-8B", "H100", Want(10_000_000))
    assert not found.met and found.longest == 40960
    assert found.pick is not None and found.pick.point.context == 40960
    assert "the model ends at 40,960 tokens" in found.text(width=100)


def test_nearest_to_a_context_beyond_the_models_is_its_own() -> None:
    """C4: plan takes 40,960 tokens there, ten requests of them."""
    found = made("Qwen/Qwen3-8B", "H100", Want(65536), only=True)
    assert found.pick is not None and found.pick.point.context == 40960 and found.pick.point.users >= 9
    assert "--max-num-seqs" not in found.to_dict()["pick"]["command"]


def test_nothing_fits() -> None:
    found = made("openai/gpt-oss-120b", "2GiB", Want())
    assert not found.met
    assert found.pick is None
    assert "NOTHING FITS" in found.text(width=100)


def test_offload_is_the_last_resort() -> None:
    found = made("meta-llama/Llama-3.1-8B-Instruct", "T4", Want(4096), only=True)
    assert found.pick is not None
    assert found.pick.plan.deployment.flags["cpu_offload_gb"] == 2
    larger = made("meta-llama/Llama-3.1-8B-Instruct", "RTX 4090", Want(4096), only=True)
    assert all("cpu_offload_gb" not in a.plan.deployment.flags for a in larger.front)


def test_explain_names_the_next_step() -> None:
    found = made("Qwen/Qwen3-8B", "RTX 4090", Want(8192), explain=True, only=True)
    changes = {n.change: n.why for n in found.neighbours}
    assert any(c.startswith("--max-num-seqs") for c in changes)
    assert any("short" in why or "room for" in why or "margin" in why for why in changes.values())


def test_json_is_the_same_and_complete() -> None:
    found = made("Qwen/Qwen3-8B", "RTX 4090", Want(8192, 2))
    plain = json.loads(found.to_json())
    assert plain["met"] is True
    assert plain["pick"]["command"].startswith("vllm serve ")
    assert plain["pick"]["plan"]["verdict"]["fits"] is True
    assert len(plain["front"]) == len(found.front)


def test_commands_break_between_flags_only() -> None:
    words = ["vllm", "serve", "m", "--speculative-config", '{"a": 1, "b": "2 --c"}', "--max-model-len", "4096"]
    lines = command_lines(shlex.join(words), 50, 4)
    assert len(lines) > 1 and shlex.split("\n".join(lines).replace("\\\n", "")) == words


def test_bad_requests_are_refused() -> None:
    with pytest.raises(CommandError):
        fit("Qwen/Qwen3-8B", parse_gpus("H100"), Want(prefer="beauty"))
    with pytest.raises(CommandError):
        fit("Qwen/Qwen3-8B", ())
    with pytest.raises(OomphError):
        fit("no-such-model-anywhere", parse_gpus("H100"))


def test_command_line() -> None:
    run_it = [sys.executable, "-m", "oomph", "fit", "Qwen/Qwen3-8B", "--gpu", "RTX 4090", "--context", "8k"]
    done = subprocess.run([*run_it, "--emit", "command"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("vllm serve ")
    wrong = subprocess.run([*run_it[:-1], "much"], capture_output=True, text=True, timeout=60)
    assert wrong.returncode == 2
    assert "--context 'much'" in wrong.stderr


# The space ---------------------------------------------------------------------------------------------------------


def test_grids_rise_and_hold_what_is_asked() -> None:
    for grid in (context_ladder(5000, 131072), context_grid(131072, 5000), user_levels(37)):
        assert list(grid) == sorted(set(grid))
    assert 5000 in context_ladder(5000, 131072)
    assert 131072 in context_ladder(5000, 131072)
    assert 37 in user_levels(37)
    assert context_ladder(8192, 4096) == (8192,)


def test_layouts_use_the_gpus() -> None:
    shapes = layouts(4, moe=True)
    assert {(s.tp, s.pp) for s in shapes} == {(4, 1), (2, 2), (1, 4), (2, 1), (1, 1)}
    assert any(s.ep for s in shapes)
    assert not any(s.ep for s in layouts(4, moe=False))


@pytest.mark.parametrize("version", ["0.9.2", "0.11.0", "0.16.0", "0.21.0"])
def test_only_flags_that_the_release_has(version: str) -> None:
    found = fit("gemma-3-27b-it", "RTX 3090", context=4096, engine=f"vllm=={version}")
    from oomph.facts.vllm.flags import options_of

    assert found.front
    for a in found.front:
        assert a.plan.deployment.flags.keys() <= options_of(version).by_field.keys()


def test_more_memory_is_never_worse() -> None:
    """Weights in host memory, then on the GPU, as the card grows; and from there on the context only grows."""
    ranks, longest = [], []
    for mib in range(6400, 8600, 200):
        card = Device("card", mib << 20, (8, 9), sm_count=60, bandwidth=10**12)
        found = fit("Qwen/Qwen3-8B-AWQ", (card,), context=2048, only=True)
        assert found.pick is not None
        offloaded = "cpu_offload_gb" in found.pick.plan.deployment.flags
        ranks.append(0 if offloaded else 2)
        longest.append(max(a.point.context for a in found.front) if ranks[-1] == 2 else 0)
    assert ranks == sorted(ranks)
    assert ranks[-1] == 2
    assert longest == sorted(longest)


@pytest.mark.parametrize(("gpu", "free"), [("H200", 14), ("H200", 10), ("RTX 4090", 4), ("B300", 12)])
def test_little_that_is_free_of_a_large_card_is_used(gpu: str, free: int) -> None:
    """A share below a tenth is a share: what others hold is no reason for "nothing fits"."""
    found = made("Qwen/Qwen3-0.6B", f"{gpu} free {free}GiB", Want(context=8192))
    assert found.met
    plan = found.front[0].plan
    share = plan.resolved["gpu_memory_utilization"]
    assert share * plan.ranks[0].total_bytes < free * 2**30


def test_code_of_a_repository_is_trusted_in_the_command_and_named_in_the_plan() -> None:
    """MiMo-7B was picked without the flag on an H200, and vLLM 0.32.0 ended where it reads the configuration."""
    found = made("XiaomiMiMo/MiMo-7B-Base", "RTX 4090", Want(context=8192))
    command = found.to_dict()["pick"]["command"]
    assert "--trust-remote-code" in command.split()
    warned = [line for line in oomph.plan(command, gpu="RTX 4090").warnings if "--trust-remote-code" in line]
    bare = oomph.plan(command.replace(" --trust-remote-code", ""), gpu="RTX 4090").warnings
    assert not warned and any("--trust-remote-code" in line for line in bare)
    assert (
        "--trust-remote-code" not in made("Qwen/Qwen3-8B", "RTX 4090", Want(context=8192)).to_dict()["pick"]["command"]
    )


def test_every_command_trusts_the_same_code() -> None:
    model, card = "XiaomiMiMo/MiMo-7B-Base", "RTX 4090"
    cards = oomph.gpus(model, cards=[card], context=8192).to_json()
    sides = oomph.compare(model, gpu=card, context=8192, engines=["vllm", "sglang"]).to_json()
    assert cards.count("--trust-remote-code") >= 1 and sides.count("--trust-remote-code") >= 2
