"""How vLLM runs a model: context length, batch limits, captured sizes, async scheduling, hybrid manager, model runner.

From engine/arg_utils.py and config/*.py, release by release.
"""

from typing import Literal

from msgspec import Struct

from oomph.facts.changes import Dated, Facts, Span, changes, names, rows, since, until


class Tier(Span, frozen=True, kw_only=True):
    """get_batch_defaults: by the device's memory; an A100 counts as small whatever it has."""

    min_gib: int
    llm_tokens: int
    serve_tokens: int
    seqs: int
    a100: bool = True  # False: not for a device whose name has "a100"


BATCHED_DP_TOKENS = 256  # SchedulerConfig.DEFAULT_MAX_NUM_BATCHED_TOKENS_FOR_BATCHED_DP


class Limits(Facts):
    """What bounds the memory, the batch and the context where no flag says so."""

    utilization = changes(0.9, ("0.20.0", 0.92))  # config/cache.py gpu_memory_utilization
    tiers = rows(
        Tier(since="0.28.0", min_gib=160, llm_tokens=16384, serve_tokens=16384, seqs=1024),
        Tier(min_gib=70, llm_tokens=16384, serve_tokens=8192, seqs=1024, a100=False),
        Tier(min_gib=0, llm_tokens=8192, serve_tokens=2048, seqs=256),
    )
    # the code in _C*.so and _moe_C*.so of the published wheels: 7.0 in 0.8.0 to 0.19.0, 7.5 in 0.20.0 to 0.32.0
    oldest_card = changes(70, ("0.20.0", 75))
    # there as well: the newest major of a compute capability; code for 10.0 runs on 10.3, not on 12.0
    newest_major = changes(9, ("0.9.0", 10), ("0.9.2", 12))
    batch_holds_an_item = since("0.22.0")  # arg_utils.py _get_min_mm_batched_tokens
    # engine/arg_utils.py:1548 (0.11.0): generation always prefills in chunks
    always_chunks = until("0.11.1")
    # yarn's context: original length times factor, then whatever max_position_embeddings says.
    yarn_multiplies = until("0.30.0")
    longrope_original = since("0.11.1")
    # _get_and_verify_max_len multiplies by a rope factor of 1.0, so that the refusal prints 4096.0; since 0.14 every
    # config has rope parameters by then.
    length_is_float: Dated[Literal["", "rope", "always"]] = changes("", ("0.12.0", "rope"), ("0.14.0", "always"))
    # config/parallel.py, model.py: parallel sizes and the context length are checked to be at least 1
    sizes_are_fields = since("0.23.0")


CAPTURE_MAX = 512


_BROKEN_23 = "DeepseekV4ForCausalLM"
_BROKEN_24 = f"{_BROKEN_23} MiniMaxM3SparseForCausalLM MiniMaxM3SparseForConditionalGeneration"
_BROKEN_26 = f"{_BROKEN_24} InklingForCausalLM InklingForConditionalGeneration"
_BROKEN_27 = f"{_BROKEN_26} KimiK3ForConditionalGeneration KimiLinearForCausalLM"
_BROKEN_29 = f"{_BROKEN_27} DeepseekV32ForCausalLM Dots3NoteForCausalLM GlmMoeDsaForCausalLM HYV4ForCausalLM"
_BROKEN_30 = (
    f"{_BROKEN_29} DeepseekV41ForCausalLM DeepseekV4ForConditionalGeneration Glm5NextForCausalLM "
    "Glm5NextForConditionalGeneration Qwen4ExpForCausalLM Qwen4ExpForConditionalGeneration"
)


