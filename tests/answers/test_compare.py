"""vLLM, SGLang, llama.cpp and Ollama side by side."""

from __future__ import annotations

from typing import Any

import pytest

from oomph.answers.compare import compare
from oomph.answers.plan import plan
from oomph.engines.ollama.offer import library_name
from oomph.engines.protocol import fills
from oomph.engines.registry import engine_named
from oomph.errors import CommandError, InputError
from oomph.search.fit import fit
from oomph.search.request import knobs_of
from oomph.simulate import api


def test_compare_says_what_fit_says() -> None:
    table = compare("Qwen/Qwen3-14B", gpu="RTX 4060 Ti 16GB", context=8192)
    vllm, sglang, llama, ollama, *_ = table.rows
    for row in (vllm, sglang):
        answer = fit("Qwen/Qwen3-14B", "RTX 4060 Ti 16GB", context=8192, users=1, engine=row.engine)
        assert answer.met == row.fits
        if answer.met:
            assert answer.pick is not None and row.checkpoint == answer.pick.plan.model
            assert plan(row.command, gpu="RTX 4060 Ti 16GB").verdict.outcome == "fits"
    assert vllm.fits
    assert llama.fits and llama.on_gpu and llama.bits > 4.5 and ollama.on_gpu
    assert plan(llama.command, gpu="RTX 4060 Ti 16GB").fits
    text = table.text(width=100)
    assert "llama-server -hf unsloth/Qwen3-14B-GGUF" in text and "TAKE" in text


def test_when_it_is() -> None:
    made = compare("Qwen/Qwen3-8B", gpu="RTX 4090", context=8192)
    assert all(r.fits and r.on_gpu for r in made.rows)
    assert made.advice.startswith("vLLM: ") and "tokens/s" in made.advice and "differ by less than" in made.advice
    assert made.rows[0].bits == pytest.approx(16, abs=0.2)


@pytest.mark.parametrize(
    ("model", "gpu"),
    [
        ("openai/gpt-oss-20b", "RTX 4060 Ti 16GB"),
        ("Qwen/Qwen3-8B", "H200"),
        ("Qwen/Qwen3-8B", "T4"),
        ("Qwen/Qwen2.5-VL-3B-Instruct", "Jetson Orin Nano 8GB"),
    ],
)
def test_the_command_lets_as_many_run_as_the_row_says(model: str, gpu: str) -> None:
    table = compare(model, gpu=gpu, context=8192)
    for row in table.rows:
        if not row.fits:
            assert row.why, row.engine
            continue
        again = plan(row.command, gpu=gpu)
        assert again.verdict.outcome == "fits"
        if engine_named(row.engine).layout == "ranks":
            allowed = again.deployment.flags.get(knobs_of(again.deployment).users, 1 << 20)
            assert again.kv is not None and row.users == pytest.approx(min(allowed, again.kv.max_concurrency))
            assert row.users >= 1 and allowed >= int(row.users)


@pytest.mark.parametrize("users", [3, 60])
def test_every_row_that_fits_holds_the_users_that_are_wanted(users: int) -> None:
    table = compare("Qwen/Qwen3-8B", gpu="RTX 3060", context=8000, users=users, engines=["vllm", "llamacpp", "ollama"])
    assert table.users == users
    for row in table.rows:
        assert row.users >= users if row.fits else row.why
        if row.fits and engine_named(row.engine).layout == "ranks":
            again = plan(row.command, gpu="RTX 3060")
            assert again.verdict.outcome == "fits" and again.kv is not None and again.kv.max_concurrency >= users
    assert table.rows[0].fits == (users == 3)
    assert f"for {users} users at once" in table.text(width=100)


def test_a_number_of_users_that_is_none_is_refused() -> None:
    with pytest.raises(CommandError, match="--users 0"):
        compare("Qwen/Qwen3-8B", gpu="RTX 4090", users=0)


def test_a_context_beyond_the_models_is_refused_as_gpus_does() -> None:
    with pytest.raises(InputError, match="4,096 is more than the 2,048 tokens that the model takes"):
        compare("TinyLlama/TinyLlama-1.1B-Chat-v1.0", gpu="RTX 4090", context=4096)
    assert compare("TinyLlama/TinyLlama-1.1B-Chat-v1.0", gpu="RTX 4090", engines=["llamacpp"]).context == 2048


