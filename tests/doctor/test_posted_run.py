# ruff: noqa: E501 - a text is a line
"""A post or a log on the standard input of `plan`: the run that it tells of, read as `explain` reads it."""

from pathlib import Path

import pytest

from oomph.cli.words import entries
from oomph.doctor.explain import explain
from oomph.doctor.posted import has_printed_lines, posted_run, without_vain_advice
from oomph.errors import CommandError
from oomph.web.reading import read

SEEDS = Path(__file__).parents[1] / "seeds"


def text_of(name: str) -> str:
    return (SEEDS / f"{name}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["gemma-two-cards", "gemma-token-count", "qwen-graph-profiling"])
def test_both_commands_read_the_same_run(name: str) -> None:
    run, explanation = posted_run(text_of(name)), explain(text_of(name), plan=False)
    assert run is not None
    assert run.engine.version == explanation.engine.version
    assert run.model.rpartition("/")[2] == explanation.model.rpartition("/")[2]
    assert explanation.total_bytes in (0, run.gpus[0].total_bytes)
    assert not run.ram_bytes  # the poster's host is not this machine


@pytest.mark.parametrize("name", ["gemma-two-cards", "qwen-graph-profiling", "guide-lower-utilisation"])
def test_the_plan_dies_where_the_log_died(name: str) -> None:
    import oomph

    run = posted_run(text_of(name))
    assert run is not None
    plan = oomph.plan(run, advise=False)
    assert plan.verdict.stage == explain(text_of(name)).stage
    assert plan.host is None or plan.host.ram_from != "this machine"


def test_a_run_without_a_card_asks_for_it() -> None:
    with pytest.raises(CommandError, match="does not say on which GPU"):
        posted_run(text_of("guide-old-kv-check"))
    run = posted_run(text_of("guide-old-kv-check"), "RTX 4090")
    assert run is not None and run.gpus[0].name == "RTX 4090"


def test_a_size_that_many_cards_have_names_none() -> None:
    run = posted_run(text_of("guide-lower-utilisation"))
    assert run is not None and run.gpus[0].name == "23.65GiB GPU"


def test_commands_without_an_engines_line_are_not_a_run() -> None:
    text = "I want to serve it on two cards:\nvllm serve Qwen/Qwen3-8B -tp 2\n"
    assert not has_printed_lines(text)
    assert posted_run(text) is None


def test_what_was_tried_in_vain_is_not_the_plans_advice() -> None:
    import oomph

    text = text_of("qwen-graph-profiling") + "\nI tried --enforce-eager but it did not help.\n"
    run = posted_run(text)
    assert run is not None
    before = oomph.plan(run)
    plan = without_vain_advice(before, text)
    assert before.advice is not None and plan.advice is not None
    assert any("--enforce-eager" in fix.change.label for fix in before.advice.fixes)
    assert not any("--enforce-eager" in fix.change.label for fix in plan.advice.fixes)


TOLD = "Two T4s and vllm serve Qwen/Qwen3-8B -tp 2. It's up, and with long prompts it dies of CUDA out of memory.\n"


def test_a_failure_that_is_told_beside_a_command_is_planned_as_it_is_explained() -> None:
    text = f"I can't get this to run on two T4s, it dies with CUDA out of memory:\n{TOLD}Version is vllm 0.9.2.\n"
    run, explanation = posted_run(text), explain(text, plan=False)
    assert run is not None and (run.engine.version, len(run.gpus)) == (explanation.engine.version, 2)
    with pytest.raises(CommandError, match="does not say on which GPU"):  # this machine's is nobody's
        posted_run("The service isn't stable, it runs out of memory after hours:\nvllm serve Qwen/Qwen3-8B -tp 2\n")


def test_a_sentence_is_no_shell_text_with_an_open_quote(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "# [Bug]: no luck\nIt's my colleague's card and the server dies of CUDA out of memory.\nWe didn't change a thing.\n"
    monkeypatch.setattr("oomph.cli.words.given", lambda words: [text])
    with pytest.raises(CommandError, match="no serve command is in the text"):
        entries(["-"])


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("log", "Beim Start meckert vLLM sofort: frei sind 62,1 von 79,2 GiB, verlangt werden 72,9."),
        ("log", "It's my colleague's vLLM and it can't get past the weights, CUDA out of memory on two T4s."),
        ("log", TOLD),
        ("question", "Qwen3.6-27B-FP8 with 131,072 tokens on an L40S"),
        ("question", "Will Qwen3-8B run out of memory on a 3060 with 8 users?"),
        ("deployments", "vllm serve Qwen/Qwen3-8B --gpu-memory-utilization 0.9"),
        ("deployments", "#!/bin/sh\n# without it the card runs out of memory\nvllm serve Qwen/Qwen3-8B --max-num-seqs 8\n"),
    ],
)  # fmt: skip
def test_the_page_explains_what_people_tell_and_plans_what_they_start(kind: str, text: str) -> None:
    assert read(text.encode()).kind == kind