class Capture(Facts):
    """The CUDA graph mode and the sizes that are captured (config/vllm.py _set_cudagraph_sizes)."""

    steps_of_16 = since("0.11.1")  # above 256
    counts_drafts = since("0.13.0")  # max_num_seqs * (1 + drafts) * 2
    adds_small_batch = since("0.20.1")  # max_num_batched_tokens too, where it is small
    max_sm100 = changes(512, ("0.28.0", 1024))
    decode_multiples = since("0.29.0")  # multiples of the decode query length
    adds_max_seqs = since("0.31.0")
    one_size_is_largest = until("0.11.1")  # of --cuda-graph-sizes
    # models/config.py GptOssForCausalLMConfig; up to 992 in steps of 16 from 256 on
    max_gpt_oss = changes(992, ("0.11.1", 1024))
    # What is left of a graph mode where nothing is compiled: nothing, or full graphs
    # (_normalize_piecewise_cudagraph_mode).
    mode_uncompiled = changes("NONE", ("0.30.0", "FULL_DECODE_ONLY"))
    mode_encoder_decoder = changes("PIECEWISE", ("0.13.0", "FULL_DECODE_ONLY"))
    # What the driver takes for a layer's piecewise graph with MXFP4 experts, on an H200: 6 MiB per graph with 0.21.0,
    # 4 MiB with 0.24.0 and 0.26.0, whose experts run in one operation (OAITritonMxfp4ExpertsMonolithic).
    mxfp4_graph_bytes = changes(248 * 1024, ("0.24.0", 210 * 1024))
    # VLLM_USE_BREAKABLE_CUDAGRAPH: graphs are cut while they are captured, and torch.compile does not run ("equivalent
    # to -cc.mode=none"); and who gets that without being asked (DEFAULT_BREAKABLE_CUDAGRAPH_ARCHITECTURES).
    breakable = since("0.23.0")
    broken_by_default = changes(
        (), ("0.23.0", names(_BROKEN_23)), ("0.24.0", names(_BROKEN_24)), ("0.26.0", names(_BROKEN_26)),
        ("0.27.0", names(_BROKEN_27)), ("0.29.0", names(_BROKEN_29)), ("0.30.0", names(_BROKEN_30)),
    )  # fmt: skip
    # less on ROCm: "currently regress performance"
    compiled_on_amd = changes(
        (), ("0.29.0", names("DeepseekV32ForCausalLM")),
        ("0.30.0", tuple(name for name in names(_BROKEN_30) if name != "DeepseekV41ForCausalLM")),
    )  # fmt: skip
    # "Decode context parallel (DCP) is enabled, which is incompatible with full CUDA graphs"
    piecewise_with_dcp = changes(False, ("0.11.1", True), ("0.13.0", False))


EAGLE_METHODS = ("eagle", "eagle3", "mtp", "dflash", "extract_hidden_states")


def is_eagle_head(architecture: str) -> bool:
    """transformers_utils/configs/eagle.py: the names that vLLM gives to EAGLE-3 heads."""
    return architecture.startswith("Eagle3") or architecture.endswith("Eagle3")


_PREFIXES = {"eagle": "Eagle", "eagle3": "Eagle3", "dflash": "DFlash"}


def as_drafter(architecture: str, method: str) -> str:
    """What a drafter is built as whose checkpoint calls itself by its target's architecture (configs/eagle.py)."""
    prefix = _PREFIXES.get(method, "")
    own = {"eagle": ("Eagle",), "eagle3": ("Eagle3",), "dflash": ("DFlash", "LiLiCorr")}
    if not prefix or architecture.startswith(own.get(method, "")) or architecture.endswith(prefix):
        return architecture
    return f"{prefix}{architecture}"


_ASYNC = "Currently, async scheduling is only supported with {kinds} kind of speculative decoding"


class AsyncScheduling(Facts):
    """Whether the next step is scheduled while one runs, where no flag says so."""

    by_default = since("0.14.0")
    with_pipeline = since("0.15.0")
    pipeline_needs_v2 = since("0.31.0")
    with_states = changes(True, ("0.16.0", False), ("0.17.0", True))  # with prefix caching on a hybrid
    pooling = until("0.20.0")
    drafts = changes(
        names("eagle"),
        ("0.18.0", names("eagle ngram_gpu")),
        ("0.25.0", names("eagle ngram_gpu dspark")),
        ("0.28.0", names("eagle ngram_gpu dspark draft_model")),
    )
    drafts_refused = changes(
        _ASYNC.format(kinds="EAGLE/MTP") + ".",
        ("0.16.0", _ASYNC.format(kinds="EAGLE/MTP/Draft Model") + "."),
        ("0.18.0", _ASYNC.format(kinds="EAGLE/MTP/Draft Model/NGram GPU")),
        ("0.25.0", _ASYNC.format(kinds="EAGLE/MTP/Draft Model/NGram GPU/DSpark")),
        ("0.31.0", _ASYNC.format(kinds="EAGLE/MTP/Draft Model/NGram GPU/DSpark/DFlash")),
    )


