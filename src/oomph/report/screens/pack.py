"""Several services on one machine, for people and for programs."""

from msgspec.structs import replace

from oomph.commands import to_shell, without_secrets
from oomph.ir import Deployment
from oomph.pack.pack import Packed, Placed
from oomph.report.answer import (
    Answer,
    Cell,
    Column,
    Facts,
    Heading,
    Notes,
    Paragraph,
    Row,
    Shares,
    Table,
    Verdict,
    picked_for,
)
from oomph.report.screens.plan_words import gpus_line
from oomph.units import gib

_WORDS = {"fits": "FITS", "at_risk": "STARTS, AT RISK", "close": "TOO CLOSE TO CALL", "fails": "DOES NOT FIT"}


def answer(packed: Packed) -> Answer:
    count = len(packed.placed)
    of = f" of the {gib(packed.ram_bytes)} there are" if packed.ram_bytes else ""
    host = f"{gib(packed.host_bytes)}{of}, all services together"
    return Answer(
        "pack",
        Heading(f"{count} services" if count else "several services", (gpus_line(packed.cards),)),
        Verdict(_WORDS[packed.outcome], packed.outcome, _summary(packed)),
        (
            Paragraph("Why", packed.reasons),
            *((Shares(_shares(packed)), _starts(packed), Facts((("Host", host),))) if packed.placed else ()),
            Notes((_method(packed), *packed.notes)),
            *([picked_for(packed.measure)] if packed.placed and not packed.as_written else []),
        ),
    )


def _summary(packed: Packed) -> str:
    if not packed.placed:
        return "no placement, order and shares hold all of them"
    how = "as they are written" if packed.as_written else "with the shares below"
    return f"all of them {how}, started in this order"


def _shares(packed: Packed) -> tuple[tuple[int, tuple[tuple[str, int], ...]], ...]:
    """Of each card: its memory, and who holds how much of it."""
    cards = []
    for number, card in enumerate(packed.cards):
        others = [("others", card.used_bytes)] if card.used_bytes else []
        parts = [(each.name, each.bytes_per_card) for each in packed.placed if number in each.cards]
        cards.append((card.total_bytes, (*others, *parts)))
    return tuple(cards)


def _starts(packed: Packed) -> Table:
    columns = (Column("", 2), Column("start in this order", 22, gap=" "), Column("", gap="  "))
    rows = tuple(_row(each) for each in packed.placed)
    return Table("Start in this order", columns, rows, button="Plan", sorts=False)


def _row(each: Placed) -> Row:
    command = to_shell(without_cards(each))
    where = f"GPU {', '.join(map(str, each.cards))}: {_detail(each)}"
    return Row((f"{each.place + 1}.", Cell(each.name, tone="bold"), where), below=(command,), command=command)


def _detail(each: Placed) -> str:
    kv, text = each.plan.kv, f"{gib(each.bytes_per_card)} per GPU"
    if each.asleep:
        return f"{text} asleep"
    if kv is not None and kv.groups:
        text += f", {kv.logged_tokens:,} tokens of KV cache, {kv.max_concurrency:.2f} requests at once"
    if each.share and each.share != each.written_share:
        text += f"; a share of {each.share:g} instead of {each.written_share:g}"
    if each.outcome != "fits":
        text += f"; {each.outcome.replace('_', ' ')}: {each.plan.verdict.risk or each.plan.verdict.first_to_break}"
    return text


def without_cards(each: Placed) -> Deployment:
    """The command to start: no secret in it, and the cards that it may see."""
    visible = {k: v for k, v in each.deployment.environment.items() if k == "CUDA_VISIBLE_DEVICES"}
    return replace(without_secrets(each.deployment), environment=visible)


def _method(packed: Packed) -> str:
    if packed.interrupted:
        return "stopped before every share was tried: these are the best so far"
    if not packed.method:
        return "nothing was searched: each service has to start alone first"
    who = "by OR-Tools CP-SAT" if packed.method == "CP-SAT" else "by a plain search"
    if packed.outcome == "close" and not packed.as_written:
        return f"{who}: no shares hold for certain"
    if packed.proven:
        return f"{who}: {_proof(packed)}"
    if packed.method == "CP-SAT":
        return f"{who}: time ran out, better may exist"
    return f"{who}: not every choice was tried, better may exist; pip install 'oomph[pack]' brings OR-Tools"


def _proof(packed: Packed) -> str:
    if not packed.placed:
        return "every placement and order of the least shares was tried"
    return "no share has to change" if packed.as_written else "nothing better exists by this measure"
