"""What people say beside a log: a card in their own words, a command of any engine and year, the engine's name.

Nothing here refuses: what is not understood becomes a note, and of an ambiguous card the log's own total decides.
"""

import re
import shlex
from collections.abc import Sequence

from oomph.engines.protocol import EngineProtocol
from oomph.engines.registry import DEFAULT, all_engines
from oomph.errors import OomphError
from oomph.facts.gpus import GpuRow, rows
from oomph.ir import Deployment, Device, Engine
from oomph.text.late import late_pattern
from oomph.units import GIB

Notes = tuple[str, ...]
_COUNT = late_pattern(r"^\s*(?:(\d{1,3})\s*[x×*]\s*)?(.{1,120}?)(?:\s*[x×*]\s*(\d{1,3}))?\s*$")
_MEMORY = late_pattern(r"(?<![\w.])(\d{1,4}(?:\.\d{1,2})?)\s*G(?:i?B)?\b", re.IGNORECASE)
# machines whose GPU has no memory of its own
_SHARED = late_pattern(
    r"strix|halo|gfx115\d|ryzen ai|gb10|spark|thor|orin|jetson|\bm[1-5]\b|apple|macbook|\bmac\b|8060s|780m|890m",
    re.IGNORECASE,
)
_CLOSE = 0.04  # of a card's total: rounding, reserved memory, ECC


def read_gpus(text: str, total: int = 0) -> tuple[tuple[Device, ...], Notes]:
    """`total`: what the log prints as one GPU's memory, 0 where it does not."""
    from oomph.sources.gpu import parse_gpus

    try:
        return parse_gpus(text), ()
    except OomphError as error:
        refused = error.message
    devices: list[Device] = []
    for part in re.split(r",|(?<![Mm][Aa][Xx])\+", text[:1000])[:16]:
        match = _COUNT.match(part)
        if match is None:
            continue
        device = _card(match[2].strip(), total)
        if device is not None:
            devices += [device] * min(64, int(match[1] or match[3] or 1))
    if not devices:
        return (), (f"the GPU was not understood ({refused}); the log alone is used",)
    size = f"{devices[0].total_bytes / GIB:.1f} GiB"
    return tuple(devices), (f"{text.strip()[:60]!r} is taken for {devices[0].name} with {size}",)


def _card(name: str, total: int) -> Device | None:
    """The card of this name whose memory the log shows, else one with the memory that is written beside it."""
    words = set(re.findall(r"[a-z0-9]+", name.lower())) - {"gb", "gib", "nvidia", "gpu", "geforce"}
    words -= {word for word in words if re.fullmatch(r"\d{1,3}gi?b?", word)}
    alike = [row for row in rows() if words and words <= set(re.findall(r"[a-z0-9]+", row.name.lower()))]
    if total and (close := [row for row in alike if abs(row.total_bytes - total) <= _CLOSE * total]):
        return min(close, key=lambda row: abs(row.total_bytes - total)).device(total_bytes=total)
    size = _MEMORY.search(name)
    memory = total or (round(float(size[1]) * GIB) if size else 0)
    return _smallest(alike) if not memory else Device(name[:60], memory, unified=bool(_SHARED.search(name)))


def _smallest(alike: Sequence[GpuRow]) -> Device | None:
    """A name that several cards have, and nothing that says which: the smaller one is the safer reading."""
    return min(alike, key=lambda row: row.total_bytes).device() if alike else None


def read_engine(text: str | None) -> tuple[Engine | None, Notes]:
    from oomph.commands.call import split_engine

    if not text:
        return None, ()
    try:
        name, version = split_engine(text)
    except OomphError as error:
        return None, (f"{error.message}: ignored",)
    return Engine(name, version, "--engine"), ()


def read_command(words: Sequence[str], engine: str | None) -> tuple[Deployment | None, Notes]:
    """As the planner reads it; where that refuses, word by word."""
    from oomph.commands import detect, parse_command
    from oomph.logs.deployment import parse_flags

    release, notes = read_engine(engine)
    if not words:
        return (Deployment(release, "", {}, ()) if release else None), notes
    try:
        same = release is not None and detect(words) == release.name  # another engine's release says nothing here
        return parse_command(list(words), engine=engine if same else None), notes
    except OomphError as error:
        refused = error.message
    flags, model, environment = parse_flags(shlex.join(words))
    line = " ".join(words)[:4000]
    default = release.name if release else DEFAULT
    name = next((one.name for one in reversed(all_engines()) if _names(one, line)), default)
    version = release.version if release else ""
    notes = (*notes, f"the command was read word by word: {refused}")
    return Deployment(Engine(name, version, "--engine"), model, flags, (), environment=environment), notes


def _names(engine: EngineProtocol, line: str) -> bool:
    return any(word in line for word in (*engine.programs, *engine.modules, *engine.images))
