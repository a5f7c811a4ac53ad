"""Model and deployment -> Plan, for llama.cpp: resolve, fit, place, and walk the three allocations of a start."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from msgspec import Struct

from oomph.engines.llamacpp.cache import refusal
from oomph.engines.llamacpp.drafter import Drafter, Extra
from oomph.engines.llamacpp.fit import Fitted, fit
from oomph.engines.llamacpp.measure import HOST, Measured, Subject, Use, measure, subject
from oomph.engines.llamacpp.settings import Settings, device_numbers, resolve, with_context
from oomph.engines.llamacpp.speculation import is_draft_idle
from oomph.errors import CannotPlan, CommandError
from oomph.facts.llamacpp.backends import VULKAN, Backend, backend_of
from oomph.facts.llamacpp.builds import (
    LARGE_ALLOCATIONS,
    LOAD_MODE_SINCE,
    SPEC_TYPE_NEEDED_SINCE,
    SYCL_LARGE_BUFFERS_SINCE,
    parse_build,
    unknown_release,
)
from oomph.facts.llamacpp.flag_effects import EFFECTS
from oomph.facts.llamacpp.overhead import held_at_fit, scores_copy, unaccounted
from oomph.ir import (
    STAGES,
    Attention,
    Basis,
    Deployment,
    Device,
    KvGroup,
    KvSummary,
    Model,
    Plan,
    RankPlan,
    Stage,
    State,
    Term,
    Verdict,
)
from oomph.ir.gate import Gate, Slack, judge, quadrature, spread, worst
from oomph.text.tables import all_that_hold
from oomph.units import MIB, gib

CACHE_RAM = 8192 * MIB  # --cache-ram: prompts that are kept in host memory


def plan_llamacpp(
    model: Model, deployment: Deployment, projectors: Sequence[Extra], drafters: Sequence[Drafter] = ()
) -> Plan:
    flags = deployment.flags
    on_cpu = deployment.image_vendor == "cpu" and not deployment.own_build
    gpus = _visible(deployment.gpus, "none" if on_cpu else flags.get("device"))
    planned = subject(model)
    settings = resolve(
        flags, model.max_position, parse_build(deployment.engine.version),
        program=flags.get("program", "server"), flash=bool(model.param("flash_attention", 1)),
        pooling=model.param("pooling_type", ""),  # type: ignore[arg-type]
    )  # fmt: skip
    if settings.split_mode == "tensor":
        raise CannotPlan("--split-mode tensor cannot be planned yet: layer, row and none can")
    newer = unknown_release(deployment.engine.version)
    notes = [*deployment.notes, *([newer] if newer else []), *_flag_notes(flags, settings.build), *model.warnings]
    if on_cpu and deployment.gpus:
        notes.append("the image is built for the CPU and uses no GPU: server-cuda, -rocm, -vulkan and -intel do")
    if no := refusal(model.layers, settings):
        return Plan(deployment, model.name, Verdict(False, "other", 0, no.message), warnings=tuple(notes))
    cublas = _multiplies_plainly(planned, settings)
    contexts = [unaccounted(g.sm, g.vendor, cublas=cublas) for g in gpus]
    free = [max(g.total_bytes - g.used_bytes - held_at_fit(g.sm, g.vendor), 0) for g in gpus]
    backend = backend_of(gpus[0].vendor if gpus else "", str(flags.get("device") or ""), deployment.environment)
    fitted = fit(
        planned, settings, free, extra=_beside(planned, settings, free, projectors, drafters, backend), backend=backend
    )
    unnamed = any(gpu.is_capability_assumed for gpu in gpus) and not flags.get("device")
    measured = measure(planned, fitted.settings, free, backend=backend, perhaps=VULKAN if unnamed else None)
    if text := _stranded(fitted.settings, measured):
        return Plan(deployment, model.name, Verdict(False, "other", 0, text), warnings=tuple(notes))
    room = free_beside(measured, free)
    extras = [*projectors]
    for drafter in drafters:
        if text := drafter.refusal(fitted.settings):
            return Plan(deployment, model.name, Verdict(False, "other", 0, text), warnings=tuple(notes))
        extras += drafter.extras(fitted.settings, measured.placement, room, backend)
    limits = _Limits(_full_prompt(model, fitted.settings), _large_buffers(deployment, settings.build))
    if fitted.settings.quantises_values and not measured.flash:
        text = "quantized V cache was requested, but this requires Flash Attention"
        return Plan(deployment, model.name, Verdict(False, "other", 0, text), warnings=tuple(notes))
    ranks = tuple(
        _rank(i, gpu, measured.devices[i], contexts[i], [e for e in extras if e.device == i], limits)
        for i, gpu in enumerate(gpus)
    )
    return Plan(
        deployment,
        model=model.name,
        verdict=worst([rank.verdict for rank in ranks], STAGES) if ranks else Verdict(True),
        ranks=ranks,
        kv=_kv(measured, fitted.settings),
        resolved=_resolved(fitted, measured, planned, extras),
        assumptions=_assumptions(model),
        warnings=(*notes, *_notes(fitted, measured, planned)),
    )


def _stranded(settings: Settings, measured: Measured) -> str:
    """-sm none knows of the main GPU alone: what -ot puts on another can be computed nowhere (ggml-backend.cpp)."""
    if settings.split_mode != "none":
        return ""
    others = [d for d, roles in measured.placement.weights.items() if d not in (settings.main_gpu, HOST) and roles]
    where = f"on GPU {others[0]}, which --split-mode none leaves out" if others else ""
    return f"pre-allocated tensor in a buffer {where}: it cannot run the operation (ggml aborts)" if where else ""


def free_beside(measured: Measured, free: Sequence[int]) -> list[int]:
    """What is free on each GPU when a draft model is loaded: by it the layers are split."""
    return [max(size - use.own, 0) for size, use in zip(free, measured.devices, strict=True)]


def _beside(
    planned: Subject, settings: Settings, free: Sequence[int], projectors: Sequence[Extra],
    drafters: Sequence[Drafter], backend: Backend,
) -> Callable[[int], Sequence[int]]:  # fmt: skip
    """What --fit counts on each GPU beside the model: a drafter as it would be on empty GPUs (add_extra_memory)."""
    placed = measure(planned, settings, free, backend=backend, fitting=True).placement if drafters else None

    def beside(context: int) -> Sequence[int]:
        extras = [*projectors]
        for drafter in drafters:
            assert placed is not None
            extras += drafter.extras(with_context(settings, context), placed, free, backend, fitting=True)
        return [sum(e.weights + e.kv + e.state + e.compute for e in extras if e.device == i) for i in range(len(free))]

    return lru_cache(beside)


class _Limits(Struct, frozen=True):
    """What decides beside the three allocations."""

    full_prompt: int  # bytes that a prompt takes of the scratch pool once the context is full
    large_buffers: bool | None  # whether an Intel card gets buffers above its limit for one; None: not known


def _multiplies_plainly(planned: Subject, settings: Settings) -> bool:
    """cuBLAS is asked: a layer has a matrix in 16 or 32 bits, attention is not flash, or there are Mamba's scans."""
    plain = any(
        tensor.dtype in ("F32", "F16", "BF16") and len(tensor.shape) > 1 and min(tensor.shape[:2]) > 4
        for tensor in planned.tensors
        if tensor.name.startswith("blk.")
    )
    scans = any(isinstance(m, State) and m.kind == "mamba2" for layer in planned.model.layers for m in layer.mixers)
    return plain or scans or not settings.flash_attn


