"""The second half of a load: every place is repacked, as its kernels want it, one after the other."""

from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from msgspec import Struct

from oomph.engines.common.allocator import LARGE_BUFFER, ROUND, Block, FreeSizes
from oomph.engines.common.online import is_quantised_online
from oomph.engines.vllm.weights.load.forms import Built, Module, Network
from oomph.engines.vllm.weights.load.player import SIZE, Player
from oomph.engines.vllm.weights.load.program import Program, Programs, Recorder, Rise
from oomph.facts.vllm.experts_case import Step
from oomph.ir import Linear

Job = tuple[Built, int, Sequence[Step]]  # a place, one of its modules, what repacking it does


class _Repacked(Struct, frozen=True):
    """What repacking one place did."""

    delta: int
    peaks: tuple[Rise, ...]  # new heights
    before: FreeSizes
    after: FreeSizes

    def does_as(self, other: "_Repacked | None") -> bool:
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


class Repacker(Player):
    def repack(self, network: Network) -> None:
        build, programs = network.build, network.programs(self.setting)
        seen: dict[tuple[object, ...], tuple[_Repacked, bool]] = {}  # with whether it did the same twice
        free = self.memory.free_sizes()
        for _, group in groupby(self.places, key=lambda built: built.where):
            members = list(group)
            jobs = [(built, at, steps) for built in members for at, steps in built.form.repacks]
            if not jobs:
                continue
            key = tuple((built.form, built.left, *map(SIZE, built.blocks)) for built in members)
            before, steady = seen.get(key, (None, False))
            if steady and before is not None:
                self.repeat(before.peaks, before.delta, members[0])
                self.strand(before)
            else:
                now = self.repack_place(members, jobs, programs, free)
                free = now.after
                seen[key] = now, now.does_as(before) and self.is_lasting(now)
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
                    self.memory.allocated += 2 * ROUND - sum(map(SIZE, scales))
                    self.new(form.name, 4)

    def is_lasting(self, now: _Repacked) -> bool:
        """Whether a place that did the same twice will go on so: where weights leave the GPU, what is free must not
        become less; where everything that is free counts, pieces of segments would be used some day."""
        if self.setting.pooled and now.before[0] != now.after[0]:
            return False
        return not self.setting.offload.active or now.only_adds

    def strand(self, like: _Repacked) -> None:
        """What a place like this one leaves free each time: a pool that cannot give back keeps all of it.

        A segment of 20 MiB that is free again is as large as `max_split`, so that no smaller tensor gets it: copies of
        single experts take new ones in every layer.
        """
        for size, count in _difference(like.after[1], like.before[1]).items():
            left = self.memory.free_whole.get(size, 0)
            if count > 0 or left:
                self.memory.add_whole(size, max(count, -left))

    def repack_place(
        self, members: Sequence[Built], jobs: Sequence[Job], programs: Programs, before: FreeSizes
    ) -> _Repacked:
        """Its own peaks are counted from where it begins, so that a place of the same kind can repeat them."""
        memory, records = self.memory, self.records
        start, highest = memory.allocated, memory.peak
        memory.peak, self.records = start, []
        self.where, self.layer = members[0].where, members[0].layer
        first = members[0].repacked
        key = first if len(members) == 1 else (first, *[built.repacked for built in members[1:]])
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
        peaks = tuple([(str(record[2]), record[3], record[4] - start) for record in self.records])
        records += [record for record in self.records if record[4] > highest]
        self.records = records
        memory.peak = max(memory.peak, highest)
        return _Repacked(memory.allocated - start, peaks, before, memory.free_sizes())

    def repack_module(self, module: Module, steps: Sequence[Step], number: int, recorder: Recorder) -> None:
        tensors, memory, records = module.tensors, self.memory, self.records
        before = set(tensors) if module.is_offloaded else ()
        for step in steps:
            size = step[1]
            if len(step) > 2 or not memory.is_whole(size):
                self.repack_step(module.name, tensors, step, number, recorder)
                continue
            reserved = memory.reserved
            block = memory.take_whole(-(-size // ROUND) * ROUND, size)
            tensors[step[0]] = [block]
            memory.allocated = level = memory.allocated + block.size
            if level > memory.peak:
                memory.peak = level
                records.append((self.where, self.layer, module.name, size, level, self.doing))
            recorder.take(size, block, is_new=memory.reserved > reserved)
            recorder.rise(module.name, size)
        if module.is_offloaded:  # model_loader/utils.py device_loading_context: what was made anew goes back
            for name in list(tensors.keys() - before):
                self.repack_step(module.name, tensors, (name, 0), number, recorder)

    def repack_step(
        self, module: str, tensors: dict[str, list[Block]], step: Step, number: int, recorder: Recorder
    ) -> None:
        memory, name, size = self.memory, step[0], step[1]
        if not size:
            is_split = False
            for block in tensors.pop(name, ()):
                memory.free(block)
                if block.is_split:
                    is_split = True
                else:
                    recorder.give(block)
            if is_split:
                recorder.split(number, name, module)
            return
        count = step[2] if len(step) > 2 else 1
        if memory.is_whole(size):
            tensors[name] = whole = []
            for left in range(count - 1, -1, -1):
                reserved = memory.reserved
                block = memory.alloc(size) if left else self.new(module, size)
                recorder.take(size, block, is_new=memory.reserved > reserved)
                whole.append(block)
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
