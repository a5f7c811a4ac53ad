"""Prices of cards from a file, and what a machine costs beside an API. No price is oomph's own.

JSON, either {"RTX 4090": 1599, ...} or {"date": "2026-11-01", "source": "...", "unit": "hour", "prices": {...}}; or
lines such as `RTX 4090, 1599`, with `# date: 2026-11-01`, `# source: ...` and `# unit: hour` before them. The unit is
`card` (bought, the default) or `hour` (rented).
"""

import re
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from oomph.errors import InputError
from oomph.simulate.speed import Speed
from oomph.text.nesting import bounded

DAYS = 30.4  # of a month
_MOST = 1 << 20


class Prices(Struct, frozen=True):
    """Of one card each, by name as oomph writes it or people do."""

    prices: Mapping[str, float]
    date: str = ""
    source: str = ""
    unit: str = "card"  # card: bought; hour: rented

    @property
    def rented(self) -> bool:
        return self.unit == "hour"


class Api(Struct, frozen=True):
    """What an API charges for a million tokens."""

    prompt: float
    output: float


class Load(Struct, frozen=True):
    """So many users who ask one question after the other, some hours a day."""

    prompt: int = 2048
    output: int = 256
    hours: float = 8.0


class Against(Struct, frozen=True):
    """A machine beside an API, for one load and month."""

    api: Api
    load: Load
    users: int
    prompt_tokens: float  # of a month
    output_tokens: float
    api_cost: float  # of a month
    machine_cost: float | None  # of a month, rented; None: bought
    price: float  # of the machine: bought, or an hour of it
    break_even: float  # rented: the share of the load from which on the machine is cheaper; bought: months


def read_prices(path: str) -> Prices:
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(_MOST)
    except (OSError, ValueError) as error:
        raise InputError(f"the prices {path[:80]!r} cannot be read: {error}") from None
    prices = _from_json(text, path) if text.lstrip().startswith("{") else _from_lines(text, path)
    if prices.unit not in ("card", "hour"):
        raise InputError(f"{path[:80]}: the unit of prices is card or hour, not {prices.unit[:40]!r}")
    wrong = next((name for name, price in prices.prices.items() if not 0 < price < 1e9), None)
    if wrong is not None:
        raise InputError(f"{path[:80]}: {wrong[:60]!r} costs {prices.prices[wrong]:g}: a price is above zero")
    return prices


def _from_json(text: str, path: str) -> Prices:
    try:
        if re.search(r'"prices"\s*:', text):
            return msgspec.json.decode(bounded(text), type=Prices)
        return Prices(msgspec.json.decode(bounded(text), type=dict[str, float]))
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InputError(f"{path[:80]}: prices are a JSON object of card and number: {error}") from None


def _from_lines(text: str, path: str) -> Prices:
    prices: dict[str, float] = {}
    about: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        comment = re.match(r"\s*#\s*(date|source|unit)\s*:\s*(.+)", line, re.IGNORECASE)
        if comment:
            about[comment[1].lower()] = comment[2].strip()
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        card, _, price = line.rpartition("," if "," in line else ";" if ";" in line else ":")
        try:
            prices[card.strip().strip('"')] = float(price.strip().strip('"').lstrip("$€£"))
        except ValueError:
            raise InputError(f"{path[:80]}, line {number}: {line.strip()[:60]!r} is not CARD, PRICE") from None
    return Prices(prices, about.get("date", ""), about.get("source", ""), about.get("unit", "card"))


def parse_api(text: str) -> Api:
    """'0.15/0.60': prompt and output, each for a million tokens."""
    match = re.fullmatch(r"\s*[$€£]?(\d{1,6}(?:\.\d{1,6})?)\s*/\s*[$€£]?(\d{1,6}(?:\.\d{1,6})?)\s*", text)
    if match is None:
        raise InputError(f"--api-price {text[:40]!r}: prompt and output for a million tokens, such as 0.15/0.60")
    return Api(float(match[1]), float(match[2]))


def against(api: Api, load: Load, speed: Speed, price: float, *, rented: bool) -> Against | None:
    """None: the API costs nothing, so that nothing can be cheaper."""
    rate = speed.all_users / speed.users  # that each user sees
    seconds = speed.first_token_seconds * load.prompt / speed.prompt + load.output / rate
    requests = speed.users * load.hours * 3600 * DAYS / seconds
    prompts, outputs = requests * load.prompt, requests * load.output
    cost = (prompts * api.prompt + outputs * api.output) / 1e6
    if cost <= 0:
        return None
    machine = price * load.hours * DAYS if rented else None
    return Against(
        api, load, speed.users, prompts, outputs, cost, machine, price, machine / cost if machine else price / cost
    )
