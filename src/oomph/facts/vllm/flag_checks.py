"""Combinations of flags that vLLM's config classes refuse, a row per check, in the order in which vLLM makes them.

Each group is one class or one place of `EngineArgs.create_engine_config`: the groups follow each other as vLLM builds
its configs. A text is vLLM's own; {words} are the values of flags, or of `FlagSet`.
"""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from oomph.facts.changes import Facts, Span, rows

# all2all backends with which one batch may be cut in two
_DEEPEP = ("deepep_low_latency", "deepep_high_throughput")
_EAGLE = ("eagle", "eagle3", "extract_hidden_states", "mtp", "dflash")  # config/speculative.py EagleModelTypes
_GONE_ONCE = ("experts_int8", "petit_nvfp4")  # the same list of 0.14.0 to 0.19.0
_GONE_SOON = ("fbgemm_fp8", "fp_quant")  # quantization/__init__.py DEPRECATED_QUANTIZATION_METHODS


class FlagSet(Struct, frozen=True):
    """What a check looks at: the flags, and what they come to."""

    flags: Mapping[str, Any]
    pools_only: bool = False  # the model's class cannot generate
    mla: bool = False
    quantization: str = ""
    length: int = 0
    tokens: int = 0
    seqs: int = 0
    method: str = ""
    drafts: int = 0
    target_vocab: int = 0
    draft_vocab: int = 0
    queries_per_kv: int = 0
    block_size: int = 0

    def number(self, name: str, default: int = 1) -> int:
        value = self.flags.get(name)
        return value if isinstance(value, int) else default

    def inside(self, name: str) -> Mapping[str, Any]:
        """A flag whose value is an object of its own."""
        value = self.flags.get(name)
        return value if isinstance(value, Mapping) else {}

    def text(self, name: str) -> str:
        return str(self.flags.get(name) or "")

    @property
    def tp(self) -> int:
        return self.number("tensor_parallel_size")

    @property
    def pp(self) -> int:
        return self.number("pipeline_parallel_size")

    @property
    def dp(self) -> int:
        return self.number("data_parallel_size")

    @property
    def pcp(self) -> int:
        return self.number("prefill_context_parallel_size")

    @property
    def dcp(self) -> int:
        return self.number("decode_context_parallel_size")

    @property
    def widths(self) -> list[int]:
        """The sizes of decode context parallelism that go with prefill context parallelism."""
        return sorted({1, self.pcp, self.tp * self.pcp})

    @property
    def transfer(self) -> int:
        return max(self.tp, self.pcp)

    @property
    def redundant(self) -> int:
        return int(self.inside("eplb_config").get("num_redundant_experts") or 0)

    @property
    def interleave(self) -> int:
        own = self.number("dcp_kv_cache_interleave_size")
        return own if own > 1 else self.number("cp_kv_cache_interleave_size")

    @property
    def backend(self) -> str:
        return self.text("all2all_backend") or "allgather_reducescatter"

    @property
    def lookup(self) -> tuple[int, int]:
        """prompt_lookup_min and prompt_lookup_max: one that is not set is the other."""
        least, most = (self.inside("speculative_config").get(f"prompt_lookup_{end}") for end in ("min", "max"))
        least = least if isinstance(least, int) else most if isinstance(most, int) else 5
        return least, most if isinstance(most, int) else least

    @property
    def draft_tp(self) -> int:
        """0: as the target's."""
        value = self.inside("speculative_config").get("draft_tensor_parallel_size")
        return value if isinstance(value, int) else 0

    @property
    def draft_length(self) -> int:
        value = self.inside("speculative_config").get("max_model_len")
        return value if isinstance(value, int) else 0

    @property
    def splits_batches(self) -> bool:
        """config/parallel.py use_ubatching."""
        return bool(self.flags.get("enable_dbo")) or self.number("ubatch_size", 0) > 1

    @property
    def has_nixl(self) -> bool:
        return self.inside("kv_transfer_config").get("kv_connector") == "NixlConnector"


class Check(Span, frozen=True):
    text: str
    refuses: Callable[[FlagSet], bool]
    type: str = "ValidationError"


def _drafts_apart(flag_set: FlagSet) -> bool:
    """Methods with a draft model config of their own."""
    return flag_set.method in ("draft_model", *_EAGLE)


def _dbo(text: str, backends: tuple[str, ...], *, since: str = "", until: str = "") -> Check:
    def refuses(flag_set: FlagSet) -> bool:
        return flag_set.splits_batches and flag_set.backend not in backends

    return Check(text, refuses, since=since, until=until)


