"""The settings that SGLang ends up with: what `resolve` returns and everything after it reads."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class Settings(Struct, frozen=True, kw_only=True):
    """Names are ServerArgs' own. `refusal`: SGLang's words where it stops before it loads anything."""

    tp_size: int = 1
    pp_size: int = 1
    dp_size: int = 1  # replicas
    attn_dp_size: int = 1  # groups that share no attention: --enable-dp-attention
    ep_size: int = 1
    context_length: int = 0
    dtype: str = "BF16"
    kv_cache_dtype: str = "auto"  # SGLang's word
    kv_dtype: str = "BF16"  # the cache's dtype in ours
    page_size: int = 1
    attention_backend: str = ""
    prefill_attention_backend: str = ""
    decode_attention_backend: str = ""
    sparse_layout: str = ""  # "packed": sparse latent attention with its scales beside it
    chunked_prefill_size: int = 0  # per rank that shares attention; -1 = prompts are not cut
    max_prefill_tokens: int = 16384
    cuda_graph_max_bs: int = 0
    cuda_graph_bs: tuple[int, ...] = ()  # () = no decode graphs
    prefill_graph: str = "disabled"
    prefill_graph_sizes: tuple[int, ...] = ()
    mem_fraction_static: float = 0.0
    max_running_requests: int | None = None  # as asked for
    max_total_tokens: int | None = None
    max_mamba_cache_size: int | None = None
    swa_full_tokens_ratio: float = 0.8
    mamba_full_memory_ratio: float = 0.9
    mamba_ssm_dtype: str = ""
    mamba_radix_cache_strategy: str = ""
    states_per_request: int = 0
    disable_radix_cache: bool = False
    disable_overlap_schedule: bool = False
    speculative_algorithm: str = ""
    speculative_num_draft_tokens: int = 0
    speculative_eagle_topk: int = 0
    draft_layers: int = 0  # those of a drafter that a token's cells count
    builds_drafts: bool = False  # the checkpoint's own draft layers are built too
    image_cache_mib: int = 0  # out of the KV budget, for what images leave behind
    disaggregation_mode: str = "null"
    moe_a2a_backend: str = "none"
    quantization: str = ""
    refusal: str = ""

    @property
    def attn_tp_size(self) -> int:
        """Ranks that share the attention of one request."""
        return max(1, self.tp_size // self.attn_dp_size)

    @property
    def drafts(self) -> bool:
        return bool(self.speculative_algorithm)

    def summary(self) -> dict[str, Any]:
        """The settings that people ask for, by SGLang's names."""
        names = (
            "context_length", "mem_fraction_static", "chunked_prefill_size", "max_prefill_tokens", "cuda_graph_max_bs",
            "page_size", "dtype", "kv_cache_dtype", "quantization", "tp_size", "pp_size", "dp_size", "attn_dp_size",
            "ep_size", "disable_radix_cache", "disable_overlap_schedule", "prefill_attention_backend",
            "decode_attention_backend", "prefill_graph", "swa_full_tokens_ratio", "mamba_full_memory_ratio",
            "mamba_radix_cache_strategy", "speculative_algorithm", "speculative_num_draft_tokens",
        )  # fmt: skip
        out = {name: getattr(self, name) for name in names}
        out["cuda_graph_bs"] = list(self.cuda_graph_bs)
        out["prefill_graph_sizes"] = list(self.prefill_graph_sizes)
        return out | self.shared_names()

    def shared_names(self) -> dict[str, Any]:
        """The same settings by the names under which reports and searches ask any engine for them."""
        return {
            "max_model_len": self.context_length,
            "max_num_batched_tokens": self.max_prefill_tokens
            if self.chunked_prefill_size < 1
            else self.chunked_prefill_size,
            "gpu_memory_utilization": self.mem_fraction_static,
            "tensor_parallel_size": self.tp_size,
            "pipeline_parallel_size": self.pp_size,
            "cudagraph_capture_sizes": list(self.cuda_graph_bs),
            "enable_prefix_caching": not self.disable_radix_cache,
        }
