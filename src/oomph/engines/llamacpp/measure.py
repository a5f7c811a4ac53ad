"""What each device holds for given settings: the figures of llama.cpp's own memory breakdown."""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import accumulate

from msgspec import Struct
from msgspec.structs import replace

from oomph.engines.llamacpp.cache import LayerCache, layer_caches, output_bytes
from oomph.engines.llamacpp.compute import NO_BUFFER, Buffer, Layout, larger, reserved
from oomph.engines.llamacpp.graph.reserve import Outline, outline
from oomph.engines.llamacpp.settings import Settings
from oomph.engines.llamacpp.tensors import EVERYWHERE, INPUT, Tensor, tensors_of, units_of
from oomph.errors import CommandError
from oomph.facts.dtypes import BLOCKS
from oomph.facts.llamacpp.backends import CUDA, REPACKED, REPACKED_ROWS, Backend
from oomph.ir import Model, Role, State
from oomph.units import round_up


class Subject(Struct, frozen=True):
    """A model in GGUF form with what is asked of it again and again."""

    model: Model
    tensors: tuple[Tensor, ...]
    singles: tuple["Share", ...]  # each tensor alone
    shares: tuple["Share", ...]
    units: int  # layers, those of multi-token prediction, and the output
    outline: Outline
    names: tuple[str, ...]  # of every tensor, as it is called in the file and in a graph


class Use(Struct, frozen=True):
    weights: int
    parts: dict[str, int]
    kv: int
    state: int
    compute: Buffer
    kv_parts: dict[str, int]

    @property
    def own(self) -> int:
        """llama.cpp's "self": model + context + compute."""
        return self.weights + self.kv + self.state + self.compute.nbytes


class Measured(Struct, frozen=True):
    devices: tuple[Use, ...]
    host: Use
    output: int
    placement: "Placement"
    caches: tuple[LayerCache, ...]
    flash: bool  # flash attention, where -fa auto is resolved
    repacked: int = 0  # weights that a CPU alone lays out anew, in memory of its own


@lru_cache(maxsize=32)
def subject(model: Model) -> Subject:
    tensors = tensors_of(model)
    singles = tuple(map(share_of, tensors))
    drawn = outline(model, tensors)
    names = [*(tensor.name for tensor in tensors), *(piece.name for piece in drawn.root)]
    names += [f"blk.{index}.{piece.name}" for index, pieces, _ in drawn.layers for piece in pieces]
    return Subject(
        model, tensors, singles=singles, shares=merge(singles), units=units_of(model), outline=drawn,
        names=tuple(dict.fromkeys(names)),
    )  # fmt: skip


def measure(
    subject: Subject, settings: Settings, free: Sequence[int], *, backend: Backend = CUDA, fitting: bool = False,
    perhaps: Backend | None = None, trunk: "Placement | None" = None,
) -> Measured:  # fmt: skip
    """`fitting`: as --fit measures it, without allocating; `perhaps`: the backend may be this one instead; `trunk`:
    where the model is whose last layers these are."""
    count, gpus = subject.units, len(free)
    settings = _without_refused(subject, settings, backend)
    shares = subject.singles if settings.overrides else subject.shares  # a pattern may take any tensor out of its unit
    targets = targets_of(settings, gpus, subject.names)
    devices = unit_devices(count, settings, free) if trunk is None else trunk.units[-count:]
    placed = place(shares, devices, settings, targets, pads=backend.pads_rows)
    whole = placed if trunk is None else trunk
    caches = layer_caches(subject.model.layers, settings)

    alone = settings.split_mode == "none" and gpus > 1  # llama.cpp then knows of no other GPU
    used = [settings.main_gpu] if alone else list(range(gpus))
    numbers = {HOST: len(used), **{device: number for number, device in enumerate(used)}}
    units = tuple(numbers[unit] for unit in placed.units)

    def home(name: str) -> int | None:
        return numbers.get(targets[name], 0) if name in targets else None

    layers = len(subject.model.layers)
    layout = Layout(
        (*units[:layers], units[-1]), len(used), whole.offloaded == len(whole.units) and gpus > 0,
        home if settings.overrides else None, fitting,
    )  # fmt: skip
    compute = reserved(subject.outline, settings, layout, caches, backend)
    if perhaps is not None:
        compute = larger(compute, reserved(subject.outline, settings, layout, caches, perhaps))
    buffers = dict(zip((*used, HOST), compute.buffers, strict=True))
    uses = [_use(device, placed, caches, settings, buffers.get(device, NO_BUFFER)) for device in range(gpus)]
    host = _use(HOST, placed, caches, settings, buffers[HOST])
    output = output_bytes(subject.model.vocab_size, subject.model.hidden_size, settings)
    return Measured(
        devices=tuple(uses), host=host, output=output, placement=placed, caches=tuple(caches), flash=compute.flash,
        repacked=_repacked(subject, settings, gpus),
    )  # fmt: skip


