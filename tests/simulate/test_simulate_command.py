from __future__ import annotations

import json
from pathlib import Path

import pytest

from oomph.answers.plan import plan
from oomph.cli.main import main
from oomph.engines.llamacpp.engine import LlamaCpp
from oomph.engines.protocol import EngineProtocol
from oomph.errors import CommandError, OomphError
from oomph.facts.vllm.versions import NEWEST
from oomph.simulate import api as simulation
from oomph.simulate.search import parse_sweep
from oomph.simulate.workloads import SHAPES, Arrivals, Drawn

QWEN = ["--gpu", "H100", "--engine", "vllm==0.21.0"]
SERVE = ["--", "vllm", "serve", "Qwen/Qwen3-8B", "--max-num-seqs", "16"]


def oomph_simulate(capsys: pytest.CaptureFixture[str], *args: str, code: int = 0) -> str:
    with pytest.raises(SystemExit) as end:
        main(["simulate", *QWEN, *args, *SERVE])
    assert (end.value.code or 0) == code
    out = capsys.readouterr()
    return out.out if code < 2 else out.err


def test_users_held(capsys: pytest.CaptureFixture[str]) -> None:
    text = oomph_simulate(capsys, "--ttft", "1")
    assert "USERS" in text and "KV cache" in text and "published speeds of dense models" in text


def test_json_of_a_load(capsys: pytest.CaptureFixture[str]) -> None:
    made = json.loads(
        oomph_simulate(capsys, "--users", "24", "--ttft", "1", "--json", code=1)
    )  # 16 places for 24 users
    result = made["result"]
    assert made["held_users"] == 17 and "time to first token" in made["breaks"]
    assert result["max_running"] == 16 and "max_num_seqs" in result["binds"]
    assert result["done"] == 24 * 20 and made["scheduler"]["max_num_seqs"] == 16


def test_sweep_and_pictures(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    svg, html = tmp_path / "s.svg", tmp_path / "s.html"
    text = oomph_simulate(
        capsys, "--sweep", "users=1..8", "--prompt", "200", "--output", "20", "--svg", str(svg), "--html", str(html)
    )
    assert "8 USERS of those tried are held" in text
    assert svg.read_text().startswith("<svg") and "uPlot" in html.read_text()


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
    text = oomph_simulate(capsys, "--users", "1", "--prompt", "50000", "--requests", "2", code=1)
    assert "This model's maximum context length is 40960 tokens. However, you requested 250 output tokens" in " ".join(
        text.split()
    )


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


@pytest.mark.parametrize(
    ("gpu", "command"),
    [
        ("L4", "python -m sglang.launch_server --model-path meta-llama/Llama-3.1-8B-Instruct --context-length 8192"),
        ("RTX 4090", "vllm serve Qwen/Qwen3-8B --max-model-len 32768"),
    ],
)
def test_a_deployment_that_does_not_start_is_answered_with_one_that_does(gpu: str, command: str) -> None:
    with pytest.raises(OomphError) as refused:
        simulation.prepare(command, gpu=gpu)
    instead = refused.value.hint.partition("it starts as: ")[2]
    answer = plan(instead, gpu=gpu, advise=False)
    assert answer.fits and answer.kv is not None and answer.kv.max_concurrency >= 1


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as end:
        main(["simulate", *args])
    printed = capsys.readouterr()
    return int(end.value.code or 0), printed.out + printed.err


def test_too_much_has_an_exit_code_and_says_what_would_be_held(capsys: pytest.CaptureFixture[str]) -> None:
    text = oomph_simulate(capsys, "--users", "24", "--requests", "96", "--ttft", "1", code=1)
    assert "TOO MUCH" in text and "it would hold 17 users" in text
    text = oomph_simulate(capsys, "--rate", "50", "--requests", "200", code=1)
    assert "it would hold" in text and "requests/s" in text


def test_engines_without_a_scheduler_here_are_refused_in_a_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LlamaCpp, "simulation", EngineProtocol.simulation)
    code, text = run(capsys, "--gpu", "RTX 4090", "--users", "2", "--", "llama-server", "-m", "x.gguf")
    assert code == 3 and "cannot be simulated" in text and "Traceback" not in text and "bug" not in text


