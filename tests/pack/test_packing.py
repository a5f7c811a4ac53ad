"""Services on cards: the posted ways in which two of them meet, and what must always hold."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from oomph.answers.plan import plan
from oomph.cli.commands.pack import command
from oomph.commands import parse_command
from oomph.ir.deployment import Deployment
from oomph.pack.pack import Packed, pack
from oomph.sources.gpu import parse_gpus

SOLVERS = ("plain", "")


def services(*commands: str) -> dict[str, Deployment]:
    return {f"s{i}": parse_command(text.split(), engine="vllm==0.21.0") for i, text in enumerate(commands)}


def packed(gpu: str, *commands: str, solver: str = "plain", ram: int = 0, asleep: tuple[str, ...] = ()) -> Packed:
    return pack(services(*commands), parse_gpus(gpu), solver=solver, ram=ram, asleep=asleep)


SMALL = "vllm serve Qwen/Qwen3-4B --max-model-len 8192 --max-num-seqs 32"
LARGE = "vllm serve Qwen/Qwen3-8B --max-model-len 16384 --max-num-seqs 32"


@pytest.mark.parametrize("solver", SOLVERS)
def test_two_services_with_the_default_share_need_other_shares(solver: str) -> None:
    """0.9 of one card each: the second start fails at the free-memory check (vllm#14376, #10533)."""
    found = packed("H100", SMALL, LARGE, solver=solver)
    assert found.outcome == "fits" and not found.as_written
    assert sum(each.share for each in found.placed) < 1
    alone = plan(f"{LARGE}", gpu="H100 used 70GiB", engine="vllm==0.21.0", advise=False)
    assert alone.verdict.stage == "startup_free_memory"


def test_shares_that_add_up_are_taken_as_written() -> None:
    found = packed("H100", SMALL + " --gpu-memory-utilization 0.4", LARGE + " --gpu-memory-utilization 0.5")
    assert found.as_written and found.outcome == "fits"


def test_shares_above_one_together_are_not_taken_as_written() -> None:
    """A compose file with 0.6 and 0.5 on one GPU."""
    found = packed("H100", SMALL + " --gpu-memory-utilization 0.6", LARGE + " --gpu-memory-utilization 0.5")
    assert found.outcome == "fits" and not found.as_written


def at_release(version: str, *commands: str) -> dict[str, Deployment]:
    return {f"s{i}": parse_command(text.split(), engine=f"vllm=={version}") for i, text in enumerate(commands)}


TINY = "vllm serve Qwen/Qwen3-0.6B --max-model-len 1024 --gpu-memory-utilization"


@pytest.mark.parametrize(("second", "version", "as_written"), [
    (0.2, "0.8.5", False), (0.3, "0.8.5", True), (0.2, "0.9.2", True),
])  # fmt: skip
def test_a_budget_that_counts_neighbours(second: float, version: str, as_written: bool) -> None:
    """vllm#14376: 0.2 and 0.2 on an L40S fail, 0.2 and 0.3 work; fixed in 0.9.1."""
    services = at_release(version, f"{TINY} 0.2", f"{TINY} {second}")
    found = pack(services, parse_gpus("L40S"), solver="plain")
    assert (found.outcome, found.as_written) == ("fits", as_written)


def test_two_servers_that_want_the_whole_card() -> None:
    """vllm 0.9.2, two of Llama-3.1-8B on one A100 80GB: the second finds 67 of 71 GiB free (kvcached#110)."""
    llama = "vllm serve meta-llama/Llama-3.1-8B-Instruct"
    found = pack(at_release("0.9.2", llama, llama), parse_gpus("A100 80GB"), solver="plain")
    assert found.outcome == "fits" and not found.as_written


def test_two_cards_take_one_each() -> None:
    found = packed("2x RTX 4090", SMALL, LARGE)
    assert {each.cards for each in found.placed} == {(0,), (1,)}
    for each in found.placed:
        assert each.deployment.environment["CUDA_VISIBLE_DEVICES"] == str(each.cards[0])


def test_what_does_not_fit_says_by_how_much() -> None:
    found = packed("RTX 4090", SMALL, LARGE)
    assert found.outcome == "fails" and "together they take at least" in found.reasons[0]
    alone = packed("RTX 4090", LARGE.replace("8B", "32B"), SMALL).reasons[0]
    assert alone.startswith("s0 does not start even alone on RTX 4090: out of memory while loading the weights, 38")


def test_a_sleeping_service_makes_room() -> None:
    both = packed("RTX 4090", SMALL, LARGE + " --enable-sleep-mode", asleep=("s1",))
    assert both.outcome == "fits"
    assert both.placed[0].name == "s1", "it has to start while the card is empty"


def test_host_memory_of_all_together_counts() -> None:
    commands = [f"{text} --kv-offloading-size 40" for text in (SMALL, LARGE)]
    assert packed("H100", *commands, ram=192 << 30).outcome == "fits"
    assert packed("H100", *commands, ram=64 << 30).outcome == "fails"


def test_every_start_is_planned_as_it_will_be() -> None:
    found = packed("H100", SMALL, LARGE, "vllm serve Qwen/Qwen3-0.6B --max-model-len 4096")
    used = 0
    for each in found.placed:
        again = plan(each.deployment, gpu=f"H100 used {used / (1 << 30):.3f}GiB", advise=False)
        assert again.verdict.outcome == "fits"
        used += each.bytes_per_card
    assert used < parse_gpus("H100")[0].total_bytes


COMPOSE = """
services:
  chat:
    image: vllm/vllm-openai:v0.28.0
    command: ["--model", "Qwen/Qwen3-8B", "--max-model-len", "16384", "--gpu-memory-utilization", "0.6"]
  embed:
    image: vllm/vllm-openai:v0.28.0
    command: ["--model", "Qwen/Qwen3-4B", "--max-model-len", "8192", "--gpu-memory-utilization", "0.5"]
"""


def test_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "compose.yaml"
    file.write_text(COMPOSE)
    result = CliRunner().invoke(command, [str(file), "--gpu", "H100", "--json"], standalone_mode=False)
    answer = json.loads(result.stdout)
    assert answer["fits"] and {s["name"] for s in answer["services"]} == {"embed", "chat"}
    assert all("--gpu-memory-utilization" in s["command"] for s in answer["services"])
    text = CliRunner().invoke(command, [str(file), "--gpu", "H100"], standalone_mode=False)
    assert "FITS" in text.stdout and "1. " in text.stdout


SPARK = ("vllm serve openai/gpt-oss-120b", "vllm serve Qwen/Qwen3-Embedding-0.6B --runner pooling")


def test_what_holds_as_expected_only_is_close() -> None:
    """A GB10's context and graphs are known to some GiB: the least that holds for certain is more than there is."""
    deployments = {f"s{i}": parse_command(text.split(), engine="vllm==0.32.0") for i, text in enumerate(SPARK)}
    found = pack(deployments, parse_gpus("DGX Spark"), solver="plain")
    assert found.outcome == "close" and len(found.placed) == 2 and not found.proven
    text = found.text()
    assert "TOO CLOSE TO CALL" in text and "nothing better exists" not in text


def test_services_that_no_share_holds_are_told_what_their_caches_take() -> None:
    long = "vllm serve Qwen/Qwen3-Embedding-4B --runner pooling"
    found = packed("RTX 4090", long, long)
    assert found.outcome == "fails" and "a shorter one needs less" in found.text()
    assert "nothing better exists" not in found.text()
    short = f"{long} --max-model-len 2048"
    assert packed("RTX 4090", short, short).outcome == "fits"


def test_nothing_better_is_said_by_a_measure() -> None:
    as_written = packed("H100", SMALL + " --gpu-memory-utilization 0.4", LARGE + " --gpu-memory-utilization 0.5")
    assert as_written.as_written and "nothing better exists" not in as_written.text()
    filled = packed("H100", SMALL, LARGE)
    assert "nothing better exists by this measure" in " ".join(filled.text().split())
