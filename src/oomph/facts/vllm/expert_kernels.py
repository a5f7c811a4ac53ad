"""Which kernel vLLM runs a layer's routed experts with: a row per kernel and release, in the order in which it asks.

The names are vLLM's own (model_executor/layers/fused_moe/oracle/*.py). A row says what the kernel takes; the first row
of a family that takes the layer is the kernel. What a kernel does to the weights follows from its name: PADDING here,
facts/vllm/repack_moe.py, facts/vllm/create_experts.py.
"""

from msgspec import Struct
from msgspec.structs import replace

from oomph.facts.changes import Facts, Span, changes, members, rows, since, until

Capabilities = tuple[tuple[int, int], ...]  # compute capabilities, from and to (exclusive)
HOPPER: Capabilities = ((90, 91),)
BLACKWELL: Capabilities = ((100, 110),)  # the data-centre cards: is_device_capability_family(100)
FLASHINFER: Capabilities = ((90, 91), (100, 110), (120, 130))

# experts/*.py _supports_activation and _supports_routing_method
SILU = frozenset({"silu"})
SILU_RELU2 = frozenset({"silu", "relu2"})
ROUTED_BEFORE = frozenset({"deepseek_v3", "llama4", "renormalize_naive"})
ROUTED = ROUTED_BEFORE | {"sigmoid_renorm", "sigmoid"}
ROUTED_ALL = ROUTED | {"minimax2"}


class Query(Struct, frozen=True):
    """What vLLM looks at when it chooses: one layer's experts in one deployment."""

    family: str  # plain, fp8_block, fp8_channel, fp8_static, fp8_tensor, nvfp4, nvfp4_a16, mxfp4, mxfp4_v4, mxfp8
    sm: int
    activation: str = "silu"
    gated: bool = True
    routing: str = "renormalize_naive"
    count: int = 8
    lora: bool = False
    eplb: bool = False
    dp: int = 1
    expert_parallel: bool = False  # over more than one rank
    cutlass: bool = True  # vLLM's own CUTLASS kernels are allowed: compressed-tensors
    backend: str = "auto"  # --moe-backend
    excluded: frozenset[str] = frozenset()  # kernels that an environment variable switches off


class Kernel(Span, frozen=True):
    family: str
    name: str
    sm: Capabilities = ((0, 1000),)
    activations: frozenset[str] | None = None  # None: all
    routings: frozenset[str] | None = None
    gated_only: bool = False
    eplb: bool = True
    lora: bool = False
    dp: bool = True  # takes layers of data-parallel engines
    expert_parallel: bool = True
    cutlass_only: bool = False
    most_experts: int = 1 << 30

    def takes(self, query: Query) -> bool:
        return (
            any(low <= query.sm < high for low, high in self.sm)
            and (self.activations is None or query.activation in self.activations)
            and (self.routings is None or query.routing in self.routings)
            and (query.gated or not self.gated_only)
            and (self.eplb or not query.eplb)
            and (self.lora or not query.lora)
            and (self.dp or query.dp == 1)
            and (self.expert_parallel or not query.expert_parallel)
            and (query.cutlass or not self.cutlass_only)
            and query.count <= self.most_experts
        )


TRTLLM, FI_CUTLASS, TRITON, MARLIN = "FLASHINFER_TRTLLM", "FLASHINFER_CUTLASS", "TRITON", "MARLIN"
HUMMING = "HUMMING"  # since 0.32.0 before Marlin on Hopper (quantization/utils/humming/priority.py)
DEEPGEMM, VLLM_CUTLASS, CUTEDSL = "DEEPGEMM", "VLLM_CUTLASS", "FLASHINFER_CUTEDSL"
MXFP4_TRTLLM, MXFP4_TRTLLM_8 = "FLASHINFER_TRTLLM_MXFP4_BF16", "FLASHINFER_TRTLLM_MXFP4_MXFP8"
MXFP4_CUTLASS, MXFP4_DEEPGEMM = "FLASHINFER_CUTLASS_MXFP4_BF16", "DEEPGEMM_MXFP4"
GELUS, OAI_APART = frozenset({"gelu", "gelu_tanh"}), frozenset({"swigluoai_uninterleave"})
FI_BEFORE, FI_GELU = frozenset({"silu", "relu2", "swigluoai"}), frozenset({"silu", "relu2", "swigluoai", "gelu_tanh"})
FI_ALL = FI_GELU | OAI_APART
TURING, FP8_CARDS = ((75, 1000),), ((89, 1000),)

