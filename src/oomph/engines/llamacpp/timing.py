"""How long llama.cpp's steps take."""

from collections.abc import Mapping
from functools import cache

from msgspec.structs import replace

from oomph.engines.common.offload import OnHost
from oomph.engines.llamacpp.source import source_of
from oomph.ir import Block, Experts, Linear, Model, Param, Plan
from oomph.ir.model import Part
from oomph.simulate.accuracy import LLAMACPP_DENSE, LLAMACPP_EXPERTS
from oomph.simulate.speed import PlainFactors, Timing, plain_timing
from oomph.sources import place
from oomph.sources.load import load_once

# Set on one half of tests/truth/llamacpp_speeds.jsonl and llamacpp_steps.jsonl and judged on the other
# (tools/accuracy_llamacpp_speed.py). Prompts are multiplied in 8 bits (MMQ) with the instruction for tiles of 16 x 8 x
# 32 (mma.sync), which does as much in each SM and clock on an A100, an H100 and a B200 as on a GeForce: nine tenths of
# the 512 FLOP of 16 bits that an SM of a GeForce does. A vector is multiplied with dp4a (MMVQ): 27 billion weights take
# 13.5 ms on an H100, 13.2 on an H200 and 12.2 on a B300, ten in a clock of an SM, and no bandwidth helps. What a kernel
# takes besides is clocks too: 2.6 us at an RTX 4090's.
FACTORS = PlainFactors(
    bandwidth=0.84, expert_bandwidth=0.75, compute=0.9, experts=0.6, attention=0.55, overhead_ms=0.3, kernel_us=2.6,
    kernel_clocks=6500, tile_flops=512, vector_weights=10.0, request_ms=1.0, response_ms=5.0,
)  # fmt: skip
# Metal has no graphs that are launched whole: each kernel is encoded and waits for the one before it. Set on the eight
# rows of Macs in tests/truth/speeds-ollama.jsonl, judged on others (speeds-local.jsonl).
METAL = replace(FACTORS, kernel_us=10.0)
# Radeons and Arcs: as little of their peak as in vLLM (`OTHER` of simulate/step_costs.py).
OTHER = replace(FACTORS, compute=0.0, experts=0.0, attention=0.0)
# Compute capability 6.1 multiplies 16-bit numbers at 1/64 of the rate of 32-bit ones, and bytes at four times that rate
# (Tesla P40: 12 TFLOP/s, 47 TOP/s in 8 bits, by its datasheet). llama.cpp takes the bytes for products and 32 bits for
# attention (ggml-cuda/common.cuh: GGML_CUDA_CC_DP4A is 610, fast_fp16_available leaves 610 out).
PASCAL = replace(FACTORS, compute=0.6 * 4 * 64 / 2, experts=0.4 * 4 * 64 / 2, attention=0.3 * 64)
# Capability 6.0 has no dp4a: four multiplications stand in for it.
P100 = replace(FACTORS, vector_weights=4.0)
# Bytes of one element of the KV cache (ggml's block types).
ELEMENT = {"f32": 4.0, "f16": 2.0, "bf16": 2.0, "q8_0": 1.0625, "q5_1": 0.75, "q5_0": 0.6875, "q4_1": 0.625,
           "q4_0": 0.5625, "iq4_nl": 0.5625}  # fmt: skip


def timing(plan: Plan, model: Model | None) -> Timing | None:
    """None: nobody knows how fast the card is, or there is none in use."""
    resolved = plan.resolved
    model = model if _has_products(model) else _source(plan)
    if model is None:
        return None
    routed = any(isinstance(module, Experts) for layer in model.layers for module in layer.block.modules)
    element = (ELEMENT.get(str(resolved["type_k"]), 2.0) + ELEMENT.get(str(resolved["type_v"]), 2.0)) / 2
    error = LLAMACPP_EXPERTS if routed else LLAMACPP_DENSE
    return plain_timing(
        plan, model, _factors(plan), error, chunk=int(resolved["n_ubatch"]), kv_bytes=element,
        on_cpu=_on_cpu(resolved["host"]["parts"]),
    )  # fmt: skip


def _factors(plan: Plan) -> PlainFactors:
    device = plan.deployment.gpus[0] if plan.deployment.gpus else None
    if device is None:
        return FACTORS
    if device.vendor != "nvidia":
        return METAL if device.vendor == "apple" else OTHER
    return {(6, 0): P100, (6, 1): PASCAL}.get(device.capability, FACTORS)


def _has_products(model: Model | None) -> bool:
    """A model in GGUF form has tensors instead."""
    kinds = (Linear, Experts)
    return model is not None and any(isinstance(m, kinds) for layer in model.layers for m in layer.block.modules)


def _source(plan: Plan) -> Model | None:
    """What is served, with its matrices as products: a file's own, else those of the checkpoint that it is made of."""
    if not place.is_gguf_file(plan.deployment.model):
        return source_of(plan.model) or source_of(plan.deployment.model)
    file = load_once(plan.deployment.model)
    experts = int(str(dict(file.params).get("expert_used_count", 0)))
    layers = tuple(replace(layer, block=_products(layer.block, experts)) for layer in file.layers)
    return replace(file, layers=layers) if layers else None


@cache
def _products(block: Block, chosen: int) -> Block:
    """`chosen`: experts of a token."""
    matrices = [m for m in block.modules if isinstance(m, Param) and m.name.endswith(".weight") and len(m.shape) > 1]
    names = {matrix.name for matrix in matrices}
    gated = not names.isdisjoint(("ffn_gate_exps.weight", "ffn_gate_up_exps.weight"))
    out: list[Linear | Experts] = []
    for matrix in matrices:
        rows, width = matrix.shape[-2:]
        if matrix.name == "ffn_down_exps.weight":
            out.append(
                Experts(
                    matrix.name,
                    matrix.shape[0],
                    rows,
                    intermediate=width,
                    top_k=chosen,
                    dtype=matrix.dtype,
                    gated=gated,
                )
            )
        elif len(matrix.shape) == 2:
            part = Part(matrix.name, rows)
            out.append(Linear(matrix.name, (part,), width, "replicated", matrix.role, matrix.dtype))
    return Block(tuple(out))


def _on_cpu(parts: Mapping[str, int]) -> OnHost:
    """What the CPU multiplies. Of the embedding it reads a token's row; encoders run once for each image."""
    experts = parts.get("experts", 0)
    idle = ("embed", "multimodal", "projector", "experts")
    return OnHost(float(sum(size for name, size in parts.items() if name not in idle)), float(experts))
