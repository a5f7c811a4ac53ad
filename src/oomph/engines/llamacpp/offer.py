"""What llama.cpp can do for a model on some GPUs: the most exact GGUF that stays on them, or the usual 4-bit one with
layers on the CPU where none does. Ollama, which runs llama.cpp, is asked in the same way."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from oomph.commands import parse_command
from oomph.engines.protocol import Offer
from oomph.engines.registry import engine_of
from oomph.errors import OomphError
from oomph.ir.hardware import Device
from oomph.ir.plan import Plan

QUANTS = ("Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "IQ4_XS", "Q3_K_M")
USUAL = "Q4_K_M"
SLOTS = (32, 16, 8, 4, 2, 1)

Command = Callable[[str, int], tuple[str, ...]]  # (quantisation, slots) -> the words that serve it


def offer(model: str, gpus: tuple[Device, ...], context: int) -> Offer:
    def command(quant: str, slots: int) -> tuple[str, ...]:
        file = f"{model.rpartition('/')[2]}-{quant}.gguf"
        return ("llama-server", "-m", file, "-c", str(context * slots), "-np", str(slots))

    return best(command, gpus, QUANTS)


def best(command: Command, gpus: tuple[Device, ...], quants: Sequence[str]) -> Offer:
    refused = ""
    for quant in quants:
        try:
            plan = _plan(command(quant, 1), gpus)
        except OomphError as error:
            refused = error.message
            continue
        if plan.fits and _on_gpu(plan):
            users = next((slots for slots in SLOTS[:-1] if _holds(command(quant, slots), gpus, slots)), 1)
            return Offer(plan, command(quant, users), float(users))
    if refused:
        return Offer(None, why=refused)
    plan = _plan(command(USUAL, 1), gpus)
    layers = plan.resolved["layers"] - plan.resolved["offloaded"]
    why = f"{layers} of {plan.resolved['layers']} layers on the CPU" if layers else "experts on the CPU"
    return Offer(plan, command(USUAL, 1), 1.0 if plan.fits else 0.0, plan.resolved["host"]["weights"], why)


def _plan(words: Sequence[str], gpus: tuple[Device, ...]) -> Plan:
    deployment = replace(parse_command(words), gpus=gpus)
    return engine_of(deployment).plan(deployment)


def _holds(words: Sequence[str], gpus: tuple[Device, ...], slots: int) -> bool:
    plan = _plan(words, gpus)
    return plan.fits and _on_gpu(plan) and plan.resolved.get("num_parallel", plan.resolved.get("n_seq_max")) == slots


def _on_gpu(plan: Plan) -> bool:
    resolved = plan.resolved
    return bool(resolved["layers"] == resolved["offloaded"] and not resolved["host"]["parts"].get("experts"))