KERNELS: tuple[Kernel, ...] = (
    # oracle/unquantized.py, trtllm_bf16_moe.py, flashinfer_cutlass_moe.py, triton_moe.py. Before 0.20 there was no
    # choice: fused_moe.py runs Triton's kernel.
    Kernel(
        "plain", TRTLLM, BLACKWELL, SILU, ROUTED_BEFORE, gated_only=True, eplb=False, since="0.20.0", until="0.23.0"
    ),
    Kernel("plain", TRTLLM, BLACKWELL, SILU, ROUTED, gated_only=True, eplb=False, since="0.23.0", until="0.24.0"),
    Kernel("plain", TRTLLM, BLACKWELL, SILU_RELU2, ROUTED, eplb=False, since="0.24.0", until="0.28.0"),
    Kernel(
        "plain", TRTLLM, BLACKWELL, SILU_RELU2, ROUTED, eplb=False, most_experts=2048, since="0.28.0", until="0.32.0"
    ),
    Kernel("plain", TRTLLM, BLACKWELL, SILU_RELU2, ROUTED_ALL, eplb=False, most_experts=2048, since="0.32.0"),
    Kernel("plain", FI_CUTLASS, FLASHINFER, FI_BEFORE, since="0.20.0", until="0.24.0"),
    Kernel("plain", FI_CUTLASS, FLASHINFER, FI_GELU, since="0.24.0", until="0.28.0"),
    Kernel("plain", FI_CUTLASS, FLASHINFER, FI_ALL, since="0.28.0"),
    Kernel("plain", TRITON, lora=True),
    # oracle/fp8.py, trtllm_fp8_moe.py: with block scales a second class takes every routing
    Kernel("fp8_block", TRTLLM, BLACKWELL, SILU_RELU2, eplb=False, since="0.17.0", until="0.25.0"),
    Kernel("fp8_block", TRTLLM, BLACKWELL, SILU_RELU2 | {"swigluoai_uninterleave"}, eplb=False, since="0.25.0"),
    Kernel("fp8_block", FI_CUTLASS, HOPPER, FI_BEFORE, since="0.17.0", until="0.24.0"),
    Kernel("fp8_block", FI_CUTLASS, HOPPER, FI_GELU, since="0.24.0", until="0.28.0"),
    Kernel("fp8_block", FI_CUTLASS, HOPPER, FI_ALL, since="0.28.0"),
    Kernel("fp8_block", DEEPGEMM, (*HOPPER, *BLACKWELL), frozenset({"silu", "swiglustep"}), gated_only=True),
    Kernel("fp8_block", TRITON, FP8_CARDS, lora=True),
    Kernel("fp8_block", MARLIN, TURING, lora=True),
    Kernel(
        "fp8_static",
        TRTLLM,
        BLACKWELL,
        SILU_RELU2,
        frozenset({"deepseek_v3", "llama4"}),
        eplb=False,
        since="0.17.0",
        until="0.20.0",
    ),
    Kernel("fp8_static", TRTLLM, BLACKWELL, SILU_RELU2, ROUTED_BEFORE, eplb=False, since="0.20.0", until="0.21.0"),
    Kernel(
        "fp8_static",
        TRTLLM,
        BLACKWELL,
        SILU_RELU2,
        ROUTED_ALL - {"sigmoid"},
        eplb=False,
        since="0.21.0",
        until="0.23.0",
    ),
    Kernel("fp8_static", TRTLLM, BLACKWELL, SILU_RELU2, ROUTED_ALL, eplb=False, since="0.23.0"),
    Kernel("fp8_static", FI_CUTLASS, FLASHINFER, FI_BEFORE, since="0.17.0", until="0.24.0"),
    Kernel("fp8_static", FI_CUTLASS, FLASHINFER, FI_ALL, since="0.24.0"),
    Kernel("fp8_static", VLLM_CUTLASS, ((90, 110),), gated_only=True, cutlass_only=True),
    Kernel("fp8_static", TRITON, FP8_CARDS, lora=True),
    Kernel("fp8_static", MARLIN, TURING, lora=True),
    *(
        row
        for family in ("fp8_channel", "fp8_tensor")
        for row in (
            Kernel(family, VLLM_CUTLASS, ((90, 110),), gated_only=True, cutlass_only=True),
            Kernel(family, TRITON, FP8_CARDS, lora=True),
            Kernel(family, MARLIN, TURING, lora=True),
        )
    ),
    # oracle/mxfp8.py, trtllm_fp8_moe.py, deep_gemm_moe.py
    Kernel("mxfp8", TRTLLM, BLACKWELL, SILU_RELU2 | {"swigluoai_uninterleave"}, eplb=False),
    Kernel("mxfp8", DEEPGEMM, BLACKWELL, frozenset({"silu", "swiglustep", "swigluoai_uninterleave"}), gated_only=True),
    Kernel("mxfp8", MARLIN, TURING, lora=True),
    # oracle/nvfp4.py, trtllm_nvfp4_moe.py (its modular class takes every routing), flashinfer_cutedsl_moe.py
    Kernel("nvfp4", TRTLLM, BLACKWELL, SILU_RELU2, until="0.21.0"),
    Kernel("nvfp4", TRTLLM, BLACKWELL, SILU_RELU2 | {"gelu"}, since="0.21.0", until="0.24.0"),
    Kernel("nvfp4", TRTLLM, BLACKWELL, SILU_RELU2 | GELUS, since="0.24.0", until="0.25.0"),
    Kernel("nvfp4", TRTLLM, BLACKWELL, SILU_RELU2 | GELUS | OAI_APART, since="0.25.0", until="0.27.0"),
    Kernel("nvfp4", TRTLLM, BLACKWELL, SILU_RELU2 | GELUS | OAI_APART | {"situ"}, since="0.27.0"),
    Kernel("nvfp4", CUTEDSL, BLACKWELL, SILU, gated_only=True, since="0.19.0", until="0.27.0"),
    Kernel("nvfp4", CUTEDSL, BLACKWELL, SILU_RELU2, since="0.27.0", until="0.28.0"),
    Kernel("nvfp4", CUTEDSL, BLACKWELL, SILU_RELU2 | OAI_APART | {"swigluoai"}, since="0.28.0", until="0.30.0"),
    Kernel("nvfp4", CUTEDSL, BLACKWELL, SILU_RELU2 | OAI_APART | {"swigluoai", "situ"}, since="0.30.0"),
    Kernel("nvfp4", FI_CUTLASS, ((100, 110), (120, 130)), FI_BEFORE, until="0.24.0"),
    Kernel("nvfp4", FI_CUTLASS, ((100, 110), (120, 130)), FI_GELU, since="0.24.0", until="0.28.0"),
    Kernel("nvfp4", FI_CUTLASS, ((100, 110), (120, 130)), FI_ALL, since="0.28.0"),
    # cutlass_moe.py CutlassExpertsFp4._supports_parallel_config: no map of experts before 0.32.0
    Kernel("nvfp4", VLLM_CUTLASS, ((100, 130),), expert_parallel=False, until="0.32.0"),
    Kernel("nvfp4", VLLM_CUTLASS, ((100, 130),), since="0.32.0"),
    Kernel("nvfp4", HUMMING, HOPPER, since="0.32.0"),
    Kernel("nvfp4", MARLIN, TURING, lora=True),
    Kernel("nvfp4_a16", HUMMING, HOPPER, since="0.32.0"),
    Kernel("nvfp4_a16", MARLIN, TURING, lora=True),
    # oracle/mxfp4.py; the Triton kernels are in the wheel since 0.12.0 (vllm/third_party)
    Kernel("mxfp4", MXFP4_TRTLLM, BLACKWELL, frozenset({"silu", "swigluoai"}), gated_only=True, until="0.27.0"),
    Kernel("mxfp4", MXFP4_TRTLLM, BLACKWELL, frozenset({"silu", "swigluoai", "situ"}), gated_only=True, since="0.27.0"),
    Kernel("mxfp4", TRITON, ((90, 110),), frozenset({"swigluoai"}), gated_only=True, since="0.12.0", until="0.30.0"),
    Kernel("mxfp4", TRITON, ((90, 120),), frozenset({"swigluoai"}), gated_only=True, since="0.30.0"),
    Kernel("mxfp4", MXFP4_CUTLASS, HOPPER, FI_ALL, since="0.19.0"),
    Kernel("mxfp4", MARLIN, lora=True),
    Kernel("mxfp4_v4", MXFP4_TRTLLM_8, BLACKWELL, frozenset({"silu", "swigluoai", "situ"}), gated_only=True),
    Kernel("mxfp4_v4", MXFP4_DEEPGEMM, BLACKWELL, frozenset({"silu", "swiglustep", "situ"}), gated_only=True),
    Kernel("mxfp4_v4", MARLIN, lora=True),
)