def _full_prompt(model: Model, settings: Settings) -> int:
    if settings.flash_attn:
        return 0
    heads = max((m.num_heads for layer in model.layers for m in layer.mixers if isinstance(m, Attention)), default=0)
    cells = settings.n_ctx if settings.kv_unified else settings.n_ctx_seq
    return scores_copy(min(settings.n_ubatch, settings.n_ctx), cells, heads)


def _large_buffers(deployment: Deployment, build: int) -> bool | None:
    if build < SYCL_LARGE_BUFFERS_SINCE:
        return False
    return True if deployment.environment.get(LARGE_ALLOCATIONS) == "1" else None


def _flag_notes(flags: dict[str, Any], build: int) -> list[str]:
    cached = flags.get("moe_cache", 0)
    notes = all_that_hold(
        (
            build >= LOAD_MODE_SINCE and ("mmap" in flags or "mlock" in flags),
            f"--mmap, --no-mmap and --mlock are refused since b{LOAD_MODE_SINCE}: --load-mode mmap, none or mlock; an "
            "older build takes them",
        ),
        (
            is_draft_idle(flags, build),
            f"since b{SPEC_TYPE_NEEDED_SINCE} -md alone drafts nothing: the draft model is loaded and given back; "
            "--spec-type draft-simple uses it",
        ),
        (cached > 0, f"--moe-cache-mib: up to {cached:,} MiB of experts more on the GPUs, not counted here"),
    )
    return [*notes, *EFFECTS.sentences(flags, {field: "--" + field.replace("_", "-") for field in flags})]


