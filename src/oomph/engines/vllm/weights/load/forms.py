"""What building and repacking the places of one kind does: the layers of a model share a few of these forms."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from msgspec import Struct

from oomph.engines.common.allocator import LARGE_BUFFER, ROUND, SMALL, Block, WholeBlock, request_size, small_block
from oomph.engines.common.created import Build, Created, Placed
from oomph.engines.vllm.weights.load.program import Programs, Rise
from oomph.engines.vllm.weights.load.steps import Setting, is_retied, latent_copies, pieces, steps_of
from oomph.facts.vllm.experts_case import Step as RepackStep
from oomph.facts.vllm.repack import rope_steps
from oomph.ir import Experts, Linear, Vocab


class Module(Struct):
    """One module of one place, with its tensors' blocks by name."""

    where: str
    layer: int
    name: str
    of: Linear | Experts | Vocab | None
    tensors: dict[str, list[Block]]
    is_offloaded: bool


class ModuleForm(Struct):
    name: str
    of: Linear | Experts | Vocab | None
    is_listed: bool  # it has weights to repack, or scales to replace
    first: int  # of the place's blocks
    tensors: list[str]  # a name for each block

    @property
    def is_late(self) -> bool:
        return (self.of is None and "scales" in self.tensors) or self.name.endswith("kv_b_proj")


class Step(Struct):
    """Small tensors, then one thing more: a large tensor of `size`, a rotary table, the workspace of attention."""

    rises: list[Rise]
    blocks: list[Block]
    module: str = ""
    size: int = 0
    rope: Sequence[RepackStep] = ()
    segments: int = 0  # bytes of whole segments among the blocks


class Construction:
    """`steps` build a place of `modules`; the same on every card."""

    def __init__(self, place: Placed, build: Build, setting: Setting) -> None:
        self.steps = [Step([], [])]
        self.modules: list[ModuleForm] = []
        module: ModuleForm | None = None
        blocks = 0
        for tensor in place.tensors:
            if tensor.rope is not None:
                self._end_step("rotary_emb", rope=rope_steps(tensor.rope, tensor.rows, tensor.nbytes))
                continue
            if isinstance(tensor.of, Linear) and tensor.of.alias:
                continue
            if module is None or tensor.of is not module.of or tensor.of is None:
                is_listed = tensor.of is not None or tensor.module == "attn"
                module = ModuleForm(tensor.module, tensor.of, is_listed, blocks, [])
                self.modules.append(module)
            if tensor.module == "attn" and setting.mla_workspace:
                self._end_step("attn")
            for name, size in pieces(tensor, build):
                module.tensors.append(name)
                blocks += 1
                if size > SMALL and not setting.expandable:
                    self._end_step(tensor.module, size)
                else:
                    self._add_small(tensor.module, size)
        self.sizes = tuple((step.size, *step.rises) for step in self.steps)
        self.listed = [at for at, form in enumerate(self.modules) if form.is_listed]
        # to these something happens after all is repacked: what, of those that are linear
        self.late = [(at, self._late_steps(at, build)) for at in self.listed if self.modules[at].is_late]
        self._joined: dict[int, tuple[list[Step], tuple[int, ...]]] = {}

    def joined(self, max_split: int, free: Iterable[int]) -> list[Step]:
        """The steps, where tensors that take whole segments are part of the stretch that they stand in. Not where a
        rotary table comes and goes, or one of the free segments would be taken."""
        if max_split not in self._joined:
            self._joined[max_split] = _join(self.steps, max_split)
        steps, whole = self._joined[max_split]
        for segment in free:
            for size in whole:
                if size <= segment < size + LARGE_BUFFER:
                    return self.steps
        return steps

    def _end_step(self, module: str, size: int = 0, rope: Sequence[RepackStep] = ()) -> None:
        step = self.steps[-1]
        step.module, step.size, step.rope = module, size, rope
        self.steps.append(Step([], []))

    def _add_small(self, module: str, size: int) -> None:
        step, block = self.steps[-1], small_block(size)
        step.rises.append((module, size, block.size + (step.rises[-1][2] if step.rises else 0)))
        step.blocks.append(block)

    def _late_steps(self, at: int, build: Build) -> tuple[RepackStep, ...]:
        of = self.modules[at].of
        return tuple(latent_copies(of, build)) if isinstance(of, Linear) else ()


class Form:
    """A construction on one card: `repacks` are the modules that are repacked, by their place in `modules`, and how."""

    def __init__(self, built: Construction, build: Build, setting: Setting) -> None:
        self.joined, self.sizes, self.late = built.joined, built.sizes, built.late
        self.modules, self.listed, self.has_weights = built.modules, built.listed, bool(built.listed)
        self.is_changed = False  # some module is repacked, not only tied again
        self.repacks = tuple(self._repacks(build, setting))
        self.number = 0  # the same for forms that are repacked alike
        self.repacked_blocks = [
            block
            for at, _ in self.repacks
            for block in range(self.modules[at].first, self.modules[at].first + len(self.modules[at].tensors))
        ]

    @property
    def repacked_outline(self) -> tuple[object, ...]:
        """Equal for forms in whose repacked modules the same happens."""
        return tuple((self.modules[at].name, tuple(self.modules[at].tensors), steps) for at, steps in self.repacks)

    def _repacks(self, build: Build, setting: Setting) -> Iterator[tuple[int, tuple[RepackStep, ...]]]:
        for at in self.listed:
            module = self.modules[at]
            if module.of is None:
                continue
            if is_retied(module.of, build):
                yield at, tuple((name, 0) for name in dict.fromkeys(module.tensors))
            elif steps := tuple(steps_of(module.of, build, setting)):
                self.is_changed = True
                yield at, steps


