"""Weights of one rank: what the layers create, what stays after loading, and the highest point on the way."""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from oomph.engines.common.allocator import SMALL, request_size
from oomph.engines.common.created import Build, Created, Placed, created
from oomph.engines.common.expert_kernel import ExpertSetting
from oomph.engines.common.ranks import Rank
from oomph.engines.vllm.resolve.plain_flags import Balancing
from oomph.engines.vllm.run import Run
from oomph.engines.vllm.traits import REMEMBERED, Traits
from oomph.engines.vllm.weights.build import build_for
from oomph.engines.vllm.weights.load.forms import Counted, Network
from oomph.engines.vllm.weights.load.peak import Draft, Load, play
from oomph.engines.vllm.weights.load.player import Place, Point
from oomph.engines.vllm.weights.load.steps import Setting, balancing_buffers, draft_buffers, is_retied, model_buffers
from oomph.engines.vllm.weights.lora import slots
from oomph.engines.vllm.weights.online import online_scheme, quantised
from oomph.facts.dtypes import nbytes
from oomph.facts.vllm.running import is_eagle_head
from oomph.facts.vllm.weights import FASTSAFETENSORS_FILE
from oomph.ir import Attention, Basis, Device, Linear, Model, Rope, Vocab
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
    after_load_bytes: int  # allocated right after the load and not in its figure: the prefetch pool
    host_bytes: int  # weights kept in host memory
    unused_bytes: int  # reserved after the load beside what it allocated: rests of segments
    pool_bytes: int  # what a pool that cannot give back holds when the load ends (--enable-sleep-mode)


def weights_terms(run: Run, rank: Rank) -> WeightsPlan:
    return _weights(_load_of(run, rank))


def first_failing_allocation(run: Run, rank: Rank, limit: int) -> Point | None:
    """The allocation with which the load exceeds `limit` bytes: where "Tried to allocate" is printed."""
    return _played(_load_of(run, rank)).first_beyond(limit)


class _Load(Struct, frozen=True):
    """All that a load depends on: the key under which its result is kept."""

    traits: Traits
    draft: Traits | None
    build: Build
    setting: Setting
    quantization: str | None
    uses_drafts: bool
    tokens: int  # of a batch, where the drafters' buffers depend on it
    balancing: Balancing | None


def _load_of(run: Run, rank: Rank) -> _Load:
    settings, build = run.settings, build_for(run, rank)
    if not any(traits.expert_counts for traits in (run.traits, run.draft) if traits is not None):
        build = replace(build, experts=ExpertSetting())
    return _Load(
        traits=run.traits,
        draft=run.draft,
        build=build,
        setting=_setting(run, build, rank.device),
        quantization=settings.quantization,
        uses_drafts=settings.uses_drafts,
        tokens=settings.max_num_batched_tokens if settings.uses_drafts else 0,
        balancing=settings.flags.balancing if run.facts.loading.balancing_buffer else None,
    )


class _Alike:
    """A load by what happens in it: cards whose kernels repack alike share one."""

    __slots__ = ("drafts", "key", "load", "network")

    def __init__(self, load: _Load) -> None:
        self.load = load
        self.network, self.drafts = _networks(load)
        outlines = tuple(
            network.outline(load.setting) for network in (self.network, *(draft.network for draft in self.drafts))
        )
        setting, build = replace(load.setting, sm=0, sms=0), replace(load.build, experts=ExpertSetting())
        if load.balancing is None and setting.online != "held":  # else the habits decide what happens at the end
            build = replace(build, habits=frozenset())
        plain = replace(load, build=build, setting=setting)
        self.key = (plain, outlines, tuple((draft.shared, draft.buffers) for draft in self.drafts))

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Alike) and self.key == other.key


@lru_cache(maxsize=64)
def _played(load: _Load) -> Load:
    return _played_alike(_Alike(load))


@lru_cache(maxsize=64)  # a load of many layers has thousands of records
def _played_alike(alike: _Alike) -> Load:
    load = alike.load
    after = balancing_buffers(alike.network.places, load.build, load.balancing)
    return play(alike.network, load.setting, alike.drafts, after)


