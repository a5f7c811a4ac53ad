"""The flags that move memory, each planned: what it would give here, and which popular ones would give nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from oomph.errors import OomphError
from oomph.facts.vllm.flags import options_of
from oomph.facts.vllm.outside import FUSED
from oomph.ir.deployment import Deployment
from oomph.ir.model import Model
from oomph.ir.plan import Plan
from oomph.ir.timeline import STAGES

Planner = Callable[[Deployment, Model | None], Plan]


class Lever(Struct, frozen=True):
    """One change, re-planned. `gain` is on the failing stage's peak, or on KV memory where the plan fits."""

    label: str  # as a flag: "--max-num-seqs 8"
    flags: dict[str, Any]
    fits: bool
    gain_bytes: int
    tokens: int
    concurrency: float
    cost: str
    rank: int  # how much it costs the user: 0 least


Change = tuple[str, dict[str, Any], str, int]  # label, flags, cost, rank


def levers(plan: Plan, model: Model, planner: Planner) -> list[Lever]:
    """All of them, the ones that make it fit first, then by what they give. Two at once only where one does not do."""
    if plan.deployment.engine.name != "vllm":
        return []
    known = options_of(plan.deployment.engine.version).by_field
    changes = [c for c in _changes(plan, model) if next(iter(c[1])) in known]
    out = _planned(changes, plan, model, planner)
    if plan.fits:
        return sorted(out, key=lambda x: (not x.fits, -x.tokens))
    if not any(x.fits for x in out):
        out += [x for x in _planned(_pairs(changes, plan), plan, model, planner) if x.fits]
    return sorted(out, key=lambda x: (not x.fits, x.rank))  # stable: the mildest setting of a flag stays first


def _planned(changes: Iterable[Change], plan: Plan, model: Model, planner: Planner) -> list[Lever]:
    out = []
    for label, change, cost, rank in changes:
        flags = {**plan.deployment.flags, **change}
        try:
            made = planner(replace(plan.deployment, flags=flags), model)
        except OomphError:
            continue
        if made.verdict.stage == "other":
            continue
        kv = made.kv
        tokens = kv.logged_tokens if kv and made.fits else 0
        users = kv.max_concurrency if kv and made.fits else 0.0
        out.append(Lever(label, change, made.fits, gain(plan, made), tokens, users, cost, rank))
    return out


def _pairs(changes: list[Change], plan: Plan) -> Iterator[Change]:
    """A change that gets past the failing stage with one that lets the KV cache do with less."""
    past = "gpu_memory_utilization" if plan.verdict.stage == "startup_free_memory" else "cpu_offload_gb"
    first = (past, "kv_cache_dtype", "tensor_parallel_size")
    second = ("kv_cache_dtype", "max_model_len", "enforce_eager")
    most = max((c[1].get("cpu_offload_gb", 0) for c in changes), default=0)
    for label, change, cost, rank in changes:
        if change.get("cpu_offload_gb", most) != most:
            continue
        for more, also, price, other in changes:
            if next(iter(change)) in first and next(iter(also)) in second and change.keys() != also.keys():
                yield f"{label} {more}", change | also, f"{cost}; {price}", rank + other


def flag_names(lever: Lever) -> tuple[str, ...]:
    return tuple(word for word in lever.label.split() if word.startswith("--"))


def mildest(found: Iterable[Lever]) -> list[Lever]:
    """The first setting of each flag."""
    seen: dict[tuple[str, ...], Lever] = {}
    for x in found:
        seen.setdefault(flag_names(x), x)
    return list(seen.values())


def useless(found: list[Lever]) -> list[str]:
    """Flags that were tried and do not move the failing point at all, alone or with another."""
    moved = {name for x in found if x.gain_bytes > 0 or x.fits for name in flag_names(x)}
    names = dict.fromkeys(name for x in found for name in flag_names(x))
    return [n for n in names if n not in moved]


def gain(before: Plan, after: Plan) -> int:
    """Bytes of room at the failing stage, or of KV cache where the plan fits; negative: lost."""
    if before.fits:
        return _kv(after) - _kv(before) if after.fits else 0
    stage = before.verdict.stage
    if stage == "kv_check":
        if not after.fits and earlier(after.verdict.stage, stage):
            return 0
        return _room(after) - _room(before)
    return _peak(before, stage) - _peak(after, stage)


def earlier(a: str | None, b: str | None) -> bool:
    return STAGES.index(a or "other") < STAGES.index(b or "other")


def _room(plan: Plan) -> int:
    """KV memory beyond one request of max_model_len; negative: short of it."""
    return plan.kv.available_bytes - plan.kv.need_bytes if plan.kv else 0


