"""What a person can change about an SGLang deployment: one row per lever, with the settings that are worth trying.

Two failures want opposite moves of the same flag: weights that leave nothing of the share want a larger
--mem-fraction-static, graphs and activations that do not fit into the rest want a smaller one. Both are in the table;
which of them helps is planned by `advice/`, never written here.
"""

import math
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain
from typing import Any

from msgspec.structs import replace

from oomph.engines.common.levers import (
    NotRead,
    Setting,
    checkpoint_levers,
    idle_cards_lever,
    larger_cards_lever,
    more_cards_lever,
    replicas_lever,
    typed,
)
from oomph.engines.sglang.safe_fraction import safe_fraction
from oomph.facts.sglang.flags import options_of
from oomph.ir import Change, Lever, Model, Plan, State
from oomph.ir.advice import Kind

_LENGTHS = (262144, 131072, 65536, 32768, 16384, 8192, 4096, 2048)
_SHARES = (0.7, 0.75, 0.8, 0.85, 0.88, 0.9, 0.92, 0.94, 0.95)
_SHARED_MEMORY = (0.5, 0.55, 0.6, 0.65)  # of a card whose memory is the host's too: 0.50 held, 0.60 drained one
_NOT_BEFORE_POOLS = "it is read when the pools are sized, after the weights are loaded"
_AFTER_POOLS = "the pools take the whole share, whatever it is"


def levers(plan: Plan, model: Model) -> Iterator[Lever]:
    if "mem_fraction_static" not in plan.resolved or not plan.ranks:
        return
    rows = options_of(plan.deployment.engine.version).by_field
    for lever in _all(plan, model):
        if all(field in rows for change in lever.changes for field in change.flags):
            yield lever


def _all(plan: Plan, model: Model) -> Iterator[Lever]:
    return chain(
        _share(plan),
        _graphs(plan),
        _prefill(plan),
        _requests(plan),
        _cache(plan, model),
        _states(plan, model),
        _drafts(plan),
        _layout(plan),
        _others(plan, model),
    )


def _lever(
    plan: Plan, field: str, settings: Iterable[Setting], rank: int, moves: tuple[str, ...], not_read: NotRead,
    *, name: str = "", kind: Kind = "flag", popular: bool = False,
) -> Iterator[Lever]:  # fmt: skip
    lever = name or field
    changes = tuple(
        Change(lever, spell(field, value, plan), kind, {field: value}, cost=cost, rank=rank, moves=moves)
        for value, cost in settings
        if plan.deployment.flags.get(field) != value
    )
    if changes:
        yield Lever(lever, changes, not_read, popular=popular)


def spell(field: str, value: Any, plan: Plan) -> str:
    """The flag as this release spells it."""
    name = options_of(plan.deployment.engine.version).option(field)
    return typed(name or "--" + field.replace("_", "-"), value)


# ---- the share of weights and pools ----------------------------------------------------------------------------------


def _share(plan: Plan) -> Iterator[Lever]:
    now = float(plan.resolved["mem_fraction_static"])
    least = _least_share(plan)
    safe = safe_fraction(plan).value
    ceiling = safe if plan.fits else _SHARES[-1]  # a plan without pools does not know what follows them
    higher = sorted({value for value in (*_SHARES, least, safe) if now < value <= ceiling})
    not_read: NotRead = {"weights_load": _NOT_BEFORE_POOLS}
    raised = [(value, "less room for activations and graphs") for value in higher]
    name = "mem_fraction_static_up"
    for lever in _lever(plan, "mem_fraction_static", raised, 1, (), not_read, name=name, popular=True):
        yield replace(lever, two_sided=not plan.fits)
    is_shared = any(device.unified for device in plan.deployment.gpus)
    shares = (*_SHARES, safe, *(_SHARED_MEMORY if is_shared else ()))
    lower = sorted({value for value in shares if 0.3 <= value < now - 0.005}, reverse=True)
    lowered = [(value, "a smaller pool: fewer tokens") for value in lower]
    name = "mem_fraction_static_down"
    for lever in _lever(plan, "mem_fraction_static", lowered, 1, (), not_read, name=name, popular=True):
        yield replace(lever, two_sided=is_shared)


def _least_share(plan: Plan) -> float:
    """The smallest share, in hundredths, of which the weights leave a pool for one request of 4,096 tokens."""
    rank = plan.ranks[0]
    free = rank.terms["free_before_load"].low
    tokens = min(4096, int(plan.resolved["context_length"]) or 4096)
    page = plan.kv.block_size if plan.kv else 1
    per_token = plan.kv.bytes_per_block / max(1, page) if plan.kv else 0
    need = rank.terms["weights"].high + tokens * per_token
    return math.ceil(100 * need / free) / 100 if free else 1.0


