"""The settings that SGLang ends up with: what `resolve` returns and everything after it reads."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from oomph.errors import CannotPlan
from oomph.facts.sglang.facts import Facts
from oomph.ir import Attention, Layer, Model, State


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


# What SGLang's settings and pools ask of a Model, computed once per plan.

_LATENT_OWN = ("DeepseekV4ForCausalLM",)  # its attention is no latent attention to SGLang (configs/model_config.py)
_DELTA = ("KimiLinearForCausalLM", "KimiK3ForConditionalGeneration", "BailingMoeV3ForCausalLM")


class ModelShape(Struct, frozen=True):
    architecture: str
    is_multimodal: bool
    has_windows: bool  # two pools: is_hybrid_swa
    is_latent: bool  # attention_arch MLA
    is_sparse: bool  # DeepSeek's sparse attention: an indexer chooses
    is_v4: bool
    has_delta_attention: bool
    has_sinks: bool
    full: Attention | None  # the geometry of the layers in the first pool
    window: Attention | None  # of those in the second
    states: tuple[tuple[int, State], ...]  # layer and state

    @property
    def attention(self) -> Attention | None:
        return self.full or self.window

    @property
    def unequal_widths(self) -> bool:
        """K and V rows of different width in either pool (ModelConfig.has_asymmetric_kv)."""
        return any(m is not None and m.head_dim != m.head_dim_v for m in (self.full, self.window))


def takes_images(model: Model, facts: Facts, flags: Mapping[str, Any]) -> bool:
    """configs/model_config.py:820 (0.5.23) is_multimodal."""
    lists = facts.architectures
    setting = flags.get("enable_multimodal")
    if flags.get("language_model_only") or setting is False:
        return False
    if setting is None and model.architecture in lists.images_asked_for:
        return False
    nested = lists.nested_text_is_multimodal and bool(model.param("nested_text"))
    return model.architecture in lists.multimodal or nested


def shape_of(model: Model, facts: Facts, flags: Mapping[str, Any]) -> ModelShape:
    lists, name = facts.architectures, model.architecture
    attention = [m for layer in model.layers for m in layer.mixers if isinstance(m, Attention)]
    if any(m.convolution is not None for m in attention):
        raise CannotPlan("what SGLang keeps of short convolutions beside attention is not known here")
    if any(sum(isinstance(m, Attention) for m in layer.mixers) > 1 for layer in model.layers):
        raise CannotPlan("how SGLang caches layers that run several times is not known here")
    windows = [m for m in attention if m.kind in ("sliding_window", "chunked_local")]
    has_windows = name in lists.hybrid_window and bool(windows)
    fulls = [m for m in attention if m not in windows] if has_windows else attention
    is_v4 = name in _LATENT_OWN
    latent = any(m.kind == "mla" for m in attention) and not is_v4
    return ModelShape(
        architecture=name,
        is_multimodal=takes_images(model, facts, flags),
        has_windows=has_windows or is_v4,
        is_latent=latent,
        is_sparse=latent and name in lists.sparse and any(m.indexer is not None for m in attention),
        is_v4=is_v4,
        has_delta_attention=name in _DELTA,
        has_sinks=any(m.sinks for m in attention),
        full=fulls[0] if fulls else None,
        window=windows[0] if has_windows else None,
        states=tuple((layer.index, m) for layer in model.layers for m in layer.mixers if isinstance(m, State)),
    )


def is_window(layer: Layer, shape: ModelShape) -> bool:
    return shape.has_windows and any(
        isinstance(mixer, Attention) and mixer.kind in ("sliding_window", "chunked_local") for mixer in layer.mixers
    )


def context_length(model: Model) -> int:
    """utils/hf_transformers/common.py get_context_length: the config's own length, times the rope factor only where
    the rope parameters do not say which length they stretch."""
    length = int(model.param("derived_max_len")) or model.max_position or 2048
    factor = float(model.param("rope_factor") or 1.0)
    if factor == 1.0 or model.param("rope_original") or model.param("rope_type") == "llama3":
        return length
    bases = {m.rope.theta for layer in model.layers for m in layer.mixers if isinstance(m, Attention) and m.rope}
    if len(bases) > 1:  # transformers keeps one set of parameters for each kind of layer, and the factor inside it
        return length
    return int(length * factor)
