"""Loads with --enable-sleep-mode: what conversions free stays in a pool that gives nothing back.

The posted ones are vllm#43951 (Qwen3-235B-A22B on four GB200: 0.18 to 0.20 load, 0.21 dies while loading, 71.2 GiB of
the pool free and not usable) and vllm#34877 (gpt-oss-120b on an H100 of 94 GB, a build 293 commits behind a candidate
of 0.16.0: dies on a tensor of 1.01 GiB; without the flag it serves).
"""

import pytest

import oomph
from oomph.engines.vllm.weights import loaded
from oomph.engines.vllm.weights.load.repack import Repacker
from oomph.ir.plan import Plan
from oomph.units import GIB

LARGE = "vllm serve Qwen/Qwen3-235B-A22B-Instruct-2507 -tp 4 --gpu-memory-utilization 0.93 --max-num-seqs 1024"
SMALL = (
    "vllm serve openai/gpt-oss-120b --enforce-eager --gpu-memory-utilization 0.85 --max-model-len 8192 --max-num-seqs 2"
)


def sleeping(command: str, gpu: str, release: str) -> Plan:
    return oomph.plan(f"{command} --enable-sleep-mode", gpu=gpu, engine=f"vllm=={release}")


@pytest.mark.parametrize("release", ["0.18.0", "0.19.1", "0.20.0", "0.20.2"])
def test_a_pool_whose_blocks_are_split_is_used_again(release: str) -> None:
    assert sleeping(LARGE, "4x GB200", release).verdict.fits


def test_copies_of_single_experts_are_stranded_in_every_layer_since_no_block_of_20_mib_is_split() -> None:
    plan = sleeping(LARGE, "4x GB200", "0.21.0")
    assert plan.verdict.stage == "weights_load"
    terms = plan.ranks[0].terms
    # Printed: 109.71 GiB after the load of the weights, 181.80 - 71.20 in use when it died on the way.
    assert terms["weights"].bytes == pytest.approx(109.71 * GIB, rel=0.002)
    assert terms["load_peak"].bytes > 184.31 * GIB
    alone = oomph.plan(LARGE, gpu="4x GB200", engine="vllm==0.21.0")
    assert alone.fits


def test_a_build_between_two_releases_dies_on_the_padded_copy_of_its_experts() -> None:
    plan = sleeping(SMALL, "H100 NVL", "0.16.0rc2.dev293+g2b84ac669")
    assert plan.verdict.stage == "weights_load"
    assert oomph.plan(SMALL, gpu="H100 NVL", engine="vllm==0.16.0rc2.dev293+g2b84ac669").fits


@pytest.mark.parametrize(
    ("command", "gpu", "release"),
    [
        ("vllm serve nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16 --trust-remote-code", "GB200", "0.25.1"),
        ("vllm serve Qwen/Qwen3-30B-A3B", "B200", "0.21.0"),
        ("vllm serve Qwen/Qwen3-30B-A3B-FP8", "B200", "0.26.0"),
        ("vllm serve openai/gpt-oss-20b", "B200", "0.24.0"),
        ("vllm serve openai/gpt-oss-20b", "H100", "0.18.0"),
        ("vllm serve Qwen/Qwen3-8B-AWQ", "H100", "0.32.0"),
        ("vllm serve RedHatAI/Qwen3-30B-A3B-NVFP4", "RTX 5090", "0.28.0"),
    ],
)  # fmt: skip
def test_layers_that_are_repeated_strand_what_layers_that_are_played_do(
    command: str, gpu: str, release: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    repeated = sleeping(command, gpu, release).ranks[0].terms["load_peak"]
    monkeypatch.setattr(Repacker, "is_lasting", lambda self, now: False)  # every layer is played
    for kept in (loaded._weights, loaded._played, loaded._played_alike):
        kept.cache_clear()
    played = sleeping(command, gpu, release).ranks[0].terms["load_peak"]
    for kept in (loaded._weights, loaded._played, loaded._played_alike):
        kept.cache_clear()
    assert repeated.bytes == played.bytes
    assert repeated.bytes > 0


def test_an_expert_kernel_that_copies_leaves_more_than_a_copy_of_the_experts() -> None:
    """vllm#52511, read after the rule was written: a Nemotron 3 in BF16 on GB200, 0.25.1, dies with 60 GiB stranded."""
    terms = sleeping("vllm serve nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16 --trust-remote-code", "GB200", "0.25.1")
    weights, peak = (terms.ranks[0].terms[name].bytes for name in ("weights", "load_peak"))
    assert peak > weights + terms.ranks[0].terms["weights"].parts["experts"] // 2


ARGUMENTS = "non-default args: {'model_tag': 'Qwen/Qwen3-235B-A22B', 'tensor_parallel_size': 4%s}"
DIES_IN_A_CONVERSION = """
INFO 05-03 10:11:12 [core.py:105] Initializing a V1 LLM engine (v0.21.0) with config: model='Qwen/Qwen3-235B-A22B'
ERROR 05-03 10:14:12 [multiproc_executor.py:870]   File "/x/vllm/model_executor/layers/fused_moe/layer.py", \
line 210, in process_weights_after_loading
ERROR 05-03 10:14:12 [multiproc_executor.py:870] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 12.00 \
MiB. GPU 0 has a total capacity of 184.31 GiB of which 9.00 MiB is free. Including non-PyTorch memory, this \
process has 184.29 GiB memory in use. Of the allocated memory 182.10 GiB is allocated by PyTorch%s, and 710.54 MiB is \
reserved by PyTorch but unallocated.
"""
IN_A_POOL = ", with 71.20 GiB allocated in private pools (e.g., CUDA Graphs)"


@pytest.mark.parametrize(
    ("flag", "pool", "rule"),
    [(", 'enable_sleep_mode': True", IN_A_POOL, "L12"), ("", IN_A_POOL, "L12"), ("", "", "L05")],
)
def test_a_conversion_that_fails_inside_the_pool_is_the_pools_failure(flag: str, pool: str, rule: str) -> None:
    """The traceback is that of a conversion; that the pool had swallowed the memory is in the message."""
    explanation = oomph.explain(f"INFO 05-03 10:10:00 [utils.py:233] {ARGUMENTS % flag}{DIES_IN_A_CONVERSION % pool}")
    assert (explanation.stage, explanation.cause.id) == ("weights_load", rule)
    changes = [remedy.change.label for remedy in explanation.remedies]
    assert ("without --enable-sleep-mode" in changes) is (rule == "L12")
