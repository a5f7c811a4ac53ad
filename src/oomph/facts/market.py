"""How many of a card one machine usually has, by how it is sold (facts/cards.py)."""

from typing import Final

from oomph.facts.cards import CARDS, Market

_COUNTS: Final[dict[Market, tuple[int, ...]]] = {
    "": (),
    "desktop": (1, 2, 4),  # more than four need a server board
    "server": (1, 2, 4, 8),
    "single": (1,),
}
EVERY: Final = _COUNTS["server"]
COUNTS: Final = {card.name: _COUNTS[card.market] for card in CARDS if card.market}


def is_rented(card: str) -> bool:
    """A card of servers, which most people meet in a cloud."""
    return COUNTS.get(card) == EVERY


def counts_of(card: str) -> tuple[int, ...]:
    """How many of a card one machine may have; () = it is not among those that people buy or rent."""
    return COUNTS.get(card, ())
