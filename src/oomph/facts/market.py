"""Which cards people buy or rent today, and how many of them one machine usually has.

Chosen: what shops, second-hand markets and clouds offer in quantity in November 2026. Everything else in facts/gpus.py
(legacy cards, modified ones, laptops, boards for one country) is looked at with --all, or when it is named.
"""

from typing import Final

_DESKTOP = (1, 2, 4)  # more than four need a server board
_SERVER = (1, 2, 4, 8)

COUNTS: Final[dict[str, tuple[int, ...]]] = {
    **dict.fromkeys(
        ("RTX 5090", "RTX 5080", "RTX 5070 Ti", "RTX 5070", "RTX 5060 Ti 16GB", "RTX 5060", "RTX 4090",
         "RTX 4080 SUPER", "RTX 4070 Ti SUPER", "RTX 4060 Ti 16GB", "RTX 4060", "RTX 3090", "RTX 3060 12GB"),
        _DESKTOP,
    ),
    **dict.fromkeys(("RTX PRO 6000", "RTX PRO 5000", "RTX PRO 4500", "RTX 6000 Ada", "RTX A6000"), _DESKTOP),
    **dict.fromkeys(
        ("T4", "L4", "A10G", "L40S", "A100 SXM 40GB", "A100 SXM 80GB", "H100 SXM", "H200", "B200", "B300"), _SERVER
    ),
    "GB10": (1,),
}  # fmt: skip
EVERY: Final = _SERVER


def is_rented(card: str) -> bool:
    """A card of servers, which most people meet in a cloud."""
    return COUNTS.get(card) == _SERVER


def counts_of(card: str) -> tuple[int, ...]:
    """How many of a card one machine may have; () = it is not among those that people buy or rent."""
    return COUNTS.get(card, ())
