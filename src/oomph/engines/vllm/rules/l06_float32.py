"""L06: The model is loaded in float32.

What it is: --dtype float32, or an architecture or pooling model that keeps its checkpoint's float32, doubles weights
and KV cache.

How to recognise it: dtype=torch.float32 in the engine config line; about 4 bytes per parameter.

Look-alikes: L01.

What fixes it: --dtype bfloat16 (half below compute capability 8.0): the weights halve.

What does not: a quantisation flag.

Evidence: config/model.py, dtype resolution (0.21.0): "auto" turns float32 checkpoints into 16 bits, but not
everywhere.
"""

from oomph.doctor.writing import Case, Finding, Tier, rule
from oomph.units import gib


@rule("weights_load", "kv_check", "profile_run")
def match(case: Case) -> Finding | None:
    if not case.failed or case.flag("dtype") not in ("float32", "torch.float32", "float"):
        return None
    if case.stage not in ("weights_load", "kv_check", "profile_run"):
        return None
    text = "The engine config says dtype=float32: 4 bytes per parameter and twice the KV cache of a 16-bit run."
    if case.params:
        text += (
            f" That is {gib(4 * case.params // case.tp)} of weights per rank; in 16 bits "
            f"{gib(2 * case.params // case.tp)}."
        )
    name = "half" if case.before_ampere else "bfloat16"  # bfloat16 begins with compute capability 8.0
    return Finding(
        Tier.COMPUTED,
        text,
        case.line("engine_config", "args"),
        (("dtype", name),),
        {"quantize_flag": "the dtype alone halves it, without loss of quality"},
    )
