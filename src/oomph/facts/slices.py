"""A part of a card as a device of its own: MIG profiles, and limits that HAMi or a vGPU set."""

import re

from msgspec.structs import replace

from oomph.errors import CommandError
from oomph.facts import gpus
from oomph.ir import Device
from oomph.text.late import late_pattern
from oomph.units import GIB

# "3g.40gb", "1g.10gb+me", "MIG 1g.5gb"
PROFILE = late_pattern(r"(?:mig[\s-]*)?\b([1-7])g\.([0-9]{1,3})gb(\+me|\+gfx|-me)?", re.IGNORECASE)

# The cards that can be cut, and what a bare profile's memory belongs to. The first of a memory is meant by default.
_CARDS = (
    "H100 SXM", "A100 SXM 80GB", "A100 SXM 40GB", "A30", "H200", "H100 NVL", "GH200", "B200", "B300", "GB200", "GB300",
    "H100 PCIe", "A100 PCIe 80GB", "A100 PCIe 40GB", "H800", "A800 80GB", "H20", "H20 141GB", "RTX PRO 6000 Server",
    "RTX PRO 6000",
)  # fmt: skip
# NVIDIA's MIG user guide, "Supported MIG profiles": eighths of the memory and sevenths of the multiprocessors (A30:
# quarters of both). Firmware keeps some of each slice: CUDA reports 9.75 GiB for 1g.10gb of an H100, an eighth of which
# is 9.96 GiB; taken as 2 % of every slice.
# An H100 NVL says 10.75, 21.62 and 46.38 GiB (nvidia-smi mig -lgip, gpu-operator PR 900).
_REPORTED_GIB = {("H100 NVL", 1): 10.75, ("H100 NVL", 2): 21.62, ("H100 NVL", 4): 46.38}
_EIGHTHS = {1: 1, 2: 2, 3: 4, 4: 4, 7: 8}
_OF_SHARE = 0.98
_LIMIT = late_pattern(
    r"\b(?:limit(?:ed)?(?:\s+to)?|hami|vgpu|gpumem|slice)[\s:=]{1,3}([0-9][0-9.]{0,10}\s{0,3}(?:gib|gb|g|mib|mb|m))\b",
    re.IGNORECASE,
)


def find_slice(text: str, used_bytes: int | None) -> Device | None:
    """ "H100 MIG 3g.40gb", "A100 80GB 1g.10gb", "1g.10gb" as a device; None where the text names no profile."""
    match = PROFILE.search(text)
    if match is None:
        return None
    name = (text[: match.start()] + " " + text[match.end() :]).strip(" -,:/")
    name = re.sub(r"\bmig\b", "", name, flags=re.IGNORECASE).strip(" -,:/")
    parts, gb = int(match[1]), int(match[2])
    profile = f"{parts}g.{gb}gb"
    row = gpus.find(_with_memory(name)) if name else _whole_card(parts, gb, profile)
    if row.name not in _CARDS:
        raise CommandError(f"{row.name} cannot be cut into MIG slices: {profile} is not one of its devices")
    whole = row.smi_bytes or row.total_bytes
    eighths = _eighths(row, parts, gb)
    total = min(row.total_bytes, round(whole * eighths / 8 * _OF_SHARE))
    total = round(_REPORTED_GIB.get((row.name, eighths), 0) * GIB) or total
    return replace(
        row.device(used_bytes=used_bytes, total_bytes=total),
        name=f"{row.name} MIG {profile}",
        sm_count=max(1, row.sm_count * parts // (4 if row.name == "A30" else 7)),
        bandwidth=row.bandwidth * eighths // 8,
        total_basis="assumed",
        is_slice=True,
    )


def _with_memory(name: str) -> str:
    return "A100 80GB" if name.upper() == "A100" else name


def _eighths(row: gpus.GpuRow, parts: int, gb: int) -> int:
    by_memory = round(8 * gb / row.nominal_gb)
    return max(1, min(8, by_memory or _EIGHTHS.get(parts, parts)))


def _whole_card(parts: int, gb: int, profile: str) -> gpus.GpuRow:
    """The card that a bare profile belongs to: the first of which it is so many eighths."""
    for name in _CARDS:
        row = gpus.find(name)
        eighths = 8 * gb / row.nominal_gb
        if abs(eighths - _EIGHTHS.get(parts, parts)) < 0.12:
            return row
    raise CommandError(f"no known card has a MIG profile {profile}: name the card, such as H100 MIG 3g.40gb")


def take_limit(text: str) -> tuple[str, str]:
    """("L40S", "12GiB") of "L40S limit 12GiB", as HAMi and vGPU software limit what a process sees; ("...", "")."""
    match = _LIMIT.search(text)
    if match is None:
        return text, ""
    return (text[: match.start()] + " " + text[match.end() :]).strip(), match[1]