@lru_cache(REMEMBERED)
def _weights(of: _Load) -> WeightsPlan:
    build, setting = of.build, of.setting
    kinds, load = _networks(of)[0].counted, _played(of)
    # quantised while loading: the layers' own parameters are still the checkpoint's 16-bit ones
    online = online_scheme(of.traits.model, of.quantization)
    registered = kinds
    if online is not None and online.method != "bitsandbytes":  # kernels of unquantised experts pad, these do not
        experts = build.experts
        stored = ExpertSetting(online_multiple=experts.online_multiple, online_pairs=experts.online_pairs)
        places = created(of.traits.model, replace(build, experts=stored))
        registered = tuple(Counter(place.tensors for place in places).items())
    # every kernel's repacking is read from its source; Hopper's was also measured, to the byte
    slack = round(_UNMEASURED * load.loaded) if setting.online or (load.changed and setting.sm != 90) else 0
    return WeightsPlan(
        created_bytes=sum(times * tensor.nbytes for tensors, times in registered for tensor in tensors),
        loaded_bytes=load.loaded,
        low=load.loaded - slack,
        high=load.loaded + slack,
        basis="formula" if slack else "exact",
        parts=_parts(kinds, build, load, setting),
        peak_bytes=max(load.peak.total, load.loaded),
        peak_where=load.peak,
        places=load.places,
        after_load_bytes=load.pool if setting.offload.group else 0,
        host_bytes=load.offloaded,
        unused_bytes=load.unused,
        pool_bytes=load.loaded + load.cached,
    )


def _networks(load: _Load) -> tuple[Network, tuple[Draft, ...]]:
    """The model's places, and the drafters': the same for every load that differs in its setting only."""
    setting = load.setting
    plain = Setting(setting.repacking, setting.rules, 0, 0, 0, dummy=setting.dummy)
    return _built_networks(replace(load, setting=plain, balancing=None))


@lru_cache(maxsize=64)
def _built_networks(load: _Load) -> tuple[Network, tuple[Draft, ...]]:
    """A drafter builds an embedding and a head of its own before it gets the
    model's; across pipeline stages it keeps its own."""
    model, build = load.traits.model, load.build
    scheme = online_scheme(model, load.quantization)
    if scheme is not None and (scheme.method != "fp8" or load.setting.rules.online_fp8 == "meta"):
        model = quantised(load.traits, scheme, build.habits)
    places = created(model, build)
    drafts = []
    if load.uses_drafts and build.layout.pp_rank == build.layout.pp - 1:
        own = created(model, replace(build, drafts=True))[len(places) :]
        tables = tuple(
            (tensor.module, tensor.nbytes)
            for network_place in places
            if network_place.where == "root"
            for tensor in network_place.tensors
            if _is_table(tensor)
        )
        embeddings = () if build.layout.pp == 1 else tuple(_tables(model, build))
        buffers = draft_buffers(model.drafts, load.tokens)
        network = Network((*embeddings, *(_without_tables(network_place) for network_place in own)), build)
        drafts.append(Draft(network, tables, buffers))
    if load.draft is not None and build.layout.pp_rank == build.layout.pp - 1:
        # both model runners make it on the last pipeline stage only, and whole (gpu/model_runner.py:295, 0.32.0)
        alone = replace(build.layout, pp=1, pp_rank=0)
        whole = replace(build, drafts=False, towers=False, layout=alone)
        # a dummy load reads no file that would have tables of its own (llm_base_proposer.py _maybe_share_embeddings)
        shared = load.setting.dummy and is_eagle_head(load.draft.model.architecture)
        own_tables = _without_tables if shared else _own_tables
        if build.layout.pp > 1:  # the target's embedding is on another stage (llm_base_proposer.py:1268)
            own_tables = _own_embedding
        ropes = {tensor.rope for place in places for tensor in place.tensors if tensor.rope is not None}
        drafter = (own_tables(_without_ropes(place, ropes)) for place in created(load.draft.model, whole))
        drafts.append(Draft(Network(tuple(drafter), whole)))
    return Network(places, build, _tied_head(model, places, build)), tuple(drafts)


def _tied_head(model: Model, places: Sequence[Placed], build: Build) -> int:
    """A head that no tensor of the checkpoint fills is built all the same, and gets the embedding's weight at once."""
    tables = [tensor for place in places if place.where == "root" for tensor in place.tensors if _is_table(tensor)]
    heads = [module for module in model.root.modules if isinstance(module, Vocab) and module.role == "lm_head"]
    is_tied = any(head.tied for head in heads)
    if not (build.separate_tied_head and is_tied and len(tables) == 1):  # two: the head is there, and compared later
        return 0
    return tables[0].nbytes


