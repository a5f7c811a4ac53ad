"""Ollama: a few defaults of its own, then the llama-server inside it."""

import os
import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from oomph.engines.llamacpp.drafter import Extra
from oomph.engines.llamacpp.planner import plan_llamacpp
from oomph.engines.llamacpp.source import PROJECTOR_COMPUTE, gguf_for
from oomph.engines.ollama.store import REGISTRY, Name, find, parse_name
from oomph.errors import CannotPlan, InputError, UnknownModel
from oomph.facts.llamacpp.builds import NEWEST
from oomph.facts.llamacpp.overhead import unaccounted
from oomph.facts.llamacpp.quantize import MIXTURES
from oomph.facts.ollama import defaults
from oomph.facts.ollama.library import LATEST, MODELS
from oomph.ir import Attention, Deployment, Device, Engine, Model, Plan
from oomph.sources import boundary
from oomph.units import MIB


class Chosen(Struct, frozen=True):
    """What Ollama decides before it starts llama-server."""

    num_ctx: int
    parallel: int
    batch: int
    gpus: tuple[int, ...]
    predicted: int
    notes: tuple[str, ...]


def plan_ollama(deployment: Deployment, model: Model | None = None) -> Plan:
    version = re.match(r"v?(\d+)\.(\d+)", deployment.engine.version)
    if version and (int(version[1]), int(version[2])) < defaults.SINCE:
        raise CannotPlan(
            f"Ollama {deployment.engine.version} places layers by its own estimator: 0.30 and later are planned",
            hint="oomph explain reads the logs of older releases too",
        )
    params: dict[str, Any] = {}
    projector = 0
    if model is None:
        model, projector, params = resolve_name(deployment.model, deployment.environment)
    flags = {**_from_params(params), **deployment.flags}
    layout = choose(model, flags, deployment.gpus, vision=projector > 0)
    gpus = tuple(deployment.gpus[i] for i in layout.gpus)
    extras, target = _projector(projector, gpus)
    inner: dict[str, Any] = {
        "program": "server",
        "ctx_size": layout.num_ctx * layout.parallel,
        "parallel": layout.parallel,
        "batch_size": layout.batch,
        "ubatch_size": layout.batch,
        "flash_attn": flags.get("flash_attn", "auto"),
        "fit_target": [target],
    }
    if "num_gpu" in flags:
        inner["n_gpu_layers"] = flags["num_gpu"]
    if flags.get("kv_cache_type"):
        inner |= {"cache_type_k": flags["kv_cache_type"], "cache_type_v": flags["kv_cache_type"]}
    engine = Engine("llamacpp", f"b{NEWEST}", "inside Ollama")
    inside = plan_llamacpp(model, replace(deployment, engine=engine, flags=inner, gpus=gpus, notes=()), extras)
    resolved = {
        **inside.resolved, "num_ctx": layout.num_ctx, "num_parallel": layout.parallel, "num_batch": layout.batch,
        "gpus_used": list(layout.gpus), "predicted_bytes": layout.predicted, "llama_server": inner,
    }  # fmt: skip
    warnings = (*deployment.notes, *layout.notes, *inside.warnings)
    return replace(
        inside,
        deployment=replace(deployment, gpus=deployment.gpus),
        model=model.name,
        resolved=resolved,
        warnings=tuple(dict.fromkeys(warnings)),
    )


def _from_params(params: dict[str, Any]) -> dict[str, Any]:
    """The model's own PARAMETER lines."""
    names = ("num_ctx", "num_gpu", "num_batch")
    return {k: v for k in names if isinstance(v := params.get(k), int) and not isinstance(v, bool) and 0 <= v < 1 << 31}


def choose(model: Model, flags: dict[str, Any], gpus: Sequence[Device], *, vision: bool) -> Chosen:
    notes: list[str] = []
    overhead = flags.get("gpu_overhead", 0)
    free = [max(g.total_bytes - g.used_bytes - unaccounted(g.sm, g.vendor)[1] - overhead, 0) for g in gpus]
    tier = defaults.default_context(sum(max(g.total_bytes - overhead, 0) for g in gpus))
    length = flags.get("num_ctx")
    context = length if length and length > 0 else tier
    if length is None:
        notes.append(
            f"num_ctx is Ollama's default for this much GPU memory: {tier:,} (OLLAMA_CONTEXT_LENGTH changes it)"
        )
    context = max(context, defaults.MIN_CONTEXT_VISION if vision else defaults.MIN_CONTEXT)
    if model.max_position and context > model.max_position:
        notes.append(f"num_ctx {context:,} is more than the model was trained for: {model.max_position:,}")
        context = model.max_position
    parallel = min(max(flags.get("num_parallel", 1), 1), 256)  # LLAMA_MAX_SEQ
    alone = model.model_type in defaults.NO_PARALLEL or model.model_type in defaults.NO_PARALLEL_HF or model.pooling
    if parallel > 1 and alone:
        notes.append("model architecture does not currently support parallel requests: OLLAMA_NUM_PARALLEL is 1")
        parallel = 1
    predicted = prediction(model, context * parallel)
    used = tuple(range(len(gpus)))
    if len(gpus) > 1 and not flags.get("sched_spread"):
        best = max(used, key=lambda i: free[i])
        if predicted <= free[best] * defaults.SHARE:
            used = (best,)
            notes.append(f"one GPU is used, GPU {best}: Ollama's prediction fits it (OLLAMA_SCHED_SPREAD=1 uses all)")
    room = sum(free[i] for i in used)
    batch = flags.get("num_batch") or _batch(context * parallel, predicted, room)
    return Chosen(context, parallel, min(batch, context * parallel), used, predicted, tuple(notes))


