"""An inspection for people: one screen of 80 columns, readable without colour."""

import textwrap
from collections.abc import Iterable

from oomph.answers.inspection import Inspection, LayerRow, RoleRow
from oomph.report.terminal import Style
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


def render(inspection: Inspection, style: Style, *, width: int = 100, everything: bool = False) -> str:
    lines = [
        "",
        f"  {style.bold(_clip(_safe(inspection.model), WIDTH - 4))}",
        f"  {_headline(inspection)}",
        *[f"  {style.dim(line)}" for line in _wrap(_origin(inspection))],
    ]
    if inspection.quantization is not None and inspection.quantization.sentence:
        sentence = inspection.quantization.sentence
        lines += ["", *(f"  {line}" for line in _wrap(sentence[0].upper() + sentence[1:] + "."))]
    lines += ["", *_weights(inspection, style), "", *_layers(inspection, style), *_further(inspection, style)]
    if inspection.warnings:
        lines += ["", *(f"  {style.dim(line)}" for w in inspection.warnings for line in _wrap(f"Note: {w}"))]
    return "\n".join(lines) + "\n\n"


def _headline(inspection: Inspection) -> str:
    quant = (
        f", {inspection.quantization.name}"
        if inspection.quantization
        else f", {inspection.dtype}"
        if not inspection.opaque
        else ""
    )
    active = f" ({count(inspection.active_parameters)} active)" if inspection.active_parameters else ""
    return f"{count(inspection.parameters)} parameters{active}{quant}: {gib(inspection.bytes)} of weights"


def _origin(inspection: Inspection) -> str:
    basis = "read from its headers" if inspection.basis == "headers" else "computed from its config"
    return f"{inspection.architecture or 'no architecture'}; {basis}; source: {inspection.source or 'config'}"


def _weights(inspection: Inspection, style: Style) -> Iterable[str]:
    head = f"{'Weights':<18}{'GiB':>8}{'share':>8}{'parameters':>12}  stored as"
    yield f"  {style.bold(head)}"
    small = [row for row in inspection.by_role if row.bytes * 200 < inspection.bytes]
    for row in inspection.by_role:
        if row not in small:
            yield _weight_row(row.name, row.bytes, inspection.bytes, row.parameters, _forms(row))
    if small:
        size, parameters = sum(r.bytes for r in small), sum(r.parameters for r in small)
        names = " and ".join(filter(None, (", ".join(r.name for r in small[:-1]), small[-1].name)))
        yield _weight_row("the rest", size, inspection.bytes, parameters, names)
    dtypes = ", ".join(f"{d.dtype} {gib(d.bytes)}" for d in inspection.by_dtype if d.bytes * 200 >= inspection.bytes)
    yield from (f"  {style.dim(line)}" for line in _wrap(f"By dtype: {dtypes}"))


def _weight_row(name: str, size: int, whole: int, parameters: int, forms: str) -> str:
    line = f"  {name:<18}{_gib(size):>8}{size / max(whole, 1):>8.0%}{count(parameters):>12}  {forms}"
    return _clip(line, WIDTH)


def _forms(role_row: RoleRow) -> str:
    shown = [(form, n) for form, n in role_row.stored_as.items() if n * 50 >= role_row.bytes]
    return shown[0][0] if len(shown) == 1 else ", ".join(f"{form} {human(n)}" for form, n in shown[:3])


def _layers(inspection: Inspection, style: Style) -> Iterable[str]:
    if inspection.opaque:
        yield "  Layers and caches are not known for this architecture, and are not guessed."
        return
    head = (
        "Layers"
        if not inspection.experts[0]
        else f"Layers ({inspection.experts[0]} experts, {inspection.experts[1]} per token)"
    )
    title = f"{head:<54}{'cache, ' + _kv_dtype(inspection):>22}"
    yield f"  {style.bold(title)}"
    for row in inspection.layers:
        window = f" {row.window:,}" if row.window else ""
        name = f"{row.layers:>5} x {KINDS.get(row.kind, row.kind)}{window}"
        cache = _cache(row)
        yield f"{_clip(f'{name:<31} {row.text}', WIDTH - 3 - len(cache)):<{WIDTH - 2 - len(cache)}}{cache}"
    if any(r.window for r in inspection.layers) and inspection.kv_bytes_per_token:
        yield f"  {'each token beyond every window':<54}{human(inspection.kv_bytes_per_token):>22}"
    if not inspection.kv_known:
        yield from (f"  {x}" for x in _wrap("Its compressed caches have a form of each engine's own: see oomph plan."))
        return
    if inspection.kv_bytes(1):
        yield from _sequences(inspection, style)


def _kv_dtype(inspection: Inspection) -> str:
    return "F16" if inspection.quantization and inspection.quantization.method == "gguf" else inspection.dtype


def _cache(layer_row: LayerRow) -> str:
    if layer_row.state_bytes:
        return f"{human(layer_row.state_bytes)} a sequence"
    if layer_row.kv_bytes_per_token:
        return f"{human(layer_row.kv_bytes_per_token)} per token"
    return "shared" if layer_row.shared else "none" if layer_row.kind in ("none", "encoder_only") else "its own form"


def _sequences(inspection: Inspection, style: Style) -> Iterable[str]:
    lengths = [n for n in (8192, 32768) if not inspection.context_length or n < inspection.context_length]
    lengths += [inspection.context_length] if inspection.context_length else []
    ggml = inspection.quantization is not None and inspection.quantization.method == "gguf"
    fp8 = "; Q8_0 takes 53 % of it" if ggml else "; FP8 halves it"
    fp8 = "" if inspection.state_bytes_per_sequence or not inspection.kv_bytes_per_token else fp8
    asks = inspection.quantization.kv_cache if inspection.quantization else ""
    fp8 = f"; the checkpoint asks for {asks.upper()}" if asks else fp8
    yield ""
    yield f"  {style.bold('KV cache of one sequence')} ({_kv_dtype(inspection)}{fp8})"
    yield "  " + "   ".join(f"{n:,} tokens {human(inspection.kv_bytes(n))}" for n in lengths)


def _further(inspection: Inspection, style: Style) -> list[str]:
    rows = []
    if inspection.context_length:
        rows.append(
            (
                "Context",
                f"{inspection.context_length:,} tokens; vocabulary {inspection.vocab_size:,}, "
                f"hidden size {inspection.hidden_size:,}",
            )
        )
    for draft in inspection.drafts:
        layers = "layer" if draft.layers == 1 else "layers"
        rows.append(
            ("Draft", f"{draft.layers} MTP {layers}, {human(draft.bytes)}, loaded only for speculative decoding")
        )
    for tower in inspection.towers:
        layers = f"{tower.layers} layers, " if tower.layers else ""
        rows.append((tower.name.capitalize(), f"{layers}{human(tower.bytes)}"))
    return ["", *(_clip(f"  {style.bold(format(name, '<9'))}{text}", WIDTH + 8) for name, text in rows)] if rows else []


def _gib(n: int) -> str:
    return gib(n).removesuffix(" GiB") if n >= GIB // 100 else "<0.01"


def _wrap(text: str) -> list[str]:
    return textwrap.wrap(_safe(text), WIDTH - 4, break_on_hyphens=False) or [""]


def _safe(text: str) -> str:
    """Names come from strangers: nothing that a terminal would act on."""
    return "".join(c if c.isprintable() else "?" for c in text)


def _clip(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."
