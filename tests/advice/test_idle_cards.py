"""GPUs that are there and idle come before a download or another card, and replicas before neither."""

from __future__ import annotations

import shlex

import pytest

from oomph.answers.plan import plan, try_changes
from oomph.search.fit import fit
from oomph.sources.gpu import parse_gpus

SERVERS = {
    "vllm": ("vllm serve {}", "--tensor-parallel-size", "--data-parallel-size"),
    "sglang": ("python -m sglang.launch_server --model-path {}", "--tp-size", "--dp-size"),
    "trtllm": ("trtllm-serve {}", "--tp_size", ""),
}


def _first_fix(command: str, gpu: str) -> str:
    answer = plan(command, gpu=gpu)
    assert answer.verdict.outcome == "fails" and answer.advice is not None
    return answer.advice.fixes[0].change.label


@pytest.mark.parametrize("engine", SERVERS)
@pytest.mark.parametrize(
    ("gpu", "model", "count"), [("2x RTX 4090", "Qwen/Qwen3-14B", 2), ("4x RTX 4090", "Qwen/Qwen3-32B", 4)]
)
def test_the_model_goes_over_the_gpus_that_are_there(engine: str, gpu: str, model: str, count: int) -> None:
    command, width, _ = SERVERS[engine]
    assert _first_fix(command.format(model), gpu).startswith(f"{width} {count}")


def test_a_shorter_context_goes_with_more_gpus_where_these_alone_are_not_enough() -> None:
    answer = plan("vllm serve meta-llama/Llama-3.3-70B-Instruct", gpu="2x H100")
    assert answer.advice is not None
    labels = [fix.change.label for fix in answer.advice.fixes]
    assert labels[0].startswith("--tensor-parallel-size 2 --max-model-len")
    assert any("NVFP4" in label for label in labels)


def test_a_share_between_too_little_and_too_much_is_found_alone_and_beside_more_gpus() -> None:
    command = "python -m sglang.launch_server --model-path {}"
    assert _first_fix(command.format("google/gemma-2-9b-it"), "RTX 3090") == "--mem-fraction-static 0.8"
    assert (
        _first_fix(f"{command.format('Qwen/Qwen3-32B')} --tp 2", "4x RTX 4090")
        == "--tp-size 4 --mem-fraction-static 0.7"
    )


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_replicas_that_do_not_start_become_one_server(engine: str) -> None:
    command, width, copies = SERVERS[engine]
    replicas = f"{command.format('Qwen/Qwen3-14B')} {copies} 2"
    assert _first_fix(replicas, "2x RTX 4090") == f"{width} 2 without {copies}"
    started = plan(f"{command.format('Qwen/Qwen3-0.6B')} {copies} 2", gpu="2x RTX 4090")
    assert started.verdict.outcome == "fits" and started.advice is not None
    assert not any(judged.change.lever == "replicas" for judged in (*started.advice.helps, *started.advice.useless))


def test_replicas_of_sglang_need_gpus_of_their_own() -> None:
    """data_parallel_controller.py: each starts behind the GPUs of the one before; groups of the attention do not."""
    command = "python -m sglang.launch_server --model-path Qwen/Qwen3-0.6B --tp 2 --dp 2"
    assert "starts 4 ranks and there are 2" in plan(command, gpu="2x RTX 4090", advise=False).verdict.message
    assert plan(f"{command} --enable-dp-attention", gpu="2x RTX 4090", advise=False).ranks
    alone = plan("python -m sglang.launch_server --model-path Qwen/Qwen3-0.6B --dp 2", gpu="RTX 4090", advise=False)
    assert len(alone.deployment.gpus) == 2


@pytest.mark.parametrize(("gpu", "most"), [("RTX 4090 used 14GiB", 0.41), ("DGX Spark used 56GiB", 0.45)])
def test_beside_what_holds_most_of_a_card_a_smaller_share_is_found(gpu: str, most: float) -> None:
    """Another model on the card, a desktop, the system itself: fit's shares began at one half."""
    answer = fit("Qwen/Qwen3-8B", gpu, context=8192, users=1)
    assert answer.pick is not None and answer.pick.plan.verdict.outcome == "fits"
    assert answer.pick.plan.resolved["gpu_memory_utilization"] <= most
    advice = plan("vllm serve Qwen/Qwen3-8B-AWQ", gpu=gpu).advice
    assert advice is not None and advice.fixes[0].change.flags["gpu_memory_utilization"] <= most


def test_nobody_is_told_to_end_the_system_itself() -> None:
    for gpu, can_end in (("DGX Spark", False), ("Jetson Orin NX 16GB", False), ("RTX 4090 used 14GiB", True)):
        table = try_changes(plan("vllm serve Qwen/Qwen3-0.6B", gpu=gpu, advise=False))
        assert any(row.judged.change.lever == "used_memory" for row in table.rows) is can_end


def test_the_search_that_a_plan_names_is_on_the_card_as_it_is() -> None:
    for gpu in ("RTX 4090 used 22GiB", "DGX Spark used 110GiB", "RTX 4060"):
        advice = plan("vllm serve Qwen/Qwen3-32B", gpu=gpu).advice
        assert advice is not None
        words = shlex.split(advice.next_step.partition(", or ")[0])
        assert parse_gpus(words[words.index("--gpu") + 1]) == parse_gpus(gpu)


@pytest.mark.parametrize(
    ("gpu", "command", "all_of_them"),
    [
        ("2x RTX 4090", "vllm serve Qwen/Qwen3-32B --max-model-len 32768", "--tensor-parallel-size 2"),
        (
            "4x RTX 3090",
            "vllm serve meta-llama/Llama-3.3-70B-Instruct --max-model-len 32768",
            "--tensor-parallel-size 4",
        ),
    ],
)
def test_every_smaller_checkpoint_uses_the_idle_cards_and_keeps_the_context(
    gpu: str, command: str, all_of_them: str
) -> None:
    advice = plan(command, gpu=gpu).advice
    assert advice is not None
    fixes = advice.fixes
    assert len(fixes) >= 3
    for fix in fixes:
        assert all_of_them in fix.command and "--max-model-len 32768" in fix.command
        assert "a download of" in fix.change.cost
