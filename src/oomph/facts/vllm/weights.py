"""What changed over the releases in how vLLM builds a model."""

from oomph.facts.changes import Facts, changes, members, names, since, until

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
    separate_tied_head = since("0.29.0")  # a tied checkpoint that stores an lm_head gets one built for it
    # quantisation methods that quantise lm_head where the checkpoint did
    quantised_heads = changes(
        frozenset({"gptq"}),
        ("0.23.0", frozenset({"gptq", "modelopt_fp4", "modelopt_mixed"})),  # modelopt.py:186, 2387
        ("0.29.0", frozenset({"awq", "gptq", "modelopt_fp4", "modelopt_mixed", "compressed-tensors"})),
    )
    # config/parallel.py use_sequence_parallel_moe: all2all backends with which shared experts are whole on every rank
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
