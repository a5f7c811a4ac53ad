"""A fit, and as JSON: the command first, what it gives, what stands beside it, why the rest is not there."""

from collections.abc import Sequence

from msgspec.structs import replace

from oomph.ir import STAGE_WORDS, Plan
from oomph.report.answer import (
    Answer,
    Aside,
    Block,
    Cell,
    Column,
    Command,
    Dot,
    Facts,
    Heading,
    Notes,
    Pairs,
    Row,
    Scatter,
    Table,
    Verdict,
    picked_for,
)
from oomph.report.chart import doublings
from oomph.report.screens.plan_words import gpus_line
from oomph.search.best import slow
from oomph.search.fit import Configuration, Fit
from oomph.simulate.speed import Speed, worst_error
from oomph.units import human

_ROWS = 8


def answer(fit: Fit) -> Answer:
    pick, front = fit.pick, fit.front or fit.nearest
    blocks: list[Block] = []
    if pick is not None:
        blocks += [Command(pick.command, "Plan this command"), Facts(_gives(fit, pick))]
    if fit.longer is not None:
        blocks += [Facts((("Longer", f"{fit.longer.change} ({fit.longer.cost}):"),)), Command(fit.longer.command)]
    blocks += [
        *_picture(fit, front),
        *([_front(fit, front)] if len(front) > 1 else []),
        Pairs("One step further", tuple((step.change, _first(step.why)) for step in fit.neighbours)),
        Pairs("Not chosen", tuple((refusal.checkpoint, _first(refusal.why)) for refusal in fit.refused)),
        Notes(fit.notes),
        *([picked_for(fit.measure)] if fit.measure else []),
        Aside(_basis(fit)),
    ]
    verdict = replace(_verdict(fit), command=pick.command) if pick is not None else _verdict(fit)
    return Answer("fit", Heading(fit.model, (_engine(fit), gpus_line(fit.gpus))), verdict, tuple(blocks))


def _first(text: str) -> str:
    """An engine's refusal can be a paragraph: its first sentence."""
    return text.split(". ")[0].split("\n")[0]


def _shown(front: Sequence[Configuration], pick: Configuration | None) -> tuple[int, ...]:
    """The pick, the best of each goal, then the rest in order."""
    best = [max(front, key=lambda each, g=goal: each.point.goals[g]) for goal in range(4)]  # type: ignore[misc]
    order = dict.fromkeys(each.point for each in [*([pick] if pick else []), *best, *front])
    first = set(list(order)[:_ROWS])
    return tuple(number for number, each in enumerate(front) if each.point in first)


def _engine(fit: Fit) -> str:
    if fit.pick is None:
        return fit.engine
    engine = fit.pick.plan.deployment.engine
    source = f" ({engine.version_from})" if engine.version_from and engine.version_from != "--engine" else ""
    return f"{fit.engine} {engine.version}{source}"


def _asked(fit: Fit) -> str:
    want = fit.want
    parts = []
    if want.context:
        parts.append(f"{want.context:,} tokens of context")
    if want.users:
        parts.append(f"{want.users} user{'s' if want.users > 1 else ''} at once")
    return " for ".join(parts)


def _verdict(fit: Fit) -> Verdict:
    if fit.refusal:
        return Verdict("REFUSED", "fails", f"{fit.engine} refuses it before any memory is touched: {fit.refusal}")
    if fit.pick is None:
        return Verdict("NOTHING FITS", "fails", "no checkpoint, layout or flag starts here, not with 2,048 tokens")
    point = fit.pick.point
    got = f"{point.context:,} tokens of context for {point.users} user{'s' if point.users > 1 else ''} at once"
    slowly = slow(fit.pick.speed)
    got += f", {point.arm.offload_gib} GiB of the weights in host memory" if point.arm.offload_gib else ""
    got += f", {slowly}" if slowly else ""
    if fit.want.context > fit.longest > 0:
        why = f"the model ends at {fit.longest:,} tokens, {fit.want.context:,} were asked for"
        return Verdict("NOT MET", "fails", f"{why}. The nearest: {got}")
    if not fit.met:
        why = "is too close to call" if fit.close else "does not fit"
        return Verdict("NOT MET", "fails", f"{_asked(fit)} {why}. The nearest that fits for certain: {got}")
    return Verdict("FITS, BUT SLOWLY", "fails", got) if slowly else Verdict("FITS", "fits", got)


