"""What SGLang allocates beside its pools: the table of requests, input buffers, logits and attention's own arrays.

All of it lies in the memory that `mem_fraction_static` leaves; its sizes follow from the settings alone.
"""

from msgspec import Struct

from oomph.engines.sglang.kv.pools import Pools
from oomph.engines.sglang.resolve.settings import ModelShape, Settings
from oomph.facts.sglang import memory as facts, outside
from oomph.facts.sglang.facts import Facts
from oomph.ir import Attention, Model
from oomph.units import MIB, cdiv, power_of_two

_FLOAT, _INT, _LONG = 4, 4, 8


class Buffers(Struct, frozen=True):
    table: int  # made with the pools
    inputs: int
    logits: int
    attention: int  # what the attention backend keeps for replaying graphs

    @property
    def parts(self) -> dict[str, int]:
        named = {
            "table of requests": self.table,
            "input buffers": self.inputs,
            "logits of the graphs": self.logits,
            "attention's arrays": self.attention,
        }
        return {name: size for name, size in named.items() if size}


def buffers_of(
    model: Model, shape: ModelShape, settings: Settings, facts_: Facts, pools: Pools, multiprocessors: int
) -> Buffers:
    drafts = settings.speculative_num_draft_tokens if settings.drafts else 0
    length = settings.context_length + facts.SPARE_TOKENS + drafts
    table = (pools.requests + 1) * length * facts.REQUEST_SLOT
    graphs = settings.cuda_graph_bs
    rows = max(graphs, default=0) * max(1, drafts)
    every = facts_.buffers.inputs_for_every_token
    tokens = max(pools.tokens, settings.chunked_prefill_size) if every else max(rows, settings.chunked_prefill_size)
    return Buffers(
        table,
        max(0, tokens) * facts.INPUT_BYTES,
        rows * model.vocab_size * facts.LOGIT_BYTES,
        _attention(model, shape, settings, facts_, rows, multiprocessors) if graphs else 0,
    )


def _attention(
    model: Model, shape: ModelShape, settings: Settings, facts_: Facts, rows: int, multiprocessors: int
) -> int:
    """init_cuda_graph_state of the backend that decodes."""
    backend, length = settings.decode_attention_backend, settings.context_length
    batch = max(settings.cuda_graph_bs)
    if backend == "triton":
        return _triton(model, shape, settings, facts_, rows, multiprocessors)
    if backend == "flashinfer":
        wrappers = 2 if shape.has_windows else 1
        indices = wrappers * rows * length * _INT + rows * length  # and a mask of bytes
        return indices + wrappers * len(settings.cuda_graph_bs) * facts.FLASHINFER_INT_WORKSPACE
    if backend in ("fa3", "fa4"):
        tables = 2 if shape.has_windows else 1
        return tables * batch * cdiv(length, settings.page_size) * _INT + cdiv(length, settings.page_size) * _LONG
    return 0


def _triton(model: Model, shape: ModelShape, settings: Settings, facts_: Facts, rows: int, multiprocessors: int) -> int:
    """triton_backend.py:962: partial outputs, and where all tokens of all requests lie."""
    windows = [m.window for m in _mixers(model) if m.kind == "sliding_window" and m.window]
    partial = partial_outputs(model, shape, settings, facts_, rows, multiprocessors)
    return partial + rows * (settings.context_length + max(windows, default=0)) * _LONG


def partial_outputs(
    model: Model, shape: ModelShape, settings: Settings, facts_: Facts, rows: int, multiprocessors: int
) -> int:
    """Triton's decoding attention: what every split of every head has, in float32."""
    mixers = _mixers(model)
    heads = max((m.num_heads for m in mixers), default=0) // settings.attn_tp_size
    width = max((m.kv_lora_rank if m.kind == "mla" else m.head_dim_v for m in mixers), default=0)
    splits = facts.KV_SPLITS
    if shape.is_latent and facts_.buffers.latent_splits:
        blocks = cdiv(settings.context_length, facts.LATENT_BLOCK)
        splits = max(splits, min(power_of_two(multiprocessors), power_of_two(blocks)))
    return rows * heads * splits * (width + 1) * _FLOAT


def _mixers(model: Model) -> list[Attention]:
    return [mixer for layer in model.layers for mixer in layer.mixers if isinstance(mixer, Attention)]


def fixed_workspace(settings: Settings) -> int:
    """What kernels take when they are first used, from posted start-ups: FlashInfer's workspace above all."""
    names = {settings.prefill_attention_backend, settings.decode_attention_backend}
    return sum(outside.WORKSPACES.get(name, outside.OTHER_WORKSPACE) for name in names) or MIB
