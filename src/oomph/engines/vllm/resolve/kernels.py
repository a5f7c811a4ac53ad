"""Which kernel runs a packed integer linear layer, and vLLM's words where none does.

model_executor/kernels/linear/__init__.py:478 (0.21.0) asks the CUDA kernels in order (mixed_precision/*.py,
can_implement); a packed layer that none takes is refused with every kernel's reason.
"""

from collections.abc import Callable

from msgspec import Struct

from oomph.engines.common.shard import in_features, outs, tower_module_ranks, tower_parts
from oomph.engines.vllm.kv.specs import Refused
from oomph.engines.vllm.traits import Traits
from oomph.facts.vllm.linear_backends import CAPABILITY, CUT_GROUP, PACKED, LinearKernels
from oomph.ir import Linear, Scheme
from oomph.text.tables import first_that_holds

_MARLIN_N, _MARLIN_K = 64, 128  # marlin_utils.py GPTQ_MARLIN_MIN_THREAD_N, _K
_MACHETE_N, _MACHETE_K = 128, 64  # machete_utils.py MACHETE_PREPACKED_BLOCK_SHAPE
_ALLSPARK = 16  # allspark_utils.py ALLSPARK_AMPERE_N_ALIGN, _K_ALIGN


class Case(Struct, frozen=True):
    """MPLinearLayerConfig."""

    n: int  # outputs and inputs on this rank
    k: int
    k_full: int
    scheme: Scheme
    half: bool  # activations in float16
    sm: int
    padded: bool

    @property
    def group(self) -> int:
        return self.scheme.group_size if self.scheme.group_size > 0 else -1

    @property
    def cut(self) -> bool:
        """A scale group lies across two ranks."""
        return 0 < self.group < self.k_full and self.k % self.group != 0

    @property
    def kind(self) -> str:
        """The weights' scalar type."""
        bits = self.scheme.bits
        return f"uint{bits}b{1 << bits - 1}" if self.scheme.symmetric else f"uint{bits}"


def verify_tower_kernels(
    traits: Traits, kernels: LinearKernels, habits: frozenset[str], *, tp: int, sm: int, dtype: str
) -> None:
    """Encoders are built before the language model."""
    for tower, linear in traits.tower_packed if sm >= 60 else ():
        ranks = tower_module_ranks(linear, tower_parts(tower, tp, habits))
        case = _case(linear, ranks, habits, dtype, sm, kernels.marlin_pads)
        if case.n:
            _verify_groups(case, kernels.names_cut_layers, f"{tower.prefix.removeprefix('model.')}.{linear.name}")
            _ask(case, kernels.order)


def kernel_order(names: tuple[str, ...], backend: str) -> tuple[str, ...]:
    """The kernels that --linear-backend leaves; all of them where it has none."""
    return tuple(name for name in names if PACKED.get(backend) in (name, None)) or names


def verify_kernels(
    traits: Traits, kernels: LinearKernels, order: tuple[str, ...], *, tp: int, sm: int, dtype: str
) -> None:
    architecture = traits.model.architecture
    for index, linear in traits.packed if sm >= 60 else ():
        case = _case(linear, tp, frozenset(), dtype, sm, kernels.marlin_pads)
        if case.n:
            inner = "language_model.model" if architecture.endswith("ForConditionalGeneration") else "model"
            _verify_groups(case, kernels.names_cut_layers, f"{inner}.layers.{index}.{linear.name}")
            _ask(case, order)


def _verify_groups(case: Case, named: bool, layer: str) -> None:
    if case.cut and named and case.scheme.format == "pack-quantized":
        raise Refused("ValueError", CUT_GROUP.format(c=case, layer=layer))


def _case(linear: Linear, tp: int, habits: frozenset[str], dtype: str, sm: int, padded: bool) -> Case:
    assert linear.scheme is not None
    n, k = sum(outs(linear, tp, habits)), in_features(linear, tp, habits)
    return Case(n, k, linear.in_features, linear.scheme, dtype == "float16", sm, padded=padded)


def _ask(case: Case, names: tuple[str, ...]) -> None:
    if case.scheme.method == "awq":
        _verify_awq(case)
    else:
        _verify(case, names)