def _gives(fit: Fit, pick: Configuration) -> tuple[tuple[str, str], ...]:
    plan, point = pick.plan, pick.point
    other = (f"{pick.precision} weights instead of {fit.model}",) if point.arm.model != fit.model else ()
    kv = plan.kv
    assert kv is not None
    gives = f"{point.users:,} requests of {point.context:,} tokens at once, none of which needs a KV cache"
    tightest = _tightest_stage(plan)
    if kv.groups:
        gives = (
            f"{kv.logged_tokens:,} tokens of KV cache, {kv.max_concurrency:.2f} requests of {point.context:,} "
            f"tokens at once; {point.concurrency:.2f} if every uncertain term is at its worst"
        )
        tightest += f"; one request takes {human(kv.need_bytes)} of KV cache"
    return (
        ("Speed", _speed_words(pick.speed) if pick.speed is not None else ""),
        ("Gives", gives),
        ("Tightest", tightest),
        ("Costs", ", ".join((*other, *pick.gives_up))),
    )  # fmt: skip


def _speed_words(speed: Speed) -> str:
    """For one user, and for each of those that were asked for."""
    alone = f"{_three_digits(speed.one_user)} tokens/s for one user"
    if speed.users < 2:
        return alone
    return f"{alone}, {_three_digits(speed.all_users / speed.users)} for each of {speed.users} at once"


def _three_digits(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 9.95 else f"{rate:.1f}"


def _tightest_stage(plan: Plan) -> str:
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


def _front(fit: Fit, front: Sequence[Configuration]) -> Table:
    columns = (
        Column("", 2), Column("context", 9, is_number=True), Column("users", 7, is_number=True),
        Column("quality", 12, is_number=True), Column("tok/s", 7, is_number=True),
        Column("checkpoint and flags", gap="  ", is_path=True),
    )  # fmt: skip
    more = f"{len(front) - _ROWS} more with --all" if len(front) > _ROWS else ""
    rows = tuple(_row(each, each is fit.pick) for each in front)
    title = "What stands beside it"
    return Table(title, columns, rows, button="Plan", label="The front", below=41, more=more, tall=True,
                 shown=_shown(front, fit.pick))  # fmt: skip


def _row(each: Configuration, is_pick: bool) -> Row:
    point = each.point
    quality = f"{each.precision} -{point.quality:.1f}" if point.quality else each.precision
    return Row(
        (
            Cell(">" if is_pick else "", 0 if is_pick else 1), Cell(f"{point.context:,}", point.context),
            Cell(f"{point.users:,}", point.users), Cell(quality, point.quality), Cell(_rate(each), each.relative_speed),
            point.arm.model,
        ),
        below=(each.note,) if each.note else (),
        command=each.command,
    )  # fmt: skip


def _rate(each: Configuration) -> str:
    """Tokens per second that each of the users sees; relative where nobody knows how fast the card is."""
    speed = each.speed
    return _three_digits(speed.all_users / speed.users) if speed is not None else f"{each.relative_speed:.0%}"


def _bits(precision: str) -> str:
    text = precision.upper()
    return "b16" if "16" in text else "b8" if "8" in text else "b4"


def _picture(fit: Fit, front: Sequence[Configuration]) -> tuple[Block, ...]:
    if len(front) < 2:
        return ()
    dots = tuple(
        Dot(each.point.context, each.point.users, _bits(each.precision), 4 + 6 * each.relative_speed, _words(each),
            each.command, chosen=each is fit.pick)
        for each in front
    )  # fmt: skip
    across = doublings([dot.x for dot in dots], "tokens of context →")
    up = doublings([dot.y for dot in dots], "↑ users at once")
    names = {"b16": "16 bits", "b8": "8 bits", "b4": "4 bits"}
    legend = tuple((bits, words) for bits, words in names.items() if any(dot.colour == bits for dot in dots))
    label = "Context against users: every configuration that nothing beats"
    remark = "the larger, the faster; the ring is the pick; click one to plan it"
    return (Scatter("Context against users", dots, across, up, label=label, legend=legend, remark=remark),)


def _words(each: Configuration) -> str:
    point = each.point
    note = f", {each.note}" if each.note else ""
    return (
        f"{point.arm.model}: {point.context:,} tokens for {point.users} users, {each.precision}, "
        f"{each.relative_speed:.0%} of the fastest{note}"
    )


def _basis(fit: Fit) -> str:
    if fit.pick is None:
        return f"{fit.plans} plans."
    return (
        f"{fit.plans} plans. Each row was planned and fits with the unfavourable end of every interval. "
        "Users are requests of the whole context at once. Quality is an order only: what keeps more bits loses less. "
        f"{_speed_basis(fit)}"
    )


def _speed_basis(fit: Fit) -> str:
    speeds = [each.speed for each in fit.front or fit.nearest if each.speed is not None]
    if not speeds and all(gpu.bandwidth for gpu in fit.gpus):
        return "No speed is shown: this model generates no tokens."
    if not speeds:
        return "Speed is relative: nobody knows how fast this card is."
    basis = worst_error(speeds)
    whose = f"each of {speeds[0].users} users" if speeds[0].users > 1 else "one user"
    text = f"tok/s: {whose} behind a prompt of 2,048 tokens, by the time model of oomph simulate"
    return f"{text}; {basis}." if basis else f"{text}."
