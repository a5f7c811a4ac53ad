"""How vLLM runs a model: speculation, state cache mode, model runner, async scheduling, hybrid manager."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from oomph.engines.common.shard import stage_sizes
from oomph.engines.vllm.kv.specs import Refused
from oomph.engines.vllm.resolve.verify import HEADS_REFUSED, invalid, one_of, outside, verify_flags
from oomph.engines.vllm.traits import Traits, traits_of
from oomph.errors import UnknownCache
from oomph.facts.vllm.architectures import NOT_PLANNED, UNPLANNED_DRAFTS
from oomph.facts.vllm.caches import MAMBA_ALL
from oomph.facts.vllm.facts import Facts
from oomph.facts.vllm.flag_checks import FlagChecks, FlagSet
from oomph.facts.vllm.known import DRAFTS_WITH_PIPELINE, NO_PIPELINE_REFUSAL
from oomph.facts.vllm.refusals import (
    DRAFTS_COUNTED_BY_CLASS,
    NO_INKLING_DRAFTS,
    ONLY_WITH_DRAFTS,
    OWN_DRAFT_ARCHITECTURES,
    OWN_DRAFT_TYPES,
)
from oomph.facts.vllm.running import EAGLE_METHODS, HMA_CONNECTORS, AsyncScheduling
from oomph.ir import Deployment, Model, Module, Param, Vocab


class Speculation(Struct, frozen=True):
    method: str = ""
    tokens: int = 0
    own_drafts: bool = False
    unpadded: bool = False  # disable_padded_drafter_batch


_NEED_NO_MODEL = ("mtp", "ngram", "ngram_gpu", "suffix", "extract_hidden_states", "custom_class")


def speculation(model: Model, dep: Deployment) -> Speculation:
    config = dep.flags.get("speculative_config")
    if not isinstance(config, Mapping):
        return Speculation()
    named = str(config.get("model") or "")
    method = _method(str(config.get("method") or ""), named)
    tokens = config.get("num_speculative_tokens")
    if tokens is not None and not named and method not in _NEED_NO_MODEL:
        raise Refused("ValidationError", "num_speculative_tokens was provided but without speculative model.")
    if tokens is None:
        if method == "mtp" and model.drafts:
            tokens = _predicts(model)
        else:
            raise Refused(
                "ValidationError", "A speculative model was provided, but `num_speculative_tokens` was not provided"
            )
    if int(tokens) < 1:
        raise invalid("SpeculativeConfig", outside("num_speculative_tokens", "greater_than", 0, tokens))
    own = method == "mtp" and named in ("", dep.model)
    if own:
        _verify_own_drafts(model)
    predicts = _predicts(model)
    if method == "mtp" and predicts and tokens > predicts and tokens % predicts:
        raise Refused("ValidationError", f"num_speculative_tokens:{tokens} must be divisible by n_predict={predicts!r}")
    return Speculation(method, int(tokens), own, bool(config.get("disable_padded_drafter_batch")))


def _verify_own_drafts(model: Model) -> None:
    """hf_config_override makes a draft's config of the target's, or leaves it as it is: then there is no method."""
    if model.drafts:
        return
    has_name = model.model_type in OWN_DRAFT_TYPES or model.architecture in OWN_DRAFT_ARCHITECTURES
    if not has_name or model.model_type in ONLY_WITH_DRAFTS or model.architecture.startswith(ONLY_WITH_DRAFTS):
        raise Refused("NotImplementedError", "Unsupported speculative method: 'mtp'")
    if model.model_type.startswith("inkling") and not model.param("mtp_layers", 0):
        raise Refused("ValidationError", NO_INKLING_DRAFTS)
    if drafter := UNPLANNED_DRAFTS.get(model.model_type):
        raise UnknownCache(f"{drafter}: {NOT_PLANNED[drafter]}")
    if not model.architecture.startswith(DRAFTS_COUNTED_BY_CLASS):
        raise Refused("ZeroDivisionError", "integer modulo by zero")  # of the tokens, by n_predict


def _predicts(model: Model) -> int:
    """n_predict: Nemotron-H's draft is a layer of attention and one of experts."""
    return sum(bool(layer.mixers) for layer in model.drafts)


def verify_draft(model: Model, flags: Mapping[str, Any], facts: Facts, spec: Speculation) -> None:
    """SpeculativeConfig asks the draft's class for the target's pipeline parallelism."""
    if spec.method == "mtp" and model.model_type in facts.support.no_own_drafts:
        raise Refused("NotImplementedError", "Unsupported speculative method: 'mtp'")
    head = spec.method == "mtp" or spec.method in EAGLE_METHODS
    able = spec.method == "mtp" and model.architecture.startswith(DRAFTS_WITH_PIPELINE)
    if facts.support.drafts_need_pipeline and head and not able and int(flags.get("pipeline_parallel_size", 1)) > 1:
        raise Refused("NotImplementedError", NO_PIPELINE_REFUSAL)