HMA_CONNECTORS = frozenset(
    {
        "OffloadingConnector", "SimpleCPUOffloadConnector", "NixlConnector", "MultiConnector", "DecodeBenchConnector",
        "ExampleHiddenStatesConnector", "HiSparseConnector", "MooncakeConnector", "MoRIIOConnector",
    }
)  # fmt: skip


class HybridManager(Facts):
    """What turns the hybrid KV cache manager off without being asked."""

    # A chunked-local model (Llama 4) keeps it unless this environment default is 0.
    chunked_local = since("0.14.0")
    # any connector, or one without HMA support
    off_for: Dated[Literal["any", "unsupported"]] = changes("any", ("0.22.0", "unsupported"))
    off_for_events = until("0.20.0")
    # --kv-offloading-size makes its connector before the manager is decided on; native offloading supports it
    off_for_lmcache = since("0.22.0")


class V2Models(Struct, frozen=True):
    """Who gets model runner V2 without VLLM_USE_V2_MODEL_RUNNER (config/vllm.py)."""

    architectures: tuple[str, ...] = ()
    dense_unquantized: bool = False  # of those, only dense unquantised ones
    all_dense: bool = False  # and every dense attention model besides
    everything: bool = False


_QWEN_MOE = ("DeepseekV2ForCausalLM", "Qwen2MoeForCausalLM", "GraniteMoeForCausalLM")
_INKLING = (
    "DeepseekV2ForCausalLM", "GraniteMoeForCausalLM", "InklingForCausalLM", "InklingForConditionalGeneration",
    "KimiK3ForConditionalGeneration", "LongcatFlashNgramForCausalLM", "Qwen2MoeForCausalLM",
)  # fmt: skip
_V1_ALWAYS = "suffix medusa mlp_speculator custom_class"


class Runner(Facts):
    """Which of the two model runners a model gets."""

    v2 = changes(
        V2Models(),
        ("0.22.0", V2Models(("Qwen3ForCausalLM",), dense_unquantized=True)),
        ("0.23.0", V2Models(("LlamaForCausalLM", "MistralForCausalLM", "Qwen3ForCausalLM"), dense_unquantized=True)),
        ("0.24.0", V2Models(("Qwen3ForCausalLM", *_QWEN_MOE, "LlamaForCausalLM", "MistralForCausalLM"))),
        ("0.25.0", V2Models(_QWEN_MOE, all_dense=True)),
        ("0.27.0", V2Models(_INKLING, all_dense=True)),
        ("0.28.0", V2Models(("DeepseekV4ForCausalLM", *_INKLING), all_dense=True)),
        ("0.29.0", V2Models(everything=True)),
    )
    # What keeps V1 even then (_get_v2_model_runner_unsupported_features): speculative methods, flags, a mode of states.
    v1_methods = changes(
        names(f"ngram ngram_gpu draft_model dflash dspark extract_hidden_states {_V1_ALWAYS}"),
        ("0.24.0", names(f"ngram ngram_gpu draft_model dspark extract_hidden_states {_V1_ALWAYS}")),
        ("0.25.0", names(f"ngram ngram_gpu draft_model extract_hidden_states {_V1_ALWAYS}")),
        ("0.29.0", names(f"ngram ngram_gpu draft_model {_V1_ALWAYS}")),
        ("0.31.0", names(f"ngram ngram_gpu {_V1_ALWAYS}")),
        ("0.32.0", names(_V1_ALWAYS)),
    )
    v1_flags = changes(
        names("enable_dbo kv_sharing_fast_prefill enable_prompt_embeds"),
        ("0.29.0", names("enable_dbo kv_sharing_fast_prefill")),
        ("0.30.0", ()),
    )
    v1_for_eagle3_pipeline = until("0.30.0")
    v1_state_mode: Dated[Literal["", "align", "all"]] = changes(
        "", ("0.23.0", "align"), ("0.25.0", ""), ("0.30.0", "all"), ("0.32.0", "")
    )
