"""Weights of one rank: what the layers create, what stays after loading, and the highest point on the way."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from oomph.engines.vllm.load_peak import Load, Place, Point, play
from oomph.engines.vllm.resolve import Resolved
from oomph.engines.vllm.weights import Build, by_part, created
from oomph.facts.vllm.load import load_rules
from oomph.ir.deployment import Deployment
from oomph.ir.hardware import Device
from oomph.ir.ledger import Basis
from oomph.ir.model import Model


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
    key = (id(model), resolved.version, device.sm, _key(build), _key_flags(deployment))
    found = _CACHE.get(key)
    if found is not None and found[0] is model:
        return found[1]
    places = created(model, build)
    load = _load(places, deployment)
    parts = by_part(places)
    total = sum(parts.values())
    parts["allocator rounding"] = load.loaded - total
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


def passes(model: Model, deployment: Deployment, build: Build, limit: int) -> Point | None:
    """The allocation with which the load exceeds `limit` bytes: where "Tried to allocate" is printed."""
    return _load(created(model, build), deployment, limit).passed


def _load(places: tuple[Any, ...], deployment: Deployment, limit: int = 0) -> Load:
    rules = load_rules(deployment.engine.version)
    env = deployment.environment
    conf = env.get("PYTORCH_CUDA_ALLOC_CONF", "") + env.get("PYTORCH_ALLOC_CONF", "")
    return play(places, rules.max_split, expandable="expandable_segments:True" in conf, limit=limit)


_CACHE: dict[tuple[Any, ...], tuple[Model, WeightsPlan]] = {}


def _key(build: Build) -> tuple[Any, ...]:
    return tuple(id(v) if f == "table" else v for f, v in zip(build.__struct_fields__, _values(build), strict=True))


def _values(build: Build) -> tuple[Any, ...]:
    return tuple(getattr(build, f) for f in build.__struct_fields__)


def _key_flags(deployment: Deployment) -> tuple[Any, ...]:
    return (repr(sorted(deployment.environment.items())), deployment.flags.get("load_format"))