def _kv(plan: Plan) -> int:
    return plan.kv.available_bytes if plan.kv else 0


def _peak(plan: Plan, stage: str | None) -> int:
    if not plan.ranks:
        return 0
    rank = plan.ranks[min(plan.verdict.rank, len(plan.ranks) - 1)]
    if stage == "startup_free_memory":
        return rank.requested_bytes
    # a change may take the stage away: what is left then is the peak of the stages before it
    upto = [s.peak_bytes for s in rank.stages if s.name == stage]
    return max(upto or [s.peak_bytes for s in rank.stages if earlier(s.name, stage)], default=0)


def _free_share(plan: Plan) -> float:
    """The largest utilisation, in hundredths, that every card has free at the start."""
    shares = [1 - r.stages[0].resident_bytes / r.total_bytes for r in plan.ranks if r.stages and r.total_bytes]
    return max(0.0, math.floor(100 * min(shares, default=0.0)) / 100)


def _unfused(flags: Mapping[str, Any]) -> Change:
    """FlashInfer's buffers for an all-reduce that norms at once."""
    config = flags.get("compilation_config")
    config = dict(config) if isinstance(config, Mapping) else {}
    passes = config.get("pass_config")
    config["pass_config"] = {**(passes if isinstance(passes, Mapping) else {}), "fuse_allreduce_rms": False}
    label = "--compilation-config.pass_config.fuse_allreduce_rms false"
    return label, {"compilation_config": config}, "all-reduce and norm apart: decoding a little slower", 1


def _changes(plan: Plan, model: Model) -> Iterator[Change]:
    r, flags = plan.resolved, plan.deployment.flags
    seqs, tokens = int(r["max_num_seqs"]), int(r["max_num_batched_tokens"])
    length, util = int(r["max_model_len"]), float(r["gpu_memory_utilization"])
    capture = max(r["cudagraph_capture_sizes"], default=0)
    for size in (64, 32, 8):
        if capture > size and "cudagraph_capture_sizes" not in flags:
            yield (
                f"--max-cudagraph-capture-size {size}",
                {"max_cudagraph_capture_size": size},
                "larger batches run without graphs",
                1,
            )
    for n in (256, 64, 16, 8, 1):
        if seqs > n:
            people = f"at most {n} requests at once" if n > 1 else "one request at a time"
            yield f"--max-num-seqs {n}", {"max_num_seqs": n}, people, 2
    for n in (8192, 4096, 2048, 1024):
        if tokens > n >= min(seqs, 1024):
            yield f"--max-num-batched-tokens {n}", {"max_num_batched_tokens": n}, "longer prompts take more steps", 2
    if util < 0.95 and plan.verdict.stage != "startup_free_memory":
        yield "--gpu-memory-utilization 0.95", {"gpu_memory_utilization": 0.95}, "less room for run-time peaks", 1
    lower: tuple[float, ...] = ()
    if plan.verdict.stage == "startup_free_memory":
        lower = (_free_share(plan),)
    elif plan.verdict.stage in ("kv_alloc", "cudagraph_capture", "sampler_warmup"):
        lower = (0.85, 0.8, 0.7)
    for u in lower:
        if 0 < u < util:
            yield f"--gpu-memory-utilization {u:g}", {"gpu_memory_utilization": u}, "less KV cache", 1
    if not flags.get("kv_cache_dtype") or flags["kv_cache_dtype"] == "auto":
        yield "--kv-cache-dtype fp8", {"kv_cache_dtype": "fp8"}, "KV cache in 8 bits", 3
    for n in (131072, 65536, 32768, 16384, 8192, 4096):
        if length > n:
            yield f"--max-model-len {n}", {"max_model_len": n}, f"requests of at most {n:,} tokens", 4
    if capture:
        yield "--enforce-eager", {"enforce_eager": True}, "no CUDA graphs: slower decoding", 5
    if any(FUSED in rank.terms["non_torch"].parts for rank in plan.ranks if "non_torch" in rank.terms):
        yield _unfused(flags)
    if model.towers and not flags.get("language_model_only"):
        yield "--language-model-only", {"language_model_only": True}, "no images, video or audio", 3
    for gib in (2, 4, 8, 16):
        yield f"--cpu-offload-gb {gib}", {"cpu_offload_gb": gib}, f"{gib} GiB read over PCIe in every step", 6
    tp = int(r["tensor_parallel_size"])
    others = int(r["pipeline_parallel_size"]) * int(flags.get("data_parallel_size") or 1)
    if 2 * tp * others <= len(plan.deployment.gpus):
        yield f"--tensor-parallel-size {2 * tp}", {"tensor_parallel_size": 2 * tp}, f"{2 * tp} GPUs", 2
