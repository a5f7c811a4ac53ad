"""A checkpoint: its bytes by part and dtype, what is not quantised, its layers and their caches."""

from oomph.answers.inspection import Inspection, LayerRow, RoleRow
from oomph.report.answer import (
    Answer,
    Aside,
    Block,
    Cell,
    Column,
    Facts,
    Heading,
    Notes,
    Paragraph,
    Row,
    Table,
    Tile,
    Treemap,
    Verdict,
)
from oomph.units import GIB, count, gib, human

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


# Formats of weights by the bits that they keep: the fewer, the paler.
_BITS = {
    "F64": 64, "F32": 32, "BF16": 16, "F16": 16, "FP8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "INT8": 8, "NVFP4": 4,
    "MXFP4": 4, "FP4": 4, "INT4": 4, "INT3": 3, "INT2": 2,
}  # fmt: skip


def answer(inspection: Inspection) -> Answer:
    return Answer(
        "inspect",
        Heading(inspection.model, below=(_headline(inspection), _origin(inspection))),
        _verdict(inspection),
        (
            _treemap(inspection),
            _weights(inspection),
            Aside(_dtypes(inspection)),
            *_layers(inspection),
            Facts(_further(inspection)),
            Notes(inspection.warnings),
        ),
    )


def _headline(inspection: Inspection) -> str:
    quantization = inspection.quantization
    name = quantization.name if quantization else inspection.dtype if not inspection.opaque else ""
    active = f" ({count(inspection.active_parameters)} active)" if inspection.active_parameters else ""
    words = f"{count(inspection.parameters)} parameters{active}{f', {name}' if name else ''}"
    return f"{words}: {gib(inspection.bytes)} of weights"


def _origin(inspection: Inspection) -> str:
    basis = "read from its headers" if inspection.basis == "headers" else "computed from its config"
    return f"{inspection.architecture or 'no architecture'}; {basis}; source: {inspection.source or 'config'}"


def _verdict(inspection: Inspection) -> Verdict | None:
    sentence = inspection.quantization.sentence if inspection.quantization is not None else ""
    return Verdict("", "close", f"{sentence[0].upper()}{sentence[1:]}.") if sentence else None


def _treemap(inspection: Inspection) -> Treemap:
    """The largest first."""
    tiles = [
        Tile(row.name, form, size, _bits(form))
        for row in inspection.by_role
        for form, size in row.stored_as.items()
        if size
    ]
    return Treemap("Where the bytes are", tuple(sorted(tiles, key=lambda tile: -tile.bytes)))


def _bits(form: str) -> str:
    """The class of a format, by the bits it keeps for each weight."""
    bits = _BITS.get(form.upper())
    if bits is None:  # Q4_K, IQ3_XXS: the figure in its name
        digits = "".join(c for c in form if c.isdigit())[:1]
        bits = int(digits) if digits else 16
    return "b32" if bits >= 32 else "b16" if bits >= 16 else "b8" if bits >= 6 else "b4"


def _weights(inspection: Inspection) -> Table:
    """What is less than half a percent is one line."""
    small = [row for row in inspection.by_role if row.bytes * 200 < inspection.bytes]
    rows = [
        _weight(row.name, row.bytes, inspection.bytes, row.parameters, _forms(row))
        for row in inspection.by_role
        if row not in small
    ]
    if small:
        size, parameters = sum(row.bytes for row in small), sum(row.parameters for row in small)
        names = " and ".join(filter(None, (", ".join(row.name for row in small[:-1]), small[-1].name)))
        rows.append(_weight("the rest", size, inspection.bytes, parameters, names))
    columns = (
        Column("Weights", 18), Column("GiB", 8, is_number=True), Column("share", 8, is_number=True),
        Column("parameters", 12, is_number=True), Column("stored as", gap="  "),
    )  # fmt: skip
    return Table("", columns, tuple(rows), label="Bytes by part")


def _weight(name: str, size: int, whole: int, parameters: int, forms: str) -> Row:
    shown = gib(size).removesuffix(" GiB") if size >= GIB // 100 else "<0.01"
    share = Cell(f"{size / max(whole, 1):.0%}", size)
    return Row((name, Cell(shown, size), share, Cell(count(parameters), parameters), forms))