# --moe-backend: what a family makes of the flag's value (map_*_backend); a value without a row is refused
BACKENDS: dict[str, dict[str, str]] = {
    "plain": {"triton": TRITON, "flashinfer_trtllm": TRTLLM, "flashinfer_cutlass": FI_CUTLASS},
    "fp8": {
        "triton": TRITON,
        "deep_gemm": DEEPGEMM,
        "cutlass": VLLM_CUTLASS,
        "flashinfer_trtllm": TRTLLM,
        "flashinfer_cutlass": FI_CUTLASS,
        "marlin": MARLIN,
    },
    "nvfp4": {
        "cutlass": VLLM_CUTLASS,
        "flashinfer_trtllm": TRTLLM,
        "flashinfer_cutlass": FI_CUTLASS,
        "flashinfer_cutedsl": CUTEDSL,
        "marlin": MARLIN,
        "humming": HUMMING,
    },
    "mxfp4": {
        "flashinfer_trtllm": MXFP4_TRTLLM,
        "flashinfer_trtllm_afp8": MXFP4_TRTLLM_8,
        "flashinfer_cutlass": MXFP4_CUTLASS,
        "triton": TRITON,
        "marlin": MARLIN,
        "deep_gemm": MXFP4_DEEPGEMM,
    },
    "mxfp8": {"flashinfer_trtllm": TRTLLM, "deep_gemm": DEEPGEMM, "marlin": MARLIN},
}