@pytest.mark.parametrize("command", [["llama-server", "-m", "x.gguf"], ["llama-server", "-hf", "a/b-GGUF"]])
def test_a_file_that_nobody_knows_is_refused_in_a_sentence(
    capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    code, text = run(capsys, "--gpu", "RTX 4090", "--users", "2", "--", *command)
    assert code in (2, 3) and text.startswith("oomph: error:") and "bug" not in text


def test_replicas_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    serve = ["vllm", "serve", "Qwen/Qwen3-8B", "--max-num-seqs", "16"]
    load = ["--gpu", "2x H100", "--engine", "vllm==0.32.0", "--prompt", "200", "--output", "40", "--json", "--users"]
    one = json.loads(run(capsys, *load, "8", "--requests", "80", "--", *serve)[1])
    two = json.loads(run(capsys, *load, "16", "--requests", "160", "--", *serve, "-dp", "2")[1])
    assert two["replicas"] == 2 and two["result"]["done"] == 2 * one["result"]["done"]
    speed = [x["result"]["output_tokens_per_second"] for x in (one, two)]
    assert speed[1] == pytest.approx(2 * speed[0], rel=0.05)
    assert any("2 data-parallel replicas" in note for note in two["notes"])


def test_an_old_release_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    load = ["--users", "2", "--requests", "4"]
    _, text = run(capsys, "--gpu", "H100", "--engine", "vllm==0.9.2", *load, "--", "vllm", "serve", "Qwen/Qwen3-8B")
    assert "The scheduler of vLLM 0.9.2 is simulated by the rules of 0.12.0" in text
    _, text = run(capsys, "--gpu", "H100", "--engine", "vllm==0.6.3", *load, "--", "vllm", "serve", "Qwen/Qwen3-8B")
    assert "0.6.3" in text and "0.8.5" in text


def test_all_users_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    load = ["--users", "16", "--requests", "16", "--prompt", "1000", "--output", "8", "--tpot", "0", "--json"]
    slow = json.loads(oomph_simulate(capsys, *load, "--at-once"))
    assert slow["load"]["arrivals"]["at_once"] and slow["result"]["max_running"] == 16


def drafter_blocks(model: str, draft: str, method: str) -> tuple[int, int]:
    spec = f'{{"method":"{method}","model":"{draft}","num_speculative_tokens":3}}'
    words = ["vllm", "serve", model, "--speculative-config", spec, "--max-model-len", "8192"]
    setup = simulation.prepare(words, gpu="H100", engine="vllm==0.32.0")
    assert setup.plan.kv is not None
    return setup.plan.kv.num_blocks, setup.built.config.num_blocks


def test_a_drafter_has_its_own_cache() -> None:
    for model, draft in (("Qwen/Qwen3-8B", "Qwen/Qwen3-0.6B"), ("Qwen/Qwen3-14B", "Qwen/Qwen3-0.6B")):
        planned, simulated = drafter_blocks(model, draft, "draft_model")
        assert planned == simulated


def test_a_sample_is_said(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from oomph.simulate import play

    monkeypatch.setattr(play.simulate, "__defaults__", (play.Ends(work=2000),))
    text = oomph_simulate(capsys, "--users", "8", "--workload", "agentic", "--requests", "4000")
    assert "of 4,000: to follow all of them would take too long" in " ".join(text.split())


def test_the_rules_do_not_change_with_the_size_of_a_load() -> None:
    """A preempted request finds its own blocks again, in a load of 90 requests as in one of 100."""
    setup = simulation.prepare("vllm serve Qwen/Qwen3-14B", gpu="H100", engine="vllm==0.11.0")

    def speed(requests: int) -> float:
        sim = simulation.run(setup, users=100, prompt=32000, output=99, requests=requests)
        return sim.result.output_tokens_per_second

    assert speed(100) == pytest.approx(speed(90), rel=0.1)


def test_sweeps() -> None:
    assert parse_sweep("users=1..256") == [1, 2, 4, 8, 16, 32, 64, 128, 256]
    assert parse_sweep("users=1..100") == [1, 2, 4, 8, 16, 32, 64, 100]
    assert parse_sweep("users=8..32:8") == [8, 16, 24, 32]
    assert parse_sweep("users=5, 1") == [1, 5]
    with pytest.raises(CommandError):
        parse_sweep("users=0..4")


def test_from_python() -> None:
    sim = simulation.run(
        "vllm serve Qwen/Qwen3-8B", gpu="H100", engine="vllm==0.21.0", users=2, prompt=100, output=10, requests=6
    )
    assert sim.result.done == 6 and sim.result.ttft.p95 > 0


def test_shapes_are_drawn_the_same_for_a_seed() -> None:
    def drawn(seed: int) -> list[tuple[int, int, int]]:
        return [(j.at, j.prompt, j.output) for j in Drawn(SHAPES["chat"], Arrivals(rate=5, burst=3), 50, seed).jobs()]

    assert drawn(1) == drawn(1) != drawn(2)
    prompts = [p for _, p, _ in drawn(3)]
    assert 40 < sorted(prompts)[25] < 300
