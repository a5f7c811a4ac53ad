"""One deployment on its way through a plan: the context that every step of it gets."""

from functools import cached_property, lru_cache

import msgspec
from msgspec.structs import replace

from oomph.engines.vllm.profile.live import LATENT_CONTEXT
from oomph.engines.vllm.resolve.modes import with_pooling
from oomph.engines.vllm.resolve.reading import as_read
from oomph.engines.vllm.resolve.steps import Resolved, resolve, share_apart
from oomph.engines.vllm.resolve.transformers import with_transformers
from oomph.engines.vllm.traits import REMEMBERED, traits_of
from oomph.facts.vllm.facts import at
from oomph.ir import Deployment, Model


class Alike:
    """A run without its share of the GPU: equal where all else is. The key of what does not depend on the share.
    `settings`: those in which two runs must agree as well, where more than the share is left out of the deployment."""

    __slots__ = ("deployment", "run", "settings", "text")

    def __init__(self, run: "Run", deployment: Deployment, settings: Resolved | None = None) -> None:
        self.run, self.deployment, self.settings = run, deployment, settings
        self.text = msgspec.msgpack.encode(deployment)

    def __hash__(self) -> int:
        return hash(self.text)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Alike) or self.text != other.text:
            return False
        same = self.run.traits is other.run.traits and self.run.draft is other.run.draft
        return same and self.settings == other.settings


class Run:
    """A model under a deployment. `draft`: the model that --speculative-config names, where it is another one."""

    def __init__(self, model: Model, deployment: Deployment, draft: Model | None = None) -> None:
        self.deployment = deployment
        self.device = deployment.gpus[0]
        self.facts = at(deployment.engine.version)
        built = with_transformers(traits_of(model), deployment.flags)
        served = with_pooling(built, deployment.flags, self.facts)
        self.traits = as_read(served, self.facts, self.device.sm)
        self.draft = None if draft is None else as_read(traits_of(draft), self.facts, self.device.sm)

    @property
    def model(self) -> Model:
        """As the release reads it."""
        return self.traits.model

    @cached_property
    def settings(self) -> Resolved:
        """What the share of the GPU is plays no part in any other setting: a search asks for many shares of one."""
        share, alike = share_apart(self.deployment)[0], self.alike
        if alike is None or share is None:
            return resolve(self.model, self.deployment, self.draft.model if self.draft else None)
        settled = _settings_of(alike)
        if settled.refusal is not None and settled.refusal.stage == "engine_config":
            return settled
        return replace(settled, gpu_memory_utilization=share)

    @cached_property
    def alike(self) -> Alike | None:
        """None where the flags hold what cannot be written down."""
        try:
            return Alike(self, share_apart(self.deployment)[1])
        except (TypeError, ValueError, OverflowError):
            return None

    @cached_property
    def alike_in_terms(self) -> Alike | None:
        """What the terms of a rank depend on: of the context only as much as is read. A search and the advice ask for
        many contexts of one command."""
        alike = self.alike
        is_read = self.traits.caps_rotary_tables or self.draft is not None
        if alike is None or is_read or "max_model_len" not in alike.deployment.flags:
            return alike
        flags = {name: value for name, value in alike.deployment.flags.items() if name != "max_model_len"}
        length = min(self.settings.max_model_len, self._read_context)
        settings = replace(self.settings, max_model_len=length, gpu_memory_utilization=0.0)
        return Alike(self, replace(alike.deployment, flags=flags), settings)

    @property
    def _read_context(self) -> int:
        """How long a context may become before the terms of a rank stop to depend on it: latent attention has room for
        at most so much of it (live.py), and an encoder's input is never longer than its longest one (encoder.py)."""
        latent = LATENT_CONTEXT if self.traits.is_mla else 0
        has_inputs = bool(self.model.towers) and not self.settings.flags.multimodal.text_only
        return max([latent, *(m.max_tokens for m in self.model.modalities if has_inputs)])

    @cached_property
    def is_distributed(self) -> bool:
        return self.settings.tensor_parallel_size * self.settings.pipeline_parallel_size > 1


@lru_cache(REMEMBERED)
def _settings_of(alike: Alike) -> Resolved:
    run = alike.run
    return resolve(run.model, alike.deployment, run.draft.model if run.draft else None)
