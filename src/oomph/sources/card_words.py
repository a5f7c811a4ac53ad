"""Cards as people say them, in their own languages, rewritten into the grammar of sources/gpu.py.

    dual 3090s · a pair of 3090s · zwei RTX 3090 Karten · deux 4090 · две 4090       ->  2x ...
    两张4090 · 4090双卡 · 8卡A100 80G · 4090を2枚 · 4090 2장                           ->  2x 4090, 8x A100 80G, ...
    8 x h100 nodes x2 · 两台8卡H100 · 2 nodes x 8 H100 · two nodes with 8 H100 each   ->  2x(8x H100)
    3090 and 3060 · 4090 und 3090                                                   ->  3090 + 3060
    4090 with 2gb used · 24gb card, 22gb free                                      ->  4090 used 2gb, 24gb free 22gb

`plain_words(text)` returns that text. A word that is not known stays where it is, so that the table of cards refuses
it: nothing that a person wrote is dropped in silence. Memory of the host and a choice between cards are refused.
"""

import re

from oomph.errors import CommandError
from oomph.text.late import late_pattern
from oomph.text.printable import quoted

# Numbers in words: English, German, French, Spanish, Portuguese, Italian, Russian. A word of two languages is the same
# number in both.
_WORDS: dict[int, str] = {
    1: "single one a an ein eine einzelne une un una uno um uma одна один",
    2: "dual two double twin zwei zwo doppelte deux dos dois duas due две два",
    3: "triple three drei trois tres três tre три",
    4: "quad quadruple four vier quatre cuatro quatro quattro четыре",
    5: "five fünf cinq cinco cinque пять",
    6: "six sechs seis sei шесть",
    7: "seven sieben sept siete sete sette семь",
    8: "eight acht huit ocho oito otto восемь",
    10: "ten zehn dix diez dez dieci десять",
    12: "twelve zwölf douze doce doze dodici двенадцать",
    16: "sixteen sechzehn seize dieciséis dezesseis sedici шестнадцать",
}
NUMBERS: dict[str, int] = {word: number for number, words in _WORDS.items() for word in words.split()}
_HAN: dict[str, int] = dict(
    zip("单單一双雙两兩二三四五六七八十", (1, 1, 1, 2, 2, 2, 2, 2, 3, 4, 5, 6, 7, 8, 10), strict=True)
)
_HAN |= {"한": 1, "두": 2, "세": 3, "네": 4}  # Korean, before a counter
_HAN_COUNT = rf"([0-9]{{1,3}}|十六|[{''.join(_HAN)}])"
_COUNTER = "(?:张|張|块|塊|片|枚|路|卡|个|個|장|개|대)"  # what Chinese, Japanese and Korean count cards with
_SAID = r"(?:pair|couple)\s{1,3}of"
_NOUN = (
    r"(?:graphics\s{1,3}cards?|video\s{1,3}cards?|grafikkarten?|cards?|gpus?|karten?|cartes?|tarjetas?|placas?|schede|scheda|"
    r"видеокарт[аы]?|карт[аы]?|显卡|顯卡|卡|グラボ|vram|显存|of\s{1,3}vram|video\s{1,3}memory|pcs|units)"
)
_OF_SIZE = r"([0-9][0-9._]{0,12}\s{0,3}(?:gib|gb|g|mib|mb))"

