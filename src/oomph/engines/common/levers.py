"""What helps with any engine that batches requests: another checkpoint, more of the same cards, larger ones."""

from collections.abc import Callable, Iterator, Sequence
from math import log
from typing import Any

from oomph.catalog import Entry
from oomph.engines.registry import has_kernels
from oomph.facts.gpus import find as find_card
from oomph.ir import Change, Lever, Model, Plan, StageName
from oomph.units import gib

NotRead = dict[StageName, str]  # why a setting is not read at a stage
Setting = tuple[Any, str]  # a value, what it costs

_MOST_CHECKPOINTS = 5
_MOST_GPUS = 32
# Cards that people buy or rent when theirs is too small, by memory.
_LARGER = (
    "RTX 3060 12GB", "RTX 5060 Ti 16GB", "RTX 4090", "RTX 5090", "L40S", "A100 80GB", "RTX PRO 6000", "H200", "B200",
    "B300",
)  # fmt: skip


def typed(name: str, value: Any) -> str:
    """A flag of this name and value, as it is typed."""
    if value is None:
        return f"without {name}"
    if isinstance(value, bool):
        return name if value else "--no-" + name[2:]
    return f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"


def checkpoint_levers(plan: Plan, model: Model, moves: tuple[str, ...], dropped: Sequence[str] = ()) -> Iterator[Lever]:
    """Other checkpoints of the same model, the least quantised first. `dropped`: flags that were for the old one."""
    from oomph import catalog

    if plan.verdict.stage == "startup_free_memory":
        return
    entries = [catalog.find(name) for name in catalog.variants(model.name) if name != model.name]
    room = sum(device.total_bytes for device in plan.deployment.gpus)
    most = min(room, model.nbytes) if model.nbytes else room
    smaller = _unlike([entry for entry in entries if entry and entry.bytes < most], model.name.partition("/")[0])
    flags: dict[str, Any] = {name: None for name in dropped if name in plan.deployment.flags}
    for entry in smaller[:_MOST_CHECKPOINTS]:
        download = f"a download of {gib(entry.bytes)}" if entry.bytes else "another download"
        change = Change(
            "checkpoint", entry.id, "checkpoint", dict(flags), model=entry.id, cost=download, moves=moves,
        )  # fmt: skip
        yield Lever("checkpoint", (change,))


def _unlike(entries: Sequence[Entry], owner: str) -> list[Entry]:
    """The largest first; of those within two hundredths of the same size one, the maker's own before others."""
    ordered = sorted(entries, key=lambda entry: (entry.id.partition("/")[0] != owner, -entry.bytes, entry.id))
    by_size: dict[int, Entry] = {}
    for entry in ordered:
        by_size.setdefault(round(50 * log(max(entry.bytes, 1))), entry)
    return sorted(by_size.values(), key=lambda entry: -entry.bytes)


def idle_cards_lever(
    plan: Plan, field: str, spell: Callable[[str, int], str], world: int, moves: tuple[str, ...], rank: int = 2
) -> Iterator[Lever]:
    """The model over twice, four and eight times the GPUs in use, where these are there."""
    size = int(plan.resolved[field])
    changes = tuple(
        Change(
            field, spell(field, size * times), "layout", {field: size * times}, cost=f"on {world * times} GPUs",
            rank=rank, moves=moves,
        )
        for times in (2, 4, 8)
        if world * times <= len(plan.deployment.gpus)
    )  # fmt: skip
    if changes:
        yield Lever(field, changes, popular=rank == 2)


def replicas_lever(
    plan: Plan, field: str, copies_field: str, spell: Callable[[str, int], str], moves: tuple[str, ...]
) -> Iterator[Lever]:
    """One server over the GPUs on which replicas of it do not start."""
    copies = plan.deployment.flags.get(copies_field)
    if plan.verdict.outcome == "fits" or not isinstance(copies, int) or copies < 2:
        return
    size = int(plan.resolved[field]) * copies
    label = f"{spell(field, size)} without {spell(copies_field, copies).split()[0]}"
    change = Change(
        "replicas", label, "layout", {field: size, copies_field: None}, cost=f"one server instead of {copies}",
        moves=moves,
    )  # fmt: skip
    yield Lever("replicas", (change,))


def more_cards_lever(
    plan: Plan, field: str, spell: Callable[[str, int], str], world: int, moves: tuple[str, ...]
) -> Iterator[Lever]:
    """As many more of the same cards as make twice, four and eight times the GPUs in use share the model."""
    gpus, size = plan.deployment.gpus, int(plan.resolved[field])
    changes = tuple(
        Change(
            field, spell(field, size * times), "hardware", {field: size * times}, gpus=gpus[:1] * (world * times),
            cost=f"{world * times} x {gpus[0].name} instead of {len(gpus)}", rank=2, moves=moves,
        )
        for times in (2, 4, 8)
        if len(gpus) < world * times <= _MOST_GPUS
    )  # fmt: skip
    if changes:
        yield Lever("more_gpus", changes, popular=True)


def larger_cards_lever(plan: Plan, moves: tuple[str, ...]) -> Iterator[Lever]:
    gpus = plan.deployment.gpus
    larger = (card for name in _LARGER if (card := find_card(name).device()).total_bytes > gpus[0].total_bytes)
    cards = [card for card in larger if has_kernels(plan.deployment, card)]
    if len({device.name for device in gpus}) > 1 or not cards:
        return
    count = f"{len(gpus)} x " if len(gpus) > 1 else ""
    yield Lever("larger_gpu", tuple(
        Change("larger_gpu", f"on {count}{card.name}", "hardware", gpus=(card,) * len(gpus),
               cost=f"instead of {count}{gpus[0].name}", rank=3, moves=(*moves, "context"))
        for card in sorted(cards, key=lambda card: card.total_bytes)
    ))  # fmt: skip
