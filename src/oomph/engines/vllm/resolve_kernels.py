"""Which kernel runs a packed integer linear layer, and vLLM's words where none does.

model_executor/kernels/linear/__init__.py:478 (0.21.0) asks the CUDA kernels in order; Marlin takes every shape whose
outputs divide by 64 and inputs by 128. Machete (Hopper) is stricter in outputs and looser in inputs; Exllama takes
float16 only; the others need packages or dtypes that a serve command does not bring.
"""

from __future__ import annotations

from oomph.engines.vllm.kv_specs import Refused
from oomph.engines.vllm.model_facts import ModelFacts
from oomph.engines.vllm.shard import in_features, outs
from oomph.ir.model import Linear

_MARLIN_N, _MARLIN_K = 64, 128  # marlin_utils.py GPTQ_MARLIN_MIN_THREAD_N, _K
_MACHETE_N, _MACHETE_K = 128, 64  # machete_utils.py MACHETE_PREPACKED_BLOCK_SHAPE


def verify_kernels(facts: ModelFacts, *, tp: int, sm: int, dtype: str) -> None:
    for linear in facts.packed:
        n, k = sum(outs(linear, tp)), in_features(linear, tp)
        trouble = _marlin(linear, n, k)
        if not n or not trouble or dtype == "float16" or not sm >= 75:
            continue
        if sm == 90 and n % _MACHETE_N == 0 and k % _MACHETE_K == 0:
            continue
        reasons = "\n".join(_reasons(trouble, n, sm))
        text = f"Failed to find a kernel that can implement the WNA16 linear layer. Reasons: \n{reasons}"
        raise Refused("ValueError", text)


def _marlin(linear: Linear, n: int, k: int) -> str:
    assert linear.scheme is not None
    advice = "Consider reducing tensor_parallel_size or running with --quantization gptq."
    group = linear.scheme.group_size
    if n % _MARLIN_N:
        return f"Weight output_size_per_partition = {n} is not divisible by  min_thread_n = {_MARLIN_N}. {advice}"
    if k % _MARLIN_K:
        return f"Weight input_size_per_partition = {k} is not divisible by min_thread_k = {_MARLIN_K}. {advice}"
    if 0 < group < linear.in_features and k % group:
        return f"Weight input_size_per_partition = {k} is not divisible by group_size = {group}. {advice}"
    return ""


def _reasons(marlin: str, n: int, sm: int) -> list[str]:
    def cannot(kernel: str, why: str) -> str:
        return f" {kernel} cannot implement due to: {why}"

    if sm < 90:
        early = [f"{k} requires capability 90, current compute  capability is {sm}" for k in _HOPPER]
    else:
        hopper = sm == 90
        machete = f"Output features size must be divisible by {_MACHETE_N}" if n % _MACHETE_N else "Input features size"
        early = [
            cannot(_HOPPER[0], f"CUTLASS W4A8 {'only supports FP8 (e4m3) activations' if hopper else _ONLY_HOPPER}"),
            cannot(_HOPPER[1], machete if hopper else f"Machete {_ONLY_HOPPER}"),
        ]
    return [
        *early,
        cannot("AllSparkLinearKernel", f"AllSpark currently does not support device_capability = {sm}."),
        cannot("MarlinLinearKernel", marlin),
        cannot(
            "ConchLinearKernel",
            "conch-triton-kernels is not installed, please install it via `pip install conch-triton-kernels` "
            "and try again!",
        ),
        cannot("ExllamaLinearKernel", "Exllama only supports float16 activations"),
    ]


_HOPPER = ("CutlassW4A8LinearKernel", "MacheteLinearKernel")
_ONLY_HOPPER = "requires compute capability of 90 (Hopper)"