# What vLLM calls the kinds of experts and, where it spells them otherwise, their kernels when it refuses one
WORDS = {"plain": "Unquantized", "fp8": "FP8", "nvfp4": "NvFp4", "mxfp4": "Mxfp4", "mxfp8": "MXFP8"}
KINDS = {"plain": "unquantized", "fp8": "FP8", "nvfp4": "NvFP4", "mxfp4": "MXFP4", "mxfp8": "MXFP8"}
SPELT = {TRTLLM: "FlashInfer TRTLLM", FI_CUTLASS: "FlashInfer CUTLASS"}  # of unquantised experts


class Demotion(Span, frozen=True):
    """Kernels that are asked last, and when (oracle/unquantized.py _get_priority_backends)."""

    names: tuple[str, ...]
    sm: Capabilities = ((0, 1000),)
    activation: str = ""
    dp: bool = False


DEMOTIONS: tuple[Demotion, ...] = (
    Demotion((TRTLLM, FI_CUTLASS), HOPPER, since="0.23.0"),  # slower than Triton on Hopper
    Demotion((FI_CUTLASS,), dp=True, since="0.20.0"),
    Demotion((TRTLLM, FI_CUTLASS), activation="swigluoai", since="0.25.0"),
)


# What a kernel rounds one rank's hidden and intermediate sizes up to, before anything is created
class Padding(Span, frozen=True):
    family: str
    kernel: str
    multiples: tuple[int, int]  # of the hidden size, of the intermediate size


# oracle/unquantized.py (0.31.0); oracle/mxfp4.py mxfp4_round_up_hidden_size_and_intermediate_size (before 0.19 the same
# multiples stood in quantization/mxfp4.py create_weights)
PADDING: tuple[Padding, ...] = (
    Padding("plain", TRTLLM, (1, 128), since="0.31.0"),
    Padding("mxfp4", TRITON, (1, 64)),
    Padding("mxfp4", MXFP4_TRTLLM, (256, 256), until="0.27.0"),
    Padding("mxfp4", MXFP4_TRTLLM_8, (256, 256), until="0.27.0"),
    Padding("mxfp4", MXFP4_TRTLLM, (256, 128), since="0.27.0"),
    Padding("mxfp4", MXFP4_TRTLLM_8, (256, 128), since="0.27.0"),
    Padding("mxfp4", MXFP4_CUTLASS, (128, 128)),
    Padding("mxfp4", MARLIN, (256, 128)),
)