_NUMBER_WORD = late_pattern(
    lambda: rf"^(?:an?\s{{1,3}})?(?:({_SAID})|({'|'.join(sorted(NUMBERS, key=len, reverse=True))}))(?=\s{{1,3}}\w)",
    re.IGNORECASE,
)
_OWNER = late_pattern(
    r"^(?:(?:my|our|the|these|meine[nr]?|unsere|mon|ma|mes|mi|mis|meu|minha)\s{1,3}|(?:我的|我有|有)\s{0,3})(?=\S)",
    re.IGNORECASE,
)
_HAN_FIRST = late_pattern(
    rf"^{_HAN_COUNT}\s{{0,3}}{_COUNTER}\s{{0,3}}(?:[的の]\s{{0,3}})?(?=\S)|^([{''.join(_HAN)}])\s{{0,3}}(?=[A-Za-z0-9])"
)
_HAN_LAST = late_pattern(rf"(?<=\S)\s{{0,3}}(?:[をの]|[x×*])?\s{{0,3}}{_HAN_COUNT}\s{{0,3}}{_COUNTER}$")
_HAN_NODES = late_pattern(rf"^{_HAN_COUNT}\s{{0,3}}(?:台|機|机)\s{{0,3}}(?:的\s{{0,3}})?(?=\S)")
_NOUN_LAST = late_pattern(rf"\s{{0,3}}(?<![a-z]){_NOUN}$", re.IGNORECASE)
# "Max+" is a name (Ryzen AI Max+ 395)
_AND = late_pattern(r",|(?<!max)\+|\s{1,3}(?:and|und|et|y|e|и|plus)\s{1,3}|\s{0,3}[和跟と및]\s{0,3}", re.IGNORECASE)
_OR = late_pattern(r"\s(?:or|oder|ou|или)\s|还是|或", re.IGNORECASE)
_NODE = r"(?:nodes?|machines?|hosts?|servers?|boxes|knoten|nœuds?|nodos?|узла)"
_NODES_LAST = late_pattern(rf"(.{{1,200}}?)\s{{1,3}}{_NODE}\s{{0,3}}[x×*]\s{{0,3}}([0-9]{{1,3}})", re.IGNORECASE)
_NODES_FIRST = late_pattern(
    rf"([0-9]{{1,3}})\s{{0,3}}[x×*]?\s{{0,3}}{_NODE}\s{{0,3}}(?:of|with|mit|avec|con|from|[x×*,:])?\s{{0,3}}(.+)",
    re.IGNORECASE,
)
_EACH = late_pattern(r"\s{1,3}(?:each|apiece|per\s{1,3}node|je|jeweils|chacun|cada\s{1,3}uno)$", re.IGNORECASE)
_IN_USE = r"(?:used|in\s{1,3}use|taken|occupied|belegt|utilisés?|usados?|ocupados?|已用|已占用|占用)"
_FREE = r"(?:free|available|left|frei|libres?|livres?|свободно|可用|空闲|剩余)"
_BEFORE = rf"[\s,(]{{0,4}}(?:(?:with|but|mit|only)\s{{1,3}}){{0,3}}(?<![\w.]){_OF_SIZE}\s{{0,3}}(?:of\s{{1,3}})?"
_HELD = late_pattern(rf"{_BEFORE}{_IN_USE}\)?(?!\w|[\s:=]{{0,3}}[0-9])", re.IGNORECASE)
_LEFT = late_pattern(rf"{_BEFORE}{_FREE}\)?(?!\w|[\s:=]{{0,3}}[0-9])", re.IGNORECASE)
_RAM = late_pattern(
    rf"(?<![\w.]){_OF_SIZE}\s{{0,3}}(?:of\s{{1,3}})?(?:system\s{{1,3}}|ddr[345]\s{{1,3}})?(?:ram|ddr[345]|arbeitsspeicher|内存)(?!\w)",
    re.IGNORECASE,
)
_BEHIND_A_CARD = late_pattern(r"[\s,+(]*(?:\s(?:and|with|mit|avec|con|plus))?\s*$", re.IGNORECASE)
# "16 gb 5060 ti": its size in front of a card's name.
_SIZE_BEFORE = late_pattern(r"(?<![\w.])([0-9]{1,3})[\s-](gi?b)(?=\s\S)", re.IGNORECASE)
_OCTETS = late_pattern(r"(?<![\w.])([0-9]{1,4})\s?Go(?!\w)")  # "80 Go" is what French speakers say
# Machines whose GPU has the memory of the host.
_ONE_MEMORY = late_pattern(
    r"\bmac|\bimac|\bm[1-9]\b|strix|ryzen\s{0,3}ai|framework|spark|jetson|orin|thor|gb10", re.IGNORECASE
)


def without_ram(text: str) -> tuple[str, str]:
    """ "RTX 4090, 64GB RAM" -> the card, and the size of the host's memory; a Mac's memory is its GPU's."""
    match = _RAM.search(text)
    if match is None or _ONE_MEMORY.search(text):
        return text, ""
    before = _BEHIND_A_CARD.sub("", text[: match.start()])
    cards = f"{before}{text[match.end() :]}".strip(" ,+")
    if not cards:
        raise CommandError(f"{quoted(match[0].strip(), 60)} is the host's memory, not a card's: name the card too")
    return cards, match[1]


def plain_words(text: str) -> str:
    """The text in the grammar of --gpu: counts as digits, `+` between cards, `used` and `free` behind a card."""
    plain = text.strip()
    if not plain.isascii():
        import unicodedata

        plain = unicodedata.normalize("NFKC", plain)  # full-width digits and letters
    plain = _OCTETS.sub(r"\1 GB", " ".join(plain.split()))
    if _OR.search(plain):
        raise CommandError(f"{quoted(text, 60)} is a choice between cards: name one", hint="oomph gpus MODEL compares")
    plain = _LEFT.sub(r" free \1", _HELD.sub(r" used \1", plain))
    return _machines(_with_digits(plain))


def _with_digits(text: str) -> str:
    """ "my two 3090s" -> "2 3090s": a number in words in front of an entry."""
    return _NUMBER_WORD.sub(_digits, _OWNER.sub("", text.strip())).strip()


def _digits(match: re.Match[str]) -> str:
    number = 2 if match[1] else NUMBERS[match[2].lower()]
    return "" if number == 1 else str(number)  # "a 16GB M1 Mac": one entry as it stands


def _machines(text: str) -> str:
    if match := _HAN_NODES.match(text):
        return f"{_number(match[1])}x({_cards(text[match.end() :])})"
    whole = _EACH.sub("", text)
    if match := _NODES_LAST.fullmatch(whole):
        return f"{match[2]}x({_cards(match[1])})"
    if match := _NODES_FIRST.fullmatch(whole):
        return f"{match[1]}x({_cards(match[2])})"
    return _cards(text)


def _cards(text: str) -> str:
    return " + ".join(_one_kind(part) for part in _AND.split(text))


def _one_kind(text: str) -> str:
    """One entry of a list: its count in front, its noun gone."""
    text = _with_digits(text)
    amount = ""
    if match := re.search(r" (?:used|free) \S.*$", text):
        text, amount = text[: match.start()], match[0]
    if match := _HAN_LAST.search(text):
        return f"{_number(match[1])}x {_without_noun(text[: match.start()])}{amount}"
    if match := _HAN_FIRST.match(text):
        return f"{_number(match[1] or match[2])}x {_without_noun(text[match.end() :])}{amount}"
    return _without_noun(text) + amount


def _without_noun(text: str) -> str:
    bare = _SIZE_BEFORE.sub(r"\1\2", _NOUN_LAST.sub("", text.strip()))
    return bare if re.search(r"\d", bare) else text


def _number(word: str) -> int:
    return int(word) if word.isdigit() else 16 if word == "十六" else _HAN[word]
