"""The terms of a rank on a card that is not NVIDIA's: as planned for one, with what posted starts show on top."""

from msgspec import Struct
from msgspec.structs import replace

from oomph.engines.vllm.kv.budget import Terms
from oomph.engines.vllm.serving.after_start import Working
from oomph.facts.vllm import vendors
from oomph.ir import Device, Experts, Model, Term

_WHY = "from posted starts on such cards, not measured"


class Start(Struct, frozen=True):
    """What the vendor's figures depend on."""

    ranks: int  # of the whole deployment
    layers: int  # of this rank
    compiles: bool  # torch.compile finds its cache empty
    restart_bytes: int  # less of activations where it finds the cache filled, which posts do not say
    sorts_logits: bool
    unquantised_bytes: int  # of this rank's weights, where they are quantised while they are loaded; else 0


def on_its_card(terms: Terms, device: Device, model: Model, start: Start) -> Terms:
    vendor = vendors.of(device.vendor, device.name)
    if vendor is None:
        return terms
    sorts = start.sorts_logits and device.vendor == "amd"
    own = replace(
        terms,
        weights=_weights(terms.weights, vendor, device, model),
        load_peak=_load_peak(_weights(terms.load_peak, vendor, device, model), device, start.unquantised_bytes),
        context=terms.context if _is_observed(terms.context) else _context(terms.context, vendor, start.ranks),
        activation=_off(
            _with_workspace(terms.activation, vendor.workspace), vendor.activation_off, start.restart_bytes
        ),
        persistent=terms.persistent + (0 if _is_observed(terms.activation) else vendor.workspace),
        non_torch=_non_torch(terms.non_torch, vendor, device, start.compiles),
        cudagraph=_graphs(terms.cudagraph, vendor, model, start.ranks, start.layers),
        captured=_captured(terms.captured, vendor),
    )
    return replace(own, warm_up=_sorting(own.warm_up), serving=_sorting(own.serving)) if sorts else own


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


def _load_peak(term: Term, device: Device, unquantised: int) -> Term:
    """Two Arc Pro B70 ran out of memory with --quantization fp8 on weights that fit only when they are quantised: an
    XPU may hold them as they are stored before it quantises them."""
    if _is_observed(term) or device.vendor != "intel" or unquantised <= term.high:
        return term
    return replace(term, high=unquantised)


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
    own = _plus(Term(term.name, 0, 0, 0, "measured"), vendor.context)
    return _plus(own, vendor.communicator) if ranks > 1 else own


def _off(term: Term, share: float, restart_bytes: int) -> Term:
    if _is_observed(term):
        return term
    slack = round(share * term.bytes)
    low = max(0, min(term.low, term.bytes - max(slack, restart_bytes)))
    return replace(term, low=low, high=max(term.high, term.bytes + slack))


def _with_workspace(term: Term, more: int) -> Term:
    if _is_observed(term) or not more:
        return term
    parts = {**term.parts, "BLAS workspaces": more} if term.parts else term.parts
    return replace(term, bytes=term.bytes + more, high=term.high + more, parts=parts)


def _non_torch(term: Term, vendor: vendors.Vendor, device: Device, compiles: bool) -> Term:
    if _is_observed(term) or device.system is not None:  # read off the whole machine there
        return term
    low, usual, high = vendor.non_torch
    return _plus(term, (low, usual, high + (vendor.compiling if compiles else 0)))


def _sorting(working: Working) -> Working:
    """A sampling pass that sorts the logits, where it is the largest."""
    passes = working.needed.parts
    if not passes:
        return working
    ratio = {name: vendors.SORTED_OVER_PLANNED if name in vendors.SAMPLING_PASSES else 1.0 for name in passes}
    parts = {name: round(n * ratio[name]) for name, n in passes.items()}
    more = max(parts.values()) - max(passes.values())

    def grown(term: Term) -> Term:
        return replace(term, bytes=term.bytes + more, low=term.low + more, high=term.high + more, parts=parts)

    return Working(grown(working.needed), grown(working.reserved), working.worst and working.worst + more)


def _captured(term: Term, vendor: vendors.Vendor) -> Term:
    if _is_observed(term) or not term.bytes:
        return term
    low, usual, high = vendor.captured
    return replace(term, bytes=usual, low=low, high=high, parts={}, why=_WHY)


def _graphs(term: Term, vendor: vendors.Vendor, model: Model, ranks: int, layers: int) -> Term:
    """Every layer of every captured size is a graph of its own to the driver."""
    if _is_observed(term) or not term.bytes:
        return term
    experts = [module for layer in model.layers[-1:] for module in layer.block.modules if isinstance(module, Experts)]
    mxfp4 = any(module.scheme is not None and module.scheme.method == "mxfp4" for module in experts)
    n = round(layers * vendor.graph_layer[ranks > 1] * (vendors.MXFP4_GRAPHS if mxfp4 else 1.0))
    slack = round(n * vendor.graph_off)
    return replace(term, bytes=n, low=n - slack, high=n + slack, parts={}, why=_WHY)
