"""What llama.cpp can do for a model on some GPUs: the most exact GGUF that stays on them, or the usual 4-bit one with
layers on the CPU where none does. Ollama, which runs llama.cpp, is asked in the same way."""

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from oomph.commands import parse_command
from oomph.engines.protocol import Offer, Planner
from oomph.errors import OomphError
from oomph.ir import Device, Plan

QUANTS = ("Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "IQ4_XS", "Q3_K_M")
USUAL = "Q4_K_M"
SLOTS = (32, 16, 8, 4, 2, 1)

Command = Callable[[str, int], tuple[str, ...]]  # (quantisation, slots) -> the words that serve it


def offer(model: str, gpus: tuple[Device, ...], context: int, users: int, planner: Planner) -> Offer:
    def command(quant: str, slots: int) -> tuple[str, ...]:
        file = f"{model.rpartition('/')[2]}-{quant}.gguf"
        return ("llama-server", "-m", file, "-c", str(context * slots), "-np", str(slots))

    return best(command, gpus, QUANTS, users, planner)


def best(command: Command, gpus: tuple[Device, ...], quants: Sequence[str], users: int, planner: Planner) -> Offer:
    """For at least so many users: the first of the quantisations that holds them, and then as many as it can."""

    def plan_of(quant: str, slots: int) -> Plan:
        return planner(replace(parse_command(command(quant, slots)), gpus=gpus))

    refused = ""
    for quant in quants:
        try:
            plan = plan_of(quant, users)
        except OomphError as error:
            refused = error.message
            continue
        if _holds(plan, users):
            more = (slots for slots in SLOTS if slots > users and _holds(plan_of(quant, slots), slots))
            most = next(more, users)
            return Offer(plan, command(quant, most), float(most))
    if refused:
        return Offer(None, why=refused)
    plan = plan_of(USUAL, users)
    layers = plan.resolved["layers"] - plan.resolved["offloaded"]
    if layers:
        why = f"{layers} of {plan.resolved['layers']} layers on the CPU"
    else:
        why = plan.verdict.risk or ("too close to call" if _on_gpu(plan) else "experts on the CPU")
    served = float(users if plan.verdict.outcome == "fits" and _has_slots(plan, users) else 0)
    return Offer(plan, command(USUAL, users), served, plan.resolved["host"]["weights"], why)


def _holds(plan: Plan, slots: int) -> bool:
    return plan.verdict.outcome == "fits" and _on_gpu(plan) and _has_slots(plan, slots)


def _has_slots(plan: Plan, slots: int) -> bool:
    """Ollama lowers the number where memory is short."""
    return slots == 1 or bool(plan.resolved.get("num_parallel", plan.resolved.get("n_seq_max")) == slots)


def _on_gpu(plan: Plan) -> bool:
    resolved = plan.resolved
    return bool(resolved["layers"] == resolved["offloaded"] and not resolved["host"]["parts"].get("experts"))
