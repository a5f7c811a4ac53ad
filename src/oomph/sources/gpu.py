"""`--gpu` and the JSON form of GPUs -> Devices.

What people write, and how it is read:

    RTX 3090 · 2x RTX 5070 Ti · RTX 3090 x2 · 2 H100    a card of facts/gpus.py, so many times
    RTX 3090 + RTX 3060 12GB · H100,H100                a mixed list, in rank order
    24GiB · 4x24GiB · 25250627584                       a plain size, literally: what cudaMemGetInfo reports
    24GB · 4x24GB                                       a card sold as 24 GB: 24 GiB less what a driver keeps
    RTX 3090 used 1.2GiB                                other processes hold 1.2 GiB (on each, with a count)
    g5.12xlarge · Standard_NC24ads_A100_v4              a cloud instance: all of its GPUs, prefixes such as ml. included
    H100:8 · NVIDIA-A100-SXM4-80GB                      as SkyPilot and Kubernetes label them
    dual 3090 · zwei 4090 · 两张4090 · 4090双卡          a number in words, in the languages of card_words.py
    2x(8x H200) · 2 nodes of 8x H200 · 两台8卡H100       so many machines with so many cards each
    3090 and 3060 · RTX 3090 20GB free                  lists and amounts in words
    H100 MIG 3g.40gb · 1g.10gb                          a slice of a card (facts/slices.py)
    L40S limit 12GiB · A100 80GB hami 20GB              what HAMi or a vGPU lets a process have
    Strix Halo 128GB gtt 96GB · M4 Pro 64GB             memory shared with the CPU (shared_gpu.py)
    auto                                                the GPUs of this machine, as CUDA_VISIBLE_DEVICES shows them

`parse_gpus(text)` is the one entry; a CommandError says which words were not understood. A count is never read out of a
card's number ("7900xtx"), and no word is dropped.
"""

import re
from functools import lru_cache
from typing import Any

from msgspec import structs

from oomph.errors import CommandError, InputError, OomphError
from oomph.facts import gpus
from oomph.ir import Device
from oomph.text.late import late_pattern
from oomph.text.printable import quoted
from oomph.units import GIB, MIB, parse_ram, parse_size

MAX_GPUS = 1024
_MAX_TEXT = 4096
_MAX_ENTRY = 200
_MAX_BYTES = 1 << 50  # 1 PiB on one device is a mistake, not a GPU


def parse_gpus(text: str) -> tuple[Device, ...]:
    if not isinstance(text, str):
        raise CommandError(f"--gpu takes text, not {type(text).__name__}")
    if len(text) > _MAX_TEXT:
        raise CommandError(f"--gpu is {len(text)} characters long; {_MAX_TEXT} at most")
    if text.strip().lower() == "auto":
        from oomph.sources.nvml import live_gpus

        return live_gpus()
    return _named_gpus(text)


@lru_cache(maxsize=256)  # a batch names the same cards again and again
def _named_gpus(text: str) -> tuple[Device, ...]:
    return _plainly_named(text) or _read_gpus(text)


def _plainly_named(text: str) -> tuple[Device, ...]:
    """ "RTX 4090", "2x RTX 5070 Ti": a name as the table has it, which takes none of the patterns below."""
    count, times, name = text.partition("x ")
    if not times or not (count.isascii() and count.isdigit()):
        count, name = "1", text
    row = gpus.named(name)
    return () if row is None or row.unified else (row.device(),) * _count(count, text)


def _read_gpus(text: str) -> tuple[Device, ...]:
    from oomph.sources.card_words import plain_words, without_ram

    cards, ram = without_ram(text)
    devices = _listed(plain_words(cards))
    return tuple(structs.replace(device, host_bytes=parse_ram(ram)) for device in devices) if ram else devices


def _listed(text: str) -> tuple[Device, ...]:
    if match := _NODES.fullmatch(text.strip()):
        return _on_nodes(_count(match[1], text), _listed(match[2] or match[3]), text)
    devices: list[Device] = []
    # "Max+" is a name (Ryzen AI Max+ 395), every other "+" a list
    for part in re.split(r",|(?<![Mm][Aa][Xx])\+", text):
        if not part.strip() or len(part) > _MAX_ENTRY:
            what = f"an entry of more than {_MAX_ENTRY} characters" if part.strip() else "an empty entry"
            raise CommandError(f"--gpu {quoted(text, 60)} has {what}")
        count, device = _entry(part.strip())
        if len(devices) + count > MAX_GPUS:
            raise CommandError(f"--gpu {quoted(text, 60)} asks for more than {MAX_GPUS} GPUs")
        devices += [device] * count
    return tuple(devices)


