"""One deployment on its way through a plan: the context that every step of it gets."""

from __future__ import annotations

from functools import cached_property

from msgspec import Struct

from oomph.engines.vllm.reading import as_read
from oomph.engines.vllm.resolve import Resolved, resolve
from oomph.engines.vllm.traits import traits_of
from oomph.facts.vllm.facts import at
from oomph.ir.deployment import Deployment
from oomph.ir.hardware import Device
from oomph.ir.model import Model


class Rank(Struct, frozen=True):
    """One worker process and its GPU."""

    index: int
    tp_rank: int
    pp_rank: int
    device: Device


class Run:
    """A model under a deployment. `draft`: the model that --speculative-config names, where it is another one."""

    def __init__(self, model: Model, deployment: Deployment, draft: Model | None = None) -> None:
        self.deployment = deployment
        self.device = deployment.gpus[0]
        self.facts = at(deployment.engine.version)
        self.traits = as_read(traits_of(model), self.facts, self.device.sm)
        self.draft = None if draft is None else as_read(traits_of(draft), self.facts, self.device.sm)

    @property
    def model(self) -> Model:
        """As the release reads it."""
        return self.traits.model

    @cached_property
    def settings(self) -> Resolved:
        return resolve(self.model, self.deployment, self.draft.model if self.draft else None)

    @cached_property
    def is_distributed(self) -> bool:
        return self.settings.tensor_parallel_size * self.settings.pipeline_parallel_size > 1
