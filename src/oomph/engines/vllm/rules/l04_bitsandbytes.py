"""L04: bitsandbytes leaves embeddings and head in 16 bits.

Bitsandbytes keeps more in 16 bits than people expect.

What it is: in-flight 4-bit conversion goes tensor by tensor (peak: the result and one tensor), but embeddings, output
head and norms stay 16-bit, and 8-bit checkpoints take a whole byte per parameter.

How to recognise it: quantization=bitsandbytes or load_format=bitsandbytes in the config line; 0.6 to 0.75 bytes per
parameter after the load.

Look-alikes: L01, L02.

What fixes it: an AWQ, GPTQ or compressed-tensors checkpoint (Marlin kernels, embeddings often 8-bit).

What does not: --load-format bitsandbytes: it is chosen automatically since 2025.

Evidence: model_loader/bitsandbytes_loader.py (0.21.0).
"""

from oomph.doctor.writing import Case, Finding, Tier, rule
from oomph.units import gib


@rule("weights_load", at_stage=True)
def match(case: Case) -> Finding | None:
    if "bitsandbytes" not in (case.flag("quantization"), case.flag("load_format")):
        return None
    text = (
        "bitsandbytes converts tensor by tensor, so the peak is the result and one tensor; embeddings, output head and"
        " norms stay in 16 bits."
    )
    allocated, params = case.oom_value("allocated"), case.params
    if allocated and params:
        text += f" {gib(allocated)} are {allocated * case.tp / params:.2f} bytes per parameter."
    remedies = ("checkpoint", "more_gpus")
    return Finding(Tier.COMPUTED, text, case.line("engine_config", "torch_oom"), remedies, {})
