"""Weights of one rank: what the layers create, what stays after loading, and the highest point on the way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from oomph.engines.vllm.allocator import SMALL, request_size
from oomph.engines.vllm.expert_kernel import ExpertSetting
from oomph.engines.vllm.load_peak import Draft, Load, Place, Point, play
from oomph.engines.vllm.load_steps import Setting, is_retied
from oomph.engines.vllm.lora import slots
from oomph.engines.vllm.model_buffers import balancing_buffers, draft_buffers, model_buffers
from oomph.engines.vllm.offload import offload_for
from oomph.engines.vllm.online import online_scheme, quantised
from oomph.engines.vllm.resolve import Resolved
from oomph.engines.vllm.weights import Build, Created, Placed, created
from oomph.facts.dtypes import nbytes
from oomph.facts.vllm.load import FASTSAFETENSORS_FILE
from oomph.ir.deployment import Deployment
from oomph.ir.hardware import Device
from oomph.ir.ledger import Basis
from oomph.ir.model import Attention, Linear, Model, Vocab
from oomph.units import round_up

_UNMEASURED = 0.002  # assumed where repacking was read from the source only
_SMS = 132  # where a GPU's multiprocessors are not known; only Marlin's workspace depends on it (4 bytes each)


class WeightsPlan(Struct, frozen=True):
    created_bytes: int  # parameters and buffers as the layers of the model itself create them, drafters not counted
    loaded_bytes: int  # what the allocator holds after load_model: "Model loading took"
    low: int
    high: int
    basis: Basis
    parts: dict[str, int]  # of loaded_bytes
    peak_bytes: int  # the highest point while building, loading and repacking
    peak_where: Point
    places: tuple[Place, ...]  # build order, with the bytes allocated once each is built
    after_load_bytes: int = 0  # allocated right after the load and not in its figure: the prefetch pool
    host_bytes: int = 0  # weights kept in host memory


def weights_terms(
    model: Model,
    resolved: Resolved,
    deployment: Deployment,
    build: Build,
    device: Device,
    draft: Model | None = None,
) -> WeightsPlan:
    """`draft`: the model that --speculative-config names, where it is another one."""
    setting = _setting(model, resolved, deployment, build, device)
    key = _cache_key(model, resolved, deployment, build, setting, draft)
    found = _CACHE.get(key)
    if found is not None and found[0] is model and found[1] is draft:
        return found[2]
    places, drafts = _places(model, build, resolved, draft)
    load = play(places, build, setting, drafts, balancing_buffers(places, build, setting.rules, deployment.flags))
    # quantised while loading: the layers' own parameters are still the checkpoint's 16-bit ones
    online = online_scheme(model, resolved.quantization)
    registered = places
    if online is not None and online.method != "bitsandbytes":  # kernels of unquantised experts pad, these do not
        registered = created(model, replace(build, experts=ExpertSetting()))
    total = sum(place.nbytes for place in registered)
    parts = _parts(places, build, load, setting)
    # every kernel's repacking is read from its source; Hopper's was also measured, to the byte
    slack = round(_UNMEASURED * load.loaded) if setting.online or (load.changed and setting.sm != 90) else 0
    plan = WeightsPlan(
        created_bytes=total,
        loaded_bytes=load.loaded,
        low=load.loaded - slack,
        high=load.loaded + slack,
        basis="formula" if slack else "exact",
        parts=parts,
        peak_bytes=max(load.peak.total, load.loaded),
        peak_where=load.peak,
        places=load.places,
        after_load_bytes=load.pool if setting.offload.group else 0,
        host_bytes=load.offloaded,
    )
    if len(_CACHE) > 4096:
        _CACHE.clear()
    _CACHE[key] = (model, draft, plan)
    return plan


def passes(
    model: Model,
    resolved: Resolved,
    deployment: Deployment,
    build: Build,
    device: Device,
    limit: int,
    draft: Model | None = None,
) -> Point | None:
    """The allocation with which the load exceeds `limit` bytes: where "Tried to allocate" is printed."""
    setting = _setting(model, resolved, deployment, build, device, limit)
    key = _cache_key(model, resolved, deployment, build, setting, draft)
    found = _PASSED.get(key)
    if found is not None and found[0] is model and found[1] is draft:
        return found[2]
    places, drafts = _places(model, build, resolved, draft)
    after = balancing_buffers(places, build, setting.rules, deployment.flags)
    passed = play(places, build, setting, drafts, after).passed
    if len(_PASSED) > 4096:
        _PASSED.clear()
    _PASSED[key] = (model, draft, passed)
    return passed


def _places(
    model: Model, build: Build, resolved: Resolved, draft: Model | None
) -> tuple[tuple[Placed, ...], tuple[Draft, ...]]:
    """The model's places, and the drafters'. A drafter builds an embedding and a head of its own before it gets the
    model's; across pipeline stages it keeps them."""
    scheme = online_scheme(model, resolved.quantization)
    if scheme is not None and (scheme.method != "fp8" or resolved.facts.loading.online_fp8 == "meta"):
        model = quantised(model, scheme, build.habits)
    places = created(model, build)
    drafts = []
    if resolved.uses_drafts and build.layout.pp_rank == build.layout.pp - 1:
        own = created(model, replace(build, drafts=True))[len(places) :]
        tables = tuple((t.module, t.nbytes) for p in places if p.where == "root" for t in p.tensors if _is_table(t))
        kept = () if build.layout.pp == 1 else tuple(_tables(model, build))
        buffers = draft_buffers(model.drafts, resolved.max_num_batched_tokens)
        drafts.append(Draft((*kept, *(_without_tables(p) for p in own)), build, tables, buffers))
    if draft is not None:
        whole = replace(build, drafts=False, towers=False)
        drafts.append(Draft(tuple(_own_tables(p) for p in created(draft, whole)), whole))
    return places, tuple(drafts)


