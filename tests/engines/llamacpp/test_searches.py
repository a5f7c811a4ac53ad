"""fit, compare and gpus of a local GGUF: the file as it is, and the command that people type."""

from __future__ import annotations

from pathlib import Path

import pytest
import toys

from oomph.answers.compare import Row, compare
from oomph.answers.plan import plan
from oomph.doctor.explain import explain
from oomph.engines.llamacpp.offer import Choice
from oomph.search.cards import cards
from oomph.search.fit import fit
from oomph.search.request import Want
from oomph.search.screen import SCREEN
from oomph.sources.gpu import parse_gpus


def row(path: Path, gpu: str, context: int = 8192) -> Row:
    return compare(str(path), gpu=gpu, context=context, engines=("llamacpp",)).rows[0]


@pytest.fixture(scope="module")
def dense(tmp_path_factory: pytest.TempPathFactory) -> Path:
    numbers = {"embd": 4096, "heads": 32, "kv": 8, "head": 128, "ff": 14336, "vocab": 128256, "layers": 32}
    return toys.make(tmp_path_factory.mktemp("x") / "dense.gguf", "dense", **numbers, weights="Q4_0", context=131072)


@pytest.fixture(scope="module")
def routed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    numbers = {"embd": 2048, "heads": 32, "kv": 4, "head": 128, "ff": 6144, "vocab": 151936, "layers": 24}
    experts = {"experts": 128, "used": 8, "expert_ff": 768}
    return toys.make(
        tmp_path_factory.mktemp("x") / "moe.gguf", "moe", **numbers, **experts, weights="Q4_0", context=40960
    )


@pytest.mark.parametrize(("ram", "fits"), [("", True), (", 32GB RAM", True), (", 4GB RAM", False)])
def test_what_the_hosts_memory_does_not_hold_is_not_left_to_it(routed: Path, ram: str, fits: bool) -> None:
    """Weights on the CPU that are read from disk for each token are no answer where the host is known."""
    answer = row(routed, f"4GiB{ram}")
    assert answer.fits is fits and answer.host_bytes > 4 << 30
    assert ("host's memory lacks" in answer.why) is not fits
    pick = fit(str(routed), parse_gpus(f"4GiB{ram}"), Want(8192, 1), engine="llamacpp").pick
    assert (pick is not None) is fits


def test_a_file_that_the_card_holds_is_served_to_as_many_users_as_it_can(dense: Path) -> None:
    answer = row(dense, "RTX 4090")
    assert answer.fits and answer.on_gpu and answer.users > 1
    assert f"-m {dense}" in answer.command and "-ngl" not in answer.command


def test_the_cache_is_given_up_before_layers(dense: Path) -> None:
    answer = row(dense, "8GiB", 24576)
    assert answer.on_gpu and "-ctk q8_0 -ctv q8_0" in answer.command and "16-bit KV cache" in answer.gives_up


@pytest.mark.parametrize("gpu", ["5GiB", "6GiB"])
def test_layers_go_to_the_cpu_where_nothing_else_helps(dense: Path, gpu: str) -> None:
    answer = row(dense, gpu, 16384)
    assert answer.fits and not answer.on_gpu and "-ngl " in answer.command
    again = plan(answer.command, gpu=gpu)
    assert again.verdict.outcome == "fits" and again.resolved["offloaded"] == int(answer.command.split("-ngl ")[1])


def test_experts_go_before_layers_and_are_counted(routed: Path) -> None:
    answer = row(routed, "6GiB")
    assert "--n-cpu-moe " in answer.command and "-ot" not in answer.command and len(answer.command) < 200
    assert plan(answer.command, gpu="6GiB").verdict.outcome == "fits"
    fewer = answer.command.replace(
        f"--n-cpu-moe {answer.command.split()[-1]}", f"--n-cpu-moe {int(answer.command.split()[-1]) - 1}"
    )
    assert plan(fewer, gpu="6GiB").verdict.outcome != "fits"


def test_cards_for_a_file(dense: Path) -> None:
    first = cards(str(dense), Want(8192, 1), engine="llama.cpp").cards[0]
    assert first.checkpoint == str(dense) and f"-m {dense} -c" in first.command


