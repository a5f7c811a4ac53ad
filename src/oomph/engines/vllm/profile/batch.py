"""The profiling batch: what vLLM runs once to see how much memory a forward pass takes."""

from typing import Literal

from msgspec import Struct

from oomph.engines.common.shard import Layout
from oomph.facts.vllm import activation as facts


class Batch(Struct, frozen=True):
    """The profiling batch and what runs it."""

    tokens: int
    seqs: int
    length: int
    dtype: str
    layout: Layout
    sm: int
    sm_count: int
    rules: facts.Profile
    compiled: bool
    cold: bool
    runner: str
    drafts: int
    last_stage: bool
    first_stage: bool
    encoder_bytes: int
    encoder_kept: int  # of it, alive through every later pass
    encoder_traced: bool  # its tensors were counted in a trace
    embeds: bool  # the compiled graph begins with embeddings, not with token ids
    triton_gdn: bool  # gated delta nets prefill with Triton kernels (FlashInfer's on Hopper unless told so)
    block_size: int  # tokens of a block of the attention layers' cache
    l2_bytes: int
    tuned_states: int = 0  # batches of hidden states beside the table that a drafter's first kernel is tuned on
    draft_pass: tuple[int, ...] = ()  # tensors of the drafter's own pass, which reads the model's hidden states
    profiling: bool = True  # kernels are timed in the first pass alone


Widths = tuple[int, ...]  # of tensors that are alive at once: elements of the model's dtype for one token
PhaseKind = Literal["layer", "sampler", "pooler", "encoder", "embedding"]


class Phase(Struct, frozen=True):
    name: str  # as the report calls it
    bytes: int
    kind: PhaseKind = "layer"
    before_experts: bool = False  # within a layer, it runs ahead of the layer's own experts
    widths: Widths = ()
    extra: int = 0  # bytes beside them
