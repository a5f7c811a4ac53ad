"""What memory does not say about a configuration: an order of expected quality, and a relative speed.

Neither is measured. The quality order is the usual one of published comparisons: what keeps more bits loses less. The
speed is a roofline: bytes read over bandwidth, plus what launches and links add. Both only rank configurations of one
model on one machine.
"""

import math
from collections import Counter

from oomph.facts import gpus
from oomph.ir import Attention, Block, Device, Experts, Linear, Model, Plan, Scheme
from oomph.search.request import Arm
from oomph.units import GIB, cdiv

# A reference request, alone on the machine.
PROMPT, ANSWER = 2048, 256
# Assumed, the same for every arm: twelve kernels a layer, a launch outside a graph, an all-reduce over NVLink and over
# PCIe, one hand-over between pipeline stages, the share of peak bandwidth that decoding kernels reach, PCIe's bytes a
# second.
LAUNCHES = 12
LAUNCH_S = 5e-6
ALL_REDUCE_S = {"NVLink": 10e-6, "other": 30e-6}
STAGE_S = 50e-6
REACHED = 0.8
PCIE = 25_000_000_000
# Assumed: seven of ten drafted tokens are accepted.
ACCEPTED = 0.7
# Decoding beyond the captured sizes runs without graphs: a small reminder that `few_graphs` is not free.
FEW_GRAPHS_COST = 0.97
_STEP = 1.05  # two speeds within 5 % count as equal

ONLINE_LOSS = 1.0  # FP8, as a checkpoint in it (scheme_loss)
KV_FP8_LOSS = 0.3  # assumed: less than any quantisation of weights (scheme_loss)


def scheme_loss(scheme: Scheme | None) -> float:
    """BF16 0 > FP8, INT8 weights only 1 > INT8 with INT8 activations 1.5 > 4-bit weights only 3 > FP4 with FP4 or FP8
    activations 3.5 > fewer bits."""
    if scheme is None or scheme.bits >= 16:
        return 0.0
    if scheme.bits == 8:
        return 1.0 if scheme.kind == "float" or scheme.input_bits >= 16 else 1.5
    if scheme.bits >= 4:
        return 3.0 if scheme.input_bits >= 16 else 3.5
    return 6.0


def quality_loss(model: Model, arm: Arm) -> float:
    """Of the weights, and a little for an 8-bit KV cache."""
    return weights_loss(model, arm.online) + (KV_FP8_LOSS if small_cache(model, arm) else 0.0)


def weights_loss(model: Model, online: str = "") -> float:
    """The mean over the weights of the layers, as the checkpoint has them or as they are quantised on the way."""
    total = lost = 0.0
    for block, times in _blocks(model).items():
        for module in block.modules:
            if isinstance(module, Experts):
                n = module.count * module.hidden * module.intermediate * (3 if module.gated else 2)
            elif isinstance(module, Linear):
                n = module.in_features * module.out_features
            else:
                continue
            total += n * times
            lost += n * times * (ONLINE_LOSS if online else scheme_loss(module.scheme))
    return round(lost / total if total else 0.0, 1)


def small_cache(model: Model, arm: Arm) -> bool:
    """Whether the KV cache has 8 bits, by the arm or because the checkpoint says so."""
    return arm.kv_dtype != "auto" or bool(model.quantization and model.quantization.kv_cache)


def token_bytes(model: Model) -> int:
    """Of one cached token in 16 bits, in the layers that keep every token: no engine takes less."""
    total = 0
    for layer in model.layers:
        for mixer in layer.mixers:
            if isinstance(mixer, Attention) and mixer.shares_cache_of is None:
                if mixer.kind == "full":
                    total += 2 * mixer.num_kv_heads * (mixer.head_dim + mixer.head_dim_v)
                elif mixer.kind == "mla" and not mixer.compress_ratio:
                    total += 2 * (mixer.kv_lora_rank + mixer.qk_rope_head_dim)
    return total


def _blocks(model: Model) -> Counter[Block]:
    """Each kind of layer once, with how often it is there."""
    return Counter(layer.block for layer in model.layers)


