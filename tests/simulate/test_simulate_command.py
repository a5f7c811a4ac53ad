from __future__ import annotations

import json
from pathlib import Path

import pytest

import oomph.simulate
from oomph.cli.main import main
from oomph.errors import CommandError
from oomph.facts.vllm.versions import NEWEST
from oomph.simulate.api import parse_sweep
from oomph.simulate.workloads import SHAPES, Arrivals, Drawn

QWEN = ["--gpu", "H100", "--engine", "vllm==0.21.0"]
SERVE = ["--", "vllm", "serve", "Qwen/Qwen3-8B", "--max-num-seqs", "16"]


def oomph_simulate(capsys: pytest.CaptureFixture[str], *args: str, code: int = 0) -> str:
    with pytest.raises(SystemExit) as end:
        main(["simulate", *QWEN, *args, *SERVE])
    assert (end.value.code or 0) == code
    out = capsys.readouterr()
    return out.out if code == 0 else out.err


def test_users_held(capsys: pytest.CaptureFixture[str]) -> None:
    text = oomph_simulate(capsys, "--ttft", "1")
    assert "USERS" in text and "KV cache" in text and "roofline" in text


def test_json_of_a_load(capsys: pytest.CaptureFixture[str]) -> None:
    made = json.loads(oomph_simulate(capsys, "--users", "24", "--json"))
    result = made["result"]
    assert result["max_running"] == 16 and "max_num_seqs" in result["binds"]
    assert result["done"] == 24 * 20 and made["scheduler"]["max_num_seqs"] == 16


def test_sweep_and_pictures(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    svg, html = tmp_path / "s.svg", tmp_path / "s.html"
    text = oomph_simulate(
        capsys, "--sweep", "users=1..8", "--prompt", "200", "--output", "20", "--svg", str(svg), "--html", str(html)
    )
    assert "Held of these" in text and "8" in text
    assert svg.read_text().startswith("<svg") and "<pre>" in html.read_text()


def test_two_releases(capsys: pytest.CaptureFixture[str]) -> None:
    text = oomph_simulate(capsys, "--to", f"vllm=={NEWEST}", "--users", "4", "--requests", "8")
    assert "on 0.21.0" in text and f"on {NEWEST}" in text


def test_agentic_turns_hit_the_prefix_cache(capsys: pytest.CaptureFixture[str]) -> None:
    made = json.loads(oomph_simulate(capsys, "--users", "4", "--workload", "agentic", "--requests", "64", "--json"))
    assert made["result"]["cached_share"] > 0.5 and made["result"]["done"] == 64


def test_measured_scales_to_the_measurement(capsys: pytest.CaptureFixture[str]) -> None:
    made = json.loads(oomph_simulate(capsys, "--users", "8", "--measured", "500", "--json"))
    assert made["result"]["output_tokens_per_second"] == pytest.approx(500, rel=0.1)
    assert made["time"]["calibrated"] and made["time"]["scale"] > 1


def test_too_long_a_prompt_gets_the_servers_answer(capsys: pytest.CaptureFixture[str]) -> None:
    text = oomph_simulate(capsys, "--users", "1", "--prompt", "50000", "--requests", "2")
    assert "This model's maximum context length is 40960 tokens. However, you requested 250 output tokens" in text


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("--users", "3", "--rate", "2"), "give one"),
        (("--sweep", "users=9..2"), "--sweep"),
        (("--workload", "poetry", "--users", "1"), "poetry"),
        (("--users", "-1"), "--users"),
        (("--prompt", "0", "--users", "1"), "--prompt"),
        (("--efficiency", "magic=2", "--users", "1"), "magic"),
        (("--efficiency", "bandwidth=fast", "--users", "1"), "bandwidth=fast"),
        (("--measured", "100"), "--users"),
        (("--trace", "/nowhere.csv"), "/nowhere.csv"),
    ],
)
def test_bad_options_are_one_sentence(capsys: pytest.CaptureFixture[str], args: tuple[str, ...], says: str) -> None:
    text = oomph_simulate(capsys, *args, code=2)
    assert says in text and "Traceback" not in text


def test_a_deployment_that_does_not_start_serves_nobody(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["simulate", "--gpu", "RTX 3060", "--users", "1", "--", "vllm", "serve", "Qwen/Qwen3-32B"])
    assert end.value.code == 1 and "does not start" in capsys.readouterr().err


def test_sweeps() -> None:
    assert parse_sweep("users=1..256") == [1, 2, 4, 8, 16, 32, 64, 128, 256]
    assert parse_sweep("users=1..100") == [1, 2, 4, 8, 16, 32, 64, 100]
    assert parse_sweep("users=8..32:8") == [8, 16, 24, 32]
    assert parse_sweep("users=5, 1") == [1, 5]
    with pytest.raises(CommandError):
        parse_sweep("users=0..4")


def test_from_python() -> None:
    sim = oomph.simulate.run(
        "vllm serve Qwen/Qwen3-8B", gpu="H100", engine="vllm==0.21.0", users=2, prompt=100, output=10, requests=6
    )
    assert sim.result.done == 6 and sim.result.ttft.p95 > 0


def test_shapes_are_drawn_the_same_for_a_seed() -> None:
    def drawn(seed: int) -> list[tuple[int, int, int]]:
        return [(j.at, j.prompt, j.output) for j in Drawn(SHAPES["chat"], Arrivals(rate=5, burst=3), 50, seed).jobs()]

    assert drawn(1) == drawn(1) != drawn(2)
    prompts = [p for _, p, _ in drawn(3)]
    assert 40 < sorted(prompts)[25] < 300
