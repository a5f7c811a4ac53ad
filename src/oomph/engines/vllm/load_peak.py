"""A load played through PyTorch's allocator, allocation by allocation: where it stands, its highest point, and where
it passes a given number of bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from msgspec import Struct

from oomph.engines.vllm.allocator import NO_LIMIT, Allocator, Block, request_size
from oomph.engines.vllm.offload import Offload
from oomph.engines.vllm.online import is_quantised_online
from oomph.engines.vllm.shard import in_features, local_experts, outs
from oomph.engines.vllm.weights import Build, Created, Placed
from oomph.facts.dtypes import nbytes
from oomph.facts.vllm.load import LoadRules
from oomph.facts.vllm.repack import Case, linear_steps, rope_steps
from oomph.facts.vllm.repack_moe import ExpertsCase, Step, experts_steps, scale_sizes
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


class Load(Struct, frozen=True):
    built: int  # allocated when every layer is built
    loaded: int  # when the load is over
    peak: Point
    places: tuple[Place, ...]
    lora: int = 0
    drafts: int = 0
    offloaded: int = 0  # parameters that went to host memory
    pool: int = 0  # room that the GPU keeps for them, allocated after the load
    changed: bool = False  # some module was repacked
    passed: Point | None = None  # the first allocation beyond the limit that was asked about


class Setting(Struct, frozen=True):
    """What, besides the build, decides how a load goes."""

    version: str
    rules: LoadRules
    sm: int
    sms: int
    dummy: bool = False  # --load-format dummy
    moe_backend: str = "auto"
    expandable: bool = False
    before: int = 0  # a buffer of the runner that leaves a piece of its segment; 0 = nothing left
    mla_workspace: int = 0
    lora: tuple[tuple[str, int], ...] = ()  # LoRA slots, in the order in which they are made
    offload: Offload = Offload()
    online: Literal["", "after", "held", "meta"] = ""  # 16-bit weights are quantised while loading (facts/vllm/load.py)
    file_bytes: int = 0  # a whole weight file comes to the GPU while loading
    limit: int = 0


class Draft(Struct, frozen=True):
    """A drafter, built and loaded after the model. `shared`: built too, then replaced by the model's own."""

    places: tuple[Placed, ...]
    build: Build
    shared: tuple[tuple[str, int], ...] = ()


def play(places: Sequence[Placed], build: Build, setting: Setting, drafts: Sequence[Draft] = ()) -> Load:
    """gpu_model_runner.py:4850 (0.21.0): the model, its LoRA slots, then the drafters."""
    player = _Player(setting)
    if setting.before:
        player.memory.leave(setting.before)
    done = player.load(places, build, "building", "repacking")
    repacked = player.held
    player.doing, player.where, player.layer = "LoRA slots", "", -1
    for name, size in setting.lora:
        player.new(name, size)
    lora = player.held
    for draft in drafts:
        shared = [player.new(name, size) for name, size in draft.shared]
        done += player.load(draft.places, draft.build, "draft model", "draft model")
        for block in shared:  # llm_base_proposer.py _maybe_share_embeddings
            player.memory.free(block)
    return Load(
        built=player.built,
        loaded=player.held,
        peak=player.peak,
        places=done,
        lora=lora - repacked,
        drafts=player.held - lora,
        offloaded=player.gone,
        changed=player.changed,
        pool=setting.offload.step * sum(player.pool.values()),
        passed=player.passed,
    )


class _Module(Struct):
    where: str
    layer: int
    name: str
    of: Linear | Experts | Vocab | None
    tensors: dict[str, list[Block]]
    offloaded: bool = False


