"""A plan's advice for people: why it dies, what works, the cheapest first, and what of the usual advice does not."""

from oomph.ir import Advice, Judged, Plan
from oomph.report.terminal import INDENT, Style, clean, wrap
from oomph.units import human

MOST_LINES = 5


def advice_lines(plan: Plan, style: Style, width: int, *, engine: str) -> list[str]:
    advice = plan.advice
    if advice is None:
        return []
    if plan.verdict.outcome == "fits":
        return rows("More", [_cells(j) for j in more(plan, advice)[:3]], style, width)
    lines = [f"  {style.bold('Why' if n == 0 else '   ')}      {clean(why)}" for n, why in enumerate(advice.why)]
    if plan.verdict.message and plan.verdict.stage not in (None, "other"):
        message = clean(" ".join(plan.verdict.message.split()))
        lines.append(f"  {style.bold(f'{engine:<8}')} {_short(message)}")
    if advice.fixes:
        lines += rows("Works", [_cells(j) for j in advice.fixes[:MOST_LINES]], style, width)
    else:
        lines += rows("Helps", [_help_cells(j) for j in advice.helps[:2]], style, width)
    if advice.next_step:
        lines.append(f"  {style.bold('Next     ')}No flag alone is enough. Search further: {advice.next_step}")
    return lines + useless_lines(plan, advice, style)


def more(plan: Plan, advice: Advice) -> list[Judged]:
    """Changes that give a fitting plan more room, and are not paid with fewer requests than would fit into it."""
    tokens = plan.kv.logged_tokens if plan.kv else 0
    helps = [j for j in advice.helps if j.tokens > 1.01 * tokens and j.outcome == "fits"]
    return [j for j in helps if j.change.flags.get("max_num_seqs", j.concurrency) >= j.concurrency]


def useless_lines(plan: Plan, advice: Advice, style: Style) -> list[str]:
    """Only what the user has set or the engine's own message recommends."""
    message, flags = plan.verdict.message, plan.deployment.flags
    in_company = {field for fix in advice.fixes if " + " in fix.change.lever for field in fix.change.flags}
    by_flag: dict[str, Judged] = {}
    for judged in advice.useless:
        name = judged.change.label.split()[0]
        if (
            judged.effect == "nothing"
            and name.startswith("-")
            and (name in message or any(field in flags for field in judged.change.flags))
        ):
            alone = " alone" if in_company.intersection(judged.change.flags) else ""
            by_flag.setdefault(f"{name}{alone}", judged)
    return [
        f"  {style.bold('Useless  ') if number == 0 else ' ' * 9}{clean(name)}: {clean(judged.why)}"
        for number, (name, judged) in enumerate(list(by_flag.items())[:3])
    ]


def rows(head: str, pairs: list[tuple[str, str]], style: Style, width: int) -> list[str]:
    """What to write on the left, as wide as the longest of them, what it gives on the right."""
    widest = min(max(44, width // 2), max((len(label) for label, _ in pairs), default=0))
    below = INDENT + widest + 2 if width - INDENT - widest > 30 else INDENT + 2
    lines = []
    for number, (label, effect) in enumerate(pairs):
        start = f"  {style.bold(f'{head:<9}') if number == 0 else ' ' * 9}"
        if len(label) > widest:  # too long for a column: what it gives stands below it
            lines += [
                *wrap(label, width, start, " " * INDENT),
                *wrap(effect, width, " " * (INDENT + 2), " " * (INDENT + 2)),
            ]
        else:
            lines += wrap(effect, width, f"{start}{label:<{widest}}  ", " " * below)
    return lines


def _cells(judged: Judged) -> tuple[str, str]:
    """The same columns for every kind of change: the change, tokens, requests at once, what it costs."""
    size = f"{judged.tokens:,} tokens, {judged.concurrency:.2f} at once" if judged.tokens else "it starts"
    return clean(judged.change.label), f"{size} ({judged.change.cost})" if judged.change.cost else size


def _help_cells(judged: Judged) -> tuple[str, str]:
    gains = f"gains {human(judged.gain_bytes)}; " if judged.gain_bytes else ""
    return clean(judged.change.label), f"{gains}{judged.why}".removesuffix("; ")


def _short(message: str, room: int = 220) -> str:
    line = " ".join(message.split())
    return line if len(line) <= room else line[: room - 4].rsplit(" ", 1)[0] + " ..."
