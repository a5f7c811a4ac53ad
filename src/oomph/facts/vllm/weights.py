"""What changed over the releases in how vLLM builds a model."""

from typing import Literal

from oomph.facts.changes import Dated, Facts, Span, changes, members, names, rows, since, until
from oomph.ir import Scheme
from oomph.units import MIB

EMBEDDING_METHODS = ("eagle", "eagle3", "dflash", "dspark")  # utils.py:863 (0.32.0) spec_decode_needs_target_embed


class WeightFacts(Facts):
    # the architectures whose class asks it: llama.py and qwen2.py, and those that inherit from them
    embeds_for_drafts = changes(
        names(""),
        (
            "0.30.0",
            names(
                "LlamaForCausalLM MistralForCausalLM Qwen2ForCausalLM Qwen3ForCausalLM Phi3ForCausalLM "
                "Ernie4_5ForCausalLM Glm4ForCausalLM MiMoForCausalLM TeleChat2ForCausalLM TeleFLMForCausalLM"
            ),
        ),
    )
    # every class builds a head, and a tied one gets the embedding's weight: at once, or after the load where the
    # checkpoint stores a head too (model_loader/weight_tying.py); before, about half of the classes
    separate_tied_head = since("0.29.0")
    # quantisation methods that quantise lm_head where the checkpoint did
    quantised_heads = changes(
        frozenset({"gptq"}),
        ("0.23.0", frozenset({"gptq", "modelopt_fp4", "modelopt_mixed"})),  # modelopt.py:186, 2387
        ("0.29.0", frozenset({"awq", "gptq", "modelopt_fp4", "modelopt_mixed", "compressed-tensors"})),
    )
    # config/parallel.py use_sequence_parallel_moe: all2all backends with which shared experts are whole on every rank
    # classes that build their experts without EPLB's redundant ones, whatever eplb_config says (0.32.0: those files of
    # model_executor/models that make experts and never name num_redundant_experts; older releases were not read)
    without_spares = frozenset(
        names("""
        AriaForConditionalGeneration BailingMoeForCausalLM BailingMoeV2ForCausalLM Cohere2MoeForCausalLM DbrxForCausalLM
        Ernie4_5_VLMoeForConditionalGeneration GraniteMoeForCausalLM GraniteMoeSharedForCausalLM JambaForCausalLM
        LongcatFlashForCausalLM MiniMaxM2ForCausalLM OlmoeForCausalLM PhiMoEForCausalLM Qwen2MoeForCausalLM
        SarvamMoEForCausalLM Step3TextForCausalLM Step3VLForConditionalGeneration
        """)
    )
    sequence_parallel = members(
        "allgather_reducescatter deepep_high_throughput deepep_low_latency nixl_ep mori",
        since={
            "0.23.0": "mori_high_throughput mori_low_latency",
            "0.29.0": "flashinfer_nvlink_one_sided",
            "0.31.0": "deepep_v2",
            "0.32.0": "passthrough",
        },
    )
    # architectures whose class builds its attention without the quantisation config: no loadable KV scales
    unscaled = members(
        "BailingMoeForCausalLM BailingMoeV2ForCausalLM BambaForCausalLM JambaForCausalLM Lfm2ForCausalLM "
        "Lfm2MoeForCausalLM Zamba2ForCausalLM",
        until={"0.14.0": "NemotronHForCausalLM", "0.16.0": "FalconH1ForCausalLM"},
    )
    # --quantization fp8 of a plain checkpoint: Fp8Config, with KV scales, until quantization/online/ took it over
    online_scales = until("0.31.0")


# Schemes of a quantisation config that not every release reads, and what is built in their place.


class Reading(Span, frozen=True, kw_only=True):
    """`becomes`: the scheme of modules that the config gives `method` and `format`; None = built unquantised."""

    method: str
    format: str
    becomes: Scheme | None = None


class Readings(Facts):
    schemes = rows(
        # modelopt.py ModelOptMixedPrecisionConfig.get_quant_method: an algorithm it does not know is left unquantised
        Reading(method="modelopt_fp4", format="mixed W4A16_NVFP4", until="0.22.0"),
        Reading(method="modelopt_mxfp8", format="mixed MXFP8", until="0.25.0"),
        # models/deepseek_v4/quant_config.py (0.22.0) reads moe_quant_algo; before, experts were MXFP4 whatever it says
        Reading(
            method="modelopt_fp4",
            format="ModelOpt experts in an FP8 checkpoint",
            until="0.22.0",
            becomes=Scheme("mxfp4", 4, "float", "group", 32),
        ),
    )


# How vLLM's releases load a model: the allocator's settings, and what happens to the weights on the way.

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
