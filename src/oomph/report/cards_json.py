"""Cards as JSON (report/contract_answers.py)."""

from __future__ import annotations

from typing import Any

from msgspec import to_builtins

from oomph.report.contract import SCHEMA
from oomph.report.contract_answers import AskedOutput, CardOutput, CardsOutput
from oomph.search.cards import Card, Cards


def cards_json(result: Cards) -> dict[str, Any]:
    asked = AskedOutput(result.want.context, result.want.users)
    output = CardsOutput(SCHEMA, result.model, asked, [_card(c) for c in result.cards], result.more, result.plans)
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
    )