def _visible(gpus: tuple[Device, ...], device: Any) -> tuple[Device, ...]:
    if not device:
        return gpus
    if device == "none":
        return ()
    numbers = device_numbers(device)
    if not numbers or any(n >= len(gpus) for n in numbers):
        raise CommandError(f"--device {device[:60]!r}: there are {len(gpus)} GPUs, named CUDA0 and so on")
    return tuple(gpus[n] for n in numbers)


def _rank(
    index: int, gpu: Device, use: Use, context: tuple[int, int, int], extras: Sequence[Extra], limits: _Limits
) -> RankPlan:
    terms = {
        "context": Term("context", context[1], context[0], context[2], "measured", why="CUDA context, cuBLAS, pool"),
        "weights": _term("weights", use.weights + sum(e.weights for e in extras), "exact",
                         {**use.parts, **{e.name: e.weights for e in extras}}, "tensors of the layers on this GPU"),
        "kv_cache": _term("kv_cache", use.kv + sum(e.kv for e in extras), "exact",
                          {**{k: n for k, n in use.kv_parts.items() if k != "state"},
                           **{e.name: e.kv for e in extras if e.kv}}, "cells x key and value widths"),
        "state": _term("state", use.state + sum(e.state for e in extras), "exact", {},
                       "recurrent layers, one state a sequence"),
        "compute": Term(
            "compute",
            use.compute.nbytes + sum(e.compute for e in extras),
            use.compute.low,
            max(use.compute.high, use.compute.nbytes) + sum(max(e.compute_high, e.compute) for e in extras),
            "formula", {**use.compute.parts, **{e.name: e.compute for e in extras if e.compute}}, why=use.compute.why,
        ),
    }  # fmt: skip
    base = gpu.used_bytes + context[1]
    weights, cache = terms["weights"].bytes, terms["kv_cache"].bytes + terms["state"].bytes
    compute = terms["compute"]
    loaded, cached = base + weights, base + weights + cache
    end = cached + compute.bytes
    slacks = spread(terms["context"], compute)
    down, up = quadrature(x.up for x in slacks), quadrature(x.down for x in slacks)
    stages = (
        Stage("startup_free_memory", base, base),
        Stage("weights_load", loaded, loaded, note="model buffer"),
        Stage("kv_alloc", end, end, end - down, end + up, note="KV cache, then compute buffer"),
    )
    verdict = judge(_gates(index, gpu, use, loaded, cached, terms, limits))
    return RankPlan(
        index,
        gpu=gpu.name,
        total_bytes=gpu.total_bytes,
        used_by_others_bytes=gpu.used_bytes,
        terms=terms,
        stages=stages,
        verdict=verdict,
        created_bytes=weights,
    )


def _gates(
    index: int, gpu: Device, use: Use, loaded: int, cached: int, terms: dict[str, Term], limits: _Limits
) -> list[Gate]:
    """Three allocations, one after the other, each with llama.cpp's words where it fails; then a long prompt."""
    total, context, compute = gpu.total_bytes, terms["context"], terms["compute"]
    device = f"{_BACKENDS[gpu.vendor]}{index}"
    failed = f"failed to allocate {device} buffer of size"
    weights_text = f"alloc_tensor_range: {failed} {use.weights}; unable to allocate {device} buffer"
    cache_text = f"alloc_tensor_range: {failed} {use.kv or use.state}; failed to allocate buffer for kv cache"
    compute_text = f"ggml_gallocr_reserve_n_impl: {failed} {use.compute.nbytes}"
    compute_text += "; graph_reserve: failed to allocate compute buffers"
    if gpu.vendor == "apple":  # nothing is refused until the first command buffer
        weights_text = cache_text = compute_text = METAL_FAILED
    slacks = spread(gpu.used_before, context)
    gates = [
        Gate("weights_load", total - loaded, weights_text, slacks, index),
        Gate("kv_alloc", total - cached, cache_text, slacks, index),
        Gate("kv_alloc", total - cached - compute.bytes, compute_text, (*slacks, *spread(compute)), index),
    ]
    if gpu.largest_allocation and use.weights > gpu.largest_allocation and not limits.large_buffers:
        gates.insert(0, _single_allocation(gpu, use.weights, index, sure=limits.large_buffers is False))
    if limits.full_prompt and use.kv and gpu.vendor in ("nvidia", "amd"):
        needs = f"a prompt that fills the context needs {gib(limits.full_prompt)} more without flash attention (-fa on)"
        room = total - cached - compute.bytes - limits.full_prompt
        text = f"ggml_backend_cuda_buffer_type_alloc_buffer: allocating {limits.full_prompt / MIB:.2f} MiB failed"
        gates.append(Gate("runtime_request", room, text, (*slacks, *spread(compute)), index, needs))
    return gates


