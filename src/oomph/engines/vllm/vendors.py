"""The terms of a rank on a card that is not NVIDIA's: as planned for one, with what posted starts show on top."""

from __future__ import annotations

from msgspec.structs import replace

from oomph.engines.vllm.timeline import Terms
from oomph.facts.vllm import vendors
from oomph.ir.hardware import Device
from oomph.ir.ledger import Term
from oomph.ir.model import Experts, Model

_WHY = "from posted starts on such cards, not measured"


def on_its_card(terms: Terms, device: Device, model: Model, ranks: int, layers: int) -> Terms:
    """`layers`: of this rank; `ranks`: of the whole deployment."""
    vendor = vendors.of(device.vendor, device.name)
    if vendor is None:
        return terms
    return replace(
        terms,
        weights=_weights(terms.weights, vendor, device, model),
        load_peak=_weights(terms.load_peak, vendor, device, model),
        context=terms.context if _is_observed(terms.context) else _context(terms.context, vendor, ranks),
        activation=_off(terms.activation, vendor.activation_off),
        non_torch=terms.non_torch if _is_observed(terms.non_torch) else _plus(terms.non_torch, vendor.non_torch),
        cudagraph=_graphs(terms.cudagraph, vendor, model, ranks, layers),
        captured=_captured(terms.captured, terms.activation, vendor),
    )


def _is_observed(term: Term) -> bool:
    return term.basis == "given" or term.why.startswith("as measured here")


def _weights(term: Term, vendor: vendors.Vendor, device: Device, model: Model) -> Term:
    """`high` has room for padded and unpacked layouts of quantised layers."""
    if _is_observed(term):
        return term
    low, usual, high = vendor.weights
    unpacked = _experts_without_kernels(model, device, term)
    padded = round(term.bytes * vendor.quantised) if model.quantization is not None else 0
    top = term.high + high + max(padded, unpacked)
    parts = _with_part(term, usual)
    return replace(term, bytes=term.bytes + usual, low=term.low + low, high=top, basis="formula", parts=parts)


def _with_part(term: Term, more: int) -> dict[str, int]:
    """The parts of a term still add up to it."""
    return {**term.parts, "this vendor's runtime": more} if term.parts and more else term.parts


def _experts_without_kernels(model: Model, device: Device, term: Term) -> int:
    fp4 = any(
        module.scheme is not None and module.scheme.bits == 4 and module.scheme.method in ("mxfp4", "nvfp4", "fp4")
        for layer in model.layers[-1:]
        for module in layer.block.modules
        if isinstance(module, Experts)
    )
    lacks = device.vendor == "amd" and device.capability < vendors.FIRST_FP4
    return round(vendors.UNPACKED_FP4 * term.parts.get("experts", term.bytes)) if fp4 and lacks else 0


def _plus(term: Term, more: tuple[int, int, int]) -> Term:
    low, usual, high = more
    parts = _with_part(term, usual)
    return replace(term, bytes=term.bytes + usual, low=term.low + low, high=term.high + high, why=_WHY, parts=parts)


def _context(term: Term, vendor: vendors.Vendor, ranks: int) -> Term:
    alone = Term(term.name, 0, 0, 0, "measured")
    own = _plus(alone, vendor.context)
    return _plus(own, vendor.communicator) if ranks > 1 else own


def _off(term: Term, share: float) -> Term:
    if _is_observed(term):
        return term
    slack = round(share * term.bytes)
    return replace(term, low=min(term.low, term.bytes - slack), high=max(term.high, term.bytes + slack))


def _captured(term: Term, activation: Term, vendor: vendors.Vendor) -> Term:
    """What capture takes in the end lies near what the profiling pass took."""
    if _is_observed(term) or not term.bytes:
        return term
    less, more = vendor.captured_off
    low = max(0, activation.bytes - less)
    return replace(term, bytes=activation.bytes, low=low, high=activation.bytes + more, parts={}, why=_WHY)


def _graphs(term: Term, vendor: vendors.Vendor, model: Model, ranks: int, layers: int) -> Term:
    """Every layer of every captured size is a graph of its own to the driver."""
    if _is_observed(term) or not term.bytes:
        return term
    experts = [module for layer in model.layers[-1:] for module in layer.block.modules if isinstance(module, Experts)]
    mxfp4 = any(module.scheme is not None and module.scheme.method == "mxfp4" for module in experts)
    n = round(layers * vendor.graph_layer[ranks > 1] * (vendors.MXFP4_GRAPHS if mxfp4 else 1.0))
    slack = round(n * vendor.graph_off)
    return replace(term, bytes=n, low=n - slack, high=n + slack, parts={}, why=_WHY)
