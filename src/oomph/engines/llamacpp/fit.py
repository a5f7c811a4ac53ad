"""`--fit` (on by default): common_fit_params (common/fit.cpp), step by step as it decides.

1. Nothing changes if every GPU keeps its margin. 2. The context shrinks towards --fit-ctx, unless -c was given.
3. Layers fill the GPUs from the back; of a mixture of experts without the experts. 4. Its experts then fill them from
the front, and of one layer more a part, the rest of which goes to the next GPU or to the CPU.
"""

from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from oomph.engines.llamacpp.measure import Subject, measure
from oomph.engines.llamacpp.settings import PAD, Settings, with_context
from oomph.facts.llamacpp.backends import CUDA, Backend
from oomph.facts.llamacpp.builds import contexts_for
from oomph.text.tables import first_that_holds
from oomph.units import MIB

Extra = Callable[[int], Sequence[int]]  # of a context: bytes on each GPU
# common_layer_fraction_t: what of a layer goes elsewhere
EXPERTS = r"\.ffn_(up|down|gate_up|gate)_(ch|)exps"
OVERFLOW = {
    "experts": EXPERTS, "attention": r"\.ffn_(gate|up|gate_up|down).*", "up": r"\.ffn_(gate|gate_up|down).*",
    "gate": r"\.ffn_down.*",
}  # fmt: skip


class Fitted(Struct, frozen=True):
    settings: Settings
    aborted: str = ""  # llama.cpp's sentence; loading goes on with the parameters as they are
    context_from: int = 0  # the context before it was shrunk


class Share(Struct, frozen=True):
    """ngl_t: layers of one GPU; of `part` of them something is elsewhere."""

    layers: int = 0
    part: int = 0
    overflow: str = "experts"  # of the first such layer; the others lose their experts
    target: str = "CPU"

    @property
    def full(self) -> int:
        return self.layers - self.part


Shares = tuple[Share, ...]


def fit(
    subject: Subject, current: Settings, free: Sequence[int], *, extra: Extra | None = None, backend: Backend = CUDA
) -> Fitted:
    """`free`: of each GPU when llama.cpp looks; `extra`: what a projector or draft model adds to each GPU."""
    if not current.fit:
        return Fitted(current)
    if not current.ctx_asked or current.ctx_zero:
        current = with_context(current, current.n_ctx_train * contexts_for(current.build, current))
    if not free:
        return Fitted(current)
    return _Fit(subject, current, free, extra, backend).run()


