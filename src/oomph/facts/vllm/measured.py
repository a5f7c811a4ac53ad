"""Which releases were started and measured, on which card: what the constants of a plan rest on.

The counts are those of the rows in tests/truth (h200*.jsonl), which tests/facts/test_measured.py holds them to.
"""

from oomph.ir.plan import Grounds, MeasuredStarts

CARD = "H200"
STARTS = (
    MeasuredStarts("0.21.0", CARD, 74, 13),
    MeasuredStarts("0.24.0", CARD, 3, 0),
    MeasuredStarts("0.25.0", CARD, 3, 0),
    MeasuredStarts("0.26.0", CARD, 84, 42),
    MeasuredStarts("0.29.0", CARD, 1, 0),
    MeasuredStarts("0.32.0", CARD, 65, 36),
)


def grounds(release: str, card: str) -> Grounds:
    """What a plan of this release on this card rests on."""
    same_card = card == CARD
    of_release = next((row for row in STARTS if row.release == release), None)
    if of_release is None:
        where = f"not measured on {release}: the constants are those of {_listed([row.release for row in STARTS])}"
        text = f"{where} on an {CARD}"
    else:
        starts = "1 start" if of_release.starts == 1 else f"{of_release.starts} starts"
        kinds = f"{starts}, {of_release.compiled or 'none'} of them compiled"
        others = [row.release for row in STARTS if row is not of_release]
        text = f"measured on {release} on an {CARD} ({kinds}), and on {_listed(others)}"
    if not same_card:
        text += f"; not on {card or 'this card'}"
    return Grounds(STARTS, of_release is not None, same_card, text)


def _listed(releases: list[str]) -> str:
    return " and ".join(part for part in (", ".join(releases[:-1]), releases[-1]) if part)
