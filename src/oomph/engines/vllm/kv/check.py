"""Groups + memory -> blocks, the check with vLLM's own words, the printed figures, and admission.

Follows v1/core/kv_cache_utils.py get_kv_cache_configs: group the whole model, project the groups on each pipeline
stage, fit max_model_len if asked, check every worker, take the smallest block count.
"""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from oomph.engines.vllm.kv.groups import Group, Grouping, Layers, bytes_per_block, group_layers
from oomph.engines.vllm.kv.specs import MambaMode, Refused, Request, max_blocks
from oomph.facts.vllm.kv import AUTO_FIT_FAILS, KvRules
from oomph.ir import KvGroup
from oomph.units import GIB, cdiv

Stage = Literal["engine_config", "model_build", "kv_cache_config"]


class Refusal(Struct, frozen=True):
    """What vLLM says instead of starting."""

    stage: Stage
    type: str
    message: str


class KvPlan(Struct, frozen=True):
    available_bytes: int  # the smallest worker's, an override of the blocks included
    bytes_per_block: int  # of the stage that has most
    stage_bytes_per_block: tuple[int, ...]
    num_blocks: int
    max_model_len: int  # after auto-fit
    need_bytes: int  # one request of max_model_len, on the stage that needs most
    need_before_fit_bytes: int  # as if one worker had all layers, for the length before auto-fit
    pool_all_bytes: int  # bytes of one block id as if one worker had all layers
    block_size: int  # the smallest group's
    logged_tokens: int
    max_concurrency: float
    groups: tuple[KvGroup, ...]
    stage_groups: tuple[tuple[KvGroup, ...], ...]
    scheduler_block_size: int = 0  # resolve_kv_cache_block_sizes
    hash_block_size: int = 0
    refusal: Refusal | None = None
    notes: tuple[str, ...] = ()
    log_lines: tuple[str, ...] = ()
    context: "Context | None" = None
    widest_available_bytes: int = 0  # of the stage that bytes_per_block is of
    check_room: int | None = None  # what the check of one request leaves, the null block taken off; negative: short

    @property
    def blocks_per_request(self) -> tuple[int, ...]:
        return tuple(group.blocks_per_request for group in self.groups)

    def blocks_for(self, tokens: int) -> tuple[int, ...]:
        """Blocks of each group that admitting a prompt of `tokens` asks for, nothing cached."""
        assert self.context is not None
        return tuple(_admission_blocks(group, tokens, self.context) for group in self.context.grouping.groups)

    @property
    def longest_request(self) -> int:
        """The longest prompt that an empty pool admits; one block is the null block."""
        if self.context is None or not self.context.grouping.groups:
            return self.max_model_len
        free = self.num_blocks - 1
        if sum(self.blocks_for(self.max_model_len)) <= free:  # the usual case: a longer prompt never takes fewer
            return self.max_model_len
        return _search(self.max_model_len, lambda n: sum(self.blocks_for(n)) <= free)


class Context(Struct, frozen=True):
    """Everything the arithmetic needs besides memory; one value serves any number of memory sizes."""

    grouping: Grouping
    request: Request
    rules: KvRules
    stages: int
    block_outermost: bool
    raw: tuple[Layers, ...]  # before grouping
    reserve_full: bool

    def bytes_per_block(self, rule: str, stage: int | None) -> int:
        """The same for every length and every memory: each is computed once."""
        units, key = self.grouping.units, (rule, stage, self.block_outermost)
        if key not in units:
            units[key] = bytes_per_block(self.grouping.groups, rule, stage, block_outermost=self.block_outermost)
        return units[key]


class KvInput(Struct, frozen=True):
    rules: KvRules
    layers: tuple[Layers, ...]
    max_model_len: int
    max_num_batched_tokens: int
    in_flight_batches: int = 1
    mamba_mode: MambaMode = "none"
    dcp: int = 1
    pcp: int = 1
    encoder_tokens: int = 0
    hybrid_manager: bool = True
    block_outermost: bool = False
    auto_fit: bool = False
    blocks_override: int | None = None
    reserve_full: bool = True  # --scheduler-reserve-full-isl
    stages: int = 1
    prefix_caching: bool = True


