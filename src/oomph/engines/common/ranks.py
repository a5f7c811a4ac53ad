"""Which GPU each worker process has, for the engines that divide a model between several."""

from collections.abc import Sequence

from msgspec import Struct

from oomph.ir import Device


class Rank(Struct, frozen=True):
    """One worker process and its GPU."""

    index: int
    tp_rank: int
    pp_rank: int
    device: Device


def ranks_on(gpus: Sequence[Device], tp: int, pp: int, replicas: int = 1) -> list[Rank]:
    """GPUs are given to ranks in order: tensor-parallel ranks of the first stage, then the next stage, then the next
    data-parallel replica. Replicas are alike but for their cards: the tightest one is planned."""
    world = tp * pp
    starts = range(0, min(len(gpus), world * replicas) - world + 1, world)
    groups = [gpus[at : at + world] for at in starts] or [gpus]
    cards = min(groups, key=lambda cards: min(card.total_bytes - card.used_bytes for card in cards))
    return [Rank(i, i % tp, i // tp, cards[min(i, len(cards) - 1)]) for i in range(world)]
