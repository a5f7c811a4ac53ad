"""llama-server's flags, resolved: common/arg.cpp and llama_context's constructor (b11739)."""

import re
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from oomph.engines.llamacpp.speculation import drafted_tokens, snapshots
from oomph.errors import CommandError
from oomph.facts.dtypes import BLOCKS
from oomph.facts.llamacpp.builds import (
    FLASH_AUTO_SINCE,
    FLASH_FOR_QUANTISED_VALUES_SINCE,
    NEWEST,
    SNAPSHOTS_SINCE,
    graph_facts,
)
from oomph.units import round_up

Pooling = Literal["", "none", "mean", "cls", "last", "rank"]
PAD = 256  # GGML_PAD(n_ctx, 256)
CACHE_TYPES = ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")


class Settings(Struct, frozen=True):
    build: int
    n_ctx: int  # as padded
    n_ctx_seq: int
    n_seq_max: int
    kv_unified: bool
    n_batch: int
    n_ubatch: int
    n_outputs_max: int
    flash_attn: bool
    type_k: str
    type_v: str
    n_gpu_layers: int  # -1: not said
    swa_full: bool = False
    kv_offload: bool = True
    split_mode: Literal["none", "layer", "row", "tensor"] = "layer"
    main_gpu: int = 0
    tensor_split: tuple[float, ...] = ()
    overrides: tuple[tuple[str, str], ...] = ()  # -ot: (regular expression, buffer type)
    refused: tuple[
        tuple[str, str], ...
    ] = ()  # of them, those that nobody typed: tensors that the backend does not take
    fit: bool = True
    fit_target: tuple[int, ...] = (1024,)  # MiB a device keeps free
    fit_ctx: int = 4096
    ctx_asked: bool = False  # -c was given: fit leaves the context alone
    ctx_zero: bool = False  # -c 0: all that the model was trained for
    n_ctx_train: int = 0
    mmap: bool = True
    load_mtp: bool = False  # --spec-type draft-mtp: the model's own layers of multi-token prediction
    flash_auto: bool = True  # -fa auto: it is off where a layer's attention would run on another device
    repack: bool = True  # a CPU alone lays weights out anew
    op_offload: bool = True  # weights of the CPU are read by the GPU for large batches
    embeddings: bool = False
    pooling: Pooling = ""
    pools: bool = False  # the server takes an output of every token of a batch
    drafts: int = 0  # tokens that a draft proposes at once
    snapshots: int = 0  # n_rs_seq: recurrent states that are kept of each sequence so that drafts can be taken back

    @property
    def n_stream(self) -> int:
        return 1 if self.kv_unified else self.n_seq_max

    @property
    def quantises_values(self) -> bool:
        return BLOCKS[self.type_v.upper()][0] > 1


def resolve(
    flags: dict[str, Any], trained: int, build: int = NEWEST, *, program: str = "server", flash: bool = True,
    pooling: Pooling = "",
) -> Settings:  # fmt: skip
    """`trained`: the model's own context length, which -c 0 stands for; `flash`: it works with flash attention;
    `pooling`: as the file says."""
    embeddings = bool(flags.get("embeddings") or flags.get("reranking"))
    asked_pooling: Pooling = "rank" if flags.get("reranking") else flags.get("pooling", "")
    context = flags.get("ctx_size")
    parallel = flags.get("parallel", -1 if program == "server" else 1)
    auto = parallel < 1
    slots = 4 if auto else parallel
    pool = flags.get("kv_unified_per_slot", 0)
    if pool > 0 and context is None:  # "sizing KV pool to n_parallel * kv_unified_per_slot"
        context = slots * pool
    unified = bool(flags.get("kv_unified", auto or pool > 0))
    overrides = tuple(flags.get("override_tensor", ()))
    settings = Settings(
        build=build,
        n_ctx=0,
        n_ctx_seq=0,
        n_seq_max=slots,
        kv_unified=unified,
        n_batch=flags.get("batch_size", 2048),
        n_ubatch=flags.get("ubatch_size", 512),
        n_outputs_max=0,
        embeddings=embeddings,
        pooling=asked_pooling or pooling or "none",
        pools=embeddings or asked_pooling not in ("", "none"),
        drafts=drafted_tokens(flags, build),
        snapshots=snapshots(flags, build) if build >= SNAPSHOTS_SINCE else 0,
        flash_attn=flash and flags.get("flash_attn", "auto" if build >= FLASH_AUTO_SINCE else "off") != "off",
        type_k=flags.get("cache_type_k", "f16"),
        type_v=flags.get("cache_type_v", "f16"),
        n_gpu_layers=flags.get("n_gpu_layers", -1),
        swa_full=flags.get("swa_full", False),
        kv_offload=flags.get("kv_offload", True),
        split_mode=flags.get("split_mode", "layer"),
        main_gpu=flags.get("main_gpu", 0),
        tensor_split=tuple(flags.get("tensor_split", ())),
        overrides=overrides,
        fit=flags.get("fit", True),
        fit_target=tuple(flags.get("fit_target", (1024,))),
        fit_ctx=flags.get("fit_ctx", 4096),
        ctx_asked=context is not None,
        ctx_zero=context == 0,
        n_ctx_train=trained or 4096,
        mmap=flags.get("mmap", True),
        load_mtp="mtp" in str(flags.get("spec_type", "")),
        flash_auto=flags.get("flash_attn", "auto") == "auto",
        op_offload=flags.get("op_offload", True),
        repack=flags.get("repack", True),
    )
    for name, kind in (("--cache-type-k", settings.type_k), ("--cache-type-v", settings.type_v)):
        if kind not in CACHE_TYPES:
            raise CommandError(f"{name} {kind[:40]!r}: it is one of {', '.join(CACHE_TYPES)}")
    if settings.quantises_values and build >= FLASH_FOR_QUANTISED_VALUES_SINCE:
        settings = replace(settings, flash_auto=False)
    return with_context(settings, context or trained or 4096, program)


def device_numbers(text: str) -> tuple[int, ...]:
    """--device: CUDA0,CUDA1 is 0 and 1; none is none."""
    return tuple(int(number) for number in re.findall(r"[A-Za-z](\d{1,3})(?=,|$)", text))


def with_context(settings: Settings, n_ctx: int, program: str = "server") -> Settings:
    """llama_context's constructor: pads per stream, so that -c 1000 -np 3 becomes 3 x 512."""

    batch = min(n_ctx, settings.n_batch)
    if settings.embeddings:  # "embeddings enabled with n_batch > n_ubatch": a prompt is one micro-batch
        batch = min(batch, settings.n_ubatch)
    padded = round_up(n_ctx, PAD)
    per_seq = padded if settings.kv_unified else round_up(padded // settings.n_seq_max, PAD)
    ubatch = min(batch, settings.n_ubatch) or batch
    by_slot = program == "server" and graph_facts(settings.build).slot_logits and not settings.pools
    outputs = min(batch, settings.n_seq_max * (1 + settings.drafts)) if by_slot else batch
    return replace(
        settings,
        n_ctx=padded if settings.kv_unified else per_seq * settings.n_seq_max,
        n_ctx_seq=per_seq,
        n_batch=batch,
        n_ubatch=ubatch,
        n_outputs_max=outputs,
    )