def verify_draft_model(draft: Model, flag_set: FlagSet, checks: FlagChecks) -> None:
    """SpeculativeConfig._verify_args: the draft's own layout, which has no data parallelism, and its vocabulary."""
    tp = flag_set.draft_tp or flag_set.tp
    if draft.num_heads and draft.num_heads % tp:
        raise Refused("ValidationError", HEADS_REFUSED.format(heads=draft.num_heads, tp=tp))
    with_draft = replace(flag_set, draft_vocab=draft.vocab_size)
    verify_flags(checks.vocabularies, with_draft)


def _method(method: str, named: str) -> str:
    """config/speculative.py: what the draft's name says goes before `draft_model`."""
    if method.endswith("mtp"):
        return "mtp"
    if method in ("ngram", "[ngram]") or (not method and named in ("ngram", "[ngram]")):
        return "ngram"
    if method not in ("", "draft_model"):
        return method
    marks = (("eagle-", "eagle"), ("eagle3", "eagle3"), ("dflash", "dflash"))
    return next((kind for mark, kind in marks if mark in named.lower()), "draft_model")


def mamba_mode(
    model: Model, traits: Traits, flags: Mapping[str, Any], facts: Facts, prefix: bool, spec: Speculation
) -> tuple[str, bool]:
    """(mamba_cache_mode, prefix caching): MambaModelConfig.verify_and_update_config."""
    flag = flags.get("mamba_cache_mode")
    if flag is not None and flag not in facts.states.cache_modes:
        raise invalid("CacheConfig", ("mamba_cache_mode", one_of(facts.states.cache_modes), "literal_error", flag))
    if not traits.has_state:
        return "", prefix
    supports_all = model.architecture in MAMBA_ALL
    mode = str(flags.get("mamba_cache_mode") or "none")
    match facts.states.prefix_modes:
        case "never":
            return "none", False
        case "all_only":
            return ("all", True) if prefix and supports_all else ("none", False)
    if not prefix:
        return "none", False
    if mode == "none":
        if facts.states.prefix_modes == "align" or not supports_all:
            return "align", True
        return ("align" if facts.states.prefix_modes == "all_or_align_spec" and spec.method else "all"), True
    return ("align" if mode == "all" and (not supports_all or not facts.states.mode_all) else mode), True


def model_runner(
    model: Model, traits: Traits, dep: Deployment, facts: Facts, spec: Speculation, states: str, *, quantized: bool
) -> str:
    """`states`: mamba_cache_mode."""
    forced = dep.environment.get("VLLM_USE_V2_MODEL_RUNNER", "")
    if forced in ("0", "1"):
        return "v2" if forced == "1" else "v1"
    runner, flags = facts.runner, dep.flags
    if spec.method in runner.v1_methods or any(flags.get(name) for name in runner.v1_flags):
        return "v1"
    if spec.method == "eagle3" and runner.v1_for_eagle3_pipeline and int(flags.get("pipeline_parallel_size", 1)) > 1:
        return "v1"
    if states and states == runner.v1_state_mode:
        return "v1"
    if runner.v2.everything:
        return "v2"
    if model.pooling:
        return "v1"
    named = model.architecture in runner.v2.architectures
    if runner.v2.dense_unquantized:
        return "v2" if named and not traits.is_moe and not quantized else "v1"
    if runner.v2.all_dense:
        if (traits.has_state and not named) or model.attention_free:
            return "v1"
        return "v2" if named or not traits.is_moe else "v1"
    return "v2" if named else "v1"


def async_scheduling(
    model: Model,
    flags: Mapping[str, Any],
    rules: AsyncScheduling,
    spec: Speculation,
    runner: str,
    pp: int,
    mamba_mode: str,
) -> bool:
    flag = flags.get("async_scheduling")
    if flag:
        supported = ("ngram_gpu", "draft_model", "dspark", *EAGLE_METHODS)
        if spec.method and spec.method not in supported:
            raise Refused("ValidationError", rules.drafts_refused)
        if spec.unpadded:
            raise Refused(
                "ValidationError", "Async scheduling is not compatible with disable_padded_drafter_batch=True."
            )
    if flag is not None:
        return bool(flag)
    if not rules.by_default or (model.pooling and not rules.pooling):
        return False
    eagle = "eagle" in rules.drafts and spec.method in EAGLE_METHODS
    if (spec.method and not (eagle or spec.method in rules.drafts)) or spec.unpadded:
        return False
    if mamba_mode not in ("", "none") and not rules.with_states:
        return False
    return pp <= 1 or (rules.with_pipeline and not (rules.pipeline_needs_v2 and runner == "v1"))


def in_flight_batches(asynchronous: bool, runner: str, pp: int) -> int:
    """VllmConfig.max_concurrent_batches."""
    if not asynchronous:
        return pp
    if runner == "v2":
        return pp + 1
    return 2 if pp <= 1 else pp


