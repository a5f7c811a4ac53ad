"""A fit for people, and as JSON: the command first, what it gives, what stands beside it, why the rest is not there."""

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import asdict

from oomph.commands import to_command, to_shell
from oomph.commands.call import quote
from oomph.ir import STAGE_WORDS, Plan
from oomph.report.plan_json import plan_json
from oomph.report.screens.plan_lines import gpus_line
from oomph.report.terminal import Style, clean, title, wrap
from oomph.search.best import slow
from oomph.search.fit import Answer, Fit
from oomph.simulate.speed import Speed, worst_error
from oomph.units import human

_ROWS = 8


def render(fit: Fit, style: Style, *, everything: bool = False, width: int = 100) -> str:
    lines = [
        "",
        *title([style.bold(clean(fit.model)), _engine(fit), gpus_line(fit.gpus)], width),
        "",
        *_wrapped(_verdict(fit, style), width, "  ", " " * 11),
    ]
    if fit.pick is not None:
        lines += ["", *_command(fit.pick, width), "", *_gives(fit.pick, style, width)]
    if fit.longer is not None:
        lines += _wrapped(f"{style.bold('Longer')}   {fit.longer.change} ({fit.longer.cost}):", width, "  ", " " * 11)
        lines += [f"    {fit.longer.command}"]
    front = fit.front or fit.nearest
    if len(front) > 1:
        lines += ["", *_front(fit, front if everything else shown(front, fit.pick), style, width)]
        if not everything and len(front) > _ROWS:
            lines.append(style.dim(f"  {len(front) - _ROWS} more with --all"))
    lines += [
        *_table("One step further", [(n.change, n.why) for n in fit.neighbours], style, width),
        *_table("Not chosen", [(refusal.checkpoint, refusal.why) for refusal in fit.refused], style, width),
        *[line for note in fit.notes for line in _wrapped(f"note     {note}", width, "  ", " " * 11)],
        "",
        *_basis(fit, style, width),
    ]
    return "\n".join(lines) + "\n"


def _table(head: str, rows: list[tuple[str, str]], style: Style, width: int) -> list[str]:
    lines = (line for what, why in rows for line in _beside(what, _first(why), width))
    return ["", f"  {style.bold(head)}", *lines] if rows else []


def _beside(name: str, why: str, width: int) -> list[str]:
    """A name and its reason: in one line where both fit, else the reason below."""
    if len(name) <= 42 and 47 + len(why) <= width:
        return [f"    {name:<42} {why}"]
    return [f"    {name}", *_wrapped(why, width, " " * 6)]


def _first(text: str) -> str:
    """An engine's refusal can be a paragraph: its first sentence."""
    return text.split(". ")[0].split("\n")[0]


def shown(front: Sequence[Answer], pick: Answer | None) -> list[Answer]:
    """The pick, the best of each goal, then the rest in order."""
    best = [max(front, key=lambda answer, g=goal: answer.point.goals[g]) for goal in range(4)]  # type: ignore[misc]
    order = dict.fromkeys(answer.point for answer in [*([pick] if pick else []), *best, *front])
    first = set(list(order)[:_ROWS])
    return [answer for answer in front if answer.point in first]


def _engine(fit: Fit) -> str:
    if fit.pick is None:
        return fit.engine
    engine = fit.pick.plan.deployment.engine
    source = f" ({engine.version_from})" if engine.version_from and engine.version_from != "--engine" else ""
    return f"{fit.engine} {engine.version}{source}"


def asked(fit: Fit) -> str:
    want = fit.want
    parts = []
    if want.context:
        parts.append(f"{want.context:,} tokens of context")
    if want.users:
        parts.append(f"{want.users} user{'s' if want.users > 1 else ''} at once")
    return " for ".join(parts)


