"""What a request makes of the catalogue: the checkpoints, and the spaces that are searched."""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from oomph.engines.protocol import fills
from oomph.engines.registry import DEFAULT, engine_named, engine_of, require_kernels
from oomph.engines.values import FitKnobs
from oomph.errors import CannotPlan, NoKernels, OomphError
from oomph.ir import Deployment, Device, Experts, Model, State
from oomph.ir.deployment import Place
from oomph.units import GIB

# What fit() searches: arms (everything that is chosen, not measured) times context, users and utilisation.

# Fewer batched tokens than the default: a smaller profiling peak, longer prompts in more steps.
FEWER_TOKENS = 2048
# One draft token: what a checkpoint's own multi-token-prediction layer is trained for.
DRAFT_TOKENS = 1
ONLINE = "fp8"  # what vLLM and SGLang make of 16-bit weights while they load them
FEW_GRAPHS = 8  # CUDA graphs for small batches only: the largest of them
_FINE, _COARSE, _FINE_UNTIL = 256, 1024, 8192


class Layout(Struct, frozen=True):
    tp: int = 1
    pp: int = 1
    ep: bool = False

    @property
    def gpus(self) -> int:
        return self.tp * self.pp


class Arm(Struct, frozen=True):
    """One choice of everything but context, users and utilisation. The defaults are the engine's."""

    model: str
    layout: Layout = Layout()
    kv_dtype: str = "auto"
    eager: bool = False
    few_graphs: bool = False
    text_only: bool = False
    drafts: int = 0
    prefix_off: bool = False
    tokens: int = 0  # --max-num-batched-tokens; 0 = the engine's
    offload_gib: int = 0
    online: str = ""  # quantised while it loads: "fp8"
    unlimited: bool = False  # the engine's own limit of requests stays; else it is set to the users ...
    limit: int = 0  # ... and no lower than this
    empty: bool = False  # nothing else may use the first card: no screen on it

    @property
    def wishes(self) -> dict[str, Any]:
        """What it asks for beyond an engine's defaults; each engine spells these as its own flags."""
        wanted = {
            "tp": self.layout.tp if self.layout.tp > 1 else 0,
            "pp": self.layout.pp if self.layout.pp > 1 else 0,
            "ep": self.layout.tp if self.layout.ep else 0,
            "kv_dtype": self.kv_dtype if self.kv_dtype != "auto" else "",
            "eager": self.eager,
            "few_graphs": FEW_GRAPHS if self.few_graphs else 0,
            "text_only": self.text_only,
            "drafts": self.drafts,
            "prefix_off": self.prefix_off,
            "tokens": self.tokens,
            "offload_gib": self.offload_gib,
            "online": self.online,
        }
        return {name: wish for name, wish in wanted.items() if wish}

    @property
    def changes(self) -> int:
        """How many flags it takes: of two equal answers the shorter command is the better one."""
        return len(self.wishes.keys() - {"tp"})


class Space(Struct, frozen=True):
    """The product that is searched. Contexts, users and utilisations rise."""

    arms: tuple[Arm, ...]
    contexts: tuple[int, ...]
    users: tuple[int, ...]
    utilisations: tuple[float, ...]


