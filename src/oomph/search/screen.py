"""Room for a screen: a consumer's card usually drives one, and what it holds is not free for an engine. And memory of
the machine that its GPU could have."""

from msgspec.structs import replace

from oomph.ir import Device
from oomph.units import GIB, MIB, gib

# Assumed: what a desktop holds on a card with one or two screens; Linux desktops 0.3 to 0.6 GiB, Windows up to 1 GiB.
SCREEN = 768 * MIB
_WORDS = ("GeForce", "Radeon RX", "Arc")


def drives_screen(device: Device) -> bool:
    """Whether such a card may; one of which something is said to be in use says itself what is there."""
    named = any(word in (device.driver_name or device.name) for word in _WORDS)
    return named and not device.used_bytes and device.system is None and device.total_bytes > 4 * SCREEN


def with_screen(gpus: tuple[Device, ...], *, headless: bool = False) -> tuple[Device, ...]:
    """The first of the cards with what a desktop holds in use."""
    if headless or not gpus or not drives_screen(gpus[0]):
        return gpus
    return (replace(gpus[0], used_bytes=SCREEN), *gpus[1:])


def more_of_the_machine(gpus: tuple[Device, ...]) -> str:
    """What lets an AMD GPU that shares the machine's memory have more than the half that Linux gives it by itself
    (amdgpu's GTT: ttm.pages_limit); "" where that is not so."""
    device = gpus[0] if gpus else None
    system = device.system if device is not None else None
    if device is None or system is None or device.vendor != "amd" or device.total_bytes > 0.55 * system.total_bytes:
        return ""
    most = int(0.88 * system.total_bytes / GIB)  # chosen: an eighth stays the system's
    return (
        f"the GPU has {gib(device.total_bytes)} of the machine's {gib(system.total_bytes)}, as Linux gives it by "
        f"itself; ttm.pages_limit gives it more: --gpu '{device.name} gtt {most}GB'"
    )