def _tables(model: Model, build: Build) -> Iterator[Placed]:
    """The embedding that a drafter on a later pipeline stage keeps (llm_base_proposer.py:1268)."""
    first = replace(build, layout=replace(build.layout, pp_rank=0))
    for place in created(model, first):
        if place.where == "root":
            kept = tuple(t for t in place.tensors if t.part == "embed")
            if kept:
                yield Placed("draft", -1, kept)


def _is_table(tensor: Created) -> bool:
    return isinstance(tensor.of, Vocab)


def _without_tables(place: Placed) -> Placed:
    return replace(place, tensors=tuple(t for t in place.tensors if not _is_table(t)))


def _own_tables(place: Placed) -> Placed:
    """EAGLE heads whose checkpoint has no embedding or head use the model's."""
    kept = (t for t in place.tensors if not isinstance(t.of, Vocab) or t.of.stored)
    return replace(place, tensors=tuple(kept))


def _parts(places: tuple[Placed, ...], build: Build, load: Load, setting: Setting) -> dict[str, int]:
    """What was created, by role, and where `loaded` differs from it."""
    parts: dict[str, int] = {}
    retied = 0
    for place in places:
        for tensor in place.tensors:
            if tensor.of is not None and is_retied(tensor.of, build):
                retied += tensor.nbytes
            elif not (isinstance(tensor.of, Linear) and tensor.of.alias):
                parts[tensor.part] = parts.get(tensor.part, 0) + tensor.nbytes
    beside = sum(size for _, size in setting.buffers)
    rounding = load.built - sum(parts.values()) - retied - setting.mla_workspace - beside
    if load.offloaded:
        parts["kept in host memory"] = -load.offloaded
        rounding += load.offloaded
    repacked = load.loaded - load.built - load.lora - load.drafts - load.balancing + retied
    parts |= {
        "batch buffers": beside,
        "draft model": load.drafts,
        "LoRA slots": load.lora,
        "attention workspace": setting.mla_workspace,
    }
    parts |= {"expert balancing": load.balancing, "repacking": repacked, "allocator rounding": rounding}
    return {name: size for name, size in parts.items() if size}


def _setting(
    model: Model, resolved: Resolved, deployment: Deployment, build: Build, device: Device, limit: int = 0
) -> Setting:
    flags, env = deployment.flags, deployment.environment
    conf = env.get("PYTORCH_CUDA_ALLOC_CONF", "") + env.get("PYTORCH_ALLOC_CONF", "")
    facts, tokens = resolved.facts, resolved.max_num_batched_tokens
    scheme = online_scheme(model, resolved.quantization)
    rules = facts.loading
    mla = any(isinstance(m, Attention) and m.kv_lora_rank for layer in model.layers[:4] for m in layer.mixers)
    return Setting(
        repacking=facts.repacking,
        rules=rules,
        max_split=rules.max_split if device.vendor == "nvidia" else 0,  # gpu_worker.py:219 (0.21.0): only CUDA
        sm=device.sm if device.vendor == "nvidia" else 89,  # AMD's kernels take the weights as they are
        # Marlin's workspace is 4 or 16 bytes each, allocated in steps of 512: cards that differ less share one result
        sms=round_up(device.sm_count or _SMS, 32),
        dummy=flags.get("load_format") == "dummy",
        expandable="expandable_segments:True" in conf,
        before=_left_over(tokens * model.hidden_size * nbytes(build.dtype, 1)),
        buffers=model_buffers(model, build, rules, tokens),
        mla_workspace=rules.mla_workspace(device.sm) if mla else 0,
        lora=slots(model, build, flags, facts.lora, tokens, resolved.max_num_seqs),
        offload=offload_for(flags),
        online=rules.online_fp8 if scheme is not None and scheme.method == "fp8" else "",
        file_bytes=min(model.nbytes, FASTSAFETENSORS_FILE) if flags.get("load_format") == "fastsafetensors" else 0,
        limit=limit,
    )


def _left_over(nbytes: int) -> int:
    """gpu_model_runner.py:672 (0.21.0): inputs_embeds, the one large buffer that exists before the load. 0 where it
    leaves nothing of its segment: then its size does not matter."""
    return nbytes if nbytes > SMALL and request_size(nbytes) - nbytes > SMALL else 0


def _cache_key(
    model: Model, resolved: Resolved, deployment: Deployment, build: Build, setting: Setting, draft: Model | None
) -> tuple[Any, ...]:
    flags = deployment.flags
    balancing = repr(flags.get("eplb_config")) if flags.get("enable_eplb") else ""
    return id(model), _key(build), setting, resolved.uses_drafts, resolved.quantization, id(draft), balancing


_CACHE: dict[tuple[Any, ...], tuple[Model, Model | None, WeightsPlan]] = {}
_PASSED: dict[tuple[Any, ...], tuple[Model, Model | None, Point | None]] = {}


def _key(build: Build) -> tuple[Any, ...]:
    return tuple(id(getattr(build, f)) if f == "table" else getattr(build, f) for f in build.__struct_fields__)
