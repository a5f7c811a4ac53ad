"""Caches, graphs, buffers and terms of the engines for settings drawn at random, and PyTorch's allocator, as stored.

Figures are drawn out of few values, so that exact fits and equal bounds are common. `python
tools/replay.py renew toy_pools` stores them again, and a commit that does says why.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import pytest
from msgspec.structs import replace
from stored_answers import Row, check_table

from oomph.answers.plan import load
from oomph.engines.common import allocator
from oomph.engines.common.ranks import Rank
from oomph.engines.llamacpp.convert import to_gguf
from oomph.engines.llamacpp.measure import measure, subject
from oomph.engines.llamacpp.settings import resolve as resolve_llamacpp
from oomph.engines.sglang.kv.pools import Stage, request_window_tokens, size_pools
from oomph.engines.sglang.resolve.settings import shape_of
from oomph.engines.sglang.resolve.steps import resolve as resolve_sglang
from oomph.engines.trtllm.kv import pool
from oomph.engines.trtllm.settings import Settings
from oomph.engines.trtllm.terms import rank_terms
from oomph.engines.vllm.graphs import memory as vllm_graphs
from oomph.engines.vllm.kv import check as kv_check
from oomph.engines.vllm.kv.check import KvInput
from oomph.engines.vllm.kv.groups import Layers
from oomph.engines.vllm.kv.specs import Refused, Spec
from oomph.errors import OomphError
from oomph.facts.llamacpp.backends import CUDA, RPC, VULKAN
from oomph.facts.sglang.facts import at as sglang_at
from oomph.facts.trtllm.facts import at as trtllm_at
from oomph.facts.vllm.facts import at as vllm_at
from oomph.ir.deployment import Deployment, Engine
from oomph.sources.gpu import parse_gpus
from oomph.units import MIB


def trtllm(draw: random.Random) -> Any:
    facts = trtllm_at(draw.choice(("0.18.2", "0.20.0", "1.0.0", "1.2.1")))
    length = draw.choice((31, 32, 33, 64, 1000))
    block = draw.choice((16, 32))
    settings = Settings(
        max_batch_size=draw.choice((1, 4, 33)), max_num_tokens=draw.choice((16, 64, 65, 2048)), max_seq_len=length,
        max_beam_width=draw.choice((1, 1, 2)), free_gpu_memory_fraction=draw.choice((0.5, 0.9)),
        max_tokens=draw.choice((None, None, 0, 64, 320)), max_gpu_total_bytes=draw.choice((0, 0, 3200, 6400)),
        tokens_per_block=block, manager_v2=draw.random() < 0.3, enable_attention_dp=draw.random() < 0.3, tp_size=2,
        graph_batch_sizes=draw.choice(((), (1, 8), (1, 33))), extra_tokens=draw.choice((0, 1, 3)),
        estimates=draw.random() < 0.9,
    )  # fmt: skip
    row = draw.choice((0, 1, 10, 20))
    windows = draw.choice(({length: row}, {16: row, length: 10}, {length: row}))
    layers = dict.fromkeys(windows, 2)
    cells = pool.Cells(draw.choice((0, row, 10)), sum(windows.values()), windows, layers, 0, 0, False)
    drafter = pool.Cells(3, 5, {length: 5}, {length: 1}, 0, 0, False)
    budget, free = draw.choice((-5, 0, 3200, 6400, 64000)), draw.choice((-5, 0, 3200, 64000))
    return (
        answered(lambda: pool.size_pool(budget, cells, settings, facts, free)),
        answered(lambda: pool.size_pool(budget, cells, settings, facts, free).request_blocks),
        pool.with_draft(cells, drafter, apart=draw.random() < 0.5), pool.dummy_requests(settings),
        pool.temporary_blocks(settings, facts), pool.made_large_by(settings, facts),
        answered(lambda: pool.clamped_blocks(draw.choice((3, 50)), settings, facts, free, draw.choice((1, 10)))),
    )  # fmt: skip


MODELS = ("Qwen/Qwen3-0.6B", "openai/gpt-oss-20b", "Qwen/Qwen3-Next-80B-A3B-Instruct", "google/gemma-3-27b-it",
          "deepseek-ai/DeepSeek-V4-Flash", "deepseek-ai/DeepSeek-V3.2")  # fmt: skip


@cache
def started(name: str, release: str) -> Any:
    deployment = Deployment(Engine("sglang", release), name, {}, parse_gpus("H100"))
    model, facts = load(name), sglang_at(release)
    return model, shape_of(model, facts, {}), resolve_sglang(model, deployment)[0], facts


def sglang(draw: random.Random) -> Any:
    model, shape, settings, facts = started(draw.choice(MODELS), draw.choice(("0.5.0", "0.5.17", "0.5.23")))
    settings = replace(
        settings, mem_fraction_static=draw.choice((0.5, 0.8, 0.9)), page_size=draw.choice((1, 16, 64)),
        max_total_tokens=draw.choice((None, None, 100, 4096)),
        max_running_requests=draw.choice((None, None, 1, 8, 4096)),
        max_mamba_cache_size=draw.choice((None, None, 0, 4, 100)), disable_radix_cache=draw.random() < 0.4,
        chunked_prefill_size=draw.choice((-1, 0, 2048, 8192)), attn_dp_size=draw.choice((1, 1, 2)),
        speculative_num_draft_tokens=draw.choice((0, 0, 3)), draft_layers=draw.choice((0, 0, 1)),
        disable_overlap_schedule=draw.random() < 0.3, disaggregation_mode=draw.choice(("null", "null", "decode")),
        image_cache_mib=draw.choice((0, 0, 1024)), context_length=draw.choice((100, 4096, 32768)),
    )  # fmt: skip
    states = len(shape.states)
    stage = Stage(range(draw.choice((1, len(model.layers)))), draw.choice((states, max(1, states // 2))))
    before, free = draw.choice((16.0, 80.0)), draw.choice((4.0, 8.0, 40.0))
    most = draw.choice((None, None, 64, 4096))
    return (
        answered(lambda: size_pools(model, shape, settings, facts, stage, before, free, most)),
        request_window_tokens(settings, facts, draw.choice((0, 128))),
    )


KINDS = (
    "full",
    "full",
    "mla",
    "sliding_window",
    "sliding_window",
    "chunked_local",
    "mamba",
    "sliding_window_mla",
    "cross",
)


def vllm(draw: random.Random) -> Any:
    rules = vllm_at(draw.choice(("0.9.1", "0.11.0", "0.14.0", "0.21.0", "0.25.0", "0.27.0", "0.32.0"))).kv
    stages = draw.choice((1, 1, 2))
    layers = []
    block = draw.choice((16, 16, 32))
    for number in range(draw.randint(1, 4)):
        kind: Any = draw.choice(KINDS)
        spec = Spec(
            kind, draw.choice((block, block, 32, 64)), draw.choice((32, 64, 64, 96)), window=draw.choice((0, 17, 64)),
            chunk=draw.choice((32, 64)) if kind == "chunked_local" else 0, num_kv_heads=1,
            head_size=draw.choice((8, 16)), speculative_blocks=draw.choice((0, 0, 2)),
            checkpoint_blocks=draw.choice((0, 1)), strided=draw.random() < 0.3, padded=draw.choice((0, 0, 0, 4096)),
            role=draw.choice(("", "", "indexer")),
        )  # fmt: skip
        layers.append(Layers(spec, tuple(draw.choice((0, 1, 2, 3, 5)) for _ in range(stages)), f"layer {number}"))
    context: Any = draw.choice(("none", "align", "all"))
    kv = KvInput(
        rules, tuple(layers), draw.choice((1, 16, 17, 100, 1000)), draw.choice((16, 64, 256)), draw.choice((1, 2)),
        context, draw.choice((1, 1, 2)), draw.choice((1, 1, 2)), draw.choice((0, 17)), draw.random() < 0.8,
        draw.random() < 0.3, draw.random() < 0.3, draw.choice((None, None, None, 3, 100)), draw.random() < 0.8, stages,
        draw.random() < 0.7,
    )  # fmt: skip
    memory = [draw.choice((-5, 0, 1, 4096, 16384, 100_000, 1_000_000)) for _ in range(stages)]
    return answered(lambda: _cache(kv_check.plan(kv, memory[: draw.choice((1, stages))])))


def _cache(whole: Any) -> Any:
    fields = [getattr(whole, name) for name in whole.__struct_fields__ if name not in ("context", "log_lines", "notes")]
    if whole.context is None:
        return fields
    return fields, whole.longest_request, [whole.blocks_for(tokens) for tokens in (1, 16, 100)]


CAPTURED = ("Qwen/Qwen3-0.6B", "deepseek-ai/DeepSeek-V3.2", "Qwen/Qwen3-Next-80B-A3B-Instruct", "openai/gpt-oss-20b",
            "Qwen/Qwen3.6-27B")  # fmt: skip


def graphs(draw: random.Random) -> Any:
    """With up to thousands of layers: a driver's steps of 2 MiB hide what one layer takes."""
    mode = draw.choice(("FULL_AND_PIECEWISE", "PIECEWISE", "FULL", "FULL_DECODE_ONLY", "NONE"))
    sizes = tuple(sorted(draw.sample((1, 2, 3, 4, 8, 16, 24, 64, 512), draw.randint(0, 6))))
    seqs = draw.choice((1, 2, 8, 512))
    counted = vllm_graphs.count_graphs(mode, sizes, seqs, draw.choice((0, 0, 1, 3)), draw.choice((1, 2)))
    capture = vllm_graphs.Capture(
        draw.choice((1, 2048, 4096, 100_000)), draw.choice((1, 36, 1000, 5000)), draw.choice((0, 32 * MIB)),
        split_width=draw.choice((0, 4096)), sm=draw.choice((80, 89, 90)), mxfp4_bytes=draw.choice((0, 700 * 1024)),
        drafts=draw.random() < 0.3, lora=draw.random() < 0.3,
    )  # fmt: skip
    estimate = vllm_graphs.estimate(load(draw.choice(CAPTURED)), counted, capture, known=draw.random() < 0.5)
    blocks = [vllm_graphs.throwaway_blocks(counted, seqs, per_sequence=one) for one in (True, False)]
    return counted, (estimate.bytes, estimate.low, estimate.high, estimate.parts), blocks