class FlagChecks(Facts):
    # config/model.py ModelConfig.__post_init__
    model = rows(
        Check(
            "This model does not support `--runner generate`.",
            lambda words: words.pools_only and words.text("runner") == "generate",
            until="0.22.0",
        ),
        Check(
            "Embedding models do not support `--runner generate`. Use `--runner pooling` or `--runner auto` for "
            "embedding models.",
            lambda words: words.pools_only and words.text("runner") == "generate",
            since="0.22.0",
        ),
        Check(
            "The quantization method %s is deprecated and will be removed in future versions of vLLM. To bypass, set "
            "`--allow-deprecated-quantization`.",
            lambda words: words.quantization in _GONE_SOON and not words.flags.get("allow_deprecated_quantization"),
            since="0.19.0",
        ),
        Check(
            "The quantization method %s is deprecated and will be removed in future versions of vLLM. To bypass, set "
            "`--allow-deprecated-quantization`.",
            lambda words: words.quantization in _GONE_ONCE and not words.flags.get("allow_deprecated_quantization"),
            since="0.14.0",
            until="0.20.0",
        ),
    )
    # config/parallel.py ParallelConfig.__post_init__, then its validators up to the load balancing
    parallel = rows(
        Check(
            "Elastic EP is only supported with enable_eplb=True.",
            lambda words: bool(words.flags.get("enable_elastic_ep")) and not words.flags.get("enable_eplb"),
        ),
        Check(
            "Elastic EP is not supported with pipeline parallelism (pipeline_parallel_size={pp}).",
            lambda words: bool(words.flags.get("enable_elastic_ep")) and words.pp > 1,
        ),
        Check(
            "data_parallel_size_local ({data_parallel_size_local}) must be <= data_parallel_size ({dp})",
            lambda words: words.number("data_parallel_size_local", 0) > words.dp,
        ),
        Check(
            "data_parallel_external_lb can only be set when data_parallel_size > 1",
            lambda words: bool(words.flags.get("data_parallel_external_lb")) and words.dp <= 1,
        ),
    )
    # the same class behind the load balancing
    parallel_end = rows(
        Check(
            "num_redundant_experts is set to {redundant} but EPLB is not enabled. Either enable EPLB or unset "
            "num_redundant_experts.",
            lambda words: words.redundant != 0 and not words.flags.get("enable_eplb"),
        ),
        # the missing space is vLLM's
        Check(
            "tp_size={tp} must be divisible bydcp_size={dcp}.",
            lambda words: words.pcp == 1 and words.tp % words.dcp != 0,
            since="0.16.0",
            until="0.26.0",
        ),
        Check(
            "tp_size={tp} must be divisible by dcp_size={dcp}.",
            lambda words: words.pcp == 1 and words.tp % words.dcp != 0,
            since="0.26.0",
        ),
        Check(
            "When PCP is enabled, DCP must be disabled, span the PCP axis, or span the full TP x PCP axis. Got "
            "TP={tp}, PCP={pcp}, DCP={dcp}; valid DCP sizes are {widths}.",
            lambda words: words.pcp > 1 and words.dcp not in words.widths,
            since="0.26.0",
        ),
        Check(
            "Unable to use nsight profiling unless workers run with Ray.",
            lambda words: (
                bool(words.flags.get("ray_workers_use_nsight")) and words.text("distributed_executor_backend") != "ray"
            ),
        ),
        Check(
            "dbo_decode_token_threshold and dbo_prefill_token_threshold must be at least the number of microbatches "
            "(2).",
            lambda words: (
                bool(words.flags.get("enable_dbo"))
                and min(
                    words.number("dbo_decode_token_threshold", 32), words.number("dbo_prefill_token_threshold", 512)
                )
                < 2
            ),
            since="0.30.0",
        ),
    )
    # config/speculative.py SpeculativeConfig.__post_init__ and _verify_args
    speculative = rows(
        Check(
            "prompt_lookup_min={lookup[0]} must be <= prompt_lookup_max={lookup[1]}",
            lambda words: words.method in ("ngram", "ngram_gpu") and words.lookup[0] > words.lookup[1],
        ),
        Check(
            "speculative_draft_tensor_parallel_size={draft_tp} cannot be other value than 1 or target model "
            "tensor_parallel_size",
            lambda words: _drafts_apart(words) and words.draft_tp not in (0, 1, words.tp),
        ),
        Check(
            "speculative_max_model_len={draft_length} cannot be larger than target_max_model_len={length}",
            lambda words: _drafts_apart(words) and 0 < words.length < words.draft_length,
        ),
        Check(
            "'tensor_parallel_size' is not a valid argument in the speculative_config. Please pass "
            "'draft_tensor_parallel_size' instead.",
            lambda words: words.inside("speculative_config").get("tensor_parallel_size") is not None,
        ),
    )
    # SpeculativeConfig.verify_equal_vocab_size_if_draft_model, behind the draft's own layout
    vocabularies = rows(
        Check(
            "Target and draft model should have the same vocabulary size. Target model vocab_size={target_vocab}. "
            "Draft model vocab_size={draft_vocab}. Using models with different tokenizers can cause out-of-bounds "
            "errors during speculative decoding.",
            lambda words: (
                words.method == "draft_model"
                and words.draft_vocab != words.target_vocab
                and not words.inside("speculative_config").get("use_heterogeneous_vocab")
            ),
            since="0.12.0",
        )
    )
    # config/scheduler.py verify_max_model_len
    scheduler = rows(
        Check(
            "max_num_active_seqs ({max_num_active_seqs}) cannot be greater than max_num_seqs ({seqs}).",
            lambda words: words.number("max_num_active_seqs", 0) > words.seqs,
            since="0.31.0",
        ),
        Check(
            "long_prefill_token_threshold ({long_prefill_token_threshold}) cannot be greater than the max_model_len "
            "({length}).",
            lambda words: words.number("long_prefill_token_threshold", 0) > words.length,
        ),
    )
    # config/lora.py, and engine/arg_utils.py behind it
    lora = rows(
        Check(
            "max_cpu_loras ({max_cpu_loras}) must be >= max_loras ({max_loras}).",
            lambda words: (
                bool(words.flags.get("enable_lora"))
                and 0 < words.number("max_cpu_loras", 0) < words.number("max_loras")
            ),
        ),
        Check(
            "Consider increasing max_num_batched_tokens or decreasing num_speculative_tokens",
            lambda words: (
                bool(words.flags.get("enable_lora"))
                and words.drafts > 0
                and words.tokens < words.seqs * (words.drafts + 1)
            ),
            "ValueError",
        ),
    )
    # config/model.py verify_with_parallel_config and config/vllm.py VllmConfig.__post_init__
    whole = rows(
        Check(
            "The model's number of query heads per KV head ({queries_per_kv}) must be divisible by "
            "`--decode-context-parallel-size` ({dcp}) for GQA/MQA.",
            lambda words: words.dcp > 1 and words.queries_per_kv > 0 and words.queries_per_kv % words.dcp != 0,
            since="0.27.0",
        ),
        Check(
            "Assertion failed, decode_context_parallel_size={dcp} must be 1 or equal to the NIXL transfer parallel "
            "size={transfer}.",
            lambda words: words.has_nixl and words.dcp not in (1, words.transfer),
            since="0.30.0",
        ),
        Check(
            "Assertion failed, PD with decode_context_parallel_size > 1 is only supported for MLA models.",
            lambda words: words.has_nixl and words.dcp > 1 and not words.mla,
            since="0.29.0",
        ),
    )
    # the same class, behind the cudagraphs
    whole_end = rows(
        Check(
            "Fast prefill optimization for KV sharing is not compatible with EAGLE as EAGLE requires correct logits "
            "for all tokens while fast prefill gives incorrect logits for prompt tokens.",
            lambda words: bool(words.flags.get("kv_sharing_fast_prefill")) and words.method in _EAGLE,
        ),
        _dbo(
            "Assertion failed, Microbatching currently only supports the deepep_low_latency and deepep_high_throughput "
            "all2all backend. {backend} is not supported. To fix use --all2all-backend=deepep_low_latency or "
            "--all2all-backend=deepep_high_throughput and install the DeepEP kernels.",
            _DEEPEP,
            until="0.24.0",
        ),
        _dbo(
            "Assertion failed, Microbatching currently only supports the deepep_low_latency, deepep_high_throughput, "
            "and nixl_ep all2all backends. {backend} is not supported. To fix use "
            "--all2all-backend=deepep_low_latency, --all2all-backend=deepep_high_throughput, or "
            "--all2all-backend=nixl_ep and install the matching kernels.",
            (*_DEEPEP, "nixl_ep"),
            since="0.24.0",
        ),
    )
    # model_executor/layers/attention/mla_attention.py, where each layer is built
    latent = rows(
        Check(
            "MLAAttention does not support PCP+DCP.",
            lambda words: words.mla and words.pcp > 1 and words.dcp > 1,
            "NotImplementedError",
            since="0.30.0",
        )
    )
    # VllmConfig.validate_block_size, when the block size is final
    blocks = rows(
        Check(
            "Block_size({block_size}) should be greater than or equal to and divisible by cp_kv_cache_interleave_size "
            "({interleave}).",
            lambda words: words.dcp > 1 and not words.has_nixl and words.block_size % words.interleave != 0,
            "AssertionError",
        )
    )
