"""A load played through PyTorch's allocator, allocation by allocation: where it stands, its highest point, and where
it passes a given number of bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter

from msgspec import Struct
from msgspec.structs import astuple

from oomph.engines.vllm.allocator import LARGE_BUFFER, NO_LIMIT, ROUND, Allocator, Block, FreeBlocks, FreeSizes
from oomph.engines.vllm.load_forms import Built, Form, Module, Network
from oomph.engines.vllm.load_program import Program, Programs, Recorder, Rise
from oomph.engines.vllm.load_records import Entry, Point, first_beyond, last_point, points
from oomph.engines.vllm.load_steps import Setting, is_fp8
from oomph.engines.vllm.model_buffers import Buffers
from oomph.engines.vllm.online import is_quantised_online
from oomph.engines.vllm.weights import Placed
from oomph.facts.vllm.repack_moe import Step
from oomph.ir.model import Linear


class Place(Struct, frozen=True):
    where: str
    layer: int
    total: int  # allocated bytes once this place is built


class Load(Struct, frozen=True):
    built: int  # allocated when every layer is built
    loaded: int  # when the load is over
    peak: Point
    places: tuple[Place, ...]
    lora: int = 0
    drafts: int = 0
    balancing: int = 0
    offloaded: int = 0  # parameters that went to host memory
    pool: int = 0  # room that the GPU keeps for them, allocated after the load
    changed: bool = False  # some module was repacked
    records: tuple[Entry, ...] = ()  # each allocation that took the load higher than it had been, in order

    def first_beyond(self, limit: int) -> Point | None:
        """The first allocation that takes the load beyond `limit` bytes."""
        return first_beyond(self.records, limit)


class Draft(Struct, frozen=True):
    """A drafter, built and loaded after the model. `shared`: built too, then replaced by the model's own."""

    network: Network
    shared: tuple[tuple[str, int], ...] = ()
    buffers: Buffers = ()


def play(network: Network, setting: Setting, drafts: Sequence[Draft] = (), after: Buffers = ()) -> Load:
    """gpu_model_runner.py:4850 (0.21.0): the model, its LoRA slots, the drafters, then what balances the experts."""
    player = _Player(setting)
    if setting.before:
        player.memory.leave(setting.before)
    for name, size in setting.buffers:
        player.new(name, size)
    done = player.load(network, "building", "repacking")
    repacked = player.held
    player.doing, player.where, player.layer = "LoRA slots", "", -1
    for name, size in setting.lora:
        player.new(name, size)
    lora = player.held
    for draft in drafts:
        player.doing = "draft model"
        for name, size in draft.buffers:
            player.new(name, size)
        shared = [player.new(name, size) for name, size in draft.shared]
        done += player.load(draft.network, "draft model", "draft model")
        for block in shared:  # llm_base_proposer.py _maybe_share_embeddings
            player.memory.free(block)
    drafted = player.held
    player.doing, player.where, player.layer = "expert balancing", "", -1
    for name, size in after:
        player.new(name, size)
    return Load(
        built=player.built,
        loaded=player.held,
        peak=player.peak,
        places=done,
        lora=lora - repacked,
        drafts=drafted - lora,
        balancing=player.held - drafted,
        offloaded=player.gone,
        changed=player.is_changed,
        pool=setting.offload.step * sum(player.pool.values()),
        records=tuple(player.records),
    )


_SIZE = attrgetter("size")
Job = tuple[Built, int, Sequence[Step]]  # a place, one of its modules, what repacking it does


class _Repacked(Struct, frozen=True):
    """What repacking one place did."""

    delta: int
    peaks: tuple[Rise, ...]  # new heights
    before: FreeSizes
    after: FreeSizes

    def does_as(self, other: _Repacked | None) -> bool:
        if other is None or self.delta != other.delta or self.peaks != other.peaks:
            return False
        # the same blocks more and fewer: what one has after it and the other before it, the other way round
        if sorted(self.after[0] + other.before[0]) != sorted(other.after[0] + self.before[0]):
            return False
        return _difference(self.after[1], self.before[1]) == _difference(other.after[1], other.before[1])

    @property
    def only_adds(self) -> bool:
        """Whether there are no fewer free blocks of any size."""
        split = _difference(Counter(self.after[0]), Counter(self.before[0]))
        whole = _difference(self.after[1], self.before[1])
        return all(count > 0 for count in (*split.values(), *whole.values()))


