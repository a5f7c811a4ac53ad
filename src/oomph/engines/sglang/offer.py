"""What SGLang can do for a model on some GPUs: what `fit` picks for one user, else what is least short."""

from __future__ import annotations

from msgspec.structs import replace

from oomph.commands import to_command
from oomph.engines.batched_offer import best_offer
from oomph.engines.protocol import Offer
from oomph.ir.hardware import Device
from oomph.plan import run
from oomph.search.fit import fit


def offer(model: str, gpus: tuple[Device, ...], context: int) -> Offer:
    found = fit(model, gpus, context=context, users=1, engine="sglang")
    if not found.met or found.pick is None:
        return best_offer(model, gpus, lambda checkpoint: _words(checkpoint, len(gpus), context), run)
    chosen = found.pick.plan.deployment
    plan = run(replace(chosen, flags={**chosen.flags, "context_length": context}))
    return Offer(plan, tuple(to_command(plan.deployment)), plan.kv.max_concurrency if plan.kv else 0.0)


def _words(checkpoint: str, ranks: int, context: int) -> tuple[str, ...]:
    parallel = ("--tp", str(ranks)) if ranks > 1 else ()
    start = ("python", "-m", "sglang.launch_server", "--model-path", checkpoint)
    return (*start, "--context-length", str(context), *parallel)
