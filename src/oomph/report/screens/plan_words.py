"""Words that every plan has, whatever its engine."""

from oomph.ir import STAGE_WORDS, TERM_WORDS, Device, HostPart, HostPlan, Margin, Plan, StageName, Verdict
from oomph.report import answer
from oomph.report.terminal import clean
from oomph.units import GIB, gib, human


def gpus_line(gpus: tuple[Device, ...]) -> str:
    names: dict[str, int] = {}
    for gpu in gpus:
        about = "about " if gpu.used_before.low != gpu.used_before.high else ""
        used = f", {about}{gib(gpu.used_bytes)} in use" if gpu.used_bytes else ""
        label = f"{clean(gpu.name)} ({gib(gpu.total_bytes)}{used})"
        names[label] = names.get(label, 0) + 1
    line = " + ".join(f"{n} x {label}" if n > 1 else label for label, n in names.items())
    nodes = len({g.node for g in gpus})
    return f"{line} on {nodes} nodes" if nodes > 1 else line


# The memory of the host.


def host_rows(plan: Plan) -> tuple[tuple[str, str], ...]:
    host = plan.host
    if host is None:
        return ()
    whose = _shared(plan, host) if host.ram_from == "shared with the GPU" else _own(host)
    rows = [("Host", whose), *(("", _later(part)) for part in host.later)]
    if plan.asleep is not None:
        left, total = plan.asleep.left, plan.ranks[0].total_bytes
        others = f"{human(left.bytes)} stays on each GPU, {gib(total - left.high)} is free for others"
        rows.append(("Asleep", f"{others}; waking up needs {gib(plan.asleep.wakes_bytes)} at once"))
    return tuple(rows)


def host_parts(plan: Plan) -> tuple[tuple[str, str], ...]:
    parts = (*plan.host.parts, *plan.host.later) if plan.host is not None else ()
    return tuple(("", _part(part)) for part in parts)


def _own(host: HostPlan) -> str:
    """ "14.0 GiB of 64.0 GiB (--ram): processes 9.00 GiB, KV cache in host memory 64.0 GiB"."""
    largest = sorted((part for part in host.parts if not part.reclaimable), key=lambda part: -part.bytes)
    names = ", ".join(f"{part.name} {human(part.bytes)}" for part in largest[:4])
    of = f" of the {gib(host.available_bytes)} there are ({host.ram_from})" if host.ram_bytes else " of host memory"
    shm = f"; /dev/shm {human(host.shm_bytes)}" if host.shm_bytes else ""
    return f"{gib(host.need_bytes)}{of}: {names}{shm}{_mapped(host)}"


def _mapped(host: HostPlan) -> str:
    if not host.mapped_bytes:
        return ""
    again = f", of which {gib(host.absent_bytes)} are read from disk again and again" if host.absent_bytes else ""
    return f"; beside it {gib(host.mapped_bytes)} of weights in the mapped file{again}"


def _shared(plan: Plan, host: HostPlan) -> str:
    system = plan.deployment.gpus[0].system
    assert system is not None
    about = "about " if system.is_assumed else ""
    peak = max(stage.peak_bytes for stage in plan.ranks[0].stages) - plan.deployment.gpus[0].used_bytes
    return (
        f"CPU and GPU share {gib(host.ram_bytes)}: {about}{gib(system.used_bytes)} is the system's, {gib(peak)} this "
        f"engine's at its peak{_beside(host)}"
    )


def _beside(host: HostPlan) -> str:
    size = host.held_bytes
    return f", and {gib(size)} are the CPU's part of it" if size > GIB else ""


def _later(part: HostPart) -> str:
    return f"{part.name} takes {gib(part.bytes)} more ({gib(part.low)} to {gib(part.high)}) {part.why}"


def _part(part: HostPart) -> str:
    span = "" if part.low == part.high else f" ({gib(part.low)} to {gib(part.high)})"
    return f"{human(part.bytes)}{span} {part.name}: {part.why}"


# The first line of a report: what will happen, by how much, and how sure that is.


