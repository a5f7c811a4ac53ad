"""The shapes in JSON of what is searched for: the best flags, models and cards, and one change at a time."""

from typing import Any

from msgspec import UNSET, Struct, UnsetType

from oomph.report.contract.plan import JudgedOutput, PlanOutput
from oomph.search.longer import Longer
from oomph.search.picks import Other
from oomph.search.prices import Against


class GpuOutput(Struct, frozen=True):
    name: str
    total_bytes: int
    used_bytes: int


class AskedOutput(Struct, frozen=True):
    context: int | None
    users: int | None
    prefer: str | UnsetType | None = UNSET


class AnswerOutput(Struct, frozen=True):
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
    tokens_per_second: float | None  # of one user; null: nobody knows how fast the card is
    tokens_per_second_all: float | None  # of all users together
    tokens_per_second_each: float | None  # of each of the users that were asked for
    first_token_seconds: float | None
    speed_within_factor: float | None  # nine of ten published speeds were so near
    plan: PlanOutput | UnsetType = UNSET  # of the pick


class NeighbourOutput(Struct, frozen=True):
    change: str
    why: str


class RefusedOutput(Struct, frozen=True):
    checkpoint: str
    why: str


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
    neighbours: list[NeighbourOutput]  # why each step further fails
    refused: list[RefusedOutput]
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


class ModelPickOutput(Struct, frozen=True):
    """One model that runs on these GPUs, with the variant that serves it best."""

    model: str
    checkpoint: str
    quantization: str
    engine: str
    context: int  # tokens of one request that each user really gets
    users: int
    users_held: int  # requests of that context that the cache holds at the least
    tokens_per_second: float | None  # of one user, computed; null: nobody knows how fast this card is
    tokens_per_second_all: float | None
    first_token_seconds: float | None
    prompt_tokens: int | None
    speed_within_factor: float | None  # how far such speeds were off
    quality: dict[str, Any]
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


class CardOutput(Struct, frozen=True):
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
    tokens_per_second: float | None  # of one user; null: nobody knows how fast the card is
    tokens_per_second_all: float | None  # of the asked users together
    first_token_seconds: float | None
    speed_within_factor: float | None  # nine of ten published speeds were so near
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
