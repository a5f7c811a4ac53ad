"""How vLLM runs a model: context length, batch limits, captured sizes, async scheduling, hybrid manager, model runner.

From engine/arg_utils.py and config/*.py, release by release.
"""

from __future__ import annotations

from oomph.facts.vllm.kv import Row
from oomph.facts.vllm.versions import Range


class Tier(Range, frozen=True, kw_only=True):
    """get_batch_defaults: by the device's memory; an A100 counts as small whatever it has."""

    min_gib: int
    llm_tokens: int
    serve_tokens: int
    seqs: int
    a100: bool = True  # False: not for a device whose name has "a100"


TIERS = (
    Tier(since="0.28.0", min_gib=160, llm_tokens=16384, serve_tokens=16384, seqs=1024),
    Tier(min_gib=70, llm_tokens=16384, serve_tokens=8192, seqs=1024, a100=False),
    Tier(min_gib=0, llm_tokens=8192, serve_tokens=2048, seqs=256),
)
BATCHED_DP_TOKENS = 256  # SchedulerConfig.DEFAULT_MAX_NUM_BATCHED_TOKENS_FOR_BATCHED_DP
MM_RAISES_TOKENS = (Row(value=0, until="0.22.0"), Row(value=1, since="0.22.0"))  # _get_min_mm_batched_tokens

UTILIZATION = (Row(value=0.9, until="0.20.0"), Row(value=0.92, since="0.20.0"))

# Capture sizes (config/vllm.py _set_cudagraph_sizes).
CAPTURE_STEP_16 = (Row(value=0, until="0.11.1"), Row(value=1, since="0.11.1"))  # above 256
CAPTURE_SPEC = (Row(value=0, until="0.13.0"), Row(value=1, since="0.13.0"))  # max_num_seqs * (1 + drafts) * 2
CAPTURE_TOKENS = (Row(value=0, until="0.20.1"), Row(value=1, since="0.20.1"))  # + max_num_batched_tokens if small
CAPTURE_SM100 = (Row(value=512, until="0.28.0"), Row(value=1024, since="0.28.0"))
CAPTURE_DECODE = (Row(value=0, until="0.29.0"), Row(value=1, since="0.29.0"))  # multiples of the decode query length
CAPTURE_SEQS = (Row(value=0, until="0.31.0"), Row(value=1, since="0.31.0"))
CAPTURE_MAX = 512
# models/config.py GptOssForCausalLMConfig; up to 992 in steps of 16 from 256 on
CAPTURE_GPT_OSS = (Row(value=992, until="0.11.1"), Row(value=1024, since="0.11.1"))
# yarn's context: original length times factor, then whatever max_position_embeddings says.
YARN_MULTIPLIES = (Row(value=1, until="0.30.0"), Row(value=0, since="0.30.0"))
LONGROPE_ORIGINAL = (Row(value=0, until="0.11.1"), Row(value=1, since="0.11.1"))

# Async scheduling without being asked.
ASYNC_DEFAULT = (Row(value=0, until="0.14.0"), Row(value=1, since="0.14.0"))
ASYNC_NEEDS_V2_FOR_PP = (Row(value=0, until="0.31.0"), Row(value=1, since="0.31.0"))
ASYNC_WITH_PP = (Row(value=0, until="0.15.0"), Row(value=1, since="0.15.0"))
ASYNC_WITH_MAMBA = (  # with prefix caching on a hybrid
    Row(value=1, until="0.16.0"),
    Row(value=0, since="0.16.0", until="0.17.0"),
    Row(value=1, since="0.17.0"),
)
ASYNC_POOLING = (Row(value=1, until="0.20.0"), Row(value=0, since="0.20.0"))
ASYNC_DRAFTS = (
    Row(value="eagle", until="0.18.0"),
    Row(value="eagle ngram_gpu", since="0.18.0", until="0.25.0"),
    Row(value="eagle ngram_gpu dspark", since="0.25.0", until="0.28.0"),
    Row(value="eagle ngram_gpu dspark draft_model", since="0.28.0"),
)
EAGLE_METHODS = ("eagle", "eagle3", "mtp", "dflash", "extract_hidden_states")

# config/speculative.py create_draft_parallel_config: drafts are asked for the target's pipeline parallelism, which few
# of their classes support.
DRAFT_PIPELINE = (Row(value=1, until="0.30.0"), Row(value=0, since="0.30.0"))
DRAFTS_WITH_PIPELINE = ("NemotronH", "Glm4MoeLite", "GlmOcr")

# A chunked-local model (Llama 4) keeps the hybrid manager unless this environment default is 0.
CHUNKED_LOCAL_HYBRID = (Row(value=0, until="0.14.0"), Row(value=1, since="0.14.0"))
# What turns the hybrid KV cache manager off silently: any connector, or one without HMA support.
CONNECTOR_OFF = (Row(value="any", until="0.22.0"), Row(value="unsupported", since="0.22.0"))
KV_EVENTS_OFF = (Row(value=1, until="0.20.0"), Row(value=0, since="0.20.0"))
HMA_CONNECTORS = frozenset(
    {
        "OffloadingConnector", "SimpleCPUOffloadConnector", "NixlConnector", "MultiConnector", "DecodeBenchConnector",
        "ExampleHiddenStatesConnector", "HiSparseConnector", "MooncakeConnector", "MoRIIOConnector",
    }
)  # fmt: skip


