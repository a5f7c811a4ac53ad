"""GPUs that share the machine's memory, as people write them: Strix Halo with its BIOS or GTT size, Apple's chips.

Strix Halo                          the driver's default: half of the 128 GB
Strix Halo 128GB gtt 96GB           ttm.pages_limit (or amdgpu.gttsize) lets the GPU have 96 GiB of the memory
Strix Halo 124GiB                   the same: a size in GiB is what HIP reports
Strix Halo 128GB bios 96GB          the firmware gives the GPU 96 GiB for good; the system has the rest
M4 Pro 64GB, Mac mini M4 Pro 64GB   Metal's limit for this much memory
M3 Max 128GB wired 112GB            iogpu.wired_limit_mb
"""

import re

from msgspec.structs import replace

from oomph.errors import CommandError
from oomph.facts import gpus
from oomph.facts.unified import APPLE_BANDWIDTH, seen_by_system, system_memory, wired_limit
from oomph.ir import Device
from oomph.text.late import late_pattern
from oomph.units import GIB, parse_size

_SIZE = r"([0-9]{1,4}(?:\.[0-9]{1,3})?)\s{0,3}(gib|gb|g|mib|mb|m)"
_TAKEN = late_pattern(
    rf"\b(gtt|ttm|bios|vram|uma|carve-?out|wired(?:[\s_]limit)?)[\s:=]{{1,3}}{_SIZE}\b", re.IGNORECASE
)
_PLAIN = late_pattern(rf"(?<![0-9.]){_SIZE}\b", re.IGNORECASE)
_STRIX = late_pattern(
    r"strix\s*halos?|ryzen\s*ai\s*max|\bmax\+?\s*395\b|radeon\s*8060s|\b8060s\b|gfx1151|framework\s*desktop|\bevo[\s-]*x2\b",
    re.IGNORECASE,
)
_CHIP = late_pattern(r"\bm([1-9])\s{0,3}(pro|max|ultra)?(?![a-z])", re.IGNORECASE)
_APPLE = late_pattern(
    r"(?:apple\s*)?m[1-9](?:(?![0-9a-z])|\s*(?:pro|max|ultra)).*|.*\b(?:macs?|macbooks?|imacs?)\b.*", re.IGNORECASE
)
_BARE = late_pattern(r"\s([0-9]{1,3})$")
_SOLD = (8, 16, 18, 24, 32, 36, 48, 64, 96, 128, 192, 256, 512)  # GB of memory that such machines come with


# What such machines are called by, beside their sizes.
_STRIX_WORD = late_pattern(
    r"amd|ryzen|ai|max|pro|38[05]|39[05]|strix|halos?|radeon|80[56]0s|gfx1151|framework|desktop|gmktec|evo|x2|beelink|gtr9|hp|"
    r"z2|mini|g1a|rog|flow|z13|pc|apu|igpu|graphics|with|of|memory|unified|ram|gtt|ttm|bios|vram|uma"
)
_APPLE_WORD = late_pattern(
    r"apple|silicon|macs?|minis?|studios?|pros?|airs?|macbooks?|imacs?|max|ultras?|chip|gpu|laptop|with|of|memory|unified|ram|inch|"
    r"1[3-6]|24|27|cores?|wired|limit|m[1-9](?:pro|max|ultra)?|[0-9]{1,2}c"
)
_WORD = late_pattern(r"[^\W_]+")


class NoSize(CommandError):
    """A machine that comes with memory of several sizes."""


def _refuse_unknown(text: str, known: re.Pattern[str]) -> None:
    """A word that says neither the machine nor its memory is not dropped: it may be the one that matters."""
    rest = _PLAIN.sub(" ", _BARE.sub(" ", _TAKEN.sub(" ", text)))
    for word in _WORD.findall(rest.lower()):
        if not known.fullmatch(word):
            raise CommandError(f"GPU {text[:60]!r}: {word[:40]!r} is not understood", hint='as in --gpu "M4 Pro 64GB"')