def hybrid_off(traits: Traits, dep: Deployment, facts: Facts, spec: Speculation) -> tuple[bool, str]:
    """(disable_hybrid_kv_cache_manager, what turned it off without being asked)."""
    flags = dep.flags
    disabled = flags.get("disable_hybrid_kv_cache_manager")
    why = ""
    if traits.chunk:
        default = "1" if facts.hybrid_manager.chunked_local else "0"
        if spec.method in EAGLE_METHODS:
            why = "chunked local attention with a draft model"
        elif dep.environment.get("VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE", default) == "0":
            why = "chunked local attention"
    if facts.hybrid_manager.off_for_events and flags.get("kv_events_config"):
        why = "--kv-events-config"
    transfer = flags.get("kv_transfer_config")
    if disabled is None and isinstance(transfer, Mapping) and transfer:
        connector = str(transfer.get("kv_connector", ""))
        if facts.hybrid_manager.off_for == "any" or connector not in HMA_CONNECTORS:
            why = "--kv-transfer-config"
    elif disabled is None and flags.get("kv_offloading_size") and flags.get("kv_offloading_backend") == "lmcache":
        why = "--kv-offloading-backend lmcache" if facts.hybrid_manager.off_for_lmcache else ""
    if disabled is not None:
        if disabled is False and why:
            raise Refused(
                "ValidationError",
                "Hybrid KV cache manager was explicitly enabled but is not supported in this configuration. Consider "
                "omitting the --no-disable-hybrid-kv-cache-manager flag to let vLLM decide automatically.",
            )
        return bool(disabled), ""
    return bool(why), why


def prefix_and_chunks(model: Model, traits: Traits, flags: Mapping[str, Any], facts: Facts) -> tuple[bool, bool]:
    """enable_prefix_caching and enable_chunked_prefill. config/vllm.py, scheduler.py: an encoder's output is needed
    whole, and is no part of a prefix; config/model.py is_chunked_prefill_supported: not where every token sees all
    others, nor where the first token or the mean of all is taken."""
    encoder_decoder = "cross" in traits.kinds
    encoder_only = "encoder_only" in traits.kinds or bool(model.param("pools_first"))
    prefix = flags.get("enable_prefix_caching")
    if prefix is None:
        usual = facts.states.cached_by_default if traits.is_hybrid else not traits.has_state
        prefix = (model.pooling or usual) and not encoder_only
    chunked = flags.get("enable_chunked_prefill", not encoder_only) or (facts.limits.always_chunks and not encoder_only)
    return bool(prefix) and not encoder_decoder, bool(chunked) and not encoder_decoder


def pipeline_stages(layers: int, pp: int, partition: str = "") -> tuple[tuple[int, int], ...]:
    """(first layer, the one behind the last) of each stage."""
    sizes = stage_sizes(layers, pp)
    if partition:
        try:
            parts = [int(n) for n in partition.split(",")]
        except ValueError:
            raise Refused("ValueError", f"Invalid partition string: {partition}") from None
        if len(parts) != pp:
            raise Refused("ValueError", f"len(partitions)={len(parts)} does not match pp_size={pp}.")
        if sum(parts) != layers:
            raise Refused("ValueError", f"sum(partitions)={sum(parts)} does not match num_hidden_layers={layers}.")
        sizes = parts
    ends = [sum(sizes[: i + 1]) for i in range(pp)]
    return tuple((end - size, end) for size, end in zip(sizes, ends, strict=True))


# --runner pooling and --convert: a generative model that is served for its hidden states.

_TASKS = ("embed", "embedding", "classify", "score", "reward", "encode")
_LABELS = 2  # transformers: num_labels of a config that names none


def with_pooling(traits: Traits, flags: Mapping[str, Any], facts: Facts) -> Traits:
    """--runner, --convert and --task of older releases. A model that pools by its class stays as it is."""
    if traits.model.pooling:
        return traits
    convert, task = flags.get("convert"), flags.get("task")
    converts = convert in _TASKS and facts.support.convert_pools and flags.get("runner") in (None, "auto")
    if flags.get("runner") != "pooling" and task not in _TASKS and not converts:
        return traits
    return _without_head(traits, classifies="classify" in (convert, task) or task == "score")


def verify_convert(model: Model, flags: Mapping[str, Any]) -> None:
    """adapters.py:255 (0.21.0) _init_pooler: a bare assert where a converted class is to generate."""
    if flags.get("convert") in _TASKS and not model.pooling:
        raise Refused("AssertionError", "")


@lru_cache(maxsize=64)
def _without_head(traits: Traits, *, classifies: bool) -> Traits:
    """adapters.py:145 (0.32.0) no_init_weights: no ParallelLMHead is created; as_seq_cls_model adds a float32 score."""
    model = traits.model
    modules: list[Module] = [m for m in model.root.modules if not (isinstance(m, Vocab) and m.role == "lm_head")]
    if classifies:
        score = (_LABELS, model.hidden_size)
        modules.append(Param("score.weight", score, model.dtype, "lm_head", stored=False, created_dtype="F32"))
    pooled: Model = replace(model, pooling=True, root=replace(model.root, modules=tuple(modules)))
    return traits_of(pooled)
