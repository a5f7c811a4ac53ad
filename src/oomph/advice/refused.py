"""The way out of a refusal: what an engine does not start with is searched and planned like any other advice.

Nearest first: what the engine's own words name, another layout, another checkpoint of the model, the command without
one of its flags, another release; then the same with what the memory needs besides, and last other cards.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, product
from math import prod
from typing import Any

from msgspec.structs import replace

from oomph.advice.advise import advise
from oomph.advice.judge import Judge, price, together
from oomph.engines.protocol import EngineProtocol
from oomph.engines.registry import all_engines, engine_of, right_image
from oomph.facts.gpus import find as find_card
from oomph.ir import MOST_GPUS, Advice, Change, Deployment, Experts, Judged, Lever, Model, Plan
from oomph.ir.world import fewer_ranks, shortage, visible
from oomph.sources.place import repositories_like, unknown_to_the_hub
from oomph.units import gib

_ENOUGH = 3  # answers
_MOST_SISTERS = 5
_MOST_BEHIND = 4  # refusals one behind the other
_MOST_CHAINED = 3  # changes that are looked at again for what their memory needs
_NAMING = ("program", "model", "hf_repo", "hf_file", "model_url")  # llama.cpp names its model by a flag
_OF_A_CHECKPOINT = ("quantization", "load_format", "dtype")  # flags that were for the checkpoint that is left


def refusal_advice(judge: Judge, model: Model | None, memory_levers: Callable[[Plan], Iterable[Lever]]) -> Advice:
    """`model`: the checkpoint, where it could be read; `memory_levers`: the engine's table for a plan with ranks."""
    plan = judge.before
    engine = engine_of(plan.deployment)
    fixes: list[Judged] = []
    helps: list[Judged] = []
    for group in _groups(plan, engine, model):
        tried = [judge.judge(change) for change in group]
        if not _fixes(tried):
            tried += _behind(judge, tried)
        fixes = _fixes(tried) or list(_with_memory(judge, tried, memory_levers))
        helps += [judged for judged in tried if judged.effect == "helps"]
        if fixes:
            break
    if not fixes and not unknown_to_the_hub(plan.deployment.model):
        fixes = list(_elsewhere(judge, engine, model))
    distinct: dict[str, Judged] = {}
    for judged in sorted(fixes, key=price):  # of releases the newest that will do
        change = judged.change
        distinct.setdefault(f"release {change.engine}" if change.version else change.label, judged)
    cheapest = _without_surplus(list(distinct.values()))[:_ENOUGH]
    return Advice(_why(plan, engine), tuple(cheapest), tuple(helps[:_ENOUGH]))


def _without_surplus(fixes: list[Judged]) -> list[Judged]:
    """YaRN is of no use beside a context that the model has by itself."""

    def needs_all(judged: Judged) -> bool:
        own = judged.change.flags.items()
        others = (other.change for other in fixes if other is not judged and not other.change.model)
        return not any(
            other.flags and not (other.gpus or other.version) and other.flags.items() < own for other in others
        )

    return [judged for judged in fixes if needs_all(judged)]


def _fixes(judged: Iterable[Judged]) -> list[Judged]:
    return [one for one in judged if one.effect == "fixes"]


def _why(plan: Plan, engine: EngineProtocol) -> tuple[str, ...]:
    short = shortage(engine.world(plan.deployment), plan.deployment.gpus) if plan.deployment.gpus else None
    if plan.verdict.refusal != "gpus" or short is None:
        return ()
    there = "1 GPU is" if short.gpus == 1 else f"{short.gpus} GPUs are"
    if len(visible(plan.deployment.gpus)) < len(plan.deployment.gpus):
        return (f"The command starts {short.ranks} worker processes, and CUDA shows them one MIG slice only.",)
    if short.reach:
        return (f"The command puts its last worker process on GPU {short.reach - 1}, counted from 0; {there} named.",)
    return (f"The command starts {short.ranks} worker processes, each on a GPU of its own; {there} named.",)


