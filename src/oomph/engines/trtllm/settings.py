"""The settings that TensorRT-LLM ends up with: what `resolve` returns and everything after it reads."""

from typing import Any

from msgspec import Struct


class Settings(Struct, frozen=True, kw_only=True):
    """Names are TorchLlmArgs' own. `refusal`: the engine's words where it stops before it loads anything."""

    tp_size: int = 1
    pp_size: int = 1
    ep_size: int = 1  # moe_expert_parallel_size
    pp_partition: tuple[int, ...] = ()
    enable_attention_dp: bool = False
    lm_head_tp: bool = False  # enable_lm_head_tp_in_adp
    max_batch_size: int = 2048
    max_num_tokens: int = 8192
    max_seq_len: int = 0  # as asked for, or the model's
    max_beam_width: int = 1
    free_gpu_memory_fraction: float = 0.9
    max_tokens: int | None = None
    max_gpu_total_bytes: int = 0
    tokens_per_block: int = 32
    dtype: str = "BF16"
    kv_dtype: str = "BF16"  # our name; F4 = NVFP4 with its scales
    enable_block_reuse: bool = True
    manager_v2: bool = False  # kv_cache_config.use_kv_cache_manager_v2
    max_util_for_resume: float = 0.95  # V2: of the pool, the part that max_tokens may fill
    host_cache_size: int | None = None  # None: V2 takes as much as the GPU's quota
    lora_share: float = 0.0  # of what is free behind the weights, for the cache of adapters; 0 = no adapters
    windows: tuple[int, ...] = ()  # max_attention_window, repeated over the layers; () = the whole context
    graph_batch_sizes: tuple[int, ...] = ()  # () = no graphs
    overlap: bool = True  # not disable_overlap_scheduler
    chunked_prefill: bool = False
    policy: str = "GUARANTEED_NO_EVICT"
    moe_backend: str = "AUTO"
    moe_max_num_tokens: int = 0  # moe_config.max_num_tokens: tokens of a chunk of the experts; 0 = the backend's own
    attn_backend: str = "TRTLLM"
    decoding_type: str = ""  # of speculative_config
    draft_tokens: int = 0  # max_draft_len
    draft_layers: int = 0  # MTP: further layers in the last stage's pool
    draft_model: str = ""  # speculative_config.speculative_model(_dir)
    draft_apart: bool = False  # a second model engine, whose cache the estimator counts too
    extra_tokens: int = 1  # of every sequence while the capacity is estimated
    compiles_pieces: bool = False  # torch_compile_config: piecewise CUDA graphs of prompts
    estimates: bool = True  # a dummy run measures the peak
    fail_fast: bool = False
    refusal: str = ""

    @property
    def cache_tp(self) -> int:
        """Ranks that share the KV heads of one request."""
        return 1 if self.enable_attention_dp else self.tp_size

    @property
    def moe_tp(self) -> int:
        return max(1, self.tp_size // self.ep_size)

    @property
    def graph_batch(self) -> int:
        """The largest batch that a graph is captured for."""
        return min(self.max_batch_size, max(self.graph_batch_sizes, default=0))

    @property
    def printed_seq_len(self) -> int:
        """max_seq_len with what the executor adds to it: every extra token of a sequence but the generated one."""
        return self.max_seq_len + self.extra_tokens - 1

    def summary(self) -> dict[str, Any]:
        """The settings that people ask for, by the engine's names, then by those that reports and searches share."""
        names = (
            "tp_size", "pp_size", "ep_size", "enable_attention_dp", "max_batch_size", "max_num_tokens", "max_seq_len",
            "max_beam_width", "free_gpu_memory_fraction", "tokens_per_block", "dtype", "kv_dtype",
            "enable_block_reuse", "chunked_prefill", "policy", "moe_backend", "attn_backend", "decoding_type",
            "draft_tokens", "overlap",
        )  # fmt: skip
        out: dict[str, Any] = {name: getattr(self, name) for name in names}
        out["graph_batch_sizes"] = list(self.graph_batch_sizes)
        out["max_attention_window"] = list(self.windows)
        return out | {
            "max_model_len": self.max_seq_len,
            "max_num_batched_tokens": self.max_num_tokens,
            "max_num_seqs": self.max_batch_size,
            "gpu_memory_utilization": self.free_gpu_memory_fraction,
            "tensor_parallel_size": self.tp_size,
            "pipeline_parallel_size": self.pp_size,
            "cudagraph_capture_sizes": list(self.graph_batch_sizes),
            "enable_prefix_caching": self.enable_block_reuse,
            "kv_cache_dtype": self.kv_dtype,
        }
