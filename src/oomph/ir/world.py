"""As many GPUs as ranks: the worker processes that a command starts against the GPUs that are named."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from math import prod

from msgspec import Struct

from oomph.ir.hardware import Device


class World(Struct, frozen=True):
    """The worker processes that a command starts: every one of them needs a GPU of its own."""

    here: int  # on the node that the command is typed on; 0 = wherever there is room, as Ray does
    total: int  # on all nodes
    nodes: int = 1  # of how many nodes the command itself speaks (--nnodes)
    elsewhere: bool = False  # other commands start the rest on other nodes, which may not be named
    reach: int = 0  # GPUs of its node up to the last that a rank is put on, where the command leaves some out; 0 = none


class Shortage(Struct, frozen=True):
    """More ranks than GPUs."""

    ranks: int
    gpus: int
    reach: int = 0

    @property
    def words(self) -> str:
        there = "is 1 GPU" if self.gpus == 1 else f"are {self.gpus} GPUs"
        if self.reach:
            return f"the command puts a rank on GPU {self.reach - 1} and there {there}"
        return f"the command starts {self.ranks} ranks and there {there}"

    @property
    def left_out(self) -> int:
        """GPUs before the last rank's that the command gives to nobody."""
        return max(0, self.reach - self.ranks)


def shortage(world: World, gpus: Sequence[Device]) -> Shortage | None:
    """Ranks on other nodes count against the GPUs of all nodes that are named."""
    gpus = visible(gpus)
    here, nodes = sum(device.node == 0 for device in gpus), len({device.node for device in gpus})
    if world.reach > here >= world.here:
        return Shortage(world.here, here, world.reach)
    if world.here > here:
        return Shortage(world.here, here)
    named = len(gpus) if nodes > 1 else here * world.nodes
    if world.total <= named or (nodes == 1 and world.elsewhere):
        return None
    return Shortage(world.total, named)


def visible(gpus: Sequence[Device]) -> Sequence[Device]:
    """Of slices of cards a process sees the first of its node."""
    if not any(device.is_slice for device in gpus):
        return gpus
    first = {device.node: number for number, device in reversed(list(enumerate(gpus))) if device.is_slice}
    return [device for number, device in enumerate(gpus) if not device.is_slice or first[device.node] == number]


def fewer_ranks(sizes: Mapping[str, int], gpus: int) -> Iterator[tuple[str, int]]:
    """(field, degree) for each kind of parallelism that alone brings the ranks down to the GPUs: the largest degree
    that divides the one in force. `sizes` are in the order in which they are given up."""
    total = prod(sizes.values())
    for field, size in sizes.items():
        largest = min(size - 1, gpus * size // total)
        smaller = (degree for degree in range(largest, 0, -1) if size % degree == 0)
        yield from ((field, degree) for degree in islice(smaller, 1))