def _verdict(fit: Fit, style: Style) -> str:
    if fit.pick is None:
        return style.bad("NOTHING FITS") + "   no checkpoint, layout or flag starts here, not with 2,048 tokens"
    point = fit.pick.point
    got = f"{point.context:,} tokens of context for {point.users} user{'s' if point.users > 1 else ''} at once"
    slowly = slow(fit.pick.speed)
    got += f", {slowly}" if slowly else ""
    if fit.want.context > fit.longest > 0:
        why = f"the model ends at {fit.longest:,} tokens, {fit.want.context:,} were asked for"
        return style.bad("NOT MET") + f"   {why}. The nearest: {got}"
    if not fit.met:
        why = "is too close to call" if fit.close else "does not fit"
        return style.bad("NOT MET") + f"   {asked(fit)} {why}. The nearest that fits for certain: {got}"
    return (style.bad("FITS, BUT SLOWLY") if slowly else style.good("FITS")) + f"   {got}"


def _command(answer: Answer, width: int) -> list[str]:
    return command_lines(to_command(answer.plan.deployment), width)


def command_lines(words: Sequence[str], width: int) -> list[str]:
    """Broken between a flag and the next one, so that it can be pasted."""
    lines, line = [], "   "
    pieces: list[str] = []
    for word in map(quote, words):
        if pieces and not word.startswith("-") and pieces[-1].startswith("-") and " " not in pieces[-1]:
            pieces[-1] += " " + word
        else:
            pieces.append(word)
    for piece in pieces:
        if len(line) + len(piece) + 3 > width and line.strip():
            lines.append(line + " \\")
            line = "     "
        line += " " + piece
    return [*lines, line]


def _gives(answer: Answer, style: Style, width: int) -> list[str]:
    plan, point = answer.plan, answer.point
    kv = plan.kv
    assert kv is not None
    lines = [
        f"  {style.bold('Gives')}    {kv.logged_tokens:,} tokens of KV cache, {kv.max_concurrency:.2f} requests of "
        f"{point.context:,} tokens at once; {point.concurrency:.2f} if every uncertain term is at its worst",
        f"  {style.bold('Tightest')} {tightest_stage(plan)}; one request takes {human(kv.need_bytes)} of KV cache",
    ]
    if answer.speed is not None:
        lines.insert(0, f"  {style.bold('Speed')}    {speed_words(answer.speed)}")
    if answer.gives_up:
        lines.append(f"  {style.bold('Costs')}    {', '.join(answer.gives_up)}")
    return [folded for line in lines for folded in _wrapped(line.lstrip(), width, "  ", " " * 11)]


def speed_words(speed: Speed) -> str:
    """For one user, and for each of those that were asked for."""
    alone = f"{three_digits(speed.one_user)} tokens/s for one user"
    if speed.users < 2:
        return alone
    return f"{alone}, {three_digits(speed.all_users / speed.users)} for each of {speed.users} at once"