@cache
@cache
def gguf(name: str) -> Any:
    return subject(to_gguf(load(name), "Q4_K_M"))


def compute(draw: random.Random) -> Any:
    """Buffers of llama.cpp's graphs, wherever the layers are."""
    flags = {
        "ctx_size": draw.choice((256, 1000, 8192)), "ubatch_size": draw.choice((64, 512)),
        "parallel": draw.choice((1, 3)), "n_gpu_layers": draw.choice((-1, -1, 0, 5)),
        "flash_attn": draw.choice(("on", "off")), "cache_type_k": draw.choice(("f16", "q8_0")),
        "cache_type_v": draw.choice(("f16", "f16", "q8_0")), "kv_offload": draw.random() < 0.8,
        "split_mode": draw.choice(("layer", "layer", "row", "none")), "op_offload": draw.random() < 0.7,
    }  # fmt: skip
    build = draw.choice((9000, 9450, 9500, 10800, 11300, 11400, 11739))
    settings = resolve_llamacpp(flags, 40960, build)
    free = [1] * draw.choice((1, 1, 2, 3))
    name, backend = draw.choice(CAPTURED), draw.choice((CUDA, VULKAN, RPC))
    try:
        measured = measure(gguf(name), settings, free, backend=backend)
    except OomphError as refused:  # sparse attention
        return type(refused).__name__
    return [use.compute for use in measured.devices], measured.host.compute, measured.flash


