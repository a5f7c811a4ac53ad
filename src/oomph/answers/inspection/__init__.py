"""inspect(model) -> Inspection: what a checkpoint is, with no engine in it. The same for people, JSON and Python."""

from msgspec import Struct

from oomph.answers.inspection.caches import LayerRow, layer_rows
from oomph.answers.inspection.weights import (
    DtypeRow,
    Quantised,
    RoleRow,
    active_parameters,
    blocks,
    by_dtype,
    by_role,
    module_bytes,
    quantised,
)
from oomph.ir import Attention, Experts, Model
from oomph.ir.printed import Printed

__all__ = ["Inspection", "LayerRow", "RoleRow", "inspect"]


class Part(Struct, frozen=True):
    name: str
    layers: int
    bytes: int


class Inspection(Printed, frozen=True):
    """What `oomph inspect` prints: a checkpoint by part, dtype and layer."""

    model: str
    architecture: str
    source: str
    basis: str
    dtype: str
    bytes: int
    parameters: int
    context_length: int
    by_role: tuple[RoleRow, ...]
    by_dtype: tuple[DtypeRow, ...]
    layers: tuple[LayerRow, ...]
    quantization: Quantised | None
    kv_bytes_per_token: int  # what each further token costs once every window is full
    state_bytes_per_sequence: int
    kv_known: bool  # False: an engine keeps this cache in a form of its own (DeepSeek-V4)
    drafts: tuple[Part, ...]
    towers: tuple[Part, ...]
    experts: tuple[int, int] = (0, 0)  # (routed experts, of which each token uses so many)
    active_parameters: int = 0  # used by one token, where experts make a difference
    vocab_size: int = 0
    hidden_size: int = 0
    tied: bool = False
    opaque: bool = False
    warnings: tuple[str, ...] = ()

    def in_short(self) -> str:
        return f"{self.model}: {self.parameters / 1e9:.1f}B parameters, {self.bytes:,} bytes"

    def kv_bytes(self, tokens: int) -> int:
        """One sequence of so many tokens: windows count up to their width, states once."""
        grown = sum(r.kv_bytes_per_token * (min(tokens, r.window) if r.window else tokens) for r in self.layers)
        return grown + self.state_bytes_per_sequence


def inspect(model: Model | str) -> Inspection:
    """`model`: what `oomph inspect` takes (a folder, a file, a name, org/name), or a Model."""
    if isinstance(model, str):
        from oomph.sources.load import load_model

        model = load_model(model)
    roles = by_role(model)
    rows = layer_rows(model)
    parameters = sum(r.parameters for r in roles)
    routed = [
        module
        for _, block in blocks(model)
        for module in block.modules
        if isinstance(module, Experts) and module.stored
    ]
    return Inspection(
        model.name,
        architecture=model.architecture,
        source=model.source,
        basis=model.basis,
        dtype=model.dtype,
        bytes=model.nbytes,
        parameters=parameters,
        context_length=model.max_position,
        by_role=roles,
        by_dtype=by_dtype(model),
        layers=rows,
        quantization=quantised(model, roles),
        kv_bytes_per_token=sum(r.kv_bytes_per_token for r in rows if not r.window),
        state_bytes_per_sequence=sum(r.state_bytes for r in rows),
        kv_known=not any(isinstance(m, Attention) and m.compress_ratio for x in model.layers for m in x.mixers),
        drafts=_drafts(model),
        towers=_towers(model),
        experts=(routed[0].count, routed[0].top_k) if routed else (0, 0),
        active_parameters=active_parameters(model) if routed else 0,
        vocab_size=model.vocab_size,
        hidden_size=model.hidden_size,
        tied=model.tied,
        opaque=model.opaque,
        warnings=model.warnings,
    )


def _drafts(model: Model) -> tuple[Part, ...]:
    if not model.drafts and not model.draft_root.modules:
        return ()
    size = sum(
        module_bytes(module)
        for block in (model.draft_root, *(x.block for x in model.drafts))
        for module in block.modules
    )
    return (Part("multi-token prediction", len(model.drafts), size),)


def _towers(model: Model) -> tuple[Part, ...]:
    """Encoders with what projects them, by modality."""
    spans: dict[str, list[int]] = {}
    for tower in model.towers:
        row = spans.setdefault(tower.modality, [0, 0])
        row[0] += tower.layers
        row[1] += sum(n * module_bytes(module) for n, b in tower.blocks for module in b.modules)
    return tuple(Part(name, *row) for name, row in spans.items())
