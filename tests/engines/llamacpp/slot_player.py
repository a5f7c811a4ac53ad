"""The slots of a real llama-server, turn by turn, beside ours (rows of tools/llamacpp_lab/server.py)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import toys
from msgspec.structs import replace

from oomph.answers.bare_plan import run
from oomph.commands import parse_command
from oomph.engines.llamacpp.scheduler.build import slots_of
from oomph.engines.llamacpp.scheduler.loop import Piece, SlotLoop
from oomph.engines.llamacpp.scheduler.slots import Live, Slot, Slots
from oomph.simulate.config import Config, Group, Job, Record
from oomph.simulate.timing import unit
from oomph.sources.gguf.header import read
from oomph.sources.gguf.model import gguf_model

HIDDEN, HEADS, KV_HEADS, HEAD, MLP, WORDS = 64, 4, 2, 16, 128, 8192


def write_tiny(path: Path, window: int) -> None:
    """The lab's model: two layers, with a window in the first of them or without."""
    arch = "gemma2" if window else "llama"
    numbers = {
        "context_length": 8192, "embedding_length": HIDDEN, "block_count": 2, "feed_forward_length": MLP,
        "attention.head_count": HEADS, "attention.head_count_kv": KV_HEADS, "attention.key_length": HEAD,
        "attention.value_length": HEAD, "attention.layer_norm_rms_epsilon": 1e-5, "rope.dimension_count": HEAD,
    } | ({"attention.sliding_window": window} if window else {})  # fmt: skip
    shapes = {
        "attn_norm": (HIDDEN,), "attn_q": (HIDDEN, HEADS * HEAD), "attn_k": (HIDDEN, KV_HEADS * HEAD),
        "attn_v": (HIDDEN, KV_HEADS * HEAD), "attn_output": (HEADS * HEAD, HIDDEN), "ffn_norm": (HIDDEN,),
        "ffn_gate": (HIDDEN, MLP), "ffn_up": (HIDDEN, MLP), "ffn_down": (MLP, HIDDEN),
    } | ({"post_attention_norm": (HIDDEN,), "post_ffw_norm": (HIDDEN,)} if window else {})  # fmt: skip
    layers = [(f"blk.{i}.{name}.weight", shape, "F32") for i in range(2) for name, shape in shapes.items()]
    ends = [
        ("token_embd", (HIDDEN, WORDS)),
        ("output_norm", (HIDDEN,)),
        *([] if window else [("output", (HIDDEN, WORDS))]),
    ]
    metadata = {"general.architecture": arch, **{f"{arch}.{key}": value for key, value in numbers.items()}}
    metadata |= toys.vocabulary(arch, WORDS)
    toys.write(path, metadata, [*((f"{name}.weight", shape, "F32") for name, shape in ends), *layers])


def slots_for(path: Path, flags: list[str]) -> Slots:
    command = ["llama-server", "-m", str(path), *flags, "-dev", "none", "-fit", "off"]
    deployment = parse_command(command, engine="llama.cpp==v0.5.0")
    slots = slots_of(deployment.flags, gguf_model("tiny", read(path)), run(replace(deployment, gpus=())))
    return replace(slots, keeps=0)  # its vocabulary puts no token before a text


class Watched(SlotLoop):
    """It remembers the batches and who leaves."""

    def __init__(self, slots: Slots) -> None:
        config = Config((Group("full", 1),), slots.cells + 1, slots.count, slots.batch, slots.context)
        super().__init__(slots, config, unit(1), Nobody(), Nobody())
        self.batch: list[list[Any]] = []
        self.views = 0
        self.gone: list[list[int]] = []
        self.clients.in_flight = 1 << 30

    def _update_slots(self) -> None:
        self.batch, self.views = [], 0
        super()._update_slots()

    def _decode(self, generating: list[Slot], prompts: list[Piece]) -> None:
        self._keep([*((slot, 1, True) for slot in generating), *prompts])
        self.views = 1
        super()._decode(generating, prompts)

    def _decode_in_views(self, pieces: list[Piece], total: int) -> None:
        self._keep(pieces)
        super()._decode_in_views(pieces, total)

    def _keep(self, pieces: list[Piece]) -> None:
        self.batch = [
            [slot.id, slot.tokens - count, slot.request.generated > 0] for slot, count, _ in pieces if slot.request
        ]

    def _view(self, pieces: list[Piece], start: int, size: int) -> None:
        self.views += 1
        super()._view(pieces, start, size)

    def _release(self, slot: Any, *, refused: bool = False) -> None:
        self.gone.append([slot.request.job.id, slot.id, slot.tokens])
        super()._release(slot, refused=refused)


class Nobody:
    """Requests are put into the queue by hand."""

    def jobs(self) -> Any:
        return iter(())

    def done(self, job: Job, at: int) -> None:
        return None

    def record(self, record: Record) -> None:
        return None

    def step(self, *_: Any) -> None:
        return None


def first_difference(row: dict[str, Any], slots: Slots) -> str:
    """ "" where every turn is equal: who is launched where, the batch, its views, who leaves with how many tokens."""
    loop = Watched(slots)
    by_length = {request["prompt"]: request for request in row["requests"]}
    seen: set[int] = set()
    for number, turn in enumerate(row["turns"]):
        for task in turn["taken"]:
            if task not in seen:
                seen.add(task)
                asked = by_length[row["lengths"][str(task)]]
                chain = tuple((name, tokens) for name, tokens in asked["chain"])
                answer = next((c for c in row["chains"] if len(c) > len(chain) and c[: len(chain)] == chain), chain)
                loop.queue.append(Live(Job(task, 0, asked["prompt"], asked["output"], answer[: len(chain) + 1])))
        before = {slot.request.job.id for slot in loop.busy if slot.request}
        while loop.queue:
            loop._receive(loop.queue.popleft())
        launched = [[slot.request.job.id, slot.id] for slot in loop.busy if slot.request]
        launched = sorted(pair for pair in launched if pair[0] not in before)
        loop.batch, loop.views, loop.gone = [], 0, []
        if loop.busy:
            loop._update_slots()
        ours = {"launched": launched, "batch": loop.batch, "views": loop.views, "released": loop.gone}
        real = {**{key: turn[key] for key in ours}, "launched": sorted(turn["launched"])}
        if ours != real:
            return f"turn {number}: ours {ours}, real {real}"
    return ""


def with_chains(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "chains": [tuple((n, t) for n, t in request["chain"]) for request in row["requests"]]}