# ---- what lives outside the share ------------------------------------------------------------------------------------


def _graphs(plan: Plan) -> Iterator[Lever]:
    resolved, flags = plan.resolved, plan.deployment.flags
    rows = options_of(plan.deployment.engine.version).by_field
    field = "cuda_graph_max_bs" if "cuda_graph_max_bs" in rows else "cuda_graph_max_bs_decode"
    largest = int(resolved["cuda_graph_max_bs"])
    not_read: NotRead = {"weights_load": "graphs are captured after the pools are allocated"}
    if resolved["cuda_graph_bs"]:
        settings = [
            (n, f"batches of more than {n} decode without a graph") for n in (128, 64, 32, 16, 8) if n < largest
        ]
        yield from _lever(plan, field, settings, 1, ("cudagraph",), not_read, name="cuda_graph_max_bs", popular=True)
    if resolved["prefill_graph_sizes"]:
        switch = (
            "disable_prefill_cuda_graph" if "disable_prefill_cuda_graph" in rows else "disable_piecewise_cuda_graph"
        )
        settings = [(True, "prompts are processed without graphs: a little slower")]
        yield from _lever(plan, switch, settings, 2, ("cudagraph",), not_read, name="prefill_cuda_graph")
    if not flags.get("disable_cuda_graph") and resolved["cuda_graph_bs"]:
        settings = [(True, "no CUDA graphs: much slower decoding")]
        yield from _lever(plan, "disable_cuda_graph", settings, 6, ("cudagraph",), not_read, popular=True)


def _prefill(plan: Plan) -> Iterator[Lever]:
    chunk = int(plan.resolved["chunked_prefill_size"])
    settings = [(n, "long prompts take more steps") for n in (8192, 4096, 2048, 1024) if n < chunk or chunk < 1]
    not_read: NotRead = {
        "weights_load": "prompts are cut while serving",
        "kv_check": "where --mem-fraction-static is given, the share does not depend on it",
    }
    groups = int(plan.resolved["attn_dp_size"])
    scaled = [(n * groups, cost) for n, cost in settings]
    yield from _lever(plan, "chunked_prefill_size", scaled, 2, ("activation_peak",), not_read, popular=True)


# ---- requests and context --------------------------------------------------------------------------------------------


def _requests(plan: Plan) -> Iterator[Lever]:
    requests, length = int(plan.resolved["max_num_seqs"]), int(plan.resolved["context_length"])
    not_read: NotRead = {"weights_load": _NOT_BEFORE_POOLS, "kv_alloc": _AFTER_POOLS}
    settings = [(n, f"at most {n} requests at once") for n in (256, 64, 16, 8, 1) if n < requests]
    yield from _lever(plan, "max_running_requests", settings, 2, ("cudagraph",), not_read, popular=True)
    shorter = [(n, f"requests of at most {n:,} tokens") for n in _LENGTHS if n < length]
    idle = "the pools take the whole share: the context length only bounds what a request may ask for"
    yield from _lever(
        plan, "context_length", shorter, 4, (), {"weights_load": idle, "kv_check": idle, "kv_alloc": idle}, popular=True
    )


# ---- the caches ------------------------------------------------------------------------------------------------------


def _cache(plan: Plan, model: Model) -> Iterator[Lever]:
    resolved = plan.resolved
    not_read: NotRead = {"weights_load": _NOT_BEFORE_POOLS, "cudagraph_capture": _AFTER_POOLS}
    if resolved["kv_cache_dtype"] in ("auto", "bf16", "bfloat16"):
        settings = [("fp8_e4m3", "KV cache in 8 bits, unscaled where the checkpoint has no scales")]
        yield from _lever(plan, "kv_cache_dtype", settings, 3, (), not_read, popular=True)
    if "swa_max_total_num_tokens" in resolved or _has_window_pool(plan):
        ratio = float(resolved["swa_full_tokens_ratio"])
        smaller = [value for value in (0.5, 0.3, 0.2, 0.1) if value < ratio]
        windows = [(value, "fewer cached prefixes in the sliding-window layers") for value in smaller]
        yield from _lever(plan, "swa_full_tokens_ratio", windows, 2, (), not_read)
    if int(resolved["page_size"]) > 1 and "page_size" in plan.deployment.flags:
        yield from _lever(plan, "page_size", [(1, "pages of one token")], 2, (), not_read)


