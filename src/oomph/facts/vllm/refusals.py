"""What vLLM says when it refuses flags, by release."""

from oomph.facts.changes import Facts, changes, table

_ROUTED = "--enable-return-routed-experts is incompatible with "


def _missing(name: str, count: str, arguments: str) -> str:
    """Python's own words."""
    plural = "" if count == "1" else "s"
    return f"{name}Config.__init__() missing {count} required positional argument{plural}: {arguments}"


class Refusals(Facts):
    """An empty text: the release does not check."""

    # config/parallel.py __post_init__: one replica against the GPUs of this node. Older releases turned to Ray, which
    # waits for half an hour (executor/ray_utils.py).
    world_size = changes(
        "Cannot provide a placement group of placement_group_specs=[{{'GPU': 1.0}}] * {ranks} within 1800 seconds. See "
        "`ray status` and `ray list nodes` to make sure the cluster has enough resources.",
        ("0.11.1", "Tensor parallel size ({ranks}) cannot be larger than the number of available GPUs ({gpus})."),
        (
            "0.13.0",
            "World size ({ranks}) is larger than the number of available GPUs ({gpus}) in this node. If this is "
            "intentional and you are using:\n- ray, set '--distributed-executor-backend ray'.\n"
            "- multiprocessing, set '--nnodes' appropriately.",
        ),
    )
    # v1/worker/gpu_worker.py init_device: the first rank that has no GPU. Older releases hid all GPUs from it.
    rank_out_of_bounds = changes(
        "RuntimeError: No CUDA GPUs are available",
        ("0.11.1", "AssertionError: DP adjusted local rank {rank} is out of bounds. "),
        ("0.24.0", "AssertionError: DP adjusted local rank {rank} is out of bounds for {gpus} devices."),
    )
    every_rank_is_checked = changes(False, ("0.24.0", True))  # before: those of replicas alone
    # v1/executor/ray_utils.py _wait_until_pg_ready
    ray_ranks = changes(
        "Cannot provide a placement group of placement_group_specs=[{{'GPU': 1.0}}] * {ranks} within 1800 seconds. See "
        "`ray status` and `ray list nodes` to make sure the cluster has enough resources.",
        (
            "0.13.0",
            "Cannot provide a placement group requiring {ranks} GPUs within 1800 seconds.\nTensor parallel size may "
            "exceed available GPUs in your cluster. Check resources with `ray status` and `ray list nodes`.",
        ),
    )
    # v1/engine/utils.py create_dp_placement_groups
    ray_replicas = changes(
        "AssertionError: Not enough resources to allocate DP ranks on DP master node",
        (
            "0.15.0",
            "Not enough resources to allocate {replicas} DP ranks on DP master node, possible to fit {fits} DP ranks.",
        ),
    )
    # config/speculative.py:1757 (0.30.0) hands --enable-expert-parallel on to the drafter; 0.31.0 asks first whether it
    # has experts, releases before do not hand it on
    drafter_needs_experts = changes(
        "",
        ("0.30.0", "Number of experts in the model must be greater than 0 when expert parallelism is enabled."),
        ("0.31.0", ""),
    )
    # v1/attention/backends/triton_attn.py:505 (0.32.0); 0.30.0 is the oldest release that was read
    bfloat16_cache = changes(
        "",
        (
            "0.30.0",
            "bfloat16 KV cache is not supported on {gpu} (compute capability {sm}); bfloat16 requires SM80+. Re-run "
            "with --kv-cache-dtype float16.",
        ),
    )
    # v1/attention/backends: what a layer hands on that a backend's class does not take
    attention_arguments = table(
        {
            # qwen2.py and kin with a dual_chunk_attention_config: no backend of the V1 engine has it
            "layer_idx": changes(("", ()), ("0.11.0", ("TypeError", ()))),
            "chunk_lookback": changes(("TypeError", ("TRITON_ATTN",))),
            "use_alibi_sqrt": changes(("ValueError", ("TRITON_ATTN",))),
        }
    )
    # The same, of methods whose class cannot be made without what a checkpoint says
    wants_arguments = table(
        {
            "fbgemm_fp8": changes(_missing("FBGEMMFp8", "2", "'ignore_list' and 'input_scale_ub'")),
            "quark": changes(_missing("Quark", "1", "'quant_config'")),
            "torchao": changes(_missing("TorchAO", "1", "'torchao_config'")),
            "online": changes(_missing("OnlineQuantization", "1", "'args'")),  # which --quantization-config gives
            "compressed-tensors": changes(
                _missing(
                    "CompressedTensors",
                    "5",
                    "'target_scheme_map', 'ignore', 'quant_format', 'sparsity_scheme_map', and 'sparsity_ignore_list'",
                ),
                ("0.22.0", _missing("CompressedTensors", "3", "'target_scheme_map', 'ignore', and 'quant_format'")),
            ),
        }
    )
    # config/vllm.py _verify_aux_output_compatibility (0.32.0, the oldest release whose words were read)
    routed_needs = changes(
        (),
        (
            "0.32.0",
            (
                ("v2", "AuxOutput Connector requires Model Runner V2; set VLLM_USE_V2_MODEL_RUNNER=1."),
                ("generates", "AuxOutput Connector only supports generate runners."),
                ("moe", "AuxOutput Connector only supports MoE models."),
                ("prefix", "AuxOutput Connector requires prefix caching."),
                ("one_stage", _ROUTED + "pipeline parallelism (PP > 1)."),
                ("whole_context", _ROUTED + "context parallelism (DCP/PCP > 1)."),
            ),
        ),
    )
    # v1/attention/backends/mla/flashmla_sparse.py
    dcp_sparse = changes(
        "",
        (
            "0.29.0",
            "DCP for FlashMLA sparse requires an fp8_ds_mla kv-cache; the bf16 sparse path is not supported under DCP.",
        ),
    )
    eplb_alone = changes(
        "EPLB requires tensor_parallel_size or data_parallel_size to be greater than 1, but got TP={tp},DP={dp}.",
        ("0.26.0", "EPLB requires tensor, prefill-context, or data parallelism, but got TP={tp}, PCP={pcp}, DP={dp}."),
    )
    # config/model.py verify_with_parallel_config: for models without MLA
    dcp_few_ranks = changes(
        "",
        (
            "0.11.1",
            "Assertion failed, tensor parallel size {tp} must be greater than total num kv heads {kv} when enable "
            "decode context parallel for GQA/MQA",
        ),
        (
            "0.27.0",
            "Decode context parallelism for GQA/MQA requires `--tensor-parallel-size` ({tp}) to be greater than the "
            "model's total number of KV heads ({kv}). Increase `--tensor-parallel-size` or set "
            "`--decode-context-parallel-size 1`.",
        ),
    )
    dcp_too_wide = changes(
        "",
        (
            "0.11.1",
            "Assertion failed, decode context parallel size must less than or equal to (tensor parallel size {tp} // "
            "total num kv heads {kv}) = {most}, but got {dcp}",
        ),
        (
            "0.27.0",
            "`--decode-context-parallel-size` ({dcp}) exceeds the maximum supported value ({most}) for "
            "`--tensor-parallel-size` ({tp}) and {kv} model KV heads.",
        ),
    )


