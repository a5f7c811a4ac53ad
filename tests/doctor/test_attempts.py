"""What the poster tried: in vain is not advised again, what helped comes first."""

from __future__ import annotations

import pytest

from oomph.doctor.explain import explain
from oomph.facts.topics import topics_of
from oomph.ir.evidence import asserts
from oomph.logs.attempts import read_attempts
from oomph.logs.documents import Sentence

DEATH = (
    'vllm serve Qwen/Qwen3-8B --gpu-memory-utilization 0.95\nFile "/x/vllm/v1/worker/gpu_worker.py", line 1, in '
    "profile_run\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB.\n"
)
VAIN = [
    ("share", "I lowered --gpu-memory-utilization to 0.8. Still the same error."),
    ("sequences", "I tried --max-num-seqs 16, it did not help."),
    ("batch", "Ich habe --max-num-batched-tokens 1024 versucht, das hat nicht geholfen."),
    ("graphs", "加上 --enforce-eager 还是 OOM。"),
    ("context", "Kleinerer Kontext hilft nicht."),
    ("expandable", "expandable_segments made no difference"),
    ("share", "So `--gpu-memory-utilization` cannot mitigate it."),
    ("graphs", "Even with --enforce-eager it dies."),
    ("context", "I already lowered --max-model-len to 4096 but it still OOMs."),
]
HELPED = [
    ("--enable-expert-parallel", True, "Without --enable-expert-parallel it starts fine."),
    ("--enable-lora", True, "去掉 --enable-lora 就正常。"),
    ("graphs", False, "With --enforce-eager it works."),
    ("sequences", False, "Setting --max-num-seqs 64 fixes it."),
    ("--enable-eplb", True, "Ohne --enable-eplb läuft es."),
]


@pytest.mark.parametrize(("topic", "sentence"), VAIN)
def test_what_did_not_help_is_read_and_not_advised(topic: str, sentence: str) -> None:
    attempts = read_attempts(tuple(Sentence(1, part) for part in sentence.split(". ")))
    assert [(one.topic, one.result) for one in attempts] == [(topic, "in vain")]
    result = explain(f"{sentence}\n\n{DEATH}", plan=False)
    assert result.failed and not [one.change.label for one in result.remedies if topic in topics_of(one.change.label)]
    assert any(topic in topics_of(one.change.label) or one.change.lever == topic for one in result.rejected)


@pytest.mark.parametrize(("topic", "without", "sentence"), HELPED)
def test_what_helped_comes_first(topic: str, without: bool, sentence: str) -> None:
    result = explain(f"{sentence}\n\n{DEATH}", plan=False)
    first = result.remedies[0]
    assert first.change.lever == topic and "you say that it works" in first.change.cost
    assert first.change.label.startswith("leave out --") is without


def test_what_was_tried_the_other_way_stays() -> None:
    text = "Raising --gpu-memory-utilization to 0.97 did not help.\n\n" + DEATH.replace("profile_run", "execute_model")
    labels = [one.change.label for one in explain(text, plan=False).remedies]
    assert any("--gpu-memory-utilization" in label for label in labels)


@pytest.mark.parametrize(
    "sentence",
    [
        "The same config on 0.20.1 starts and serves fine.",
        "It worked in v0.20.1, this is a regression.",
        "用 0.20.1 正常。",
    ],
)
def test_the_release_in_which_it_worked_is_offered(sentence: str) -> None:
    start = "INFO 05-30 01:45:01 [api_server.py:1287] vLLM API server version 0.21.0\n"
    first = explain(f"{sentence}\n\n{start}{DEATH}", plan=False).remedies[0]
    assert (first.change.kind, first.change.label) == ("release", "vLLM 0.20.1")


@pytest.mark.parametrize(
    "text", ["Does --swap-space 4 work?", "You could try --enforce-eager.", "--enforce-eager is set."]
)
def test_a_question_or_a_setting_is_no_attempt(text: str) -> None:
    assert not read_attempts((Sentence(1, text),))


@pytest.mark.parametrize("sentence", ["It works with 0.4 of the card.", "Image 1.3 works."])
def test_a_share_is_no_release(sentence: str) -> None:
    text = f"vLLM fails with torch.OutOfMemoryError: CUDA out of memory.\n{sentence}\n"
    labels = [one.change.label for one in explain(text, plan=False).remedies]
    assert not any(label.startswith("vLLM ") for label in labels)


@pytest.mark.parametrize(
    "text",
    [
        "With num_ctx 131072 ollama ends: llama runner process has terminated: cudaMalloc failed: out of memory. "
        "Back to 8192 and it works again.",
        "ollama 里把 num_ctx 改成 131072 就报 llama runner process has terminated: cudaMalloc failed: out of memory。"
        "改回 8192 就好。",
    ],
)
def test_what_a_shorter_context_cures_is_the_cache(text: str) -> None:
    """CUDA's bare words are the same for the weights and for the cache."""
    answer = explain(f"{text}\n", plan=False)
    assert answer.stage == "kv_alloc" and not asserts(answer.stage_basis)
    assert answer.remedies[0].change.label == "num_ctx 8192"
    assert not any("context" in one.change.label for one in answer.rejected)


def test_a_flag_that_is_told_of_in_a_sentence_is_the_run_s() -> None:
    text = "The pod with vLLM and --kv-offloading-size 40 is OOMKilled, its limit is 32Gi. GPU memory is fine."
    answer = explain(f"{text}\n", plan=False)
    assert answer.cause.id == "K13" and answer.remedies[0].change.label == "--kv-offloading-size 20"
    proposed = "The pod with vLLM is OOMKilled. Would it be fine with --kv-offloading-size 4?"
    assert explain(f"{proposed}\n", plan=False).cause.id == "H03"