class Runner(Range, frozen=True, kw_only=True):
    """Who gets model runner V2 without VLLM_USE_V2_MODEL_RUNNER (config/vllm.py)."""

    architectures: tuple[str, ...] = ()
    dense_unquantized: bool = False  # of those, only dense unquantised ones
    all_dense: bool = False  # and every dense attention model besides
    everything: bool = False


RUNNERS = (
    Runner(until="0.22.0"),
    Runner(since="0.22.0", until="0.23.0", architectures=("Qwen3ForCausalLM",), dense_unquantized=True),
    Runner(
        since="0.23.0", until="0.24.0", dense_unquantized=True,
        architectures=("LlamaForCausalLM", "MistralForCausalLM", "Qwen3ForCausalLM"),
    ),
    Runner(
        since="0.24.0", until="0.25.0",
        architectures=(
            "Qwen3ForCausalLM", "DeepseekV2ForCausalLM", "Qwen2MoeForCausalLM", "GraniteMoeForCausalLM",
            "LlamaForCausalLM", "MistralForCausalLM",
        ),
    ),
    Runner(
        since="0.25.0", until="0.27.0", all_dense=True,
        architectures=("DeepseekV2ForCausalLM", "Qwen2MoeForCausalLM", "GraniteMoeForCausalLM"),
    ),
    Runner(
        since="0.27.0", until="0.28.0", all_dense=True,
        architectures=(
            "DeepseekV2ForCausalLM", "GraniteMoeForCausalLM", "InklingForCausalLM", "InklingForConditionalGeneration",
            "KimiK3ForConditionalGeneration", "LongcatFlashNgramForCausalLM", "Qwen2MoeForCausalLM",
        ),
    ),
    Runner(
        since="0.28.0", until="0.29.0", all_dense=True,
        architectures=(
            "DeepseekV2ForCausalLM", "DeepseekV4ForCausalLM", "GraniteMoeForCausalLM", "InklingForCausalLM",
            "InklingForConditionalGeneration", "KimiK3ForConditionalGeneration", "LongcatFlashNgramForCausalLM",
            "Qwen2MoeForCausalLM",
        ),
    ),
    Runner(since="0.29.0", everything=True),
)  # fmt: skip
# What keeps V1 even then (_get_v2_model_runner_unsupported_features): speculative methods, flags, a mode of states.
_V1_ALWAYS = "suffix medusa mlp_speculator custom_class"
V1_METHODS = (
    Row(value=f"ngram ngram_gpu draft_model dflash dspark extract_hidden_states {_V1_ALWAYS}", until="0.24.0"),
    Row(value=f"ngram ngram_gpu draft_model dspark extract_hidden_states {_V1_ALWAYS}", since="0.24.0", until="0.25.0"),
    Row(value=f"ngram ngram_gpu draft_model extract_hidden_states {_V1_ALWAYS}", since="0.25.0", until="0.29.0"),
    Row(value=f"ngram ngram_gpu draft_model {_V1_ALWAYS}", since="0.29.0", until="0.31.0"),
    Row(value=f"ngram ngram_gpu {_V1_ALWAYS}", since="0.31.0", until="0.32.0"),
    Row(value=_V1_ALWAYS, since="0.32.0"),
)
V1_FLAGS = (
    Row(value="enable_dbo kv_sharing_fast_prefill enable_prompt_embeds", until="0.29.0"),
    Row(value="enable_dbo kv_sharing_fast_prefill", since="0.29.0", until="0.30.0"),
    Row(value="", since="0.30.0"),
)
V1_EAGLE3_PP = (Row(value=1, until="0.30.0"), Row(value=0, since="0.30.0"))
V1_STATES = (
    Row(value="", until="0.23.0"),
    Row(value="align", since="0.23.0", until="0.25.0"),
    Row(value="", since="0.25.0", until="0.30.0"),
    Row(value="all", since="0.30.0", until="0.32.0"),
    Row(value="", since="0.32.0"),
)
# _get_and_verify_max_len multiplies by a rope factor of 1.0, so that the refusal prints 4096.0; since 0.14 every config
# has rope parameters by then.
LENGTH_IS_FLOAT = (
    Row(value="", until="0.12.0"),
    Row(value="rope", since="0.12.0", until="0.14.0"),
    Row(value="always", since="0.14.0"),
)
# What is left of a graph mode where nothing is compiled: nothing, or full graphs (_normalize_piecewise_cudagraph_mode).
UNCOMPILED_GRAPHS = (Row(value="NONE", until="0.30.0"), Row(value="FULL_DECODE_ONLY", since="0.30.0"))
ENCODER_DECODER_GRAPHS = (Row(value="PIECEWISE", until="0.13.0"), Row(value="FULL_DECODE_ONLY", since="0.13.0"))
# "Decode context parallel (DCP) is enabled, which is incompatible with full CUDA graphs"
DCP_PIECEWISE = (
    Row(value=0, until="0.11.1"),
    Row(value=1, since="0.11.1", until="0.13.0"),
    Row(value=0, since="0.13.0"),
)
# engine/arg_utils.py:1548 (0.11.0): generation always prefills in chunks
CHUNKED_FORCED = (Row(value=1, until="0.11.1"), Row(value=0, since="0.11.1"))