def test_bits_count_the_weights_and_not_the_packed_bytes() -> None:
    vllm, llama = compare("openai/gpt-oss-20b", gpu="RTX 4090", engines=["vllm", "llamacpp"]).rows
    assert 4.25 < llama.bits < vllm.bits < 6.5


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("Qwen/Qwen3-8B", "qwen3:8b"),
        ("openai/gpt-oss-20b", "gpt-oss:20b"),
        ("microsoft/phi-4", "phi4:14b"),
        ("nvidia/Gemma-4-31B-IT-NVFP4", ""),
    ],
)
def test_ollama_calls_models_as_its_library_does(model: str, name: str) -> None:
    assert library_name(model) == name


def test_the_command_of_ollama_names_the_model() -> None:
    ollama = compare("Qwen/Qwen3-8B", gpu="RTX 4090", context=8192, engines=["ollama"]).rows[0]
    assert ollama.command.endswith("ollama serve & ollama run qwen3:8b")
    again = plan(ollama.command, gpu="RTX 4090")
    assert again.fits and again.resolved["num_parallel"] == 8


def test_when_a_part_stays_on_the_cpu() -> None:
    made = compare("Qwen/Qwen3-32B", gpu="RTX 3070", context=8192)
    vllm, sglang, llama, *_ = made.rows
    assert not vllm.on_gpu and not sglang.on_gpu and "CPU" in made.advice
    assert llama.fits and not llama.on_gpu and llama.host_bytes > 0
    assert "CPU" in llama.why


def test_unknown_engines_are_refused() -> None:
    with pytest.raises(CommandError, match="tgi"):
        compare("Qwen/Qwen3-8B", gpu="RTX 4090", engines=["tgi"])


def test_the_same_load_is_played_on_every_engine_that_has_a_scheduler() -> None:
    answer = compare(
        "Qwen/Qwen3-8B", gpu="RTX 4090", users=8, prompt=1000, output=200, engines=("vllm", "trtllm", "ollama")
    )
    assert answer.load is not None and answer.context == 1200
    for row in answer.rows:
        has_scheduler = fills(engine_named(row.engine), "simulation")
        assert (row.under_load is not None) is (has_scheduler and row.fits)
        if row.under_load is not None:
            load = row.under_load
            assert load.users == 8 and load.users_held >= 1 and load.binds
            assert load.first_token > 0 and 0 < load.per_token < 1
            assert load.tokens_per_second > load.tokens_per_second_each > 0
    assert "Users held under this load" in answer.advice and "what ends it" in answer.text()


def test_what_compare_plays_is_what_simulate_plays() -> None:
    row = compare("Qwen/Qwen3-8B", gpu="RTX 4090", users=8, prompt=1000, output=200, engines=("vllm",)).rows[0]
    played = api.run(row.command, gpu="RTX 4090", users=8, prompt=1000, output=200).result
    assert row.under_load is not None
    assert row.under_load.first_token == round(played.ttft.p95, 3)
    assert row.under_load.tokens_per_second == round(played.output_tokens_per_second, 1)


@pytest.mark.parametrize("wrong", [{"prompt": -5}, {"output": 1 << 30}, {"prompt": 10, "ttft": 0.0}])
def test_a_load_that_is_none_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(CommandError):
        compare("Qwen/Qwen3-8B", gpu="RTX 4090", engines=("vllm",), **wrong)


def test_without_a_load_nothing_is_played() -> None:
    answer = compare("Qwen/Qwen3-8B", gpu="RTX 4090", engines=("vllm",))
    assert answer.load is None and answer.rows[0].under_load is None and "under load" not in answer.text()


def test_every_engine_keeps_the_same_room_for_a_screen() -> None:
    """Of two that place layers and one that does not, all or none have what a desktop takes."""
    engines = ("vllm", "llamacpp", "ollama")
    beside, alone = (
        compare("Qwen/Qwen3-8B", gpu="RTX 4090", engines=engines, headless=headless) for headless in (False, True)
    )
    assert beside.screen_bytes and not alone.screen_bytes
    assert ["--headless" in one.text() for one in (beside, alone)] == [True, False]
    small, large = (
        compare("Qwen/Qwen3-8B", gpu=gpu, engines=engines).rows
        for gpu in ("RTX 3060 12GB", "RTX 3060 12GB used 768MiB")
    )
    assert [row.users for row in small] == [row.users for row in large]
