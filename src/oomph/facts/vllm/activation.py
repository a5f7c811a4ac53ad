"""How vLLM's model classes hold tensors while a layer runs, and what the kernels behind them keep.

The profiling pass runs one batch of max_num_batched_tokens without attention metadata. Its peak is a matter of which
tensors are still referred to (engines/vllm/profile/live.py). The counts below are from model_executor/models/*.py of
0.21.0 and from memory traces of start-ups on an H200 (tests/truth/activation.jsonl names each); an architecture that is
not listed gets the default, which most classes share.
"""

from typing import Literal

from msgspec import Struct

from oomph.facts.changes import Dated, Facts, changes, since, until
from oomph.units import MIB

# cuBLAS asks PyTorch's allocator for one workspace and keeps it: 32 MiB from Hopper on (ATen/cuda/CUDABlas.cpp
# getChosenWorkspaceSize: 4096*8 KiB), 8.125 MiB before (:4096:2:16:8).
CUBLAS_WORKSPACE_HOPPER = 32 * MIB
CUBLAS_WORKSPACE = 8 * MIB + 128 * 1024


def cublas_workspace(sm: int) -> int:
    return CUBLAS_WORKSPACE_HOPPER if sm >= 90 else CUBLAS_WORKSPACE


class FloatNorm(Struct, frozen=True):
    """Queries (and keys) that are normalised in float32 by plain PyTorch, where nothing is compiled."""

    query: int  # float32 tensors of the query
    alive: int  # hidden-size tensors beside them
    copies: int = 0  # tensors of the query in the model's dtype
    key: bool = False  # one float32 tensor of the key


class Holding(Struct, frozen=True):
    """Hidden-size tensors alive beside the widest ones: `attention` through the output projection (its result
    included), `mlp` at the MLP's own peak."""

    attention: int = 3  # hidden state and residual of the loop, the projection's output
    mlp: int = 4  # hidden state and residual of the loop, the MLP's input, the down projection's output
    state: int = 3  # the same for a recurrent layer
    scan: int = 2  # hidden state and residual beside a recurrent layer's scan (nemotron_h.py, counted under load)
    experts: int = 3  # hidden state and residual of the loop, the experts' input
    keeps_gate_up: bool = True  # False: `x = self.gate_up_proj(x)` lets it go before the down projection
    keeps_qkv: int = 0  # projections that are kept as views of K and V
    outputs: int = 1  # tensors of the attention's output
    float_norm: FloatNorm | None = None
    splits_qkvz: bool = False  # a gated delta net that copies q, k, v and z out of an interleaved projection
    compiled: int = 2  # the old residual (an argument of the piece) and the new one
    compiled_experts: int = 0
    inner: float = 0  # an MLP without a gate: tensors of its width beside the projection and its activation
    # a multimodal model's loop keeps the runner's buffer of embeddings alive instead of a tensor of its own; norms that
    # return new tensors let it go at once (traced on 0.26.0)
    lent_input: bool = True
    tuned: bool = True  # the activation is one of Inductor's own kernels, which it tunes


# LlamaMLP and its likes rebind x; the peak is then inside the activation, before there is a down projection's output.
_REBINDS = Holding(mlp=3, keeps_gate_up=False)
# Norms that return new tensors: the loop's hidden state and residual live beside the layer's own.
_COPYING_NORMS = Holding(attention=5, mlp=5, lent_input=False)
# The layer hands its residual back to the loop, which keeps the last layer's too (commandr.py).
_PARALLEL_BLOCKS = Holding(attention=4, mlp=5, compiled=3)
# nemotron_h.py: a layer is one mixer; up, relu and square are all inside the MLP
_ONE_NORM = Holding(mlp=2, inner=1)
# gelu is vLLM's own operation there; with experts, a dense MLP runs beside them
_GEMMA_4 = Holding(tuned=False, compiled_experts=3, lent_input=False)
_DEEPSEEK = Holding(mlp=5, compiled_experts=1)  # deepseek_v2.py:1163: the residual is a clone
# llama4.py:293: the query is made contiguous, then normalised
_LLAMA_4 = Holding(mlp=3, keeps_gate_up=False, float_norm=FloatNorm(2, 2, copies=1))
# qwen3_next.py:299: query and gate are copied out of the projection; Gemma-style norms
_QWEN_NEXT = Holding(float_norm=FloatNorm(3, 5, copies=2), scan=4)
# hunyuan_v1.py hands K and V, views of the projection, from layer to layer
_KEEPS_KV = Holding(keeps_qkv=2)

