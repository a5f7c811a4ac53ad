"""What a person can change about a vLLM deployment that its host has no memory for."""

from collections.abc import Iterator
from typing import Any

from oomph.ir import Change, Lever, Plan
from oomph.units import GIB


def host_levers(plan: Plan) -> Iterator[Lever]:
    """Nothing where the host is not what breaks first."""
    host = plan.host
    if host is None or not host.ram_bytes or not plan.ranks or plan.ranks[0].terms["weights"].bytes == 0:
        return
    if plan.verdict.first_to_break != "host_ram":
        return
    short = max(0, -host.margin.low) if host.margin is not None else 0
    yield from _smaller(plan, "kv_offloading_size", short, "fewer prompts are kept in host memory")
    yield from _smaller(plan, "cpu_offload_gb", short, "more of the weights are on the GPU")
    flags = plan.deployment.flags
    if any(part.name == "image cache" for part in host.parts):
        cost = "an image that comes again is processed again"
        yield _lever("mm_processor_cache_gb", "--mm-processor-cache-gb 0", {"mm_processor_cache_gb": 0}, cost)
    if flags.get("enable_sleep_mode"):
        cost = "the server cannot sleep"
        yield _lever("enable_sleep_mode", "without --enable-sleep-mode", {"enable_sleep_mode": None}, cost)


def _smaller(plan: Plan, field: str, short: int, cost: str) -> Iterator[Lever]:
    """By what is short and a tenth of it, then half, then not at all."""
    size = plan.deployment.flags.get(field)
    if not isinstance(size, (int, float)) or isinstance(size, bool) or size <= 0:
        return
    enough = int(size - 1.1 * short / GIB)
    sizes = [n for n in dict.fromkeys((enough, int(size) // 2, int(size) // 4)) if 0 < n < size]
    name = "--" + field.replace("_", "-")
    moves = ("weights", "load_peak") if field == "cpu_offload_gb" else ()
    changes = [Change(field, f"{name} {n}", flags={field: n}, cost=cost, rank=2, moves=moves) for n in sizes]
    none = Change(field, f"without {name}", flags={field: None}, cost=cost, rank=3, moves=moves)
    yield Lever(field, (*changes, none))


def _lever(field: str, label: str, flags: dict[str, Any], cost: str) -> Lever:
    return Lever(field, (Change(field, label, flags=flags, cost=cost, rank=2),))
