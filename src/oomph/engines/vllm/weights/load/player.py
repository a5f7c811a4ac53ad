"""A load while it is played: the allocator, and every place that is built, or built and sent to the host."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from operator import attrgetter

from msgspec import Struct
from msgspec.structs import astuple

from oomph.engines.common.allocator import NO_LIMIT, ROUND, Allocator, Block, FreeBlocks, request_size
from oomph.engines.common.created import Placed
from oomph.engines.vllm.weights.load.forms import Built, Form, Module
from oomph.engines.vllm.weights.load.program import Rise
from oomph.engines.vllm.weights.load.steps import Setting, is_fp8
from oomph.facts.vllm.experts_case import Step

# The heights of a load, in order: each allocation that took it higher than it had been.
#
# There are thousands of them, and most loads are asked for the last one alone. Those of a stretch in which nothing is
# freed are kept as that stretch's list, which all places of a kind share, and where it began.

Record = tuple[str, int, str, int, int, str]  # the fields of a Point
Stretch = tuple[str, int, Sequence[Rise], int, int, str]  # where, layer, its rises, bytes before it, and at its end
Entry = Record | Stretch


class Point(Struct, frozen=True):
    """One allocation of the load. `layer`: decoder layer index, -1 outside."""

    where: str
    layer: int
    module: str
    nbytes: int
    total: int  # allocated bytes once it is made
    doing: str = "building"  # building, loading, repacking, LoRA slots, draft model

    @property
    def tried(self) -> int:
        """The size in torch's "Tried to allocate"."""
        return request_size(self.nbytes)


def points(entry: Entry) -> list[Point]:
    where, layer, module, start, total, doing = entry
    if isinstance(module, str):
        return [Point(where, layer, module, start, total, doing)]
    return [Point(where, layer, name, size, start + above, doing) for name, size, above in module]


def first_beyond(entries: Sequence[Entry], limit: int) -> Point | None:
    """The first allocation that takes the load beyond `limit` bytes."""
    at = bisect_right(entries, limit, key=lambda entry: entry[4])
    return _point(entries[at], limit) if at < len(entries) else None


def _point(entry: Entry, limit: int) -> Point:
    """Of an entry that ends beyond `limit`, the first allocation that does."""
    where, layer, module, start, total, doing = entry
    if isinstance(module, str):
        return Point(where, layer, module, start, total, doing)
    at = bisect_right(module, limit - start, key=lambda rise: rise[2])
    name, size, above = module[at]
    return Point(where, layer, name, size, start + above, doing)


SIZE = attrgetter("size")


class Place(Struct, frozen=True):
    where: str
    layer: int
    total: int  # allocated bytes once this place is built


class _Offloaded(Struct, frozen=True):
    """What building a layer and sending all of it to the host did."""

    delta: int
    peaks: tuple[Rise, ...]  # new heights
    free: FreeBlocks  # before it, and after it
    gone: int
    blocks: list[Block]
    left: tuple[tuple[str, ...], ...]


