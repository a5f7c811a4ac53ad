"""Decisions of the engines that no other test noticed when one was turned round (`make mutants`)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from oomph import plan
from oomph.answers.plan import parse as read_command
from oomph.doctor.explain import explain
from oomph.engines.protocol import EngineProtocol
from oomph.engines.registry import all_engines, engine_of
from oomph.engines.trtllm.rules.t04_trtllm_short_context import _final_cut
from oomph.engines.trtllm.scheduler.decode_time import DecodeTime
from oomph.errors import OomphError
from oomph.ir.observation import Observation

STATE_BLOCKS = """INFO 01-05 10:00:00 [api_server.py:1287] vLLM API server version 0.25.1
ERROR 01-05 10:00:01 [core.py:1108] ValueError: max_num_seqs ({seqs}) exceeds available Mamba cache blocks ({blocks}).
"""


@pytest.mark.parametrize(("blocks", "offer"), [(614, 512), (173, 128), (100, 64), (5, 4), (4, 4), (3, 2), (1, 1)])
def test_as_many_sequences_as_there_are_state_blocks(blocks: int, offer: int) -> None:
    answer = explain(STATE_BLOCKS.format(seqs=1024, blocks=blocks), plan=False)
    assert answer.cause.id == "K06"
    change = answer.remedies[0].change
    assert change.label == f"--max-num-seqs {offer}" and change.flags == {"max_num_seqs": offer}


def test_what_stands_behind_a_model_flag_is_kept() -> None:
    command = "vllm serve --max-num-seqs 7 --model Qwen/Qwen3-8B --max-model-len 4096 --enforce-eager"
    deployment = read_command(command, engine="vllm==0.21.0")
    assert deployment.model == "Qwen/Qwen3-8B"
    assert deployment.flags == {"max_num_seqs": 7, "max_model_len": 4096, "enforce_eager": True}


def test_sglang_serve_starts_a_server_and_its_other_commands_do_not() -> None:
    assert read_command("sglang serve --model-path Qwen/Qwen3-8B").model == "Qwen/Qwen3-8B"
    with pytest.raises(OomphError):
        read_command("sglang generate --model-path Qwen/Qwen3-8B")


@pytest.mark.parametrize(
    ("flags", "needed"),
    [("", 1), ("--tp_size 2", 2), ("--pp_size 2", 2), ("--cp_size 2", 2), ("--tp_size 4 --pp_size 2", 8)],
)
def test_tensorrt_llm_multiplies_its_layouts(flags: str, needed: int) -> None:
    deployment = read_command(f"trtllm-serve Qwen/Qwen3-8B {flags}".strip())
    assert engine_of(deployment).gpus_needed(deployment) == needed


def test_sglang_offers_fewer_requests_before_a_shorter_context() -> None:
    answer = plan("sglang serve --model-path Qwen/Qwen3-8B", gpu="H200")
    levers = {lever.name: lever.changes[0].rank for lever in engine_of(answer.deployment).levers(answer)}
    assert levers["max_running_requests"] == 2
    assert levers["max_running_requests"] < levers["context_length"]


@pytest.mark.parametrize("engine", all_engines(), ids=lambda engine: engine.name)
def test_the_steps_of_a_control_are_doublings(engine: EngineProtocol) -> None:
    for control in engine.controls():
        assert list(control.steps) == [control.steps[0] << index for index in range(len(control.steps))], control


def test_sglang_tries_every_smaller_share_of_the_window_pool() -> None:
    answer = plan("sglang serve --model-path openai/gpt-oss-20b", gpu="H200")
    levers = {lever.name: lever for lever in engine_of(answer.deployment).levers(answer)}
    shares = [change.flags["swa_full_tokens_ratio"] for change in levers["swa_full_tokens_ratio"].changes]
    assert shares == [0.5, 0.3, 0.2, 0.1]


@pytest.mark.parametrize(
    ("prompt", "computed", "new", "drafts", "chunk"),
    [(8, 4, 0, 0, (4, 3)), (8, 8, 5, 2, (12, 3)), (8, 8, 1, 1, (8, 2))],
)
def test_a_step_with_drafts_is_a_chunk_behind_what_was_written(
    prompt: int, computed: int, new: int, drafts: int, chunk: tuple[int, int]
) -> None:
    chunks: list[tuple[int, int]] = []
    time: Any = SimpleNamespace(
        decoding=lambda: (), chunk=lambda groups, context, tokens: chunks.append((context, tokens))
    )
    request: Any = SimpleNamespace(decodes=bool(new), computed=computed, prompt=prompt, new=new, tokens=computed + new)
    DecodeTime(time, (), 1).step(request, 3, drafts=drafts)
    assert chunks == [chunk]


@pytest.mark.parametrize("option", ["--keepalive 5m", "--format json", "--think high", "--keepalive=5m", "--verbose"])
def test_what_stands_behind_an_option_of_ollama_is_no_model(option: str) -> None:
    assert read_command(f"ollama run {option} qwen3:8b --num-ctx 8192").model == "qwen3:8b"


@pytest.mark.parametrize(
    ("lengths", "refused", "is_cut"), [((0,), 5, False), ((1,), 5, True), ((8, 4), 0, True), ((8, 8), 0, False)]
)
def test_tensorrt_llm_serves_less_than_before_or_than_came(
    lengths: tuple[int, ...], refused: int, is_cut: bool
) -> None:
    lines = [Observation(at, "tr_blocks", {"length": length}) for at, length in enumerate(lengths, 1)]
    lines.append(Observation(9, "tr_too_long", {"length": refused}))
    case: Any = SimpleNamespace(all=lambda kind: [line for line in lines if line.kind == kind], first=lambda kind: None)
    assert (_final_cut(case) is not None) is is_cut
