"""What a person can change about a llama.cpp command that its host has no memory for."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.ir import Change, Lever, Plan


def host_levers(plan: Plan) -> Iterator[Lever]:
    host = plan.host
    if host is None or not host.ram_bytes:
        return
    if plan.verdict.first_to_break != "host_ram" and not any(part.name in plan.verdict.risk for part in host.later):
        return
    flags = plan.deployment.flags
    mapped = "weights that do not fit are read again from disk"
    for field, value, label in (
        ("mmap", False, "without --no-mmap"), ("mlock", True, "without --mlock"),
    ):  # fmt: skip
        if flags.get(field) is value:
            yield Lever(field, (Change(field, label, flags={field: None}, cost=mapped, rank=1),))
    if flags.get("load_mode") not in (None, "mmap"):
        change = Change("load_mode", "--load-mode mmap", flags={"load_mode": "mmap"}, cost=mapped, rank=1)
        yield Lever("load_mode", (change,))
    if host.later and flags.get("cache_ram") != 0:
        cost = "prompts of earlier requests are read again"
        yield Lever("cache_ram", (Change("cache_ram", "--cache-ram 0", flags={"cache_ram": 0}, cost=cost, rank=1),))
