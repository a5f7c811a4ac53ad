"""What could be run on some GPUs: checkpoints and GGUF quantisations of the catalogue, put aside by cheap bounds."""

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from oomph.catalog.facts import TAGS, CheckpointFacts, ModelFacts, facts
from oomph.errors import InputError
from oomph.ir import Device
from oomph.search.quality import Quality, quality_of
from oomph.units import GIB

PURPOSES = ("chat", "code", "reasoning", "vision", "embedding")
LETTER = {"chat": "c", "code": "c", "reasoning": "r", "vision": "v", "embedding": "e"}
# Chosen: the context of a purpose where nobody says one (a shorter model gets its own), and the least that is useful
# where no model runs with that.
USUAL_CONTEXT = {"chat": 32768, "code": 32768, "reasoning": 32768, "vision": 32768, "embedding": 512}
LEAST_CONTEXT = {"chat": 8192, "code": 8192, "reasoning": 8192, "vision": 8192, "embedding": 512}
# Licences with which a model may be used for anything; others have conditions.
OPEN = frozenset(
    ("apache-2.0", "mit", "bsd-3-clause", "cc-by-4.0", "cc0-1.0", "openmdw", "openmdw-1.0", "modified-mit")
)
BATCHED, PLACED = ("vllm", "sglang"), ("llamacpp", "ollama")


class Filters(Struct, frozen=True):
    """Which models are looked at."""

    words: tuple[str, ...] = ()  # all of them in the name
    licence: str = ""  # "open", or a licence as the hub names it
    since: str = ""  # a date or its beginning: 2025, 2026-03
    engines: tuple[str, ...] = ()  # () = all
    largest: float = 0.0  # billions of parameters at most; 0 = any
    smallest: float = 0.0


# Assumed: what a desktop with 32 GiB of memory has left for experts.
HOST_EXPERTS = 24 * GIB


class Candidate(Struct, frozen=True):
    """One checkpoint on one kind of engine, not planned yet."""

    model: ModelFacts
    checkpoint: str  # an id, or for GGUF the plain id
    tag: str  # of GGUF; "" = the checkpoint itself
    quality: Quality
    weights: int  # bytes that lie in GPU memory at least
    read: int  # bytes that a step of one user reads, about

    @property
    def engines(self) -> tuple[str, ...]:
        return PLACED if self.tag else BATCHED

    @property
    def precision(self) -> str:
        return self.tag or self.quality_label

    quality_label: str = ""

    @property
    def may_spill(self) -> bool:
        """Of a file whose tokens are multiplied with a small part of it, experts may be on the CPU."""
        return bool(self.tag) and 4 * self.model.active < self.model.parameters


def wanted(purpose: str, filters: Filters) -> list[tuple[int, ModelFacts]]:
    """The models for a purpose, with their place in the catalogue."""
    letter = LETTER[purpose]
    words = [word.lower() for word in filters.words]
    out = []
    for place, model in enumerate(facts().models):
        if letter not in model.uses or not _named(model, words):
            continue
        if purpose == "chat" and "k" in model.uses and not words:  # made for code
            continue
        if filters.licence and not _licensed(model.licence, filters.licence.lower()):
            continue
        if filters.since and (not model.date or model.date < filters.since):
            continue
        billions = model.parameters / 1e9
        if (filters.largest and billions > filters.largest) or billions < filters.smallest:
            continue
        out.append((place, model))
    return out


def _named(model: ModelFacts, words: Sequence[str]) -> bool:
    name = f"{model.plain.lower()} {model.name}"
    return all(word in name or word.replace(" ", "-") in name for word in words)


def _licensed(licence: str, wanted_licence: str) -> bool:
    return licence in OPEN if wanted_licence == "open" else wanted_licence in licence.lower()


def check_date(text: str) -> str:
    if text and not re.fullmatch(r"20\d\d(-[01]\d(-[0-3]\d)?)?", text):
        raise InputError(f"--since {text[:40]!r}: a year, a month or a day such as 2026-03")
    return text


def candidates(
    models: Sequence[tuple[int, ModelFacts]],
    gpus: tuple[Device, ...],
    context: int,
    users: int,
    engines: Sequence[str],
    room: int = 0,
) -> dict[int, list[Candidate]]:
    """By model, without those whose weights alone, or whose cache for so many users beside them, are more than all
    GPUs have. The bounds are below what any engine takes, so that nothing that fits is put aside."""
    room = room or sum(gpu.total_bytes - gpu.used_bytes for gpu in gpus)
    out: dict[int, list[Candidate]] = {}
    own = _checkpoints()
    for place, model in models:
        if model.context < context:
            continue
        cache = model.kv_bytes * context * users // 2  # an 8-bit cache is half of it
        possible = [
            one
            for one in (*_of_checkpoints(model, own.get(place, ()), engines), *_of_files(model, engines))
            if one.weights + (cache if not one.tag else 2 * cache) <= room + (HOST_EXPERTS if one.may_spill else 0)
        ]
        if possible:
            out[place] = possible
    return out


def _checkpoints() -> dict[int, list[CheckpointFacts]]:
    out: dict[int, list[CheckpointFacts]] = {}
    for one in facts().checkpoints:
        out.setdefault(one.model, []).append(one)
    return out


def _of_checkpoints(
    model: ModelFacts, checkpoints: Sequence[CheckpointFacts], engines: Sequence[str]
) -> Iterator[Candidate]:
    if not set(BATCHED) & set(engines):
        return
    for one in checkpoints:
        quality = quality_of(model, one.precision, one.native)
        read = round(one.weights * model.active / max(model.parameters, 1))
        yield Candidate(model, one.id, "", quality, one.weights, read, quality_label=one.precision)


def _of_files(model: ModelFacts, engines: Sequence[str]) -> Iterator[Candidate]:
    if not set(PLACED) & set(engines):
        return
    for tag, size in zip(TAGS, model.gguf_bytes):
        quality = quality_of(model, tag, False)
        yield Candidate(model, model.plain, tag, quality, size, round(size * model.active / max(model.parameters, 1)))