_NODES = late_pattern(r"([0-9]+)\s*[x×*]\s*(?:\(([^()]{1,400})\)|([0-9]{1,3}\s*[x×*]\s*[^()]{1,400}))", re.IGNORECASE)


def _on_nodes(nodes: int, devices: tuple[Device, ...], text: str) -> tuple[Device, ...]:
    if nodes * len(devices) > MAX_GPUS:
        raise CommandError(f"--gpu {quoted(text, 60)} asks for more than {MAX_GPUS} GPUs")
    return tuple(structs.replace(device, node=node) for node in range(nodes) for device in devices)


def live_gpu_here() -> bool:
    """Whether this machine has a GPU that can be asked."""
    try:
        return bool(parse_gpus("auto"))
    except OomphError:
        return False


_COUNTED = late_pattern(r"([0-9]+)\s*[x×*]\s*(.+)", re.IGNORECASE)
_COUNT_AFTER = late_pattern(r"(.+?)\s[x×*]\s{0,8}([0-9]{1,20})", re.IGNORECASE)
_COUNT_STUCK = late_pattern(r"^(.+?)[x×*]\s{0,8}([0-9]{1,20})", re.IGNORECASE)
_COUNT_BARE = late_pattern(r"([0-9]{1,3})\s+(.+)")
_SWAPPED = late_pattern(r"([0-9]{4})\s{0,8}[x×*]\s{0,8}([0-9]{1,3})", re.IGNORECASE)
_COLON = late_pattern(r"(?:gpu:)?([^:]+):([0-9]{1,4})", re.IGNORECASE)  # SkyPilot's H100:8, Slurm's gpu:a100:2
_SHARED = late_pattern(r"-SHARED$")  # the device plugin's label of a card that is shared by time
_UNIT = r"(?:gib|gb|g|mib|mb|m)"
_USED = late_pattern(rf"\(?\bused[\s:=]{{0,8}}([0-9][0-9._]{{0,20}}\s{{0,8}}{_UNIT}?)\b\)?", re.IGNORECASE)
_FREE = late_pattern(rf"\bfree[\s:=]{{1,8}}([0-9][0-9._]{{0,20}}\s{{0,8}}{_UNIT})\b", re.IGNORECASE)
_USED_AFTER = late_pattern(rf"\(?\b([0-9][0-9._]{{0,20}}\s{{0,8}}{_UNIT})\s{{1,8}}used\b\)?", re.IGNORECASE)


def _entry(part: str) -> tuple[int, Device]:
    part, used, free = _take_amounts(part)
    count, device = _counted(_SHARED.sub("", part), used)
    if free is None:
        return count, device
    if not 0 < free <= device.total_bytes:
        raise CommandError(f"GPU {quoted(part, 60)} has {device.total_bytes / GIB:.1f} GiB: more cannot be free")
    return count, structs.replace(device, used_bytes=device.total_bytes - free)


def _take_amounts(part: str) -> tuple[str, int | None, int | None]:
    """(what is left, bytes in use, bytes that are free)."""
    amounts: list[int | None] = []
    for patterns, what in (((_USED, _USED_AFTER), "in use"), ((_FREE,), "that is free")):
        match = next((one for pattern in patterns if (one := pattern.search(part))), None)
        amounts.append(_size(match[1], what=f"GPU memory {what}") if match else None)
        part = (part[: match.start()] + " " + part[match.end() :]).strip() if match else part
    return part, amounts[0], amounts[1]


def _counted(part: str, used: int | None) -> tuple[int, Device]:
    if row := gpus.called(part):  # "7900xtx": a card, not 7900 of something
        return 1, row.device(used_bytes=used) if not row.unified else _times(1, part, used)[1]
    if match := _SWAPPED.fullmatch(part):  # "3090 x2"
        return _times(_count(match[2], part), match[1], used)
    counted = _COUNTED.fullmatch(part)
    if counted and int(counted[1][:6]) <= MAX_GPUS:
        return _times(_count(counted[1], part), counted[2], used)
    if match := _COUNT_AFTER.fullmatch(part):
        return _times(_count(match[2], part), match[1], used)
    if counted:
        return _times(_count(counted[1], part), counted[2], used)
    if match := _COLON.fullmatch(part):
        return _times(_count(match[2], part), match[1], used)
    try:
        return _times(1, part, used)
    except CommandError as error:
        # Only now: "RTX 3090" also reads as an "RT" 3090 times.
        for pattern, count, name in ((_COUNT_STUCK, 2, 1), (_COUNT_BARE, 1, 2)):
            if (match := pattern.fullmatch(part)) and (row := _one_row(match[name]) or _plural(match[name])):
                return _count(match[count], part), row.device(used_bytes=used)
        from oomph.sources.shared_gpu import shared_gpu

        if (match := _COUNT_BARE.fullmatch(part)) and (shared := shared_gpu(match[2], used)):
            return _count(match[1], part), shared  # "2 Mac minis M4 Pro 64GB"
        raise error


