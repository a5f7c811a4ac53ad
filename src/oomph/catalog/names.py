"""What people type against what checkpoints are called: 'gemma-4-31b nvfp4' finds nvidia/Gemma-4-31B-IT-NVFP4.

A name is cut into words, versions, sizes and quantisations (`tokens`). All that was typed must be in the name as the
same token: '3' is not in '3.3', and '4' is not in 'nvfp4', so that a version or size that nobody has is never
answered with another one. `best(query, ids)` are the ids that answer, equally good ones together; `catalog.find` asks
back where they are different models.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Literal

from oomph.text.late import late_pattern

Kind = Literal["word", "soft", "version", "size", "quant"]

_TOKEN = late_pattern(
    r"(?P<quant>(?<![a-z0-9])(?:i?q[1-8](?:_[a-z0-9]+){0,3}|nvfp4|mxfp[48]|fp(?:4|8|16|32)|bf16|f16|int[248]|w\da\d{1,2}|[2-8]bits?|"
    r"g\d{2,3}|awq|gptq|gguf|mlx|bnb|qat|ct|quantized|quant|dynamic|static|block|pertensor|exl[23])(?![a-z0-9]))"
    r"|(?P<size>(?<![a-z0-9.])(?:\d+x\d+(?:\.\d+)?[bm]|[ae]\d+(?:\.\d+)?[bm]|\d+(?:\.\d+)?[bmtke])(?![a-z0-9]))"
    r"|(?P<version>(?<![a-z0-9])[a-z]\d+(?:\.\d+)*[a-z]?(?![a-z0-9])|\d+(?:\.\d+)*[a-z]?(?![a-z0-9])|\d+(?:\.\d+)*)"
    r"|(?P<word>[^\W\d_]+)"
)
_DOTTED = late_pattern(r"(?<=\d)(?<!q\d)_(?=\d)")  # Llama-3_3, phi-1_5, and not q8_0
_GLUED_SIZE = late_pattern(r"(?<=[a-z])(?=\d+(?:\.\d+)?b(?![a-z0-9]))")
_PLUS = late_pattern(r"(?<=\w)\+")
_BILLIONS = late_pattern(r"(?<=\d)\s*(?:milliarden|billions?|миллиард\w*|млрд|б)(?!\w)")
_CROSSED = late_pattern(r"(?<![\w.])(\d+x\d+)(?![\w.])")  # mixtral 8x22
_BITS = late_pattern(r"\b([2-8])[\s-]?bits?\b")
_FILE = late_pattern(r"(?:[-_.]\d{5}-of-\d{5})?\.gguf$", re.IGNORECASE)

# Words that people leave out.
SOFT = frozenset(("instruct", "it", "chat", "hf", "nvidia", "meta"))
_TAGS = frozenset(("latest", "cloud"))  # of Ollama: they say nothing of the model
_TUNED = frozenset(("instruct", "it", "chat"))
# Words that say which kind of model, and of no model which one: alone they are no name.
_GENERIC = frozenset(
    ("air", "audio", "base", "code", "coder", "de", "dev", "distill", "embed", "embedding", "embeddings", "en", "exp",
     "flash", "guard", "hybrid", "japanese", "large", "lite", "llm", "lm", "math", "medium", "micro", "mini", "model",
     "multilingual", "nano", "next", "ocr", "omni", "plus", "preview", "pro", "prover", "reasoning", "reranker",
     "reward", "safety", "small", "super", "text", "think", "thinking", "tiny", "tts", "ultra", "vision", "vl", "zero",
     "zh")
)  # fmt: skip
# What a quantisation may be called in the name: AWQ and GPTQ are 4 bits wide unless the name says otherwise.
_SAME_QUANT: dict[str, frozenset[str]] = {
    **dict.fromkeys(("int4", "4bit", "w4a16"), frozenset(("int4", "4bit", "w4a16", "awq", "gptq"))),
    **dict.fromkeys(("int8", "8bit"), frozenset(("int8", "8bit", "w8a8", "w8a16"))),
    **dict.fromkeys(("fp16", "bf16", "f16"), frozenset(("fp16", "bf16", "f16"))),
}
# What says how a file is stored, beside the checkpoint that it was made from.
_OF_FILES = late_pattern(r"i?q[1-8].*|gguf|mlx")

# Whose checkpoint is meant when several organisations have one of the same name: its maker's, then these.
_COPIES = (
    "nvidia", "redhatai", "hugging-quants", "cyankiwi", "casperhansen", "thebloke", "unsloth", "nousresearch", "dphn"
)  # fmt: skip

_MIRRORS = frozenset(("unsloth", "nousresearch", "alpindale", "redhatai"))  # who keep unchanged copies

# Families as they are written in Chinese, Japanese, Korean and Russian.
_SPOKEN = {
    "通义千问": "qwen", "千问": "qwen", "큐웬": "qwen", "квен": "qwen", "深度求索": "deepseek", "딥시크": "deepseek",
    "дипсик": "deepseek", "智谱": "glm", "混元": "hunyuan", "文心": "ernie", "书生": "intern", "百川": "baichuan",
    "月之暗面": "kimi", "零一万物": "yi", "面壁": "minicpm", "阶跃星辰": "step",
    "对话": " chat ", "指令": " instruct ", "인스트럭트": " instruct ", "インストラクト": " instruct ",
    "инструкт": " instruct ", "蒸馏版": " distill ", "蒸馏": " distill ", "증류": " distill ",
    "ラマ": "llama", "라마": "llama", "ллама": "llama", "лама": "llama", "ジェマ": "gemma", "젬마": "gemma",
    "джемма": "gemma", "гемма": "gemma", "ミストラル": "mistral", "미스트랄": "mistral", "мистраль": "mistral",
}  # fmt: skip
_SPOKEN_WORD = late_pattern(lambda: "|".join(sorted(_SPOKEN, key=len, reverse=True)))

_LEAST_LETTERS = 2  # of a word that says what it is: nobody means a model by "x"
_TELLING = 4  # letters of a word that names another model; 'pt', 'dpo' and 'h' are kinds of one
_NEAR = 0.75  # how much of a misspelt name must agree: words and letters together
_ALIKE = 0.6  # how much of its letters where no word that says what it is does

_QUANT_PART = late_pattern(
    r"[-_.](?:awq|gptq|fp8|nvfp4|mxfp4|bf16|int[48]|[48]bit|w\d+a\d+|g\d{2,3}|quantized|dynamic|static|block|pertensor|"
    r"qat|ct|(?:unsloth-)?bnb)(?=[-_.]|$)",
    re.IGNORECASE,
)


@lru_cache(maxsize=8192)
def _typed_tokens(text: str) -> tuple[tuple[str, Kind], ...]:
    low = text.lower().replace("c4ai-", "")  # Cohere's mark
    if not low.isascii():
        low = _SPOKEN_WORD.sub(lambda match: "" if _SPOKEN[match[0]] in low else _SPOKEN[match[0]], low)
    low = _CROSSED.sub(r"\1b", _BILLIONS.sub("b", _DOTTED.sub(".", _BITS.sub(r"\1bit", _PLUS.sub(" plus ", low)))))
    pairs: list[tuple[str, Kind]] = []
    for match in _TOKEN.finditer(_GLUED_SIZE.sub(" ", low)):
        token, name = match[0], match.lastgroup
        if name == "version" and token.endswith(".0"):
            token = token[:-2]  # granite 4.0 is granite 4
        kind: Kind = "soft" if token in SOFT else name  # type: ignore[assignment]  # the pattern's own groups
        pairs.append((token, kind))
    return tuple(pairs)


def tokens(text: str) -> tuple[str, ...]:
    """'Qwen3.6-27B-AWQ' -> qwen 3.6 27b awq; 'Command R+' -> command r plus."""
    return tuple(token for token, _ in _typed_tokens(text))


def of_file(name: str) -> str:
    """What the model of a file is called: 'Qwen3-8B-UD-Q4_K_XL-00001-of-00002.gguf' is 'Qwen3-8B'."""
    stem = _FILE.sub("", name).lower()
    typed = _typed_tokens(stem)
    marks = {"ud"} | {token for token, kind in typed if kind == "quant" and _OF_FILES.fullmatch(token)}
    return " ".join(token for token, _ in typed if token not in marks)


def without_size(query: str) -> tuple[str, int]:
    """(the words but the one size among them, the parameters that it says): 'phi-4 14b' is ('phi 4', 14e9)."""
    sizes = [token for token, kind in _typed_tokens(query) if kind == "size"]
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([mbt])", sizes[0]) if len(sizes) == 1 else None
    if not match:
        return query, 0
    scale = {"m": 10**6, "b": 10**9, "t": 10**12}[match[2]]
    return " ".join(token for token in tokens(query) if token != sizes[0]), int(float(match[1]) * scale)


def says_size(model_id: str) -> bool:
    """Whether its name says how many parameters it has: not where experts are counted in it (17B-16E)."""
    sizes = [token for token, kind in _typed_tokens(model_id.rpartition("/")[2]) if kind == "size"]
    return any(size[0].isdigit() and "x" not in size for size in sizes) and not any(size[-1] == "e" for size in sizes)


@lru_cache(maxsize=8192)
def family(model_id: str) -> str:
    """A name without its organisation and its quantisation: the same for all checkpoints of one model."""
    name = model_id.rpartition("/")[2]
    while (shorter := _QUANT_PART.sub("", name)) != name:
        name = shorter
    return name.lower().replace("_", ".").removeprefix("nvidia-").removeprefix("meta-")


def unquantised(query: str) -> tuple[str, frozenset[str]]:
    """(the words but the quantisations, the quantisations): 'gpt-oss 120b mxfp4' is ('gpt oss 120b', {mxfp4})."""
    typed = _typed_tokens(query)
    quants = frozenset(token for token, kind in typed if kind == "quant")
    return " ".join(token for token, kind in typed if kind != "quant"), quants


def distinct(text: str) -> frozenset[str]:
    """The words that say which model: none in 'fp8', '7b' or 'air'."""
    typed = _typed_tokens(text)
    return frozenset(t for t, kind in typed if kind == "word" and t not in _GENERIC and len(t) >= _LEAST_LETTERS)


@lru_cache(maxsize=64)
def _wanted(query: str) -> tuple[Counter[str], Counter[str]]:
    """(what the name must have, quantisations): the marks of GGUF files aside."""
    plain: Counter[str] = Counter()
    quants: Counter[str] = Counter()
    for token, kind in _typed_tokens(query):
        if kind != "quant":
            plain[token] += token not in _TAGS
        elif not _OF_FILES.fullmatch(token):
            quants[token] += 1
    return plain, quants


def rank(query: str, model_id: str) -> tuple[int, int, int] | None:
    """How well a name answers a query; smaller is better; None = it does not.

    (quantisations and words that nobody typed, whether it is another model's, words that people leave out); versions
    and sizes that nobody typed do not count: names that differ in them are asked about.
    """
    org, _, name = model_id.rpartition("/")
    plain, quants = _wanted(query)
    typed = _typed_tokens(name)
    if plain and not any(token in plain for token, _ in typed):  # most names
        return None
    words = Counter(token for token, _ in typed)
    missing = plain - words
    if _TUNED & words.keys():  # one word is as good as another: gemma-3-12b-it is 'gemma 3 12b instruct'
        missing = Counter({word: count for word, count in missing.items() if word not in _TUNED})
    if missing and (not all(_is_owner(word, org) for word in missing) or not plain & words):
        return None
    kinds = dict(typed)
    formats = {token for token, kind in typed if kind == "quant"} - _SAME_QUANT["bf16"]
    if any(not _is_called(quant, words) and (formats or quant not in _SAME_QUANT["bf16"]) for quant in quants):
        return None
    extra = words - plain - Counter({quant: words[quant] for q in quants for quant in _SAME_QUANT.get(q, (q,))})
    other = sum(n for token, n in extra.items() if kinds[token] == "word")
    quant = sum(n for token, n in extra.items() if token in formats)
    first = next((token for token, kind in typed if kind != "soft"), "")
    return other + 2 * quant, int(first not in plain), sum(n for token, n in extra.items() if kinds[token] == "soft")


def _sharing(query: str, ids: tuple[str, ...]) -> Sequence[str]:
    """Those that have a word of the query: no other is ranked."""
    words = _wanted(query)[0]
    if not words:
        return ids
    positions = _positions(ids)
    return [ids[index] for index in sorted({index for word in words for index in positions.get(word, ())})]


@lru_cache(maxsize=4)
def _positions(ids: tuple[str, ...]) -> dict[str, list[int]]:
    """Where the names stand that have a word."""
    positions: dict[str, list[int]] = {}
    for index, one in enumerate(ids):
        for word in set(tokens(one.rpartition("/")[2])):
            positions.setdefault(word, []).append(index)
    return positions


def _is_called(quant: str, words: Counter[str]) -> bool:
    return bool(_SAME_QUANT.get(quant, frozenset((quant,))) & words.keys())


def _is_owner(word: str, org: str) -> bool:
    """Whether a word is an organisation, or how it begins: 'moonshot' is moonshotai, 'xiaomi' XiaomiMiMo."""
    owners = tokens(org)
    return word in owners or (len(word) >= _TELLING and any(one.startswith(word) for one in owners))


def is_plain(model_id: str) -> bool:
    """Whether its name says no quantisation."""
    return not any(kind == "quant" for _, kind in _typed_tokens(model_id.rpartition("/")[2]))


def is_copy(model_id: str) -> bool:
    """Whether its owner keeps others' checkpoints unchanged, beside own ones."""
    return model_id.partition("/")[0].lower() in _MIRRORS


def of_makers_first(model_id: str) -> tuple[int, str]:
    """An order of checkpoints of one name: its maker's own, then copies."""
    return _org_rank(model_id.rpartition("/")[0]), model_id


def _org_rank(org: str) -> int:
    low = org.lower()
    if low in _COPIES:
        return _COPIES.index(low) + 1
    return len(_COPIES) + 1 if not low or low in _MIRRORS else 0


def best(query: str, ids: Iterable[str]) -> list[str]:
    """The ids that answer a query best, equally good ones together: what is called exactly so, then the maker's own
    before anybody's fine-tune of it, then the instruction-tuned one, which people mean without saying it."""
    identifiers = tuple(ids)
    if not distinct(query):  # 'multilingual e5 large' has generic words alone, and is a name all the same
        identifiers = tuple(i for i in identifiers if tokens(i.rpartition("/")[2]) == tokens(query))
    ranked = [(r, i) for i in _sharing(query, identifiers) if (r := rank(query, i)) is not None]
    if not ranked:
        return _squashed(query, identifiers)
    least = min(r[:2] for r, _ in ranked)
    equal = [i for r, i in ranked if r[:2] == least]
    makers = _makers(identifiers)
    return sorted(
        _plainest(query, equal),
        key=lambda i: (is_copy(i) or i.rpartition("/")[2] != query, i.partition("/")[0] != makers[_kin(i)], *_order(i)),
    )


def untuned(query: str, ids: Iterable[str]) -> list[str]:
    """'qwen2.5-coder:1.5b-base': what answers without the word, of models whose name says nothing of tuning."""
    words = tokens(query)
    rest = " ".join(word for word in words if word != "base")
    if "base" not in words or not distinct(rest):
        return []
    return best(rest, (i for i in ids if not {"base", "thinking", *_TUNED} & set(tokens(i))))


def _plainest(query: str, ids: list[str]) -> list[str]:
    """Without those that have all of another's words and more: 'deepseek v3' is no question about V3-0324."""
    typed = frozenset(tokens(query))
    more = {core_of: frozenset(core_of.split()) - typed for core_of in {core(family(i)) for i in ids}}
    plain = {one for one, words in more.items() if not any(other < words for other in more.values())}
    return [i for i in ids if core(family(i)) in plain]


def _squashed(query: str, ids: tuple[str, ...]) -> list[str]:
    """'gptoss120b': the letters and digits of one name, in its order."""
    letters = "".join(letter for letter in query.lower() if letter.isalnum())
    same = [i for i in ids if letters in (_letters(family(i)), _letters(i.rpartition("/")[2].lower()))]
    same = same or [i for i in ids if letters == _letters(_without_sizes(family(i)))]
    makers = _makers(ids)
    return sorted(same, key=lambda i: (i.partition("/")[0] != makers[_kin(i)], *_order(i)))


def is_spelt(query: str, ids: tuple[str, ...]) -> bool:
    """Whether some model has these letters and digits in this order: gptoss 120b."""
    return "".join(letter for letter in query.lower() if letter.isalnum()) in _all_letters(ids)


@lru_cache(maxsize=4)
def _all_letters(ids: tuple[str, ...]) -> frozenset[str]:
    return frozenset(_letters(family(i)) for i in ids)


@lru_cache(maxsize=8192)
def _without_sizes(name: str) -> str:
    return " ".join(token for token, kind in _typed_tokens(name) if kind != "size")


@lru_cache(maxsize=8192)
def _letters(name: str) -> str:
    return "".join(re.findall(r"[a-z0-9]+", " ".join(word for word in re.split(r"[-_ ]", name) if word not in SOFT)))


def _kin(model_id: str) -> str:
    """The first word of a name: qwen, llama, gemma."""
    return next((t for t in tokens(model_id.rpartition("/")[2]) if t not in SOFT), "")


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
    ranked = [(r[:2], *_order(i)) for i in ids if (r := rank(query, i)) is not None]
    return [str(order[-1]) for order in sorted(ranked)]


def is_anothers(query: str, model_id: str) -> bool:
    """Whether the name begins with a word that nobody typed: 'llama 3.1 8b' in Hermes-3-Llama-3.1-8B. Or it has two
    that say which model: 'mistral 8b' in Mistral-NeMo-Minitron-8B. Or it is the unquantised twin of what was named."""
    answer = rank(query, model_id)
    more = distinct(model_id.rpartition("/")[2]) - distinct(query)
    is_other = sum(len(word) >= _TELLING for word in more) >= 2 or "unquantized" in more
    return answer is not None and (bool(answer[1]) or is_other)


def core(family_name: str) -> str:
    """A family without the words that people leave out: a base model and its instruction-tuned one are the same."""
    return " ".join(token for token, kind in _typed_tokens(family_name) if kind not in ("soft", "quant"))


def nearest(query: str, ids: Iterable[str], count: int = 5) -> tuple[str, ...]:
    """Names that look like a misspelt one, by the words they share and, twice, by their letters: one letter is wrong
    more often than a word is missing. Words that people leave out do not count."""
    from difflib import SequenceMatcher

    low = query.lower().strip()
    words = Counter(tokens(low))
    plain = "/" not in low
    matcher = SequenceMatcher(None, b=" ".join(tokens(low)) if plain else low)
    scored = []
    identifiers = tuple(ids)
    own_words, makers = distinct(low), _makers(identifiers)
    for i in identifiers:
        name = i.rpartition("/")[2].lower() if plain else i.lower()
        own = tokens(i)
        shared = sum((words & Counter(own)).values()) / max(sum(words.values()), 1)
        text = " ".join(t for t in tokens(name) if t not in SOFT or t in words) if plain else name
        matcher.set_seq1(text)
        if shared + matcher.real_quick_ratio() < _NEAR or shared + matcher.quick_ratio() < _NEAR:
            continue
        letters = matcher.ratio()
        if shared + letters >= _NEAR and (letters >= _ALIKE or own_words & distinct(i)):
            scored.append((-round(shared + 2 * letters, 3), i.partition("/")[0] != makers[_kin(i)], *_order(i)))
    return tuple(str(order[-1]) for order in sorted(scored)[:count])
