"""How llama_decode cuts a batch into micro-batches (src/llama-batch.cpp, split_simple and split_equal)."""

from collections.abc import Sequence

from oomph.engines.llamacpp.scheduler.slots import Slots


def micro_batches(slots: Slots, pieces: Sequence[tuple[int, int]]) -> list[int]:
    """Tokens of each, from (slot, tokens) in the order of the batch. With a cache for each slot ("sequential") all
    slots of a micro-batch have as many tokens and follow each other: slots 1 and 3 are computed one after the other."""
    size = slots.micro_batch
    if slots.split == "simple":
        total = sum(count for _, count in pieces)
        return [size] * (total // size) + ([total % size] if total % size else [])
    sizes = []
    left = list(pieces)
    while left:
        starts = [0]
        for index in range(1, len(left)):
            follows = slots.split == "equal" or left[index][0] == left[starts[-1]][0] + 1
            if follows and len(starts) < size:
                starts.append(index)
        each = max(1, min(min(left[index][1] for index in starts), size // len(starts)))
        sizes.append(each * len(starts))
        members = set(starts)
        left = [
            (slot, count - each if index in members else count)
            for index, (slot, count) in enumerate(left)
            if index not in members or count > each
        ]
    return sizes