def _join(steps: Sequence[Step], max_split: int) -> tuple[list[Step], tuple[int, ...]]:
    """With the sizes of the tensors that take whole segments."""
    if any(step.rope for step in steps):
        return list(steps), ()
    joined, whole = [Step([], [])], set[int]()
    for step in steps:
        last, start = joined[-1], joined[-1].rises[-1][2] if joined[-1].rises else 0
        last.rises += [(module, size, start + above) for module, size, above in step.rises]
        last.blocks += step.blocks
        rounded = -(-step.size // ROUND) * ROUND
        if step.size and rounded >= max_split:
            segment = request_size(rounded)
            whole.add(rounded)
            last.rises.append((step.module, step.size, segment + (last.rises[-1][2] if last.rises else 0)))
            last.blocks.append(WholeBlock(segment, (0, 0), step.size))
            last.segments += segment
        elif step.module:
            last.module, last.size = step.module, step.size
            joined.append(Step([], []))
    return joined, tuple(whole)


Counted = tuple[tuple[tuple[Created, ...], int], ...]


class Network:
    """Places in the order in which they are built, each with the number of its kind. Its forms are kept by what they
    depend on, so that many loads of one deployment share them."""

    def __init__(self, places: Sequence[Placed], build: Build, tied_head: int = 0) -> None:
        """`tied_head`: bytes of a head that is built and then replaced by the embedding."""
        self.places, self.build, self.tied_head = tuple(places), build, tied_head
        numbers: dict[tuple[Created, ...], int] = {}
        self.kinds = tuple(numbers.setdefault(place.tensors, len(numbers)) for place in places)
        self._forms: dict[tuple[object, ...], tuple[list[Form], Programs]] = {}
        self._constructions: dict[tuple[bool, bool], list[Construction]] = {}

    @cached_property
    def counted(self) -> Counted:
        """Layers of one kind share their tensors: each kind's once, with how many places have them."""
        firsts = dict(zip(reversed(self.kinds), reversed(self.places), strict=True))
        counts = Counter(self.kinds)
        return tuple((firsts[kind].tensors, counts[kind]) for kind in range(len(firsts)))

    def forms(self, setting: Setting) -> list[Form]:
        """One of each kind."""
        return self._formed(setting)[0]

    def programs(self, setting: Setting) -> Programs:
        """Of places of these forms."""
        return self._formed(setting)[1]

    def _formed(self, setting: Setting) -> tuple[list[Form], Programs]:
        key = (setting.sm, setting.sms, setting.online, setting.expandable, setting.mla_workspace > 0)
        if key not in self._forms:
            forms = [Form(one, self.build, setting) for one in self._constructed(setting)]
            numbers: dict[object, int] = {}
            for form in forms:
                form.number = numbers.setdefault(form.repacked_outline, len(numbers))
            self._forms[key] = forms, Programs()
        return self._forms[key]

    def _constructed(self, setting: Setting) -> list[Construction]:
        key = (setting.expandable, setting.mla_workspace > 0)
        if key not in self._constructions:
            firsts = dict(zip(reversed(self.kinds), reversed(self.places), strict=True))
            kinds = range(len(firsts))
            self._constructions[key] = [Construction(firsts[kind], self.build, setting) for kind in kinds]
        return self._constructions[key]

    def outline(self, setting: Setting) -> tuple[object, ...]:
        """Of which kind each place is, and what is built and repacked in places of each kind."""
        forms = tuple((form.sizes, form.repacks, tuple(form.late)) for form in self.forms(setting))
        return self.kinds, self.tied_head, forms


class Built(Struct):
    """One place once it is built. Its modules are listed where something happens to them one by one."""

    where: str
    layer: int
    form: Form
    blocks: list[Block]
    left: tuple[tuple[str, ...], ...] = ()  # where parameters went to the host: those that each module still has
    _modules: dict[int, Module] = {}

    def module(self, at: int) -> Module:
        module = self._modules.get(at)
        if module is None:
            form, tensors = self.form.modules[at], dict[str, list[Block]]()
            for at_block, name in enumerate(form.tensors, form.first):
                if not self.left or name in self.left[at]:
                    tensors.setdefault(name, []).append(self.blocks[at_block])
            is_offloaded = bool(self.left) and len(self.left[at]) < len(set(form.tensors))
            module = self._modules[at] = Module(self.where, self.layer, form.name, form.of, tensors, is_offloaded)
        return module

    @property
    def repacked(self) -> tuple[object, ...]:
        """All that decides what repacking the place does to whole segments, but those that are free."""
        form, blocks = self.form, self.blocks
        sizes = [blocks[at].size for at in form.repacked_blocks if blocks[at].is_whole]
        return form.number, self.left, *sizes

    def tensor(self, at: int, name: str) -> list[Block]:
        """The blocks of a module's tensor."""
        if at in self._modules:
            return self._modules[at].tensors[name]
        form = self.form.modules[at]
        return [self.blocks[block] for block, one in enumerate(form.tensors, form.first) if one == name]

    @property
    def modules(self) -> list[Module]:
        return [self.module(at) for at in range(len(self.form.modules))]

    @property
    def listed(self) -> list[Module]:
        return [self.module(at) for at in self.form.listed]
