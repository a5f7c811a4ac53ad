"""What a request makes of the catalogue: the checkpoints, and the spaces that are searched."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from oomph.engines.protocol import FitKnobs, fills
from oomph.engines.registry import DEFAULT, engine_named, engine_of
from oomph.errors import CannotPlan, OomphError
from oomph.ir import Deployment, Device, Model
from oomph.search.space import (
    FEWER_TOKENS,
    Arm,
    Options,
    Space,
    arms_of,
    context_ladder,
    is_moe,
    layouts,
    user_levels,
    utilisation_grid,
)
from oomph.units import GIB


class Want(Struct, frozen=True):
    context: int = 0  # 0 = not said
    users: int = 0
    prefer: str = ""
    options: Options = Options()


class Refused(Struct, frozen=True):
    checkpoint: str
    why: str


class Spaces:
    """The spaces of one request: as asked, and what is looked at where that is not met."""

    def __init__(self, models: dict[str, Model], gpus: tuple[Device, ...], want: Want, base: Deployment) -> None:
        self.models, self.gpus, self.want, self.base = models, gpus, want, base
        self.knobs = knobs_of(base)
        self.default = self.knobs.default_share
        self.longest = max(m.max_position for m in models.values())
        shapes = layouts(len(gpus), moe=any(is_moe(m) for m in models.values()))
        here = sum(device.node == gpus[0].node for device in gpus)  # tensor-parallel groups stay inside a node
        self.shapes = tuple(shape for shape in shapes if shape.tp <= here)
        self.too_large: dict[str, int] = {}
        self.arms = self._arms(0, want.options)
        room = _room(gpus, len(gpus))
        # what the ranks keep together is at least the checkpoint without its towers
        self.too_large = {n: _least(m) - room for n, m in models.items() if _least(m) > room}

    def _arms(self, offload: int, options: Options) -> list[Arm]:
        out: list[Arm] = []
        for name, model in self.models.items():
            fitting = [
                shape
                for shape in self.shapes
                if _least(model) <= _room(self.gpus, shape.gpus) + offload * shape.gpus * GIB
                and (not shape.ep or is_moe(model))
            ]
            out += arms_of(name, model, fitting, options)
        engine = engine_of(self.base)
        return [arm for arm in out if self.knobs.known_flags >= engine.arm_flags(arm).keys()]

    def offloaded(self, gib_each: int) -> tuple[Arm, ...]:
        """Everything else is given up before weights are moved to the host."""
        options = replace(self.want.options, graphs=("eager",), prefix_off=(False,), tokens=(FEWER_TOKENS,))
        options = replace(options, text_only=options.text_only[-1:], drafts=options.drafts[:1])
        return tuple(replace(a, offload_gib=gib_each) for a in self._arms(gib_each, options) if not a.layout.ep)

    def space(self, context: int, users: int, arms: Sequence[Arm] | None = None) -> Space:
        return Space(
            tuple(self.arms if arms is None else arms),
            context_ladder(context, self.longest),
            tuple(n for n in user_levels(users) if n >= (users or 1)),
            utilisation_grid(self.default, engine_of(self.base).highest_share(self.gpus)),
        )


def _room(gpus: tuple[Device, ...], count: int) -> int:
    return sum(g.total_bytes - g.used_bytes for g in gpus[:count])


def _least(model: Model) -> int:
    return sum(s.nbytes for s in model.stored if s.role not in ("multimodal", "other"))


def base_of(model: str, gpus: tuple[Device, ...], engine: str) -> tuple[Deployment, tuple[str, ...]]:
    from oomph.planning import capability_notes, parse

    chosen = engine_named(engine_name(engine))
    if not fills(chosen, "fit_knobs"):
        where = f"--gpu '{len(gpus)}x {gpus[0].name}'" if len(gpus) > 1 else f"--gpu '{gpus[0].name}'" if gpus else ""
        raise CannotPlan(
            f"fit searches no flags of {chosen.title}, which moves layers to the CPU instead",
            hint=f"oomph compare {model} {where} --engines {chosen.name} finds its file and slots",
        )
    base = parse(chosen.serve_command(model), engine)
    if len({device.node for device in gpus}) > 1 and base.engine.name == DEFAULT:
        base = replace(base, flags={**base.flags, "distributed_executor_backend": "ray"})
    return replace(base, gpus=gpus), (*base.notes, *capability_notes(gpus))


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
    from oomph.planning import load
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