class _Player:
    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.memory = Allocator(setting.rules.max_split or NO_LIMIT, expandable=setting.expandable)
        self.doing, self.where, self.layer = "building", "", -1
        self._peak: tuple[str, int, str, int, int, str] = ("", -1, "", 0, 0, "building")
        self.passed: Point | None = None
        self.modules: list[_Module] = []
        self.workspace = setting.mla_workspace
        self.built = 0
        self.gone = 0
        self.pool: dict[tuple[str, int], int] = {}
        self.index = -1  # of the decoder layer within the stage
        self._steps: dict[tuple[int, int], list[Step]] = {}

    @property
    def held(self) -> int:
        return self.memory.allocated

    @property
    def peak(self) -> Point:
        return Point(*self._peak)

    def new(self, module: str, size: int) -> Block:
        memory = self.memory
        before = memory.peak
        block = memory.alloc(size)
        if memory.peak > before:
            self._peak = (self.where, self.layer, module, size, memory.allocated, self.doing)
        if self.setting.limit and self.passed is None and memory.allocated > self.setting.limit:
            self.passed = Point(self.where, self.layer, module, size, memory.allocated, self.doing)
        return block

    def load(self, places: Sequence[Placed], build: Build, building: str, repacking: str) -> tuple[Place, ...]:
        self.doing, self.modules = building, []
        done = tuple(self.place(place, build) for place in places)
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
        self.where, self.layer = place.where, place.layer
        module: _Module | None = None
        made: list[_Module] = []
        for tensor in place.tensors:
            if tensor.rope is not None:
                self.run("rotary_emb", rope_steps(tensor.rope, tensor.rows, tensor.nbytes), {})
                continue
            if isinstance(tensor.of, Linear) and tensor.of.alias:
                continue
            if module is None or tensor.of is not module.of or tensor.of is None:
                module = _Module(place.where, place.layer, tensor.module, tensor.of, {})
                made.append(module)
                if tensor.of is not None or tensor.module == "attn":
                    self.modules.append(module)
            if self.workspace and tensor.module == "attn":
                self.new("attention workspace", self.workspace)
                self.workspace = 0
            for name, size in pieces(tensor, build):
                module.tensors.setdefault(name, []).append(self.new(tensor.module, size))
        if place.layer >= 0 and self.setting.offload.active:
            self.index += 1
            self.offload(made)
        return Place(place.where, place.layer, self.held)

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
                count = step[2] if len(step) == 3 else 1
                tensors[name] = [self.new(module, size) for _ in range(count)]
            else:
                for block in tensors.pop(name, ()):
                    free(block)

    def dummy(self) -> None:
        """weight_utils.py initialize_single_dummy_weight: FP8 values are drawn in float16 and cast."""
        for module in self.modules:
            for name, blocks in module.tensors.items():
                if _is_fp8(module.of, name):
                    self.where, self.layer = module.where, module.layer
                    for block in blocks:
                        size = block.asked
                        self.run(module.name, [("half", 2 * size), ("cast", size), ("half", 0), ("cast", 0)], {})

    def repack(self, build: Build) -> None:
        last: list[_Module] = []
        for module in self.modules:
            self.where, self.layer = module.where, module.layer
            if module.of is None or (isinstance(module.of, Linear) and module.of.name.endswith("kv_b_proj")):
                last.append(module)
            if module.of is None:
                continue
            if _is_retied(module.of, build):
                self.run(module.name, [(name, 0) for name in module.tensors], module.tensors)
                continue
            before = set(module.tensors)
            self.run(module.name, self.steps(module.of, build), module.tensors)
            if module.offloaded:  # model_loader/utils.py device_loading_context: what was made anew goes back
                self.run(module.name, [(name, 0) for name in module.tensors.keys() - before], module.tensors)
        if self.setting.online == "held":
            for module in self.modules:
                if module.of is not None and is_quantised_online(module.of):
                    self.run(module.name, [("weight", 0), ("w13_weight", 0), ("w2_weight", 0)], module.tensors)
        for module in last:
            self.where, self.layer = module.where, module.layer
            if isinstance(module.of, Linear):
                self.run(module.name, _latent_copies(module.of, build), module.tensors)
            elif "scales" in module.tensors:
                # kv_cache.py:56: the loadable scales go; three range constants stay on the GPU
                self.run(module.name, [("scales", 0), ("ranges", 4, 3)], module.tensors)

    @property
    def changed(self) -> bool:
        """Some module was repacked."""
        return any(self._steps.values())

    def steps(self, of: Linear | Experts | Vocab, build: Build) -> list[Step]:
        key = (id(of), id(build))
        found = self._steps.get(key)
        if found is None:
            found = self._steps[key] = list(_steps(of, build, self.setting))
        return found


def _steps(of: Linear | Experts | Vocab, build: Build, setting: Setting) -> Sequence[Step]:
    if setting.online:
        return _online_steps(of, build, setting)
    if isinstance(of, Experts):
        return experts_steps(setting.version, experts_case(of, build, setting))
    if of.scheme is None:
        return ()
    if isinstance(of, Vocab):
        return ()
    n = outs(of, build.layout.tp, build.habits)
    if not n:
        return ()
    d = nbytes(of.created_dtype or build.dtype, 1)
    k = in_features(of, build.layout.tp)
    case = Case(of.scheme, sum(n), k, of.in_features, tuple(n), d, setting.sm, setting.sms, of.bias)
    return linear_steps(setting.version, case)