def _forms(role: RoleRow) -> str:
    shown = [(form, n) for form, n in role.stored_as.items() if n * 50 >= role.bytes]
    return shown[0][0] if len(shown) == 1 else ", ".join(f"{form} {human(n)}" for form, n in shown[:3])


def _dtypes(inspection: Inspection) -> str:
    rows = [row for row in inspection.by_dtype if row.bytes * 200 >= inspection.bytes]
    return f"By dtype: {', '.join(f'{row.dtype} {gib(row.bytes)}' for row in rows)}"


def _layers(inspection: Inspection) -> tuple[Block, ...]:
    if inspection.opaque:
        unknown = "They and their caches are not guessed: this architecture is not known."
        return (Paragraph("Layers", (unknown,)),)
    routed, top = inspection.experts
    columns = (
        Column(f"Layers ({routed} experts, {top} per token)" if routed else "Layers", 29), Column("", 24, gap=" "),
        Column(f"cache, {_kv_dtype(inspection)}", 22, is_number=True),
    )  # fmt: skip
    rows = [Row((_layer(row), row.text, _cache(row))) for row in inspection.layers]
    if any(row.window for row in inspection.layers) and inspection.kv_bytes_per_token:
        rows.append(Row(("each token beyond every window", "", human(inspection.kv_bytes_per_token))))
    own = "" if inspection.kv_known else "Its compressed caches have a form of each engine's own: see oomph plan."
    return Table("", columns, tuple(rows), label="Layers and their caches", sorts=False), Aside(own)


def _layer(row: LayerRow) -> str:
    window = f" {row.window:,}" if row.window else ""
    return f"{row.layers:>3} x {KINDS.get(row.kind, row.kind)}{window}"


def _kv_dtype(inspection: Inspection) -> str:
    return "F16" if inspection.quantization and inspection.quantization.method == "gguf" else inspection.dtype


def _cache(layer: LayerRow) -> str:
    if layer.state_bytes:
        return f"{human(layer.state_bytes)} per sequence"
    if layer.kv_bytes_per_token:
        return f"{human(layer.kv_bytes_per_token)} per token"
    return "shared" if layer.shared else "none" if layer.kind in ("none", "encoder_only") else "its own form"


def _further(inspection: Inspection) -> tuple[tuple[str, str], ...]:
    rows = [("KV cache", _sequence(inspection))]
    if inspection.context_length:
        words = f"vocabulary {inspection.vocab_size:,}, hidden size {inspection.hidden_size:,}"
        rows.append(("Context", f"{inspection.context_length:,} tokens; {words}"))
    for draft in inspection.drafts:
        layers = "layer" if draft.layers == 1 else "layers"
        words = f"{draft.layers} MTP {layers}, {human(draft.bytes)}, loaded only for speculative decoding"
        rows.append(("Draft", words))
    for tower in inspection.towers:
        layers = f"{tower.layers} layers, " if tower.layers else ""
        rows.append((tower.name.capitalize(), f"{layers}{human(tower.bytes)}"))
    return tuple(rows)


def _sequence(inspection: Inspection) -> str:
    """Of one, at lengths that people ask about, and what a smaller dtype would do."""
    if inspection.opaque or not inspection.kv_known or not inspection.kv_bytes(1):
        return ""
    longest = inspection.context_length
    lengths = [*(n for n in (8192, 32768) if not longest or n < longest), *([longest] if longest else [])]
    quantization = inspection.quantization
    smaller = ""
    if quantization and quantization.kv_cache:
        smaller = f"; the checkpoint asks for {quantization.kv_cache.upper()}"
    elif not inspection.state_bytes_per_sequence and inspection.kv_bytes_per_token:
        smaller = "; Q8_0 takes 53 % of it" if _kv_dtype(inspection) == "F16" and quantization else "; FP8 halves it"
    sizes = ", ".join(f"{n:,} tokens {human(inspection.kv_bytes(n))}" for n in lengths)
    return f"of one sequence ({_kv_dtype(inspection)}{smaller}): {sizes}"
