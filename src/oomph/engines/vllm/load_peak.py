"""A load played through PyTorch's allocator, allocation by allocation: where it stands, its highest point, and where
it passes a given number of bytes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import groupby

from msgspec import Struct

from oomph.engines.vllm.allocator import NO_LIMIT, Allocator, Block, request_size, small_size
from oomph.engines.vllm.load_steps import Setting, is_fp8, is_retied, latent_copies, pieces, steps_of
from oomph.engines.vllm.model_buffers import Buffers
from oomph.engines.vllm.online import is_quantised_online
from oomph.engines.vllm.weights import Build, Created, Placed
from oomph.facts.vllm.repack import rope_steps
from oomph.facts.vllm.repack_moe import Step
from oomph.ir.model import Experts, Linear, Vocab


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


class Place(Struct, frozen=True):
    where: str
    layer: int
    total: int  # allocated bytes once this place is built


Record = tuple[str, int, str, int, int, str]  # the fields of a Point: there are thousands of them


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
    records: tuple[Record, ...] = ()  # each allocation that took the load higher than it had been, in order

    def first_beyond(self, limit: int) -> Point | None:
        """The first allocation that takes the load beyond `limit` bytes."""
        at = bisect_right(self.records, limit, key=lambda record: record[4])
        return Point(*self.records[at]) if at < len(self.records) else None


class Draft(Struct, frozen=True):
    """A drafter, built and loaded after the model. `shared`: built too, then replaced by the model's own."""

    places: tuple[Placed, ...]
    build: Build
    shared: tuple[tuple[str, int], ...] = ()
    buffers: Buffers = ()


def play(
    places: Sequence[Placed], build: Build, setting: Setting, drafts: Sequence[Draft] = (), after: Buffers = ()
) -> Load:
    """gpu_model_runner.py:4850 (0.21.0): the model, its LoRA slots, the drafters, then what balances the experts."""
    player = _Player(setting)
    if setting.before:
        player.memory.leave(setting.before)
    for name, size in setting.buffers:
        player.new(name, size)
    done = player.load(places, build, "building", "repacking")
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
        done += player.load(draft.places, draft.build, "draft model", "draft model")
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
        changed=player.changed,
        pool=setting.offload.step * sum(player.pool.values()),
        records=tuple(player.records),
    )


class _Module(Struct):
    where: str
    layer: int
    name: str
    of: Linear | Experts | Vocab | None
    tensors: dict[str, list[Block]]
    offloaded: bool = False


class _ModuleForm(Struct):
    name: str
    of: Linear | Experts | Vocab | None
    is_listed: bool  # it has weights to repack, or scales to replace
    tensors: list[str]  # a name for each block


class _Form:
    """What building places of one kind does: the layers of a model share a few of these. `steps` are (module, size,
    bytes that a small tensor counts as; 0: it comes from a large block), and what else happens in between."""

    def __init__(self, place: Placed, build: Build) -> None:
        self.steps: list[tuple[str, int, int, Created | None]] = []
        self.modules: list[_ModuleForm] = []
        module: _ModuleForm | None = None
        for tensor in place.tensors:
            if tensor.rope is not None:
                self.steps.append(("rotary_emb", 0, 0, tensor))
                continue
            if isinstance(tensor.of, Linear) and tensor.of.alias:
                continue
            if module is None or tensor.of is not module.of or tensor.of is None:
                is_listed = tensor.of is not None or tensor.module == "attn"
                module = _ModuleForm(tensor.module, tensor.of, is_listed, [])
                self.modules.append(module)
            if tensor.module == "attn":
                self.steps.append(("attn", 0, 0, None))
            for name, size in pieces(tensor, build):
                self.steps.append((tensor.module, size, small_size(size), None))
                module.tensors.append(name)
        self.listed = [at for at, form in enumerate(self.modules) if form.is_listed]
        self.late = [at for at in self.listed if _is_late(self.modules[at])]
        self.has_weights = bool(self.listed)