def _has_window_pool(plan: Plan) -> bool:
    return plan.kv is not None and any(group.kind in ("sliding_window", "chunked_local") for group in plan.kv.groups)


def _states(plan: Plan, model: Model) -> Iterator[Lever]:
    if not any(isinstance(m, State) for layer in model.layers for m in layer.mixers):
        return
    resolved = plan.resolved
    not_read: NotRead = {"weights_load": _NOT_BEFORE_POOLS}
    now = float(resolved["mamba_full_memory_ratio"])
    balance = balancing_ratio(plan)
    ratios = [] if balance is None or abs(balance - now) < 0.05 else [balance]
    settings = [(r, "as many state slots as requests of this length find tokens for") for r in ratios]
    yield from _lever(plan, "mamba_full_memory_ratio", settings, 1, (), not_read)
    if resolved.get("mamba_ssm_dtype") != "bfloat16" and "mamba_ssm_dtype" not in plan.deployment.flags:
        settings_dtype = [("bfloat16", "recurrent states in 16 bits: less exact over long texts")]
        yield from _lever(plan, "mamba_ssm_dtype", settings_dtype, 3, (), not_read)
    if resolved["enable_prefix_caching"]:
        settings_radix = [(True, "no prefix is reused; one state slot for each request instead of several")]
        yield from _lever(plan, "disable_radix_cache", settings_radix, 3, (), not_read)


def balancing_ratio(plan: Plan) -> float | None:
    """The ratio at which slots and tokens run out together for requests of a quarter of the context length.

    With n requests the states take n x slots x slot bytes and the tokens n x length x cell bytes: their quotient.
    """
    resolved, kv = plan.resolved, plan.kv
    slots = int(resolved.get("mamba_slots_per_request") or 0)
    if kv is None or not slots or not kv.block_size:
        return None
    length = min(int(resolved["context_length"]), 32768)
    tokens = length * kv.bytes_per_block / kv.block_size
    states = slots * int(resolved["mamba_bytes_per_slot"])
    return round(min(9.0, max(0.05, states / tokens)), 2) if tokens else None


# ---- drafts ----------------------------------------------------------------------------------------------------------


def _drafts(plan: Plan) -> Iterator[Lever]:
    """A drafter's weights, its rows of every token, and the states that verification keeps."""
    without = {field: None for field in plan.deployment.flags if field.startswith("speculative_")}
    if "speculative_algorithm" not in without:
        return
    change = Change(
        "drafts", spell("speculative_algorithm", None, plan), "flag", without, cost="no speculative decoding: slower",
        rank=4, moves=("weights", "cudagraph"),
    )  # fmt: skip
    yield Lever("drafts", (change,))


# ---- the layout ------------------------------------------------------------------------------------------------------


def _layout(plan: Plan) -> Iterator[Lever]:
    resolved, tp = plan.resolved, int(plan.resolved["tp_size"])
    world = tp * int(resolved["pp_size"]) * int(resolved["dp_size"])
    moves = ("weights", "load_peak", "available_kv", "free_before_load")
    yield from idle_cards_lever(plan, "tp_size", partial(spell, plan=plan), world, moves)
    if int(resolved["dp_size"]) > 1:
        yield from replicas_lever(plan, "tp_size", "dp_size", partial(spell, plan=plan), moves)
    if tp > 1 and int(resolved["attn_dp_size"]) == 1 and _is_latent(plan):
        label = f"{spell('dp_size', tp, plan)} --enable-dp-attention"
        change = Change(
            "dp_attention", label, "layout", {"dp_size": tp, "enable_dp_attention": True},
            cost="every GPU has all of the attention's weights; each keeps the cache of its own requests", rank=3,
            moves=moves,
        )  # fmt: skip
        yield Lever("dp_attention", (change,))


def _others(plan: Plan, model: Model) -> Iterator[Lever]:
    """Other checkpoints and other cards: everything that a log may have pinned is planned again."""
    moves = ("free_before_load", "weights", "load_peak", "activation_peak", "cudagraph", "available_kv")
    world = int(plan.resolved["tp_size"]) * int(plan.resolved["pp_size"]) * int(plan.resolved["dp_size"])
    return chain(
        checkpoint_levers(plan, model, moves, dropped=("quantization", "load_format", "dtype")),
        more_cards_lever(plan, "tp_size", partial(spell, plan=plan), world, moves),
        larger_cards_lever(plan, moves),
    )


def _is_latent(plan: Plan) -> bool:
    """Tensor parallelism repeats a latent cache on every GPU."""
    return plan.kv is not None and any(group.kind == "mla" for group in plan.kv.groups)
