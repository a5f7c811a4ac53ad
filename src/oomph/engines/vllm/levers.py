"""What a person can change about a vLLM deployment: one row per lever, with the settings that are worth trying.

Each row has the settings from the mildest to the strongest, what they cost, the terms that they move, and the stages
that do not read the flag. Whether a lever helps is planned by `advice/`, never written here.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from msgspec.structs import replace

from oomph.engines.common.levers import (
    checkpoint_levers,
    idle_cards_lever,
    larger_cards_lever,
    more_cards_lever,
    replicas_lever,
    typed,
)
from oomph.engines.vllm.host_levers import host_levers
from oomph.engines.vllm.serving.safe_utilization import safe_utilization
from oomph.facts.vllm.flags import options_of
from oomph.facts.vllm.outside import FUSED
from oomph.ir import Change, Lever, Model, Plan, StageName, State
from oomph.ir.advice import Kind
from oomph.units import GIB, gib

NotRead = dict[StageName, str]
Setting = tuple[Any, str, int]  # a flag's value, what it costs the user in words, and as a rank

_BEFORE_LOAD = "the check compares free memory with the budget before anything of the model is known"
# What a batch leaves beside the terms of its own: the runner's buffers, and what the allocator rounds up around them.
_BUFFERS = ("runner", "weights.allocator rounding", "weights.batch buffers", "weights.buffers")
_LENGTHS = (262144, 196608, 131072, 98304, 65536, 49152, 40960, 32768, 24576, 16384, 12288, 8192, 4096, 2048, 1024)


def levers(plan: Plan, model: Model) -> Iterator[Lever]:
    """The table for this plan: what is in force already, or what this release lacks, is left out."""
    if "max_num_seqs" not in plan.resolved or not plan.ranks:
        return
    rows = options_of(plan.deployment.engine.version).by_field
    yield from _swap(plan)
    for lever in _all(plan, model):
        changes = tuple(change for change in lever.changes if all(name in rows for name in change.flags))
        if changes:
            yield replace(lever, changes=changes)


def _all(plan: Plan, model: Model) -> Iterator[Lever]:
    return chain(
        host_levers(plan),
        _budget(plan),
        _pool(plan),
        _batch(plan, model),
        _graphs(plan),
        _cache(plan, model),
        _inputs(plan, model),
        _machine(plan),
        checkpoint_levers(plan, model, _WHOLE, dropped=("quantization", "load_format", "dtype")),
    )


def _flag(
    plan: Plan, field: str, settings: Iterable[Setting], moves: tuple[str, ...], not_read: NotRead,
    *, name: str = "", kind: Kind = "flag", popular: bool = False, frees: tuple[str, ...] | None = None,
) -> Iterator[Lever]:  # fmt: skip
    lever = name or field
    changes = tuple(
        Change(lever, spell(field, value), kind, {field: value}, cost=cost, rank=rank, moves=moves)
        for value, cost, rank in settings
        if plan.deployment.flags.get(field) != value
    )
    if changes:
        yield Lever(lever, changes, not_read, popular=popular, frees=frees)


def spell(field: str, value: Any) -> str:
    """The flag as it is typed."""
    return typed("--" + field.replace("_", "-"), value)


def _swap(plan: Plan) -> Iterator[Lever]:
    """What guides still list, whatever the release."""
    status = options_of(plan.deployment.engine.version).status("swap_space")
    change = Change("swap_space", "--swap-space 4", flags={"swap_space": 4})
    idle = "vLLM's V1 engine never swaps; the flag does nothing"
    refused = "" if status.state == "known" else status.sentence
    yield Lever("swap_space", (change,), idle=idle, refused=refused, popular=True)


# ---- the budget ------------------------------------------------------------------------------------------------------


def _budget(plan: Plan) -> Iterator[Lever]:
    now = float(plan.resolved["gpu_memory_utilization"])
    ceiling = min(_free_share(plan), safe_utilization(plan).value)
    stage = plan.verdict.stage
    field = "gpu_memory_utilization"
    not_read: NotRead = {
        "weights_load": "it is read before the load and after it, never while weights are created",
        "profile_run": "the profiling run takes what it needs; the budget is applied afterwards",
        "cudagraph_profile": "graphs are profiled before the budget is applied",
    }
    higher = [value for value in (0.9, 0.92, ceiling) if now < value <= ceiling]
    if "kv_cache_memory_bytes" not in plan.deployment.flags:
        settings = [(value, "less room for peaks while serving", 1) for value in dict.fromkeys(higher)]
        yield from _flag(
            plan, field, settings, (), not_read, name="gpu_memory_utilization_up", popular=True,
            frees=("beyond the budget",),
        )  # fmt: skip
    is_shared = any(device.unified for device in plan.deployment.gpus)
    if stage == "startup_free_memory":
        lower = [_free_share(plan), *(_below(_free_share(plan)) if is_shared else ())]
    else:  # the host lives in the same memory: what is free for it counts in fives
        lower = _below(now) if is_shared else [value for value in (0.9, 0.85, 0.8, 0.7) if value < now]
    smaller = [(value, "a smaller KV cache", 1) for value in lower if 0.01 <= value < now]
    for lever in _flag(plan, field, smaller, (), not_read, name="gpu_memory_utilization_down", popular=True, frees=()):
        yield replace(lever, two_sided=is_shared)


def _pool(plan: Plan) -> Iterator[Lever]:
    """Sleep mode loads into a pool that cannot give back what conversions free."""
    if plan.deployment.flags.get("enable_sleep_mode") and plan.verdict.stage == "weights_load":
        settings = [(None, "the server cannot sleep", 2)]
        yield from _flag(plan, "enable_sleep_mode", settings, ("load_peak",), {}, name="enable_sleep_mode")


def _below(share: float) -> list[float]:
    """Utilisations in steps of five hundredths."""
    return [value / 100 for value in range(90, 15, -5) if value / 100 < share - 0.005]


def _free_share(plan: Plan) -> float:
    """The largest utilisation, in hundredths, that every card has free at the start, its own context at its largest."""
    shares = [
        1 - rank.stages[0].peak_high / rank.total_bytes for rank in plan.ranks if rank.stages and rank.total_bytes
    ]
    return max(0.0, math.floor(100 * min(shares, default=0.0)) / 100)


# ---- batch and context -----------------------------------------------------------------------------------------------


def _batch(plan: Plan, model: Model) -> Iterator[Lever]:
    resolved, flags = plan.resolved, plan.deployment.flags
    sequences, batch = int(resolved["max_num_seqs"]), int(resolved["max_num_batched_tokens"])
    length = int(resolved["max_model_len"])
    settings = [(n, f"requests of at most {n:,} tokens", 5 - 4 * n // length) for n in _shorter(plan, length)]
    not_read: NotRead = {
        "startup_free_memory": _BEFORE_LOAD,
        "weights_load": "the context length is not read before the weights are loaded",
        "profile_run": "the profiling batch is as long as max_num_batched_tokens, whatever the context length",
        "cudagraph_profile": "the throw-away KV cache does not depend on the context length",
        "kv_alloc": "the pool is sized by the budget; the context length is only checked against it",
        "cudagraph_capture": "the pool keeps its size, whatever the context length",
        "sampler_warmup": "the pool keeps its size, whatever the context length",
    }
    if model.towers and not flags.get("language_model_only"):
        del not_read["profile_run"]  # how large a profiled image may be follows from the context length
    yield from _flag(plan, "max_model_len", settings, (), not_read, popular=True)
    ladder = ((256, 1), (64, 2), (16, 3), (8, 4), (1, 6))
    people = [(n, f"at most {n} requests at once" if n > 1 else "one request at a time", rank) for n, rank in ladder]
    not_read = {
        "startup_free_memory": _BEFORE_LOAD,
        "weights_load": "the number of sequences is not read before the weights are loaded",
    }
    fewer = [setting for setting in people if setting[0] < sequences]
    moves = ("activation_peak", "cudagraph")
    yield from _flag(plan, "max_num_seqs", fewer, moves, not_read, popular=True, frees=(*moves, *_BUFFERS))
    chunked = flags.get("enable_chunked_prefill", True)
    sizes = [n for n in (8192, 4096, 2048, 1024) if sequences <= n < batch and (n >= length or chunked)]
    slower = [(n, "long prompts take more steps", 2) for n in sizes]
    not_read = {
        "startup_free_memory": _BEFORE_LOAD,
        "weights_load": "the size of a batch is not read before the weights are loaded",
    }
    frees = ("activation_peak", "cudagraph", *_BUFFERS)
    yield from _flag(plan, "max_num_batched_tokens", slower, moves[:1], not_read, popular=True, frees=frees)


def _shorter(plan: Plan, length: int) -> list[int]:
    """Contexts to try: what the room that is certain would hold, then round figures."""
    kv = plan.kv
    lengths = [n for n in _LENGTHS if n < length]
    if kv is None or kv.need_bytes <= 0:
        return lengths
    certain = min((rank.terms["available_kv"].low for rank in plan.ranks), default=0)
    longest = int(length * certain / kv.need_bytes * 0.99) // 256 * 256
    return [longest, *(n for n in lengths if n < longest)] if 1024 <= longest < length else lengths


# ---- graphs ----------------------------------------------------------------------------------------------------------


def _graphs(plan: Plan) -> Iterator[Lever]:
    largest = max(plan.resolved["cudagraph_capture_sizes"], default=0)
    if not largest:
        return
    early: NotRead = {
        "startup_free_memory": _BEFORE_LOAD,
        "weights_load": "CUDA graphs are captured long after the weights are loaded",
    }
    if "cudagraph_capture_sizes" not in plan.deployment.flags:
        ladder = ((256, 1), (64, 1), (32, 2), (8, 3))
        sizes = [(n, f"batches above {n} tokens run without graphs", rank) for n, rank in ladder if n < largest]
        yield from _flag(plan, "max_cudagraph_capture_size", sizes, ("cudagraph",), early, frees=("cudagraph",))
    eager = [(True, "no CUDA graphs: slower decoding", 5)]
    moves = ("cudagraph", "activation_peak", "non_torch")
    yield from _flag(plan, "enforce_eager", eager, moves, early, popular=True, frees=(*moves, *_BUFFERS))


# ---- the cache -------------------------------------------------------------------------------------------------------


def _cache(plan: Plan, model: Model) -> Iterator[Lever]:
    flags = plan.deployment.flags
    early: NotRead = {
        "startup_free_memory": _BEFORE_LOAD,
        "weights_load": "no KV cache exists before the weights are loaded",
        "profile_run": "no KV cache exists in the profiling run",
    }
    if flags.get("kv_cache_dtype", "auto") == "auto" and "fp8" not in str(plan.resolved.get("kv_cache_dtype")):
        eight = [("fp8", "KV values are kept in 8 bits", 3)]
        yield from _flag(plan, "kv_cache_dtype", eight, ("activation_peak",), early, popular=True)
    if plan.resolved.get("enable_prefix_caching") and any(
        isinstance(mixer, State) for layer in model.layers for mixer in layer.mixers
    ):
        off = [(False, "no reuse of common beginnings, fewer states kept", 3)]
        yield from _flag(plan, "enable_prefix_caching", off, (), early)
    if flags.get("speculative_config"):
        moves = ("weights", "load_peak", "activation_peak", "cudagraph")
        yield from _flag(plan, "speculative_config", [(None, "no drafted tokens", 4)], moves, {})
    if "num_gpu_blocks_override" in flags:
        free = [(None, "vLLM sizes the pool by the memory there is", 0)]
        yield from _flag(plan, "num_gpu_blocks_override", free, (), {})
    if "kv_cache_memory_bytes" in flags:
        free = [(None, "vLLM sizes the pool by the memory there is", 0)]
        yield from _flag(plan, "kv_cache_memory_bytes", free, (), {})


# ---- what goes in ----------------------------------------------------------------------------------------------------


def _inputs(plan: Plan, model: Model) -> Iterator[Lever]:
    flags = plan.deployment.flags
    moves = ("weights", "load_peak", "activation_peak")
    if model.towers and not flags.get("language_model_only"):
        text = [(True, "no images, video or audio", 3)]
        yield from _flag(
            plan, "language_model_only", text, moves, {"startup_free_memory": _BEFORE_LOAD},
            frees=("weights.multimodal", "activation_peak", "cudagraph", *_BUFFERS),
        )  # fmt: skip
    if flags.get("enable_lora"):
        yield from _flag(plan, "enable_lora", [(None, "no adapters", 5)], moves, {})
    if str(plan.resolved.get("dtype")) == "float32":
        half = [("half", "16-bit weights and activations", 1)]
        yield from _flag(plan, "dtype", half, moves, {"startup_free_memory": _BEFORE_LOAD})
    yield from _fused(plan)
    now = float(flags.get("cpu_offload_gb") or 0)
    weights = max((rank.terms["weights"].bytes for rank in plan.ranks), default=0) / GIB
    sizes = [now + n for n in (2, 4, 8, 16, 32, 64, 128) if n < 0.9 * weights]
    slow = [(int(n), f"{n:g} GiB are read over PCIe in every step", 9) for n in sizes]
    yield from _flag(plan, "cpu_offload_gb", slow, ("weights", "load_peak"), {}, kind="offload")


def _fused(plan: Plan) -> Iterator[Lever]:
    """FlashInfer's buffers for an all-reduce that normalises at once."""
    if not any(FUSED in rank.terms["non_torch"].parts for rank in plan.ranks if "non_torch" in rank.terms):
        return
    config = _mapping(plan.deployment.flags.get("compilation_config"))
    passes = {**_mapping(config.get("pass_config")), "fuse_allreduce_rms": False}
    label = "--compilation-config.pass_config.fuse_allreduce_rms false"
    cost = "all-reduce and norm apart: decoding is a little slower"
    flags = {"compilation_config": {**config, "pass_config": passes}}
    yield Lever("fuse_allreduce_rms", (Change("fuse_allreduce_rms", label, "flag", flags, cost=cost, rank=1,
                                              moves=("non_torch",)),))  # fmt: skip