def verdict_of(plan: Plan, *, runs: str, detail: str = "", title: str) -> answer.Verdict:
    """`runs` is said of a plan that starts; `detail` follows the stage at which one dies; `title` is the engine's."""
    verdict = plan.verdict
    if verdict.stage == "other":
        who = "" if verdict.refusal == "model" else f"{title} refuses {STAGE_WORDS['other'][1]}: "
        return answer.Verdict("WILL NOT START", "fails", f"{who}{shortened(verdict.message)}")
    if verdict.outcome == "close":
        return answer.Verdict("TOO CLOSE TO CALL", "close", close_words(verdict))
    if verdict.outcome == "at_risk":
        return answer.Verdict("STARTS, AT RISK", "at_risk", f"{verdict.risk}; {runs}")
    if verdict.fits:
        return answer.Verdict("FITS", "fits", runs)
    if verdict.stage == "host_ram":
        short = f"the host runs out of memory: {gib(verdict.short_bytes)} short"
    else:
        where = STAGE_WORDS[verdict.stage or "other"][1] + detail
        short = too_many_sequences(plan) or f"out of memory {where}: {short_words(plan)}"
    return answer.Verdict("WILL NOT START", "fails", short)


_ROOM = 320  # characters of a message


def shortened(message: str) -> str:
    """An engine that lists all that it knows goes on for a screen; the JSON has all of it."""
    line = " ".join(message.split())
    return line if len(line) <= _ROOM else line[: _ROOM - 4].rsplit(" ", 1)[0] + " ..."


def short_words(plan: Plan) -> str:
    verdict = plan.verdict
    alike = len({(rank.gpu, rank.used_by_others_bytes, rank.verdict.short_bytes) for rank in plan.ranks}) == 1
    where = "" if len(plan.ranks) < 2 else " on each GPU" if alike else f" on GPU {verdict.rank}"
    return f"{gib(verdict.short_bytes)} short{where}"


def close_words(verdict: Verdict) -> str:
    """ "0.10 GiB of room at the KV cache check, give or take 0.40"."""
    margin = verdict.margin or Margin(0, 0, 0)
    stage: StageName = verdict.stage or verdict.first_to_break or "other"  # type: ignore[assignment]
    if verdict.sure:
        low, wanted = gib(max(0, margin.low)), gib(verdict.asked_bytes)
        return f"{gib(margin.expected)} of room {STAGE_WORDS[stage][1]}, {low} at worst; {wanted} was asked for"
    if stage == "host_ram":
        room = f"has {gib(margin.expected)} of room" if margin.expected >= 0 else f"is {gib(-margin.expected)} short"
        return f"the host {room}, {_doubt(margin)}"
    room = f"{gib(margin.expected)} of room" if margin.expected >= 0 else f"{gib(-margin.expected)} short"
    return f"{room} {STAGE_WORDS[stage][1]}, {_doubt(margin)}"


def _doubt(margin: Margin) -> str:
    """Half of the interval, or both of its ends where half of a lopsided one would not reach the other outcome."""
    half = (margin.high - margin.low) / 2
    if half > abs(margin.expected):
        return f"give or take {gib(half)}"
    return f"somewhere between {gib(max(0, -margin.low))} short and {gib(max(0, margin.high))} of room"


def settling_words(verdict: Verdict) -> str:
    """What would settle a close call."""
    if verdict.sure or not verdict.deciding_term:
        return ""
    term = verdict.deciding_term
    decides = f"The {TERM_WORDS.get(term, term)} decides: it is known to {_spread(verdict)} only."
    if term == "host":
        return f"{decides} `free -h` while such a server runs settles it."
    if term == "system":
        return f'{decides} `free -h` on the idle machine settles it: --gpu "... used SIZE".'
    return f"{decides} The log of one start on such a machine settles it (--given available_kv=SIZE)."


def _spread(verdict: Verdict) -> str:
    margin = verdict.margin or Margin(0, 0, 0)
    return f"about {gib((margin.high - margin.low) / 2)}"


def too_many_sequences(plan: Plan) -> str:
    """Where one request fits and the states of all that may run do not, memory is not what a reader should hear of."""
    kv, sequences = plan.kv, int(plan.resolved.get("max_num_seqs") or 0)
    if plan.verdict.stage != "kv_check" or kv is None or not 0 < kv.num_blocks < sequences:
        return ""
    if kv.need_bytes > kv.available_bytes:
        return ""
    fits = f"{kv.num_blocks:,} fit"
    return f"{sequences:,} sequences may run at once, each has a state of its own, and {fits}: fewer of them start"