class ExpertKernels(Facts):
    kernels = rows(*KERNELS)
    demotions = rows(*DEMOTIONS)
    paddings = rows(*PADDING)
    # online/fp8.py Fp8PerBlockOnlineMoEMethod.maybe_roundup_sizes: whole blocks, before anything is created
    # online/moe_base.py:44 (0.27.0): twice the width for every model; 0.28.0 asks for w13_num_shards
    online_pairs = until("0.28.0")
    online_block = changes(1, ("0.27.0", 128))
    asks_about_lora = since("0.20.0")  # modular_kernel.py is_supported_config

    # oracle/int_wna16.py map_wna16_backend
    packed_backends = members(
        "",
        since={
            "0.25.0": "marlin humming flashinfer_trtllm",
            "0.26.0": "emulation",
            "0.27.0": "triton",
            "0.30.0": "rdna3",
        },
    )

    def kernel(self, query: Query) -> str:
        """The kernel's name; "" where no row takes the layer."""
        name = BACKENDS.get(query.family.split("_")[0], {}).get(query.backend, "")
        if name:
            return name
        if query.lora and not self.asks_about_lora:
            query = replace(query, lora=False)
        if query.lora and query.family == "plain":
            return TRITON
        order = [k for k in self.kernels if k.family == query.family and k.name not in query.excluded]
        for names in self._asked_last(query):
            order.sort(key=lambda k: k.name in names)
        if query.family == "fp8_block" and query.sm == 90:
            # oracle/fp8.py: on Hopper Triton first, FlashInfer's CUTLASS with expert parallelism
            first = FI_CUTLASS if query.expert_parallel else TRITON
            order.sort(key=lambda k: k.name != first)
        return next((k.name for k in order if k.takes(query)), "")

    def refusal(self, query: Query) -> str:
        """Why vLLM refuses the --moe-backend that was asked for; "" where it takes it."""
        kind = query.family.split("_")[0]
        if query.backend == "auto" or (kind == "plain" and (query.lora or query.backend == "humming")):
            return ""
        wanted = BACKENDS.get(kind, {}).get(query.backend, "")
        if not wanted:
            return f"moe_backend='{query.backend}' is not supported for {KINDS[kind]} MoE."
        own = [k for k in self.kernels if k.family == query.family and k.name == wanted]
        if any(k.takes(query) for k in own):
            return ""
        name = SPELT.get(wanted, wanted) if kind == "plain" else f"'{wanted}'" if kind in ("nvfp4", "mxfp4") else wanted
        return f"{WORDS[kind]} MoE backend {name} does not support the deployment configuration"

    def packed_refusal(self, backend: str, sm: int, method: str, *, zeros: bool) -> str:
        """The same of packed integers, which have a choice of their own (oracle/int_wna16.py)."""
        if backend == "auto" or not self.packed_backends:
            return ""
        if backend not in self.packed_backends:
            return f"moe_backend='{backend}' is not supported for WNA16 MoE."
        reason = ""
        if backend == "flashinfer_trtllm":
            blackwell = any(low <= sm < high for low, high in BLACKWELL)
            reason = "" if blackwell else "kernel does not support current device cuda"
            reason = "zero points and bias are not supported" if zeros else reason
        elif backend == "triton" and method == "awq":
            reason = "the AutoAWQ weight layout is not supported"
        words = f"WNA16 MoE backend '{backend.upper()}' does not support the deployment configuration since {reason}."
        return words if reason else ""

    def _asked_last(self, query: Query) -> list[tuple[str, ...]]:
        return [
            demotion.names
            for demotion in self.demotions
            if query.family == "plain"
            and any(low <= query.sm < high for low, high in demotion.sm)
            and (not demotion.activation or demotion.activation == query.activation)
            and (not demotion.dp or query.dp > 1)
        ]

    def multiples(self, family: str, kernel: str) -> tuple[int, int]:
        """What the hidden and the intermediate size are rounded up to."""
        family = family.split("_")[0]
        return next((p.multiples for p in self.paddings if (p.family, p.kernel) == (family, kernel)), (1, 1))