def three_digits(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 9.95 else f"{rate:.1f}"


def tightest_stage(plan: Plan) -> str:
    """The stage with the least room at the unfavourable end of every interval."""
    slack = []
    for rank in plan.ranks:
        for stage in rank.stages:
            room = (
                rank.total_bytes
                - stage.peak_high
                - (rank.requested_bytes if stage.name == "startup_free_memory" else 0)
            )
            slack.append((room, stage.name))
    room, name = min(slack)
    return f"{human(max(0, room))} per GPU left in the worst case, {STAGE_WORDS[name][1]}"


def _front(fit: Fit, answers: Sequence[Answer], style: Style, width: int) -> Iterable[str]:
    yield style.bold(f"  {'':2}{'context':>9}{'users':>7}{'quality':>12}{'tok/s':>7}  checkpoint and flags")
    for answer in answers:
        point = answer.point
        mark = ">" if answer is fit.pick else " "
        quality = f"{answer.precision} -{point.quality:.1f}" if point.quality else answer.precision
        # the command above has the whole name; a narrow screen has room for its last part
        name = point.arm.model if 41 + len(point.arm.model) <= width else point.arm.model.rpartition("/")[2]
        yield f"  {mark} {point.context:>9,}{point.users:>7}{quality:>12}{_rate(answer):>7}  {name}"
        if answer.note:
            yield from (style.dim(line) for line in _wrapped(answer.note, width, " " * 41))


def _rate(answer: Answer) -> str:
    """Tokens per second that each of the users sees; relative where nobody knows how fast the card is."""
    speed = answer.speed
    return three_digits(speed.all_users / speed.users) if speed is not None else f"{answer.relative_speed:.0%}"


def _basis(fit: Fit, style: Style, width: int) -> list[str]:
    measure = f"The best by this measure: {fit.objective}. " if fit.objective else ""
    text = (
        f"{measure}{fit.plans} plans. Each row was planned and fits with the unfavourable end of every interval. "
        "Users are requests of the whole context at once. Quality is an order only: what keeps more bits loses less. "
        f"{_speed_basis(fit)}"
    )
    return [style.dim(line) for line in _wrapped(text, width, "  ")]


def _speed_basis(fit: Fit) -> str:
    speeds = [answer.speed for answer in fit.front or fit.nearest if answer.speed is not None]
    if not speeds:
        return "Speed is relative: nobody knows how fast this card is."
    basis = worst_error(speeds)
    whose = f"each of {speeds[0].users} users" if speeds[0].users > 1 else "one user"
    text = f"tok/s: {whose} behind a prompt of 2,048 tokens, by the time model of oomph simulate"
    return f"{text}; {basis}." if basis else f"{text}."


def _wrapped(text: str, width: int, first: str, rest: str = "") -> list[str]:
    return wrap(text, width, first, rest or first)


def fit_json(fit: Fit) -> dict[str, Any]:
    want = fit.want
    return {
        "schema": 1,
        "model": fit.model,
        "gpus": [{"name": g.name, "total_bytes": g.total_bytes, "used_bytes": g.used_bytes} for g in fit.gpus],
        "asked": {"context": want.context or None, "users": want.users or None, "prefer": want.prefer or None},
        "met": fit.met,
        "close": fit.close,
        "pick": None if fit.pick is None else {**answer_json(fit.pick), "plan": plan_json(fit.pick.plan)},
        "front": [answer_json(a) for a in fit.front],
        "nearest": [answer_json(a) for a in fit.nearest],
        "neighbours": [{"change": n.change, "why": n.why} for n in fit.neighbours],
        "refused": [{"checkpoint": r.checkpoint, "why": r.why} for r in fit.refused],
        "plans": fit.plans,
        "notes": list(fit.notes),
        "objective": fit.objective,
        "longest_context": fit.longest or None,
        "longer": None if fit.longer is None else asdict(fit.longer),
    }


def answer_json(answer: Answer) -> dict[str, Any]:
    point, kv = answer.point, answer.plan.kv
    return {
        "checkpoint": point.arm.model,
        "precision": answer.precision,
        "context": point.context,
        "users": point.users,
        "quality_loss": point.quality,
        "relative_speed": answer.relative_speed,
        "gives_up": list(answer.gives_up),
        "gpus": point.arm.layout.gpus,
        "flags": answer.plan.deployment.flags,
        "command": to_shell(answer.plan.deployment),
        "args": to_command(answer.plan.deployment),
        "kv_tokens": kv.logged_tokens if kv else 0,
        "concurrency": kv.max_concurrency if kv else 0.0,
        "concurrency_at_worst": point.concurrency,
        "tokens_per_second": round(answer.speed.one_user, 1) if answer.speed else None,
        "tokens_per_second_all": round(answer.speed.all_users, 1) if answer.speed else None,
        "tokens_per_second_each": round(answer.speed.all_users / answer.speed.users, 1) if answer.speed else None,
        "first_token_seconds": round(answer.speed.first_token_seconds, 3) if answer.speed else None,
        "speed_within_factor": answer.speed.factor if answer.speed else None,
    }