def _without_refused(subject: Subject, settings: Settings, backend: Backend) -> Settings:
    """select_weight_buft (llama-model-loader.cpp): a tensor that the backend cannot use stays with the CPU."""
    limit = backend.largest_tensor
    names = [t.name for t in subject.tensors if limit and t.nbytes > limit]
    names += _decays_of_refused_scans(subject, backend)
    if not names:
        return settings
    rules = tuple((f"^{re.escape(name)}$", "CPU") for name in names)
    return replace(settings, overrides=(*settings.overrides, *rules), refused=rules)


def _decays_of_refused_scans(subject: Subject, backend: Backend) -> list[str]:
    """ssm_a is asked for as a scan's; its first dimension tells Mamba-2 (1) from Mamba-1 (weight_buft_supported)."""
    sizes = {
        layer.index: mixer.state_size
        for layer in subject.model.layers
        for mixer in layer.mixers
        if isinstance(mixer, State) and mixer.kind in ("mamba1", "mamba2")
    }
    names = []
    for tensor in subject.tensors:
        if tensor.name.endswith(".ssm_a") and tensor.unit in sizes:
            states = backend.mamba2_states if tensor.shape[0] == 1 else backend.mamba1_states
            if states is not None and sizes[tensor.unit] not in states:
                names.append(tensor.name)
    return names


def _repacked(subject: Subject, settings: Settings, gpus: int) -> int:
    if gpus or not settings.repack:
        return 0
    return sum(
        tensor.nbytes
        for tensor in subject.tensors
        if tensor.dtype in REPACKED
        and tensor.unit != INPUT
        and not tensor.copy
        and (settings.load_mtp or not tensor.mtp)
        if len(tensor.shape) > 1 and tensor.shape[1] % REPACKED_ROWS == 0
    )


def _use(device: int, placed: "Placement", caches: Sequence[LayerCache], settings: Settings, buffer: Buffer) -> Use:
    kv = state = 0
    parts: dict[str, int] = {}
    for cache in caches:
        home = placed.units[cache.layer] if settings.kv_offload else HOST
        if home != device:
            continue
        parts[cache.kind] = parts.get(cache.kind, 0) + cache.nbytes
        if cache.kind == "state":
            state += cache.nbytes
        else:
            kv += cache.nbytes
    return Use(placed.total(device), placed.weights.get(device, {}), kv, state, buffer, parts)


# Which device holds what: llama_model::load_tensors (b11739).

HOST = -1
ALIGNMENT = 128  # ggml_backend_cuda_buffer_type_get_alignment
MATRIX_ROW = 512  # MATRIX_ROW_PADDING: a quantised row is padded to it, once a tensor


class Share(Struct, frozen=True):
    """Tensors that are placed alike, and what they take on the CPU and in a padded buffer of a GPU."""

    unit: int
    role: Role
    copy: str
    mtp: bool
    nbytes: int
    padded: int
    name: str = ""


def share_of(tensor: Tensor) -> Share:
    return Share(tensor.unit, tensor.role, tensor.copy, tensor.mtp, tensor.nbytes, padded(tensor), name=tensor.name)


def merge(shares: Sequence[Share]) -> tuple[Share, ...]:
    sums: dict[tuple[int, Role, str, bool], tuple[int, int]] = {}
    for share in shares:
        alike = (share.unit, share.role, share.copy, share.mtp)
        plain, padded = sums.get(alike, (0, 0))
        sums[alike] = plain + share.nbytes, padded + share.padded
    return tuple(Share(*alike, *sizes) for alike, sizes in sums.items())


class Placement(Struct, frozen=True):
    units: tuple[int, ...]  # device of each unit 0..L; HOST = the CPU
    weights: dict[int, dict[str, int]]  # device -> role -> bytes
    offloaded: int  # units on GPUs: "offloaded A/B layers to GPU"

    def total(self, device: int) -> int:
        return sum(self.weights.get(device, {}).values())


