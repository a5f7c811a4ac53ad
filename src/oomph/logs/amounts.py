# ruff: noqa: E501 - a row is a line
"""Figures in a sentence that speak for themselves: more was wanted than was there, or less than nothing is left.

People tell of a shortage without its name ("it wants 1.5 GiB that isn't there", "5.62 GiB nötig, übrig sind 3.09"):
each size belongs to the word nearest to it, and the comparison says the rest, in whatever language.
"""

from typing import Final

from oomph.text.late import late_pattern

_SIZE: Final = late_pattern(
    r"(?<![A-Za-z0-9_.,])(?P<sign>[-−–]|minus )?(?P<number>\d{1,6}(?:[.,]\d{1,3})?) ?(?P<unit>[KMGT]i?[Bo]?|gigs?|gigabytes?)(?![A-Za-z0-9_])",
)
_BARE: Final = late_pattern(r"(?<![\w.,])(?P<sign>[-−–]|minus )?(?P<number>\d{1,5}(?:[.,]\d{1,3})?)(?![\w.,%]*\w)")
_WANTED: Final = late_pattern(
    r"(?i)\b(?:want(?:s|ed|ing)?|need(?:s|ed|ing)?|ask(?:s|ed|ing)?(?: for)?|requir\w{1,3}|takes|request(?:s|ed)?|desired|(?:tr(?:ies|ied|ying)|fail(?:s|ed)?|unable) to (?:allocate|get|reserve)|would (?:need|take)|necessary|"
    r"br[aä]uch\w{0,4}|benötig\w{0,3}|will|wollte|möchte|verlangt\w{0,2}|gewünscht|angefordert|anfordert|nötig|erforderlich|fordert)\b|需要|要求|想要|申请|要?分配|还要|又要|得要|(?<![只重主])要(?!求)"
)
_THERE: Final = late_pattern(
    r"(?i)\b(?:free|left|available|unoccupied|unused|remain\w{0,4}|there (?:is|are|was|were)|(?:is|are|was|were) there|(?<!I )ha[sd]|to give|to spare|installed|"
    r"frei\w{0,2}|unbelegt|übrig|verfügbar\w{0,2}|vorhanden|bleib\w{0,3}|blieb\w{0,2}|da sind|sind da|gibt es|hat)\b|^\W{0,3}there\b|可用|空闲|只剩|剩余|剩下|剩|只有|仅有|仅"
)
_MISSING: Final = late_pattern(
    r"(?i)\b(?:missing|short(?: of)?|lack(?:s|ed|ing)?|too (?:little|few)|fehl(?:t|te|en|ten)|zu wenig)\b|差(?!不多|异|别)|缺|少了"
)
_GONE: Final = late_pattern(
    r"(?i)\b(?:that|which|and (?:it|that|those)?) ?(?:is|are|was|were)(?: just| simply)?(?: ?not|n['’]t) (?:there|available|free|to be had)|(?:can(?:not|['’]?t| not)|could ?n[o'’]t) be had|gibt es (?:aber |da )?nicht|nicht zu (?:bekommen|haben|kriegen)|sind nicht (?:da|frei)|没有了|不到了?|没地方"
)
_BREAK: Final = late_pattern(r"[;:。；]|[,，](?!\d)")
_NEAR: Final = 40  # characters before a size in which its word stands
_BEHIND: Final = 22
_SCALE: Final = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_MOST: Final = 12  # sizes of a sentence that are looked at


def tells_shortage(sentence: str, failing: bool = False) -> bool:
    """Its figures say that memory is short: less than nothing is left, more was wanted than is there, something lacks;
    of a sentence that tells of a failure, that a size was asked for is enough."""
    if (
        _FREE.search(sentence)
        and _WANTED.search(sentence)
        and not _CACHE.search(sentence)
        and tells_free_check(sentence)
    ):
        return True
    wanted: list[float] = []
    there: list[float] = []
    matches = list(_SIZE.finditer(sentence))[:_MOST]
    if not matches:
        wanted, there = _of_role(sentence, "wanted"), _of_role(sentence, "there")
        return failing and bool(wanted and there) and max(wanted) > min(there)
    if any(match["sign"] and _is_sign(sentence, match.start()) for match in matches):
        return True
    ends = [0, *(match.end() for match in matches)]
    begins = [*(match.start() for match in matches[1:]), len(sentence)]
    for match, last, following in zip(matches, ends, begins, strict=False):
        size = _bytes(match["number"], match["unit"])
        before = sentence[max(last, match.start() - _NEAR) : match.start()]
        behind = _BREAK.split(sentence[match.end() : min(following, match.end() + _BEHIND)])[0]
        if (
            _MISSING.search(_BREAK.split(before)[-1])
            or _MISSING.search(behind)
            or _GONE.search(sentence[match.end() :][:48])
        ):
            return True
        role = _role(before, behind)
        wanted += [size] if role == "wanted" else []
        there += [size] if role == "there" else []
    # "while it has 3.09 to give": what is there, counted in the unit that was just said
    there += _of_role(sentence, "there", matches[-1]["unit"]) if wanted and not there else []
    if not there:
        return failing and bool(wanted)
    return bool(wanted) and max(wanted) > min(there)