HOLDING: dict[str, Holding] = {
    "LlamaForCausalLM": _REBINDS,
    "MistralForCausalLM": _REBINDS,
    "Mistral3ForConditionalGeneration": _REBINDS,
    "Phi3ForCausalLM": _REBINDS,
    "Llama4ForConditionalGeneration": _LLAMA_4,
    "DeciLMForCausalLM": _REBINDS,
    "BambaForCausalLM": _REBINDS,
    # activation.py:617 _xielu_python; the mask is a byte wide
    "ApertusForCausalLM": Holding(mlp=3, keeps_gate_up=False, inner=3.5),
    "AquilaForCausalLM": _REBINDS,
    "ArceeForCausalLM": Holding(mlp=3, keeps_gate_up=False, inner=1),
    "InternLM3ForCausalLM": _REBINDS,
    "XverseForCausalLM": _REBINDS,
    "LlamaModel": _REBINDS,
    "MistralModel": _REBINDS,
    "GlmForCausalLM": _REBINDS,
    "Llama4ForCausalLM": _LLAMA_4,
    "BailingMoeV2ForCausalLM": _REBINDS,
    "NemotronForCausalLM": Holding(inner=1),
    "GPT2LMHeadModel": _REBINDS,
    "GPTNeoXForCausalLM": _REBINDS,
    "OPTForCausalLM": _REBINDS,
    "PhiForCausalLM": _REBINDS,
    "BloomForCausalLM": _REBINDS,
    "Starcoder2ForCausalLM": _REBINDS,
    "Glm4ForCausalLM": _REBINDS,
    "Glm4vForConditionalGeneration": _REBINDS,
    "Olmo2ForCausalLM": _REBINDS,
    "Olmo3ForCausalLM": _REBINDS,
    "Ernie4_5ForCausalLM": _REBINDS,
    "JambaForCausalLM": Holding(mlp=3, keeps_gate_up=False, tuned=False),
    "Lfm2ForCausalLM": Holding(tuned=False),
    "Lfm2MoeForCausalLM": Holding(tuned=False),
    # falcon_h1.py runs both mixers on scaled copies of the hidden state and adds their outputs
    "FalconH1ForCausalLM": Holding(mlp=3, state=5, keeps_gate_up=False, compiled=3),
    "BailingMoeForCausalLM": _REBINDS,
    "GemmaForCausalLM": _COPYING_NORMS,
    "Gemma2ForCausalLM": _COPYING_NORMS,
    "Gemma3ForCausalLM": _COPYING_NORMS,
    "Gemma3ForConditionalGeneration": _COPYING_NORMS,
    "Gemma4ForCausalLM": _GEMMA_4,
    "Gemma4ForConditionalGeneration": _GEMMA_4,
    "CohereForCausalLM": _PARALLEL_BLOCKS,
    "Cohere2ForCausalLM": _PARALLEL_BLOCKS,
    "NemotronHForCausalLM": _ONE_NORM,
    "DeepseekV2ForCausalLM": _DEEPSEEK,
    "DeepseekV3ForCausalLM": _DEEPSEEK,
    "DeepseekV32ForCausalLM": _DEEPSEEK,
    "GlmMoeDsaForCausalLM": _DEEPSEEK,
    "KimiK25ForConditionalGeneration": _DEEPSEEK,
    "KimiLinearForCausalLM": Holding(attention=4),  # kimi_linear.py:368: the residual is a copy
    "HunYuanDenseV1ForCausalLM": _KEEPS_KV,
    "HunYuanMoEV1ForCausalLM": _KEEPS_KV,
    # minimax_m2.py:247: query and key normalised together, in float32
    "MiniMaxM2ForCausalLM": Holding(float_norm=FloatNorm(3, 2, key=True)),
    "Qwen3NextForCausalLM": Holding(float_norm=FloatNorm(3, 5, copies=2), splits_qkvz=True, state=6, scan=4),
    "Qwen3_5ForConditionalGeneration": _QWEN_NEXT,
    "Qwen3_5MoeForConditionalGeneration": _QWEN_NEXT,
    "Qwen3_5ForCausalLM": _QWEN_NEXT,
    "Qwen3_5MoeForCausalLM": _QWEN_NEXT,
    "LagunaForCausalLM": Holding(outputs=2, attention=2),  # laguna.py:450: the output times a gate
    # granitemoehybrid.py adds `hidden * residual_multiplier` to a residual of its own
    "GraniteMoeHybridForCausalLM": Holding(state=4, mlp=5, compiled=4),
}

EAGLE3_STATES = (
    3  # hidden states of three layers go to an EAGLE-3 head (llama.py get_eagle3_default_aux_hidden_state_layers)
)

