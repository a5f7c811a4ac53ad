"""The deployment that failed, as far as the log tells it: something a planner can take."""

from msgspec.structs import replace

from oomph.doctor.case import Case
from oomph.engines.protocol import EngineProtocol
from oomph.errors import OomphError
from oomph.facts.gpus import GpuRow, rows
from oomph.facts.vllm.outside import context_bytes, nccl_bytes
from oomph.ir import MOST_GPUS, Deployment, Device, Engine
from oomph.ir.deployment import Place
from oomph.ir.log_kinds import LogKind
from oomph.units import GIB

# lines that say what was free on the card before the engine took anything
STARTED_WITH: tuple[LogKind, ...] = ("free_short", "ledger", "requested", "manual_kv")
MOST_CARDS = 64  # of one command
SHORTEST_NAME = 3  # characters: "x" and "." stand for a model that people did not want to name
BY_DRIVER = 0.01  # of a card's total, which drivers report differently: an RTX 4090 prints 23.51 to 23.65 GiB
ROUNDING = GIB // 80  # totals are printed in hundredths of a GiB


def started(case: Case, engine: EngineProtocol, printed: tuple[Device, ...] = ()) -> Deployment | None:
    """What was started, for engines that read their own commands: as it was told beside the log, else the command in
    the text. The release is the log's, the GPUs are those that were told or that it shows (`printed`: as the engine's
    own lines list them); None where one of them is missing."""
    gpus = case.gpus or printed or devices(case)
    deployment = case.command_beside or command_in_text(case, engine)
    if deployment is None or not gpus or len(deployment.model.strip("./")) < SHORTEST_NAME:
        return None
    release = deployment.engine
    if case.version:
        try:
            release = Engine(engine.name, engine.nearest(case.version)[0], case.rebuilt.version_from or "the log")
        except OomphError:
            return None
    everywhere = _as_many(gpus, engine.gpus_needed(deployment))
    return replace(deployment, engine=release, gpus=everywhere, place=Place())  # a post's names are guessed


def _as_many(gpus: tuple[Device, ...], needed: int) -> tuple[Device, ...]:
    return gpus[:1] * needed if len(gpus) < needed <= MOST_CARDS else gpus


def command_in_text(case: Case, engine: EngineProtocol) -> Deployment | None:
    """The command that this engine reads; of several the last."""
    from oomph.commands import parse_command

    texts = [str(line.values.get("command", "")) for line in case.all("command")]
    for text in (case.rebuilt.command, *reversed(texts)):
        if not any(word in text for word in (*engine.programs, *engine.modules)):
            continue
        try:
            deployment = parse_command([text.partition("`")[0]], engine=_release(case, engine))
        except (OomphError, ValueError):
            continue
        if deployment.engine.name == engine.name and deployment.model:
            return deployment
    return None


def _release(case: Case, engine: EngineProtocol) -> str | None:
    return f"{engine.name}=={engine.nearest(case.version)[0]}" if case.version and engine.releases() else None


def devices(case: Case) -> tuple[Device, ...]:
    """As given, else one GPU per rank with the total that the log prints, else the GPU that the text names."""
    count = min(case.tp * max(1, case.whole("pipeline_parallel_size") or 1), MOST_GPUS)
    if case.gpus:
        return case.gpus if len(case.gpus) >= count else case.gpus[:1] * count
    total = case.account.total
    row = gpu_row(total, case.capability, case.named_gpu)
    if not total and row is None:
        return ()
    used = min(_held(case, total, row), total - 1) if total else 0
    if row is None:
        return (Device("GPU", total, used_bytes=used),) * count
    device = row.device(used_bytes=used, total_bytes=total)
    if total and row.name != case.named_gpu and not case.capability and _is_anybodys(total):
        device = replace(device, name=f"{total / GIB:.2f}GiB GPU")  # its size alone is known
    return (device,) * count


def _is_anybodys(total: int) -> bool:
    """Cards of several generations have about this much memory: it names none of them."""
    return len({row.capability for row in rows() if abs(row.total_bytes - total) <= total * BY_DRIVER}) > 1


def own_context(case: Case, row: GpuRow | None) -> int:
    sm = row.capability[0] * 10 + row.capability[1] if row else 0
    return context_bytes(row.sm_count if row else 0) + (nccl_bytes(sm) if case.tp > 1 else 0)


def _held(case: Case, total: int, row: GpuRow | None) -> int:
    """By others: as the failed start-up check says it, else as PyTorch lists them."""
    for kind in STARTED_WITH:
        free = case.value(kind, "free")
        if free is not None:
            return max(0, total - free - own_context(case, row))
    return case.account.get("others") or 0


def gpu_row(total: int, capability: str = "", named: str = "") -> GpuRow | None:
    """The card whose total is the printed one; of several the one that is named or has the capability mentioned."""
    close = [row for row in rows() if abs(row.total_bytes - total) <= ROUNDING] if total else []
    by_name = [row for row in (close or ([] if total else rows())) if named and row.name == named]
    same = [row for row in close if capability and "{}.{}".format(*row.capability) == capability]
    name = by_name or same or close
    return min(name, key=lambda row: abs(row.total_bytes - total)) if name else None
