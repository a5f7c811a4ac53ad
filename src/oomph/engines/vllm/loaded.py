"""Weights of one rank: what the layers create, what stays after loading, and the highest point on the way."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from oomph.engines.vllm.load_peak import Load, Place, Point, Setting, play
from oomph.engines.vllm.lora import slots
from oomph.engines.vllm.resolve import Resolved
from oomph.engines.vllm.weights import Build, by_part, created
from oomph.facts.dtypes import nbytes
from oomph.facts.vllm.load import load_rules, mla_workspace
from oomph.ir.deployment import Deployment
from oomph.ir.hardware import Device
from oomph.ir.ledger import Basis
from oomph.ir.model import Attention, Model

_SMS = 132  # where a GPU's multiprocessors are not known; only Marlin's workspace depends on it (4 bytes each)


class WeightsPlan(Struct, frozen=True):
    created_bytes: int  # parameters and buffers as the layers create them
    loaded_bytes: int  # what the allocator holds after load_model: "Model loading took"
    low: int
    high: int
    basis: Basis
    parts: dict[str, int]  # of loaded_bytes
    peak_bytes: int  # the highest point while building, loading and repacking
    peak_where: Point
    places: tuple[Place, ...]  # build order, with the bytes allocated once each is built


def weights_terms(
    model: Model, resolved: Resolved, deployment: Deployment, build: Build, device: Device
) -> WeightsPlan:
    setting = _setting(model, resolved, deployment, build, device)
    key = (id(model), _key(build), setting)
    found = _CACHE.get(key)
    if found is not None and found[0] is model:
        return found[1]
    places = created(model, build)
    load = play(places, build, setting)
    parts = by_part(places)
    total = sum(parts.values())
    parts |= _extra_parts(load, total, setting)
    plan = WeightsPlan(
        created_bytes=total,
        loaded_bytes=load.loaded,
        low=load.loaded,
        high=load.loaded,
        basis="exact",
        parts=parts,
        peak_bytes=max(load.peak.total, load.loaded),
        peak_where=load.peak,
        places=load.places,
    )
    if len(_CACHE) > 4096:
        _CACHE.clear()
    _CACHE[key] = (model, plan)
    return plan


def passes(
    model: Model, resolved: Resolved, deployment: Deployment, build: Build, device: Device, limit: int
) -> Point | None:
    """The allocation with which the load exceeds `limit` bytes: where "Tried to allocate" is printed."""
    setting = _setting(model, resolved, deployment, build, device, limit)
    return play(created(model, build), build, setting).passed


def _extra_parts(load: Load, total: int, setting: Setting) -> dict[str, int]:
    """Where `loaded` differs from what was created."""
    parts = {"LoRA slots": load.lora, "attention workspace": setting.mla_workspace}
    parts["repacking"] = load.loaded - load.built - load.lora
    parts["allocator rounding"] = load.built - total - setting.mla_workspace
    return {name: size for name, size in parts.items() if size}


def _setting(
    model: Model, resolved: Resolved, deployment: Deployment, build: Build, device: Device, limit: int = 0
) -> Setting:
    flags, env = deployment.flags, deployment.environment
    conf = env.get("PYTORCH_CUDA_ALLOC_CONF", "") + env.get("PYTORCH_ALLOC_CONF", "")
    version, tokens = resolved.version, resolved.max_num_batched_tokens
    mla = any(isinstance(m, Attention) and m.kind == "mla" for layer in model.layers[:4] for m in layer.mixers)
    return Setting(
        version=version,
        rules=load_rules(version),
        sm=device.sm,
        sms=device.sm_count or _SMS,
        dummy=flags.get("load_format") == "dummy",
        moe_backend=str(flags.get("moe_backend") or "auto"),
        expandable="expandable_segments:True" in conf,
        # gpu_model_runner.py:672 (0.21.0): inputs_embeds, the one large buffer that exists before the load
        before=(tokens * model.hidden_size * nbytes(build.dtype, 1),) if tokens else (),
        mla_workspace=mla_workspace(version, device.sm) if mla else 0,
        lora=slots(model, build, flags, version, tokens, resolved.max_num_seqs),
        limit=limit,
    )


_CACHE: dict[tuple[Any, ...], tuple[Model, WeightsPlan]] = {}


def _key(build: Build) -> tuple[Any, ...]:
    return tuple(id(getattr(build, f)) if f == "table" else getattr(build, f) for f in build.__struct_fields__)
