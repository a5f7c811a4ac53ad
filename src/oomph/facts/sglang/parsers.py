"""The names that --tool-call-parser and --reasoning-parser take, release by release, and the words of other choices.

Origins: `function_call/function_call_parser.py` ToolCallParserEnum and `parser/reasoning_parser.py` DetectorMap of
every release; "auto" is a choice of both since 0.5.12 (`server_args.py`).
"""

from oomph.facts.changes import Facts
from oomph.facts.sglang.architectures import evolving


class Parsers(Facts):
    tool_call_parser = evolving(
        "deepseekv3 deepseekv31 deepseekv32 glm glm45 glm47 gpt-oss kimi_k2 llama3 mimo mistral pythonic qwen qwen25 "
        "qwen3_coder step3 minimax-m2 interns1",
        ("0.5.8", "+trinity"),
        ("0.5.9", "+lfm2 +step3p5 +hermes +gigachat3"),
        ("0.5.11", "+hunyuan +gemma4"),
        ("0.5.12", "+auto +deepseekv4 +poolside_v1"),
        ("0.5.13", "+apertus2509 +cohere_command4 +minicpm5"),
        ("0.5.16", "+minimax-m3 +inkling"),
        ("0.5.17", "+kimi_k3"),
        ("0.5.18", "+muse"),
        ("0.5.19", "+dots +ling3 +spark25"),
        ("0.5.20", "+k2_horizon +nanbeige"),
        ("0.5.21", "+deepseekv41 +gigachat35 +iquest_q1"),
        ("0.5.23", "+beam +response_template"),
    )
    reasoning_parser = evolving(
        "deepseek-r1 deepseek-v3 glm45 gpt-oss kimi kimi_k2 qwen3 qwen3-thinking minimax minimax-append-think step3 "
        "nano_v3 interns1",
        ("0.5.9", "+step3p5"),
        ("0.5.10", "+mimo +mistral +nemotron_3 -nano_v3"),
        ("0.5.11", "+hunyuan +gemma4"),
        ("0.5.12", "+auto +deepseek-v4 +poolside_v1"),
        ("0.5.13", "+apertus2509 +cohere_command4"),
        ("0.5.16", "+minimax-m3 +inkling"),
        ("0.5.17", "+kimi_k3"),
        ("0.5.18", "+muse"),
        ("0.5.19", "+dots +ling3"),
        ("0.5.20", "+k2_horizon +nanbeige +granite_thinking_parser"),
        ("0.5.21", "+deepseek-v41 +gigachat35 +iquest_q1"),
        ("0.5.23", "+beam +response_template"),
    )


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# What `choices.py` of 0.5.23 and `server_args.py` of 0.5.4 and 0.5.12 let pass, together: a word that none of them has
# is refused by every release. A word that came or went between them is let pass.
_LOAD_FORMAT = _words(
    """auto bitsandbytes dummy expert_pack fastsafetensors flash_rl gguf instanttensor layered mistral npcache
    presharded private pt remote remote_instance runai_streamer safetensors sharded_state"""
)
_QUANTIZATION = _words(
    """auto-round auto-round-int8 awq awq_marlin bitsandbytes compressed-tensors fp8 gguf gptq gptq_marlin humming
    marlin mlx_q4 mlx_q8 modelopt modelopt_fp4 modelopt_fp8 modelopt_mixed modelslim moe_wna16 mxfp4 mxfp8 mxfp_w4a8
    nvfp4_online petit_nvfp4 qoq quark quark_int4fp8_moe quark_mxfp4 unquant w4afp8 w8a8_fp8 w8a8_int8"""
)
_ATTENTION_BACKEND = _words(
    """aiter ascend compressed cutedsl_mla cutlass_mla dsa dsv4 dual_chunk_flash_attn fa3 fa4 flashinfer flashmla
    flex_attention hpc_ops intel_amx intel_xpu llada2_cfg_flashinfer minicpm_flashattn minicpm_flashinfer nsa qsa
    tokenspeed_mla torch_native triton trtllm_mha trtllm_mla wave"""
)
_MOE_RUNNER_BACKEND = _words(
    """aiter auto cutlass deep_gemm experimental_sgl_marlin experimental_sgl_trtllm flashinfer_cutedsl
    flashinfer_cutlass flashinfer_megamoe flashinfer_mxfp4 flashinfer_trtllm flashinfer_trtllm_routed hpc_ops
    humming intel_xpu lora_cutedsl lora_marlin lora_triton marlin megamoe triton triton_kernel"""
)
CHOICES = {
    "quantization": _QUANTIZATION,
    "attention_backend": _ATTENTION_BACKEND,
    "prefill_attention_backend": _ATTENTION_BACKEND,
    "decode_attention_backend": _ATTENTION_BACKEND,
    "load_format": _LOAD_FORMAT,
    "moe_runner_backend": _MOE_RUNNER_BACKEND,
}