def _mapping(value: object) -> dict[str, Any]:
    return dict(value) if isinstance(value, Mapping) else {}


# ---- the machine -----------------------------------------------------------------------------------------------------


def _machine(plan: Plan) -> Iterator[Lever]:
    gpus = plan.deployment.gpus
    # what the system itself is thought to hold of a memory that it shares with the GPU nobody can end
    if used := max((device.reading for device in gpus), default=0):
        free = tuple(replace(device, used_bytes=0) for device in gpus)
        label = f"end what holds {gib(used)} of the card, or take another GPU"
        yield Lever(
            "used_memory", (Change("used_memory", label, "host", gpus=free, cost="the card for this server alone"),)
        )
    yield from _wider(plan)
    yield from _environment(plan)


def _wider(plan: Plan) -> Iterator[Lever]:
    """Over more GPUs: those that are there, else as many more of the same; or as many larger cards."""
    sizes = {name: int(plan.resolved[name]) for name in ("tensor_parallel_size", "pipeline_parallel_size")}
    replicas = int(plan.deployment.flags.get("data_parallel_size") or 1)
    world = sizes["tensor_parallel_size"] * sizes["pipeline_parallel_size"] * replicas
    for rank, field in enumerate(sizes, start=2):
        yield from idle_cards_lever(plan, field, spell, world, _WHOLE, rank)
    yield from replicas_lever(plan, "tensor_parallel_size", "data_parallel_size", spell, _WHOLE)
    yield from more_cards_lever(plan, "tensor_parallel_size", spell, world, _WHOLE)
    yield from larger_cards_lever(plan, _WHOLE)


_WHOLE = ("weights", "load_peak", "activation_peak", "non_torch", "cudagraph")


def _environment(plan: Plan) -> Iterator[Lever]:
    name = "PYTORCH_CUDA_ALLOC_CONF"
    if "expandable_segments" in plan.deployment.environment.get(name, ""):
        return
    change = Change(
        "expandable_segments", f"{name}=expandable_segments:True", "environment",
        environment={name: "expandable_segments:True"}, cost="segments that grow",
    )  # fmt: skip
    # It moves the KV check too: what the load leaves reserved and unused counts as weights there.
    yield Lever("expandable_segments", (change,), popular=True)
