"""The context beside the main one: a draft model's, or that of the model's own layers of multi-token prediction.

common_base_params_to_speculative (common/speculative.cpp): it has everything that the main one has, but for its own
model, layers, devices, overrides and cache types, and one output for each sequence.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from oomph.engines.llamacpp.cache import refusal
from oomph.engines.llamacpp.measure import Placement, Subject, measure, subject, targets_of
from oomph.engines.llamacpp.settings import Settings, device_numbers, resolve, with_context
from oomph.errors import CannotPlan, OomphError
from oomph.facts.llamacpp.backends import Backend
from oomph.ir import Model

# What a draft model has of its own, and what both kinds have.
_OWN = {
    "n_gpu_layers": "n_gpu_layers_draft", "override_tensor": "override_tensor_draft", "device": "device_draft",
}  # fmt: skip
_CACHE = {"cache_type_k": "cache_type_k_draft", "cache_type_v": "cache_type_v_draft"}
_MAIN_ALONE = ("embeddings", "reranking", "pooling", "spec_type", "spec_default", "model_draft", "hf_repo_draft")
_NOTHING = ("^$", "CPU")  # "has_tensor_overrides": llama.cpp asks whether there are any, not what they take


class Extra(Struct, frozen=True):
    """What a projector or another context adds to a GPU, and to the host."""

    name: str
    device: int
    weights: int
    kv: int
    compute: int
    compute_high: int
    state: int = 0
    host_weights: int = 0
    host_kv: int = 0
    host_state: int = 0
    host_compute: int = 0
    output: int = 0


class Drafter(Struct, frozen=True):
    name: str
    subject: Subject
    settings: Settings
    devices: tuple[int, ...] | None = None  # --device-draft; None: those of the main model
    is_within: bool = False  # its weights are layers of the main model
    context: int = 0  # -cd of builds before b9246; 0: the main model's

    def refusal(self, main: Settings) -> str:
        no = refusal(self.subject.model.layers, with_context(self.settings, main.n_ctx))
        return f"{self.name}: {no.message}" if no else ""

    def extras(
        self, main: Settings, placed: Placement, free: Sequence[int], backend: Backend, *, fitting: bool = False
    ) -> list[Extra]:
        """`placed`: the main model; `free`: of each GPU when this one is loaded."""
        devices = tuple(range(len(free))) if self.devices is None else self.devices
        settings = with_context(
            replace(self.settings, tensor_split=main.tensor_split[: len(devices)]), self.context or main.n_ctx
        )
        if self.devices is not None and len(devices) == 1:
            settings = replace(settings, split_mode="layer")
        trunk = None
        if self.is_within:
            trunk = placed
            settings = replace(settings, overrides=self._renumbered(main, len(placed.units), len(free)))
        here = [free[device] for device in devices]
        measured = measure(self.subject, settings, here, backend=backend, fitting=fitting, trunk=trunk)
        host = measured.host
        extras = [Extra(
            self.name, -1, 0, 0, 0, 0, host_weights=0 if self.is_within else host.weights,
            host_kv=host.kv,
            host_state=host.state, host_compute=host.compute.nbytes, output=measured.output,
        )]  # fmt: skip
        for device, use in zip(devices, measured.devices, strict=True):
            weights, buffer = 0 if self.is_within else use.weights, use.compute
            if weights or use.kv or use.state or buffer.nbytes:
                extras.append(Extra(self.name, device, weights, use.kv, buffer.nbytes, buffer.high, state=use.state))
        return extras

    def _renumbered(self, main: Settings, units: int, gpus: int) -> tuple[tuple[str, str], ...]:
        """The main model's overrides, as they take these layers, whose own numbers begin at 0."""
        if not main.overrides:
            return ()
        first = units - self.subject.units
        old = {
            f"blk.{int(number) + first}.{rest}": name
            for name in self.subject.names
            if name.startswith("blk.")
            for _, number, rest in (name.split(".", 2),)
        }
        homes = targets_of(main, gpus, tuple(old))
        names = {-1: "CPU"} | {gpu: f"CUDA{gpu}" for gpu in range(gpus)}
        rules = (("^" + old[name].replace(".", r"\.") + "$", names[device]) for name, device in homes.items())
        return (*rules, _NOTHING)


def draft_model(flags: Mapping[str, Any], name: str, model: Model, build: int) -> Drafter:
    try:
        drafter = subject(model)
    except OomphError as bad:
        raise CannotPlan(f"the draft model {name[:120]!r}: {bad.message}") from None
    own = {field: flags[name] for field, name in _OWN.items() if name in flags}
    others = {field: value for field, value in flags.items() if field not in _OWN}
    settings = _resolved({**others, **own}, model, build)
    devices = _positions(str(own["device"]), flags.get("device")) if "device" in own else None
    return Drafter("draft model", drafter, settings, devices, context=flags.get("ctx_size_draft") or 0)


def predicting_layers(flags: Mapping[str, Any], model: Model, build: int) -> Drafter:
    own = tuple(replace(layer, index=index) for index, layer in enumerate(model.drafts))
    settings = _resolved({**flags, "override_tensor": ()}, model, build)
    return Drafter("MTP context", subject(replace(model, layers=own, drafts=())), settings, is_within=True)


def _positions(text: str, visible: Any) -> tuple[int, ...]:
    """Among the GPUs that the main model sees."""
    numbers = device_numbers(text)
    if not visible:
        return numbers
    visible_numbers = device_numbers(str(visible))
    if any(number not in visible_numbers for number in numbers):
        raise CannotPlan(f"--device-draft {text[:60]} names a GPU that --device leaves out: that is not planned")
    return tuple(visible_numbers.index(number) for number in numbers)


def _resolved(flags: Mapping[str, Any], model: Model, build: int) -> Settings:
    cache = {field: flags.get(name, "f16") for field, name in _CACHE.items()}
    plain = {field: value for field, value in flags.items() if field not in _MAIN_ALONE}
    return resolve(
        {**plain, **cache}, model.max_position, build, program=flags.get("program", "server"),
        flash=bool(model.param("flash_attention", 1)),
        pooling=model.param("pooling_type", ""),  # type: ignore[arg-type]
    )  # fmt: skip