def layouts(count: int, *, moe: bool) -> tuple[Layout, ...]:
    """All GPUs together in every shape, then fewer of them without pipeline stages."""
    shapes = [(tp, count // tp) for tp in range(count, 0, -1) if count % tp == 0 and count // tp <= 8]
    shapes += [(tp, 1) for tp in (2**i for i in range(8, -1, -1)) if tp < count]
    out = [Layout(tp, pp) for tp, pp in dict.fromkeys(shapes)]
    return tuple(out + [Layout(x.tp, x.pp, True) for x in out if moe and x.tp > 1])


def arms_of(name: str, model: Model, shapes: Sequence[Layout], options: "Options") -> Iterator[Arm]:
    """Every arm of one checkpoint; a flag that cannot matter to this model is not tried."""
    # a checkpoint that brings its own KV dtype is not asked for another, unless the user does
    own_kv = bool(model.quantization and model.quantization.kv_cache) and "auto" in options.kv_dtypes
    texts = options.text_only if model.towers else (False,)
    drafts = [n for n in options.drafts if n == 0 or model.drafts]
    state = any(isinstance(m, State) for layer in model.layers for m in layer.mixers)
    for layout, kv, graphs, text, draft, prefix, tokens in product(
        shapes,
        ("auto",) if own_kv else options.kv_dtypes,
        options.graphs,
        texts,
        drafts or [0],
        options.prefix_off if state else (False,),
        options.tokens,
    ):
        yield Arm(
            name,
            layout=layout,
            kv_dtype=kv,
            eager=graphs == "eager",
            few_graphs=graphs == "few",
            text_only=text,
            drafts=draft,
            prefix_off=prefix,
            tokens=tokens,
        )


class Options(Struct, frozen=True):
    """What the user leaves open."""

    kv_dtypes: tuple[str, ...] = ("auto", "fp8")
    graphs: tuple[str, ...] = ("all", "few", "eager")
    text_only: tuple[bool, ...] = (False, True)
    drafts: tuple[int, ...] = (0, DRAFT_TOKENS)
    prefix_off: tuple[bool, ...] = (False, True)
    tokens: tuple[int, ...] = (0, FEWER_TOKENS)


def is_moe(model: Model) -> bool:
    return any(isinstance(m, Experts) for layer in model.layers for m in layer.block.modules)


def context_ladder(context: int, longest: int, least: int = 4096) -> tuple[int, ...]:
    """The asked context and its doublings up to the model's own, or powers of two."""
    first = context or min(least, longest)
    steps = [first]
    while steps[-1] * 2 < longest:
        steps.append(steps[-1] * 2)
    return tuple(dict.fromkeys([*steps, longest])) if longest > first else (first,)


def context_grid(longest: int, *also: int) -> tuple[int, ...]:
    """Where the longest context is looked for: steps of 256 tokens, above 8,192 of 1,024."""
    fine = range(_FINE, min(longest, _FINE_UNTIL) + 1, _FINE)
    coarse = range(_FINE_UNTIL, longest + 1, _COARSE)
    return tuple(sorted({*fine, *coarse, longest, *(c for c in also if c <= longest)}))


def user_levels(users: int, most: int = 256) -> tuple[int, ...]:
    """1 to 8, then steps of an eighth: no printed number of users is more than a step below what fits."""
    levels, n = [], 1
    while n <= max(most, users):
        levels.append(n)
        n += max(1, n // 8)
    return tuple(sorted({*levels, users} - {0}))


def utilisation_grid(default: float, highest: float) -> tuple[float, ...]:
    """Hundredths up to the highest that leaves room for what comes after the KV cache. An engine that chooses its share
    for each card (a default of 0) is asked for a certain one: whether its own choice is too high says nothing here."""
    return tuple(sorted(n for n in {*(round(n / 100, 2) for n in range(1, 100)), default} if 0 < n <= highest))


class Want(Struct, frozen=True):
    context: int = 0  # 0 = not said
    users: int = 0
    prefer: str = ""
    options: Options = Options()
    needs: tuple[str, ...] = ()  # what else was asked for, in words


class Refused(Struct, frozen=True):
    checkpoint: str
    why: str


class Spaces:
    """The spaces of one request: as asked, and what is looked at where that is not met."""

    def __init__(
        self, models: dict[str, Model], gpus: tuple[Device, ...], want: Want, base: Deployment, *, least: int = 4096
    ) -> None:
        """`least`: the shortest context that is looked at where none is asked for."""
        self.models, self.gpus, self.want, self.base, self.least = models, gpus, want, base, least
        self.named = next(iter(models))
        self.knobs = knobs_of(base)
        self.default = self.knobs.default_share
        self.longest = max(m.max_position for m in models.values())
        shapes = layouts(len(gpus), moe=any(is_moe(m) for m in models.values()))
        here = sum(device.node == gpus[0].node for device in gpus)  # tensor-parallel groups stay inside a node
        self.shapes = tuple(shape for shape in shapes if shape.tp <= here)
        self.too_large: dict[str, int] = {}
        self.arms = self._arms(0, want.options)
        room = _room(gpus, len(gpus))
        self.too_large = {n: least_weights(m) - room for n, m in models.items() if least_weights(m) > room}

    def _arms(self, offload: int, options: Options) -> list[Arm]:
        out: list[Arm] = []
        for name, model in self.models.items():
            fitting = [
                shape
                for shape in self.shapes
                if least_weights(model) <= _room(self.gpus, shape.gpus) + offload * shape.gpus * GIB
                and (not shape.ep or is_moe(model))
            ]
            out += arms_of(name, model, fitting, options)
            if self._quantises(name, model):
                out += [replace(arm, online=ONLINE) for arm in arms_of(name, model, self.shapes, options)]
        engine = engine_of(self.base)
        return [arm for arm in out if self.knobs.known_flags >= engine.arm_flags(arm).keys()]

    def _quantises(self, name: str, model: Model) -> bool:
        """A folder of one's own has no sisters in fewer bits: an engine that quantises while it loads is asked to."""
        from oomph.sources.load import is_local

        return is_local(name) and model.quantization is None

    def offloaded(self, gib_each: int) -> tuple[Arm, ...]:
        """Everything else is given up before weights are moved to the host."""
        options = replace(self.want.options, graphs=("eager",), prefix_off=(False,), tokens=(FEWER_TOKENS,))
        options = replace(options, text_only=options.text_only[-1:], drafts=options.drafts[:1])
        has_flag = "cpu_offload_gb" in self.knobs.known_flags
        arms = self._arms(gib_each, options) if has_flag else []
        return tuple(replace(a, offload_gib=gib_each) for a in arms if not a.layout.ep and not a.online)

    def space(self, context: int, users: int, arms: Sequence[Arm] | None = None) -> Space:
        return Space(
            tuple(self.arms if arms is None else arms),
            context_ladder(context, self.longest, self.least),
            tuple(n for n in user_levels(users) if n >= (users or 1)),
            utilisation_grid(self.default, engine_of(self.base).highest_share(self.gpus)),
        )


def _room(gpus: tuple[Device, ...], count: int) -> int:
    return sum(g.total_bytes - g.used_bytes for g in gpus[:count])


def least_weights(model: Model) -> int:
    """What the ranks keep together at the least: the checkpoint without its towers. 32 bits become 16; scales keep
    theirs."""
    halves = ("F32",) if model.quantization is None else ()
    sizes = ((s.nbytes, s.dtype) for s in model.stored if s.role not in ("multimodal", "other"))
    return sum(size // 2 if dtype in halves else size for size, dtype in sizes)


def base_of(model: str, gpus: tuple[Device, ...], engine: str) -> tuple[Deployment, tuple[str, ...]]:
    from oomph.answers.bare_plan import capability_notes, parse

    own = engine_named(engine_name(engine))
    if not fills(own, "fit_knobs"):
        card = gpus[0].name.removesuffix(" GPU") if gpus else ""  # a size alone: "24GiB GPU"
        where = f"--gpu '{len(gpus)}x {card}'" if len(gpus) > 1 else f"--gpu '{card}'" if gpus else ""
        raise CannotPlan(
            f"fit searches no flags of {own.title}, which moves layers to the CPU instead",
            hint=f"oomph compare {model} {where} --engines {own.name} finds its file and slots",
        )
    require_kernels(own, gpus)
    base = replace(parse(own.serve_command(model), engine), gpus=gpus, place=Place())
    if missing := own.missing_kernels(base):
        raise NoKernels(missing, hint=f"oomph compare {model} names the engines that serve it on these GPUs")
    if (nodes := len({device.node for device in gpus})) > 1:
        base = replace(base, flags={**base.flags, **own.node_flags(nodes)})
    return base, (*base.notes, *capability_notes(gpus))


def engine_name(request: str) -> str:
    """The engine that --engine asks for."""
    from oomph.commands.call import split_engine

    return split_engine(request)[0] if request else DEFAULT


def knobs_of(deployment: Deployment) -> FitKnobs:
    engine = engine_of(deployment)
    knobs = engine.fit_knobs(deployment.engine.version)
    if knobs is None:
        raise CannotPlan(f"the best flags for {engine.title} cannot be searched yet")
    return knobs


def parallel_flag(knobs: FitKnobs) -> str:
    """The flag for the GPUs that share a layer, by its field name."""
    return "tp_size" if "tp_size" in knobs.known_flags else "tensor_parallel_size"


def models_of(base: Deployment, only: bool, also: Sequence[str]) -> tuple[dict[str, Model], list[Refused]]:
    from oomph import catalog
    from oomph.answers.bare_plan import load
    from oomph.sources.load import is_local

    first = load(base.model)
    if first.opaque or not first.layers:
        raise CannotPlan(f"the architecture of {first.name} is not known: its caches would be a guess")
    # a folder of this machine is called by its path, in every command that is written
    models: dict[str, Model] = {base.model if is_local(base.model) else first.name: first}
    refused = []
    others = () if only else catalog.variants(first.name)
    for name in dict.fromkeys((*others, *also)):
        if name in models:
            continue
        try:
            models[name] = load(name)
        except OomphError as error:
            refused.append(Refused(name, error.message))
    return models, refused
