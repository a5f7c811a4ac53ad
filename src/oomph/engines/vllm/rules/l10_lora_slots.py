"""L10: LoRA slots are allocated in full at the start.

What it is: --enable-lora allocates max_loras x max_lora_rank x (in + out) x 2 bytes for every target layer, for MoE
layers once per expert, before any adapter is used.

How to recognise it: LoRA is enabled and the load dies in create_lora_weights, or weights are well above the
checkpoint.

Look-alikes: L01.

What fixes it: --max-loras and --max-lora-rank at the real need (both linear); --fully-sharded-loras.

What does not: --max-cpu-loras: it only concerns host memory.

Evidence: lora/layers (0.21.0), vllm PR 22782.
"""

from oomph.doctor.writing import Case, Finding, Tier, rule
from oomph.text.tables import all_that_hold


@rule("weights_load", "kv_check", "profile_run", at_stage=True)
def match(case: Case) -> Finding | None:
    lora = case.flag("enable_lora") or case.whole("max_loras") or case.in_traceback("create_lora", "lora_manager")
    if not lora:
        return None
    sure = case.in_traceback("create_lora", "/lora/")
    loras, rank = case.whole("max_loras") or 1, case.whole("max_lora_rank") or 16
    text = f"LoRA slots are allocated at the start: {loras} adapters of rank {rank}, for every target layer."
    remedies = all_that_hold(
        (loras > 1, "one_adapter"),
        (rank > 16, "adapter_rank"),
        (True, "sharded_adapters"),
    )
    return Finding(
        Tier.COMPUTED if sure else Tier.LIKELY,
        text,
        case.line("args", "torch_oom"),
        tuple(remedies),
        {},
    )
