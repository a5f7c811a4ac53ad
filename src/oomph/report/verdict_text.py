"""The first line of a report: what will happen, by how much, and how sure that is."""

from __future__ import annotations

from oomph.ir import STAGE_WORDS, TERM_WORDS, Margin, Plan, StageName, Verdict
from oomph.report.terminal import Style, clean
from oomph.units import gib


def headline(plan: Plan, style: Style, *, runs: str, detail: str = "", title: str) -> str:
    """`runs` is said of a plan that starts; `detail` follows the stage at which one dies; `title` is the engine's."""
    verdict = plan.verdict
    if verdict.stage == "other":
        reason = clean(shortened(verdict.message))
        return style.bad("WILL NOT START") + f"   {title} refuses {STAGE_WORDS['other'][1]}: {reason}"
    if verdict.outcome == "close":
        return style.paint("TOO CLOSE TO CALL", "1;33") + f"   {close_words(verdict)}"
    if verdict.outcome == "at_risk":
        return style.paint("STARTS, AT RISK", "1;33") + f"   {verdict.risk}; {runs}"
    if verdict.fits:
        return style.good("FITS") + f"   {runs}"
    if verdict.stage == "host_ram":
        return style.bad("WILL NOT START") + f"   the host runs out of memory: {gib(verdict.short_bytes)} short"
    where = STAGE_WORDS[verdict.stage or "other"][1] + detail
    return style.bad("WILL NOT START") + f"   out of memory {where}: {short_words(plan)}"


def shortened(message: str, room: int = 320) -> str:
    """An engine that lists all that it knows goes on for a screen; the JSON has all of it."""
    line = " ".join(message.split())
    return line if len(line) <= room else line[: room - 4].rsplit(" ", 1)[0] + " ..."


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
    if stage == "host_ram" and margin.expected < 0:
        return f"the host is {gib(-margin.expected)} short, give or take {gib((margin.high - margin.low) / 2)}"
    room = f"{gib(margin.expected)} of room" if margin.expected >= 0 else f"{gib(-margin.expected)} short"
    return f"{room} {STAGE_WORDS[stage][1]}, give or take {gib((margin.high - margin.low) / 2)}"


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