def unit_devices(count: int, settings: Settings, free: Sequence[int]) -> tuple[int, ...]:
    """`count`: L+1. The last `n_gpu_layers` units go to the GPUs, split by --tensor-split or by free memory."""
    layers = count if settings.n_gpu_layers < 0 else min(settings.n_gpu_layers, count)
    if not free or not layers:
        return (HOST,) * count
    start = count - layers
    if settings.split_mode == "none":
        if not 0 <= settings.main_gpu < len(free):
            raise CommandError(f"--main-gpu {settings.main_gpu}: there are {len(free)} GPUs")
        return (HOST,) * start + (settings.main_gpu,) * layers
    shares = _shares(settings, free)
    devices = []
    for unit in range(layers):
        at = unit / layers
        devices.append(next((i for i, share in enumerate(shares) if share > at), len(shares) - 1))
    return (HOST,) * start + tuple(devices)


def _shares(settings: Settings, free: Sequence[int]) -> list[float]:
    split = list(settings.tensor_split)
    if len(split) > len(free) and any(split[len(free) :]):
        raise CommandError(f"--tensor-split has {len(split)} values for {len(free)} GPUs")
    split = (split + [0.0] * len(free))[: len(free)]
    parts = split if any(split) else [float(size) for size in free]
    total = sum(parts) or 1.0
    return [x / total for x in accumulate(parts)]


def place(
    shares: Sequence[Share], devices: tuple[int, ...], settings: Settings, targets: Mapping[str, int], *,
    pads: bool = True,
) -> Placement:  # fmt: skip
    """`devices`: of each unit; `targets`: where overrides put tensors, by name; `pads`: they are padded as in CUDA's
    and ROCm's buffers."""
    count = len(devices)
    weights: dict[int, dict[str, int]] = {}

    def add(share: Share, device: int) -> None:
        roles = weights.setdefault(device, {})
        roles[share.role] = roles.get(share.role, 0) + (share.padded if pads and device != HOST else share.nbytes)

    for share in shares:
        if share.mtp and not settings.load_mtp:
            continue
        home = HOST if share.unit == INPUT else devices[min(max(share.unit, 0), count - 1)]
        target = targets.get(share.name)
        if share.unit == EVERYWHERE:
            for device in dict.fromkeys(devices[:-1]):
                add(share, device)
            continue
        if share.copy == "gpu" and (home == HOST or target is not None):
            continue  # the embedding itself is there
        add(share, home if target is None else target)
    return Placement(devices, weights, sum(d != HOST for d in devices))


def targets_of(settings: Settings, gpus: int, names: tuple[str, ...]) -> dict[str, int]:
    """By name: the first override that takes a tensor decides."""
    targets: dict[str, int] = {}
    for pattern, target in reversed(settings.overrides):
        targets.update(dict.fromkeys(_taken(pattern, names), _buffer(target, gpus)))
    return targets


@lru_cache(maxsize=1024)
def _taken(pattern: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """--fit asks for the same patterns again and again."""
    return tuple(filter(re.compile(pattern).search, names))


def padded(tensor: Tensor) -> int:
    block, size = BLOCKS[tensor.dtype]
    extra = (
        (MATRIX_ROW - tensor.shape[0] % MATRIX_ROW) // block * size if block > 1 and tensor.shape[0] % MATRIX_ROW else 0
    )
    return round_up(tensor.nbytes + extra, ALIGNMENT)


def _buffer(target: str, gpus: int) -> int:
    """'CPU', 'CUDA1', 'ROCm0', 'Vulkan0', 'CUDA_Host'."""
    match = re.fullmatch(r"(?:CUDA|ROCm|Vulkan|SYCL|HIP|MUSA|Metal|MTL|RPC)(\d+)", target)
    if match is None:
        if target.upper() in ("CPU", "CUDA_HOST", "ROCM_HOST", "VULKAN_HOST", "CPU_REPACK"):
            return HOST
        raise CommandError(f"--override-tensor names the buffer type {target[:40]!r}: it is CPU, CUDA0, CUDA1, ...")
    if int(match[1]) >= gpus:
        raise CommandError(f"--override-tensor names {target}, but there are {gpus} GPUs")
    return int(match[1])
