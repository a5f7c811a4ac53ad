"""Cards that serve a model, and as JSON: one line for each number of one card, the cheapest first."""

from oomph.report.answer import (
    Answer,
    Aside,
    Block,
    Cell,
    Column,
    Dot,
    Heading,
    Paragraph,
    Row,
    Scatter,
    Table,
    Verdict,
    picked_for,
)
from oomph.report.chart import doublings
from oomph.search.cards import Card, Cards
from oomph.search.prices import Against
from oomph.simulate.speed import worst_error
from oomph.text.tables import all_that_hold
from oomph.units import gib

# by what the lines are sorted: what the first is, and how that is said below
_ORDERS = {
    "price": ("the cheapest", "Cheapest first."), "speed": ("the fastest", "Fastest first."),
    "memory": ("the least", "Fewest cards first, then by memory (no prices given: --prices FILE)."),
}  # fmt: skip


def answer(cards: Cards) -> Answer:
    want = cards.want
    people = f"{want.users} user{'s' if want.users > 1 else ''}"
    heading = Heading(cards.model, (f"{want.context:,} tokens of context, {people} at once",))
    if not cards.cards:
        return Answer("cards", heading, _nothing(cards), ())
    first = cards.cards[0]
    says = f"is {_ORDERS[cards.sort][0]} that serves it: {first.checkpoint}"
    beside = Paragraph("API", (_beside_api(cards.against, _name(first)),), "Against an API") if cards.against else None
    measure = picked_for(cards.measure)
    table = _table(cards)
    blocks = (*_picture(cards), table, *([beside] if beside else []), measure, Aside(_basis(cards)))
    verdict = Verdict(_name(first), "fits", says, command=table.rows[0].command, data=table.rows[0].data)
    return Answer("cards", heading, verdict, blocks)


def _nothing(cards: Cards) -> Verdict:
    if cards.interrupted:
        return Verdict("STOPPED", "close", f"before a card was found that serves it, {cards.looked_at} looked at")
    return Verdict("NOTHING FITS", "fails", f"no card up to eight together, of {cards.looked_at} looked at")


def _table(cards: Cards) -> Table:
    priced = any(card.price is not None for card in cards.cards)
    columns = (
        Column("price" if priced else "memory", 9, is_number=True),
        Column("cards", max(len(_name(card)) for card in cards.cards) + 1, gap="  "),
        Column("tok/s", 7, is_number=True), Column("users", 7, is_number=True), Column("longest", 9, is_number=True),
        Column("free", 10, is_number=True), Column("checkpoint", gap="  ", is_path=True),
    )  # fmt: skip
    remarks = all_that_hold(
        (cards.more, "there are further ones: --all, also legacy and modified cards"),
        (cards.interrupted, "The search was stopped: these are the cards so far."),
    )
    rows = tuple(_row(card, priced) for card in cards.cards)
    return Table("Cards", columns, rows, button="Plan", label="Cards that serve it", below=13, more=". ".join(remarks))


def _row(card: Card, priced: bool) -> Row:
    about = [card.note] if card.note else []
    about += [f"in clouds {', '.join(card.instances)}"] if card.instances else []
    about += [f"buys {card.step}"] if card.step else []
    memory = Cell(f"{card.nominal_gb} GB", card.nominal_gb)
    return Row(
        (
            Cell(f"{card.price:,.2f}", card.price) if priced and card.price is not None else memory,
            Cell(_name(card), tone="bold"),
            Cell(f"{card.speed.all_users:,.0f}" if card.speed else "?", card.speed.all_users if card.speed else 0),
            Cell(f"{card.users}+" if card.users == 256 else str(card.users), card.users),
            Cell(f"{card.longest:,}", card.longest),
            Cell(gib(max(0, card.headroom_bytes)), card.headroom_bytes), card.checkpoint,
        ),
        below=("; ".join(about),) if about else (),
        command=card.command,
        data={"gpu": _name(card).replace(" x ", "x ", 1)},
    )  # fmt: skip


def _picture(cards: Cards) -> tuple[Block, ...]:
    if len(cards.cards) < 2:
        return ()
    dots = tuple(
        Dot(card.nominal_gb, max(1, card.users), f"count{min(card.count, 8)}", 7,
            f"{_name(card)}: {card.users} users, {card.longest:,} tokens at most, {card.checkpoint}", card.command)
        for card in cards.cards
    )  # fmt: skip
    across = doublings([dot.x for dot in dots], "GB of all cards together →")
    up = doublings([dot.y for dot in dots], "↑ users at once")
    counts = sorted({min(card.count, 8) for card in cards.cards})
    legend = tuple((f"count{n}", "one card" if n == 1 else f"{n} cards") for n in counts)
    title = "Memory against users"
    return (Scatter(title, dots, across, up, label=title, legend=legend),)


def _basis(cards: Cards) -> str:
    text = _ORDERS[cards.sort][1]
    if cards.prices is not None:
        unit = "an hour of each card" if cards.prices.rented else "each card"
        source = f", {cards.prices.source}" if cards.prices.source else ""
        text += f" Prices of {unit}, {cards.prices.date or 'without a date'}{source}."
    error = worst_error([card.speed for card in cards.cards if card.speed is not None])
    if error:
        text += f" tok/s: of all users, prompts of 2,048 tokens; {error}."
    return (
        f"{text} Each line was planned, with a margin for what is not certain. free: on the fullest GPU at the worst; "
        "users: of this context; longest: for so many users."
    )


def _name(card: Card) -> str:
    return f"{card.count} x {card.name}" if card.count > 1 else card.name


def _beside_api(against: Against, machine: str) -> str:
    load = against.load
    millions = [f"{tokens / 1e6:,.0f}" for tokens in (against.prompt_tokens, against.output_tokens)]
    tokens = f"{millions[0]} million prompt and {millions[1]} million answer tokens"
    people = f"{against.users} user{'s' if against.users > 1 else ''}"
    text = (
        f"{people}, {load.prompt:,} tokens in and {load.output:,} out, {load.hours:g} hours a day, "
        f"make {tokens} a month, which cost {against.api_cost:,.2f} there. "
    )
    if against.machine_cost is not None:
        share = against.break_even
        even = f"cheaper from {share:.0%} of that load on" if share <= 1 else f"even at {share:.1f} times that load"
        return text + f"{machine}, rented for those hours, costs {against.machine_cost:,.2f}: {even}."
    return (
        text
        + f"{machine} costs {against.price:,.0f} and is paid back after {against.break_even:.1f} months, power aside."
    )
