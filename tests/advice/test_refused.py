"""A refusal has a way out: what is not about memory is answered by a search too, and every answer is planned."""

from __future__ import annotations

import os
import shlex
from itertools import islice

import pytest
import refused_truth

from oomph import plan
from oomph.errors import CommandError
from oomph.ir.plan import Plan

STEP = 1 if os.environ.get("OOMPH_REFUSALS") else 9  # every refusal in `make long`
MOST_EMPTY = 0.05


def planned(command: str, gpu: str, engine: str = "") -> Plan:
    return plan(shlex.split(command), gpu=gpu, engine=engine)


def labels(answer: Plan) -> list[str]:
    assert answer.advice is not None
    return [fix.change.label for fix in answer.advice.fixes]


def test_nearly_every_refusal_of_the_truth_sets_has_a_way_out() -> None:
    answers = [(case, refused_truth.answer(case)) for case in islice(refused_truth.refusals(), 0, None, STEP)]
    refused = [(case.id, answer.advice) for case, answer in answers if answer is not None]
    empty = [name for name, advice in refused if advice is None or not advice.fixes]
    assert len(refused) > 500 / STEP
    assert len(empty) <= MOST_EMPTY * len(refused), "\n".join(empty)


@pytest.mark.parametrize(
    ("command", "gpu", "engine", "expected"),
    [
        ("vllm serve Qwen/Qwen3-235B-A22B-FP8 -tp 8", "8x H100", "vllm==0.11.0", ["--enable-expert-parallel", "-tp 4"]),
        ("vllm serve Qwen/Qwen3-32B -tp 3", "4x H100", "", ["-tp 2", "-tp 4"]),
        ("vllm serve Qwen/Qwen3-4B --dtype bfloat16", "T4", "", ["--dtype half"]),
        ("vllm serve Qwen/Qwen3-8B --quantization awq", "RTX 4090", "", ["Qwen/Qwen3-8B-AWQ"]),
        ("vllm serve Qwen/Qwen3-32B --max-model-len 65536 -tp 2", "2x H100", "", ["--max-model-len 40960", "yarn"]),
        (
            "vllm serve Qwen/Qwen3-235B-A22B-FP8 --max-model-len 65536 -tp 8 --enable-expert-parallel",
            "8x H100",
            "",
            ["--max-model-len 40960", "yarn", "Qwen/Qwen3-235B-A22B-Instruct-2507-FP8"],
        ),
        (
            "vllm serve Qwen/Qwen3-8B --enable-auto-tool-choice --tool-call-parser hermess",
            "H100",
            "",
            ["--tool-call-parser hermes"],
        ),
        ("vllm serve qwen3-8b", "H100", "", ["Qwen/Qwen3-8B"]),
        ("vllm serve Qwen/Qwen3-8B -dp 4", "2x H100", "", ["-dp 2", "on 4 x H100"]),
        ("vllm serve Qwen/Qwen3-8B --attention-backend FLASHMLA", "H100", "", ["without --attention-backend FLASHMLA"]),
        (
            "python -m sglang.launch_server --model-path Qwen/Qwen3-8B --context-length 65536",
            "H100",
            "",
            ["without --context-length 65536"],
        ),
        ("trtllm-serve Qwen/Qwen3-8B-AWQ", "H100", "", ["Qwen/Qwen3-8B"]),
    ],
)
def test_the_way_out(command: str, gpu: str, engine: str, expected: list[str]) -> None:
    answer = planned(command, gpu, engine)
    assert answer.verdict.refusal and answer.advice is not None
    for words in expected:
        assert any(words in label for label in labels(answer)), labels(answer)
    for fix in answer.advice.fixes:
        if fix.change.kind in ("hardware", "release"):
            continue
        again = planned(fix.command, gpu, engine)
        assert again.verdict.outcome == "fits", fix.command
        assert (fix.outcome, fix.effect, fix.gain_bytes) == ("fits", "fixes", 0)