def _times(count: int, name: str, used: int | None) -> tuple[int, Device]:
    """So many of a card, or so many instances with all their cards."""
    from oomph.facts import clouds, slices
    from oomph.sources.shared_gpu import shared_gpu

    if instance := clouds.find(name):
        return count * instance[1], gpus.find(instance[0]).device(used_bytes=used)
    if clouds.looks_like(name):
        raise CommandError(
            f"the instance {quoted(name, 60)} is not in the table: name its GPUs, such as 4x A10G", hint="oomph gpus"
        )
    if shared := shared_gpu(name, used):
        return count, shared
    whole, limit = slices.take_limit(name)
    if limit:
        return count, _limited(_times(1, whole, None)[1], _size(limit, what="GPU memory"), used, name)
    if part := slices.find_slice(name, used):
        return count, part
    try:
        return count, _one(name, used)
    except CommandError:
        if re.fullmatch(r"[0-9]{1,3}", name.strip()):
            raise CommandError(f"GPU {quoted(name, 60)}: a number alone is no card; did you mean {name}GiB?") from None
        if row := _plural(name):
            return count, row.device(used_bytes=used)
        raise


def _limited(device: Device, limit: int, used: int | None, name: str) -> Device:
    """HAMi and vGPU software answer cudaMemGetInfo with the limit: to a process it is the whole card."""
    if not 64 * MIB <= limit <= device.total_bytes:
        raise CommandError(f"GPU {quoted(name, 60)}: the limit is more than the card has")
    name = f"{device.name} limited to {limit / GIB:g} GiB"
    return structs.replace(device, name=name, total_bytes=limit, used_bytes=used or 0, total_basis="exact", system=None)


def limited_to(device: Device, text: str) -> Device:
    """The card as a process sees it that may use "20000MiB" or "50%" of it."""
    if text.endswith("%"):
        limit = device.total_bytes * min(100, int(text[:-1])) // 100
    else:
        limit = min(device.total_bytes, _size(text, what="GPU memory"))
    if limit == device.total_bytes:
        return device
    return _limited(device, limit, min(device.used_bytes, limit), device.name)


def _plural(name: str) -> gpus.GpuRow | None:
    """ "3090s", "H100s", and German's "4090er"."""
    return (
        _row_or_none(re.sub(r"s$|(?<=\d)er$", "", name))
        if re.search(r"[0-9a-z]s$|\der$", name, re.IGNORECASE)
        else None
    )


def _one_row(name: str) -> gpus.GpuRow | None:
    """Where several have a number in their name ("a100x2"), it is asked which."""
    try:
        return gpus.find(name)
    except gpus.SeveralCards:
        if any(char.isdigit() for char in name):
            raise
    except CommandError:
        pass
    return None


def _row_or_none(name: str, *, near: int = 0) -> gpus.GpuRow | None:
    try:
        return gpus.find(name, near=near)
    except CommandError:
        return None


def _count(digits: str, part: str) -> int:
    if len(digits) > 6 or not 1 <= int(digits) <= MAX_GPUS:
        raise CommandError(f"{quoted(part, 60)} asks for {digits[:12]} GPUs; 1 to {MAX_GPUS} can be meant")
    return int(digits)


_PLAIN_SIZE = late_pattern(r"([0-9][0-9_]*(?:\.[0-9]+)?)\s*(gib|gb|g|mib|mb|m|tib|tb|t|b)?", re.IGNORECASE)


# Ada: the oldest cards that have every kernel of the usual checkpoints (FP8). Nothing is refused for an age that nobody
# named.
USUAL_CAPABILITY = (8, 9)