class _Fit:
    def __init__(
        self, subject: Subject, settings: Settings, free: Sequence[int], extra: Extra | None, backend: Backend
    ) -> None:
        self.subject, self.settings, self.free, self.backend = subject, settings, free, backend
        self.extra = extra or (lambda _: [0] * len(free))
        self.targets = [size - _margin(settings, index) for index, size in enumerate(free)]
        drafts = len(subject.model.drafts) if settings.load_mtp else 0
        self.layers = len(subject.model.layers) + drafts  # hp_ngl
        self.routed = any(".ffn_down_exps" in tensor.name for tensor in subject.tensors)

    def used(self, settings: Settings) -> list[int]:
        measured = measure(self.subject, settings, self.free, backend=self.backend, fitting=True)
        beside = self.extra(settings.n_ctx)
        return [use.own + more for use, more in zip(measured.devices, beside, strict=True)]

    def run(self) -> Fitted:
        before = self.settings.n_ctx
        used = self.used(self.settings)
        if all(size <= target for size, target in zip(used, self.targets, strict=True)):
            return Fitted(self.settings)
        if sum(used) > sum(self.targets) and not self.settings.ctx_asked:
            done = self.less_context(sum(used))
            if done:
                return Fitted(self.settings, context_from=before)
        changed = before if self.settings.n_ctx != before else 0
        if abort := _abort(self.settings, len(self.free)):
            return Fitted(self.settings, aborted=abort, context_from=changed)
        return Fitted(self.settings_of(self.fill()), context_from=changed)

    def less_context(self, used: int) -> bool:
        """Linear between the two ends; True: that is enough on one GPU."""
        settings, streams = self.settings, self.settings.n_stream
        low, high = settings.fit_ctx * streams, settings.n_ctx_train * contexts_for(settings.build, settings)
        if high <= low:
            return False
        target = sum(self.targets)
        if len(self.free) > 1:
            model = measure(self.subject, settings, self.free, backend=self.backend, fitting=True)
            per_layer = sum(use.weights for use in model.devices) // max(self.layers, 1)
            target -= (len(self.free) + 1) * per_layer // (6 if self.routed else 2)
        least = sum(self.used(with_context(settings, low)))
        if target <= least:
            self.settings = with_context(settings, low)
            return False
        context = low + (high - low) * (target - least) // max(used - least, 1)
        context = max(context - context % (PAD * streams), low)
        self.settings = with_context(settings, context)
        return len(self.free) == 1

    # layers per GPU

    def settings_of(self, shares: Shares) -> Settings:
        """set_ngl_tensor_split_tbo."""
        total = sum(share.layers for share in shares)
        layer = self.layers + 1 - total
        overrides = []
        for share in shares:
            layer += share.full
            for index in range(layer, layer + share.part):
                first = index == layer
                pattern = OVERFLOW[share.overflow if first else "experts"]
                overrides.append((rf"blk\.{index}{pattern}", share.target if first else "CPU"))
            layer += share.part
        split = tuple(float(share.layers) for share in shares) if len(shares) > 1 else ()
        return replace(self.settings, n_gpu_layers=total, tensor_split=split, overrides=tuple(overrides))

    def memory(self, shares: Shares) -> list[int]:
        return self.used(self.settings_of(shares))

    def fill(self) -> Shares:
        surplus = 0
        if self.routed:
            bare = replace(self.settings, overrides=((rf"blk\.\d+{EXPERTS}", "CPU"),))
            surplus = sum(self.targets) - sum(self.used(bare))
        shares: Shares = (Share(),) * len(self.free)
        for device in reversed(range(len(self.free))):
            shares = self.fill_back(shares, device)
        if not self.routed or surplus <= 0:
            return shares
        return self.fill_front(shares)

    def fill_back(self, shares: Shares, device: int) -> Shares:
        """Step 3, by false position: as many layers as the GPU takes, without experts."""
        last = device == len(shares) - 1
        left = self.layers + 1 - sum(share.layers for share in shares[device + 1 :])
        if left <= 0:
            return shares
        high = _with(shares, device, Share(left, (left - 1 if last else left) if self.routed else 0))
        used, most, target = self.memory(shares), self.memory(high), self.targets[device]
        if most[device] <= target:
            return high
        delta = high[device].layers - shares[device].layers
        while delta > 1:
            step = _step(delta, target, used[device], most[device])
            now = shares[device]
            part = now.part + (step - 1 if last and not now.part else step) if self.routed else 0
            trial = _with(shares, device, replace(now, layers=now.layers + step, part=part))
            memory = self.memory(trial)
            if memory[device] <= target:
                shares, used = trial, memory
            else:
                high, most = trial, memory
            delta = high[device].layers - shares[device].layers
        return shares

    def fill_front(self, shares: Shares) -> Shares:
        """Step 4: layers without experts in the back become whole layers in the front."""
        count = len(shares)
        start = next((d for d in range(count) if all(s.layers for s in shares[d:])), count - 1)
        used = self.memory(shares)
        device = 0
        while device <= start < count:
            shares, start, used = self.convert(shares, start, used, device)
            shares, start, used = self.part_of_a_layer(shares, start, used, device)
            device += 1
        return shares

    def convert(self, shares: Shares, start: int, used: list[int], device: int) -> tuple[Shares, int, list[int]]:
        count, target = len(shares), self.targets[device]
        high, high_start = shares, count - 1
        for donor in range(start, count):
            moved = high[donor].layers - (donor == count - 1)
            high = _with(high, device, replace(high[device], layers=high[device].layers + moved))
            high = _with(high, donor, replace(high[donor], layers=high[donor].layers - moved, part=0))
        most = self.memory(high)
        if most[device] <= target:
            return high, high_start, most
        delta = high[device].full - shares[device].full
        while delta > 1:
            step = _step(delta, target, used[device], most[device])
            trial, trial_start = _converted(shares, start, step, device)
            memory = self.memory(trial)
            if memory[device] <= target:
                shares, start, used = trial, trial_start, memory
            else:
                high, most = trial, memory
            delta = high[device].full - shares[device].full
        return shares, start, used

    def part_of_a_layer(
        self, shares: Shares, start: int, used: list[int], device: int
    ) -> tuple[Shares, int, list[int]]:
        count = len(shares)
        if start >= count or shares[start].layers <= (0 if device < count - 1 else 1):
            return shares, start, used
        donor = shares[start]
        trial = _with(shares, start, replace(donor, layers=donor.layers - 1, part=donor.part - 1))
        trial_start = start + (trial[start].part == 0)
        target = f"{self.backend.name}{device + 1}" if device < count - 1 else "CPU"
        fitting = self.try_part(trial, device, "up", target)
        second = self.try_part(trial, device, "attention" if fitting is None else "gate", target)
        best = second or fitting
        return (shares, start, used) if best is None else (best[0], trial_start, best[1])

    def try_part(self, shares: Shares, device: int, overflow: str, target: str) -> tuple[Shares, list[int]] | None:
        now = shares[device]
        trial = _with(shares, device, Share(now.layers + 1, now.part + 1, overflow, target))
        memory = self.memory(trial)
        beside = range(device, min(device + 2, len(shares)))
        return (trial, memory) if all(memory[d] < self.targets[d] for d in beside) else None


def _with(shares: Shares, device: int, share: Share) -> Shares:
    return (*shares[:device], share, *shares[device + 1 :])


def _step(delta: int, target: int, low: int, high: int) -> int:
    step = int(delta * (target - low) / (high - low)) if high != low else 1
    return min(max(step, 1), delta - 1)


def _converted(shares: Shares, start: int, step: int, device: int) -> tuple[Shares, int]:
    done = 0
    while start < len(shares):
        donor = shares[start]
        count = min(step - done, donor.part)
        shares = _with(shares, start, replace(donor, layers=donor.layers - count, part=donor.part - count))
        shares = _with(shares, device, replace(shares[device], layers=shares[device].layers + count))
        done += count
        if shares[start].part > 0:
            break
        start += 1
    return shares, start


def _margin(settings: Settings, device: int) -> int:
    return settings.fit_target[min(device, len(settings.fit_target) - 1)] * MIB


def _abort(settings: Settings, gpus: int) -> str:
    layers, mode = settings.n_gpu_layers, settings.split_mode
    failed = "failed to fit params to free device memory"
    return first_that_holds(
        (mode == "tensor", "llama_params_fit is not implemented for SPLIT_MODE_TENSOR, abort"),
        (layers >= 0 or layers < -1, f"{failed}: n_gpu_layers already set by user to {layers}, abort"),
        (gpus > 1 and any(settings.tensor_split), f"{failed}: model_params::tensor_split already set by user, abort"),
        (
            gpus > 1 and mode == "row",
            "changing weight allocation for LLAMA_SPLIT_MODE_ROW not implemented, abort",
        ),
        (settings.overrides, f"{failed}: tensor_buft_overrides already set by user, abort"),
    )
