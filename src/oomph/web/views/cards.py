"""Which GPUs, and how many, serve a model; and without a model, the GPUs that are known."""

from collections.abc import Sequence

from oomph.ir import Device
from oomph.search.cards import Card, Cards
from oomph.simulate.speed import worst_error
from oomph.units import GIB, gib
from oomph.web.markup import Html, el
from oomph.web.views.scatter import Dot, doublings, scatter
from oomph.web.views.shared import apply_button, block, picture, section, soft, table

_NOTE = (
    "Each row was planned, with a margin for what is not certain. Spare: on the fullest GPU at the worst. Users: of "
    "this context at once. Tokens/s: of one user, computed. Longest: the context for so many users."
)


def cards_view(answer: Cards) -> Html:
    want = answer.want
    people = f"{want.users} user{'s' if want.users > 1 else ''}"
    wish = f"{want.context:,} tokens of context, {people} at once"
    if not answer.cards:
        body: object = None
        looked = f" no card up to eight together, of {answer.looked_at} looked at"
        verdict = el("p", el("strong", "NOTHING FITS"), looked, cls="says")
    else:
        first = answer.cards[0]
        verdict = el(
            "p", el("strong", card_name(first)), f" is the least that serves it: {first.checkpoint}", cls="says"
        )
        body = [section("Memory against users", _picture(answer)), section("Cards", _table(answer))]
    return el(
        "article",
        el("header", el("h1", answer.model), soft(wish), cls="heading"),
        el("div", verdict, cls=f"verdict {'fits' if answer.cards else 'fails'}"),
        body,
        soft(f"Each card's best by this measure: {answer.objective}.") if answer.objective else None,
        soft(f"{answer.plans:,} plans on {answer.looked_at} choices of cards. {_NOTE}{_error(answer)}"),
        cls="view cards",
    )


def _error(answer: Cards) -> str:
    error = worst_error([card.speed for card in answer.cards if card.speed is not None])
    return f" {error[:1].upper()}{error[1:]}." if error else ""


def card_name(card: Card) -> str:
    return f"{card.count} x {card.name}" if card.count > 1 else card.name


def _picture(answer: Cards) -> Html | None:
    if len(answer.cards) < 2:
        return None
    dots = [
        Dot(card.nominal_gb, max(1, card.users), f"count{min(card.count, 8)}", 7,
            f"{card_name(card)}: {card.users} users, {card.longest:,} tokens at most, {card.checkpoint}", card.command)
        for card in answer.cards
    ]  # fmt: skip
    chart = scatter(
        dots, doublings([device.x for device in dots], "GB of all cards together →"),
        doublings([device.y for device in dots], "↑ users at once"), "Memory against users",
    )  # fmt: skip
    counts = sorted({min(card.count, 8) for card in answer.cards})
    legend = [el("li", el("i", cls=f"chip round count{n}"), "one card" if n == 1 else f"{n} cards") for n in counts]
    return el("figure", chart, el("ul", legend, cls="legend"), cls="chart")


def _table(answer: Cards) -> Html:
    priced = any(card.price is not None for card in answer.cards)
    rows = [
        (
            (f"{card.price:,.0f}" if card.price is not None else "", card.price or 0) if priced
            else (f"{card.nominal_gb} GB", card.nominal_gb),
            (el("div", el("b", card_name(card)), el("p", card.step, cls="soft") if card.step else None),
             card_name(card)),
            (f"{card.speed.one_user:,.0f}" if card.speed else "?", round(card.speed.one_user, 1) if card.speed else 0),
            (gib(max(0, card.headroom_bytes)), card.headroom_bytes),
            (f"{card.users}+" if card.users == 256 else str(card.users), card.users),
            (f"{card.longest:,}", card.longest),
            (el("div", card.checkpoint, el("p", card.note, cls="soft") if card.note else None), card.checkpoint),
            (", ".join(card.instances[:3]), len(card.instances)),
            (apply_button(card.command, "Plan", data_gpu=card_name(card).replace(" x ", "x ", 1)), 0),
        )
        for card in answer.cards
    ]  # fmt: skip
    first = "#price" if priced else "#memory"
    heads = [first, "cards", "#tokens/s", "#spare", "#users", "#longest", "checkpoint", "in clouds", ""]
    return table(heads, rows, sorts=True, label="Cards that serve it")


def known_cards_view(devices: Sequence[Device]) -> Html:
    """Without a model: what the driver really reports."""
    largest = max((device.total_bytes for device in devices), default=1)
    rows = [
        (
            (el("b", device.name), device.name), (f"{device.total_bytes / GIB:.2f}", device.total_bytes),
            (picture(14, gib(device.total_bytes), block("ground", 0, 1, 2, 10),
                     block("fill weights", 0, device.total_bytes / largest, 2, 10), cls="inline"), device.total_bytes),
            (f"{device.capability[0]}.{device.capability[1]}" if device.capability != (0, 0) else "", device.sm),
            (f"{device.bandwidth / 1e9:,.0f}" if device.bandwidth else "", device.bandwidth),
            (device.total_basis + (", shared with the CPU" if device.unified else ""), device.total_basis),
        )
        for device in devices
    ]  # fmt: skip
    heads = ["card", "#GiB", "", "#compute", "#GB/s", "total is"]
    return el(
        "article",
        el("header", el("h1", "The GPUs that are known"), soft("With the bytes that the driver really reports. Name a "
           "model above to see which of them, and how many, it needs."), cls="heading"),
        table(heads, rows, sorts=True, label="Known GPUs", tall=True), cls="view cards",
    )  # fmt: skip
