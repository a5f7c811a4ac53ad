"""The shapes in JSON of what is searched for, and what makes them: flags, models, cards, and one change at a time."""

from collections.abc import Iterable
from typing import Any

from msgspec import UNSET, Struct, UnsetType, structs

from oomph.advice.what_if import WhatIf
from oomph.commands import to_command
from oomph.ir import Device
from oomph.report.contract.plan import SCHEMA, JudgedOutput, PlanOutput, judged_output, plan_output
from oomph.search.cards import Card, Cards
from oomph.search.fit import Configuration, Fit
from oomph.search.longer import Longer
from oomph.search.models import Models
from oomph.search.neighbours import Neighbour
from oomph.search.picks import Other, Pick
from oomph.search.prices import Against
from oomph.search.quality import Quality
from oomph.search.request import Refused
from oomph.simulate.speed import Speed


class GpuOutput(Struct, frozen=True):
    name: str
    total_bytes: int
    used_bytes: int


class AskedOutput(Struct, frozen=True):
    context: int | None
    users: int | None
    prefer: str | UnsetType | None = UNSET


class Rates(Struct, frozen=True, kw_only=True):
    """How fast it is, computed; null: nobody knows how fast the card is."""

    tokens_per_second: float | None  # of one user
    tokens_per_second_all: float | None  # of all users together
    first_token_seconds: float | None
    speed_within_factor: float | None  # nine of ten published speeds were so near


class AnswerOutput(Rates, frozen=True, kw_only=True):
    """One configuration that serves."""

    checkpoint: str
    precision: str  # of most of its weights
    context: int
    users: int
    quality_loss: float  # an order, not a measure
    relative_speed: float  # 1.0 is the fastest of the front
    gives_up: list[str]
    gpus: int
    flags: dict[str, Any]
    command: str
    args: list[str]
    kv_tokens: int
    concurrency: float
    concurrency_at_worst: float
    tokens_per_second_each: float | None  # of each of the users that were asked for
    plan: PlanOutput | UnsetType = UNSET  # of the pick


class FitOutput(Struct, frozen=True):
    """`oomph fit --json`."""

    schema: int
    model: str
    gpus: list[GpuOutput]
    asked: AskedOutput
    met: bool  # the context and users asked for are there
    close: bool  # what was asked for is too close to call
    pick: AnswerOutput | None
    front: list[AnswerOutput]  # nothing is better in every respect
    nearest: list[AnswerOutput]  # where it is not met
    neighbours: list[Neighbour]  # why each step further fails
    refused: list[Refused]
    plans: int  # how many plans the search took
    notes: list[str]
    objective: str  # the order by which the pick is the best
    longest_context: int | None  # tokens that the model takes
    longer: Longer | None  # a command for a context beyond that


class ModelsAskedOutput(Struct, frozen=True, rename={"purpose": "for"}):
    purpose: str
    context: int | None
    users: int
    prefer: str


class ModelPickOutput(Rates, frozen=True, kw_only=True):
    """One model that runs on these GPUs, with the variant that serves it best."""

    model: str
    checkpoint: str
    quantization: str
    engine: str
    context: int  # tokens of one request that each user really gets
    users: int
    users_held: int  # requests of that context that the cache holds at the least
    prompt_tokens: int | None
    quality: Quality
    room_bytes: int  # on the tightest GPU in its tightest stage, at the unfavourable end of every interval
    parameters: int
    active_parameters: int
    date: str | None
    licence: str | None
    command: str
    args: list[str]
    outcome: str
    traded: str  # what was given up for what
    others: list[Other]


class ModelsOutput(Struct, frozen=True):
    """`oomph models --json`."""

    schema: int
    gpus: list[GpuOutput]
    asked: ModelsAskedOutput
    least_context: int
    why: str  # the first line, explained in one sentence
    picks: list[ModelPickOutput]
    looked_at: int
    possible: int
    plans: int
    more: bool  # further models fit
    interrupted: bool
    objective: str  # the order of the lines
    notes: list[str]


class CardOutput(Rates, frozen=True, kw_only=True):
    """So many of one card, and the best checkpoint that they serve."""

    gpu: str
    count: int
    memory_bytes: int  # of all together
    price: float | None
    checkpoint: str
    command: str
    headroom_bytes: int  # on the fullest GPU, at the unfavourable end of every interval
    users: int
    longest_context: int
    kv_tokens: int
    engine: str
    instances: list[str]  # of clouds
    step: str  # what it buys beside the line before it


class PricesOutput(Struct, frozen=True):
    date: str
    source: str
    unit: str  # card, or hour


class CardsOutput(Struct, frozen=True):
    """`oomph gpus MODEL --json`."""

    schema: int
    model: str
    asked: AskedOutput
    cards: list[CardOutput]
    more: bool  # there are more expensive ones
    plans: int
    sort: str
    prices: PricesOutput | None
    against_api: Against | None  # the first line beside --api-price
    interrupted: bool
    objective: str  # the order by which each line is the best


class WhatIfRowOutput(JudgedOutput, frozen=True, kw_only=True):
    label: str  # as it is typed, the same as `change`
    tokens_change: int | None  # null: the change is refused
    advised: bool  # one of the fixes that guides list