def _tables(model: Model, build: Build) -> Iterator[Placed]:
    """The embedding that a drafter on a later pipeline stage keeps (llm_base_proposer.py:1268)."""
    first = replace(build, layout=replace(build.layout, pp_rank=0))
    for place in created(model, first):
        if place.where == "root":
            embeddings = tuple(tensor for tensor in place.tensors if tensor.part == "embed")
            if embeddings:
                yield Placed("draft", -1, embeddings)


def _is_table(tensor: Created) -> bool:
    return isinstance(tensor.of, Vocab)


def _without_tables(place: Placed) -> Placed:
    return replace(place, tensors=tuple(tensor for tensor in place.tensors if not _is_table(tensor)))


def _without_ropes(place: Placed, ropes: set[Rope]) -> Placed:
    """rotary_embedding/__init__.py _ROPE_DICT: one table for every module of the process with equal parameters."""
    return replace(place, tensors=tuple(tensor for tensor in place.tensors if tensor.rope not in ropes))


def _own_tables(place: Placed) -> Placed:
    """EAGLE heads whose checkpoint has no embedding or head use the model's."""
    return replace(
        place, tensors=tuple(tensor for tensor in place.tensors if not isinstance(tensor.of, Vocab) or tensor.of.stored)
    )


def _own_embedding(place: Placed) -> Placed:
    """The tables of the checkpoint, and the embedding whether it has one or not."""
    tensors = (
        tensor
        for tensor in place.tensors
        if not isinstance(tensor.of, Vocab) or tensor.of.stored or tensor.of.role == "embed"
    )
    return replace(place, tensors=tuple(tensors))


def _parts(kinds: Counted, build: Build, load: Load, setting: Setting) -> dict[str, int]:
    """What was created, by role, and where `loaded` differs from it."""
    parts: dict[str, int] = {}
    retied = 0
    for tensors, times in kinds:
        for tensor in tensors:
            if tensor.of is not None and is_retied(tensor.of, build):
                retied += times * tensor.nbytes
            elif not (isinstance(tensor.of, Linear) and tensor.of.alias):
                parts[tensor.part] = parts.get(tensor.part, 0) + times * tensor.nbytes
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


def _setting(run: Run, build: Build, device: Device) -> Setting:
    model, settings, env = run.model, run.settings, run.deployment.environment
    conf = env.get("PYTORCH_CUDA_ALLOC_CONF", "") + env.get("PYTORCH_ALLOC_CONF", "")
    facts, flags, tokens = run.facts, settings.flags, settings.max_num_batched_tokens
    scheme = online_scheme(model, settings.quantization)
    rules = facts.loading
    mla = any(isinstance(m, Attention) and m.kv_lora_rank for layer in model.layers[:4] for m in layer.mixers)
    return Setting(
        repacking=facts.repacking,
        rules=rules,
        max_split=rules.max_split if device.vendor == "nvidia" else 0,  # gpu_worker.py:219 (0.21.0): only CUDA
        sm=device.sm if device.vendor == "nvidia" else 89,  # AMD's kernels take the weights as they are
        # Marlin's workspace is 4 or 16 bytes each, allocated in steps of 512: cards that differ less share one result
        sms=round_up(device.sm_count or _SMS, 32),
        dummy=flags.load_format == "dummy",
        # device_allocator/cumem.py switches them off while it fills its pool (0.32.0)
        expandable="expandable_segments:True" in conf and not run.settings.flags.pools_memory,
        pooled=run.settings.flags.pools_memory,
        before=_left_over(tokens * model.hidden_size * nbytes(build.dtype, 1)) if _embeds_input(run) else 0,
        buffers=model_buffers(run.traits, build, rules, tokens),
        mla_workspace=rules.mla_workspace(device.sm) if mla else 0,
        lora=slots(model, build, flags.lora, facts.lora, tokens, settings.max_num_seqs),
        offload=flags.offload,
        online=rules.online_fp8 if scheme is not None and scheme.method == "fp8" else "",
        file_bytes=min(model.nbytes, FASTSAFETENSORS_FILE) if flags.load_format == "fastsafetensors" else 0,
    )


def _embeds_input(run: Run) -> bool:
    """Does the runner make a buffer for a batch of embeddings before the load? V2 makes its own after it."""
    return run.settings.model_runner != "v2"


def _left_over(nbytes: int) -> int:
    """gpu_model_runner.py:672 (0.21.0): inputs_embeds, the one large buffer that exists before the load. 0 where it
    leaves nothing of its segment: then its size does not matter."""
    return nbytes if nbytes > SMALL and request_size(nbytes) - nbytes > SMALL else 0