class _Built(Struct):
    """One place once it is built. Its modules are listed where something happens to them one by one."""

    where: str
    layer: int
    form: _Form
    blocks: list[Block]
    _modules: list[_Module] = []

    @property
    def modules(self) -> list[_Module]:
        if not self._modules:
            blocks = iter(self.blocks)
            for form in self.form.modules:
                tensors: dict[str, list[Block]] = {}
                for name in form.tensors:
                    tensors.setdefault(name, []).append(next(blocks))
                self._modules.append(_Module(self.where, self.layer, form.name, form.of, tensors))
        return self._modules

    @property
    def listed(self) -> list[_Module]:
        modules = self.modules
        return [modules[at] for at in self.form.listed]

    @property
    def late(self) -> list[_Module]:
        """Those to which something happens after every layer is repacked."""
        return [self.modules[at] for at in self.form.late] if self.form.late else []


def _is_late(module: _ModuleForm) -> bool:
    return (module.of is None and "scales" in module.tensors) or module.name.endswith("kv_b_proj")


class _Repacked(Struct, frozen=True):
    """What repacking one place did."""

    delta: int
    peaks: tuple[tuple[str, int, int], ...]  # new heights: module, size, bytes above the start
    cached: dict[int, int]  # how many more cached blocks of each size there are


