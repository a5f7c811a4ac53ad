"""Layers -> KV cache groups (v1/core/kv_cache_utils.py get_kv_cache_groups).

Layers are counted, not listed: a `Layers` is one spec and how many layers of each pipeline stage have it. vLLM deals
the layers of a spec out like cards (`layers[i::n]`), so a group's count on a stage follows from the counts alone.
"""

import math
from collections import Counter
from collections.abc import Sequence
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from oomph.engines.vllm.kv.specs import Refused, Spec, is_uniform_type, merges
from oomph.facts.vllm.kv import KvRules
from oomph.text.tables import grouped
from oomph.units import cdiv


class Layers(Struct, frozen=True):
    spec: Spec
    counts: tuple[int, ...]  # per pipeline stage
    name: str = ""  # of the first one, for messages

    @property
    def total(self) -> int:
        return sum(self.counts)


class Group(Struct, frozen=True):
    """Layers that share one block table. `uniform`: their specs differ (UniformTypeKVCacheSpecs)."""

    members: tuple[Layers, ...]
    uniform: bool = False

    @property
    def spec(self) -> Spec:
        return self.members[0].spec

    @property
    def block_size(self) -> int:
        return self.spec.block_size

    def layers(self, stage: int | None = None) -> int:
        return sum(m.total for m in self.members) if stage is None else sum(m.counts[stage] for m in self.members)

    def pages(self, stage: int | None = None) -> int:
        """Bytes of one block over the group's layers."""
        if stage is None:
            return sum(m.spec.page * m.total for m in self.members)
        return sum(m.spec.page * m.counts[stage] for m in self.members)

    def page(self, stage: int | None = None) -> int:
        return self.pages(stage) if self.uniform else self.spec.page


class Grouping(Struct, frozen=True, dict=True):
    groups: tuple[Group, ...]
    notes: tuple[str, ...] = ()

    @cached_property
    def kinds(self) -> tuple[tuple[Group, int], ...]:
        """One group of each kind that takes the same blocks for a request, with how many there are."""
        first: dict[object, Group] = {}
        for group in self.groups:
            first.setdefault(_kind(group), group)
        counts = Counter(map(_kind, self.groups))
        return tuple((group, counts[kind]) for kind, group in first.items())

    @cached_property
    def units(self) -> dict[tuple[str, int | None, bool], int]:
        """Bytes of a block by the rule that counts them: the same for every length and every memory."""
        return {}


def _kind(group: Group) -> object:
    return tuple(layers.spec for layers in group.members) if group.uniform else group.spec


def group_layers(layers: Sequence[Layers], rules: KvRules, *, hybrid_manager: bool, packed: bool) -> Grouping:
    """`packed`: the KV layout is block-outermost (0.29+)."""
    if not layers:
        return Grouping(())
    notes: list[str] = []
    if not hybrid_manager:
        promoted = promote(layers, rules)
        if [p.spec for p in promoted] != [p.spec for p in layers]:
            notes.append("the hybrid KV cache manager is off: sliding-window layers keep blocks for all tokens")
        layers = promoted
    specs = [m.spec for m in layers]
    if merges(specs, rules):
        return Grouping((Group(tuple(layers)),), tuple(notes))
    if is_uniform_type(specs, rules):
        return Grouping((Group(tuple(layers), True),), tuple(notes))
    mixed = len({s.page for s in specs}) > 1
    if rules.packing == "dsv4" and mixed and any(s.kind == "sliding_window_mla" for s in specs):
        return Grouping(_deepseek_v4(layers, rules), tuple(notes))
    if rules.packing == "packed" and mixed and packed:
        return Grouping(_packed(layers, rules), tuple(notes))
    try:
        unified = _unify_pages(layers, rules)
    except Refused:
        fallback = _full_allocation(layers, rules)
        if fallback is None:
            raise
        notes.append("pages cannot be unified: sliding-window layers keep blocks for all tokens")
        return Grouping((fallback,), tuple(notes))
    return Grouping(_same_page_groups(unified, rules), tuple(notes))