def _verify_awq(case: Case) -> None:
    """awq.py:198 (0.21.0): where Marlin does not take the shape, the plain kernels want whole groups and words."""
    side = "input" if case.cut else "output" if _tiles(case) and case.n % (32 // case.scheme.bits) else ""
    if side:
        raise Refused(
            "ValueError",
            f"The {side} size is not aligned with the quantized weight shape. This can be caused by too large tensor "
            "parallel size.",
        )


def _verify(case: Case, names: tuple[str, ...]) -> None:
    reasons = []
    for name in names:
        least = CAPABILITY[name]
        if least > case.sm:
            reasons.append(f"{name}LinearKernel requires capability {least}, current compute  capability is {case.sm}")
            continue
        trouble = _TROUBLE[name](case)
        if not trouble:
            return
        reasons.append(f" {name}LinearKernel cannot implement due to: {trouble}")
    lines = "\n".join(reasons)
    raise Refused(
        "ValueError", f"Failed to find a kernel that can implement the WNA16 linear layer. Reasons: \n{lines}"
    )


def _tiles(case: Case) -> str:
    """marlin_utils.py:165 verify_marlin_supports_shape."""
    advice = "Consider reducing tensor_parallel_size or running with --quantization gptq."
    rows, columns = f"Weight output_size_per_partition = {case.n}", f"Weight input_size_per_partition = {case.k}"
    return first_that_holds(
        (case.n % _MARLIN_N, f"{rows} is not divisible by  min_thread_n = {_MARLIN_N}. {advice}"),
        (case.k % _MARLIN_K, f"{columns} is not divisible by min_thread_k = {_MARLIN_K}. {advice}"),
        (case.cut, f"{columns} is not divisible by group_size = {case.group}. {advice}"),
    )


def _marlin(case: Case) -> str:
    listed = "uint4b8 uint8b128 float8_e4m3fn float4_e2m1f" if case.scheme.symmetric else "uint4"
    if case.kind not in listed.split():
        return f"Quant type ({case.kind}) not supported by  Marlin, supported types are: {_listed(listed)}"
    if case.group not in (-1, 32, 64, 128):
        return f"Group size ({case.group}) not supported by Marlin, supported group sizes are: [-1, 32, 64, 128]"
    if not case.padded:
        return _tiles(case)
    return f"in_features per partition {case.k} is not divisible by group_size = {case.group}." if case.cut else ""


def _machete(case: Case) -> str:
    return first_that_holds(
        (case.sm != 90, f"Machete {_ONLY_HOPPER}"),
        (case.scheme.desc_act and case.k != case.k_full, _reordered("Machete")),
        (
            case.group not in (-1, 64, 128),
            f"Group size ({case.group}) not supported by Machete, supported group sizes are: [-1, 64, 128]",
        ),
        (case.k % _MACHETE_K, f"Input features size must be divisible by {_MACHETE_K}"),
        (case.n % _MACHETE_N, f"Output features size must be divisible by {_MACHETE_N}"),
    )


def _allspark(case: Case) -> str:
    return first_that_holds(
        (case.scheme.desc_act, "Act reordering currently not supported by AllSpark"),
        (not case.scheme.symmetric, "Zero points currently not supported by AllSpark"),
        (case.sm >= 90, f"AllSpark currently does not support device_capability = {case.sm}."),
        (
            case.group != -1,
            f"For Ampere GPU, AllSpark does not support group_size = {case.group}. Only group_size = -1 are supported.",
        ),
        (
            case.kind != "uint8b128",
            f"For Ampere GPU, AllSpark does not support quant type ({case.kind}). Only quant type "
            "([ScalarType.uint8b128]) are supported.",
        ),
        (
            case.k % _ALLSPARK or case.n % _ALLSPARK,
            f"AllSpark needs input_size_per_partition % {_ALLSPARK} = 0 and output_size_per_partition % {_ALLSPARK} = "
            "0 for Ampere GPU optimized kernels.",
        ),
    )


def _conch(case: Case) -> str:
    if case.group not in (-1, 128):
        return f"Group size ({case.group}) not supported by ConchLinearKernel, supported group sizes are: [-1, 128]"
    return (
        "conch-triton-kernels is not installed, please install it via `pip install conch-triton-kernels` and try again!"
    )


def _exllama(case: Case) -> str:
    return first_that_holds(
        (case.scheme.desc_act and case.k != case.k_full, _reordered("Exllama")),
        (
            case.n % (32 // case.scheme.bits),
            "Output features must be a multiple of the pack factor (32 / num_bits) so that we can correctly pack the "
            "zero points",
        ),
        (not case.half, "Exllama only supports float16 activations"),
        (
            not case.scheme.symmetric,
            f"Quant type ({case.kind}) not supported by Exllama, supported types are: {_listed('uint4b8 uint8b128')}",
        ),
        (
            case.group <= 0,
            f"Group size ({case.group}) must be positive, Exllama does not support channelwise quantization",
        ),
        (
            case.group > 0 and case.k_full % case.group,
            f"Group size ({case.group}) does not evenly divide the number of input features ({case.k_full})",
        ),
    )


def _triton(case: Case) -> str:
    if case.scheme.bits != 4:
        return f"Quant type {case.kind} not supported; supported: {_listed('uint4b8 uint4')}"
    if case.n % 8:
        return f"Output features ({case.n}) must be divisible by 8 (8 int4 values packed per int32)"
    group = case.group if case.group != -1 else case.k
    return f"Input features {case.k} not divisible by group size {group}" if case.k % group else ""


def _cutlass(case: Case) -> str:
    return f"CUTLASS W4A8 {'only supports FP8 (e4m3) activations' if case.sm == 90 else _ONLY_HOPPER}"


def _listed(names: str) -> str:
    return "[" + ", ".join(f"ScalarType.{n}" for n in names.split()) + "]"


def _reordered(kernel: str) -> str:
    return f"Act reordering currently not supported by {kernel}, when the input features are partitioned across devices"


_ONLY_HOPPER = "requires compute capability of 90 (Hopper)"
_TROUBLE: dict[str, Callable[[Case], str]] = {
    "CutlassW4A8": _cutlass,
    "Machete": _machete,
    "AllSpark": _allspark,
    "Marlin": _marlin,
    "Conch": _conch,
    "Exllama": _exllama,
    "TritonW4A16": _triton,
    "Humming": lambda c: "",  # takes every shape; its package is a requirement of vLLM since 0.23.0
}
