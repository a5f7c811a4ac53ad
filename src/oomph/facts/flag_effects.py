"""What flags that a plan does not read do to memory: the sentences that a plan says of them, for every engine.

Every flag of an engine is either read by its plan or listed in the engine's own tables (facts/ENGINE/flag_effects.py):
because it does not touch GPU memory, because people expect that it does and it does not, or because it does and the
plan does not know how much.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

_OFF: tuple[Any, ...] = (None, False, "", 0, "auto", (), [], {})


class Effects(Struct, frozen=True):
    no_memory: Mapping[str, str]  # reason -> fields
    not_on_the_gpu: Mapping[str, str]  # field -> what is as before, or where the memory is
    not_planned: Mapping[str, str]  # field -> what it would change
    # Read by the plan for another reason; what people set them for is on the host.
    on_the_host: Mapping[str, str] = {}

    def listed(self) -> list[str]:
        silent = (field for fields in self.no_memory.values() for field in fields.split())
        return [*self.not_on_the_gpu, *self.not_planned, *silent]

    def sentences(self, flags: Mapping[str, Any], spellings: Mapping[str, str]) -> Iterable[str]:
        """Of the flags that are set; `spellings`: a field as the user writes it."""
        for field, value in flags.items():
            if value in _OFF:
                continue
            name = spellings.get(field, field)
            if field in self.not_on_the_gpu:
                yield f"{name} does not change GPU memory: {self.not_on_the_gpu[field]}"
            elif field in self.on_the_host:
                yield f"{name} takes host memory: {self.on_the_host[field]}"
            elif field in self.not_planned:
                yield f"{name} is not in this plan: {self.not_planned[field]}"


def by_field(groups: Mapping[str, str]) -> dict[str, str]:
    """Reasons with their fields, turned around."""
    return {field: why for why, fields in groups.items() for field in fields.split()}