_BACKENDS = {"nvidia": "CUDA", "amd": "ROCm", "intel": "SYCL", "apple": "Metal"}
METAL_FAILED = "error: Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)"


def _single_allocation(gpu: Device, size: int, index: int, *, sure: bool) -> Gate:
    """One buffer above the driver's limit fails on an empty card; later builds may be told to allow it, or allocate in
    parts."""
    short = size - gpu.largest_allocation
    text = f"can't allocate {size} Bytes of memory on device: one allocation may have {gpu.largest_allocation} bytes"
    return Gate("weights_load", -short, text, () if sure else (Slack("largest allocation", 0, 2 * short),), index)


def _term(name: str, n: int, basis: Basis, parts: dict[str, int], why: str) -> Term:
    return Term(name, n, n, n, basis, parts, why=why)


def _kv(measured: Measured, settings: Settings) -> KvSummary:
    groups: dict[tuple[str, int], list[int]] = {}
    for cache in measured.caches:
        row = groups.setdefault((cache.kind, cache.cells), [0, 0])
        row[0] += 1
        row[1] += cache.nbytes
    total = sum(cache.nbytes for cache in measured.caches)
    kinds = {"state": "mamba"}
    summaries = tuple(
        KvGroup(
            kinds.get(kind, kind),
            layers,
            1,
            nbytes // max(cells * (1 if kind == "state" else settings.n_stream), 1),
            cells,
        )
        for (kind, cells), (layers, nbytes) in groups.items()
    )
    full = 1.0 if settings.kv_unified else float(settings.n_seq_max)  # requests of the slot's whole length at once
    return KvSummary(
        total,
        settings.n_ctx,
        total // max(settings.n_ctx, 1),
        1,
        settings.n_ctx,
        full,
        groups=summaries,
        need_bytes=total // settings.n_stream,
        longest_request=settings.n_ctx_seq,
    )


def _resolved(fitted: Fitted, measured: Measured, subject: Subject, extras: Sequence[Extra]) -> dict[str, Any]:
    settings = fitted.settings
    host = measured.host
    return {
        "max_model_len": settings.n_ctx_seq, "n_ctx": settings.n_ctx, "n_ctx_seq": settings.n_ctx_seq,
        "n_seq_max": settings.n_seq_max, "kv_unified": settings.kv_unified, "n_batch": settings.n_batch,
        "n_ubatch": settings.n_ubatch, "flash_attn": measured.flash,
        "type_k": settings.type_k, "type_v": settings.type_v, "swa_full": settings.swa_full,
        "offloaded": measured.placement.offloaded, "layers": subject.units,
        "layers_per_gpu": [measured.placement.units.count(i) for i in range(len(measured.devices))],
        "overrides": [f"{p}={t}" for p, t in settings.overrides],
        "host": {
            "weights": host.weights + sum(e.host_weights for e in extras),
            "kv_cache": host.kv + sum(e.host_kv for e in extras),
            "state": host.state + sum(e.host_state for e in extras),
            "compute": host.compute.nbytes + sum(e.host_compute for e in extras),
            "output": measured.output + sum(e.output for e in extras), "prompt_cache_limit": CACHE_RAM,
            "parts": host.parts, "repacked": measured.repacked,
        },
        "fit": {"on": settings.fit, "aborted": fitted.aborted, "context_from": fitted.context_from},
        "beside": list(dict.fromkeys(e.name for e in extras if e.weights or e.kv or e.state or e.compute)),
    }  # fmt: skip


def _assumptions(model: Model) -> tuple[str, ...]:
    if model.source == "llama-quantize's rules":
        return ("the GGUF's size follows from llama-quantize's rules: a repository's own mixture may differ",)
    return ()


def _notes(fitted: Fitted, measured: Measured, subject: Subject) -> list[str]:
    settings, count = fitted.settings, subject.units
    slow = count - measured.placement.offloaded if measured.devices else 0
    experts = measured.host.parts.get("experts", 0)
    return all_that_hold(
        (
            fitted.context_from,
            f"--fit lowers the context from {fitted.context_from:,} to {settings.n_ctx:,} tokens; -c N turns that off",
        ),
        (fitted.aborted, f"--fit moves nothing to the CPU: {fitted.aborted}"),
        (
            not fitted.aborted and slow > 0 and settings.n_gpu_layers >= 0,
            f"{slow} of {count} layers run on the CPU, with {gib(measured.host.weights)} of weights: slow",
        ),
        (
            measured.devices and experts and not slow,
            f"{gib(experts)} of experts stay in host memory: each token reads its share over the CPU",
        ),
    )