class WhatIfOutput(Struct, frozen=True):
    """`oomph what-if --json`."""

    schema: int
    binding: str  # the stage that decides, or "KV cache"
    rows: list[WhatIfRowOutput]
    plan: PlanOutput


def _gpus(devices: Iterable[Device]) -> list[GpuOutput]:
    return [GpuOutput(device.name, device.total_bytes, device.used_bytes) for device in devices]


def _rates(speed: Speed | None) -> dict[str, Any]:
    if speed is None:
        return dict.fromkeys(Rates.__struct_fields__)
    figures = (round(speed.one_user, 1), round(speed.all_users, 1), round(speed.first_token_seconds, 3), speed.factor)
    return dict(zip(Rates.__struct_fields__, figures))


def fit_output(fit: Fit) -> FitOutput:
    want = fit.want
    return FitOutput(
        schema=SCHEMA,
        model=fit.model,
        gpus=_gpus(fit.gpus),
        asked=AskedOutput(want.context or None, want.users or None, want.prefer or None),
        met=fit.met,
        close=fit.close,
        pick=None if fit.pick is None else structs.replace(_configuration(fit.pick), plan=plan_output(fit.pick.plan)),
        front=[_configuration(each) for each in fit.front],
        nearest=[_configuration(each) for each in fit.nearest],
        neighbours=list(fit.neighbours),
        refused=list(fit.refused),
        plans=fit.plans,
        notes=list(fit.notes),
        objective=fit.objective,
        longest_context=fit.longest or None,
        longer=fit.longer,
    )


def _configuration(each: Configuration) -> AnswerOutput:
    point, kv, speed = each.point, each.plan.kv, each.speed
    return AnswerOutput(
        checkpoint=point.arm.model,
        precision=each.precision,
        context=point.context,
        users=point.users,
        quality_loss=point.quality,
        relative_speed=each.relative_speed,
        gives_up=list(each.gives_up),
        gpus=point.arm.layout.gpus,
        flags=each.plan.deployment.flags,
        command=each.command,
        args=to_command(each.plan.deployment),
        kv_tokens=kv.logged_tokens if kv else 0,
        concurrency=kv.max_concurrency if kv else 0.0,
        concurrency_at_worst=point.concurrency,
        tokens_per_second_each=round(speed.all_users / speed.users, 1) if speed else None,
        **_rates(speed),
    )


def models_output(answer: Models) -> ModelsOutput:
    return ModelsOutput(
        schema=SCHEMA,
        gpus=_gpus(answer.gpus),
        asked=ModelsAskedOutput(
            answer.purpose, answer.context if answer.context_asked else None, answer.users, answer.prefer
        ),
        least_context=answer.context,
        why=answer.why,
        picks=[_pick(pick) for pick in answer.picks],
        looked_at=answer.looked_at,
        possible=answer.possible,
        plans=answer.plans,
        more=answer.more,
        interrupted=answer.interrupted,
        objective=answer.objective,
        notes=list(answer.notes),
    )


def _pick(pick: Pick) -> ModelPickOutput:
    return ModelPickOutput(
        model=pick.model,
        checkpoint=pick.checkpoint,
        quantization=pick.quantization,
        engine=pick.engine,
        context=pick.context,
        users=pick.users,
        users_held=pick.capacity,
        prompt_tokens=pick.speed.prompt if pick.speed else None,
        quality=pick.quality,
        room_bytes=pick.room_bytes,
        parameters=pick.parameters,
        active_parameters=pick.active,
        date=pick.date or None,
        licence=pick.licence or None,
        command=pick.command,
        args=to_command(pick.plan.deployment),
        outcome=pick.plan.verdict.outcome,
        traded=pick.traded,
        others=list(pick.others),
        **_rates(pick.speed),
    )


def cards_output(result: Cards) -> CardsOutput:
    wish = AskedOutput(result.want.context, result.want.users)
    prices = result.prices
    return CardsOutput(
        schema=SCHEMA, model=result.model, asked=wish, cards=[_card(c) for c in result.cards], more=result.more,
        plans=result.plans, sort=result.sort,
        prices=PricesOutput(prices.date, prices.source, prices.unit) if prices is not None else None,
        against_api=result.against, interrupted=result.interrupted,
        objective=result.objective,
    )  # fmt: skip


def _card(card: Card) -> CardOutput:
    return CardOutput(
        gpu=card.name,
        count=card.count,
        memory_bytes=card.memory_bytes,
        price=card.price,
        checkpoint=card.checkpoint,
        command=card.command,
        headroom_bytes=card.headroom_bytes,
        users=card.users,
        longest_context=card.longest,
        kv_tokens=card.plan.kv.logged_tokens if card.plan.kv else 0,
        engine=card.engine,
        instances=list(card.instances),
        step=card.step,
        **_rates(card.speed),
    )


def what_if_output(table: WhatIf) -> WhatIfOutput:
    rows = [
        WhatIfRowOutput(
            **structs.asdict(judged_output(row.judged)),
            label=row.label,
            tokens_change=row.tokens_change,
            advised=row.advised,
        )
        for row in table.rows
    ]
    return WhatIfOutput(SCHEMA, table.binding, rows, plan_output(table.plan))
