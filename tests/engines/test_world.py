"""As many GPUs as ranks: one check for every engine and every kind of parallelism, in the engine's own words."""

from __future__ import annotations

import shlex

import pytest

from oomph import plan
from oomph.engines.registry import all_engines
from oomph.ir.plan import Plan
from oomph.ir.world import World, fewer_ranks, shortage
from oomph.sources.gpu import parse_gpus

VLLM = "vllm serve Qwen/Qwen3-8B"
SGLANG = "python -m sglang.launch_server --model-path Qwen/Qwen3-8B"
TRTLLM = "trtllm-serve Qwen/Qwen3-8B"


def planned(command: str, gpu: str, engine: str = "", *, advise: bool = False) -> Plan:
    return plan(shlex.split(command), gpu=gpu, engine=engine, advise=advise)


@pytest.mark.parametrize(
    ("command", "gpu", "engine", "words"),
    [
        (f"{VLLM} -tp 4", "2x H100", "", "World size (4) is larger than the number of available GPUs (2) in this node"),
        (f"{VLLM} -pp 4", "2x H100", "", "World size (4)"),
        (f"{VLLM} -tp 4", "2x H100", "vllm==0.12.0", "Tensor parallel size (4) cannot be larger than"),
        (f"{VLLM} -tp 4", "2x H100", "vllm==0.11.0", "Cannot provide a placement group"),
        (f"{VLLM} -dp 4", "2x H100", "", "DP adjusted local rank 2 is out of bounds for 2 devices."),
        (f"{VLLM} -dp 4", "2x H100", "vllm==0.21.0", "DP adjusted local rank 2 is out of bounds. "),
        (f"{VLLM} -dp 4", "2x H100", "vllm==0.10.2", "No CUDA GPUs are available"),
        (f"{VLLM} -dp 2 -tp 2", "2x H100", "", "DP adjusted local rank 2"),
        (f"{VLLM} -tp 4 --distributed-executor-backend mp", "2x H100", "", "DP adjusted local rank 2"),
        (f"{VLLM} -tp 4 --distributed-executor-backend mp", "2x H100", "vllm==0.21.0", "invalid device ordinal"),
        (f"{VLLM} -tp 4", "2x MI300X", "", "DP adjusted local rank 2"),
        (f"{VLLM} -tp 4", "2x MI300X", "vllm==0.21.0", "HIP error: invalid device ordinal"),
        (f"{VLLM} -tp 4 --distributed-executor-backend ray", "2x H100", "", "requiring 4 GPUs"),
        (f"{VLLM} -dp 4 --data-parallel-backend ray", "2x H100", "", "possible to fit 2 DP ranks"),
        (f"{VLLM} -dp 8 -dpl 2", "2x(2x H100)", "", "8 ranks on all nodes need 8 GPUs, and there are 4"),
        (f"{VLLM} -tp 6 --nnodes 2", "2x H100", "", "out of bounds"),
        (f"{SGLANG} --tp 4", "2x H100", "", "invalid device ordinal (the command starts 4 ranks and there are 2 GPUs)"),
        (f"{SGLANG} --dp-size 4", "2x H100", "", "invalid device ordinal"),
        (f"{SGLANG} --tp 4 --pp-size 2 --nnodes 2", "2x H100", "", "invalid device ordinal"),
        (f"{SGLANG} --tp 4", "2x MI300X", "", "HIP error"),
        (f"{SGLANG} --base-gpu-id 5", "2x H100", "", "the command puts a rank on GPU 5 and there are 2 GPUs"),
        (f"{SGLANG} --tp 2 --base-gpu-id 1", "2x H100", "", "puts a rank on GPU 2 and there are 2 GPUs"),
        (f"{SGLANG} --tp 2 --gpu-id-step 4", "4x H100", "", "puts a rank on GPU 4 and there are 4 GPUs"),
        (f"{SGLANG} --tp 4 --nnodes 2 --base-gpu-id 1", "2x H100", "", "puts a rank on GPU 2"),
        (f"{TRTLLM} --tp_size 2", "1x H100", "", "Duplicate GPU detected"),
        (f"{TRTLLM} --tp_size 4", "2x H100", "", "the command starts 4 ranks and there are 2 GPUs"),
        (f"{TRTLLM} --pp_size 4", "2x H100", "", "Duplicate GPU detected"),
        (f"{TRTLLM} --cp_size 4", "2x H100", "", "Duplicate GPU detected"),
        (f"{TRTLLM} --tp_size 4 --gpus_per_node 4", "2x H100", "", "Only 2 GPUs are available, but 4 are required."),
    ],
)
def test_more_ranks_than_gpus_do_not_start(command: str, gpu: str, engine: str, words: str) -> None:
    answer = planned(command, gpu, engine, advise=True)
    assert words in answer.verdict.message
    assert (answer.verdict.outcome, answer.verdict.refusal) == ("fails", "gpus")
    assert answer.advice is not None and answer.advice.fixes
    assert "worker process" in answer.advice.why[0]
    assert answer.to_dict()["verdict"]["refusal"] == "gpus"
    for fix in answer.advice.fixes:
        if fix.change.kind != "hardware":
            assert planned(fix.command, gpu, engine).verdict.outcome == "fits", fix.command


