"""The table of vLLM's PR 39866, and what its gate does to four long sessions."""

from __future__ import annotations

import pytest

from oomph.facts.vllm.facts import at
from oomph.simulate.api import Load, Setup, prepare, simulate
from oomph.simulate.result import Result
from oomph.simulate.workloads import Arrivals, Shape

GEMMA = (
    "vllm serve nvidia/Gemma-4-31B-IT-NVFP4 --max-num-seqs 64 --max-num-batched-tokens 8192 "
    "--gpu-memory-utilization 0.9 --async-scheduling --kv-cache-dtype bfloat16 --max-model-len "
)


def setup(version: str, length: int = 131072, blocks: str = "60GiB") -> Setup:
    return prepare(GEMMA + str(length), gpu="B200", engine=f"vllm=={version}", given={"available_kv": blocks})


def window(version: str, length: int) -> tuple[int, int]:
    """(cap, what a prompt of 16,001 tokens is asked for) of one sliding-window group."""
    config = setup(version, length).built.config
    group = next(g for g in config.groups if g.kind == "window")
    assert group.count == 5 and group.span == 1024
    return group.cap, group.admission(16001, config.gate == "capped")


def test_blocks_asked_for_a_window_group() -> None:
    assert window("0.19.1", 131072)[1] == 1001  # cdiv(16001, 16): the window is ignored
    assert window("0.21.0", 131072) == (577, 577)  # cdiv(1023 + 8192, 16) + 1: a window may begin inside a block
    # The PR's own 576 is cdiv(1024 + 8192, 16); what was merged counts one block more, and one token less.
    assert -(-(1024 + 8192) // 16) == 576


def test_async_scheduling_takes_the_cap_away() -> None:
    """From 0.26 on two batches are in flight: 1023 + 2 x 8192 tokens are more than a request of 16,001 has."""
    config = prepare(
        GEMMA + "16001 --block-size 16", gpu="B200", engine="vllm==0.32.0", given={"available_kv": "60GiB"}
    ).built.config
    group = next(g for g in config.groups if g.kind == "window")
    assert group.block_size == 16 and group.cap == 1002  # cdiv(min(1023 + 2 x 8192, 16001), 16) + 1
    assert group.admission(16001, True) == 1001  # so that the prompt is asked for all its blocks again


@pytest.mark.parametrize(
    ("version", "gate"), [("0.17.1", "chunk"), ("0.18.1", "chunk"), ("0.19.0", "full"), ("0.20.0", "capped"),
                          ("0.32.0", "capped")],
)  # fmt: skip
def test_gate_by_release(version: str, gate: str) -> None:
    assert at(version).scheduler.gate == gate


def test_watermark_and_settled_tokens_by_release() -> None:
    assert not at("0.23.0").scheduler.watermark and at("0.24.0").scheduler.watermark
    assert not at("0.25.1").scheduler.settled and at("0.26.0").scheduler.settled
    assert not at("0.23.0").scheduler.uncached_first and at("0.24.0").scheduler.uncached_first


# SCBench Code.RepoQA as PR 39866 ran it: four sessions at a time, five turns on a context of about 65,000 tokens. It
# gives neither the size of its cache nor of its answers; SCBench lets RepoQA answer with up to 1,024 tokens.
def sessions(version: str, cache: str, answer: int) -> Result:
    load = Load(Shape(65000, answer, turns=5, turn_prompt=100), Arrivals(users=4, spread=0.001), 20)
    return simulate(setup(version, blocks=cache), load)


def test_four_long_sessions_one_after_the_other_then_together() -> None:
    """The PR measured 2,295.7 s -> 286.7 s. One at a time, a session also loses its prefix to the three others."""
    before, after = sessions("0.19.1", "60GiB", 1024), sessions("0.21.0", "60GiB", 1024)
    assert before.max_running == 1 and before.binds["blocks"] > 0.2
    assert after.max_running == 4 and "blocks" not in after.binds
    assert before.done == after.done == 20
    assert before.cached_share < 0.01 and after.cached_share > 0.75
    # Five turns save at most four fifths of the prefill, and four sessions at a time at most three quarters of the
    # decoding: no cache and no answer makes more than five of it.
    assert 2.5 < before.seconds / after.seconds < 5
    # The prompt tokens/s of both runs come out near what the PR saw (about 8K, 16-25K). Its 2,295.7 s do not: at 8K a
    # second that would be 18 million prompt tokens, and 100 prompts have 6.6.
    assert 5_000 < before.prompt_tokens_per_second < 10_000
    assert 14_000 < after.prompt_tokens_per_second < 27_000


def test_the_gate_of_0_19_does_not_bind_on_the_whole_of_a_b200() -> None:
    """127 GiB are planned for the PR's command: four sessions hold 19,700 of 52,306 blocks, a fifth is still let in."""
    before, after = sessions("0.19.1", "127GiB", 64), sessions("0.21.0", "127GiB", 64)
    assert before.max_running == after.max_running == 4
    assert before.seconds == pytest.approx(after.seconds, rel=0.02)


def test_prompt_that_0_19_never_admits() -> None:
    """Issue 39734: 9,452 free blocks admit 27,488 tokens on 0.19; a longer prompt waits for ever."""
    command = "vllm serve google/gemma-4-31B-it -tp 2 --max-num-seqs 1 --max-model-len 131072"
    setups = {
        v: prepare(command, gpu="2x H100", engine=f"vllm=={v}", given={"available_kv": "11.54GiB"})
        for v in ("0.19.1", "0.21.0")
    }
    old = setups["0.19.1"].built.config
    assert old.need(27488) <= old.usable < old.need(27489)
    long = Load(Shape(27489, 10), Arrivals(users=1), 1)
    assert simulate(setups["0.19.1"], long).never == 1
    assert simulate(setups["0.21.0"], long).done == 1


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("0.13.0", ("each", "all", "prompt", "no", True, False)),
        ("0.14.1", ("spiral", "all", "prompt", "no", False, False)),
        ("0.17.1", ("simple", "all", "block", "no", False, False)),
        ("0.21.0", ("once", "all", "block", "no", False, False)),
        ("0.25.1", ("once", "reachable", "common", "running", False, False)),
        ("0.28.0", ("once", "reachable", "wide", "running", False, True)),
        ("0.30.0", ("once", "replay", "wide", "any", False, True)),
        ("0.32.0", ("past", "replay", "resend", "any", False, True)),
    ],
)
def test_prefix_and_draft_rules_by_release(version: str, expected: tuple[object, ...]) -> None:
    r = at(version).scheduler
    assert (r.eagle, r.hashes, r.split, r.pad_drafts, r.drafts_stay, r.stale_waits) == expected


def test_recurrent_layers_are_groups_of_their_mode() -> None:
    """GDN with prefix caching: align, one state and one more for a step; without: one block a request."""
    command = "vllm serve Qwen/Qwen3-Next-80B-A3B-Instruct -tp 4 --max-model-len 32768"
    on, off = (
        prepare(command + flag, gpu="4x H100", engine="vllm==0.21.0").built.config
        for flag in (" --enable-prefix-caching", " --no-enable-prefix-caching")
    )
    assert {g.kind for g in on.groups} == {"full", "align"} and on.aligned and on.prefix_caching
    assert {g.kind for g in off.groups} == {"full", "state"} and not off.aligned
