"""The values of flags that vLLM checks only after its parser, by release, and its words for any other.

A word holds for the releases of its range, as in `flag_rows`. Read from the wheels of 0.8.5 to 0.32.0: the methods of
`model_executor/layers/quantization`, the loaders of `model_executor/model_loader`, the members of
`AttentionBackendEnum` (`_Backend` before 0.11.1), the tokenizers of `tokenizers/registry.py` and the names that
`tool_parsers` and `reasoning` register, which vLLM lists in alphabetical order.
"""

from oomph.facts.changes import Dated, Facts, Release, Span, dated_words


def _in_force(text: str) -> Dated[tuple[str, ...]]:
    spans = [(word, Span(since=since, until=until)) for word, since, until in dated_words(text)]

    def at(release: Release) -> tuple[str, ...]:
        return tuple(word for word, span in spans if span.has(release))

    return Dated((end for _, span in spans for end in span.ends), at)


_QUANTIZATION = (
    "awq deepspeedfp<0.15.0 tpu_int8<0.14.0 auto_awq>=0.24.0 fp8 ptpc_fp8<0.19.0 fbgemm_fp8 "
    "fp_quant>=0.11.1 modelopt nvfp4<0.9.0 modelopt_fp4>=0.9.0 marlin<0.10.2 bitblas<0.16.0 "
    "modelopt_mxfp8>=0.16.0 modelopt_mixed>=0.17.0 gguf<0.24.0 gptq_marlin_24<0.16.0 auto_gptq>=0.22.0 "
    "gptq gptq_marlin gptq_bitblas<0.16.0 awq_marlin humming>=0.20.0 compressed-tensors "
    "bitsandbytes<0.28.0 qqq<0.10.2 hqq<0.15.0 experts_int8 neuron_quant<0.10.2 ipex<0.16.0 quark "
    "moe_wna16 torchao auto-round>=0.9.0<0.15.0 rtn>=0.9.2<0.15.0 inc>=0.10.0 mxfp4>=0.10.1 "
    "gpt_oss_mxfp4>=0.20.0 deepseek_v4_fp8>=0.20.0 cpu_awq>=0.12.0<0.23.0 online>=0.20.0 "
    "fp8_per_tensor>=0.20.0 fp8_per_block>=0.20.0 fp8_per_channel>=0.24.0 "
    "int8_per_channel_weight_only>=0.20.0 nvfp4_per_token>=0.26.0 mxfp8>=0.19.0 "
    "petit_nvfp4>=0.10.2<0.20.0 cpu_gptq>=0.12.0<0.14.0 aqlm<0.10.1"
)
_LOAD_FORMATS = (
    "auto hf>=0.12.0 bitsandbytes<0.28.0 dummy fastsafetensors gguf<0.24.0 instanttensor>=0.18.0 "
    "ipc_cache>=0.30.0 mistral modelexpress>=0.22.0 npcache pt runai_streamer runai_streamer_sharded "
    "safetensors sharded_state tensorizer"
)
_ATTENTION = (
    "FLASH_ATTN FLASH_ATTN_VLLM_V1<0.11.0 TRITON_ATTN_VLLM_V1<0.11.0 FLASH_ATTN_DIFFKV>=0.14.0 "
    "TRITON_ATTN>=0.11.0 XFORMERS<0.12.0 ROCM_FLASH<0.11.1 TRITON_ATTN_DIFFKV>=0.24.0 "
    "TRITON_FLASH_ATTN>=0.30.0 ROCM_ATTN>=0.11.0 ROCM_SEGMENTED_ATTN>=0.32.0 ROCM_AITER_MLA "
    "ROCM_AITER_MLA_VLLM_V1>=0.9.0<0.11.0 ROCM_AITER_TRITON_MLA>=0.12.0 ROCM_AITER_FA>=0.10.1 "
    "ROCM_AITER_MLA_SPARSE>=0.12.0 XPU_MLA_SPARSE>=0.18.0 TORCH_SDPA TORCH_SDPA_VLLM_V1>=0.10.2<0.11.0 "
    "FLASHINFER FLASHINFER_VLLM_V1>=0.9.1<0.11.0 TRITON_FLASHINFER>=0.30.0 FLASHINFER_MLA>=0.10.2 "
    "TOKENSPEED_MLA>=0.21.0 FLASHINFER_MLA_SPARSE>=0.17.0 FLASHINFER_MLA_SPARSE_SM120>=0.24.0 "
    "FLASHINFER_MLA_SPARSE_SM90>=0.30.0 TRITON_MLA TRITON_MLA_VLLM_V1>=0.9.1<0.11.0 CUTLASS_MLA>=0.10.1 "
    "FLASHMLA CUTLASS_MLA_VLLM_V1>=0.9.1<0.10.1 HPU_ATTN<0.10.0 FLASHMLA_VLLM_V1>=0.9.1<0.11.0 "
    "FLASHMLA_SPARSE>=0.11.1 FLASHMLA_SPARSE_DSV4>=0.23.0 FLASHINFER_MLA_SPARSE_DSV4>=0.23.0 "
    "ROCM_FLASHMLA_SPARSE_DSV4>=0.23.0 FLASHMLA_SPARSE_DSV41>=0.30.0 FLASHINFER_MLA_SPARSE_DSV41>=0.30.0 "
    "FLASHMLA_MEGA_ATTN_DSV41>=0.31.0 B12X>=0.30.0 FLASH_ATTN_MLA>=0.10.2 PALLAS<0.14.0 "
    "PALLAS_VLLM_V1<0.11.0 IPEX<0.16.0 BLOCK_SPARSE_FLASH_ATTN<0.10.0 DUAL_CHUNK_FLASH_ATTN>=0.9.0<0.11.1 "
    "DIFFERENTIAL_FLASH_ATTN>=0.10.0<0.11.1 FLASH_ATTN_MLA_SPARSE>=0.25.0 MINIMAX_M3_SPARSE>=0.24.0 "
    "CUTLASS_MSA>=0.27.0 TRITON_MSA>=0.27.0 NO_ATTENTION FLEX_ATTENTION>=0.9.1 TREE_ATTN>=0.10.1<0.21.0 "
    "XFORMERS_VLLM_V1>=0.10.1<0.11.0 HPC_ATTN>=0.25.0 ROCM_AITER_UNIFIED_ATTN>=0.11.1 CPU_ATTN>=0.11.1 "
    "CPU_MLA>=0.28.0 AMX_MLA>=0.29.0 TURBOQUANT>=0.20.0 ULTRAQUANT>=0.32.0 CUSTOM>=0.11.1"
)
_TOKENIZERS = (
    "auto slow cohere>=0.27.0 deepseek_v32 deepseek_v4>=0.20.0 fastokens>=0.21.0<0.22.0 "
    "grok2>=0.14.0<0.25.0 deepseek_v41>=0.30.0 hf kimi_audio>=0.18.0 kimi_k3>=0.27.0 mistral "
    "qwen_vl>=0.17.0<0.24.0 inkling>=0.26.0"
)
_TOOL_PARSERS = (
    "apertus>=0.22.0 cohere_command3>=0.21.0 cohere_command4>=0.21.0 deepseek_v3>=0.9.0 "
    "deepseek_v31>=0.10.2 deepseek_v32>=0.13.0 deepseek_v4>=0.20.0 deepseek_v41>=0.30.0 dots>=0.28.0 "
    "ernie45>=0.11.1 functiongemma>=0.14.0 gemma4>=0.19.0 gigachat3>=0.13.0 glm45>=0.10.1 glm47>=0.14.0 "
    "glm4_moe>=0.10.0<0.10.1 granite granite-20b-fc granite4>=0.18.0 hermes hf>=0.32.0 "
    "hunyuan_a13b>=0.10.0 hy_v3>=0.20.0 hy_v4>=0.29.0 inkling>=0.26.0 internlm jamba k2_horizon>=0.30.0 "
    "kimi_k2>=0.10.0 kimi_k3>=0.27.0 lfm2>=0.21.0 ling3>=0.28.0 llama3_json llama4_json "
    "llama4_pythonic>=0.9.0 longcat>=0.11.0 mimo>=0.20.0 minicpm5>=0.23.0 minimax>=0.9.2<0.24.0 "
    "minimax_m2>=0.11.1 minimax_m3>=0.24.0 mistral muse_glimmer>=0.28.0 olmo3>=0.11.1 openai>=0.10.2 "
    "phi4_mini_json plamo3>=0.32.0 poolside_v1>=0.21.0 pythonic qwen3_coder>=0.10.0 qwen3_json>=0.32.0 "
    "qwen3_xml>=0.11.0 seed_oss>=0.10.2 step3>=0.10.1 step3p5>=0.16.0 xlam>=0.9.2"
)
_REASONING_PARSERS = (
    "GptOss>=0.10.1<0.10.2 cohere_command3>=0.21.0 cohere_command4>=0.21.0 deepseek_r1 "
    "deepseek_v3>=0.11.1 deepseek_v4>=0.20.0 deepseek_v41>=0.30.0 ernie45>=0.11.1 gemma4>=0.19.0 "
    "glm45>=0.10.1 glm47>=0.24.0 glm4_moe>=0.10.0<0.10.1 granite granite_thinking_parser>=0.31.0 "
    "hf>=0.32.0 holo2>=0.13.0 hunyuan_a13b>=0.10.0 hy_v3>=0.20.0 hy_v4>=0.29.0 inkling>=0.26.0 "
    "k2_horizon>=0.30.0 kimi_k2>=0.11.1 kimi_k3>=0.27.0 ling3>=0.28.0 mimo>=0.20.0 minicpmv>=0.32.0 "
    "minimax_m2>=0.11.1 minimax_m2_append_think>=0.11.1 minimax_m3>=0.24.0 mistral>=0.10.0 "
    "muse_glimmer>=0.28.0 nemotron_v3>=0.18.0 olmo3>=0.11.1 openai_gptoss>=0.10.2 plamo3>=0.32.0 "
    "poolside_v1>=0.21.0 qwen3>=0.9.0 seed_oss>=0.11.0 step3>=0.10.1 step3p5>=0.16.0"
)


