"""The GPUs of a question: those that are meant together, others named as an alternative, and how many are asked for."""

import re
from functools import lru_cache
from itertools import pairwise

from msgspec import Struct

from oomph.commands.questions import words
from oomph.commands.questions.pieces import Text, spans
from oomph.errors import CommandError, OomphError
from oomph.text.late import late_pattern


class Cards(Struct, frozen=True):
    gpu: str = ""  # those that are meant together
    others: tuple[str, ...] = ()  # named beside them as an alternative
    refused: tuple[str, ...] = ()  # ruled out: "not a Mac"
    is_counted: bool = False  # how many of them is the question


def take_gpus(text: Text) -> Cards:
    while match := words.VRAM.search(text.left):  # "24GB of VRAM": a size is a card of that size
        text.left = text.left[: match.end(1)] + " " * (match.end() - match.end(1)) + text.left[match.end() :]
        text.text = text.text[: match.end(1)] + " " * (match.end() - match.end(1)) + text.text[match.end() :]
    places: list[tuple[int, int]] = []
    while span := next((span for span in spans(text) if is_gpu(text.text[slice(*span)])), None):
        places.append(span)
        text.drop(*span)
        if len(places) == 4:
            break
    places, refused = _wanted(text, _without_sizes(text, sorted(places)))
    if not places:
        return Cards(refused=refused)
    is_counted = words.HOW_MANY.search(text.text[: places[0][0]].lower()) is not None
    cards = [ARTICLE.sub("", " ".join(text.text[start:end].split())).rstrip(" -") for start, end in places]
    if is_counted:
        cards[0] = re.sub(r"(?<=\w)s$", "", cards[0])
    if text.asked(words.LAPTOP):
        cards = [_mobile(card) for card in cards]
    between = [text.text[end:start].lower() for (_, end), (start, _) in pairwise(places)]
    first, others = [cards[0]], list[str]()
    for card, gap in zip(cards[1:], between):
        joined = re.fullmatch(r"[\s,+]*(?:and|plus|und|y|et|和|\+)?[\s]*(?:an?|one|ein\w*|una?|une?)?\s*", gap)
        (first if joined and not words.OR.fullmatch(gap) and not others else others).append(card)
    return Cards(" + ".join(first), tuple(others), refused, is_counted)


def _wanted(text: Text, places: list[tuple[int, int]]) -> tuple[list[tuple[int, int]], tuple[str, ...]]:
    """(where cards stand that are meant, those that are ruled out)."""
    before = [text.text[:start].lower() for start, _ in places]
    refused = [span for span, said in zip(places, before) if words.NOT_CARD.search(said)]
    return [span for span in places if span not in refused], tuple(text.text[start:end] for start, end in refused)


def _without_sizes(text: Text, places: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """A size right behind a card that is not made in it ("rtx 3080 16gb") is no second card: it is left, and said."""
    cards: list[tuple[int, int]] = []
    for start, end in places:
        follows = cards and not text.text[cards[-1][1] : start].strip()
        if follows and words.MEMORY.fullmatch(text.text[start:end]):
            text.left = text.left[:start] + text.text[start:end].lower() + text.left[end:]
        else:
            cards.append((start, end))
    return cards


def _mobile(card: str) -> str:
    """ "my laptop has a 4060 8gb": the card of that name for laptops, where there is one."""
    named = f"{words.MEMORY.sub('', card).strip()} laptop"
    return named if not words.LAPTOP.search(card.lower()) and is_gpu(named) else card


def is_one(card: str) -> bool:
    """One card of one kind; which size of it is meant may still have to be asked."""
    from oomph.facts.gpus import SeveralCards
    from oomph.sources.gpu import parse_gpus

    try:
        return len(parse_gpus(card)) == 1
    except SeveralCards:
        return not re.search(r"\s|[x*]\d", card)
    except OomphError:
        return False


@lru_cache(maxsize=1024)
def is_gpu(name: str) -> bool:
    """Known to the table, or known so well that only its size has to be asked for. A number alone is a card where it
    has four digits ("4090")."""
    from oomph.facts.gpus import SeveralCards
    from oomph.sources.gpu import parse_gpus
    from oomph.sources.shared_gpu import NoSize

    low = " ".join(name.lower().split())
    has_digit = any(char.isdigit() for char in low)
    if not 2 <= len(low) <= 120 or (not has_digit and " " not in low):
        return False
    if re.fullmatch(r"[\d.]+|\d+\s?[kbmt]", low) and not re.fullmatch(r"\d{4}", low):
        return False
    try:
        return bool(parse_gpus(low))
    except CommandError as refused:
        is_asked = isinstance(refused, NoSize) or (isinstance(refused, SeveralCards) and (has_digit or _is_series(low)))
        return is_asked and "," not in low and not _SPEAKING.intersection(low.split())
    except OomphError:
        return False


def _is_series(low: str) -> bool:
    """Whether it begins as cards of the table do: "jetson orin", "quadro rtx"."""
    from oomph.facts.gpus import rows

    return low.split()[0] in {row.name.split()[0].lower() for row in rows()}


ARTICLE = late_pattern(r"^(?:(?:an?|my|the|eine[mrn]?|une?|una)\s+|我有|我的)(?=\S)", re.IGNORECASE)
_SPEAKING = frozenset(words.PLAIN - {"mac", "macbook", "laptop", "max", "mini", "my", "a", "an", "one", "card", "gpu"})
