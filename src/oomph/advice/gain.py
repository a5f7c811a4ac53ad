"""By how much a change moves the point where a plan dies, or the KV cache of a plan that fits."""

from oomph.ir import STAGES, Plan


def gain(before: Plan, after: Plan) -> int:
    """Bytes of room at the failing stage, or of KV cache where the plan fits; negative: lost."""
    if before.fits and "host" in before.resolved:  # layers may be on the host: what comes back to the GPU counts
        return host_weights(before) - host_weights(after) if after.fits else 0
    if before.fits:
        return kv_bytes(after) - kv_bytes(before) if after.fits else 0
    stage = before.verdict.stage
    if stage == "host_ram":
        return _host_need(before) - _host_need(after)
    if stage == "kv_check":
        if not after.fits and is_earlier(after.verdict.stage, stage):
            return 0
        return _kv_room(after) - _kv_room(before)
    return _room(after, stage) - _room(before, stage)


def is_earlier(stage: str | None, other: str | None) -> bool:
    return STAGES.index(stage or "other") < STAGES.index(other or "other")


def kv_bytes(plan: Plan) -> int:
    return plan.kv.available_bytes if plan.kv else 0


def host_weights(plan: Plan) -> int:
    return int(plan.resolved.get("host", {}).get("weights", 0))


def tokens(plan: Plan) -> int:
    return plan.kv.logged_tokens if plan.kv and plan.fits else 0


def _host_need(plan: Plan) -> int:
    return plan.host.need_bytes if plan.host is not None else 0


def _kv_room(plan: Plan) -> int:
    """KV memory beyond one request of max_model_len; negative: short of it."""
    return plan.kv.available_bytes - plan.kv.need_bytes if plan.kv else 0


def _room(plan: Plan, stage: str | None) -> int:
    """What the card has beyond the peak of a stage; negative: short of it."""
    if not plan.ranks:
        return 0
    rank = plan.ranks[min(plan.verdict.rank, len(plan.ranks) - 1)]
    if stage == "startup_free_memory":
        return rank.total_bytes - rank.used_by_others_bytes - rank.requested_bytes
    # A change may take the stage away: what is left then is the peak of the stages before it.
    peaks = [s.peak_bytes for s in rank.stages if s.name == stage]
    return rank.total_bytes - max(peaks or [s.peak_bytes for s in rank.stages if is_earlier(s.name, stage)], default=0)