def prepare(kv: KvInput) -> Context:
    """Group the layers. Raises Refused where vLLM cannot."""
    row = kv.rules
    grouping = _grouping(kv.layers, row, kv.hybrid_manager, kv.block_outermost)
    cp = kv.dcp if row.cp == "dcp" else kv.dcp * kv.pcp
    if kv.dcp > 1 and any(m.spec.is_sliding for group in grouping.groups for m in group.members):
        raise Refused("AssertionError", "DCP not support sliding window.")
    batches = kv.in_flight_batches if row.in_flight else 1
    request = Request(kv.max_model_len, batches * kv.max_num_batched_tokens, kv.mamba_mode, cp, kv.encoder_tokens)
    return Context(grouping, request, row, kv.stages, kv.block_outermost, kv.layers, reserve_full=kv.reserve_full)


@lru_cache(maxsize=512)
def _grouping(layers: tuple[Layers, ...], rules: KvRules, hybrid_manager: bool, packed: bool) -> Grouping:
    """A search asks for the same layers under many limits."""
    return group_layers(layers, rules, hybrid_manager=hybrid_manager, packed=packed)


def plan(kv: KvInput, available: Sequence[int]) -> KvPlan:
    """`available`: bytes for the cache on each stage (one value serves all stages)."""
    try:
        context = prepare(kv)
    except Refused as error:
        refusal = Refusal("kv_cache_config", error.type, error.message)
        return replace(_without_cache(kv, available), refusal=refusal)
    return check(kv, context, available)