def test_a_change_that_only_ends_the_refusal_is_planned_on() -> None:
    answer = planned("vllm serve meta-llama/Llama-3.3-70B-Instruct --quantization awq -tp 2", "2x RTX 3090")
    assert labels(answer)[0].startswith("casperhansen/llama-3.3-70b-instruct-awq --max-model-len")


def test_what_no_release_has_another_engine_may() -> None:
    """Where none that reads the checkpoint has it, one that has another file of it: here, or on a node of the card."""
    for count in (8, 1):
        answer = planned("vllm serve stepfun-ai/Step-3.7-Flash", f"{count}x H100", "vllm==0.21.0")
        assert answer.advice is not None
        assert answer.advice.fixes[0].command.startswith("llama-server -hf unsloth/Step-3.7-Flash-GGUF:")
        assert ("on 8 x H100 SXM instead of 1" in answer.advice.fixes[0].change.cost) is (count == 1)
    command = "trtllm-serve ibm-granite/granite-3.3-8b-instruct --tp_size 2 --max_batch_size 8"
    answer = planned(command, "2x H100", "trtllm==1.2.1")
    assert answer.verdict.refusal == "model" and answer.advice is not None
    commands = [fix.command for fix in answer.advice.fixes]
    assert "vllm serve ibm-granite/granite-3.3-8b-instruct --tensor-parallel-size 2" in commands
    assert any(command.startswith("python -m sglang.launch_server") for command in commands)


def test_a_refusal_behind_the_refusal_is_answered_too() -> None:
    """The release that has the model refuses its context, or the card its cache."""
    model = "ibm-ai-platform/Bamba-9B-v1"
    answer = planned(f"vllm serve {model} --max-model-len 500000 --max-num-seqs 64", "H100", "vllm==0.29.0")
    assert labels(answer) == ["vLLM 0.23.0 --max-model-len 4096"]
    older = planned(
        "vllm serve Qwen/Qwen3-0.6B --max-model-len 50000 --kv-cache-dtype fp8", "V100 SXM2 32GB", "vllm==0.32.0"
    )
    assert older.advice is not None and older.advice.fixes
    fix = older.advice.fixes[0]
    assert fix.change.version.startswith("0.1") and "--max-model-len 40960" in fix.command


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        ("vllm serve Qwen/Qwen3-8B --max-modle-len 4096", "with --max-model-len it fits: vllm serve Qwen/Qwen3-8B"),
        ("vllm serve Qwen/Qwen3-8B --dtype bf16", "with bfloat16 it fits"),
        ("vllm serve Qwen/Qwen3-235B-A22B --dtype=bf16", "with bfloat16 it does not start either"),
        ("trtllm-serve Qwen/Qwen3-8B --max-seq-len 4096", "with --max_seq_len it fits"),
        ("sglang serve Qwen/Qwen3-8B --contxt-length=4096", "with --context-length it fits"),
        ("vllm serve Qwen/Qwen3-8B --bogus-flag 3", "unrecognized arguments"),
    ],
)
def test_a_misspelt_word_is_planned_as_it_was_meant(command: str, hint: str) -> None:
    with pytest.raises(CommandError) as error:
        planned(command, "H100")
    assert hint in error.value.hint


@pytest.mark.parametrize(
    ("command", "gpu", "first"),
    [
        # a flag that is set twice is said once, with its later value
        ("vllm serve Qwen/Qwen3-32B --max-model-len 65536", "H100", "--max-model-len 29952"),
        # a degree that nothing but its own removal mends
        (
            "vllm serve Qwen/Qwen3-8B --prefill-context-parallel-size 4",
            "2x H100",
            "without --prefill-context-parallel-size 4",
        ),
    ],
)
def test_a_way_out_is_said_as_it_is_typed(command: str, gpu: str, first: str) -> None:
    # one answer: YaRN is of no use beside a context that the model has by itself
    assert labels(planned(command, gpu, "vllm==0.32.0")) == [first]