def prediction(model: Model, tokens: int) -> int:
    """The scheduler's: file size and an F16 cache of equal layers. It knows no windows, no MLA, no cache types."""
    heads = max(model.num_heads, 1)
    attentions = [m for layer in model.layers for m in layer.mixers if isinstance(m, Attention)]
    kv = min((a.num_kv_heads for a in attentions), default=0)
    return model.nbytes + 2 * len(model.layers) * kv * (model.hidden_size // heads) * tokens * 2


def _batch(tokens: int, predicted: int, free: int) -> int:
    batch = defaults.default_batch(tokens)
    while batch in defaults.BATCH_ROOM:
        share, surcharge = defaults.BATCH_ROOM[batch]
        if predicted <= free * share and predicted + surcharge <= free * defaults.SHARE:
            return batch
        batch //= 2
    return batch


def _projector(size: int, gpus: Sequence[Device]) -> tuple[list[Extra], int]:
    """The projector goes to the first GPU unless it is tight; --fit then leaves room for it (MiB)."""
    if not size or not gpus:
        return [], 1024
    free = min(g.total_bytes - g.used_bytes - unaccounted(g.sm, g.vendor)[1] for g in gpus)
    if size + defaults.MARGIN > free:
        return [], 1024
    _, usual, high = PROJECTOR_COMPUTE
    return [Extra("projector", 0, size, 0, usual, high)], -(-defaults.MARGIN // MIB)


def resolve_name(text: str, environment: dict[str, str]) -> tuple[Model, int, dict[str, Any]]:
    """(model, bytes of its projector, its PARAMETERs): the local store, else the catalogue, else the hub for hf.co/."""
    if text.endswith(".gguf") and boundary.exists(os.path.expanduser(text)):
        return (*gguf_for(text), {})
    name = parse_name(text)
    stored = find(name, environment)
    if stored is not None:
        from oomph.sources.load import load_model

        model = _blob(stored.model, text)
        projector = load_model(stored.projector).nbytes if stored.projector else 0
        return model, projector, stored.params
    if name.host in ("hf.co", "huggingface.co"):
        return (*gguf_for(f"{name.namespace}/{name.model}:{name.tag if name.tag != 'latest' else 'Q4_K_M'}"), {})
    return (*_from_catalogue(name, text), {})


def _blob(path: str, text: str) -> Model:
    from oomph.sources.gguf import header as gguf
    from oomph.sources.gguf.model import gguf_model

    return gguf_model(text, gguf.read(path), source="Ollama's store")


def _hint(text: str) -> str:
    """A repository of the hub has another address, and needs files that Ollama reads."""
    from oomph import catalog
    from oomph.engines.llamacpp.source import repository_of_files

    meant = next((one for one in catalog.ids() if one.lower() == text.partition(":")[0].lower()), "")
    files = repository_of_files(meant)
    return f"ollama run hf.co/{files}" if files else f"ollama pull {text[:60]}"


def _from_catalogue(name: Name, text: str) -> tuple[Model, int]:
    """'qwen3:30b-a3b-q8_0' -> Qwen3-30B-A3B at Q8_0; Ollama's library is Q4_K_M unless a tag says otherwise."""
    quant, size = "Q4_K_M", name.tag if name.tag != "latest" else ""
    for mixture in sorted(MIXTURES, key=len, reverse=True):
        if size.lower().endswith(mixture.lower()):
            quant, size = mixture, size[: -len(mixture)].rstrip("-_")
            break
    if name.model.startswith("gpt-oss"):
        quant = "MXFP4"
    from oomph import catalog

    if name.host != REGISTRY or name.namespace != "library":
        raise UnknownModel(f"{text[:120]!r} is not in Ollama's store on this machine", hint=_hint(text))
    size = size or LATEST.get(name.model, "")
    wanted = MODELS.get(f"{name.model}:{size}") or f"{name.model} {size.replace('-', ' ')}".strip()
    try:
        entry = catalog.find(wanted)
    except InputError as several:
        raise UnknownModel(f"{text[:120]!r}: {several.message}", hint=several.hint) from None
    if entry is None:
        raise UnknownModel(
            f"{text[:120]!r} is neither in Ollama's store on this machine nor known by name",
            hint=f"ollama pull {text[:60]}",
        )
    model, projector = gguf_for(f"{entry.id}:{quant}")
    note = f"{text[:120]} is not in Ollama's store on this machine: taken as {entry.id} at {quant}"
    family, dash, size = name.model.rpartition("-")
    if dash and name.model not in LATEST and family in LATEST:  # qwen3-8b
        note += f"; Ollama's library calls it {family}:{size}, and pulls nothing by the other name"
    return replace(model, warnings=(*model.warnings, note)), projector
