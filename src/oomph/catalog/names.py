"""What people type against what checkpoints are called: 'gemma-4-31b nvfp4' finds nvidia/Gemma-4-31B-IT-NVFP4."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

_TOKEN = re.compile(r"\d+(?:b|t|m|e|k)?(?![a-z])|\d+|[a-z]+")

_PLUS = re.compile(r"(?<=\w)\+")

# Words of a name that say how it is quantised, not what it is.
QUANT = frozenset(
    ("awq", "gptq", "fp", "nvfp", "mxfp", "int", "w", "a", "g", "bit", "quantized", "dynamic", "static", "block",
     "pertensor", "tensor", "qat", "ct", "bnb", "gguf", "bf", "quant")
)  # fmt: skip
# Words that people leave out.
SOFT = frozenset(("instruct", "it", "chat", "hf", "nvidia", "meta"))

_TUNED = frozenset(("instruct", "it", "chat"))

# Whose checkpoint is meant when several organisations have one of the same name: its maker's, then these.
_COPIES = ("nvidia", "redhatai", "hugging-quants", "cyankiwi", "casperhansen", "thebloke")

_QUANT_PART = re.compile(
    r"[-_.](?:awq|gptq|fp8|nvfp4|mxfp4|bf16|int[48]|[48]bit|w\d+a\d+|g\d{2,3}|quantized|dynamic|static|block|pertensor|"
    r"qat|ct)(?=[-_.]|$)",
    re.IGNORECASE,
)


def tokens(text: str) -> list[str]:
    """'Qwen3.6-27B-AWQ' -> qwen 3 6 27b awq; 'Command R+' -> command r plus."""
    return _TOKEN.findall(_PLUS.sub(" plus ", text.lower()))


def family(model_id: str) -> str:
    """A name without its organisation and its quantisation: the same for all checkpoints of one model."""
    name = model_id.rpartition("/")[2]
    while (shorter := _QUANT_PART.sub("", name)) != name:
        name = shorter
    return name.lower().replace("_", ".").removeprefix("nvidia-").removeprefix("meta-")


def rank(query: str, model_id: str) -> tuple[int, int, int] | None:
    """How well a name answers a query; smaller is better; None = it does not."""
    org, _, name = model_id.rpartition("/")
    asked, words = Counter(tokens(query)), Counter(tokens(name))
    missing = asked - words
    if missing and (missing - Counter(tokens(org)) or not asked & words):
        return None
    extra = words - asked
    quant = sum(n for word, n in extra.items() if word in QUANT or (word.isdigit() and _follows_quant(word, name)))
    plain = sum(n for word, n in extra.items() if word not in QUANT and word not in SOFT)
    soft = sum(n for word, n in extra.items() if word in SOFT)
    return plain + 2 * quant, soft, _org_rank(org)


def _follows_quant(number: str, name: str) -> bool:
    return re.search(rf"(?:fp|int|w|a|g){number}(?!\d)", name.lower()) is not None


def _org_rank(org: str) -> int:
    low = org.lower()
    return _COPIES.index(low) + 1 if low in _COPIES else 0 if low else len(_COPIES) + 1


def best(query: str, ids: Iterable[str]) -> list[str]:
    """The ids that answer a query best, equally good ones together; first the instruction-tuned, the maker's own."""
    ranked = [(r, i) for i in ids if (r := rank(query, i)) is not None]
    if not ranked:
        return []
    top = min(r[:2] for r, _ in ranked)
    good = [(not _TUNED & set(tokens(i)), r[2], i) for r, i in ranked if r[:2] == top]
    return [i for *_, i in sorted(good)]


def core(family_name: str) -> str:
    """A family without the words that people leave out: a base model and its instruction-tuned one are the same."""
    return " ".join(t for t in tokens(family_name) if t not in SOFT)


def nearest(query: str, ids: Iterable[str], count: int = 3) -> tuple[str, ...]:
    """Names that look like a misspelt one, by the words they share and, twice, by their letters: one letter is wrong
    more often than a word is missing."""
    from difflib import SequenceMatcher

    low = query.lower().strip()
    asked = Counter(tokens(low))
    scored = []
    for i in ids:
        name = i.lower() if "/" in low else i.rpartition("/")[2].lower()
        shared = sum((asked & Counter(tokens(i))).values()) / max(sum(asked.values()), 1)
        letters = SequenceMatcher(None, low, name).ratio()
        if shared + letters >= 0.75:
            scored.append((-(shared + 2 * letters), i))
    return tuple(i for _, i in sorted(scored)[:count])
