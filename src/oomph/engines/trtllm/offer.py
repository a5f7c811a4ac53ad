"""What TensorRT-LLM can do for a model on some GPUs: the most exact checkpoint of it that starts."""

from __future__ import annotations

from collections.abc import Callable

from oomph.engines.batched_offer import best_offer
from oomph.engines.protocol import Offer
from oomph.ir.deployment import Deployment
from oomph.ir.hardware import Device
from oomph.ir.plan import Plan


def offer(model: str, gpus: tuple[Device, ...], context: int, planner: Callable[[Deployment], Plan]) -> Offer:
    parallel = ("--tp_size", str(len(gpus))) if len(gpus) > 1 else ()

    def words_for(checkpoint: str) -> tuple[str, ...]:
        return ("trtllm-serve", checkpoint, "--max_seq_len", str(context), "--max_batch_size", "64", *parallel)

    return best_offer(model, gpus, words_for, planner)
