"""R07: The host's memory grows while serving.

What it is: a leak or a cache in host memory: prefix-cache metadata, multi-modal caches, some model runners.

How to recognise it: resident memory that rises with constant GPU use, and a kill hours later.

Look-alikes: L11 (killed while loading), K13 (a pool that was configured).

What fixes it: another release, --mm-processor-cache-gb 0, a restart policy.

What does not: GPU flags.

Evidence: vllm issues 28726, 9190, 35191, 52089, 50150.
"""

from oomph.doctor.writing import Case, Finding, Tier, rule
from oomph.text.late import late_pattern
from oomph.units import gib


@rule("host_ram", "runtime_request")
def match(case: Case) -> Finding | None:
    served = case.before("serving", "stats", "engine_ready") or case.has("stats", "serving")
    values = [int(observation.values["rss"]) for observation in case.all("rss") if "rss" in observation.values]
    grows = len(values) >= 3 and values[-1] > values[0] * 1.3
    is_claim = case.failed and case.stage == "host_ram" and any(_GROWS.search(claim.text) for claim in case.claims)
    if not (case.stage == "host_ram" and case.failed and served) and not grows and not is_claim:
        return None
    text = (
        "By what you say the memory of the host grows while it serves, until it is used up."
        if is_claim and not grows
        else f"Resident memory grew from {gib(values[0])} to {gib(values[-1])} while serving."
        if grows
        else "The server had been serving when the host's memory ran out: something in host memory grew."
    )
    cache = "no_image_cache"
    return Finding(
        Tier.COMPUTED,
        text,
        case.line("rss", "host_kill", "container_kill", "sigkill", "stats"),
        (cache, "restart_at_intervals"),
        {},
    )


# host memory that somebody has seen growing, not all at once
_GROWS = late_pattern(
    r"(?i)\b(?:grow(?:s|ing|n)?|leak(?:s|ing)?|climb(?:s|ing)?|creep(?:s|ing)?"
    r"|keeps? (?:rising|increasing)|rises (?:slowly|steadily))\b"
    r"|wächst|frisst|steigt|\bleck\w{0,2}\b|泄漏|持续(?:增长|上涨)|一直(?:涨|增长|上升)|越来越(?:多|大|高)|慢慢(?:涨|增长)"
)
