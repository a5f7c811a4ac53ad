"""How much of a card's peak a step reaches, what it costs besides, and how many kernels a layer has."""

from msgspec import Struct

from oomph.facts.gpus import GpuRow
from oomph.ir import Attention, Experts, Layer, Linear, State


class Shares(Struct, frozen=True):
    """How much of a card's peak its kernels reach. Of the FLOP/s: an A100 runs large products at three quarters of its
    peak and a Hopper or Blackwell card, whose peak its power limit does not sustain, at half of it; serving, with
    its partial chunks and its gaps, reaches less of either. A GeForce sums in FP32 at half the rate of its units, which
    nothing but the units limits. Of the bandwidth: GDDR is slow enough to be filled, HBM is less so."""

    linear: float
    experts: float  # of wide experts; narrow ones fill their tiles less (engines/vllm/scheduler/step_time.py)
    attention: float
    bandwidth: float


VOLTA = Shares(0.55, 0.36, 0.40, 0.80)
AMPERE = Shares(0.62, 0.42, 0.55, 0.80)  # A100
HOPPER = Shares(0.47, 0.42, 0.45, 0.86)
BLACKWELL = Shares(0.47, 0.42, 0.45, 0.82)  # as Hopper, whose figures there are
WORKSTATION = Shares(0.66, 0.46, 0.55, 0.90)  # GDDR, full rate: A6000, L40S, RTX PRO 6000
GEFORCE = Shares(0.85, 0.58, 0.68, 0.92)
OTHER = Shares(0.42, 0.36, 0.35, 0.80)  # AMD and Intel, of which no speed is held


def shares_of(card: GpuRow) -> Shares:
    if card.vendor != "nvidia":
        return OTHER
    if "GeForce" in card.driver_name:
        return GEFORCE
    if card.capability[0] < 8:
        return VOLTA
    return {(8, 0): AMPERE, (9, 0): HOPPER, (10, 0): BLACKWELL, (10, 3): BLACKWELL}.get(card.capability, WORKSTATION)


class Factors(Struct, frozen=True):
    """How much of a card's peak a step reaches, and what it costs besides. Set on published speeds
    (tests/truth/speeds.jsonl) and judged on others; --measured replaces them by yours. 0 = as `Shares` or links.py have
    it for the card."""

    bandwidth: float = 0.0
    compute: float = 0.0  # dense products
    experts: float = 0.0  # grouped products of a mixture
    attention: float = 0.0  # prefill attention
    link: float = 0.0
    overhead_ms: float = 1.6  # a step outside its kernels: scheduling, inputs, sampling
    hidden_ms: float = 1.1  # of it, what asynchronous scheduling does while the step before runs
    kernel_us: float = 2.5  # a kernel of a captured graph, beyond what it reads
    launch_us: float = 20.0  # the same without CUDA graphs: a call from Python
    sequence_us: float = 20.0  # each request of the batch: scheduler, sampler, output
    reduce_us: float = 0.0  # latency of one all-reduce
    output_us: float = 50.0  # a token of one answer: detokenizer, JSON and HTTP, on the one thread of an API server
    stream_us: float = 4.0  # reading a request, for each one that is answered meanwhile on the server's one thread
    request_ms: float = 3.5  # the server reads and templates one request after the other: about 300 in a second
    response_ms: float = 8.0  # HTTP, streams and detokenizer around one answer
    tokenizer_rate: float = 500_000.0  # prompt tokens per second
    scale: float = 1.0  # by which --measured corrected all of it

    def shares(self, card: GpuRow) -> Shares:
        of_card = shares_of(card)
        return Shares(
            self.compute or of_card.linear,
            self.experts or of_card.experts,
            self.attention or of_card.attention,
            self.bandwidth or of_card.bandwidth,
        )


def layer_kernels(layer: Layer, card: GpuRow) -> int:
    """Kernels of one layer as vLLM's compiled model launches them: two fused norms; rotary embedding, cache write,
    attention and its reduction (MLA: twelve more for its latent products; a recurrent layer: convolution, gates, scan,
    norm); each linear layer, and the quantisation of its input; a mixture chooses its experts (two),
    sorts the tokens by them (three), clears what it writes to, multiplies twice, gates, sums, adds what is shared."""
    count = 2
    for mixer in layer.mixers:
        if isinstance(mixer, State):
            count += 6
        elif isinstance(mixer, Attention):
            count += 16 if mixer.kind == "mla" else 4
    for module in layer.block.modules:
        if isinstance(module, Linear) and not module.alias:
            count += _product_kernels(module, card)
        elif isinstance(module, Experts):
            count += 11 + (2 if input_bits(module, card) < 16 else 0)
    return count + 1  # the activation function of the MLP


def _product_kernels(module: Linear, card: GpuRow) -> int:
    """A product, and the quantisation of its input and its scales; with a scale for each block the product prepares
    descriptors and lays the scales out anew, which takes as long as two kernels more."""
    if input_bits(module, card) == 16:
        return 1
    return 5 if module.scheme is not None and module.scheme.strategy == "block" else 3


def input_bits(module: Linear | Experts, card: GpuRow) -> int:
    """Of the activations that it multiplies: as its scheme says, or else as wide as its weights. A card without units
    for such numbers multiplies in 16 bits and quantises nothing (Marlin)."""
    scheme = module.scheme
    if scheme is None or scheme.activation == "none":
        return 16
    bits = scheme.input_bits if scheme.input_bits < 16 else scheme.bits
    units = card.fp4_flops if bits <= 4 else card.fp8_flops
    return bits if scheme.kind == "int" or units else 16