def _difference(counts: dict[int, int], others: dict[int, int]) -> dict[int, int]:
    """How many more there are of each size, where the numbers differ."""
    if counts == others:
        return {}
    sizes = counts.keys() | others.keys()
    return {size: n for size in sizes if (n := counts.get(size, 0) - others.get(size, 0))}


class _Offloaded(Struct, frozen=True):
    """What building a layer and sending all of it to the host did."""

    delta: int
    peaks: tuple[Rise, ...]  # new heights
    free: FreeBlocks  # before it, and after it
    gone: int
    blocks: list[Block]
    left: tuple[tuple[str, ...], ...]


class _Player:
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
        return last_point(self.records)

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

    def load(self, network: Network, building: str, repacking: str) -> tuple[Place, ...]:
        self.doing, self.places = building, []
        forms = network.forms(self.setting)
        done = tuple(self.place(place, forms[kind]) for place, kind in zip(network.places, network.kinds, strict=True))
        if self.workspace:  # releases whose latent attention has no tensors of its own
            self.new("attention workspace", self.workspace)
            self.workspace = 0
        self.built = self.built or self.held
        self.doing = "loading"
        if self.setting.dummy:
            self.dummy()
        if self.setting.file_bytes:
            self.run("fastsafetensors", [("file", self.setting.file_bytes), ("file", 0)], {})
        self.doing = repacking
        self.repack(network)
        return done

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

    def repack(self, network: Network) -> None:
        build, programs = network.build, network.programs(self.setting)
        seen: dict[tuple[object, ...], tuple[_Repacked, bool]] = {}  # with whether it did the same twice
        free = self.memory.free_sizes()
        for _, group in groupby(self.places, key=lambda built: built.where):
            members = list(group)
            jobs = [(built, at, steps) for built in members for at, steps in built.form.repacks]
            if not jobs:
                continue
            key = tuple((built.form, built.left, *map(_SIZE, built.blocks)) for built in members)
            before, steady = seen.get(key, (None, False))
            if steady and before is not None:
                self.repeat(before.peaks, before.delta, members[0])
            else:
                now = self.repack_place(members, jobs, programs, free)
                free = now.after
                # where weights leave the GPU, what is free must also not become less
                seen[key] = now, now.does_as(before) and (not self.setting.offload.active or now.only_adds)
        if self.setting.online == "held":
            for module in self.modules():
                if module.of is not None and is_quantised_online(module.of, build.habits):
                    self.run(module.name, [("weight", 0), ("w13_weight", 0), ("w2_weight", 0)], module.tensors)
        for built in self.places:
            self.where, self.layer = built.where, built.layer
            for at, steps in built.form.late:
                form = built.form.modules[at]
                if isinstance(form.of, Linear):
                    self.run(form.name, steps, built.module(at).tensors)
                else:  # kv_cache.py:56: the loadable scales go; three range constants stay on the GPU
                    scales = built.blocks[form.first : form.first + len(form.tensors)]
                    self.memory.allocated += 2 * ROUND - sum(map(_SIZE, scales))
                    self.new(form.name, 4)

    def repack_place(
        self, members: Sequence[Built], jobs: Sequence[Job], programs: Programs, before: FreeSizes
    ) -> _Repacked:
        """Its own peaks are counted from where it begins, so that a place of the same kind can repeat them."""
        memory, records = self.memory, self.records
        start, highest = memory.allocated, memory.peak
        memory.peak, self.records = start, []
        self.where, self.layer = members[0].where, members[0].layer
        key = tuple(part for built in members for part in built.repacked)
        is_limited = memory.max_split == LARGE_BUFFER
        program = programs.valid(key, memory.free_whole) if is_limited else None
        if program is not None:
            self.follow(program, jobs)
        else:
            recorder = Recorder(memory.free_whole)
            for number, (built, at, steps) in enumerate(jobs):
                self.layer = built.layer
                self.repack_module(built.module(at), steps, number, recorder)
            if is_limited and self.setting.online != "held":
                programs.add(key, recorder.program())
        peaks = tuple((str(record[2]), record[3], record[4] - start) for record in self.records)
        records += [record for record in self.records if record[4] > highest]
        self.records = records
        memory.peak = max(memory.peak, highest)
        return _Repacked(memory.allocated - start, peaks, before, memory.free_sizes())

    def repack_module(self, module: Module, steps: Sequence[Step], number: int, recorder: Recorder) -> None:
        tensors = module.tensors
        before = set(tensors) if module.is_offloaded else ()
        for step in steps:
            self.repack_step(module.name, tensors, step, number, recorder)
        if module.is_offloaded:  # model_loader/utils.py device_loading_context: what was made anew goes back
            for name in list(tensors.keys() - before):
                self.repack_step(module.name, tensors, (name, 0), number, recorder)

    def repack_step(
        self, module: str, tensors: dict[str, list[Block]], step: Step, number: int, recorder: Recorder
    ) -> None:
        memory, name, size = self.memory, step[0], step[1]
        if not size:
            blocks = tensors.pop(name, ())
            for block in blocks:
                memory.free(block)
                if not block.is_split:
                    recorder.give(block)
            if any(block.is_split for block in blocks):
                recorder.split(number, name, module)
            return
        count = step[2] if len(step) > 2 else 1
        if memory.is_whole(size):
            tensors[name] = []
            for left in reversed(range(count)):
                reserved = memory.reserved
                block = memory.alloc(size) if left else self.new(module, size)
                recorder.take(size, block, is_new=memory.reserved > reserved)
                tensors[name].append(block)
            recorder.rise(module, size)
            return
        tensors[name] = blocks = self.new_many(module, size, count)
        if blocks[0].is_split:
            recorder.split(number, name, module, size, count)
        else:
            for block in blocks:
                recorder.take(size, block, is_new=True)
            recorder.rise(module, size)

    def follow(self, program: Program, jobs: Sequence[Job]) -> None:
        """The place as the one before it; only what is split is allocated and freed."""
        memory, records = self.memory, self.records
        carve, release = memory.carve, memory.release
        where, layer, doing = self.where, self.layer, self.doing
        split: dict[tuple[int, str], list[Block]] = {}
        rows: dict[tuple[int, str], tuple[int, int]] = {}  # segments full of tensors that nobody else touches
        allocated, peak = memory.allocated, memory.peak
        for part in program.parts:
            if part.rises and allocated + part.rises[-1][2] > peak:
                for module, size, above in part.rises:
                    if allocated + above > peak:
                        peak = allocated + above
                        records.append((where, layer, module, size, peak, doing))
            allocated += part.change
            does, key = part.does, part.key
            if does == "take":
                block = carve(part.rounded, part.rounded)
                split[key] = [block]
                allocated += block.size
                if allocated > peak:
                    peak = allocated
                    records.append((where, layer, part.module, part.size, peak, doing))
            elif does == "give":
                for block in split.pop(key, None) or jobs[part.job][0].tensor(jobs[part.job][1], part.tensor):
                    if block.is_split:
                        allocated -= block.size
                        release(block)
                if key in rows:
                    memory.allocated = allocated
                    memory.free_rows(*rows.pop(key))
                    allocated = memory.allocated
            elif does == "touch":
                level = allocated + memory.touch(part.rounded)
                if level > peak:
                    peak = level
                    records.append((where, layer, part.module, part.size, peak, doing))
                allocated += part.after
            elif does == "take many":
                memory.allocated, memory.peak = allocated, peak
                if part.is_alone:
                    split[key], count = memory.alloc_rows(part.size, part.count - 1)
                    split[key].append(self.new(part.module, part.size))
                    rows[key] = part.size, count
                else:
                    split[key] = self.new_many(part.module, part.size, part.count)
                allocated, peak = memory.allocated, memory.peak
        memory.allocated, memory.peak = allocated, peak
        for size, count in program.added.items():
            memory.add_whole(size, count)

    def repeat(self, peaks: Sequence[Rise], delta: int, first: Built) -> None:
        """One more layer like the one before it."""
        memory = self.memory
        for module, size, above in peaks:
            if memory.allocated + above > memory.peak:
                memory.peak = memory.allocated + above
                self.records.append((first.where, first.layer, module, size, memory.peak, self.doing))
        memory.allocated += delta
