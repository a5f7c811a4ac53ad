"""`oomph gpus [NAME]`: the GPUs that oomph knows, or which of them, and how many, a model needs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from oomph.errors import CommandError, InputError

if TYPE_CHECKING:
    from oomph.ir.hardware import Device


@click.command()
@click.argument("name", nargs=-1)
@click.option("--context", metavar="TOKENS", default="", help="With a model: tokens of one request. Default 8192.")
@click.option("--users", metavar="N", type=click.IntRange(1, 4096), help="With a model: requests at once. Default 1.")
@click.option("--prices", metavar="FILE", default="", help='Prices of cards: JSON, or lines such as "RTX 4090, 1599".')
@click.option("--card", metavar="CARD", multiple=True, help="With a model: this card only. Repeat it.")
@click.option("--only", is_flag=True, help="This checkpoint, not the others of the same model.")
@click.option("--text-only", is_flag=True, help="Images may be given up.")
@click.option("--engine", metavar="NAME==VERSION", default="", help="The engine: vllm==0.21.0, llamacpp.")
@click.option("--all", "show_all", is_flag=True, help="More expensive ones too.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON; bytes are integers.")
def command(
    name: tuple[str, ...], context: str, users: int | None, prices: str, card: tuple[str, ...], only: bool,
    text_only: bool, engine: str, show_all: bool, as_json: bool,
) -> int:  # fmt: skip
    """Which cards, and how many, a model needs; without a model, the GPUs that oomph knows.

    \b
    oomph gpus gpt-oss-120b --context 32k --users 4
    oomph gpus Qwen3.6-27B --prices prices.csv
    oomph gpus Qwen3-8B --engine llamacpp
    oomph gpus                       the cards, with the bytes that the driver really reports
    oomph gpus 5070                  those with 5070 in their name
    oomph gpus "2x RTX 5070 Ti"      what --gpu would take this for
    oomph gpus auto                  those of this machine
    """
    text = " ".join(name)
    searches = bool(context or users or prices or card or only or engine)
    if searches and not text:
        raise CommandError("no model to find cards for", hint="oomph gpus gpt-oss-120b --context 32k")
    if searches or _is_model(text):
        return _for_model(text, context, users, prices, card, only, text_only, engine, show_all, as_json)
    from oomph.ir.hardware import GpuList

    known = GpuList(_devices(text))
    sys.stdout.write(known.to_json(indent=2) + "\n" if as_json else known.text())
    return 0


def _for_model(
    model: str, context: str, users: int | None, prices: str, card: tuple[str, ...], only: bool, text_only: bool,
    engine: str, show_all: bool, as_json: bool,
) -> int:  # fmt: skip
    from oomph.search.cards import cards
    from oomph.search.request import Want
    from oomph.search.space import Options
    from oomph.units import parse_count

    tokens = parse_count(context, what="--context") if context else 0
    options = Options(text_only=(False, True) if text_only else (False,))
    result = cards(
        model, Want(tokens, users or 0, "", options), engine=engine, only=only, prices=_prices(prices), names=card,
        most=0 if show_all else 12,
    )  # fmt: skip
    if as_json:
        print(result.to_json(indent=2))
    else:
        from oomph.report.cards_text import print_cards

        print_cards(result)
    return 0 if result.cards else 1


def _prices(path: str) -> dict[str, float]:
    if not path:
        return {}
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(1 << 20)
    except (OSError, ValueError) as error:
        raise InputError(f"the prices {path[:80]!r} cannot be read: {error}") from None
    if text.lstrip().startswith("{"):
        import msgspec

        try:
            return msgspec.json.decode(text, type=dict[str, float])
        except msgspec.MsgspecError as error:
            raise InputError(f"{path[:80]}: prices are a JSON object of card and number: {error}") from None
    out: dict[str, float] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        card, _, price = line.rpartition("," if "," in line else ";" if ";" in line else ":")
        try:
            out[card.strip().strip('"')] = float(price.strip().strip('"').lstrip("$€£"))
        except ValueError:
            raise InputError(f"{path[:80]}, line {number}: {line.strip()[:60]!r} is not CARD, PRICE") from None
    return out


def _is_model(text: str) -> bool:
    """A name that no card answers to, and a model does."""
    if not text or text.strip().lower() == "auto" or _known(text):
        return False
    import os

    if "/" in text or os.path.exists(text):
        return True
    from oomph import catalog

    try:
        return catalog.find(text) is not None
    except InputError:  # several models: it says which
        return True


def _known(text: str) -> tuple[Device, ...]:
    from oomph.facts.gpus import rows

    low = text.lower()
    known = [row for row in rows() if low in row.name.lower() or low in row.driver_name.lower()]
    known.sort(key=lambda row: row.name.lower() != low)  # A40 before A4000
    return tuple(row.device() for row in known)


def _devices(text: str) -> tuple[Device, ...]:
    known = _known(text)
    if known:
        return known
    from oomph.sources.gpu import parse_gpus

    return parse_gpus(text)
