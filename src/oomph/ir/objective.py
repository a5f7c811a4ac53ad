"""What a search keeps, what it gives up and what it maximises, in which order: one value for everything that picks.

A search describes each configuration by a `Standing`: a number for every measure, the larger the better. An `Objective`
has the measures in order, and the better of two configurations is the one that is ahead in the first measure in which
they differ. `fit`, `gpus`, `compare` and the plan's advice share `serving_objective`; `pack` and `models` have orders
of their own, and every screen prints the order that it used (`line`). An engine with a search space of its own fills
the same measures (`SERVING`); one that it does not have is left out and counts as kept.
"""

from collections.abc import Mapping, Sequence
from math import ceil, inf, log, log2

from msgspec import Struct
from msgspec.structs import replace

READING = 5.0  # tokens per second that a person reads, about: what is slower is said in the headline
# Chosen: where nobody asks for a context, one that is too short to be useful, and one that chats and agents work with.
LEAST_CONTEXT, ENOUGH_CONTEXT = 8192, 32768
_NEARLY = 0.39  # two halves of an octave are one: 2 log2(8/7)
PREFERENCES = ("quality", "context", "users", "speed")

Standing = Mapping[str, float]


class Measure(Struct, frozen=True):
    """One thing that is compared. `loss`: what is given up where it is not kept; "" = it is maximised. `short`: for the
    one line of a screen; "" = it is not in that line."""

    name: str
    words: str
    loss: str = ""
    short: str = ""


class Objective(Struct, frozen=True):
    needs: tuple[str, ...]  # as asked, in words
    order: tuple[Measure, ...]  # what decides first comes first
    given_up: tuple[str, ...] = ()  # in words, first to last; () = the losses of `order`, the last of them first

    def key(self, standing: Standing) -> tuple[float, ...]:
        """The larger is the better one. What a standing does not name is as it should be."""
        return tuple(standing.get(measure.name, 0.0) for measure in self.order)

    def best_key(self, standing: Standing) -> tuple[float, ...]:
        """No configuration that has these measures is better than this, whatever its others are."""
        names = [measure.name for measure in self.order]  # lists: a search asks this of thousands of arms
        return tuple([standing[name] if name in standing else _TOP.get(name, inf) for name in names])

    @property
    def line(self) -> str:
        """The order, for screens."""
        losses = self.given_up or tuple(measure.loss for measure in reversed(self.order) if measure.loss)
        aims = [measure.words for measure in self.order if not measure.loss and measure.words]
        parts = [
            f"kept: {', '.join(self.needs)}" if self.needs else "",
            f"given up if need be, first to last: {', '.join(losses)}" if losses else "",
            f"{'then ' if self.needs or losses else ''}{', '.join(aims)}" if aims else "",
        ]
        return "; ".join(part for part in parts if part)

    @property
    def short(self) -> str:
        """What decides, first to last, for a screen; `line` has the rest."""
        return ", ".join(measure.short for measure in self.order if measure.short)


# Of a deployment that serves. A kept thing counts 0 and a lost one less than that.
SERVING: dict[str, Measure] = {
    measure.name: measure
    for measure in (
        Measure("request", "", ""),  # 0: what was asked for is there; -1: it is not
        Measure("reading", "", f"{READING:g} tokens/s for each user", f"{READING:g} tokens/s per user"),
        Measure("length", "", f"{LEAST_CONTEXT:,} tokens of context"),
        Measure("on_gpu", "", "weights on the GPUs"),
        Measure("checkpoint", "", "the named checkpoint", "your checkpoint"),
        Measure("precision", "", "precision", "weights in many bits"),
        Measure("images", "", "images"),
        Measure("prefix", "", "prefix caching"),
        Measure("screen", "", "room for a screen"),
        Measure("graphs", "", "CUDA graphs", "CUDA graphs"),
        Measure("enough", "", f"{ENOUGH_CONTEXT:,} tokens of context"),
        Measure("kv_bits", "", "16-bit KV cache", "16-bit KV cache"),
        Measure("steps", "", "large prefill steps"),
        Measure("limit", "", "the engine's limit of requests"),
        Measure("speed", "the fastest for these users", short="speed"),
        Measure("context", "the longest context"),
        Measure("users", "the most users"),
        Measure("plain", "the shortest command"),
    )
}
_TOP = {measure.name: 0.0 for measure in SERVING.values() if measure.loss or measure.name in ("request", "plain")}
# What a preference changes: an aim moves before the precision; "quality" keeps 16 bits in the cache before CUDA graphs.
_AHEAD = {"context": "context", "users": "users", "speed": "speed"}
_SHORT = {"context": "a long context", "users": "many users", "speed": "speed"}


def serving_objective(
    *, checkpoint: str = "", context: int = 0, users: int = 0, prefer: str = "", also: Sequence[str] = (),
    without: Sequence[str] = (),
) -> Objective:  # fmt: skip
    """For one model on some GPUs. `also`: further things that were asked for and are never given up, in words.
    `without`: measures that a search does not have."""
    names, measures = [name for name in SERVING if name not in without], dict(SERVING)
    if context:  # what is asked for is met or not; more of it counts where it is preferred
        names = [name for name in names if name not in ("length", "enough", *(["context"] * (prefer != "context")))]
    if users and prefer != "users" and "users" in names:
        names.remove("users")
    if users and "limit" in names:  # they are held whatever it is: how fast they are served counts before it
        names.remove("limit")
        names.insert(names.index("speed") + 1, "limit")
    if not checkpoint:
        names.remove("checkpoint")
    if prefer == "quality":
        names.remove("kv_bits")
        names.insert(
            names.index("graphs" if "graphs" in names else "enough" if "enough" in names else "steps"), "kv_bits"
        )
    elif _AHEAD.get(prefer) in names:
        names.remove(_AHEAD[prefer])
        names.insert(names.index("precision"), _AHEAD[prefer])
        measures[_AHEAD[prefer]] = replace(SERVING[prefer], short=_SHORT[prefer])
    needs = (
        *([checkpoint] if checkpoint else []),
        *([f"{context:,} tokens of context"] if context else []),
        *([f"{users:,} user{'s' if users > 1 else ''} at once"] if users else []),
        *also,
    )
    return Objective(needs, tuple(measures[name] for name in names))


def lowness(limit: int) -> float:
    """Of a limit of requests that is set: below 256 each fourth of it is a step less, for short requests queue."""
    return -1.0 - max(0, min(4, ceil(log2(256 / max(limit, 1)) / 2)))


def speed_step(rate: float) -> float:
    """Speeds within 5 % count as equal."""
    return float(round(log(max(rate, 1e-9)) / log(1.05)))


def users_step(users: float) -> float:
    """An eighth more users, or of what else is preferred, is more."""
    return float(int(log(max(users, 1.0)) / log(1.125) + 1e-9))


def shortness(context: int, longest: int, enough: int = ENOUGH_CONTEXT) -> float:
    """0 where there is enough of it, an eighth less, or all that the model takes; half an octave is one step less."""
    aim = min(enough, longest)
    return -float(max(0, ceil(2 * log2(aim / context) - _NEARLY))) if 0 < context < aim else 0.0


def slowness(rate: float | None) -> float:
    """0 where people can read along; each half of that speed is a step less."""
    return 0.0 if reads_well(rate) or rate is None else -float(ceil(log2(READING / max(rate, 1e-9))))


def reads_well(rate: float | None) -> bool:
    """Whether people can read along; a speed that nobody knows is not called slow."""
    return rate is None or rate >= READING
