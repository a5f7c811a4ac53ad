"""How high --mem-fraction-static may go for one deployment on its cards, so that graphs and requests still fit beside
the pools: the one figure that advice, fit, gpus and the plan's warning use."""

from math import floor

from msgspec import Struct

from oomph.engines.sglang.kv.buffers import partial_outputs
from oomph.engines.sglang.kv.pools import Pools
from oomph.engines.sglang.resolve.settings import ModelShape, Settings
from oomph.engines.sglang.terms import layer_bytes
from oomph.engines.values import SafeShare
from oomph.facts.sglang.facts import Facts
from oomph.ir import STAGE_WORDS, Model, Plan, RankPlan, Stage
from oomph.units import GIB

# Chosen: room for what no measured load showed, as a share of the card (as for vLLM).
RESERVE = 0.005
# Chosen, for a plan that ends before the pools are there: what follows them is not planned then.
UNPLANNED = 0.95
HIGHEST = 0.99
_GROWS = ("kv_alloc", "cudagraph_capture", "runtime_request")


def safe_fraction(plan: Plan) -> SafeShare:
    """The tightest rank's. The pools rise by a share of what was free before the load, byte for byte."""
    share = float(plan.resolved.get("mem_fraction_static") or UNPLANNED)
    unplanned = SafeShare(UNPLANNED, "the plan ends before the pools, so what follows is not known")
    return min((_of_rank(plan, rank, share) for rank in plan.ranks), key=lambda safe: safe.value, default=unplanned)


def _of_rank(plan: Plan, rank: RankPlan, share: float) -> SafeShare:
    last = [stage for stage in rank.stages if stage.name in _GROWS]
    free = rank.terms["free_before_load"].bytes
    if not last or not free:
        return SafeShare(UNPLANNED, "the plan ends before the pools, so what follows is not known")
    tightest = max(last, key=lambda stage: stage.peak_high)
    room = rank.total_bytes * (1 - RESERVE) - tightest.peak_high
    beyond = (tightest.peak_high - last[0].resident_bytes) / GIB
    growth = 1 + (_decoding_per_pool_byte(plan, last) if room > 0 else 0.0)
    value = floor(100 * (share + room / (free * growth)) + 1e-6) / 100
    reason = f"{STAGE_WORDS[tightest.name][0]} may take {beyond:.2f} GiB beside the pools"
    return SafeShare(max(0.0, min(HIGHEST, value)), reason)


def _decoding_per_pool_byte(plan: Plan, stages: list[Stage]) -> float:
    """Larger pools admit more requests, and where these decode without a graph they take more themselves."""
    kv, serving = plan.kv, stages[-1]
    if kv is None or not kv.block_size or serving.note != EAGER_DECODING:
        return 0.0
    pool = kv.logged_tokens * kv.bytes_per_block / kv.block_size
    admitted = kv.logged_tokens // SHORT_REQUEST
    if not pool or admitted >= int(plan.resolved["max_running_requests"]):
        return 0.0
    return (serving.peak_high - stages[-2].peak_bytes) / pool


# What decoding takes where no graph is replayed: batches larger than the largest graph, or all of them.
#
# Measured on an H200 (0.5.17, 512 requests, graphs up to 256): 0.69 GB for Qwen3-8B, 1.12 for Gemma 2 9B; Triton's
# attention asked for 4.00 GiB for DeepSeek-V2-Lite, and there were 3.50.

# Logits in the model's dtype, once more in float32, and a copy in between: 8.0 of the 8.1 to 8.9 bytes per logit that
# were measured; the rest is the layers'.
_BYTES_PER_LOGIT = 8
# Chosen: the shortest request that a server full of them is thought to hold.
SHORT_REQUEST = 128
EAGER_DECODING = "decoding without a graph"


class Decoding(Struct, frozen=True):
    requests: int = 0  # the largest batch that the pools admit
    nbytes: int = 0  # what it takes; 0 = every batch that can run replays a graph
    graphs: int = 0  # the largest batch that does

    def load_beyond(self, room: int) -> str:
        """The smallest load that so much room does not hold."""
        fits = max(self.graphs, room * self.requests // self.nbytes if self.nbytes else 0)
        least = min(self.requests, fits + 1)
        return f"{least:,} requests that decode at once, of {self.requests:,} that may run"


def decoding_without_graph(
    model: Model, shape: ModelShape, settings: Settings, facts: Facts, pools: Pools, multiprocessors: int
) -> Decoding:
    """The largest batch that the pools admit. Triton's attention allocates its partial outputs for a batch while it
    still refers to those of the last one (triton_backend.py init_forward_metadata)."""
    requests, graphs = min(pools.requests, pools.tokens // SHORT_REQUEST), max(settings.cuda_graph_bs, default=0)
    if requests <= graphs or settings.disaggregation_mode == "prefill":
        return Decoding()
    rows = requests * max(1, settings.speculative_num_draft_tokens if settings.drafts else 1)
    size = rows * model.vocab_size * _BYTES_PER_LOGIT + layer_bytes(model, settings, rows)
    if settings.decode_attention_backend == "triton":
        size += 2 * partial_outputs(model, shape, settings, facts, rows, multiprocessors)
    return Decoding(requests, size, graphs)
