"""llama-swap: which of its models are loaded at the same time, and each such set packed.

Its groups decide (README of llama-swap, "groups"): `swap` lets one member run at a time (the default); `exclusive`
unloads every other group when a member is loaded (the default); `persistent` keeps others from unloading the group.
Models that no group names share one group with the defaults.
"""

from collections.abc import Mapping, Sequence
from itertools import chain, islice, product
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from oomph.ir import Deployment, Device
from oomph.pack.fill import Progress
from oomph.pack.pack import Packed, pack

MOST = 64  # sets that are packed; a file that allows more is answered for these


class _Group(Struct, frozen=True):
    members: tuple[str, ...]
    swap: bool
    exclusive: bool
    persistent: bool

    @property
    def alternatives(self) -> list[tuple[str, ...]]:
        return [(member,) for member in self.members] if self.swap else [self.members]


def loaded_together(document: Mapping[str, Any], names: Sequence[str]) -> list[tuple[str, ...]]:
    """The largest sets of `names` that a configuration loads at once. An exclusive group ends the others when it is
    loaded, but what is loaded after it stays beside it, unless that is exclusive too."""
    groups = _groups(document, names)
    beside = [group for group in groups if group.persistent or not group.exclusive]
    alone: list[_Group | None] = [group for group in groups if group not in beside] or [None]
    sets: list[tuple[str, ...]] = []
    for group in alone:
        choices = [each.alternatives for each in (*([group] if group else []), *beside)]
        sets += [tuple(chain(*choice)) for choice in islice(product(*choices), MOST)]
    return sets[:MOST]


def _groups(document: Mapping[str, Any], names: Sequence[str]) -> list[_Group]:
    described = document.get("groups")
    groups, grouped = [], set[str]()
    for group in described.values() if isinstance(described, dict) else ():
        listed = group.get("members") if isinstance(group, dict) else None
        members = tuple(name for name in names if isinstance(listed, list) and name in listed and name not in grouped)
        if members:
            flags = (group.get("swap", True), group.get("exclusive", True), group.get("persistent", False))
            groups.append(_Group(members, *(flag is True for flag in flags)))
            grouped |= set(members)
    rest = tuple(name for name in names if name not in grouped)
    return [*groups, _Group(rest, True, True, False)] if rest else groups


def pack_each(
    deployments: Mapping[str, Deployment],
    sets: Sequence[tuple[str, ...]],
    cards: Sequence[Device],
    *,
    ram: int,
    asleep: Sequence[str],
    solver: str,
    progress: Progress | None = None,
) -> Packed:
    """Every set packed; the answer is the worst of them, and of several that fit the fullest."""
    answers = []
    for names in sets:
        together = {name: deployments[name] for name in deployments if name in names}
        sleeping = [name for name in asleep if name in together]
        answers.append(pack(together, cards, ram=ram, asleep=sleeping, solver=solver, progress=progress))
    order = ("fits", "at_risk", "close", "fails")
    worst = max(answers, key=lambda packed: (order.index(packed.outcome), -_least_free(packed)))
    listed = "; ".join(", ".join(names) for names in sets[:8]) + ("; ..." if len(sets) > 8 else "")
    failing = sum(packed.outcome == "fails" for packed in answers)
    shown = f"{failing} of them do not fit" if failing else "the fullest is shown"
    note = f"llama-swap loads these together: {listed}. Each set was packed, {shown}"
    return replace(worst, notes=(*worst.notes, note))


def _least_free(packed: Packed) -> int:
    return min((packed.free_of(number) for number in range(len(packed.cards))), default=0)
