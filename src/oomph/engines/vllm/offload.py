"""Weights kept in host memory: --cpu-offload-gb, and the groups of --offload-group-size (model_executor/offloader)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from oomph.units import GIB


class Offload(Struct, frozen=True):
    """Which parameters of the decoder layers leave the GPU once their layer is built."""

    budget: int = 0  # uva.py: parameters in order until so many bytes are gone
    group: int = 0  # prefetch.py: of every `group` layers the last `last`
    last: int = 1
    step: int = 1  # sets of parameters that the GPU keeps room for
    params: frozenset[str] = frozenset()  # only parameters with one of these name segments; none = all

    @property
    def active(self) -> bool:
        return bool(self.budget or self.group)

    def takes(self, layer: int, gone: int, parameter: str) -> bool:
        """`layer`: index within the stage; `gone`: bytes already offloaded."""
        if self.params and not any(f".{p}." in f".{parameter}." for p in self.params):
            return False
        if self.group:
            return layer % self.group >= self.group - self.last
        return gone < self.budget


def offload_for(flags: Mapping[str, Any]) -> Offload:
    """config/offload.py: with both given and no backend named, the groups win."""
    group = int(flags.get("offload_group_size") or 0)
    backend = str(flags.get("offload_backend") or "auto")
    if group and backend != "uva":
        return Offload(
            group=group,
            last=int(flags.get("offload_num_in_group") or 1),
            step=int(flags.get("offload_prefetch_step") or 1),
            params=frozenset(map(str, flags.get("offload_params") or ())),
        )
    if backend == "prefetch":
        return Offload()
    budget = int(float(flags.get("cpu_offload_gb") or 0) * GIB)
    return Offload(budget=budget, params=frozenset(map(str, flags.get("cpu_offload_params") or ())))