# Seen in a trace. Of 29 passes of which no count had been taken (mostly hybrids, compiled), 13 came out within 2 % and
# 18 within 10 % before their own traces were read: expect that of the others.
TRACED = frozenset({
    "ApertusForCausalLM", "BambaForCausalLM", "Cohere2ForCausalLM", "CohereForCausalLM", "DeepseekV2ForCausalLM",
    "DeepseekV32ForCausalLM", "DeepseekV3ForCausalLM", "Ernie4_5ForCausalLM", "Ernie4_5_MoeForCausalLM",
    "Exaone4ForCausalLM", "FalconH1ForCausalLM", "Gemma2ForCausalLM", "Gemma3ForCausalLM",
    "Gemma3ForConditionalGeneration", "Gemma4ForConditionalGeneration", "GemmaForCausalLM", "Glm4ForCausalLM",
    "Glm4MoeForCausalLM", "Glm4vForConditionalGeneration", "GlmMoeDsaForCausalLM", "GptOssForCausalLM",
    "GraniteMoeHybridForCausalLM", "HunYuanDenseV1ForCausalLM", "HunYuanMoEV1ForCausalLM",
    "InternVLForConditionalGeneration", "JambaForCausalLM", "KimiK25ForConditionalGeneration",
    "KimiLinearForCausalLM", "LagunaForCausalLM", "Lfm2ForCausalLM", "Llama4ForConditionalGeneration",
    "LlamaForCausalLM", "Mamba2ForCausalLM", "MiniMaxM2ForCausalLM", "Mistral3ForConditionalGeneration",
    "MistralForCausalLM", "MixtralForCausalLM", "NemotronForCausalLM", "NemotronHForCausalLM", "Olmo2ForCausalLM",
    "Phi3ForCausalLM", "Qwen2ForCausalLM", "Qwen2MoeForCausalLM", "Qwen2_5_VLForConditionalGeneration",
    "Qwen3ForCausalLM", "Qwen3MoeForCausalLM", "Qwen3NextForCausalLM", "Qwen3VLForConditionalGeneration",
    "Qwen3VLMoeForConditionalGeneration", "Qwen3_5ForConditionalGeneration", "Qwen3_5MoeForConditionalGeneration",
    "Starcoder2ForCausalLM",
})  # fmt: skip

# Attention that also normalises V into a new tensor (gemma4.py v_norm).
NORMALISES_V = frozenset({"Gemma4ForConditionalGeneration", "Gemma4ForCausalLM"})


class Profile(Facts):
    """What the profiling pass of a release does beyond the forward pass."""

    # "v1": top-k/top-p twice over float32 copies (v1/sample/ops/topk_topp_triton.py); "old": V1 before it
    sampler_passes: Dated[Literal["old", "v1"]] = changes("old", ("0.17.0", "v1"))
    # Expert kernels share one persistent workspace (WorkspaceManager, there since 0.13.0). Before make_fp8_moe_kernel
    # every method called fused_experts, which allocates for itself (fused_moe.py:1838).
    moe_workspace = since("0.14.0")
    # FP8 experts that go to FlashInfer on Hopper too (oracle/fp8.py _get_priority_backends): those with static scales
    # and those with blocks of scales, these since 0.17 under expert parallelism only
    flashinfer_fp8: Dated[Literal["", "blocks", "blocks under EP"]] = changes(
        "", ("0.15.0", "blocks"), ("0.17.0", "blocks under EP")
    )
    # One kernel activates and quantises to FP8 whatever the scales; before, only for scales in blocks. Seen in compiled
    # passes of 0.21.0 and 0.26.0 on an H200: the releases between them were not measured.
    fuses_quantisation = since("0.26.0")
    tunes_gdn = since("0.18.0")  # gated delta nets tune their prefill kernels while profiling (_warmup_prefill_kernels)
    # the V2 runner copies the logits to float32 even where nobody asks for a change to them (gpu/sample/sampler.py)
    v2_copies = until("0.26.0")
    # Quantisations whose experts call fused_marlin_moe themselves: its buffers are then made anew for every layer
    # instead of once in the shared workspace (read from model_executor/layers/quantization/*.py of each release).
    direct_marlin: Dated[frozenset[str]] = changes(
        frozenset({"awq", "gptq", "compressed-tensors"}),
        ("0.20.0", frozenset({"awq", "compressed-tensors"})),
        ("0.22.0", frozenset({"compressed-tensors"})),
        ("0.23.0", frozenset()),
    )
    # PyTorch's benchmarker has a buffer as large as the L2 cache while kernels are tuned; torch 2.13's has none then
    # (Qwen3-0.6B at 16,384 tokens on an H200, 0.32.0: 448 MiB, with the buffer 508)
    flushes_cache = until("0.27.0")
    # quantization/utils/humming/priority.py: on Hopper, Humming's kernels come before Marlin's
    prefers_humming = since("0.32.0")


# Triton times candidate kernels with a buffer that flushes the L2 cache between runs (triton/testing.py do_bench).
TRITON_FLUSH_BYTES = 256_000_000
OLD_SAMPLER_COPIES = 9.6  # float32 copies of [max_num_seqs, vocabulary], measured on 0.11 only
