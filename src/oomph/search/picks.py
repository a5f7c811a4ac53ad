"""One line of models()'s answer, and which of two lines a person would take."""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from oomph.ir import Plan
from oomph.search.quality import Quality, comparable, decides
from oomph.simulate.speed import Speed

# Chosen: a variant of the same model whose quality is not told apart is taken for so much more speed.
FASTER_VARIANT = 1.25
TWICE = 2.0  # a difference inside the interval never decides against half the speed


class Other(Struct, frozen=True):
    """The same model by another engine, planned too."""

    engine: str
    checkpoint: str
    quantization: str
    context: int
    tokens_per_second: float  # of one user; 0 = not known
    command: str


class Pick(Struct, frozen=True):
    """One model that runs on these GPUs, with the variant that serves it best. `plan` calls it `fits`."""

    model: str  # its maker's checkpoint
    checkpoint: str  # what is served: a checkpoint, or REPOSITORY:QUANTISATION of a GGUF file
    quantization: str  # BF16, FP8, INT4, FP4, Q4_K_M, ...
    engine: str
    context: int  # tokens of one request that each user really gets
    users: int  # at once, each with that context
    capacity: int  # requests of that context that the cache holds at the least
    speed: Speed | None  # None: nobody knows how fast this card is
    quality: Quality
    room_bytes: int  # on the tightest GPU in its tightest stage, at the unfavourable end of every interval
    command: str
    plan: Plan
    parameters: int
    active: int  # of them, those that one token is multiplied with
    date: str  # "2026-04-21"; "" = not known
    licence: str
    traded: str = ""  # what was given up for what, in a sentence
    others: tuple[Other, ...] = ()
    on_cpu: str = ""  # what of it is not on the GPUs, in words


def _rate(pick: Pick) -> float:
    return pick.speed.all_users if pick.speed is not None else 0.0


def displaces(new: Pick, old: Pick, prefer: str) -> bool:
    """Whether a variant of lower quality of the same model is taken instead."""
    if prefer == "speed":
        return _rate(new) > _rate(old)
    if prefer == "context":
        return new.context > old.context
    if prefer == "users":
        return new.capacity > old.capacity
    return _rate(new) >= TWICE * _rate(old) and not decides(old.quality, new.quality, True)


def trade(new: Pick, old: Pick | None) -> str:
    if old is None:
        return ""
    gain = f"{_rate(new):.0f} instead of {_rate(old):.0f} tokens per second"
    return f"{new.quantization} instead of {old.quantization}: {gain}"


def _preferred(pick: Pick, prefer: str) -> float:
    """What a preference other than quality counts."""
    return {"speed": _rate(pick), "context": float(pick.context), "users": float(pick.capacity)}.get(prefer, 0.0)


def better(best_variants: Sequence[Pick], prefer: str) -> Pick:
    """Of the same model by different engines."""
    if len(best_variants) == 1:
        return best_variants[0]
    first, second = sorted(
        best_variants, key=lambda p: (p.quality.recovery[1] + p.quality.recovery[0], _rate(p)), reverse=True
    )
    if _preferred(second, prefer) > _preferred(first, prefer):
        return second
    if decides(first.quality, second.quality, True):
        return first
    if _rate(second) >= FASTER_VARIANT * _rate(first):
        return replace(second, traded=trade(second, first))
    serves_more = second.capacity >= TWICE * first.capacity and second.context >= first.context
    return second if serves_more and _rate(second) >= _rate(first) / FASTER_VARIANT else first


def beats(first: Pick, second: Pick) -> bool:
    """At least as good in everything, and better in something; an estimate beats no published figure of its grade."""
    if second.quality.published and not first.quality.published and first.quality.grade >= second.quality.grade:
        return False
    ours, theirs = _worth(first), _worth(second)
    return ours != theirs and all(x >= y for x, y in zip(ours, theirs, strict=True))


def _worth(pick: Pick) -> tuple[float, ...]:
    return pick.quality.rank, pick.speed.one_user if pick.speed else 0.0, pick.context, pick.capacity


def ranked(picks: Sequence[Pick], prefer: str) -> list[Pick]:
    """The best first. By quality (`Quality.order`): a model whose difference in the same published table is inside its
    interval goes ahead if it is twice as fast, unless a third one is better than it beyond doubt; an estimate never
    does."""
    if prefer in ("speed", "context", "users"):
        return sorted(picks, key=lambda p: (p.quality.grade, -_preferred(p, prefer), -p.quality.rank, p.model))
    rest = sorted(picks, key=lambda p: (*p.quality.order, -_rate(p), p.model))
    out: list[Pick] = []
    while rest:
        head = rest[0]
        passed: Pick | None = None
        while True:
            faster = [
                pick for pick in rest
                if comparable(pick.quality, head.quality) and _rate(pick) >= TWICE * _rate(head) > 0
                and not any(decides(other.quality, pick.quality, False) for other in rest)
            ]  # fmt: skip
            if not faster:
                break
            passed, head = head, faster[0]
        better = [pick for pick in rest if beats(pick, head)]
        if better:
            passed, head = None, better[0]
        if passed is not None and not head.traded:
            gain = f"{_rate(head) / _rate(passed):.1f} times as fast as {passed.model.rpartition('/')[2]}"
            head_out = replace(head, traded=f"{gain}, whose quality is not told apart from it")
        else:
            head_out = head
        rest.remove(head)
        out.append(head_out)
    return out