def terms(draw: random.Random) -> Any:
    """What one rank of TensorRT-LLM holds beside its cache."""
    model = load(
        draw.choice((*CAPTURED[:1], "Qwen/Qwen3-30B-A3B", "deepseek-ai/DeepSeek-V2-Lite", "openai/gpt-oss-20b"))
    )
    device = draw.choice(CARDS)
    settings = Settings(
        tp_size=draw.choice((1, 2, 4)), ep_size=draw.choice((1, 2)), max_batch_size=draw.choice((1, 64, 2048)),
        max_num_tokens=draw.choice((1, 2048, 8192)), max_seq_len=draw.choice((32, 4096)),
        max_beam_width=draw.choice((1, 2)), enable_attention_dp=draw.random() < 0.3, lm_head_tp=draw.random() < 0.3,
        overlap=draw.random() < 0.7, chunked_prefill=draw.random() < 0.3, draft_tokens=draw.choice((0, 0, 3)),
        draft_layers=draw.choice((0, 0, 1)), lora_share=draw.choice((0.0, 0.0, 0.02)), extra_tokens=draw.choice((0, 1)),
        moe_backend=draw.choice(("AUTO", "CUTLASS", "DEEPGEMM", "TRTLLM")), compiles_pieces=draw.random() < 0.3,
        graph_batch_sizes=draw.choice(((), (1, 8), (1, 2, 128))), moe_max_num_tokens=draw.choice((0, 0, 1024)),
    )  # fmt: skip
    deployment = Deployment(Engine("trtllm", "1.2.1"), model.name, {}, (device,))
    rank = Rank(0, draw.choice((0, 1)), 0, device)
    return answered(lambda: rank_terms(model, settings, deployment, rank))