class _Player:
    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.memory = Allocator(setting.max_split or NO_LIMIT, expandable=setting.expandable)
        self.doing, self.where, self.layer = "building", "", -1
        self.records: list[Record] = []
        self.places: list[_Built] = []
        self.forms: dict[tuple[Created, ...], _Form] = {}
        self.workspace = setting.mla_workspace
        self.built = 0
        self.gone = 0
        self.pool: dict[tuple[str, int], int] = {}
        self.index = -1  # of the decoder layer within the stage
        self._steps: dict[tuple[Linear | Experts | Vocab, Build], list[Step]] = {}

    @property
    def held(self) -> int:
        return self.memory.allocated

    @property
    def peak(self) -> Point:
        return Point(*self.records[-1]) if self.records else Point("", -1, "", 0, 0)

    def new(self, module: str, size: int) -> Block:
        memory = self.memory
        before = memory.peak
        block = memory.alloc(size)
        if memory.peak > before:
            self.records.append((self.where, self.layer, module, size, memory.allocated, self.doing))
        return block

    def new_many(self, module: str, size: int, count: int) -> list[Block]:
        rest = self.memory.alloc_many(size, count - 1) if count > 1 else []
        return [*rest, self.new(module, size)]

    def load(self, places: Sequence[Placed], build: Build, building: str, repacking: str) -> tuple[Place, ...]:
        self.doing, self.places, self.forms = building, [], {}
        done = tuple(self.place(place, build) for place in places)
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
        self.repack(build)
        return done

    def place(self, place: Placed, build: Build) -> Place:
        self.where, self.layer = where, layer = place.where, place.layer
        form = self.forms.get(place.tensors)
        if form is None:
            form = self.forms[place.tensors] = _Form(place, build)
        memory, records, doing, blocks = self.memory, self.records, self.doing, []
        expandable, small = memory.expandable, memory.small
        for module, size, counted, tensor in form.steps:
            if counted or (size and expandable):
                block = small(size)
                memory.allocated += block.size
                if memory.allocated > memory.peak:
                    memory.peak = memory.allocated
                    records.append((where, layer, module, size, memory.allocated, doing))
                blocks.append(block)
            elif size:
                blocks.append(self.new(module, size))
            elif tensor is not None and tensor.rope is not None:
                self.run("rotary_emb", rope_steps(tensor.rope, tensor.rows, tensor.nbytes), {})
            elif self.workspace:
                self.new("attention workspace", self.workspace)
                self.workspace = 0
        built = _Built(where, layer, form, blocks)
        if form.has_weights:
            self.places.append(built)
        if layer >= 0 and self.setting.offload.active:
            self.index += 1
            self.offload(built.modules)
        return Place(where, layer, self.held)

    def offload(self, made: list[_Module]) -> None:
        """uva.py _maybe_offload_to_cpu, prefetch.py wrap_modules: parameter by parameter; buffers stay."""
        for module in made:
            if module.name == "attn":
                continue
            for name, blocks in list(module.tensors.items()):
                parameter = f"{module.name}.{name}"
                if self.setting.offload.takes(self.index, self.gone, parameter):
                    module.offloaded = True
                    for block in module.tensors.pop(name):
                        self.memory.free(block)
                        self.gone += block.asked
                    self.pool[parameter, blocks[0].asked] = sum(b.asked for b in blocks)

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
                        size = block.asked
                        self.run(module.name, [("half", 2 * size), ("cast", size), ("half", 0), ("cast", 0)], {})

    def modules(self) -> list[_Module]:
        return [module for built in self.places for module in built.listed]

    def repack(self, build: Build) -> None:
        seen: dict[tuple[object, ...], tuple[_Repacked, bool]] = {}  # with whether it did the same twice
        skips = not self.setting.offload.active
        for _, group in groupby(self.places, key=lambda built: built.where):
            members = list(group)
            key = tuple((built.form, *(block.size for block in built.blocks)) for built in members)
            before, steady = seen.get(key, (None, False))
            if skips and steady and before is not None:
                self.repeat(before, members[0])
            else:
                now = self.repack_place([module for built in members for module in built.listed], build)
                seen[key] = now, now == before
        if self.setting.online == "held":
            for module in self.modules():
                if module.of is not None and is_quantised_online(module.of, build.habits):
                    self.run(module.name, [("weight", 0), ("w13_weight", 0), ("w2_weight", 0)], module.tensors)
        for module in [module for built in self.places for module in built.late]:
            self.where, self.layer = module.where, module.layer
            if isinstance(module.of, Linear):
                self.run(module.name, latent_copies(module.of, build), module.tensors)
            elif "scales" in module.tensors:
                # kv_cache.py:56: the loadable scales go; three range constants stay on the GPU
                self.run(module.name, [("scales", 0), ("ranges", 4, 3)], module.tensors)

    def repack_place(self, modules: list[_Module], build: Build) -> _Repacked:
        """Its own peaks are counted from where it begins, so that a place of the same kind can repeat them."""
        memory, records = self.memory, self.records
        start, highest = memory.allocated, memory.peak
        memory.peak, self.records, memory.moved = start, [], {}
        for module in modules:
            if module.of is not None:
                self.where, self.layer = module.where, module.layer
                self.repack_module(module, module.of, build)
        peaks = tuple((record[2], record[3], record[4] - start) for record in self.records)
        records += [record for record in self.records if record[4] > highest]
        self.records = records
        memory.peak = max(memory.peak, highest)
        return _Repacked(memory.allocated - start, peaks, {size: n for size, n in memory.moved.items() if n})

    def repack_module(self, module: _Module, of: Linear | Experts | Vocab, build: Build) -> None:
        if is_retied(of, build):
            self.run(module.name, [(name, 0) for name in module.tensors], module.tensors)
            return
        before = set(module.tensors)
        self.run(module.name, self.steps(of, build), module.tensors)
        if module.offloaded:  # model_loader/utils.py device_loading_context: what was made anew goes back
            self.run(module.name, [(name, 0) for name in module.tensors.keys() - before], module.tensors)

    def repeat(self, like: _Repacked, first: _Built) -> None:
        """One more layer like the two before it."""
        memory = self.memory
        for module, size, above in like.peaks:
            if memory.allocated + above > memory.peak:
                memory.peak = memory.allocated + above
                self.records.append((first.where, first.layer, module, size, memory.peak, self.doing))
        memory.allocated += like.delta

    @property
    def changed(self) -> bool:
        """Some module was repacked."""
        return any(self._steps.values())

    def steps(self, of: Linear | Experts | Vocab, build: Build) -> list[Step]:
        steps = self._steps.get((of, build))
        if steps is None:
            steps = self._steps[of, build] = list(steps_of(of, build, self.setting))
        return steps