@pytest.mark.parametrize(
    ("command", "gpu", "gpus"),
    [
        (f"{VLLM} -dp 4", "H100", 4),  # one card without a number stands for as many as are needed
        (f"{VLLM} -dp 4 -dpl 2", "2x H100", 2),  # the others run on nodes that nobody named
        (f"{VLLM} -dp 4 -dpl 2", "2x(2x H100)", 4),
        (f"{VLLM} -dp 4 --data-parallel-rank 1", "1x H100", 1),
        (f"{VLLM} -tp 4 --nnodes 2", "2x H100", 4),  # the command itself speaks of two nodes
        (f"{VLLM} -tp 4 --nnodes 2 --node-rank 1", "2x(2x H100)", 4),
        (f"{VLLM} -tp 2 -pp 2 --distributed-executor-backend ray", "2x(2x H100)", 4),
        (f"{SGLANG} --tp 4 --nnodes 2", "2x H100", 4),
        (f"{SGLANG} --tp 2 --dp-size 2 --enable-dp-attention", "2x H100", 2),
        (f"{SGLANG} --tp 2 --gpu-id-step 2", "4x H100", 4),
        (f"{SGLANG} --base-gpu-id 1", "2x H100", 2),
        (f"{SGLANG} --tp 2 --base-gpu-id 1", "H100", 3),
        (f"{TRTLLM} --tp_size 4 --gpus_per_node 2", "2x(2x H100)", 4),
        (f"{TRTLLM} --tp_size 2 --ep_size 2", "2x H100", 2),
    ],
)
def test_ranks_on_other_nodes_count_against_the_nodes_that_are_named(command: str, gpu: str, gpus: int) -> None:
    answer = planned(command, gpu)
    assert answer.verdict.outcome == "fits", answer.verdict.message
    assert len(answer.deployment.gpus) == gpus >= len(answer.ranks)


def test_an_explicit_count_is_never_raised() -> None:
    for count in (1, 2, 3):
        answer = planned(f"{VLLM} -tp 4", f"{count}x H100")
        assert len(answer.deployment.gpus) == count and not answer.fits


def test_ranks_take_the_memory_of_the_gpus_that_they_are_put_on() -> None:
    """SGLang counts from --base-gpu-id on: what others hold of the cards before it is not in its way."""
    free, full = (
        planned(f"{SGLANG} --base-gpu-id 1", gpu) for gpu in ("H100 used 60GiB, H100", "H100, H100 used 60GiB")
    )
    assert free.ranks[0].used_by_others_bytes == 0 < full.ranks[0].used_by_others_bytes
    assert free.kv is not None and full.kv is not None and free.kv.available_bytes > full.kv.available_bytes


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--tp 4 --ep 8", "--ep-size 8 is more than --tp-size 4"),
        ("--ep 2", "--ep-size 2 is more than --tp-size 1"),
        ("--tp 4 --ep 3", "--ep-size 3 does not divide --tp-size 4"),
    ],
)
def test_experts_are_shared_among_tensor_parallel_ranks(flags: str, words: str) -> None:
    """initialize_model_parallel (0.5.9) makes groups of none, or of ranks that are not there."""
    answer = planned(f"python -m sglang.launch_server --model-path Qwen/Qwen3-30B-A3B {flags}", "4x H100", advise=True)
    assert words in answer.verdict.message and not answer.fits
    assert answer.advice is not None and answer.advice.fixes


def test_the_comparison() -> None:
    two, nodes = parse_gpus("2x H100"), parse_gpus("2x(2x H100)")
    assert shortage(World(2, 2), two) is None and shortage(World(3, 3), two) is not None
    assert shortage(World(2, 4, nodes=2), two) is None and shortage(World(3, 5, nodes=2), two) is not None
    assert shortage(World(0, 4), nodes) is None and shortage(World(0, 5), nodes) is not None
    assert (
        shortage(World(2, 8, elsewhere=True), two) is None and shortage(World(2, 8, elsewhere=True), nodes) is not None
    )
    assert list(fewer_ranks({"dp": 2, "tp": 4}, 4)) == [("dp", 1), ("tp", 2)]
    assert list(fewer_ranks({"dp": 1, "tp": 4}, 3)) == [("tp", 2)]
    assert list(fewer_ranks({"dp": 4, "tp": 4}, 2)) == []


def test_every_engine_has_a_world() -> None:
    for engine in all_engines():
        assert bool(engine.degrees) is (engine.layout == "ranks")


@pytest.mark.parametrize(
    "command",
    [
        "vllm serve Qwen/Qwen3-8B -tp 2", "vllm serve Qwen/Qwen3-8B -dp 2", "trtllm-serve Qwen/Qwen3-8B --tp_size 2",
        "python -m sglang.launch_server --model-path Qwen/Qwen3-8B --tp 2",
    ],
)  # fmt: skip
def test_a_process_sees_one_slice_of_a_card(command: str) -> None:
    slices = plan(command.split(), gpu="2x H100 MIG 3g.40gb", advise=False)
    assert slices.verdict.refusal == "gpus"
    assert plan(command.split(), gpu="2x H100", advise=False).verdict.fits
    one = plan("vllm serve Qwen/Qwen3-8B", gpu="2x H100 MIG 3g.40gb")
    assert one.verdict.fits