CARDS = tuple(parse_gpus(name)[0] for name in ("RTX 4090", "H100", "B200"))
SIZES = (0, 1, 512, MIB - 1, MIB, MIB + 1, 2 * MIB, 9 * MIB, 10 * MIB - 512, 10 * MIB, 10 * MIB + 1, 19 * MIB, 20 * MIB,
         20 * MIB - 511, 21 * MIB, 40 * MIB, 44 * MIB, 64 * MIB)  # fmt: skip


def torch(draw: random.Random) -> Any:
    limit = draw.choice((20 * MIB, 40 * MIB, allocator.NO_LIMIT))
    memory = allocator.Allocator(limit, expandable=draw.random() < 0.3)
    alive: list[Any] = []
    trace: list[Any] = []
    for _ in range(draw.randint(3, 25)):
        size = draw.choice(SIZES)
        action = draw.choice(("alloc", "alloc", "alloc", "free", "free", "many", "pass", "empty"))
        if action == "alloc":
            alive.append(memory.alloc(size))
        elif action == "many":
            alive += memory.alloc_many(size, draw.choice((1, 2, 7)))
        elif action == "free" and alive:
            memory.free(alive.pop(draw.randrange(len(alive))))
        elif action == "pass" and limit == allocator.NO_LIMIT:
            memory.pass_through([size, draw.choice(SIZES)])
        elif action == "empty":
            memory.empty_cache()
        trace.append((memory.allocated, memory.peak, memory.is_whole(size), memory.free_sizes()))
    figures = [(allocator.request_size(n), allocator.small_size(n), allocator.filled(max(n, 1))) for n in SIZES]
    return trace, figures


def answered(question: Callable[[], Any]) -> Any:
    try:
        return question()
    except (ArithmeticError, LookupError, TypeError, ValueError, OomphError, Refused) as error:
        return type(error).__name__  # no command gives such figures together


POOLS: dict[str, tuple[Callable[[random.Random], Any], int]] = {
    "vllm": (vllm, 5000), "trtllm": (trtllm, 1500), "sglang": (sglang, 600), "torch": (torch, 600),
    "graphs": (graphs, 600), "compute": (compute, 300),
    "terms": (terms, 400),
}  # fmt: skip


def rows(name: str) -> Iterator[Row]:
    pool_of, count = POOLS[name]
    return ((f"{seed}", pool_of(random.Random(f"{name} {seed}"))) for seed in range(count))


TABLES: dict[str, Callable[[], Iterator[Row]]] = {name: partial(rows, name) for name in POOLS}


@pytest.mark.parametrize("name", TABLES)
def test_a_pool_is_as_stored(name: str) -> None:
    check_table("toy_pools", name, TABLES[name]())
