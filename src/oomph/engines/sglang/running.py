"""What decoding takes where no graph is replayed: batches larger than the largest graph, or all of them.

Measured on an H200 (0.5.17, 512 requests, graphs up to 256): 0.69 GB for Qwen3-8B, 1.12 for Gemma 2 9B; Triton's
attention asked for 4.00 GiB for DeepSeek-V2-Lite, and there were 3.50.
"""

from __future__ import annotations

from msgspec import Struct

from oomph.engines.sglang.buffers import partial_outputs
from oomph.engines.sglang.model_shape import ModelShape
from oomph.engines.sglang.pools import Pools
from oomph.engines.sglang.settings import Settings
from oomph.engines.sglang.terms import layer_bytes
from oomph.facts.sglang.facts import Facts
from oomph.ir import Model

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