def tells_free_check(sentence: str) -> bool:
    """Its figures are those of the check before anything is loaded: a share of the whole card, and less that was free.
    At the check behind the load far less than half of the card is left."""
    matches = [*list(_BARE.finditer(sentence))[:_MOST], *list(_SIZE.finditer(sentence))[:_MOST]]
    numbers = sorted({float(match["number"].replace(",", ".")) for match in matches})[:_MOST]
    shares = {number for number in numbers if number < 1} | SHARES
    sizes = [number for number in numbers if number > 2]
    pairs = ((want, whole) for whole in sizes for want in sizes
             if want < whole and any(abs(want / whole - share) <= _ROUNDED for share in shares))  # fmt: skip
    return any(whole / 2 <= free < want for want, whole in pairs for free in sizes)


def tells_cache_check(sentence: str) -> bool:
    """A cache of so many tokens, or of one request, wants more than is there."""
    if not _CACHE.search(sentence) or not _OF_REQUEST.search(sentence):
        return False
    sizes = list(_SIZE.finditer(sentence))[:_MOST]
    figures = _of_role(sentence, "there", "G")
    roles = {
        _role(sentence[max(0, one.start() - _NEAR) : one.start()], sentence[one.end() :][:_BEHIND]) for one in sizes
    }
    return "wanted" in roles and ("there" in roles or bool(figures))


_FREE: Final = late_pattern(r"(?i)\b(?:free|unoccupied|unclaimed|available|unused|frei\w{0,2}|unbelegt)\b|空闲|可用|剩")
_CACHE: Final = late_pattern(r"(?i)\b(?:kv|cache)|缓存|键值")
_OF_REQUEST: Final = late_pattern(
    r"(?i)\b(?:tokens?|requests?|sequences?|anfragen?|sequenz(?:en)?|context|kontext|length|länge)\b|请求|一条|长度|上下文"
)
SHARES: Final = frozenset({0.9, 0.92})  # gpu_memory_utilization by default, before and since 0.20
_ROUNDED: Final = 0.004  # of a share whose two figures have one decimal
_ROLES: Final = ((_WANTED, "wanted"), (_THERE, "there"))
_CLOSE: Final = 3  # characters between a size and the word that is surely its own
_NEXT: Final = 6


def _role(before: str, behind: str) -> str:
    """The word right before a size, else the one right behind it, else the last one before it."""
    clause = _BREAK.split(before)[-1]
    ahead = max(((match.end(), role) for words, role in _ROLES for match in words.finditer(clause)), default=None)
    after = min(((match.start(), role) for words, role in _ROLES if (match := words.search(behind))), default=None)
    if ahead and (len(clause) - ahead[0] <= _CLOSE or after is None or after[0] > _NEXT):
        return ahead[1]
    if after or clause == before:
        return after[1] if after else ""
    return _role(_BREAK.sub(" ", before), "")


def _of_role(sentence: str, role: str, unit: str = "G") -> list[float]:
    """Figures without a unit of their own, wanted or there."""
    sizes = []
    for match in list(_BARE.finditer(sentence))[:_MOST]:
        before, behind = sentence[max(0, match.start() - 24) : match.start()], sentence[match.end() :][:14]
        if _role(_BREAK.split(before)[-1], _BREAK.split(behind)[0]) == role:
            sizes.append(_bytes(match["number"], unit))
    return sizes


def _is_sign(sentence: str, start: int) -> bool:
    """A minus, not the dash of a range or of a list."""
    if sentence[start:].startswith("minus"):
        return True
    return not sentence[:start].rstrip().endswith(tuple("0123456789")) and bool(sentence[:start].strip())


def _bytes(number: str, unit: str) -> float:
    return float(number.replace(",", ".")) * _SCALE.get(unit[0].upper(), 1)