def promote(layers: Sequence[Layers], rules: KvRules) -> list[Layers]:
    """`unify_hybrid_kv_cache_specs`: local layers are given blocks for all tokens where full layers exist."""
    specs = [m.spec for m in layers]
    local = any(s.is_sliding or s.kind == "chunked_local" for s in specs)
    if any(s.is_full for s in specs) and local:
        layers = _fuse([replace(m, spec=_promoted(m.spec, specs, rules)) for m in layers])
    specs = [m.spec for m in layers]
    if not (merges(specs, rules) or is_uniform_type(specs, rules)):
        raise Refused("ValueError", rules.not_promoted)
    return list(layers)


def _promoted(spec: Spec, specs: Sequence[Spec], rules: KvRules) -> Spec:
    if not (spec.is_sliding or spec.kind == "chunked_local"):
        return spec
    blocks = {s.block_size for s in specs if s.is_full}
    block = (
        blocks.pop()
        if len(blocks) == 1 and (rules.promote == "block" or spec.kind == "sliding_window_mla")
        else spec.block_size
    )
    padded = spec.padded and max(spec.padded, spec.unpadded * block // spec.block_size)
    kind: str = "mla" if spec.kind == "sliding_window_mla" else "full"
    window = 0 if kind == "mla" else spec.window
    strided = spec.strided and not rules.merge_strided
    return replace(spec, kind=kind, block_size=block, padded=padded, window=window, extra_retained=0, strided=strided)


def _fuse(layers: Sequence[Layers]) -> list[Layers]:
    """Entries whose specs have become equal become one."""
    fused: dict[Spec, Layers] = {}
    for member in layers:
        seen = fused.get(member.spec)
        counts = (
            member.counts if seen is None else tuple(a + b for a, b in zip(seen.counts, member.counts, strict=True))
        )
        fused[member.spec] = Layers(member.spec, counts, (seen or member).name)
    return list(fused.values())


def _full_allocation(layers: Sequence[Layers], rules: KvRules) -> Group | None:
    """`_try_get_full_allocation_fallback_groups` (0.27+): MLA beside a plain sliding-window drafter."""
    kinds = {m.spec.kind for m in layers}
    if rules.promote != "block" or kinds & {"sliding_window_mla", "chunked_local"}:
        return None
    if not {"mla", "sliding_window"} <= kinds:
        return None
    try:
        promoted = promote(layers, rules)
    except Refused:
        return None
    return Group(tuple(promoted), True) if is_uniform_type([m.spec for m in promoted], rules) else None


def _unify_pages(layers: Sequence[Layers], rules: KvRules) -> list[Layers]:
    """`unify_kv_cache_spec_page_size`: smaller pages get larger blocks, or are padded where that does not divide."""
    largest = max(m.spec.page for m in layers)
    return _fuse([replace(m, spec=_unified(m, largest, rules)) for m in layers])


def _unified(layers: Layers, largest: int, rules: KvRules) -> Spec:
    spec = layers.spec
    if spec.page == largest:
        return spec
    if rules.unify == "none":
        raise Refused("NotImplementedError", "")
    if spec.kind == "mamba" and rules.unify in ("mamba_pad", "pad"):
        return replace(spec, padded=largest)
    if largest % spec.page == 0:
        scaled = replace(spec, block_size=spec.block_size * (largest // spec.page))
        if scaled.page != largest:  # a padded page or a state does not grow with its block: vLLM asserts
            raise Refused("AssertionError", "")
        return scaled
    attention = spec.kind not in ("mamba", "mla")
    if rules.unify == "pad" and attention:
        return replace(spec, padded=largest)
    if rules.unify in ("stride_pad", "mamba_pad") and spec.kind != "mamba" and spec.strided:
        return replace(spec, padded=largest)
    raise Refused("NotImplementedError", rules.not_unified.format(layer=layers.name))


def _same_page_groups(layers: Sequence[Layers], rules: KvRules) -> tuple[Group, ...]:
    """`_get_kv_cache_groups_uniform_page_size`: what does not divide is padded with layers that are not there."""
    buckets: list[list[Layers]] = []
    for member in layers:
        home = next((b for b in buckets if rules.merge_buckets and _joins(b, member, rules)), None)
        if home is None:
            buckets.append([member])
        else:
            home.append(member)
    totals = [sum(member.total for member in bucket) for bucket in buckets]
    size = min(totals)
    if max(totals) < size * rules.group_ratio:
        size = max(totals)
    hands = (_deal(bucket, cdiv(total, size)) for bucket, total in zip(buckets, totals, strict=True))
    return tuple(Group(members) for hand in hands for members in hand)


def _joins(bucket: Sequence[Layers], layers: Layers, rules: KvRules) -> bool:
    try:
        return merges([*(b.spec for b in bucket), layers.spec], rules)
    except Refused:
        return False


def _deal(bucket: Sequence[Layers], n: int) -> list[tuple[Layers, ...]]:
    """`layers[i::n]` for i < n, over the bucket's layers in order (spec by spec, stage by stage)."""
    if n == 1:
        return [tuple(bucket)]
    hands: list[list[Layers]] = [[] for _ in range(n)]
    at = 0
    for member in bucket:
        counts = [[0] * len(member.counts) for _ in range(n)]
        for stage, count in enumerate(member.counts):
            for i in range(n):
                first = (i - at) % n
                counts[i][stage] = cdiv(count - first, n) if count > first else 0
            at += count
        for i in range(n):
            hands[i].append(Layers(member.spec, tuple(counts[i]), member.name))
    return [tuple(h for h in hand if h.total) or tuple(hand[:1]) for hand in hands]


def _by_page(bucket: Sequence[Layers]) -> dict[int, list[Layers]]:
    return grouped(bucket, lambda member: member.spec.page)


def _tuples(bucket: Sequence[Layers]) -> int:
    """`get_num_layer_tuples`: layers of the commonest page size."""
    return max(sum(m.total for m in members) for members in _by_page(bucket).values())


def _repeats(values: Sequence[int], lower: int) -> int:
    """`_approximate_gcd`: the chunk that pads least; ties go to the larger."""
    best, least = max(1, lower), -1
    for divisor in range(max(1, lower), max(values) + 1):
        pad = sum(-x % divisor for x in values)
        if least < 0 or pad <= least:
            best, least = divisor, pad
    return best


def _deal_tuples(bucket: Sequence[Layers], n: int) -> list[Group]:
    """Layers of every page size dealt out in step (`zip(*layers_per_size.values())`)."""
    hands: list[list[Layers]] = [[] for _ in range(n)]
    for members in _by_page(bucket).values():
        for i, dealt in enumerate(_deal(members, n)):
            hands[i] += dealt
    return [Group(tuple(hand), True) for hand in hands]


def _deepseek_v4(layers: Sequence[Layers], rules: KvRules) -> tuple[Group, ...]:
    """`group_and_unify_kv_cache_specs` + `_get_kv_cache_groups_uniform_groups` (0.20-0.28)."""
    full = [member for member in layers if member.spec.kind == "mla"]
    if not full:
        raise Refused("AssertionError", "")
    if not is_uniform_type([member.spec for member in full], rules):
        raise Refused("AssertionError", "")
    windowed = (member for member in layers if member.spec.kind == "sliding_window_mla")
    sliding = grouped(windowed, lambda member: (member.spec.block_size, member.spec.window))
    size = _repeats([_tuples(full), *map(_tuples, sliding.values())], _tuples(full))
    pages = sorted({member.spec.page for member in full})
    groups = [Group(tuple(full), True)]
    for bucket in sliding.values():
        if rules.block_bytes in ("tuples", "slots"):  # 0.27 packs by offset and no longer pads to a full page
            if max(member.spec.page for member in bucket) > pages[-1]:
                raise Refused("AssertionError", "")
            bucket = [_padded_up(member, pages) for member in bucket]
        if len({sum(member.total for member in ms) for ms in _by_page(bucket).values()}) != 1:
            raise Refused("AssertionError", "")
        groups += _deal_tuples(bucket, cdiv(_tuples(bucket), size))
    return tuple(groups)


def _padded_up(layers: Layers, pages: Sequence[int]) -> Layers:
    page = next(p for p in pages if p >= layers.spec.page)
    return layers if page == layers.spec.page else replace(layers, spec=replace(layers.spec, padded=page))


def _packed(layers: Sequence[Layers], rules: KvRules) -> tuple[Group, ...]:
    """`_get_packed_kv_cache_groups` (0.29+)."""
    buckets: list[list[Layers]] = []
    for member in layers:
        home = next((b for b in buckets if is_uniform_type([*(x.spec for x in b), member.spec], rules)), None)
        if home is None:
            buckets.append([member])
        else:
            home.append(member)

    def balanced(bucket: Sequence[Layers]) -> bool:
        return len({sum(member.total for member in ms) for ms in _by_page(bucket).values()}) == 1

    floor = max((_tuples(b) for b in buckets if balanced(b) and len(_by_page(b)) > 1), default=0)
    repeats = _repeats([_tuples(b) for b in buckets if balanced(b)], floor) if floor else 0

    def is_state(bucket: Sequence[Layers]) -> bool:
        first = bucket[0].spec
        if first.kind == "mamba":
            return True
        return rules.packed_state_buckets and not repeats and first.is_sliding

    def splits(bucket: Sequence[Layers]) -> int:
        return cdiv(_tuples(bucket), repeats) if repeats and balanced(bucket) else 1

    def widest(bucket: Sequence[Layers]) -> int:
        n = sum(member.total for member in bucket) if is_state(bucket) else splits(bucket)
        return sum(cdiv(sum(member.total for member in ms), n) * page for page, ms in _by_page(bucket).items())

    anchor = max(map(widest, buckets))
    groups: list[Group] = []
    for bucket in buckets:
        n = splits(bucket)
        if is_state(bucket):
            n = max(n, cdiv(sum(member.total for member in bucket), max(anchor // bucket[0].spec.page, 1)))
        groups += [Group(tuple(bucket), True)] if n == 1 else _deal_tuples(bucket, n)
    return tuple(groups)


def bytes_per_block(groups: Sequence[Group], rule: str, stage: int | None, *, block_outermost: bool = False) -> int:
    """Bytes that one block id takes over all tensors of a stage."""
    if len(groups) > 1 and all(group.uniform for group in groups):
        if rule == "tuples":
            pages = {member.spec.page for member in groups[0].members}
            return sum(pages) * max(_stage_tuples(group, stage) for group in groups)
        if rule == "slots":
            slots: dict[int, int] = {}
            for group in groups:
                for page, ms in _by_page(group.members).items():
                    slots[page] = max(slots.get(page, 0), sum(_count(member, stage) for member in ms))
            return sum(page * n for page, n in slots.items())
    if rule != "aligned":
        return max(group.pages(stage) for group in groups)
    alignments = [member.spec.stride_alignment for group in groups for member in group.members]
    if block_outermost:
        step = math.lcm(*alignments)
        return cdiv(max(group.pages(stage) for group in groups), step) * step
    return max(
        sum(
            cdiv(member.spec.page, member.spec.stride_alignment) * member.spec.stride_alignment * _count(member, stage)
            for member in group.members
        )
        for group in groups
    )


def _count(layers: Layers, stage: int | None) -> int:
    return layers.total if stage is None else layers.counts[stage]


def _stage_tuples(group: Group, stage: int | None) -> int:
    return max(sum(_count(m, stage) for m in ms) for ms in _by_page(group.members).values())
