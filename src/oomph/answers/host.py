"""What a plan takes of its host's memory, and what that means for the start: the last comparison of every plan.

Two kinds of host. Where the GPU has memory of its own, the host holds processes, pinned buffers, offloaded weights and
caches, and the question is whether the machine or the container's limit has room for them. Where CPU and GPU share one
memory (GB10, Jetson, Strix Halo, Apple), everything is host memory: no allocation is refused, and a machine that runs
out of it swaps, kills a process or hangs. Such a start succeeds, at risk.
"""

from msgspec.structs import replace

from oomph.engines.registry import engine_of
from oomph.facts import unified
from oomph.ir import Deployment, Device, HostPart, HostPlan, Margin, Model, Plan, RankPlan, Verdict
from oomph.ir.gate import quadrature
from oomph.units import gib

KILLED = "Killed (exit code 137): the host ran out of memory"


def with_host(plan: Plan, model: Model | None) -> Plan:
    """The plan with its host memory, and the verdict that follows from it."""
    if not plan.ranks and not plan.resolved.get("host"):  # llama.cpp runs on the CPU alone too
        return plan
    host = engine_of(plan.deployment).host_plan(plan, model)
    beside = host.held_bytes if host is not None else 0
    shared = [margin for rank in plan.ranks if (margin := shared_margin(plan, rank, beside)) is not None]
    if shared:
        return _with_shared(plan, host, min(shared, key=lambda margin: margin.low))
    if host is None:
        return plan
    ram, available, source = _memory_of(plan.deployment)
    if not ram:
        return replace(plan, host=host)
    margin = _margin(host.parts, available)
    host = replace(host, ram_bytes=ram, ram_from=source, available_bytes=available, margin=margin)
    return replace(plan, host=host, verdict=_judge(plan.verdict, host))


# ---- memory of the host's own ----------------------------------------------------------------------------------------


def _memory_of(deployment: Deployment) -> tuple[int, int, str]:
    """(bytes, of them not in use, whose figure it is): what the user says, else the tighter of limit and machine."""
    return deployment.ram_bytes, deployment.ram_available or deployment.ram_bytes, deployment.ram_from


def _margin(parts: tuple[HostPart, ...], available: int) -> Margin:
    resident = [part for part in parts if not part.reclaimable]
    room = available - sum(part.bytes for part in resident)
    down = quadrature(part.high - part.bytes for part in resident)
    up = quadrature(part.bytes - part.low for part in resident)
    return Margin(room - down, room, room + up)


def _judge(verdict: Verdict, host: HostPlan) -> Verdict:
    """A start that the GPU allows and the host does not."""
    margin = host.margin
    if margin is None or (not verdict.fits and verdict.sure):
        return verdict
    message = f"{KILLED}: {gib(host.need_bytes)} of {gib(host.available_bytes)} ({host.ram_from})"
    if margin.high < 0 or (margin.expected < 0 and verdict.fits):
        sure = margin.high < 0
        return replace(
            verdict, fits=False, stage="host_ram", short_bytes=-margin.expected, message=message, sure=sure,
            first_to_break="host_ram", margin=margin, deciding_term="" if sure else "host", risk="",
        )  # fmt: skip
    if margin.low < 0 and verdict.outcome == "fits":
        return replace(verdict, sure=False, first_to_break="host_ram", margin=margin, deciding_term="host")
    if verdict.outcome == "fits" and (broken := _later(host)):
        return replace(verdict, risk=broken, first_to_break="host_ram")
    return verdict


def _later(host: HostPlan) -> str:
    """What breaks a server that runs: the first later event that does not fit beside what is there then."""
    serving = tuple(part for part in host.parts if part.after_start)
    for part in host.later:
        margin = _margin((*serving, part), host.available_bytes)
        if margin.low < 0:
            needs = f"{gib(part.bytes)} of host memory beside the {gib(host.serving_bytes)} that are in use"
            return f"{part.name} needs {needs}, and {host.ram_from} has {gib(host.available_bytes)}"
    return ""


# ---- memory that CPU and GPU share -----------------------------------------------------------------------------------


def shared_margin(plan: Plan, rank: RankPlan, beside: int = 0) -> Margin | None:
    """What is left of the shared memory at the engine's highest point, above the floor at which hosts survive.
    `beside`: what the CPU's part of the work keeps there."""
    device = device_of(plan, rank)
    system = device.system
    if system is None or not rank.stages:
        return None
    own = max(stage.peak_bytes for stage in rank.stages) - device.used_bytes + beside
    room = system.total_bytes - system.used_bytes - own - round(system.total_bytes * unified.FLOOR)
    uncounted = round(system.total_bytes * engine_of(plan.deployment).uncounted_share(plan))
    fixed = "available_kv" not in rank.terms or rank.terms["available_kv"].basis == "given"
    spread = rank.terms["weights"].high - rank.terms["weights"].bytes if fixed else 0
    down = quadrature((system.used_high - system.used_bytes, uncounted, spread))
    return Margin(room - down, room, room + system.used_bytes - system.used_low)


def device_of(plan: Plan, rank: RankPlan) -> Device:
    gpus = plan.deployment.gpus
    return gpus[min(rank.rank, len(gpus) - 1)]


def _with_shared(plan: Plan, host: HostPlan | None, margin: Margin) -> Plan:
    system = plan.deployment.gpus[0].system
    assert system is not None
    parts = host.parts if host is not None else ()
    shm = host.shm_bytes if host is not None else 0
    host = HostPlan(
        parts, shm, system.total_bytes, "shared with the GPU", system.total_bytes - system.used_bytes, margin
    )
    verdict = plan.verdict
    if verdict.fits and verdict.sure and not verdict.risk and margin.low < 0:
        verdict = replace(verdict, risk=_risk(plan, margin), first_to_break="host_ram")
    return replace(plan, host=host, verdict=verdict)


def _risk(plan: Plan, margin: Margin) -> str:
    system = plan.deployment.gpus[0].system
    assert system is not None
    left = margin.expected + round(system.total_bytes * unified.FLOOR)
    words = f"{gib(left)} are left for the host" if left >= 0 else f"the host is short of {gib(-left)}"
    return f"CPU and GPU share the memory: {words} at the peak, less what compilers, tuning and loading take"


# ---- whose memory it is ----------------------------------------------------------------------------------------------


def with_ram(deployment: Deployment, ram: int = 0, *, live: bool = False) -> Deployment:
    """`ram`: as the user says; `live`: the GPUs are this machine's, so its memory counts. A container's limit that the
    command itself names is the tighter of the two."""
    limit = deployment.memory_limit
    total, available, source = ram, ram, "--ram"
    if not ram and live:
        import psutil  # type: ignore[import-untyped]

        memory = psutil.virtual_memory()
        total, available, source = memory.total, memory.available, "this machine"
    machine = deployment.gpus[0].host_bytes if deployment.gpus else 0
    if not total and machine:
        total, available, source = machine, machine, "the GPUs' machine"
    if not total and (grace := unified.GRACE_BYTES.get(deployment.gpus[0].name if deployment.gpus else "", 0)):
        total, available, source = grace, round(grace * (1 - unified.FLOOR)), "Grace's own memory"
    if limit and (not total or limit < available):
        total, available, source = limit, limit, "the container's limit"
    return deployment if not total else replace(deployment, ram_bytes=total, ram_available=available, ram_from=source)