def _latent_copies(of: Linear, build: Build) -> Sequence[Step]:
    """mla_attention.py:826: a quantised kv_b_proj is kept a second time, in the model's dtype."""
    if of.scheme is None:
        return ()
    size = sum(outs(of, build.layout.tp, build.habits)) * in_features(of, build.layout.tp)
    return [("float", 4 * size), ("W_UK, W_UV", nbytes(build.dtype, size)), ("float", 0)]


def _is_retied(of: Linear | Experts | Vocab, build: Build) -> bool:
    """model_loader/weight_tying.py (0.29.0): a stored head that equals the embedding is replaced by it; the two are
    compared in host memory, and only where both are on this rank."""
    return (
        isinstance(of, Vocab) and of.role == "lm_head" and of.tied and build.separate_tied_head and build.layout.pp == 1
    )


def _online_steps(of: Linear | Experts | Vocab, build: Build, setting: Setting) -> Sequence[Step]:
    """fp8.py Fp8OnlineLinearMethod, Fp8OnlineMoEMethod. With "meta" the weights are built quantised already, and each
    module's 16-bit ones come and go."""
    d = nbytes(build.dtype, 1)
    if isinstance(of, Experts):
        c = experts_case(of, build, setting)
        sizes = {f"{name}_weight": c.e * n * k for name, n, k in c.rows}
    elif isinstance(of, Linear):
        sizes = {"weight": sum(outs(of, build.layout.tp, build.habits)) * in_features(of, build.layout.tp)}
    else:
        return ()
    if setting.online == "meta":
        if of.scheme is None:
            return ()
        wide: list[Step] = [(f"{name} in 16 bits", d * size) for name, size in sizes.items()]
        return [*wide, *((step[0], 0) for step in wide)]
    if not is_quantised_online(of):
        return ()
    made: list[Step] = [(f"{name} in 8 bits", size) for name, size in sizes.items()]
    made.append(("weight_scale", 4))
    return made if setting.online == "held" else [*made, *((name, 0) for name in sizes)]


def experts_case(of: Experts, build: Build, setting: Setting) -> ExpertsCase:
    layout = build.layout
    ranks = 1 if layout.expert_parallel else layout.moe_ranks
    hidden, inter = build.padding.sizes(of.scheme, of.hidden, of.intermediate // ranks)
    return ExpertsCase(
        of.scheme,
        local_experts(of.count, layout),
        hidden,
        inter,
        2 if of.gated else 1,
        nbytes(build.dtype, 1),
        setting.sm,
        setting.sms,
        of.bias,
        setting.moe_backend,
        bool(setting.lora),
    )


_NO_SETTING = Setting("", LoadRules(0, "meta"), 0, 0)


def pieces(tensor: Created, build: Build) -> Iterator[tuple[str, int]]:
    """The tensors behind one row of `created()`."""
    of, name, size = tensor.of, tensor.name, tensor.nbytes
    if tensor.module == "attn":
        count = 4 if name == "_scales" or size % 8 == 0 else 6  # compressed-tensors: three scales, three zero points
        for _ in range(count):
            yield name, size // count
    elif isinstance(of, Experts) and name in ("weight_scales", "scales"):
        w13, w2 = scale_sizes(experts_case(of, build, _NO_SETTING), size)
        yield from (("w13_scale", w13), ("w2_scale", w2))
    elif isinstance(of, Experts) and name == "g_idx":
        case = experts_case(of, build, _NO_SETTING)
        w13, w2 = 4 * case.e * case.hidden, 4 * case.e * case.inter
        yield from (("w13_g_idx", w13), ("w2_g_idx", w2), ("w13_sort", w13), ("w2_sort", w2))
    elif isinstance(of, Experts) and name in ("weight_global_scales", "input_scales", "qzeros", "weight_shapes"):
        yield from ((name, size // 2), (name, size - size // 2))
    else:
        yield name, size


def _is_fp8(of: Linear | Experts | Vocab | None, name: str) -> bool:
    if of is None or of.scheme is None or of.scheme.kind != "float":
        return False
    if of.scheme.bits == 8:
        return name in ("weight", "w13_weight", "w2_weight")
    return of.scheme.method != "mxfp4" and name in ("weight_scale", "w13_scale", "w2_scale")
