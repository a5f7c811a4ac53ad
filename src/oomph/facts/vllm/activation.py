"""How vLLM's model classes hold tensors while a layer runs, and what the kernels behind them keep.

The profiling pass runs one batch of max_num_batched_tokens without attention metadata. Its peak is a matter of which
tensors Python still refers to: the decoder loop keeps the hidden state and the residual, an MLP that binds
`gate_up` to a name keeps it through the down projection, an MLP that rebinds `x` does not. Read from
model_executor/models/*.py of 0.21.0 with the rows measured on an H200 in view (tests/truth/h200.jsonl): most come
out to the byte, but no row was kept back to test the law. The counts of Falcon-H1, Granite and Cohere were set
to their rows; architectures that are not listed here get the default, unmeasured.
"""

from __future__ import annotations

from msgspec import Struct

from oomph.facts.vllm.versions import Range
from oomph.units import MIB

# cuBLAS asks PyTorch's allocator for one workspace and keeps it: 32 MiB from Hopper on (ATen/cuda/CUDABlas.cpp
# getChosenWorkspaceSize: 4096*8 KiB), 8.125 MiB before (:4096:2:16:8).
CUBLAS_WORKSPACE_HOPPER = 32 * MIB
CUBLAS_WORKSPACE = 8 * MIB + 128 * 1024


class Holding(Struct, frozen=True):
    """Hidden-size tensors alive beside the widest ones: `attention` through the output projection (its result
    included), `mlp` at the MLP's own peak."""

    attention: int = 3  # hidden state and residual of the loop, the projection's output
    mlp: int = 4  # hidden state and residual of the loop, the MLP's input, the down projection's output
    state: int = 3  # the same for a recurrent layer
    keeps_gate_up: bool = True  # False: `x = self.gate_up_proj(x)` lets it go before the down projection


# LlamaMLP and its likes rebind x; the peak is then inside the activation, before there is a down projection's output.
_REBINDS = Holding(mlp=3, keeps_gate_up=False)
# Norms that return new tensors: the loop's hidden state and residual live beside the layer's own.
_COPYING_NORMS = Holding(attention=5, mlp=5)
# The layer hands its residual back to the loop, which keeps the last layer's too (commandr.py).
_PARALLEL_BLOCKS = Holding(attention=4, mlp=5)
_ONE_NORM = Holding(mlp=2)  # nemotron_h.py: a layer is one mixer; up, relu and square are all inside the MLP

HOLDING: dict[str, Holding] = {
    "LlamaForCausalLM": _REBINDS,
    "MistralForCausalLM": _REBINDS,
    "Mistral3ForConditionalGeneration": _REBINDS,
    "Phi3ForCausalLM": _REBINDS,
    "Llama4ForConditionalGeneration": _REBINDS,
    "DeciLMForCausalLM": _REBINDS,
    "BambaForCausalLM": _REBINDS,
    # falcon_h1.py runs both mixers on scaled copies of the hidden state and adds their outputs
    "FalconH1ForCausalLM": Holding(mlp=3, state=5, keeps_gate_up=False),
    "BailingMoeForCausalLM": _REBINDS,
    "GemmaForCausalLM": _COPYING_NORMS,
    "Gemma2ForCausalLM": _COPYING_NORMS,
    "Gemma3ForCausalLM": _COPYING_NORMS,
    "Gemma3ForConditionalGeneration": _COPYING_NORMS,
    "CohereForCausalLM": _PARALLEL_BLOCKS,
    "Cohere2ForCausalLM": _PARALLEL_BLOCKS,
    "NemotronHForCausalLM": _ONE_NORM,
    # granitemoehybrid.py adds `hidden * residual_multiplier` to a residual of its own
    "GraniteMoeHybridForCausalLM": Holding(state=4),
}

# Attention that also normalises V into a new tensor (gemma4.py v_norm).
NORMALISES_V = frozenset({"Gemma4ForConditionalGeneration", "Gemma4ForCausalLM"})


class ProfileRules(Range, frozen=True):
    """What the profiling pass of a release does beyond the forward pass."""

    sampler_passes: str  # "v1": top-k/top-p twice over float32 copies; "v2": logits and one copy; "old": V1 before 0.17
    mla_workspace: bool  # the chunked-prefill buffer of latent attention is allocated while profiling
    moe_workspace: bool  # expert kernels share one persistent workspace (WorkspaceManager)
    tunes_gdn: bool = False  # gated delta nets tune their prefill kernels while profiling (_warmup_prefill_kernels)


# Read from the releases: v1/sample/ops/topk_topp_triton.py is there since 0.17.0, WorkspaceManager since 0.13.0,
# _warmup_prefill_kernels since 0.18.0. The older sampler's 9.6 copies were measured on 0.11 only.
PROFILE: tuple[ProfileRules, ...] = (
    ProfileRules(sampler_passes="v1", mla_workspace=True, moe_workspace=True, tunes_gdn=True, since="0.18.0"),
    ProfileRules(sampler_passes="v1", mla_workspace=True, moe_workspace=True, since="0.17.0", until="0.18.0"),
    ProfileRules(sampler_passes="old", mla_workspace=True, moe_workspace=True, since="0.13.0", until="0.17.0"),
    ProfileRules(sampler_passes="old", mla_workspace=True, moe_workspace=False, until="0.13.0"),
)
# Triton times candidate kernels with a buffer that flushes the L2 cache between runs (triton/testing.py do_bench).
TRITON_FLUSH_BYTES = 256_000_000
OLD_SAMPLER_COPIES = 9.6  # float32 copies of [max_num_seqs, vocabulary], measured on 0.11
