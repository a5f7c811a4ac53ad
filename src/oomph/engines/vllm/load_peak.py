"""A load played through PyTorch's allocator, allocation by allocation: where it stands, its highest point, and where
it passes a given number of bytes."""

from __future__ import annotations

from msgspec import Struct

from oomph.engines.vllm.allocator import Allocator, Block, request_size
from oomph.engines.vllm.weights import Created, Placed
from oomph.facts.vllm.repack import rope_steps


class Point(Struct, frozen=True):
    """One allocation of the load. `layer`: decoder layer index, -1 outside."""

    where: str
    layer: int
    module: str
    nbytes: int
    total: int  # allocated bytes once it is made

    @property
    def tried(self) -> int:
        """The size in torch's "Tried to allocate"."""
        return request_size(self.nbytes)


class Place(Struct, frozen=True):
    where: str
    layer: int
    total: int  # allocated bytes once this place is built


class Load(Struct, frozen=True):
    loaded: int  # allocated when the load is over
    peak: Point
    places: tuple[Place, ...]
    passed: Point | None = None  # the first allocation beyond the limit that was asked about


def play(places: tuple[Placed, ...], max_split: int, *, expandable: bool = False, limit: int = 0) -> Load:
    player = _Player(Allocator(max_split, expandable=expandable), limit)
    done = []
    for place in places:
        player.where, player.layer = place.where, place.layer
        for tensor in place.tensors:
            player.build(tensor)
        done.append(Place(place.where, place.layer, player.memory.allocated))
    return Load(player.memory.allocated, player.peak, tuple(done), player.passed)


class _Player:
    def __init__(self, memory: Allocator, limit: int) -> None:
        self.memory = memory
        self.limit = limit
        self.where, self.layer = "", -1
        self.peak = Point("", -1, "", 0, 0)
        self.passed: Point | None = None

    def build(self, tensor: Created) -> None:
        if tensor.rope is None:
            for size in pieces(tensor):
                self.new(tensor.module, size)
            return
        held = {}
        for name, size in rope_steps(tensor.rope, tensor.rows, tensor.nbytes):
            if size:
                held[name] = self.new("rotary_emb", size)
            else:
                self.memory.free(held.pop(name))

    def new(self, module: str, size: int) -> Block:
        memory = self.memory
        before = memory.peak
        block = memory.alloc(size)
        if memory.peak > before:
            self.peak = Point(self.where, self.layer, module, size, memory.allocated)
        if self.limit and self.passed is None and memory.allocated > self.limit:
            self.passed = Point(self.where, self.layer, module, size, memory.allocated)
        return block


def pieces(tensor: Created) -> tuple[int, ...]:
    """The tensors behind one row of `created()`."""
    n = _TENSORS.get((tensor.module, tensor.name), 1)
    return (tensor.nbytes // n,) * n


_TENSORS = {("attn", "_scales"): 4, ("attn", "scales"): 4}
