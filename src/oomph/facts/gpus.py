"""Graphics cards as the rest sees them, found by whatever people call them. The rows are in facts/cards.py."""

import re
from functools import lru_cache

from msgspec import Struct

from oomph.errors import CommandError
from oomph.facts.cards import CARDS, Basis, Card, Market
from oomph.facts.unified import seen_by_system, system_memory
from oomph.ir import Device, Vendor
from oomph.text.late import late_pattern
from oomph.units import MIB


class GpuRow(Struct, frozen=True):
    name: str  # ours, short: "RTX 5070 Ti"
    driver_name: str  # as nvidia-smi and torch print it; cards that differ in memory only share one
    nominal_gb: int  # as sold
    smi_bytes: int  # nvidia-smi's total (NVML); 0 = not known, or not reported
    total_bytes: int
    basis: Basis
    source: str
    capability: tuple[int, int]  # AMD: as torch derives it from the gfx number (gfx942 -> 9.4)
    bandwidth: int  # bytes per second
    sm_count: int  # AMD: compute units
    fp16_flops: int  # dense, FP32 accumulation, at boost clock
    fp8_flops: int  # 0 = no such units
    fp4_flops: int
    link: str
    unified: bool
    vendor: Vendor
    also: str  # further names, comma-separated; they win over a driver name that several cards share
    l2_bytes: int = 0  # 0 = not known
    market: Market = ""
    largest_allocation: int = 0  # bytes of one; 0 = whatever is free
    clock: int = 0  # Hz, boost; 0 = not known

    def device(self, *, used_bytes: int | None = None, total_bytes: int = 0, ram_bytes: int = 0) -> Device:
        """As an engine sees it; a total that somebody read off the machine replaces the table's.

        Where the memory is the machine's own, what the system holds is in use; `used_bytes` of None is an assumption.
        `ram_bytes`: MemTotal, where the GPU may have a part of it only (Strix Halo).
        """
        total = total_bytes or self.total_bytes
        system = None
        if self.unified:
            ram = ram_bytes or (total if self.sees_system else max(total, seen_by_system(self.nominal_gb)))
            system = system_memory(ram, used_bytes if ram == total else None)
            if used_bytes is None and ram == total:
                used_bytes = system.used_bytes
        return Device(
            name=self.name,
            total_bytes=total,
            capability=self.capability,
            vendor=self.vendor,
            driver_name=self.driver_name,
            used_bytes=used_bytes or 0,
            bandwidth=self.bandwidth,
            sm_count=self.sm_count,
            unified=self.unified,
            total_basis="exact" if total_bytes else self.basis,
            system=system,
            largest_allocation=self.largest_allocation,
        )

    @property
    def sees_system(self) -> bool:
        """CUDA's integrated GPUs report all of the machine's memory; a Radeon what its driver may take of it."""
        return self.unified and self.vendor == "nvidia"


def reserve(smi_bytes: int) -> int:
    """What the driver keeps of `smi_bytes`, where nobody printed it: 360 MiB + 5 MiB a GiB, at most 640 MiB.

    Seen: 352-373 at 8 GiB, 381-413 at 12, 436-461 at 16, 441-483 at 24, 498 at 32, 601-665 at 48, 480-769 at 80,
    586-640 at 96, 615 at 140, 717 at 180.
    """
    return min(640 * MIB, 360 * MIB + 5 * MIB * (smi_bytes >> 30))


# Dense FP16 FLOP per clock and SM with FP32 accumulation, then FP8's and FP4's multiple; GeForce ("half") does half.
# From NVIDIA's architecture whitepapers (GP100 to Blackwell RTX); gives the datasheets' figures: RTX 4090 165 TFLOP/s,
# L40S 366, A100 312, H100 989, RTX PRO 6000 504.
_RATES = {
    60: (256, 0, 0),
    61: (4, 0, 0),
    70: (1024, 0, 0),
    75: (1024, 0, 0),
    80: (2048, 0, 0),
    86: (1024, 0, 0),
    87: (2048, 0, 0),
    89: (1024, 2, 0),
    90: (4096, 2, 0),
    100: (8192, 2, 4),
    103: (8192, 2, 6),
    110: (8192, 2, 4),
    120: (1024, 2, 4),
    121: (1024, 2, 4),
}

_UNIFIED = {"C2C", "SoC"}
_AMD = ("AMD ", "Radeon ")


@lru_cache(1)
def rows() -> tuple[GpuRow, ...]:
    return tuple(_decode(card) for card in CARDS)