# Methods of a checkpoint that a later release does not have. Not in it: auto-round, which inc reads since, and gguf,
# which a plug-in has.
METHODS_THAT_LEFT = frozenset(word for word, _, until in dated_words(_QUANTIZATION) if until) - {"auto-round", "gguf"}


class Values(Facts):
    """What each of these flags may be."""

    quantization = _in_force(_QUANTIZATION)
    load_format = _in_force(_LOAD_FORMATS)
    attention_backend = _in_force(_ATTENTION)
    tokenizer_mode = _in_force(_TOKENIZERS)
    tool_call_parser = _in_force(_TOOL_PARSERS)
    reasoning_parser = _in_force(_REASONING_PARSERS)


_BACKEND = ("ValueError", "Unknown attention backend: '{value}'. Valid options are: {names}")
# The type of the error and its words. {known} is the list as Python prints it, {names} the same with commas.
UNKNOWN_VALUE: dict[str, tuple[str, str]] = {
    # config/model.py _verify_quantization
    "quantization": ("ValidationError", "Unknown quantization method: {value}. Must be one of {known}."),
    # model_loader/__init__.py get_model_loader
    "load_format": ("ValueError", "Load format `{value}` is not supported"),
    # v1/attention/backends/registry.py _AttentionBackendEnumMeta
    "attention_backend": _BACKEND,
    "mm_encoder_attn_backend": _BACKEND,
    # tokenizers/registry.py load_tokenizer_cls
    "tokenizer_mode": ("ValueError", "No tokenizer registered for tokenizer_mode='{value}'."),
    # entrypoints/launchers/launcher.py validate_api_server_args
    "tool_call_parser": ("KeyError", "invalid tool call parser: {value} (chose from {{ {commas} }})"),
    # reasoning/abs_reasoning_parsers.py get_reasoning_parser, asked by the engine core; shorter before 0.13.0
    "reasoning_parser": ("KeyError", "Reasoning parser '{value}' not found. Available parsers: {names}"),
}
# entrypoints/launchers/cli_args.py validate_parsed_serve_args
NO_TOOL_PARSER = ("TypeError", "Error: --enable-auto-tool-choice requires --tool-call-parser")


def unknown_value(field: str, value: str, known: tuple[str, ...]) -> tuple[str, str]:
    """The type and the text of vLLM's refusal."""
    kind, text = UNKNOWN_VALUE[field]
    return kind, text.format(value=value, known=list(known), names=", ".join(known), commas=",".join(known))
