"""Which attention kernels SGLang picks, the pages they want, and what it refuses.

Origins: `arg_groups/model_override_base.py` get_default_attn_backend, `arg_groups/model_overrides/*.py`,
`arg_groups/overrides.py` (0.5.23); `server_args.py` (to 0.5.18).
"""

from oomph.facts.changes import Facts, Span, changes, rows, since


class Preferred(Span, frozen=True):
    """The kernels that an architecture gets where no flag names any; "" = those that every model gets."""

    architectures: str
    hopper: str = ""  # compute capability 9.x
    data_centre_blackwell: str = ""  # 10.x
    consumer_blackwell: str = ""  # 12.x
    other: str = ""
    ampere: str = ""  # 8.x, where it is not `other`
    page: int = 0  # the page that comes with them; 0 = as the kernels want it

    def on(self, major: int) -> str:
        by_major = {9: self.hopper, 10: self.data_centre_blackwell, 11: self.other, 12: self.consumer_blackwell}
        return by_major.get(major, (self.ampere or self.other) if major == 8 else self.other)


# kernel -> the compute capabilities (their first number) that it was built for, and what is said on NVIDIA's other
# cards: arg_groups/attention_hook.py, overrides.py, layers/attention/attention_registry.py (0.5.23). Earlier releases
# take fewer.
BUILT_FOR = {
    "trtllm_mha": (
        (9, 10, 11, 12),
        "ValueError: TRTLLM MHA backend for prefill requires Hopper (SM90), Blackwell (SM100), or SM120 GPUs. Please "
        "use a different prefill backend.",
    ),
    "trtllm_mla": (
        (10, 11, 12),
        "ValueError: TRTLLM MLA backend is only supported on Blackwell GPUs (SM100/SM12x). Please use a different "
        "backend.",
    ),
    "cutedsl_mla": (
        (10, 11),
        "ValueError: CuteDSL MLA backend is only supported on Blackwell GPUs (SM100). Please use a different backend.",
    ),
    "fa3": (
        (8, 9),
        "AssertionError: FlashAttention v3 Backend requires SM>=80 and SM<=90. Please use `--attention-backend "
        "flashinfer`.",
    ),
}


class Accepted(Span, frozen=True):
    """Kernels without which an architecture is refused; with `not_these`, kernels that it refuses."""

    architectures: str
    kernels: str = ""
    not_these: str = ""
    text: str = ""  # SGLang's words


_GEMMA_4 = "Gemma4ForConditionalGeneration Gemma4ForCausalLM Gemma4UnifiedForConditionalGeneration"
_WITH_FA3 = "Olmo2ForCausalLM Exaone4ForCausalLM ExaoneMoEForCausalLM ExaoneMoeForCausalLM"


