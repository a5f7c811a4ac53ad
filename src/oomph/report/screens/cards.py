"""Cards for people, and as JSON: one line for each number of one card, the cheapest first."""

from typing import Any

from msgspec import to_builtins

from oomph.report.contract.plan import SCHEMA
from oomph.report.contract.searches import AskedOutput, CardOutput, CardsOutput, PricesOutput
from oomph.report.terminal import Style, wrap
from oomph.search.cards import Card, Cards
from oomph.search.prices import Against
from oomph.simulate.speed import worst_error
from oomph.text.tables import all_that_hold
from oomph.units import gib


def render(cards: Cards, style: Style, *, width: int = 100, everything: bool = False) -> str:
    want = cards.want
    people = f"{want.users} user{'s' if want.users > 1 else ''}"
    lines = ["", f"  {style.bold(cards.model)}   {want.context:,} tokens of context, {people} at once", ""]
    if not cards.cards:
        stopped = f"  {style.bold('STOPPED')}   before a card was found that serves it, {cards.looked_at} looked at"
        nothing = f"  {style.bad('NOTHING FITS')}   no card up to eight together, of {cards.looked_at} looked at"
        lines.append(stopped if cards.interrupted else nothing)
        return "\n".join(lines) + "\n"
    price = any(c.price is not None for c in cards.cards)
    head = f"  {'price':>9}" if price else f"  {'memory':>9}"
    widest = max(len(_name(c)) for c in cards.cards) + 1
    title = f"{head}  {'cards':<{widest}}{'tok/s':>7}{'users':>7}{'longest':>9}{'free':>10}  checkpoint"
    lines += [
        style.bold(title),
        *(line for card in cards.cards for line in _line(card, price, widest, width, style)),
        *all_that_hold(
            (cards.more, style.dim("  there are further ones: --all, also legacy and modified cards")),
            (cards.interrupted, "  The search was stopped: these are the cards so far."),
        ),
    ]
    if cards.against is not None:
        lines += ["", *wrap(_beside_api(cards.against, _name(cards.cards[0])), width, "  ", " " * 4)]
    lines += ["", *(style.dim(line) for line in wrap(_basis(cards), width, "  ", "  "))]
    return "\n".join(lines) + "\n"


def _basis(cards: Cards) -> str:
    order = {
        "price": "Cheapest first.", "speed": "Fastest first.",
        "memory": "Fewest cards first, then by memory (no prices given: --prices FILE).",
    }  # fmt: skip
    text = order[cards.sort]
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
        + (f" Each card's best by this measure: {cards.objective}." if cards.objective else "")
    )


def _beside_api(against: Against, machine: str) -> str:
    load = against.load
    millions = [f"{tokens / 1e6:,.0f}" for tokens in (against.prompt_tokens, against.output_tokens)]
    tokens = f"{millions[0]} million prompt and {millions[1]} million answer tokens"
    people = f"{against.users} user{'s' if against.users > 1 else ''}"
    text = (
        f"Against an API: {people}, {load.prompt:,} tokens in and {load.output:,} out, {load.hours:g} hours a day, "
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


def _name(card: Card) -> str:
    return f"{card.count} x {card.name}" if card.count > 1 else card.name


def _line(card: Card, price: bool, widest: int, width: int, style: Style) -> list[str]:
    first = f"{card.price:>9,.2f}" if price and card.price is not None else f"{card.nominal_gb:>6} GB"
    users = f"{card.users}+" if card.users == 256 else str(card.users)
    speed = f"{card.speed.all_users:,.0f}" if card.speed is not None else "?"
    free = gib(max(0, card.headroom_bytes))
    figures = f"  {first}  {_name(card):<{widest}}{speed:>7}{users:>7}{card.longest:>9,}{free:>10}  "
    name = card.checkpoint if len(figures) + len(card.checkpoint) <= width else card.checkpoint.rpartition("/")[2]
    lines = [f"{figures}{name}"]
    about = [card.note] if card.note else []
    about += [f"in clouds {', '.join(card.instances)}"] if card.instances else []
    about += [f"buys {card.step}"] if card.step else []
    if about:
        lines += [style.dim(line) for line in wrap("; ".join(about), width, " " * 13, " " * 13)]
    return lines


def cards_json(result: Cards) -> dict[str, Any]:
    wish = AskedOutput(result.want.context, result.want.users)
    known = result.prices
    output = CardsOutput(
        schema=SCHEMA, model=result.model, asked=wish, cards=[_card(c) for c in result.cards], more=result.more,
        plans=result.plans, sort=result.sort,
        prices=PricesOutput(known.date, known.source, known.unit) if known is not None else None,
        against_api=result.against, interrupted=result.interrupted,
        objective=result.objective,
    )  # fmt: skip
    plain: dict[str, Any] = to_builtins(output)
    return plain


def _card(card: Card) -> CardOutput:
    return CardOutput(
        gpu=card.name,
        count=card.count,
        memory_bytes=card.memory_bytes,
        price=card.price,
        checkpoint=card.checkpoint,
        command=card.command,
        headroom_bytes=card.headroom_bytes,
        users=card.users,
        longest_context=card.longest,
        kv_tokens=card.plan.kv.logged_tokens if card.plan.kv else 0,
        engine=card.engine,
        tokens_per_second=round(card.speed.one_user, 1) if card.speed else None,
        tokens_per_second_all=round(card.speed.all_users, 1) if card.speed else None,
        first_token_seconds=round(card.speed.first_token_seconds, 3) if card.speed else None,
        speed_within_factor=card.speed.factor if card.speed else None,
        instances=list(card.instances),
        step=card.step,
    )