def precision(model: Model) -> str:
    """'4-bit', 'FP8', 'BF16': the scheme that most weights have."""
    sizes: dict[str, int] = {}
    for layer in model.layers:
        for module in layer.block.modules:
            if isinstance(module, Experts):
                name, n = _name(module.scheme, model), module.count * module.hidden * module.intermediate
            elif isinstance(module, Linear):
                name, n = _name(module.scheme, model), module.in_features * module.out_features
            else:
                continue
            sizes[name] = sizes.get(name, 0) + n
    return max(sizes, key=lambda k: sizes[k]) if sizes else model.dtype


def _name(scheme: Scheme | None, model: Model) -> str:
    if scheme is None:
        return model.dtype
    if scheme.kind == "float":
        return "FP8" if scheme.bits == 8 else "MXFP4" if scheme.method == "mxfp4" else "FP4"
    return f"INT{scheme.bits}"


def request_seconds(model: Model, arm: Arm, plan: Plan) -> float:
    """The roofline's time for the reference request."""
    devices = plan.deployment.gpus
    tp, pp = arm.layout.tp, arm.layout.pp
    read = kv_read(plan)
    step = stages = 0.0
    for rank in plan.ranks[::tp]:
        device = devices[min(rank.rank, len(devices) - 1)]
        active = active_bytes(model, rank.terms["weights"].parts, rank.terms["weights"].bytes)
        offloaded = min(arm.offload_gib * GIB, active)
        step += (active - offloaded + read / pp) / (_bandwidth(device) * REACHED) + offloaded / PCIE
        stages += STAGE_S if pp > 1 else 0
    link = "NVLink" if "NVLink" in _link(devices[0]) else "other"
    if tp > 1:
        step += 2 * len(model.layers) * ALL_REDUCE_S[link]
    step += stages
    launch = len(model.layers) * LAUNCHES * LAUNCH_S if arm.eager else 0.0
    tokens = int(plan.resolved["max_num_batched_tokens"])
    chunks = cdiv(PROMPT, tokens)
    flops = _flops(devices[0]) * tp
    prefill = max(2 * _active_parameters(model) * PROMPT / flops, chunks * step)
    decode = ANSWER * (step + launch) / (1 + ACCEPTED * arm.drafts)
    return (prefill + decode) / (FEW_GRAPHS_COST if arm.few_graphs else 1.0)


def speed_band(seconds: float) -> int:
    """Higher is faster; neighbours differ by 5 %."""
    return -round(math.log(max(seconds, 1e-9)) / math.log(_STEP))


def active_bytes(model: Model, parts: dict[str, int], total: int) -> int:
    """What one decoding step reads: not the embedding's other rows, not towers, of the experts only those chosen."""
    experts = next((m for layer in model.layers for m in layer.block.modules if isinstance(m, Experts)), None)
    idle = parts.get("embed", 0) + parts.get("multimodal", 0)
    if experts is not None:
        idle += round(parts.get("experts", 0) * (1 - min(1.0, experts.top_k / experts.count)))
    return max(0, total - idle)


def kv_read(plan: Plan) -> int:
    """One user's cache at half of the reference request, of the layers that keep everything."""
    if plan.kv is None or not plan.kv.need_bytes:
        return 0
    length = max(1, int(plan.resolved["max_model_len"]))
    return round(plan.kv.need_bytes * min(1.0, PROMPT / length))


def _active_parameters(model: Model) -> int:
    n = 0
    for block, times in _blocks(model).items():
        for module in block.modules:
            if isinstance(module, Experts):
                n += times * module.top_k * module.hidden * module.intermediate * (3 if module.gated else 2)
            elif isinstance(module, Linear):
                n += times * module.in_features * module.out_features
    return n


def _row(device: Device) -> gpus.GpuRow | None:
    return next((r for r in gpus.rows() if r.name == device.name), None)


def _bandwidth(device: Device) -> int:
    return device.bandwidth or 10**12


def _link(device: Device) -> str:
    row = _row(device)
    return row.link if row else ""


def _flops(device: Device) -> int:
    row = _row(device)
    return (row.fp16_flops if row else 0) or 10**14
