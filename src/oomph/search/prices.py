"""Prices of cards from a file, and what a machine costs beside an API. No price is oomph's own.

JSON, either {"RTX 4090": 1599, ...} or {"date": "2026-11-01", "source": "...", "unit": "hour", "prices": {...}}; or
lines such as `RTX 4090, 1599`, with `# date: 2026-11-01`, `# source: ...` and `# unit: hour` before them. The unit is
`card` (bought) or `hour` (rented); a price such as `2.49/h` and a header such as `card,price_per_hour` say it too, and
where nothing does, prices that no card is sold for are taken as rents.
"""

import re
from collections.abc import Mapping

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from oomph.errors import InputError
from oomph.simulate.speed import Speed
from oomph.text.nesting import bounded

DAYS = 30.4  # of a month
RENT = 25.0  # chosen: no card is sold for less, and none is rented for more an hour, in the usual currencies
_MOST = 1 << 20


class Prices(Struct, frozen=True):
    """Of one card each, by name as oomph writes it or people do."""

    prices: Mapping[str, float]
    date: str = ""
    source: str = ""
    unit: str = "card"  # card: bought; hour: rented; "" while it is read: not said

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
    if not prices.unit:
        prices = replace(prices, unit="hour" if max(prices.prices.values(), default=0.0) < RENT else "card")
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
        amount = _amount(price)
        if amount is None and not prices and not re.search(r"\d", price):  # a header
            about.setdefault("unit", "hour" if _is_hourly(price) else about.get("unit", ""))
            continue
        if amount is None or not card.strip():
            hint = "lines are CARD, PRICE: RTX 4090, 1599 to buy, H100 SXM, 2.49/h to rent"
            raise InputError(f"{path[:80]}, line {number}: {line.strip()[:60]!r} is not CARD, PRICE", hint=hint)
        prices[card.strip().strip('"')] = amount
        if _is_hourly(price):
            about["unit"] = "hour"
    return Prices(prices, about.get("date", ""), about.get("source", ""), about.get("unit", ""))


def _amount(text: str) -> float | None:
    """'$2.49/h' -> 2.49; None: it is no price."""
    match = re.fullmatch(
        r"(?i)[\s\"$€£]*(\d{1,9}(?:\.\d{1,6})?)\s*(?:USD|EUR|GBP|[$€£])?\s*(?:(?:/|per |an )\s*h(?:ou)?r?s?)?[\s\"]*",
        text,
    )
    return float(match[1]) if match else None


def _is_hourly(text: str) -> bool:
    return re.search(r"(?i)/\s*h|hour|hourly|\bper[ _]?h", text) is not None


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
        api,
        load=load,
        users=speed.users,
        prompt_tokens=prompts,
        output_tokens=outputs,
        api_cost=cost,
        machine_cost=machine,
        price=price,
        break_even=machine / cost if machine else price / cost,
    )