def test_a_choice_says_what_it_gives_up() -> None:
    assert Choice("", 1).gives_up == () and len(Choice("", 1, "q8_0", 256).gives_up) == 2


@pytest.mark.parametrize(
    "line",
    ["main: server is listening on http://127.0.0.1:8080 - starting the main loop",
     "0.12.345.678 I srv  llama_server: listening on http://127.0.0.1:18083",
     "srv          init: listening on http://127.0.0.1:8080"],
)  # fmt: skip
def test_listening_is_a_running_server_in_every_build(line: str) -> None:
    log = f"0.00.1.2 I srv    load_model: loading model 'x.gguf'\n0.00.2.3 I srv  llama_server: model loaded\n{line}\n"
    assert explain(log).failed is False


def test_the_page_searches_files_and_cards_of_the_engine_that_is_asked_for() -> None:
    from oomph.web.searches import answer_cards, answer_fit

    asked = {"model": "Qwen/Qwen3-8B", "gpu": "RTX 3060 12GB", "engine": "llama.cpp"}
    assert "llama-server -hf unsloth/Qwen3-8B-GGUF" in answer_fit(asked)["html"] and answer_fit(asked)["met"]
    assert "ollama run" in answer_fit({**asked, "engine": "ollama"})["html"]
    assert "llama-server -hf unsloth/Qwen3-8B-GGUF" in answer_cards({**asked, "context": "8192"})["html"]


def test_fit_takes_a_file_as_it_is_with_the_longest_context_that_the_card_holds(dense: Path) -> None:
    answer = fit(str(dense), "RTX 3060 12GB")
    assert answer.engine == "llama.cpp" and answer.met and answer.pick is not None
    point, command = answer.pick.point, answer.pick.command
    assert point.context > 16384 and f"-m {dense} -c {point.context} -np 1" in command
    card = {"name": "RTX 3060 12GB", "used_bytes": SCREEN}
    assert plan(command, gpu=card).verdict.outcome == "fits"
    longer = command.replace(f"-c {point.context}", f"-c {point.context + 2048}")
    resolved = plan(longer, gpu=card).resolved
    assert resolved["offloaded"] < resolved["layers"]


def test_fit_says_what_is_on_the_cpu_and_how_fast_a_file_is(routed: Path) -> None:
    answer = fit(str(routed), "6GiB", context=8192)
    assert answer.pick is not None and "of weights on the CPU" in answer.pick.gives_up[0]
    slow = fit(str(routed), "RTX 2060").pick
    fast = fit(str(routed), "RTX 4090").pick
    assert slow is not None and fast is not None and slow.speed is not None and fast.speed is not None
    assert slow.speed.one_user < fast.speed.one_user < 400  # 24 layers with 8 of 128 experts


def test_what_is_asked_for_and_not_there_is_answered_with_the_nearest(dense: Path) -> None:
    answer = fit(str(dense), "RTX 4090", context=1 << 20)
    assert not answer.met and answer.pick is not None and answer.nearest == (answer.pick,)
    assert answer.pick.point.context <= 131072


def test_ollama_is_searched_alike_and_its_settings_are_the_servers() -> None:
    answer = fit("Qwen/Qwen3-8B", "RTX 3060 12GB", engine="ollama", users=2)
    assert answer.met and answer.pick is not None
    assert answer.pick.command.endswith("ollama serve & ollama run qwen3:8b")
    assert "OLLAMA_NUM_PARALLEL=2" in answer.pick.command


def test_where_nothing_can_be_read_along_no_step_of_speed_is_given_up_for_bits() -> None:
    """Each half of the speed of reading is a step of the objective; within one of them more bits are taken."""
    rows = {
        gpu: compare("Qwen/Qwen3-32B", gpu=gpu, context=8192, engines=("llamacpp",)).rows[0]
        for gpu in ("RTX 4060", "GTX 1060 6GB", "RTX 3090")
    }
    assert "Q5_K_M" in rows["RTX 4060"].command and 2.5 < (rows["RTX 4060"].tokens_per_second or 9) < 5
    assert "Q4_K_M" in rows["GTX 1060 6GB"].command and 2.5 < (rows["GTX 1060 6GB"].tokens_per_second or 9) < 5
    assert "Q4_K_M" in rows["RTX 3090"].command or "Q5_K_M" in rows["RTX 3090"].command
