"""What vLLM can do for a model on some GPUs: the most exact checkpoint of it that starts."""

from __future__ import annotations

from oomph.engines.batched_offer import best_offer
from oomph.engines.protocol import Offer
from oomph.engines.vllm.start import plan_command
from oomph.ir.hardware import Device


def offer(model: str, gpus: tuple[Device, ...], context: int) -> Offer:
    parallel = ("--tensor-parallel-size", str(len(gpus))) if len(gpus) > 1 else ()

    def words_for(checkpoint: str) -> tuple[str, ...]:
        return ("vllm", "serve", checkpoint, "--max-model-len", str(context), *parallel)

    return best_offer(model, gpus, words_for, plan_command)