def _decode(card: Card) -> GpuRow:
    smi, total, source = card.smi * MIB, card.total, card.source
    if not total:
        total = smi - reserve(smi)
        source = "; ".join(filter(None, (source, "nvidia-smi's total less the usual reserve")))
    elif card.basis != "exact":
        total *= MIB
    fp16, fp8, fp4 = _flops(card)
    bare_name = re.sub(r" \d+GB$", "", card.name) if card.name.endswith("GB") else card.name
    driver_name = card.driver.replace("*", bare_name)
    return GpuRow(
        name=card.name,
        driver_name=driver_name,
        nominal_gb=card.gb,
        smi_bytes=smi,
        total_bytes=total,
        basis=card.basis,
        source=source,
        capability=divmod(card.sm, 10),
        bandwidth=card.gb_per_s * 10**9,
        sm_count=card.sms,
        fp16_flops=fp16,
        fp8_flops=fp8,
        fp4_flops=fp4,
        link=card.link,
        unified=card.link in _UNIFIED or card.name == "MI300A",
        vendor=_vendor(driver_name),
        also=card.also,
        l2_bytes=card.l2_mib * MIB,
        market=card.market,
        largest_allocation=card.largest,
        clock=card.mhz * 1_000_000 or _clock(card, fp16),
    )


def _clock(card: Card, fp16: int) -> int:
    """At which its units do what the datasheet says."""
    per_clock = _RATES[card.sm][0] if card.sm in _RATES and _vendor(card.driver) == "nvidia" else 0
    return fp16 // (per_clock * card.sms) if per_clock else 0


def _flops(card: Card) -> tuple[int, int, int]:
    """Dense FLOP/s at 16, 8 and 4 bits: the datasheet's, or what the units do at boost clock."""
    if card.tflops is not None:
        fp16, fp8, fp4 = card.tflops
        return round(fp16 * 1e12), round(fp8 * 1e12), round(fp4 * 1e12)
    per_clock, of_fp8, of_fp4 = _RATES[card.sm]
    half = 2 if card.rate == "half" else 1
    flops = per_clock * card.sms * card.mhz * 1_000_000 // half
    # FP4 has one accumulator everywhere: GeForce does not halve it (RTX 5090: 1676 TFLOP/s, FP16 210).
    return flops, flops * of_fp8, flops * of_fp4 * half


def _vendor(driver_name: str) -> Vendor:
    if driver_name.startswith("Intel "):
        return "intel"
    return "amd" if driver_name.startswith(_AMD) else "nvidia"


_NOISE = late_pattern(
    "nvidia|geforce|intel|datacenter|amd|radeon|instinct|tesla|(?<!titan)rtx|gtx|nvgpu|gpu|generation|edition|blackwell|workstation|graphics"
)


def _key(text: str) -> str:
    """'NVIDIA GeForce RTX 5070 Ti', 'rtx-5070-ti' and '5070ti' -> '5070ti'."""
    squashed = re.sub(r"[^a-z0-9]", "", text.lower())
    key = _NOISE.sub("", squashed).removeprefix("rx").replace("gib", "gb")
    return re.sub(r"(?<=\d)g$", "gb", key)


@lru_cache(1)
def _index() -> tuple[dict[str, GpuRow], dict[str, list[GpuRow]]]:
    """Keys that mean one card, and keys (driver names, names without their memory) that several may share."""
    own: dict[str, GpuRow] = {}
    shared: dict[str, list[GpuRow]] = {}
    for row in rows():
        for text in (row.name, *filter(None, row.also.split(","))):
            key = _key(text)
            for variant in (key, key.removesuffix("gb")):
                own.setdefault(variant, row)
        for text in (row.driver_name, re.sub(r" \d+GB$", "", row.name)):
            same = shared.setdefault(_key(text), [])
            if row not in same:
                same.append(row)
    return own, shared


@lru_cache(1)
def _by_name() -> dict[str, Card]:
    names: dict[str, Card] = {}
    for card in CARDS:
        for name in (card.name, *filter(None, card.also.split(","))):
            names.setdefault(name, card)
    return names


def named(text: str) -> GpuRow | None:
    """The card that is called exactly so, whatever part of a shared memory it is given ("... (GTT 110 GiB)",
    sources/shared_gpu.py). Most are: it takes no index of every spelling."""
    card = _by_name().get(text) or _by_name().get(text.partition(" (GTT ")[0].partition(" (BIOS ")[0])
    return None if card is None else _decode(card)


