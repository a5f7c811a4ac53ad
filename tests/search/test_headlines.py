"""What the searches say where there is no ordinary answer: rows, refusals, models without a cache, single users."""

from __future__ import annotations

import re

import pytest

from oomph.api import pack
from oomph.report.screens.simulate import _counted
from oomph.search.fit import fit


@pytest.mark.parametrize(("model", "gpu"), [("Qwen/Qwen3-4B", "RTX 2060"), ("Qwen/Qwen3-8B", "L4")])
def test_a_row_says_the_limit_of_requests_that_its_command_sets(model: str, gpu: str) -> None:
    front = fit(model, gpu).front
    assert len(front) > 1
    for row in front:
        limit = re.search(r"--max-num-seqs (\d+)", row.command)
        words = [words for words in row.gives_up if words.startswith("at most ")]
        assert [int(each.split()[2]) for each in words] == ([int(limit[1])] if limit else [])


def test_a_refusal_is_no_lack_of_memory() -> None:
    answer = fit("Qwen/Qwen2.5-7B-Instruct-1M", "H100", context=16384)
    assert not answer.met and "layer_idx" in answer.refusal
    assert "REFUSED" in answer.text() and not any("CPU" in note for note in answer.notes)
    assert not fit("meta-llama/Llama-3.3-70B-Instruct", "RTX 4090", only=True).refusal


def test_a_model_without_a_cache_has_requests_and_no_speed() -> None:
    text = " ".join(fit("BAAI/bge-m3", "T4").text().split())
    assert "256 requests of 8,194 tokens at once, none of which needs a KV cache" in text
    answer, _, measure = text.partition(
        "Picked for, most important first:"
    )  # which names the speed that people read at
    assert "tokens/s" not in answer and "nobody knows" not in text and "0.00" not in text and measure
    both = pack(["vllm serve BAAI/bge-m3", "vllm serve Qwen/Qwen3-0.6B"], gpu="L4")
    text = " ".join(both.text().split())
    assert " 0.00 requests" not in text and "tokens of KV cache" in text


def test_pack_names_how_a_service_starts_that_does_not_start_alone() -> None:
    answer = pack(["vllm serve Qwen/Qwen3-32B-AWQ", "vllm serve Qwen/Qwen3-0.6B"], gpu="RTX 3090")
    (reason,) = answer.reasons
    assert not answer.placed and "short" in reason
    command = reason.partition("It starts as: ")[2]
    assert pack([command], gpu="RTX 3090").placed


def test_one_user_is_one() -> None:
    assert (_counted(1), _counted(2), _counted(1024)) == ("1 USER", "2 USERS", "1,024 USERS")


def test_a_host_that_is_told_hides_no_answer_that_it_holds() -> None:
    """The most that may be moved to the host does not fit in it; less of it does, and serves."""
    told = fit("openai/gpt-oss-120b", "RTX 5090, 96GB RAM").pick
    free = fit("openai/gpt-oss-120b", "RTX 5090").pick
    assert told is not None and free is not None and told.point.arm.offload_gib == free.point.arm.offload_gib > 0
    assert fit("openai/gpt-oss-120b", "RTX 5090, 32GB RAM").pick is None


def test_a_machine_that_could_give_its_gpu_more_memory_is_told_so() -> None:
    note = next(note for note in fit("openai/gpt-oss-120b", "Ryzen AI Max+ 395 128GB").notes if "pages_limit" in note)
    gpu = note.partition("--gpu '")[2].rstrip("'")
    answer = fit("openai/gpt-oss-120b", gpu)
    assert answer.pick is not None and not answer.pick.point.arm.offload_gib and answer.pick.speed is not None
    assert not any("pages_limit" in note for note in answer.notes)
    assert not any("pages_limit" in note for note in fit("Qwen/Qwen3-8B", "Ryzen AI Max+ 395 128GB").notes)


def test_a_catalogue_without_a_small_checkpoint_says_how_to_add_one() -> None:
    def is_said(model: str, gpu: str) -> bool:
        return any("--also" in note for note in fit(model, gpu, context=32768).notes)

    assert is_said("zai-org/GLM-4.5-Air", "4x RTX 3090")
    assert not any("--also" in note for note in fit("Qwen/Qwen3-32B", "RTX 3060", context=8192, only=True).notes)
    assert not is_said("openai/gpt-oss-120b", "RTX 5090") and not is_said("Qwen/Qwen3-8B", "RTX 4090")
