"""Flags that vLLM takes as they are, typed: what a plan reads of the command line once the settings are resolved."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from oomph.facts.vllm.lora import DEFAULT_LORAS, DEFAULT_RANK
from oomph.ir import Model
from oomph.units import GIB


class Lora(Struct, frozen=True):
    loras: int
    rank: int
    dtype: str
    fully_sharded: bool
    targets: frozenset[str] | None  # None: every module
    extra_vocabulary: int | None  # --lora-extra-vocab-size; None: the release's default


class Offload(Struct, frozen=True):
    """Which parameters of the decoder layers leave the GPU once their layer is built (model_executor/offloader)."""

    budget: int = 0  # uva.py: parameters in order until so many bytes are gone
    group: int = 0  # prefetch.py: of every `group` layers the last `last`
    last: int = 1
    step: int = 1  # sets of parameters that the GPU keeps room for
    params: frozenset[str] = frozenset()  # only parameters with one of these name segments; none = all

    @property
    def active(self) -> bool:
        return bool(self.budget or self.group)

    def takes(self, layer: int, gone: int, parameter: str) -> bool:
        """`layer`: index within the stage; `gone`: bytes already offloaded."""
        if self.params and not any(f".{p}." in f".{parameter}." for p in self.params):
            return False
        if self.group:
            return layer % self.group >= self.group - self.last
        return gone < self.budget


class Balancing(Struct, frozen=True):
    """--enable-eplb (config/parallel.py EPLBConfig)."""

    spare_experts: int
    window: int  # steps whose loads are kept


_ITEMS = 999  # config/multimodal.py get_limit_per_prompt: of a modality that --limit-mm-per-prompt does not name


class Multimodal(Struct, frozen=True):
    text_only: bool = True  # no multimodal input at all: by flag, or by limits of 0 for every modality the model has
    limits: tuple[tuple[str, int], ...] = ()  # items of each modality that a prompt may have, where it may have any
    encoder_per_rank: bool = False  # --mm-encoder-tp-mode data: every rank has the whole encoder
    profiled: bool = True
    ipc_bytes: int = 0  # --mm-ipc-gpu-memory-gb
    max_pixels: int = 0  # --mm-processor-kwargs: an image is scaled down to so many; 0 = the model's own limit
    normalised_on_host: bool = False  # --no-mm-device-do-normalize: pixels come in the model's dtype

    @property
    def modalities(self) -> frozenset[str]:
        """Of the model, those that a prompt may have."""
        return frozenset(name for name, _ in self.limits)


class PlainFlags(Struct, frozen=True):
    multimodal: Multimodal = Multimodal()
    lora: Lora | None = None
    offload: Offload = Offload()
    balancing: Balancing | None = None
    load_format: str = "auto"
    moe_backend: str = "auto"
    all2all_backend: str = ""
    gdn_prefill_backend: str = ""
    fuses_all_reduce: bool = True
    # device_allocator/cumem.py: weights are created and converted inside a pool of PyTorch's. What a conversion frees
    # is used again by the next one, but given back only when the load is over (`_trim`, 0.32.0)
    pools_memory: bool = False
    prompt_embeds: bool = False
    sleeps: bool = False  # --enable-sleep-mode
    offloads_graphs: bool = False  # --sleep-mode-offload-cudagraph


def plain_flags(model: Model, flags: Mapping[str, Any], whole_encoders: frozenset[str]) -> PlainFlags:
    """`whole_encoders`: the architectures whose class takes --mm-encoder-tp-mode data."""
    return PlainFlags(
        _multimodal(model, flags, model.architecture in whole_encoders),
        lora=_lora(flags) if flags.get("enable_lora") else None,
        offload=_offload(flags),
        balancing=_balancing(flags) if flags.get("enable_eplb") else None,
        load_format=str(flags.get("load_format") or "auto"),
        moe_backend=str(flags.get("moe_backend") or "auto"),
        all2all_backend=str(flags.get("all2all_backend") or ""),
        gdn_prefill_backend=str(flags.get("gdn_prefill_backend") or ""),
        fuses_all_reduce=_mapping(_mapping(flags.get("compilation_config")).get("pass_config")).get(
            "fuse_allreduce_rms"
        )
        is not False,
        pools_memory=bool(flags.get("enable_sleep_mode") or flags.get("enable_cumem_allocator")),
        prompt_embeds=bool(flags.get("enable_prompt_embeds")),
        sleeps=bool(flags.get("enable_sleep_mode")),
        offloads_graphs=bool(flags.get("sleep_mode_offload_cudagraph")),
    )


def text_only(model: Model, flags: Mapping[str, Any]) -> bool:
    if not model.towers or flags.get("language_model_only"):
        return True
    names = {m.name for m in model.modalities} or {t.modality.replace("vision", "image") for t in model.towers}
    return not any(_is_allowed(flags, name) for name in names)


def _is_allowed(flags: Mapping[str, Any], modality: str) -> bool:
    return _limit(flags, modality) != 0


def _limit(flags: Mapping[str, Any], modality: str) -> int:
    """--limit-mm-per-prompt: a number, or options with a count, for each modality; what it does not name is allowed."""
    limit = _mapping(flags.get("limit_mm_per_prompt")).get(modality)
    count = limit.get("count") if isinstance(limit, Mapping) else limit
    return count if isinstance(count, int) else _ITEMS


def _multimodal(model: Model, flags: Mapping[str, Any], has_whole_encoder: bool) -> Multimodal:
    asks = flags.get("mm_encoder_tp_mode") == "data" or bool(flags.get("enable_multimodal_encoder_data_parallel"))
    return Multimodal(
        text_only=text_only(model, flags),
        limits=tuple((m.name, _limit(flags, m.name)) for m in model.modalities if _is_allowed(flags, m.name)),
        encoder_per_rank=asks and has_whole_encoder,
        profiled=not flags.get("skip_mm_profiling"),
        ipc_bytes=round(float(flags.get("mm_ipc_gpu_memory_gb") or 0) * GIB),
        max_pixels=_max_pixels(_mapping(flags.get("mm_processor_kwargs"))),
        normalised_on_host=flags.get("mm_device_do_normalize") is False,
    )


def _max_pixels(kwargs: Mapping[str, Any]) -> int:
    """`max_pixels`, or `size.longest_edge`, which is the same number of pixels (Qwen2VLImageProcessor)."""
    limit = kwargs.get("max_pixels", _mapping(kwargs.get("size")).get("longest_edge"))
    return limit if isinstance(limit, int) and limit > 0 else 0


def _lora(flags: Mapping[str, Any]) -> Lora:
    targets = flags.get("lora_target_modules")
    return Lora(
        int(flags.get("max_loras") or DEFAULT_LORAS),
        int(flags.get("max_lora_rank") or DEFAULT_RANK),
        str(flags.get("lora_dtype") or "auto"),
        bool(flags.get("fully_sharded_loras")),
        frozenset(map(str, targets)) if isinstance(targets, list) else None,
        flags.get("lora_extra_vocab_size"),
    )


def _offload(flags: Mapping[str, Any]) -> Offload:
    """config/offload.py: with both --cpu-offload-gb and groups and no backend named, the groups win."""
    group = int(flags.get("offload_group_size") or 0)
    backend = str(flags.get("offload_backend") or "auto")
    if group and backend != "uva":
        return Offload(
            group=group,
            last=int(flags.get("offload_num_in_group") or 1),
            step=int(flags.get("offload_prefetch_step") or 1),
            params=frozenset(map(str, flags.get("offload_params") or ())),
        )
    if backend == "prefetch":
        return Offload()
    budget = int(float(flags.get("cpu_offload_gb") or 0) * GIB)
    return Offload(budget=budget, params=frozenset(map(str, flags.get("cpu_offload_params") or ())))


def _balancing(flags: Mapping[str, Any]) -> Balancing:
    config = flags.get("eplb_config")
    spare = _mapping(config).get("num_redundant_experts") if isinstance(config, Mapping) else None
    if not isinstance(config, Mapping):
        spare = flags.get("num_redundant_experts")
    window = _mapping(config).get("window_size", 1000)
    return Balancing(spare if isinstance(spare, int) else 0, window if isinstance(window, int) else 1000)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
