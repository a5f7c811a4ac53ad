"""How much of a card advice may give an engine: never more than the plan of the changed run itself calls safe."""

from oomph.advice.judge import Ceiling, Planner, changed
from oomph.engines.registry import engine_of
from oomph.ir import Change, Plan


def share_ceiling(before: Plan, unpinned: Planner | None = None) -> Ceiling:
    """`unpinned` plans without what a log shows of the KV cache: a pinned cache hides what follows it."""

    def ceiling(change: Change, after: Plan) -> str:
        engine = engine_of(after.deployment)
        knobs = engine.fit_knobs(after.deployment.engine.version)
        share = change.flags.get(knobs.share) if knobs is not None else None
        was = before.resolved.get(knobs.share) if knobs is not None else None
        if not isinstance(share, int | float) or not isinstance(was, int | float) or share <= was:
            return ""
        safe = engine.safe_share(unpinned(changed(before.deployment, change)) if unpinned is not None else after)
        if share <= safe.value:
            return ""
        return f"{share:g} is above {safe.value:.2f}, the highest safe here: {safe.reason}"

    return ceiling