def _groups(plan: Plan, engine: EngineProtocol, model: Model | None) -> Iterator[list[Change]]:
    """Changes that are tried together, until one group has an answer."""
    kind = plan.verdict.refusal
    named = [change for lever in engine.refusal_levers(plan) for change in lever.changes]
    if engine.asks_the_hub and unknown_to_the_hub(plan.deployment.model):
        yield [
            Change("model", name, "checkpoint", model=name, cost="its name on the hub", rank=rank)
            for rank, name in enumerate(repositories_like(plan.deployment.model))
        ]
        return
    if image := right_image(plan.deployment):
        card = plan.deployment.gpus[0].name
        yield [Change("image", f"image {image}", "release", image=image, cost=f"it has code for the {card}")]
    if kind == "gpus":
        yield list(_over_nodes(plan, engine))
        skips = engine.world(plan.deployment).reach > 0  # flags that leave GPUs out, which its words name
        placing = _without_flags(plan, named_only=True) if skips else ()
        yield [*placing, *_fewer(plan, engine), *_more_gpus(plan, engine)]
        return
    layouts, sisters = list(_layouts(plan, engine, model)), list(_sisters(plan, model))
    if kind == "context":
        named += _longer_sisters(plan)
    if kind == "format" and not any("quantization" in change.flags for change in named):
        named += [change for change in _without_flags(plan, named_only=True) if change.lever == "quantization"]
    yield [*sisters, *named] if "quantization" in plan.deployment.flags else named
    yield layouts if kind == "layout" else []
    yield [*_without_flags(plan, named_only=True), *sisters]
    yield list(_without_flags(plan, named_only=False))
    yield [*_releases(plan, engine)]
    yield layouts
    yield list(_engines(plan))
    yield [_bare(plan, engine)]


# ---- the changes -----------------------------------------------------------------------------------------------------


def label(deployment: Deployment, flags: dict[str, Any]) -> str:
    """Flags as they are typed; those that are taken away as "without" them."""
    from oomph.commands import to_command
    from oomph.commands.call import quote

    present = {field: value for field, value in flags.items() if value is not None}
    bare = to_command(replace(deployment, flags=_identity(deployment, {}), environment={}, passed=()))
    words = to_command(replace(deployment, flags=_identity(deployment, present), environment={}, passed=()))
    if words[:1] != bare[:1]:  # what only a file can say
        return ", ".join(f"{field}: {value}" for field, value in flags.items())
    dropped = {field: deployment.flags[field] for field, value in flags.items() if value is None}
    without = [f"without {label(deployment, {field: value})}" for field, value in dropped.items()]
    return " ".join([*map(quote, words[len(bare) :]), *without])


def _identity(deployment: Deployment, flags: dict[str, Any]) -> dict[str, Any]:
    """llama.cpp names its model by a flag: a command without one is no command."""
    own: dict[str, Any] = {field: deployment.flags[field] for field in _NAMING if field in deployment.flags}
    return {**own, **flags}


def _change(plan: Plan, flags: dict[str, Any], cost: str, rank: int = 0, **other: Any) -> Change:
    lever = next(iter(flags), "flags")
    return Change(lever, label(plan.deployment, flags), flags=flags, cost=cost, rank=rank, **other)


def _degrees(plan: Plan, engine: EngineProtocol) -> dict[str, int]:
    flags = plan.deployment.flags
    sizes = {field: flags.get(field) for field in engine.degrees}
    return {field: size if isinstance(size, int) and size > 0 else 1 for field, size in sizes.items()}


