"""`--fit` (on by default): common_fit_params. It keeps a margin free on every GPU, or says why it does nothing.

1. Nothing changes if every GPU keeps its margin. 2. The context shrinks towards --fit-ctx, unless -c was given.
3. Layers move to the CPU, unless -ngl, -ts or -ot was given; a mixture of experts gives up its experts first.
"""

from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from oomph.engines.llamacpp.measure import Measured, Subject, measure
from oomph.engines.llamacpp.settings import PAD, Settings, with_context
from oomph.facts.llamacpp.flags import EXPERTS
from oomph.text.tables import first_that_holds
from oomph.units import MIB

Measure = Callable[[Settings], Measured]


class Fitted(Struct, frozen=True):
    settings: Settings
    notes: tuple[str, ...] = ()
    aborted: str = ""  # llama.cpp's sentence; loading goes on with the parameters as they are
    context_from: int = 0  # the context before it was shrunk


def fit(subject: Subject, current: Settings, free: Sequence[int], *, extra: Sequence[int] = ()) -> Fitted:
    """`free`: of each GPU when llama.cpp looks; `extra`: what a projector or draft model adds to a GPU's margin."""
    if not current.fit or not free or current.n_gpu_layers == 0:
        return Fitted(current)
    more = [*extra, *[0] * len(free)]
    targets = [f - _margin(current, i) - more[i] for i, f in enumerate(free)]

    def at(settings: Settings) -> Measured:
        return measure(subject, settings, free)

    if _holds(at(current), targets):
        return Fitted(current)
    before = current.n_ctx
    if not current.ctx_asked:
        current = _less_context(current, at, targets)
        if _holds(at(current), targets):
            return Fitted(current, context_from=before)
    changed = before if current.n_ctx != before else 0
    if abort := _abort(current):
        return Fitted(current, aborted=abort, context_from=changed)
    if any(".ffn_down_exps" in tensor.name for tensor in subject.tensors):
        moved = _experts(subject, current, at, targets)
        if moved is not None:
            return Fitted(moved, context_from=changed)
        current = replace(current, overrides=((EXPERTS, "CPU"),))
    return Fitted(_layers(subject, current, at, targets), context_from=changed)


def _margin(settings: Settings, device: int) -> int:
    return settings.fit_target[min(device, len(settings.fit_target) - 1)] * MIB


def _holds(measured: Measured, targets: Sequence[int]) -> bool:
    return all(use.own <= target for use, target in zip(measured.devices, targets, strict=True) if use.own)


def _abort(settings: Settings) -> str:
    layers, mode = settings.n_gpu_layers, settings.split_mode
    failed = "failed to fit params to free device memory"
    return first_that_holds(
        (mode in ("tensor", "row"), f"llama_params_fit is not implemented for SPLIT_MODE_{mode.upper()}, abort"),
        (layers >= 0 or layers < -1, f"{failed}: n_gpu_layers already set by user to {layers}, abort"),
        (settings.tensor_split, f"{failed}: model_params::tensor_split already set by user, abort"),
        (settings.overrides, f"{failed}: tensor_buft_overrides already set by user, abort"),
    )


def _less_context(settings: Settings, at: Measure, targets: Sequence[int]) -> Settings:
    """Between --fit-ctx and what was wanted, the longest context in steps of 256 that keeps the margins.

    llama.cpp interpolates between the two ends; memory is close to linear in the context, so both agree to a step.
    """
    step = PAD * settings.n_stream
    low, high = min(settings.fit_ctx, settings.n_ctx) // step, settings.n_ctx // step
    if not _holds(at(with_context(settings, max(low, 1) * step)), targets):
        return with_context(settings, max(low, 1) * step)
    while low < high:
        middle = (low + high + 1) // 2
        if _holds(at(with_context(settings, middle * step)), targets):
            low = middle
        else:
            high = middle - 1
    return with_context(settings, max(low, 1) * step)


def _layers(subject: Subject, settings: Settings, at: Measure, targets: Sequence[int]) -> Settings:
    """Back to front: the last GPU takes as many layers as it can, then the one before it."""
    left, counts = subject.units, [0] * len(targets)
    for device in reversed(range(len(targets))):
        low, high = 0, left
        while low < high:
            middle = (low + high + 1) // 2
            tried = [*counts]
            tried[device] = middle
            if _holds(at(_counts(settings, tried)), targets):
                low = middle
            else:
                high = middle - 1
        counts[device] = low
        left -= low
    return _counts(settings, counts)


def _counts(settings: Settings, counts: Sequence[int]) -> Settings:
    return replace(settings, n_gpu_layers=sum(counts), tensor_split=tuple(float(c) for c in counts))


def _experts(subject: Subject, settings: Settings, at: Measure, targets: Sequence[int]) -> Settings | None:
    """All layers on GPUs with the fewest experts on the CPU; None where even that is too much."""
    layers = len(subject.model.layers)

    def without(n: int) -> Settings:
        chosen = "|".join(str(i) for i in range(layers - n, layers))
        pattern = rf"blk\.({chosen}){EXPERTS}"
        return replace(settings, n_gpu_layers=subject.units, overrides=((pattern, "CPU"),)) if n else settings

    if not _holds(at(without(layers)), targets):
        return None
    low, high = 0, layers
    while low < high:
        middle = (low + high) // 2
        if _holds(at(without(middle)), targets):
            high = middle
        else:
            low = middle + 1
    return without(low)