def _one(name: str, used: int | None) -> Device:
    match = _PLAIN_SIZE.fullmatch(name)
    if match is None or not (match[2] or len(match[1]) > 9):  # "3090" is a card, "25250627584" is bytes
        return gpus.find(name).device(used_bytes=used)
    if (match[2] or "").lower() == "m" and float(match[1]) < 1024:
        hint = "give what it may use of the memory, such as 16GiB"
        raise CommandError(f"GPU {quoted(name, 60)}: an integrated GPU shares the machine's memory", hint=hint)
    total = _size(name, what="GPU memory")
    nominal = (match[2] or "").lower() == "gb" and "." not in match[1]
    if nominal:
        chips = total // 10**9 * GIB
        total = chips - gpus.reserve(chips)
    if not 64 * MIB <= total <= _MAX_BYTES:
        raise CommandError(f"a GPU with {quoted(name, 60)} of memory cannot be meant")
    return Device(
        name=f"{name.strip()} GPU",
        total_bytes=total,
        capability=USUAL_CAPABILITY,
        is_capability_assumed=True,
        used_bytes=used or 0,
        total_basis="assumed" if nominal else "exact",
    )


def _size(text: str, *, what: str) -> int:
    if len(text) > 40:
        raise CommandError(f"{what} {quoted(text, 60)} is not a size such as 1.2GiB")
    try:
        return parse_size(text, what=what)
    except InputError as error:
        raise CommandError(error.message) from None


_KEYS = {"name", "count", "total_bytes", "compute_capability", "used_bytes"}


def from_json(value: object) -> tuple[Device, ...]:
    """A string as for --gpu, an object of the contract (design: `{"name", "count", "total_bytes", ...}`), or a list of
    these. `count` defaults to 1; name or total_bytes must be there; what is given wins over the table's row."""
    if isinstance(value, str):
        return parse_gpus(value)
    if isinstance(value, dict):
        return _from_object(value)
    if not isinstance(value, list):
        raise CommandError(f"a GPU in JSON is a string, an object or a list of these, not {_kind(value)}")
    if not value:
        raise CommandError("the list of GPUs is empty")
    devices: list[Device] = []
    for index, item in enumerate(value):
        if isinstance(item, list):
            raise CommandError(f"GPU {index} of the list is a list itself")
        devices += from_json(item)
        if len(devices) > MAX_GPUS:
            raise CommandError(f"the list has more than {MAX_GPUS} GPUs")
    return tuple(devices)


def _from_object(value: dict[Any, Any]) -> tuple[Device, ...]:
    if unknown := [key for key in value if key not in _KEYS]:
        raise CommandError(f"a GPU in JSON has no key {quoted(str(unknown[0]), 60)}; it has {', '.join(sorted(_KEYS))}")
    count = _integer(value, "count", 1, 1, MAX_GPUS)
    total = _integer(value, "total_bytes", 0, 0, _MAX_BYTES)
    used = _integer(value, "used_bytes", 0, 0, _MAX_BYTES) if value.get("used_bytes") is not None else None
    capability = _capability(value.get("compute_capability"))
    name = value.get("name")
    if name is not None and not isinstance(name, str):
        raise CommandError(f"a GPU's name is a string, not {_kind(name)}")
    if not total:
        if not name:
            raise CommandError("a GPU in JSON needs a name or total_bytes")
        device = _times(1, name, used)[1]
    elif name and (row := _row_or_none(name, near=total)):
        device = row.device(used_bytes=used, total_bytes=total)
    else:  # a card that is not in the table can be planned for when its memory is given
        device = Device(name=(name or "GPU")[:100], total_bytes=total, used_bytes=used or 0, total_basis="exact",
                        capability=USUAL_CAPABILITY, is_capability_assumed=True)  # fmt: skip
    if capability:
        device = structs.replace(device, capability=capability, is_capability_assumed=False)
    return (device,) * count


def _integer(value: dict[Any, Any], key: str, default: int, low: int, high: int) -> int:
    number = value.get(key)
    if number is None:
        return default
    if isinstance(number, bool) or not isinstance(number, int):
        raise CommandError(f"a GPU's {key} is a whole number, not {_kind(number)}")
    if not low <= number <= high:
        raise CommandError(f"a GPU's {key} is between {low} and {high}")
    return number


def _capability(value: object) -> tuple[int, int] | None:
    if value is None or value == "":
        return None
    text = str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value
    match = re.fullmatch(r"(\d{1,2})\.(\d)", text, re.ASCII) if isinstance(text, str) else None
    if match is None:
        raise CommandError(f'a GPU\'s compute_capability is text such as "12.0", not {_kind(value)}')
    return int(match[1]), int(match[2])


def _kind(value: object) -> str:
    if isinstance(value, float):
        return f"the number {value}"
    words = {str: "a string", int: "a number", bool: "a truth value", list: "a list", dict: "an object"}
    return "null" if value is None else words.get(type(value), type(value).__name__)