class Kernels(Facts):
    preferred = rows(
        Preferred("GptOssForCausalLM", "fa3", "trtllm_mha", "triton", "triton"),
        Preferred("Llama4ForConditionalGeneration Llama4ForCausalLM", "fa3", "trtllm_mha", "triton", "triton"),
        Preferred(_GEMMA_4, "triton", "triton", "triton", "triton", until="0.5.12"),
        Preferred(_GEMMA_4, "triton", "trtllm_mha", "triton", "triton", since="0.5.12"),
        Preferred(_WITH_FA3, "fa3", "trtllm_mha", "fa3", "triton", "fa3"),
        Preferred("MiMoV2ForCausalLM MiMoV2FlashForCausalLM", data_centre_blackwell="fa4", since="0.5.22"),
        Preferred("Step3p5ForCausalLM Step3p7ForConditionalGeneration", "fa3", "fa4", "fa4", since="0.5.15"),
        Preferred(
            "FalconH1ForCausalLM JetNemotronForCausalLM JetVLMForConditionalGeneration", data_centre_blackwell="triton"
        ),
        Preferred("GraniteMoeHybridForCausalLM Lfm2ForCausalLM Lfm2MoeForCausalLM", data_centre_blackwell="flashinfer"),
        Preferred(
            "NemotronHForCausalLM NemotronHPuzzleForCausalLM NemotronH_Omni_Reasoning_V3",
            data_centre_blackwell="flashinfer",
            until="0.5.18",
        ),
        Preferred(
            "NemotronHForCausalLM NemotronHPuzzleForCausalLM NemotronH_Omni_Reasoning_V3",
            data_centre_blackwell="trtllm_mha",
            since="0.5.18",
        ),
        Preferred(
            "DeepseekV3ForCausalLM DeepseekV32ForCausalLM KimiK25ForConditionalGeneration MistralLarge3ForCausalLM "
            "PixtralForConditionalGeneration GlmMoeDsaForCausalLM LongcatFlashForCausalLM",
            data_centre_blackwell="trtllm_mla",
        ),
        Preferred("KimiK3ForConditionalGeneration", data_centre_blackwell="trtllm_mla"),
        Preferred("InklingForConditionalGeneration", "fa4", "fa4", "triton", "triton"),
        Preferred(
            "MiniMaxM3SparseForCausalLM MiniMaxM3SparseForConditionalGeneration",
            hopper="fa3",
            data_centre_blackwell="fa4",
            page=128,
        ),
        Preferred("EmbeddingGemma2Model", "triton", "triton", "triton", "triton"),
    )
    # arg_groups/model_overrides/qwen3_5.py: TensorRT-LLM's kernels where states have spare slots, else Triton's
    linear_attention_hybrids = changes(
        frozenset(
            (
                "Qwen3NextForCausalLM", "Qwen3_5MoeForConditionalGeneration", "Qwen3_5ForConditionalGeneration",
                "InternS2PreviewForConditionalGeneration", "InternS2MobiusForConditionalGeneration",
            )
        )
    )  # fmt: skip
    # arg_groups/model_overrides/qwen3_vl.py: on Hopper cards of 60 GiB and more
    vision_decode = changes(frozenset[str](), ("0.5.20", frozenset({"qwen3_vl", "qwen3_vl_moe"})))
    # models with learned sinks: FlashInfer's kernels have none
    sinks = since("0.5.12")
    nemotron_drafts = since("0.5.19")  # a rule for Blackwell where drafts are verified
    wide_keys = since("0.5.23")  # K and V rows of unequal width on data-centre Blackwell get fa4

    accepted = rows(
        Accepted(
            _GEMMA_4,
            "trtllm_mha triton fa4 ascend intel_xpu intel_amx aiter",
            text="AssertionError: Gemma4 only supports trtllm_mha, triton, fa4, ascend, intel_xpu, intel_amx, or aiter "
            "attention backend, got prefill={prefill}, decode={decode}",
            since="0.5.13",
        ),
        Accepted(
            "GptOssForCausalLM",
            "triton trtllm_mha fa3 fa4 ascend intel_amx intel_xpu aiter",
            text="AssertionError: GptOssForCausalLM requires one of ['triton', 'trtllm_mha', 'fa3', 'fa4', 'ascend', "
            "'intel_amx', 'intel_xpu', 'aiter'] attention backend, but got the following backends\n"
            "- Prefill: {prefill}\n- Decode: {decode}\n",
        ),
        Accepted(
            "Llama4ForConditionalGeneration Llama4ForCausalLM",
            "fa3 aiter triton ascend trtllm_mha intel_xpu",
            text="AssertionError: fa3, aiter, triton, ascend, trtllm_mha or intel_xpu is required for Llama4 model but "
            "got {attention}",
        ),
        Accepted(
            "Exaone4ForCausalLM ExaoneMoEForCausalLM ExaoneMoeForCausalLM",
            "fa3 triton trtllm_mha",
            text="AssertionError: One of the attention backends in ['fa3', 'triton', 'trtllm_mha'] is required for "
            "{architecture}, but got {attention}",
        ),
        Accepted(
            "Olmo2ForCausalLM",
            not_these="flashinfer",
            text="AssertionError: FlashInfer backend can significantly degrade the performance of Olmo3 models.",
        ),
        Accepted(
            "Lfm2ForCausalLM Lfm2MoeForCausalLM",
            not_these="triton",
            text="AssertionError: {architecture} does not support triton attention backend, as the first layer might "
            "not be an attention layer",
        ),
        Accepted(
            "NemotronHForCausalLM NemotronHPuzzleForCausalLM",
            not_these="triton",
            text="AssertionError: NemotronHForCausalLM does not support triton attention backend,as the first layer "
            "might not be an attention layer",
            until="0.5.19",
        ),
    )


# overrides.py _mla_backend_page_constraints: the pages that kernels run on, and the one that is taken instead
PAGES: dict[str, tuple[tuple[int, ...], int]] = {
    "flashmla": ((64,), 64),
    "trtllm_mla": ((32, 64), 64),
    "cutedsl_mla": ((32, 64), 64),
    "trtllm_mha": ((16, 32, 64, 128), 64),
    "hpc_ops": ((64,), 64),
}
FA4_PAGE = 128  # _fa4_page_constraint, on data-centre Blackwell, except latent attention
