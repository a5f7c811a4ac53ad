"""what_if(): every flag that moves memory, changed alone and planned; those that do nothing here are named as such.

The effect is on the binding term: the peak of the stage where the plan dies, or the KV cache where it fits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from oomph.errors import OomphError
from oomph.facts.vllm.flags import options_of
from oomph.ir.deployment import Deployment
from oomph.ir.model import Model, State
from oomph.ir.plan import Plan
from oomph.levers import Planner, earlier, gain

Kind = Literal["flag", "environment", "checkpoint", "hardware"]
Effect = Literal["fixes", "helps", "nothing", "worse", "breaks", "refused"]
_ORDER: tuple[Effect, ...] = ("fixes", "helps", "nothing", "worse", "breaks", "refused")
# Less than this is noise of rounding to blocks, not an effect.
_LEAST = 1 << 20


class Try(Struct, frozen=True):
    """One change on top of the command."""

    label: str  # as people write it: "--max-num-seqs 8"
    kind: Kind
    flags: dict[str, Any] = {}
    environment: dict[str, str] = {}
    without: str = ""  # a flag that is left out
    model: str = ""
    times: int = 1  # so many times the GPUs
    cost: str = ""
    advised: bool = False  # one of the fixes that blogs list


class Row(Struct, frozen=True):
    label: str
    kind: Kind
    effect: Effect
    gain_bytes: int  # room gained at the binding point; negative: lost
    tokens: int  # of KV cache with the change; 0 = does not start
    tokens_change: int
    concurrency: float
    why: str  # what it costs, why it does nothing, or where it dies now
    advised: bool = False


class WhatIf(Struct, frozen=True):
    plan: Plan
    binding: str  # the stage, or "KV cache"
    rows: tuple[Row, ...]


def what_if(plan: Plan, model: Model, planner: Planner) -> WhatIf:
    rows = [_row(plan, model, t, planner) for t in tries(plan, model)]
    rows = _merged(rows)
    rows.sort(key=lambda r: (_ORDER.index(r.effect), -r.tokens_change if plan.fits else -r.gain_bytes, -r.tokens))
    binding = "KV cache" if plan.fits else plan.verdict.stage or "other"
    return WhatIf(plan, binding, tuple(rows))


def _merged(rows: list[Row]) -> list[Row]:
    """Settings of one flag that end alike are one row: "--gpu-memory-utilization 0.95, 0.8"."""
    seen: dict[tuple[str, str, int], int] = {}
    out: list[Row] = []
    for row in rows:
        name, _, value = row.label.partition(" ")
        gained = 0 if row.effect in ("nothing", "refused") else row.gain_bytes
        at = seen.setdefault((name, row.effect, gained), len(out))
        if at == len(out) or row.kind == "checkpoint" or not value:
            out.append(row)
        else:
            first = out[at]
            out[at] = replace(first, label=f"{first.label}, {value}", advised=first.advised or row.advised)
    return out


def _row(plan: Plan, model: Model, change: Try, planner: Planner) -> Row:
    def row(effect: Effect, why: str, gained: int = 0, made: Plan | None = None) -> Row:
        kv = made.kv if made is not None and made.fits else None
        tokens = kv.logged_tokens if kv else 0
        moved = tokens - _tokens(plan) if plan.fits else tokens
        users = kv.max_concurrency if kv else 0.0
        return Row(change.label, change.kind, effect, gained, tokens, moved, users, why, change.advised)

    version = plan.deployment.engine.version
    for field in change.flags:
        status = options_of(version).status(field)
        if status.state != "known":
            return row("refused", status.sentence)
        if why := options_of(version).idle(field):
            return row("nothing", why)
    try:
        other = _model(change.model) if change.model else model
        made = planner(_changed(plan.deployment, change), other)
    except OomphError as error:
        return row("refused", error.message)
    if made.verdict.stage == "other":
        return row("refused", made.verdict.message)
    gained = gain(plan, made)
    return row(*_effect(plan, made, gained, change), gained, made)


def _effect(plan: Plan, made: Plan, gained: int, change: Try) -> tuple[Effect, str]:
    if made.fits and not plan.fits:
        return "fixes", change.cost
    if plan.fits and not made.fits:
        return "breaks", f"dies at {made.verdict.stage}"
    if not plan.fits and earlier(made.verdict.stage, plan.verdict.stage):
        return "worse", f"dies earlier, at {made.verdict.stage}"
    if abs(gained) < _LEAST and plan.fits and _tokens(made) != _tokens(plan):
        more = _tokens(made) > _tokens(plan)
        return ("helps" if more else "worse"), change.cost
    if abs(gained) < _LEAST:
        return "nothing", idle_here(plan, change)
    if gained < 0:
        return "worse", change.cost
    if not plan.fits and made.verdict.stage != plan.verdict.stage:
        return "helps", f"{change.cost}; then dies at {made.verdict.stage}"
    return "helps", change.cost


# Where a plan dies before the engine reads a flag, the flag cannot matter.
_LATER = (
    "--gpu-memory-utilization", "--max-model-len", "--max-num-seqs", "--kv-cache-dtype", "--enforce-eager",
    "--max-cudagraph-capture-size", "--no-enable-prefix-caching", "--max-num-batched-tokens",
)  # fmt: skip


def idle_here(plan: Plan, change: Try) -> str:
    name = change.label.split()[0]
    if plan.verdict.stage == "weights_load" and name in _LATER:
        return "not read before the weights are loaded"
    if plan.verdict.stage in ("profile_run", "cudagraph_profile") and name in ("--gpu-memory-utilization",):
        return "the budget is looked at only after profiling"
    if plan.fits and name == "--max-model-len":
        return "the cache takes what is left whatever the length; only the number of requests changes"
    return "does not move the point where it dies" if not plan.fits else "does not move the KV cache here"


def _tokens(plan: Plan) -> int:
    return plan.kv.logged_tokens if plan.kv and plan.fits else 0


def _changed(d: Deployment, change: Try) -> Deployment:
    flags = {k: v for k, v in d.flags.items() if k != change.without}
    return replace(
        d,
        model=change.model or d.model,
        flags={**flags, **change.flags},
        environment={**d.environment, **change.environment},
        gpus=d.gpus * change.times,
    )


def _model(name: str) -> Model:
    from oomph.plan import load

    return load(name)


def tries(plan: Plan, model: Model) -> Iterator[Try]:
    if not plan.resolved or "max_num_seqs" not in plan.resolved:
        return
    yield from _budget(plan)
    yield from _batch(plan)
    yield from _graphs(plan)
    yield from _cache(plan, model)
    yield from _weights(plan, model)
    yield from _machine(plan)
    yield from _checkpoints(model)


def _budget(plan: Plan) -> Iterator[Try]:
    util = float(plan.resolved["gpu_memory_utilization"])
    for value in (0.95, 0.98):
        if value > util:
            yield _flag("gpu_memory_utilization", value, "less room for what is not profiled", advised=value == 0.95)
    for value in (0.8, 0.7):
        if value < util:
            yield _flag("gpu_memory_utilization", value, "a smaller KV cache", advised=True)


def _batch(plan: Plan) -> Iterator[Try]:
    r, flags = plan.resolved, plan.deployment.flags
    seqs, tokens, length = int(r["max_num_seqs"]), int(r["max_num_batched_tokens"]), int(r["max_model_len"])
    for n in dict.fromkeys((length // 2, 4096)):
        if 1024 <= n < length:
            yield _flag("max_model_len", n, f"requests of at most {n:,} tokens", advised=True)
    for n in (64, 8, 1):
        if n < seqs:
            people = f"at most {n} requests at once" if n > 1 else "one request at a time"
            yield _flag("max_num_seqs", n, people, advised=n == 8)
    for n in (4096, 2048, 1024):
        if seqs <= n < tokens and (n >= length or flags.get("enable_chunked_prefill", True)):
            yield _flag("max_num_batched_tokens", n, "longer prompts take more steps", advised=n == 4096)


def _graphs(plan: Plan) -> Iterator[Try]:
    largest = max(plan.resolved["cudagraph_capture_sizes"], default=0)
    if not largest:
        return
    for n in (64, 8):
        if n < largest and "cudagraph_capture_sizes" not in plan.deployment.flags:
            yield _flag("max_cudagraph_capture_size", n, "larger batches run without graphs")
    yield Try("--enforce-eager", "flag", {"enforce_eager": True}, cost="no CUDA graphs: slower decoding")


def _cache(plan: Plan, model: Model) -> Iterator[Try]:
    flags = plan.deployment.flags
    if flags.get("kv_cache_dtype", "auto") == "auto":
        yield _flag("kv_cache_dtype", "fp8", "KV cache in 8 bits")
    if plan.resolved.get("enable_prefix_caching"):
        state = any(isinstance(m, State) for layer in model.layers for m in layer.mixers)
        cost = "no reuse of common beginnings" + (", fewer states kept" if state else "")
        yield Try("--no-enable-prefix-caching", "flag", {"enable_prefix_caching": False}, cost=cost)
    if flags.get("speculative_config"):
        yield Try("without --speculative-config", "flag", without="speculative_config", cost="no drafted tokens")
    yield _flag("swap_space", 4, "", advised=True)


def _weights(plan: Plan, model: Model) -> Iterator[Try]:
    if model.towers and not plan.deployment.flags.get("language_model_only"):
        yield Try("--language-model-only", "flag", {"language_model_only": True}, cost="no images, video or audio")
    for n in (4, 16):
        yield _flag("cpu_offload_gb", n, f"{n} GiB of weights over PCIe in every step")


def _machine(plan: Plan) -> Iterator[Try]:
    conf = plan.deployment.environment.get("PYTORCH_CUDA_ALLOC_CONF", "")
    if "expandable_segments" not in conf:
        name = "PYTORCH_CUDA_ALLOC_CONF"
        yield Try(
            f"{name}=expandable_segments:True",
            "environment",
            environment={name: "expandable_segments:True"},
            cost="segments that grow",
        )
    tp, pp = int(plan.resolved["tensor_parallel_size"]), int(plan.resolved["pipeline_parallel_size"])
    times = 1 if 2 * tp * pp <= len(plan.deployment.gpus) else 2
    gpus = f"{2 * tp * pp} GPUs" + ("" if times == 1 else ", twice what there is")
    kind: Kind = "flag" if times == 1 else "hardware"
    for name, n in (("tensor_parallel_size", 2 * tp), ("pipeline_parallel_size", 2 * pp)):
        advised = name == "tensor_parallel_size"
        yield Try(f"{_spelled(name)} {n}", kind, {name: n}, times=times, cost=gpus, advised=advised)


def _checkpoints(model: Model) -> Iterator[Try]:
    from oomph import catalog

    for name in catalog.variants(model.name):
        if name != model.name:
            yield Try(name, "checkpoint", model=name, without="quantization", cost="another checkpoint", advised=True)


def _flag(field: str, value: Any, cost: str, *, advised: bool = False) -> Try:
    return Try(f"{_spelled(field)} {value}", "flag", {field: value}, cost=cost, advised=advised)


def _spelled(field: str) -> str:
    return "--" + field.replace("_", "-")
