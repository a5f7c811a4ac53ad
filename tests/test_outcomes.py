"""Around the edge of a deployment: fits, close and fails come in this order, and every command says the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from oomph import plan
from oomph.cli.commands.plan import command

CASES = (
    ("RTX 4090", "Qwen/Qwen3-8B"),
    ("H100", "Qwen/Qwen3-32B"),
    ("2x RTX 3090", "Qwen/Qwen3-14B"),
    ("RTX 5090", "openai/gpt-oss-20b"),
    ("A100 80GB", "google/gemma-3-27b-it"),
)
ORDER = ("fits", "close", "fails")


def outcome(gpu: str, model: str, length: int) -> str:
    layout = " -tp 2" if gpu.startswith("2x") else ""
    return plan(f"vllm serve {model} --max-model-len {length}{layout}", gpu=gpu).verdict.outcome


@pytest.mark.parametrize(("gpu", "model"), CASES)
def test_the_close_lengths_lie_between_the_certain_ones(gpu: str, model: str) -> None:
    longest = plan(f"vllm serve {model} --max-model-len auto" + (" -tp 2" if gpu[0] == "2" else ""), gpu=gpu)
    edge = longest.resolved["max_model_len"]
    lengths = [max(16, round(edge * share / 100)) for share in range(40, 160, 10)]
    outcomes = [outcome(gpu, model, length) for length in lengths]
    assert [ORDER.index(o) for o in outcomes] == sorted(ORDER.index(o) for o in outcomes), outcomes


def test_a_close_call_says_so_in_every_form(tmp_path: Path) -> None:
    words = ["--gpu", "RTX 4090", "--engine", "vllm==0.32.0"]
    serve = ["--", "vllm", "serve", "Qwen/Qwen3-8B", "--max-model-len", "32000"]
    text = CliRunner().invoke(command, [*words, *serve], standalone_mode=False)
    assert "TOO CLOSE TO CALL" in text.output and "give or take" in text.output and text.return_value == 4
    fields = json.loads(CliRunner().invoke(command, [*words, "--json", *serve], standalone_mode=False).output)
    verdict = fields["verdict"]
    assert verdict["outcome"] == "close" and verdict["sure"] is False
    assert verdict["margin_bytes"]["low"] < 0 < verdict["margin_bytes"]["high"]
    assert verdict["deciding_term"] in fields["ranks"][0]["terms"]


def test_a_margin_asks_for_room() -> None:
    serve = "vllm serve Qwen/Qwen3-8B --max-model-len 8192"
    assert plan(serve, gpu="RTX 4090").verdict.outcome == "fits"
    assert plan(serve, gpu="RTX 4090", margin="10GiB").verdict.outcome == "close"
    assert plan(serve, gpu="RTX 4090", margin="90%").verdict.outcome == "close"
    assert plan(serve, gpu="RTX 4090", margin="1%").verdict.outcome == "fits"


@pytest.mark.parametrize("release", ["0.21.0", "0.28.0", "0.29.0", "0.32.0"])
def test_nothing_is_sure_within_two_blocks_of_the_edge(release: str) -> None:
    """Since 0.29.0 the check keeps one block back (kv_cache_utils.py): its own edge is a block before the pool's."""
    pool = plan(
        "vllm serve Qwen/Qwen3-8B --max-model-len 8192", gpu="RTX 4090", engine=f"vllm=={release}", advise=False
    ).kv
    assert pool is not None
    tokens = pool.num_blocks * pool.block_size
    for length in range(tokens - 40, tokens + 41, 8):
        command = f"vllm serve Qwen/Qwen3-8B --max-model-len {length}"
        verdict = plan(command, gpu="RTX 4090", engine=f"vllm=={release}", advise=False).verdict
        assert (verdict.outcome, verdict.sure) == ("close", False), length