def called(text: str) -> GpuRow | None:
    """The one card that has this name in whatever spelling ("7900xtx"), nothing left over; None where none has."""
    row = named(text) or _index()[0].get(_key(text[:200]))
    return row if text.isascii() else None


def find(text: str, *, near: int = 0) -> GpuRow:
    """The card people mean by `text`. `near`, its total in bytes where known, tells an 8 GB from a 16 GB variant."""
    if not near and (row := named(text)) is not None:
        return row
    key = _key(text[:200])
    if any(letter.isalnum() for letter in text if not letter.isascii()):
        raise _UnknownCard(text)  # "两张4090" is not one card: what the key leaves out has a meaning
    own, shared = _index()
    same = shared.get(key, [])
    if near and len(same) > 1:
        return min(same, key=lambda row: abs(row.total_bytes - near))
    if key in own:
        return own[key]
    same = same or _with_memory(key) or _begun(key) or _of_words(text)
    if len(same) == 1:
        return same[0]
    if same:
        names = [row.name for row in same[:6]]
        raise SeveralCards(f"GPU {_shown(text)} could be {', '.join(names[:-1])} or {names[-1]}: say which")
    raise _UnknownCard(text)


def _with_memory(key: str) -> list[GpuRow]:
    """'RTX 4090 24GB': a card that comes in one size, written with it."""
    own, shared = _index()
    for digits in (3, 2, 1):
        match = re.fullmatch(rf"(.+?)(\d{{{digits}}})gb", key)
        rows = [own[match[1]]] if match and match[1] in own else shared.get(match[1], []) if match else []
        if match and (fitting := [row for row in rows if row.nominal_gb == int(match[2])]):
            return fitting
    return []


_MEANS = {"mobile": "laptop", "notebook": "laptop", "sxm4": "sxm", "sxm5": "sxm", "sxm2": "sxm"}


def _words(text: str) -> frozenset[str]:
    """'a100 80g pcie' and 'A100 PCIe 80GB' are the same words."""
    words = [re.sub(r"(?<=\d)gi?b?$", "gb", word) for word in re.findall(r"[a-z0-9]+", text.lower())]
    return frozenset(_MEANS.get(word, word) for word in words if _NOISE.sub("", word).removeprefix("rx"))


@lru_cache(1)
def _by_words() -> dict[frozenset[str], list[GpuRow]]:
    table: dict[frozenset[str], list[GpuRow]] = {}
    for row in rows():
        for name in (row.name, f"{row.name} {row.nominal_gb}GB", *filter(None, row.also.split(","))):
            same = table.setdefault(_words(name), [])
            if row not in same:
                same.append(row)
    return table


def _of_words(text: str) -> list[GpuRow]:
    """'H100 80GB SXM5', 'RTX 6000 Pro', '4090 mobile': a card's own words in another order or spelling."""
    return _by_words().get(_words(text), [])


def _begun(key: str) -> list[GpuRow]:
    """'A100', 'TITAN', 'Jetson Orin' begin several names, '6000' is in several. Not '309': a number is whole."""
    near = [(name, row) for name, row in _index()[0].items() if key in name] if len(key) >= 3 else []
    if not near:
        return []
    part = re.escape(key) + (r"(?!\d)" if key[-1].isdigit() else "")
    pattern = re.compile(rf"(?<!\d){part}" if key.isdigit() else f"^{part}")
    return list(dict.fromkeys(row for name, row in near if pattern.search(name)))


class SeveralCards(CommandError):
    """Several cards are called so."""


class _UnknownCard(CommandError):
    """The names that are near are looked for where the sentence is read, not where one asks whether it is a card."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        names = _near(_key(self.text[:200]))
        suggestion = f"did you mean {' or '.join(names)}?" if names else 'a size will do: "2x24GiB"'
        return f"GPU {_shown(self.text)} is not in the table; {suggestion}"


@lru_cache(64)
def _near(key: str) -> list[str]:
    from difflib import SequenceMatcher

    def likeness(row: GpuRow) -> float:
        matcher = SequenceMatcher(None, key, _key(row.name))
        if matcher.quick_ratio() < 0.5:
            return 0.0
        first = matcher.find_longest_match()
        return matcher.ratio() + (0.3 * first.size / len(key) if first.a == first.b == 0 else 0)

    close = sorted(((likeness(row), row.name) for row in rows()), reverse=True)[:3]
    return [name for score, name in close if score >= 0.55]


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")
