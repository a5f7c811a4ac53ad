"""What people type against what checkpoints are called: 'gemma-4-31b nvfp4' finds nvidia/Gemma-4-31B-IT-NVFP4."""

import re
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache

from oomph.text.late import late_pattern

_TOKEN = late_pattern(r"\d+(?:b|t|m|e|k)?(?![a-z])|\d+|[a-z]+")

_PLUS = late_pattern(r"(?<=\w)\+")

# Words of a name that say how it is quantised, not what it is.
QUANT = frozenset(
    ("awq", "gptq", "fp", "nvfp", "mxfp", "int", "w", "a", "g", "bit", "quantized", "dynamic", "static", "block",
     "pertensor", "tensor", "qat", "ct", "bnb", "gguf", "bf", "quant")
)  # fmt: skip
# Words that people leave out.
SOFT = frozenset(("instruct", "it", "chat", "hf", "nvidia", "meta"))

_TUNED = frozenset(("instruct", "it", "chat"))

# Whose checkpoint is meant when several organisations have one of the same name: its maker's, then these.
_COPIES = (
    "nvidia", "redhatai", "hugging-quants", "cyankiwi", "casperhansen", "thebloke", "unsloth", "nousresearch", "dphn"
)  # fmt: skip

_LEAST_LETTERS = 3  # of the words that say what it is: nobody means a model by "x", "7b" or "m2"
_NEAR = 0.75  # how much of a misspelt name must agree: words and letters together

_QUANT_PART = late_pattern(
    r"[-_.](?:awq|gptq|fp8|nvfp4|mxfp4|bf16|int[48]|[48]bit|w\d+a\d+|g\d{2,3}|quantized|dynamic|static|block|pertensor|"
    r"qat|ct)(?=[-_.]|$)",
    re.IGNORECASE,
)


@lru_cache(maxsize=4096)
def tokens(text: str) -> tuple[str, ...]:
    """'Qwen3.6-27B-AWQ' -> qwen 3 6 27b awq; 'Command R+' -> command r plus."""
    return tuple(_TOKEN.findall(_PLUS.sub(" plus ", text.lower())))


def family(model_id: str) -> str:
    """A name without its organisation and its quantisation: the same for all checkpoints of one model."""
    name = model_id.rpartition("/")[2]
    while (shorter := _QUANT_PART.sub("", name)) != name:
        name = shorter
    return name.lower().replace("_", ".").removeprefix("nvidia-").removeprefix("meta-")


def rank(query: str, model_id: str) -> tuple[int, int, int] | None:
    """How well a name answers a query; smaller is better; None = it does not."""
    org, _, name = model_id.rpartition("/")
    if not set(tokens(query)) <= {*tokens(name), *tokens(org)}:
        return None
    wanted, words = Counter(tokens(query)), Counter(tokens(name))
    missing = wanted - words
    if missing and (missing - Counter(tokens(org)) or not wanted & words):
        return None
    extra = words - wanted
    quant = sum(n for word, n in extra.items() if word in QUANT or (word.isdigit() and _follows_quant(word, name)))
    plain = sum(n for word, n in extra.items() if word not in QUANT and word not in SOFT)
    plain += tokens(name)[:1] != tokens(query)[:1]  # "dolphin mixtral" is made from a mixtral
    soft = sum(n for word, n in extra.items() if word in SOFT)
    return plain + 2 * quant, soft, _org_rank(org)


def _follows_quant(number: str, name: str) -> bool:
    return re.search(rf"(?:fp|int|w|a|g){number}(?!\d)", name.lower()) is not None


def _org_rank(org: str) -> int:
    low = org.lower()
    return _COPIES.index(low) + 1 if low in _COPIES else 0 if low else len(_COPIES) + 1


def best(query: str, ids: Iterable[str]) -> list[str]:
    """The ids that answer a query best, equally good ones together: what is called exactly so, then the maker's own
    before anybody's fine-tune of it, then the instruction-tuned one, which people mean without saying it."""
    if sum(len(word) for word in tokens(query) if word.isalpha() and word not in QUANT) < _LEAST_LETTERS:
        return []
    known = tuple(ids)
    ranked = [(r, i) for i in known if (r := rank(query, i)) is not None]
    if not ranked:
        return []
    least = min(r[0] for r, _ in ranked)
    makers = _makers(known)
    return sorted(
        (i for r, i in ranked if r[0] == least),
        key=lambda i: (i.rpartition("/")[2] != query, i.partition("/")[0] != makers[_kin(i)], *_order(i)),
    )


def _kin(model_id: str) -> str:
    """The first word of a name: qwen, llama, gemma."""
    return next(iter(tokens(model_id.rpartition("/")[2])), "")


@lru_cache(maxsize=4)
def _makers(ids: tuple[str, ...]) -> dict[str, str]:
    """Who makes the models that begin with a word: who has most of them, those aside who quantise others' models."""
    counts: dict[str, Counter[str]] = {}
    for one in ids:
        owner = one.rpartition("/")[0]
        counts.setdefault(_kin(one), Counter())[owner] += 0 if owner.lower() in _COPIES else 1
    return {kin: max(owners, key=lambda owner: (owners[owner], owner)) for kin, owners in counts.items()}


def _order(model_id: str) -> tuple[bool, int, int, str]:
    """Of names that answer equally well: the instruction-tuned one, the maker's own."""
    return not _TUNED & set(tokens(model_id)), _org_rank(model_id.rpartition("/")[0]), len(model_id), model_id


def answers(query: str, ids: Iterable[str]) -> list[str]:
    """All ids that answer a query, the best first."""
    ranked = [(r[0], *_order(i)) for i in ids if (r := rank(query, i)) is not None]
    return [str(order[-1]) for order in sorted(ranked)]


def core(family_name: str) -> str:
    """A family without the words that people leave out: a base model and its instruction-tuned one are the same."""
    return " ".join(t for t in tokens(family_name) if t not in SOFT)


def nearest(query: str, ids: Iterable[str], count: int = 5) -> tuple[str, ...]:
    """Names that look like a misspelt one, by the words they share and, twice, by their letters: one letter is wrong
    more often than a word is missing. Words that people leave out do not count."""
    from difflib import SequenceMatcher

    low = query.lower().strip()
    words = Counter(tokens(low))
    plain = "/" not in low
    matcher = SequenceMatcher(None, b=" ".join(tokens(low)) if plain else low)
    scored = []
    for i in ids:
        name = i.rpartition("/")[2].lower() if plain else i.lower()
        own = tokens(i)
        shared = sum((words & Counter(own)).values()) / max(sum(words.values()), 1)
        text = " ".join(t for t in tokens(name) if t not in SOFT or t in words) if plain else name
        matcher.set_seq1(text)
        if shared + matcher.real_quick_ratio() < _NEAR or shared + matcher.quick_ratio() < _NEAR:
            continue
        letters = matcher.ratio()
        if shared + letters >= _NEAR:
            scored.append((-round(shared + 2 * letters, 3), *_order(i)))
    return tuple(str(order[-1]) for order in sorted(scored)[:count])
