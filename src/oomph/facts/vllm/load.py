"""How vLLM's releases load a model: the allocator's settings, and what happens to the weights on the way."""

from __future__ import annotations

from functools import cache
from typing import Literal

from oomph.facts.vllm.versions import Range, pick, select
from oomph.units import MIB


class LoadRules(Range, frozen=True):
    max_split: int  # blocks of this size and more are not split while the model loads; 0 = no limit
    # --quantization fp8 on a 16-bit checkpoint (fp8.py). "after": everything is loaded in 16 bits, then quantised layer
    # by layer. "held": quantised while loading, but the loader's dict keeps every 16-bit parameter until it is done.
    # "meta": parameters come to the GPU when their first tensor does, and are quantised with their last
    online_fp8: Literal["after", "held", "meta"]
    balancing_buffer: bool = True  # --enable-eplb keeps room for one layer's experts (eplb_state.py)
    query_workspace: bool = False  # sparse latent attention reserves a batch's queries (flashmla_sparse.py:752, 0.21.0)
    deepstack_without_tower: bool = False  # Qwen3-VL keeps its deepstack buffers where no vision tower is built


LOAD: tuple[LoadRules, ...] = (
    LoadRules(20 * MIB, "meta", query_workspace=True, deepstack_without_tower=True, since="0.28.0"),  # qwen3_vl.py:1823
    LoadRules(20 * MIB, "meta", query_workspace=True, since="0.21.0"),  # gpu_worker.py:215 _scoped_allocator_max_split
    LoadRules(0, "meta", query_workspace=True, since="0.18.0"),
    LoadRules(0, "meta", since="0.16.0"),
    LoadRules(0, "held", since="0.13.0"),
    LoadRules(0, "after", since="0.12.0"),
    LoadRules(0, "after", balancing_buffer=False),
)
# fastsafetensors copies whole files to the GPU, one a rank at a time (weight_utils.py
# fastsafetensors_weights_iterator); the hub's usual limit for one file
FASTSAFETENSORS_FILE = 5 * 10**9


@cache
def load_rules(version: str) -> LoadRules:
    return pick(LOAD, version)


class Workspace(Range, frozen=True):
    """A buffer that importing an attention backend allocates: choosing one imports every candidate of the GPU."""

    nbytes: int
    sm: tuple[int, int]  # compute capabilities, from and to (exclusive)


MLA_WORKSPACES: tuple[Workspace, ...] = (
    Workspace(128 * MIB, (80, 1000), since="0.11.1", until="0.25.0"),  # flashinfer_mla.py:99 g_fi_workspace
    Workspace(128 * MIB, (100, 110)),  # cutlass_mla.py:99 g_sm100_workspace
)


@cache
def mla_workspace(version: str, sm: int) -> int:
    return sum(w.nbytes for w in select(MLA_WORKSPACES, version) if w.sm[0] <= sm < w.sm[1])