# turboquant/config.py get_boundary_skip_layers: hybrids whose configs do not name their attention layers by any of the
# keys that it looks at (layer_types, layers_block_type, attn_type_list)
UNNAMED_ATTENTION = frozenset({"FalconH1ForCausalLM", "Plamo2ForCausalLM", "Zamba2ForCausalLM"})
UNNAMED_REFUSAL = (
    "TurboQuant KV cache requires identifiable full-attention layers, but none were found in the hybrid model config."
)
# weight_utils.py get_quant_config: --quantization of a checkpoint without a quantisation config, where the method wants
# a file of its own
WANTS_CONFIG_FILE = (
    "awq", "awq_marlin", "auto_awq", "gptq", "gptq_marlin", "auto_gptq", "modelopt", "modelopt_fp4", "modelopt_mxfp8",
    "modelopt_mixed", "moe_wna16", "inc", "cpu_awq",
)  # fmt: skip
# config/speculative.py hf_config_override (0.32.0): what `"method": "mtp"` knows draft layers of, by the type of the
# config or by its architecture; anything else is no speculative method. A release that lacks one of them lacks the
# architecture too.
OWN_DRAFT_TYPES = frozenset({
    "bailing_hybrid", "deepseek_v3", "deepseek_v32", "deepseek_v4", "dots3_note", "ernie4_5_moe", "exaone4_5",
    "exaone4_5_text", "exaone_moe", "gemma4_assistant", "gemma4_unified_assistant", "glm5_next", "glm_moe_dsa", "hy_v3",
    "hy_v4", "inkling_mm_model", "inkling_model", "intern_s2_preview", "interns2_mobius", "kimi_k3", "longcat_flash",
    "longcat_flash_ngram", "minimax_m3_vl", "nemotron_h", "nemotron_h_puzzle", "pangu_ultra_moe", "qwen3_5",
    "qwen3_5_moe", "qwen3_5_moe_text", "qwen3_5_text", "qwen3_next", "qwen4_exp", "qwen4_exp_text", "step3p5",
    "step3p7",
})  # fmt: skip
OWN_DRAFT_ARCHITECTURES = frozenset({
    "BailingMoeV2_5ForCausalLM", "BailingMoeV3ForCausalLM", "BailingMoeV3VLForConditionalGeneration",
    "Glm4MoeForCausalLM", "Glm4MoeLiteForCausalLM", "GlmOcrForConditionalGeneration", "MiMoForCausalLM",
    "MiMoV2FlashForCausalLM", "MiMoV2ForCausalLM", "MiMoV2OmniForCausalLM", "MiniMaxM3SparseForConditionalGeneration",
    "NemotronH_Omni_Reasoning_V3", "NemotronH_Super_Omni_Reasoning_V3", "Step3p5ForCausalLM",
    "Step3p7ForConditionalGeneration",
})  # fmt: skip
# of these the override asks whether the checkpoint has any
ONLY_WITH_DRAFTS = ("nemotron_h", "nemotron_h_puzzle", "NemotronH_")
DRAFTS_COUNTED_BY_CLASS = ("MiMoV2",)  # mimo_v2_mtp.py has the number, whatever the config says
NO_INKLING_DRAFTS = "The Inkling checkpoint does not contain MTP weights"
