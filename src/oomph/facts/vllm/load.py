"""How vLLM's releases load a model: the allocator's settings, and what happens to the weights on the way."""

from __future__ import annotations

from typing import Literal

from oomph.facts.changes import Dated, Facts, Span, changes, rows, since
from oomph.units import MIB

# fastsafetensors copies whole files to the GPU, one per rank at a time (weight_utils.py
# fastsafetensors_weights_iterator); the hub's usual limit for one file
FASTSAFETENSORS_FILE = 5 * 10**9


class Workspace(Span, frozen=True):
    """A buffer that importing an attention backend allocates: choosing one imports every candidate of the GPU."""

    nbytes: int
    sm: tuple[int, int]  # compute capabilities, from and to (exclusive)


class Loading(Facts):
    # blocks of this size and more are not split while the model loads; 0 = no limit (gpu_worker.py:215, 0.21.0
    # _scoped_allocator_max_split)
    max_split = changes(0, ("0.21.0", 20 * MIB))
    # --quantization fp8 on a 16-bit checkpoint (fp8.py). "after": everything is loaded in 16 bits, then quantised layer
    # by layer. "held": quantised while loading, but the loader's dict keeps every 16-bit parameter until it is done.
    # "meta": parameters come to the GPU when their first tensor does, and are quantised with their last
    online_fp8: Dated[Literal["after", "held", "meta"]] = changes("after", ("0.13.0", "held"), ("0.16.0", "meta"))
    balancing_buffer = since("0.12.0")  # --enable-eplb keeps room for one layer's experts (eplb_state.py)
    # sparse latent attention reserves a batch's queries (flashmla_sparse.py:752, 0.21.0)
    query_workspace = since("0.18.0")
    # Qwen3-VL keeps its deepstack buffers where no vision tower is built (qwen3_vl.py:1823)
    deepstack_without_tower = since("0.28.0")
    mla_workspaces = rows(
        Workspace(128 * MIB, (80, 1000), since="0.11.1", until="0.25.0"),  # flashinfer_mla.py:99 g_fi_workspace
        Workspace(128 * MIB, (100, 110)),  # cutlass_mla.py:99 g_sm100_workspace
    )

    def mla_workspace(self, sm: int) -> int:
        return sum(space.nbytes for space in self.mla_workspaces if space.sm[0] <= sm < space.sm[1])