def check(kv: KvInput, context: Context, available: Sequence[int]) -> KvPlan:
    groups, row, stages = context.grouping.groups, context.rules, range(context.stages)
    memory = list(available) * context.stages if len(available) == 1 else list(available)
    if not groups:
        return replace(_without_cache(kv, memory), num_blocks=1, context=context)
    per_block = [_block_bytes(context, s) for s in stages]
    if kv.blocks_override is not None and row.override_is_checked:
        memory = [kv.blocks_override * b for b in per_block]
    checked = [m - b if row.reserve_null_block else m for m, b in zip(memory, per_block, strict=True)]
    refusal: Refusal | None = None
    if any(m.spec.page == 0 for group in groups for m in group.members):
        # a block smaller than DeepSeek-V4's compression holds no state: cdiv(bytes, page) (kv_cache_interface.py)
        refusal = Refusal("kv_cache_config", "ZeroDivisionError", "integer division or modulo by zero")
    elif not all(per_block):  # a pipeline stage without a cache (kv_cache_utils.py:1298, 0.21.0)
        kind, _, text = row.empty_stage.partition(": ")
        refusal = Refusal("kv_cache_config", kind, text)
    elif kv.auto_fit and row.auto_fit:
        fits = min(_fitting(context, s, m) for s, m in _workers(context, checked))
        if fits <= 0:
            refusal = Refusal("kv_cache_config", "ValueError", AUTO_FIT_FAILS)
        elif fits < context.request.max_model_len:
            context = replace(context, request=replace(context.request, max_model_len=fits))
    refusal = refusal or _memory_check(context, checked) or _late_refusal(kv, groups)
    length = context.request.max_model_len
    room = (
        min(m - need_bytes(context, stage, length) for stage, m in _workers(context, checked))
        if all(per_block) and not any(m.spec.page == 0 for group in groups for m in group.members)
        else None
    )
    blocks = min(max(m // b, 0) if b else 0 for m, b in zip(memory, per_block, strict=True))
    if kv.blocks_override is not None:
        blocks = kv.blocks_override
    return replace(_report(kv, context, per_block, memory, blocks, refusal), check_room=room)


def _late_refusal(kv: KvInput, groups: Sequence[Group]) -> Refusal | None:
    """What the engine core says once the cache is sized."""
    align, parallel = kv.rules.align_limit, kv.rules.groups_refuse_cp
    block = min(group.block_size for group in groups)
    if align and kv.mamba_mode == "align" and block > kv.max_num_batched_tokens:
        text = align.format(block=block, tokens=kv.max_num_batched_tokens)
        return Refusal("kv_cache_config", "AssertionError", text)
    if parallel and len(groups) > 1 and kv.dcp * kv.pcp > 1:
        kind, _, text = parallel.partition(": ")
        if kind == "ValueError" or kv.prefix_caching:  # without it another coordinator serves the groups
            return Refusal("kv_cache_config", kind, text)
    return None


def _block_tokens(kv: KvInput, groups: Sequence[Group]) -> tuple[int, int]:
    """(scheduler_block_size, hash_block_size): resolve_kv_cache_block_sizes (0.20+)."""
    sizes = [group.block_size * (kv.dcp if group.spec.is_full else 1) for group in groups]
    if len(groups) == 1:
        one = groups[0].block_size * kv.dcp * kv.pcp
        return one, one
    whole = math.lcm(*sizes)
    mamba = [group.block_size for group in groups if group.spec.kind == "mamba"]
    if not kv.prefix_caching or (mamba and kv.mamba_mode != "align"):
        return whole, whole
    return whole, math.gcd(*sizes)


def _workers(context: Context, checked: Sequence[int]) -> list[tuple[int | None, int]]:
    return list(enumerate(checked)) if context.rules.check_per_worker else [(None, min(checked))]


def _block_bytes(context: Context, stage: int | None) -> int:
    if not context.rules.project_uniform and any(group.uniform for group in context.grouping.groups):
        stage = None
    return context.bytes_per_block(context.rules.block_bytes, stage)


def _group_blocks(group: Group, request: Request, row: KvRules) -> int:
    if not group.uniform:
        return max_blocks(group.spec, request, row)
    return max(max_blocks(m.spec, request, row) for m in group.members)


def need_bytes(context: Context, stage: int | None, length: int) -> int:
    """Bytes that one request of `length` tokens needs on a stage (None: as if all layers were on one worker)."""
    request = context.request
    if length != request.max_model_len:
        request = replace(request, max_model_len=length)
    row = context.rules
    if row.need == "layers":
        return sum(
            max_blocks(member.spec, request, row)
            * member.spec.page
            * (member.total if stage is None else member.counts[stage])
            for member in context.raw
        )
    groups = context.grouping.groups
    unit = context.bytes_per_block(row.need_unit, stage)
    if row.need == "first_group":
        return unit * _group_blocks(groups[0], request, row)
    return unit * sum(count * _group_blocks(group, request, row) for group, count in context.grouping.kinds)


def _search(top: int, fits: Callable[[int], bool]) -> int:
    """The engine's own binary search: the largest length in 1..top that fits, 0 if none does."""
    if not fits(1):
        return 0
    left, right, best = 1, top, 1
    while left <= right:
        mid = (left + right) // 2
        if fits(mid):
            best, left = mid, mid + 1
        else:
            right = mid - 1
    return best


def _fitting(context: Context, stage: int | None, memory: int) -> int:
    return _search(context.request.max_model_len, lambda n: need_bytes(context, stage, n) <= memory)


def _memory_check(context: Context, checked: Sequence[int]) -> Refusal | None:
    text = context.rules.text
    for stage, memory in _workers(context, checked):
        if memory <= 0:
            return Refusal("kv_cache_config", "ValueError", text.none)
        need = need_bytes(context, stage, context.request.max_model_len)
        if need > memory:
            fits = _fitting(context, stage, memory)
            message = text.short.format(
                length=context.request.max_model_len,
                need=_gib(need, text.two_digits),
                available=_gib(memory, text.two_digits),
                estimate=text.estimate.format(fits=fits) if fits > 0 else "",
            )
            return Refusal("kv_cache_config", "ValueError", message)
    return None


def _gib(n: int, two_digits: bool) -> str:
    return f"{n / GIB:.2f}" if two_digits else f"{round(n / GIB, 2)}"


def _concurrency(context: Context, blocks: int) -> float:
    """`get_max_concurrency_for_kv_cache_config`, on the first stage (only its line is printed)."""
    row, request, groups = context.rules, context.request, context.grouping.groups
    counts = [_group_blocks(group, request, row) for group in groups]
    if not row.concurrency_from_bytes:
        return blocks / sum(counts)
    pages = [group.page(0 if row.project_uniform else None) for group in groups]
    return blocks / cdiv(sum(n * p for n, p in zip(counts, pages, strict=True)), pages[0])


def _report(
    kv: KvInput, context: Context, per_block: list[int], memory: list[int], blocks: int, refusal: Refusal | None
) -> KvPlan:
    length, row = context.request.max_model_len, context.rules
    groups = context.grouping.groups
    concurrency = _concurrency(context, blocks)
    smallest = min(group.block_size for group in groups)
    if row.tokens_from_concurrency:
        tokens = int(concurrency * length)
    else:
        tokens = blocks // len(groups) * smallest * context.request.cp
    stage_groups = tuple(tuple(_describe(group, context, s) for group in groups) for s in range(context.stages))
    scheduler, hashed = _block_tokens(kv, groups)
    widest = max(range(context.stages), key=lambda s: per_block[s])
    return KvPlan(
        available_bytes=min(memory),
        widest_available_bytes=memory[widest],
        bytes_per_block=per_block[widest],
        stage_bytes_per_block=tuple(per_block),
        num_blocks=blocks,
        max_model_len=length,
        need_bytes=max(need_bytes(context, s, length) for s in range(context.stages)),
        need_before_fit_bytes=need_bytes(context, None, kv.max_model_len),
        pool_all_bytes=_block_bytes(context, None),
        block_size=smallest,
        logged_tokens=tokens,
        max_concurrency=concurrency,
        groups=stage_groups[0],
        stage_groups=stage_groups,
        scheduler_block_size=scheduler,
        hash_block_size=hashed,
        refusal=refusal,
        notes=context.grouping.notes,
        log_lines=_log_lines(row, tokens, length, concurrency),
        context=context,
    )


def _describe(group: Group, context: Context, stage: int) -> KvGroup:
    return KvGroup(
        "uniform" if group.uniform else group.spec.kind,
        group.layers(stage),
        group.block_size,
        group.page(stage),
        _group_blocks(group, context.request, context.rules),
    )


def _log_lines(row: KvRules, tokens: int, length: int, concurrency: float) -> tuple[str, ...]:
    size = f"GPU KV cache size: {tokens:,} tokens"
    most = f"Maximum concurrency for {length:,} tokens per request: {concurrency:.2f}x"
    return (f"{size}, {most}",) if row.one_line_log else (size, most)


def _admission_blocks(group: Group, tokens: int, context: Context) -> int:
    """`get_num_blocks_to_allocate` of the group's manager for a fresh request."""
    spec, row, request = group.spec, context.rules, context.request
    needed = cdiv(tokens, spec.block_size * (request.cp if spec.is_full else 1))
    if spec.kind == "mamba":
        return needed + spec.speculative_blocks if request.mamba_mode == "all" else 1 + spec.speculative_blocks
    if spec.kind == "cross":
        return cdiv(request.encoder_tokens, spec.block_size)
    if row.admission == "full" and context.reserve_full:
        return needed
    # capped by the rule, or because a running request never holds more (blocks out of the window are freed)
    return min(needed, max_blocks(spec, request, row)) if not spec.is_full else needed


def _without_cache(kv: KvInput, available: Sequence[int]) -> KvPlan:
    """No layer has a cache, or the engine stops before it builds one."""
    return KvPlan(
        min(available),
        bytes_per_block=0,
        stage_bytes_per_block=(0,) * kv.stages,
        num_blocks=0,
        max_model_len=kv.max_model_len,
        need_bytes=0,
        need_before_fit_bytes=0,
        pool_all_bytes=0,
        block_size=0,
        logged_tokens=0,
        max_concurrency=0.0,
        groups=(),
        stage_groups=(),
    )
