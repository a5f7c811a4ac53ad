"""An inspection for people: one screen of 80 columns, readable without colour."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterable
from typing import TextIO

from oomph.inspection import Inspection, LayerRow, RoleRow
from oomph.units import GIB, count, gib, human

WIDTH = 80

KINDS = {
    "full": "full attention",
    "sliding_window": "sliding window",
    "chunked_local": "chunked attention",
    "mla": "latent (MLA)",
    "cross": "cross attention",
    "encoder_only": "encoder attention",
    "mamba1": "Mamba",
    "mamba2": "Mamba-2",
    "gdn": "gated delta net",
    "kda": "Kimi delta attention",
    "short_conv": "short convolution",
    "linear_attention": "linear attention",
    "none": "no cache",
}


def print_inspection(found: Inspection, out: TextIO) -> None:
    colour = out.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
    out.write(render(found, colour=colour, mark=getattr(out, "paint_mark", "")))


def inspection_text(inspection: Inspection, *, width: int, everything: bool) -> str:
    return render(inspection)


def render(found: Inspection, *, colour: bool = False, mark: str = "") -> str:
    bold = (f"\033{mark}[1m", f"\033{mark}[0m") if colour else ("", "")
    dim = (f"\033{mark}[2m", f"\033{mark}[0m") if colour else ("", "")
    lines = ["", f"  {bold[0]}{_clip(_safe(found.model), WIDTH - 4)}{bold[1]}", f"  {_headline(found)}"]
    lines += [f"  {dim[0]}{line}{dim[1]}" for line in _wrap(_origin(found))]
    if found.quantization is not None and found.quantization.sentence:
        sentence = found.quantization.sentence
        lines += ["", *(f"  {line}" for line in _wrap(sentence[0].upper() + sentence[1:] + "."))]
    lines += ["", *_weights(found, bold, dim), "", *_layers(found, bold)]
    lines += _further(found, bold)
    if found.warnings:
        lines += ["", *(f"  {dim[0]}{line}{dim[1]}" for w in found.warnings for line in _wrap(f"Note: {w}"))]
    return "\n".join(lines) + "\n\n"


def _headline(f: Inspection) -> str:
    quant = f", {f.quantization.name}" if f.quantization else f", {f.dtype}" if not f.opaque else ""
    active = f" ({count(f.active_parameters)} active)" if f.active_parameters else ""
    return f"{count(f.parameters)} parameters{active}{quant}: {gib(f.bytes)} of weights"


def _origin(f: Inspection) -> str:
    basis = "read from its headers" if f.basis == "headers" else "computed from its config"
    return f"{f.architecture or 'no architecture'}; {basis}; source: {f.source or 'config'}"


def _weights(f: Inspection, bold: tuple[str, str], dim: tuple[str, str]) -> Iterable[str]:
    yield f"  {bold[0]}{'Weights':<18}{'GiB':>8}{'share':>8}{'parameters':>12}  stored as{bold[1]}"
    small: list[RoleRow] = []
    for r in f.by_role:
        if r.bytes * 200 < f.bytes:
            small.append(r)
            continue
        yield _weight_row(r.name, r.bytes, f.bytes, r.parameters, _forms(r))
    if small:
        size, parameters = sum(r.bytes for r in small), sum(r.parameters for r in small)
        names = " and ".join(filter(None, (", ".join(r.name for r in small[:-1]), small[-1].name)))
        yield _weight_row("the rest", size, f.bytes, parameters, names)
    dtypes = ", ".join(f"{d.dtype} {gib(d.bytes)}" for d in f.by_dtype if d.bytes * 200 >= f.bytes)
    yield from (f"  {dim[0]}{line}{dim[1]}" for line in _wrap(f"By dtype: {dtypes}"))


def _weight_row(name: str, size: int, whole: int, parameters: int, forms: str) -> str:
    line = f"  {name:<18}{_gib(size):>8}{size / max(whole, 1):>8.0%}{count(parameters):>12}  {forms}"
    return _clip(line, WIDTH)


def _forms(r: RoleRow) -> str:
    shown = [(form, n) for form, n in r.stored_as.items() if n * 50 >= r.bytes]
    if len(shown) == 1:
        return shown[0][0]
    return ", ".join(f"{form} {human(n)}" for form, n in shown[:3])


def _layers(f: Inspection, bold: tuple[str, str]) -> Iterable[str]:
    if f.opaque:
        yield "  Layers and caches are not known for this architecture, and are not guessed."
        return
    head = "Layers" if not f.experts[0] else f"Layers ({f.experts[0]} experts, {f.experts[1]} per token)"
    yield f"  {bold[0]}{head:<54}{'cache, ' + _kv_dtype(f):>22}{bold[1]}"
    for r in f.layers:
        window = f" {r.window:,}" if r.window else ""
        name = f"{r.layers:>5} x {KINDS.get(r.kind, r.kind)}{window}"
        cache = _cache(r)
        yield f"{_clip(f'{name:<31} {r.text}', WIDTH - 3 - len(cache)):<{WIDTH - 2 - len(cache)}}{cache}"
    if any(r.window for r in f.layers) and f.kv_bytes_per_token:
        yield f"  {'each token beyond every window':<54}{human(f.kv_bytes_per_token):>22}"
    if not f.kv_known:
        yield from (f"  {x}" for x in _wrap("Its compressed caches have a form of each engine's own: see oomph plan."))
        return
    if f.kv_bytes(1):
        yield from _sequences(f, bold)


def _kv_dtype(f: Inspection) -> str:
    return "F16" if f.quantization and f.quantization.method == "gguf" else f.dtype


def _cache(r: LayerRow) -> str:
    if r.state_bytes:
        return f"{human(r.state_bytes)} a sequence"
    if r.kv_bytes_per_token:
        return f"{human(r.kv_bytes_per_token)} per token"
    return "shared" if r.shared else "none" if r.kind in ("none", "encoder_only") else "its own form"


def _sequences(f: Inspection, bold: tuple[str, str]) -> Iterable[str]:
    lengths = [n for n in (8192, 32768) if not f.context_length or n < f.context_length]
    lengths += [f.context_length] if f.context_length else []
    ggml = f.quantization is not None and f.quantization.method == "gguf"
    fp8 = "; Q8_0 takes 53 % of it" if ggml else "; FP8 halves it"
    fp8 = "" if f.state_bytes_per_sequence or not f.kv_bytes_per_token else fp8
    asks = f.quantization.kv_cache if f.quantization else ""
    fp8 = f"; the checkpoint asks for {asks.upper()}" if asks else fp8
    yield ""
    yield f"  {bold[0]}KV cache of one sequence{bold[1]} ({_kv_dtype(f)}{fp8})"
    yield "  " + "   ".join(f"{n:,} tokens {human(f.kv_bytes(n))}" for n in lengths)


def _further(f: Inspection, bold: tuple[str, str]) -> list[str]:
    rows = []
    if f.context_length:
        rows.append(
            ("Context", f"{f.context_length:,} tokens; vocabulary {f.vocab_size:,}, hidden size {f.hidden_size:,}")
        )
    for d in f.drafts:
        layers = "layer" if d.layers == 1 else "layers"
        rows.append(("Draft", f"{d.layers} MTP {layers}, {human(d.bytes)}, loaded only for speculative decoding"))
    for t in f.towers:
        layers = f"{t.layers} layers, " if t.layers else ""
        rows.append((t.name.capitalize(), f"{layers}{human(t.bytes)}"))
    return ["", *(_clip(f"  {bold[0]}{name:<9}{bold[1]}{text}", WIDTH + 8) for name, text in rows)] if rows else []


def _gib(n: int) -> str:
    return gib(n).removesuffix(" GiB") if n >= GIB // 100 else "<0.01"


def _wrap(text: str) -> list[str]:
    return textwrap.wrap(_safe(text), WIDTH - 4, break_on_hyphens=False) or [""]


def _safe(text: str) -> str:
    """Names come from strangers: nothing that a terminal would act on."""
    return "".join(c if c.isprintable() else "?" for c in text)


def _clip(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."
