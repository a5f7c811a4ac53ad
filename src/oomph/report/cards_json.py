"""Cards as JSON (report/contract_searches.py)."""

from __future__ import annotations

from typing import Any

from msgspec import to_builtins

from oomph.report.contract import SCHEMA
from oomph.report.contract_searches import AskedOutput, CardOutput, CardsOutput, PricesOutput
from oomph.search.cards import Card, Cards


def cards_json(result: Cards) -> dict[str, Any]:
    wish = AskedOutput(result.want.context, result.want.users)
    known = result.prices
    output = CardsOutput(
        schema=SCHEMA, model=result.model, asked=wish, cards=[_card(c) for c in result.cards], more=result.more,
        plans=result.plans, sort=result.sort,
        prices=PricesOutput(known.date, known.source, known.unit) if known is not None else None,
        against_api=result.against, interrupted=result.interrupted,
    )  # fmt: skip
    plain: dict[str, Any] = to_builtins(output)
    return plain


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
        tokens_per_second=round(card.speed.one_user, 1) if card.speed else None,
        tokens_per_second_all=round(card.speed.all_users, 1) if card.speed else None,
        first_token_seconds=round(card.speed.first_token_seconds, 3) if card.speed else None,
        speed_within_factor=card.speed.factor if card.speed else None,
        instances=list(card.instances),
        step=card.step,
    )
