"""`oomph gpus [NAME]`: the GPUs that oomph knows, or which of them, and how many, a model needs."""

from typing import TYPE_CHECKING, Any

import click

from oomph.cli.options import html_option
from oomph.cli.show import show
from oomph.emit import FORMS
from oomph.errors import CommandError, InputError

if TYPE_CHECKING:
    from oomph.ir import Device


@click.command()
@click.argument("name", nargs=-1)
@click.option("--context", metavar="TOKENS", default="", help="With a model: tokens of one request. Default 8192.")
@click.option("--users", metavar="N", type=click.IntRange(1, 4096), help="With a model: requests at once. Default 1.")
@click.option(
    "--prices",
    metavar="FILE",
    default="",
    help='Prices: JSON, or lines as "RTX 4090, 1599" or "H100 SXM, 2.49/h" (rent); "# unit: hour" for all.',
)
@click.option("--sort", type=click.Choice(["price", "speed", "memory"]), help="price with --prices, else memory.")
@click.option("--api-price", metavar="IN/OUT", default="", help="Beside an API: price per million tokens, 0.15/0.60.")
@click.option("--prompt", metavar="N", type=click.IntRange(1), default=2048, help="With --api-price: tokens in. 2048.")
@click.option("--output", metavar="N", type=click.IntRange(1), default=256, help="With --api-price: tokens out. 256.")
@click.option("--hours", type=click.FloatRange(0.1, 24), default=8.0, help="With --api-price: hours a day. 8.")
@click.option("--card", metavar="CARD", multiple=True, help="With a model: this card only. Repeat it.")
@click.option("--only", is_flag=True, help="This checkpoint, not the others of the same model.")
@click.option("--text-only", is_flag=True, help="Images may be given up.")
@click.option("--engine", metavar="NAME==VERSION", default="", help="The engine: vllm==0.21.0, llamacpp.")
@click.option("--all", "show_all", is_flag=True, help="All lines, legacy and modified cards too.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON; bytes are integers.")
@click.option("--emit", type=click.Choice(FORMS), help="With a model: print the first line alone, ready to use.")
@html_option
def command(name: tuple[str, ...], as_json: bool, **options: Any) -> int:
    """Which cards, and how many, a model needs; without a model, the GPUs that oomph knows.

    \b
    oomph gpus gpt-oss-120b --context 32k --users 4
    oomph gpus Qwen3.6-27B --prices prices.csv --sort speed
    oomph gpus Qwen3-32B --users 8 --prices rent.csv --api-price 0.15/0.60 --hours 12
    oomph gpus Qwen3-8B --engine llamacpp
    oomph gpus Qwen3-32B --users 8 --emit skypilot
    oomph gpus                       the cards, with the bytes that the driver really reports
    oomph gpus 5070                  those with 5070 in their name
    oomph gpus "2x RTX 5070 Ti"      what --gpu would take this for
    oomph gpus auto                  those of this machine
    """
    text = " ".join(name)
    searches = any(
        options[key] for key in ("context", "users", "prices", "card", "only", "engine", "sort", "api_price", "emit")
    )
    if searches and not text:
        raise CommandError("no model to find cards for", hint="oomph gpus gpt-oss-120b --context 32k")
    if searches or _is_model(text):
        return _for_model(text, options, as_json)
    from oomph.ir.hardware import GpuList

    listing = GpuList(_devices(text))
    show(listing, as_json=as_json, indent=2, html=options["html"])
    return 0


def _for_model(model: str, options: dict[str, Any], as_json: bool) -> int:
    from oomph.cli.progress import progress
    from oomph.search.cards import cards
    from oomph.search.prices import Load, parse_api, read_prices
    from oomph.search.request import Options, Want
    from oomph.units import parse_tokens

    tokens = parse_tokens(options["context"], what="--context") if options["context"] else 0
    space = Options(text_only=(False, True) if options["text_only"] else (False,))
    everything = options["show_all"]
    with progress("cards") as step:
        result = cards(
            model, Want(tokens, options["users"] or 0, "", space), engine=options["engine"], only=options["only"],
            prices=read_prices(options["prices"]) if options["prices"] else None, names=options["card"],
            most=0 if everything else 12, sort=options["sort"] or "", everything=everything,
            api=parse_api(options["api_price"]) if options["api_price"] else None,
            load=Load(options["prompt"], options["output"], options["hours"]), progress=step,
        )  # fmt: skip
    if options["emit"] and result.cards:
        from oomph.emit import emit

        print(emit(result.cards[0].plan, options["emit"]), end="")
        return 0
    show(result, as_json=as_json, indent=2, html=options["html"])
    return 130 if result.interrupted and not result.cards else 0 if result.cards else 1


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


def _known(text: str) -> "tuple[Device, ...]":
    from oomph.facts.gpus import rows

    low = text.lower()
    matches = [row for row in rows() if low in row.name.lower() or low in row.driver_name.lower()]
    matches.sort(key=lambda row: row.name.lower() != low)  # A40 before A4000
    return tuple(row.device() for row in matches)


def _devices(text: str) -> "tuple[Device, ...]":
    matches = _known(text)
    if matches:
        return matches
    from oomph.sources.gpu import parse_gpus

    return parse_gpus(text)