def _fewer(plan: Plan, engine: EngineProtocol) -> Iterator[Change]:
    """Fewer ranks, on the GPUs that there are."""
    short = shortage(engine.world(plan.deployment), plan.deployment.gpus)
    sizes = _degrees(plan, engine)
    there = short.gpus - short.left_out if short is not None else 0
    for rank, (field, degree) in enumerate(fewer_ranks(sizes, there)):
        cost = f"on the {there} GPUs there are" if there > 1 else "on one GPU"
        yield _change(plan, {field: degree if degree > 1 else None}, cost, rank, kind="layout")
        if degree > 1 and field not in (*_TENSOR, *_STAGES):  # a degree that another rule may refuse
            yield _change(plan, {field: None}, cost, rank + 10, kind="layout")


def _over_nodes(plan: Plan, engine: EngineProtocol) -> Iterator[Change]:
    """The GPUs are there, on several nodes, and the command does not say so."""
    gpus = plan.deployment.gpus
    nodes = len({device.node for device in gpus})
    flags = engine.node_flags(nodes)
    if nodes > 1 and flags and engine.world(plan.deployment).total <= len(gpus):
        yield _change(plan, flags, f"over {nodes} nodes, which are prepared for it", kind="layout")


def _more_gpus(plan: Plan, engine: EngineProtocol) -> Iterator[Change]:
    """A GPU for every rank; of further nodes like the one that is named, where the engine takes them from anywhere."""
    world, gpus = engine.world(plan.deployment), plan.deployment.gpus
    need, card = max(world.total, world.reach), gpus[0].name
    if need > MOST_GPUS:
        return
    if not world.here and need % len(gpus) == 0:
        more = tuple(replace(device, node=node) for node in range(need // len(gpus)) for device in gpus)
        words = f"on {need // len(gpus)} nodes of {len(gpus)} x {card}"
    else:
        more, words = (gpus * need)[:need], f"on {need} x {card}"
    yield Change("gpus", words, "hardware", gpus=more, cost=f"instead of {len(gpus)}")


def _layouts(plan: Plan, engine: EngineProtocol, model: Model | None) -> Iterator[Change]:
    """Whole experts instead of slices of them; other degrees of tensor parallelism, with stages for the other GPUs."""
    gpus, sizes = len(plan.deployment.gpus), _degrees(plan, engine)
    tensor = next((field for field in sizes if field in _TENSOR), "")
    stages = next((field for field in sizes if field in _STAGES), "")
    if not tensor:
        return
    degree = sizes[tensor]
    has_experts = model is not None and any(
        isinstance(module, Experts) for layer in model.layers for module in layer.block.modules
    )
    whole = engine.whole_experts(degree)
    if has_experts and whole and any(plan.deployment.flags.get(field) != value for field, value in whole.items()):
        yield _change(plan, whole, "whole experts on each GPU", 0, kind="layout")
    smaller = [n for n in (32, 16, 8, 6, 5, 4, 3, 2, 1) if n < degree]
    for rank, n in enumerate(smaller, 1):
        if stages and sizes[stages] == 1 and degree % n == 0 and degree // n > 1:
            flags = {tensor: n if n > 1 else None, stages: degree // n}
            yield _change(plan, flags, f"in {degree // n} stages", 20 + rank, kind="layout")
        yield _change(plan, {tensor: n if n > 1 else None}, f"on {n} of the {gpus} GPUs", rank, kind="layout")
    if stages and sizes[stages] > 1:
        wider = {stages: None, tensor: degree * sizes[stages]}
        yield _change(plan, wider, "in one stage", 8, kind="layout")
        yield _change(plan, {stages: None}, f"on {degree} of the {gpus} GPUs", 9, kind="layout")
    for rank, n in enumerate((n for n in (2, 4, 8) if degree < n <= gpus), 10):
        yield _change(plan, {tensor: n}, f"on {n} of the {gpus} GPUs", rank, kind="layout")


_TENSOR = ("tensor_parallel_size", "tp_size")
_STAGES = ("pipeline_parallel_size", "pp_size")


def _sisters(plan: Plan, model: Model | None) -> Iterator[Change]:
    """Other checkpoints of the model: those of the quantisation that the command asks for first, then the largest."""
    from oomph import catalog

    deployment = plan.deployment
    name = model.name if model is not None else deployment.model
    method = str(deployment.flags.get("quantization") or "").lower().partition("_")[0]
    entries = [entry for one in catalog.variants(name) if one != name and (entry := catalog.find(one)) is not None]
    entries.sort(key=lambda entry: (not method or method not in entry.id.lower(), -entry.bytes))
    dropped: dict[str, Any] = {field: None for field in _OF_A_CHECKPOINT if field in deployment.flags}
    for rank, entry in enumerate(entries[:_MOST_SISTERS]):
        cost = f"a download of {gib(entry.bytes)}" if entry.bytes else "another download"
        yield Change("checkpoint", entry.id, "checkpoint", dropped, model=entry.id, cost=cost, rank=rank)


def _longer_sisters(plan: Plan) -> Iterator[Change]:
    """Later models of the same maker, name and size that take the context: Qwen3-32B has none, Qwen3-235B-A22B has
    -Instruct-2507. Of the same quantisation first."""
    from oomph import catalog
    from oomph.catalog import names

    owner, _, name = plan.deployment.model.rpartition("/")
    context = max((value for value in plan.deployment.flags.values() if isinstance(value, int)), default=0)
    family, ending = names.family(name), name.lower().removeprefix(names.family(name))
    kin = [one for one in catalog.ids() if one.rpartition("/")[0] == owner and _is_later(one, family)]
    for rank, one in enumerate(sorted(kin, key=lambda one: not one.lower().endswith(ending))):
        entry = catalog.find(one)
        if entry is not None and int(entry.config.get("max_position_embeddings") or 0) >= context:
            cost = f"a download of {gib(entry.bytes)}" if entry.bytes else "another download"
            yield Change("checkpoint", one, "checkpoint", model=one, cost=cost, rank=rank)


def _is_later(model_id: str, family: str) -> bool:
    """Whether an id has a family's name with no more than a date or a kind behind it."""
    from oomph.catalog import names

    own = names.family(model_id)
    others = own.removeprefix(family).strip("-").split("-")
    return own.startswith(f"{family}-") and all(word in _LATER or re.fullmatch(r"\d{4}", word) for word in others)


_LATER = ("instruct", "thinking", "it", "chat", "1m")


def _without_flags(plan: Plan, *, named_only: bool) -> Iterator[Change]:
    """The command without one of its flags; those whose value or name the refusal has come first."""
    flags, message = plan.deployment.flags, plan.verdict.message.lower()
    engine = engine_of(plan.deployment)
    for field in engine.memory_flags(plan.deployment):
        if field in (*_TENSOR, *_STAGES, *_NAMING) or field not in flags:
            continue
        value = str(flags[field]).lower()
        is_named = field in message or field.replace("_", "-") in message or (len(value) > 2 and value in message)
        if is_named is named_only:
            yield _change(plan, {field: None}, f"{engine.title} chooses", 1)


def _releases(plan: Plan, engine: EngineProtocol) -> Iterator[Change]:
    """The newest, then the others from the newest on: what one refuses, an older one may still have."""
    releases = dict.fromkeys((engine.newest(), *reversed(engine.releases())))
    for rank, version in enumerate(filter(None, releases)):
        if version != plan.deployment.engine.version:
            yield _at_release(plan, engine, version, rank)


def _at_release(plan: Plan, engine: EngineProtocol, version: str, rank: int = 0) -> Change:
    """Without the flags that it lacks."""
    moved, lost = engine.at_release(plan.deployment, version)
    gone: dict[str, Any] = {field: None for field in plan.deployment.flags if field not in moved.flags}
    cost = "; ".join(("another release", *lost))
    return Change("release", f"{engine.title} {version}", "release", gone, version=version, cost=cost, rank=rank)


def _engines(plan: Plan) -> Iterator[Change]:
    """What no release of this engine has, another may: on the GPUs that there are, in slices as many as it takes."""
    count = len(plan.deployment.gpus) or 1
    for rank, other in enumerate(engine for engine in all_engines() if engine.name != plan.deployment.engine.name):
        tensor = next((field for field in other.degrees if field in _TENSOR), "")
        for size in dict.fromkeys((count, *(n for n in (8, 4, 2, 1) if n < count))) if tensor else ():
            flags = {tensor: size} if size > 1 else {}
            label = f"{other.title} {other.newest()}" + (f" on {size} of the GPUs" if size < count else "")
            cost = "another engine, at its own defaults"
            yield Change(
                "engine", label, "release", flags, version=other.newest(), engine=other.name, cost=cost, rank=rank
            )


_BARE = "without its flags"


def _bare(plan: Plan, engine: EngineProtocol, but: Sequence[str] = ()) -> Change:
    """None of the flags that decide memory, but those."""
    fields = [field for field in engine.memory_flags(plan.deployment) if field not in (*_NAMING, *but)]
    return Change("flags", _BARE, flags=dict.fromkeys(fields), cost=f"{engine.title} chooses", rank=9)


# ---- a refusal behind the refusal ------------------------------------------------------------------------------------


def _behind(judge: Judge, tried: Sequence[Judged]) -> Iterator[Judged]:
    """What ends a refusal may meet another: a release that has the model, and then wants a shorter context."""
    first = _without_figures(judge.before)
    refused = [
        judged for judged in tried if judged.effect == "refused" and not isinstance(judge.plan(judged.change), str)
    ]
    for judged in sorted(refused, key=price):
        change: Change | None = judged.change
        met = {first}
        for _ in range(_MOST_BEHIND):
            after = judge.plan(change) if change is not None else ""
            if change is None or isinstance(after, str) or _without_figures(after) in met:
                break
            if not after.verdict.refusal:
                yield (answer := judge.judge(change))
                if answer.effect == "fixes":
                    return
                break
            met.add(_without_figures(after))
            change = _next_step(judge, change, after, met)


def _next_step(judge: Judge, change: Change, after: Plan, met: set[str]) -> Change | None:
    """The change with the first thing that ends the refusal which it meets."""
    named = [own for lever in engine_of(after.deployment).refusal_levers(after) for own in lever.changes]
    steps = [together([change, own]) for own in (*named, *_without_flags(after, named_only=True))]
    plans = [(step, plan) for step in steps if not isinstance(plan := judge.plan(step), str)]
    fixing = (step for step, _ in plans if judge.fixes(step))
    return next(fixing, None) or next((step for step, plan in plans if _without_figures(plan) not in met), None)


def _without_figures(plan: Plan) -> str:
    """What it refuses: another release says the same with its own number."""
    return re.sub(r"[\d.]+", "", plan.verdict.message) if plan.verdict.refusal else ""


# ---- what does not start for its memory either -----------------------------------------------------------------------


def _with_memory(
    judge: Judge, tried: Sequence[Judged], memory_levers: Callable[[Plan], Iterable[Lever]]
) -> Iterator[Judged]:
    """A change that ends the refusal, with what its plan then needs; other checkpoints and cards have their turn."""
    starts = [judged for judged in tried if judged.effect in ("nothing", "helps")]
    for judged in sorted(starts, key=price)[:_MOST_CHAINED]:
        after = judge.plan(judged.change)
        if isinstance(after, str) or not after.ranks:
            continue
        advice = advise(judge.after(after), tuple(memory_levers(after)), ())
        fix = next((fix for fix in advice.fixes if not fix.change.model and not fix.change.gpus), None)
        if fix is None:
            continue
        answer = judge.judge(_as_typed(judge.before, together([judged.change, fix.change])))
        if answer.effect == "fixes":
            yield answer


def _as_typed(plan: Plan, change: Change) -> Change:
    """Two changes of the same flag are one: the later value."""
    if change.model or change.gpus or change.version or change.image or change.environment or _BARE in change.label:
        return change
    flags = {name: value for name, value in change.flags.items() if value is not None or name in plan.deployment.flags}
    return replace(change, label=label(plan.deployment, flags), flags=flags)


def _elsewhere(judge: Judge, engine: EngineProtocol, model: Model | None) -> Iterator[Judged]:
    """At most one answer: the first of other cards, more of them, the newest release and another checkpoint, the flags
    kept if they may."""
    plan = judge.before
    if not plan.deployment.gpus:
        return
    first = _without_figures(plan)
    releases = list(_releases(plan, engine))
    ending = islice((change for change in releases[1:] if _ends(judge, change, first)), 1)
    upgrade = [[change] for change in (*releases[:1], *ending)]
    plain = _bare(plan, engine, but=engine.degrees)
    bases = [[*flags, *release] for flags in ([], [plain], [_bare(plan, engine)]) for release in ([], *upgrade)]
    bases += [
        [*flags, sister, *release]
        for flags in ([], [plain])
        for sister in _sisters(plan, model)
        for release in ([], *upgrade)
    ]
    for spread in (_wider(plan, engine), _spread_anew(plan, engine)):
        for base, (flags, count) in product(bases, tuple(spread)):
            cards = [_on_cards(plan, name, count, flags) for name in _RENTED]
            if judge.fixes(together([*base, cards[-1]])):  # the largest
                yield judge.judge(next(answer for card in cards if judge.fixes(answer := together([*base, card]))))
                return


def _ends(judge: Judge, change: Change, refusal: str) -> bool:
    after = judge.plan(change)
    return not isinstance(after, str) and _without_figures(after) != refusal


def _counts(plan: Plan) -> list[int]:
    """As many as there are, then what one, two and four nodes have."""
    here = len(plan.deployment.gpus)
    return [count for count in dict.fromkeys((here, 8, 16, 32)) if count >= here]


def _wider(plan: Plan, engine: EngineProtocol) -> Iterator[tuple[dict[str, Any], int]]:
    """The command's own layout, in more slices where there are more cards."""
    sizes = _degrees(plan, engine)
    tensor = next((field for field in sizes if field in _TENSOR), "")
    ranks = prod(sizes.values()) or 1
    for count in _counts(plan):
        wider = tensor and count > ranks and count % ranks == 0
        yield ({tensor: sizes[tensor] * count // ranks} if wider else {}), count


def _spread_anew(plan: Plan, engine: EngineProtocol) -> Iterator[tuple[dict[str, Any], int]]:
    """In slices over a node, in stages over nodes."""
    fields = _degrees(plan, engine)
    tensor = next((field for field in fields if field in _TENSOR), "")
    stages = next((field for field in fields if field in _STAGES), "")
    for count in _counts(plan) if tensor and stages else ():
        if count <= 8 or count % 8 == 0:
            yield {tensor: min(8, count), stages: count // 8 if count > 8 else None}, count


def _on_cards(plan: Plan, name: str, count: int, flags: dict[str, Any]) -> Change:
    """Cards that people rent where theirs will not do."""
    gpus, card = plan.deployment.gpus, find_card(name).device()
    flags = {field: value for field, value in flags.items() if value is not None or field in plan.deployment.flags}
    words = f"on {count} x {card.name}" if count > 1 else f"on {card.name}"
    words = " ".join(filter(None, (words, label(plan.deployment, flags) if flags else "")))
    cost = f"instead of {len(gpus)} x {gpus[0].name}" if len(gpus) > 1 else f"instead of {gpus[0].name}"
    return Change("gpus", words, "hardware", flags, gpus=(card,) * count, cost=cost)


_RENTED = ("RTX 4090", "L40S", "A100 80GB", "H100", "H200", "B200", "B300")
