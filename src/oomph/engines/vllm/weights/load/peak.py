"""A load played through PyTorch's allocator, allocation by allocation: where it stands, its highest point, and where
it passes a given number of bytes."""

from collections.abc import Sequence

from msgspec import Struct

from oomph.engines.vllm.weights.load.forms import Network
from oomph.engines.vllm.weights.load.player import Entry, Place, Point, first_beyond
from oomph.engines.vllm.weights.load.repack import Repacker
from oomph.engines.vllm.weights.load.steps import Buffers, Setting


class Load(Struct, frozen=True):
    built: int  # allocated when every layer is built
    loaded: int  # when the load is over
    peak: Point
    places: tuple[Place, ...]
    lora: int = 0
    drafts: int = 0
    balancing: int = 0
    offloaded: int = 0  # parameters that went to host memory
    pool: int = 0  # room that the GPU keeps for them, allocated after the load
    changed: bool = False  # some module was repacked
    cached: int = 0  # freed on the way and not used again: a pool that cannot give back still has it
    unused: int = 0  # of it, in segments that other tensors keep: not even an emptied cache gives it back
    records: tuple[Entry, ...] = ()  # each allocation that took the load higher than it had been, in order

    def first_beyond(self, limit: int) -> Point | None:
        """The first allocation that takes the load beyond `limit` bytes."""
        return first_beyond(self.records, limit)


class Draft(Struct, frozen=True):
    """A drafter, built and loaded after the model. `shared`: built too, then replaced by the model's own."""

    network: Network
    shared: tuple[tuple[str, int], ...] = ()
    buffers: Buffers = ()


def play(network: Network, setting: Setting, drafts: Sequence[Draft] = (), after: Buffers = ()) -> Load:
    """gpu_model_runner.py:4850 (0.21.0): the model, its LoRA slots, the drafters, then what balances the experts."""
    player = _Loader(setting)
    if setting.before:
        player.memory.leave(setting.before)
    for name, size in setting.buffers:
        player.new(name, size)
    done = player.load(network, "building", "repacking")
    repacked = player.held
    player.doing, player.where, player.layer = "LoRA slots", "", -1
    for name, size in setting.lora:
        player.new(name, size)
    lora = player.held
    for draft in drafts:
        player.doing = "draft model"
        for name, size in draft.buffers:
            player.new(name, size)
        shared = [player.new(name, size) for name, size in draft.shared]
        done += player.load(draft.network, "draft model", "draft model")
        for block in shared:  # llm_base_proposer.py _maybe_share_embeddings
            player.memory.free(block)
    drafted = player.held
    player.doing, player.where, player.layer = "expert balancing", "", -1
    for name, size in after:
        player.new(name, size)
    cached = player.memory.cached
    player.memory.empty_cache()
    return Load(
        built=player.built,
        loaded=player.held,
        peak=player.peak,
        places=done,
        lora=lora - repacked,
        drafts=drafted - lora,
        balancing=player.held - drafted,
        offloaded=player.gone,
        changed=player.is_changed,
        pool=setting.offload.step * sum(player.pool.values()),
        cached=cached,
        unused=player.memory.cached,
        records=tuple(player.records),
    )


class _Loader(Repacker):
    def load(self, network: Network, building: str, repacking: str) -> tuple[Place, ...]:
        self.doing, self.places = building, []
        forms = network.forms(self.setting)
        done = tuple(self.place(place, forms[kind]) for place, kind in zip(network.places, network.kinds, strict=True))
        if network.tied_head:
            self.where, self.layer = "root", -1
            self.run("lm_head", [("weight", network.tied_head), ("weight", 0)], {})
        if self.workspace:  # releases whose latent attention has no tensors of its own
            self.new("attention workspace", self.workspace)
            self.workspace = 0
        self.built = self.built or self.held
        self.doing = "loading"
        if self.setting.dummy:
            self.dummy()
        if self.setting.file_bytes:
            self.run("fastsafetensors", [("file", self.setting.file_bytes), ("file", 0)], {})
        self.doing = repacking
        self.repack(network)
        return done