def shared_gpu(text: str, used_bytes: int | None) -> Device | None:
    """None where the text names neither."""
    if _STRIX.search(text):
        _refuse_unknown(text, _STRIX_WORD)
        return _strix_halo(text, used_bytes)
    if not _APPLE.fullmatch(text.strip()):
        return None
    _refuse_unknown(text, _APPLE_WORD)
    return _apple(text, used_bytes)


def _strix_halo(text: str, used_bytes: int | None) -> Device:
    row = gpus.find("Strix Halo")
    match = _TAKEN.search(text)
    nominal, plain = _memory(text)
    if match is None and not plain:
        device = row.device(used_bytes=used_bytes, ram_bytes=seen_by_system(nominal or row.nominal_gb))
        half = min(device.total_bytes, round(row.total_bytes * (nominal or row.nominal_gb) / row.nominal_gb))
        return replace(device, total_bytes=half)
    limit = _whole(match[2], match[3]) if match else plain
    carved = match is not None and match[1].lower() not in ("gtt", "ttm")
    ram = seen_by_system(nominal or row.nominal_gb, limit if carved else 0)
    if limit > (nominal or row.nominal_gb) * GIB:
        raise CommandError(f"{text[:60]!r}: the GPU cannot have more than the {nominal or row.nominal_gb} GB there are")
    device = row.device(used_bytes=used_bytes or 0, total_bytes=limit, ram_bytes=max(ram, limit))
    name = f"{row.name} ({'BIOS' if carved else 'GTT'} {limit / GIB:g} GiB)"
    return replace(device, name=name, unified=not carved, system=None if carved else device.system)


def _apple(text: str, used_bytes: int | None) -> Device:
    nominal, _ = _memory(text)
    if not nominal and (bare := _BARE.search(text)) and int(bare[1]) in _SOLD:
        nominal = int(bare[1])  # "m3 ultra 512"
    if not nominal:
        hint = 'as in --gpu "M4 Pro 64GB"; a size alone will do too: --gpu 48GiB'
        raise NoSize(f"{text[:60]!r} is an Apple GPU: how much memory has the Mac?", hint=hint)
    if nominal not in _SOLD:
        raise CommandError(f"{text[:60]!r}: no Mac has {nominal} GB of memory")
    match, chip = _TAKEN.search(text), _CHIP.search(text)
    kind = f"M{chip[1]} {(chip[2] or '').upper()}".strip() if chip else ""
    total = _whole(match[2], match[3]) if match else wired_limit(nominal)
    if total > nominal * GIB:
        raise CommandError(f"{text[:60]!r}: the GPU cannot have more than the {nominal} GB there are")
    return Device(
        name=f"Apple {kind.title() or 'GPU'} {nominal}GB",
        total_bytes=total,
        vendor="apple",
        driver_name="Apple GPU",
        used_bytes=used_bytes or 0,
        bandwidth=APPLE_BANDWIDTH.get(kind, 0) * 10**9,
        unified=True,
        total_basis="exact" if match else "assumed",
        system=system_memory(nominal * GIB),
    )


def _memory(text: str) -> tuple[int, int]:
    """(GB of the machine, bytes that the GPU is said to have): a size in GB is the machine's, one in GiB the GPU's."""
    nominal = plain = 0
    for match in _PLAIN.finditer(_TAKEN.sub(" ", text)):
        if match[2].lower() in ("gb", "g") and float(match[1]) in _SOLD:
            nominal = int(float(match[1]))
        else:
            plain = _whole(match[1], match[2])
    return nominal, plain


def _whole(number: str, unit: str) -> int:
    """Firmware and kernel count in powers of two, whatever people write: "96GB" are 96 GiB."""
    return parse_size(number + unit.lower().replace("ib", "b").replace("b", "ib"), what="GPU memory")