class Player:
    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.memory = Allocator(setting.max_split or NO_LIMIT, expandable=setting.expandable)
        self.doing, self.where, self.layer = "building", "", -1
        self.records: list[Entry] = []
        self.places: list[Built] = []
        self.is_changed = False  # some module was repacked
        self.workspace = setting.mla_workspace
        self.built = 0
        self.gone = 0
        self.pool: dict[tuple[str, int], int] = {}
        self.index = -1  # of the decoder layer within the stage
        self._offloaded: dict[Form, _Offloaded] = {}

    @property
    def held(self) -> int:
        return self.memory.allocated

    @property
    def peak(self) -> Point:
        return _point(self.records[-1], self.records[-1][4] - 1) if self.records else Point("", -1, "", 0, 0)

    def new(self, module: str, size: int) -> Block:
        memory = self.memory
        before = memory.peak
        block = memory.alloc(size)
        if memory.peak > before:
            self.records.append((self.where, self.layer, module, size, memory.allocated, self.doing))
        return block

    def new_many(self, module: str, size: int, count: int) -> list[Block]:
        if count == 1:
            return [self.new(module, size)]
        return [*self.memory.alloc_many(size, count - 1), self.new(module, size)]

    def place(self, place: Placed, form: Form) -> Place:
        offload = self.setting.offload
        if place.layer < 0 or not offload.active:
            self.build(place, form)
        else:
            self.index += 1
            if offload.group:
                self.offload(self.build(place, form))
            elif self.gone < offload.budget:
                self.build_and_offload(place, form)
            else:
                self.build(place, form)
        return Place(place.where, place.layer, self.held)

    def build_and_offload(self, place: Placed, form: Form) -> None:
        """A layer that left what is free as it was, and nothing that is split: the next of its kind does the same."""
        memory, budget = self.memory, self.setting.offload.budget
        free, like = memory.free_blocks(), self._offloaded.get(form)
        if like is not None and self.gone + like.gone < budget and like.free == free:
            built = Built(place.where, place.layer, form, like.blocks, like.left)
            self.repeat(like.peaks, like.delta, built)
            self.gone += like.gone
            self.places += [built] * form.has_weights
            return
        gone, start, highest, records = self.gone, memory.allocated, memory.peak, self.records
        memory.peak, self.records = start, []
        built = self.build(place, form)
        self.offload(built)
        heights = [point for entry in self.records for point in points(entry)]
        peaks = tuple((point.module, point.nbytes, point.total - start) for point in heights)
        records += [astuple(point) for point in heights if point.total > highest]
        self.records, memory.peak = records, max(memory.peak, highest)
        self._offloaded.pop(form, None)
        is_split = any(block.is_split and not block.free for block in built.blocks)
        if self.gone < budget and not is_split and memory.free_blocks() == free:
            delta = memory.allocated - start
            self._offloaded[form] = _Offloaded(delta, peaks, free, self.gone - gone, built.blocks, built.left)

    def build(self, place: Placed, form: Form) -> Built:
        self.where, self.layer = where, layer = place.where, place.layer
        memory, records, doing = self.memory, self.records, self.doing
        carve, take_whole, max_split = memory.carve, memory.take_whole, memory.max_split
        blocks: list[Block] = []
        for step in form.joined(max_split, memory.free_whole):
            if step.rises:
                level = memory.allocated
                memory.allocated = end = level + step.rises[-1][2]
                memory.reserved += step.segments
                blocks += step.blocks
                if level == memory.peak:
                    memory.peak = end
                    records.append((where, layer, step.rises, level, end, doing))
                elif end > memory.peak:
                    for module, size, above in step.rises:
                        if level + above > memory.peak:
                            records.append((where, layer, module, size, level + above, doing))
                    memory.peak = end
            size = step.size
            if size:  # what Allocator.alloc does, thousands of times
                rounded = -(-size // ROUND) * ROUND
                if rounded >= max_split:
                    block = take_whole(rounded, size)
                else:
                    block = carve(rounded, rounded)
                    block.request = size
                blocks.append(block)
                memory.allocated = level = memory.allocated + block.size
                if level > memory.peak:
                    memory.peak = level
                    records.append((where, layer, step.module, size, level, doing))
            elif step.rope:
                self.run("rotary_emb", step.rope, {})
            elif self.workspace and step.module:
                self.new("attention workspace", self.workspace)
                self.workspace = 0
        built = Built(where, layer, form, blocks)
        if form.has_weights:
            self.is_changed = self.is_changed or form.is_changed
            self.places.append(built)
        return built

    def offload(self, built: Built) -> None:
        """uva.py _maybe_offload_to_cpu, prefetch.py wrap_modules: parameter by parameter; buffers stay."""
        for module in built.modules:
            if module.name == "attn":
                continue
            for name, blocks in list(module.tensors.items()):
                parameter = f"{module.name}.{name}"
                if self.setting.offload.takes(self.index, self.gone, parameter):
                    module.is_offloaded = True
                    for block in module.tensors.pop(name):
                        self.memory.free(block)
                        self.gone += block.request
                    self.pool[parameter, blocks[0].request] = sum(b.request for b in blocks)
        built.left = tuple(tuple(module.tensors) for module in built.modules)

    def run(self, module: str, steps: Iterable[Step], tensors: dict[str, list[Block]]) -> None:
        free = self.memory.free
        for step in steps:
            name, size = step[0], step[1]
            if size:
                tensors[name] = [self.new(module, size)] if len(step) == 2 else self.new_many(module, size, step[2])
            else:
                for block in tensors.pop(name, ()):
                    free(block)

    def dummy(self) -> None:
        """weight_utils.py initialize_single_dummy_weight: FP8 values are drawn in float16 and cast."""
        for module in self.modules():
            for name, blocks in module.tensors.items():
                if is_fp8(module.of, name):
                    self.where, self.layer = module.where, module.layer
                    for block in blocks:
                        size = block.request
                        self.run(module.name, [("half", 2 * size), ("cast", size), ("half", 0), ("cast", 0)], {})

    def modules(self) -> list[Module]:
        return [module for built in self.places for module in built.listed]

    def repeat(self, peaks: Sequence[Rise], delta: int, first: Built) -> None:
        """One more layer like the one before it."""
        memory = self.memory
        for module, size, above in peaks:
            if memory.allocated + above > memory.peak:
                memory.peak = memory.allocated + above
                self.records.append((first.where, first.layer, module, size, memory.peak, self.doing))
        memory.allocated += delta
