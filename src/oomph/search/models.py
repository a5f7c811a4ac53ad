"""models(): what should I run on these GPUs? All engines in one search, every line planned, the best first.

A model's line is the variant (checkpoint or GGUF quantisation, engine) that serves it best. Models are taken in the
order of their quality, so that the search ends when nothing better can follow; cheap bounds put aside what cannot fit.
"""

import sys
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from oomph.commands import to_command, to_shell
from oomph.engines.registry import engine_named, name_of
from oomph.errors import CommandError
from oomph.ir import Device, Plan
from oomph.ir.objective import READING, Measure, Objective
from oomph.ir.printed import Printed
from oomph.search.candidates import (
    BATCHED,
    HOST_EXPERTS,
    LEAST_CONTEXT,
    PLACED,
    PURPOSES,
    USUAL_CONTEXT,
    Candidate,
    Filters,
    candidates,
    check_date,
    wanted,
)
from oomph.search.picks import TWICE, Other, Pick, better, displaces, ranked, trade
from oomph.search.quality import comparable, decides
from oomph.search.screen import SCREEN, with_screen
from oomph.search.solve import Progress
from oomph.search.trial import Served, Trial
from oomph.simulate.speed import Speed, speed_of
from oomph.sources.load import load_once
from oomph.text.tables import all_that_hold
from oomph.units import gib

PREFERENCES = ("quality", "speed", "context", "users")
SEARCHED = ("vllm", "llamacpp", "ollama", "sglang")  # the engines that serve what the catalogue has


_HOST = f"experts on the CPU: at most {gib(HOST_EXPERTS)}, what a machine with 32 GiB of memory has left for them"
_SCREEN = f"{gib(SCREEN)} of the room on the first card are for a screen; --headless uses them"
_GRADE, _PUBLISHED, _FIGURE, _SPEED, _CONTEXT, _USERS = (
    Measure(name, words, short=short)
    for name, words, short in (
        ("grade", "the best grade (of an estimate by its low end)", "best grade"),
        ("published", "published figures before estimates", "published before estimated"),
        ("figure", "the higher figure, unless a model of the same table that is not told apart is twice as fast",
         "higher figure"),
        ("speed", "the fastest", "fastest"), ("context", "the longest context", "longest context"),
        ("users", "the most users", "most users"),
    )
)  # fmt: skip
_ORDER = {
    "quality": (_GRADE, _PUBLISHED, _FIGURE, _SPEED),
    "speed": (_GRADE, _SPEED, _FIGURE),
    "context": (_GRADE, _CONTEXT, _FIGURE),
    "users": (_GRADE, _USERS, _FIGURE),
}


class Models(Printed, frozen=True):
    """What `oomph models` prints: the models that run well on some GPUs, the best first."""

    gpus: tuple[Device, ...]
    purpose: str
    context: int  # asked for, or the least for the purpose
    context_asked: bool
    users: int
    prefer: str
    picks: tuple[Pick, ...]
    why: str  # the first line, explained in one sentence
    looked_at: int  # models of the catalogue for this purpose and these filters
    possible: int  # of them, those that cheap bounds do not rule out
    plans: int
    more: bool  # further models fit
    interrupted: bool = False  # the search was stopped: the best so far
    objective: str = ""  # the order of the lines
    measure: str = ""  # the same in one line of a screen
    notes: tuple[str, ...] = ()

    def in_short(self) -> str:
        first = f"{self.picks[0].model} first" if self.picks else "nothing fits"
        return f"{len(self.picks)} models for {self.purpose} on {len(self.gpus)} x {self.gpus[0].name}, {first}"


class Ask(Struct, frozen=True):
    purpose: str = "chat"
    context: int = 0
    users: int = 0
    prefer: str = ""
    filters: Filters = Filters()
    limit: int = 10


def models(
    gpus: str | Sequence[Device] = (),
    *,
    gpu: str | Sequence[Device] = (),
    purpose: str = "chat",
    context: int = 0,
    users: int = 0,
    prefer: str = "",
    words: Sequence[str] = (),
    engines: Sequence[str] = (),
    licence: str = "",
    since: str = "",
    largest: float = 0.0,
    smallest: float = 0.0,
    limit: int = 10,
    headless: bool = False,
    progress: Progress | None = None,
) -> Models:
    """The models that run well on `gpu` (or `gpus`), ranked for a purpose (chat, code, reasoning, vision, embedding).

    `context` and `users` must be served; without a context each line gets the longest that fits. `words`: all of them
    in the model's name. `engines`: vllm, sglang, llamacpp, ollama; all are searched otherwise. `licence`: "open" or a
    licence as the hub names it. `since`: a date such as 2026-03. `largest`, `smallest`: billions of parameters.
    `limit`: lines, 0 = all. `headless`: no card drives a screen."""
    from oomph.sources.gpu import parse_gpus

    gpus = gpus or gpu
    devices = parse_gpus(gpus) if isinstance(gpus, str) else tuple(gpus)
    filters = Filters(tuple(words), licence, check_date(since), _engines(engines), largest, smallest)
    ask = Ask(purpose, context, users, prefer, filters, limit)
    headless = headless or gpus == "auto"
    answer = Search(devices, ask, headless=headless).run(progress)
    if answer.picks or answer.interrupted or context:
        return answer
    # a small machine: what is useful at the least, and then without room for a screen
    shorter = Search(devices, ask, headless=headless, least=True).run(progress)
    return shorter if shorter.picks or headless else Search(devices, ask, headless=True, least=True).run(progress)


def _engines(names: Sequence[str]) -> tuple[str, ...]:
    out = []
    for text in names:
        name = name_of(text.partition("==")[0])
        if name not in SEARCHED:
            raise CommandError(f"--engine {text[:40]!r}: models are searched for {', '.join(SEARCHED)}")
        out.append(f"{name}=={text.partition('==')[2]}" if "==" in text else name)
    return tuple(out)


class Search:
    def __init__(self, gpus: tuple[Device, ...], ask: Ask, *, headless: bool = True, least: bool = False) -> None:
        if not gpus:
            raise CommandError("no GPU to search for", hint='--gpu "RTX 3090"')
        if ask.purpose not in PURPOSES:
            raise CommandError(f"--for {ask.purpose[:40]!r}: it is one of {', '.join(PURPOSES)}")
        if ask.prefer and ask.prefer not in PREFERENCES:
            raise CommandError(f"--prefer {ask.prefer[:40]!r}: it is one of {', '.join(PREFERENCES)}")
        self.gpus, self.ask = gpus, ask
        self.cards = with_screen(gpus, headless=headless)
        self.context = ask.context or (LEAST_CONTEXT if least else USUAL_CONTEXT)[ask.purpose]
        self.users = ask.users or 1
        named = [text.partition("==")[0] for text in ask.filters.engines]
        releases = {text.partition("==")[0]: text for text in ask.filters.engines if "==" in text}
        self.engines = tuple(name for name in SEARCHED if not named or name in named)
        self.trial = Trial(self.cards, self.users, releases)

    # --- all models ---------------------------------------------------------------------------------------------------

    def run(self, progress: Progress | None = None) -> Models:
        looked = wanted(self.ask.purpose, self.ask.filters)
        least = self.ask.context or (LEAST_CONTEXT[self.ask.purpose] if self.ask.purpose != "embedding" else 0)
        groups = candidates(looked, self.cards, least, self.users, self.engines)
        order = sorted(groups.values(), key=_best_order)
        picks: list[Pick] = []
        interrupted = more = False
        try:
            for number, group in enumerate(order):
                if self._enough(picks, group):
                    more = True
                    continue
                if progress is not None:
                    progress(group[0].model.plain, number, len(order))
                pick = self.best(group)
                if pick is not None:
                    picks.append(pick)
        except KeyboardInterrupt:
            interrupted = True
        picks = ranked(picks, self.ask.prefer)
        limit = self.ask.limit or len(picks)
        shown = [*(self._with_others(pick, groups) for pick in picks[:1]), *picks[1:limit]]
        return Models(
            gpus=self.gpus, purpose=self.ask.purpose, context=self.context, context_asked=bool(self.ask.context),
            users=self.users, prefer=self.ask.prefer or "quality", picks=tuple(shown),
            why=self._why(shown), looked_at=len(looked), possible=len(groups), plans=self.trial.plans,
            more=more or len(picks) > limit, interrupted=interrupted, objective=self._objective.line,
            measure=self._objective.short,
            notes=tuple(all_that_hold(
                (self.cards != self.gpus, _SCREEN), (any(pick.on_cpu for pick in shown), _HOST)
            )),
        )  # fmt: skip

    @property
    def _objective(self) -> Objective:
        needs = [f"{self.ask.context:,} tokens of context"] if self.ask.context else []
        needs += [f"{self.ask.users} users at once"] if self.ask.users else []
        return Objective(tuple(needs), _ORDER[self.ask.prefer or "quality"])

    def _enough(self, picks: list[Pick], group: list[Candidate]) -> bool:
        """Whether a model can change nothing about the lines that are shown: they all have a higher rank, and none of
        them is in the same table with a difference inside its interval."""
        limit = self.ask.limit
        if not limit or len(picks) < limit:
            return False
        if self.ask.prefer in ("speed", "context", "users"):  # grades come first
            last = sorted(p.quality.grade for p in picks)[limit - 1]
            return all(c.quality.grade > last for c in group)
        shown = sorted(picks, key=lambda p: p.quality.order)[:limit]
        if _best_order(group) < shown[-1].quality.order:
            return False
        return not any(_near(candidate, pick) for candidate in group for pick in shown)

    # --- one model ----------------------------------------------------------------------------------------------------

    def best(self, group: list[Candidate]) -> Pick | None:
        """The variant that serves one model best: of each kind of engine the best that fits, then the better one."""
        best_variants = []
        for kind in (PLACED, BATCHED):
            engine = next((name for name in self.engines if name in kind), "")
            variants = [c for c in group if c.engines == kind]
            if engine and variants:
                pick = self._best_variant(variants, engine)
                if pick is not None:
                    best_variants.append(pick)
        return better(best_variants, self.ask.prefer) if best_variants else None

    def _best_variant(self, variants: list[Candidate], engine: str) -> Pick | None:
        order = sorted(variants, key=lambda c: (-c.quality.recovery[1], -c.quality.recovery[0], c.read))
        # a file that the GPUs hold comes before a more exact one with experts on the CPU
        return self._best_of(order, engine) or self._best_of([c for c in order if c.may_spill], engine, spill=True)

    def _best_of(self, order: list[Candidate], engine: str, *, spill: bool = False) -> Pick | None:
        choice: Pick | None = None
        read, most = 0, sys.maxsize
        for candidate in order:
            if choice is not None and not self._may_displace(choice, read, candidate):
                continue
            if not spill and candidate.weights > most:
                continue
            pick = self._pick(candidate, engine, spill=spill)
            if pick is None:
                most = self.trial.most_weights(candidate) if candidate.tag else most
                continue
            if choice is None or displaces(pick, choice, self.ask.prefer):
                choice, read = replace(pick, traded=trade(pick, choice)), candidate.read
        return choice

    def _may_displace(self, chosen: Pick, read: int, candidate: Candidate) -> bool:
        if self.ask.prefer in ("context", "users"):
            return candidate.quality.recovery[0] >= 0.97
        if self.ask.prefer == "speed":
            return candidate.quality.recovery[0] >= 0.95 and candidate.read < read
        return candidate.read * TWICE * 0.8 <= read and not decides(chosen.quality, candidate.quality, True)

    def _pick(self, candidate: Candidate, engine: str, *, spill: bool = False) -> Pick | None:
        model = candidate.model
        context = self.context if self.ask.context else min(self.context, model.context)
        served = self.trial.serve(candidate, engine, context, longest=not self.ask.context, spill=spill)
        if served is None:
            return None
        plan, speed = served.plan, _speed(served, candidate) if self.ask.purpose != "embedding" else None
        if served.experts_on_cpu and (speed is None or speed.all_users / speed.users < 2 * READING):
            return None
        return Pick(
            model=model.plain, checkpoint=plan.deployment.model.removeprefix("hf.co/"),
            quantization=candidate.tag or candidate.quality_label, engine=engine, context=served.context,
            users=served.users, capacity=served.capacity, quality=candidate.quality,
            speed=speed,
            room_bytes=self._room(plan),
            command=command_of(plan), plan=plan, parameters=model.parameters,
            active=model.active, date=model.date, licence=model.licence,
            on_cpu=f"{gib(served.experts_on_cpu)} of experts on the CPU" if served.experts_on_cpu else "",
        )  # fmt: skip

    def _room(self, plan: Plan) -> int:
        """On the tightest GPU in its tightest stage, at the unfavourable end of every interval."""
        rooms = (
            rank.total_bytes - stage.peak_high + self._screen(rank.rank) for rank in plan.ranks for stage in rank.stages
        )
        return max(0, min(rooms))

    def _screen(self, rank: int) -> int:
        """What is in use on a GPU only because it may drive a screen: that is room too."""
        place = min(rank, len(self.gpus) - 1)
        return self.cards[place].used_bytes - self.gpus[place].used_bytes

    def _with_others(self, pick: Pick, groups: dict[int, list[Candidate]]) -> Pick:
        """The other engines' best variant of the same model, where it is planned to fit too."""
        group = next(g for g in groups.values() if g[0].model.plain == pick.model)
        others = []
        for engine in self.engines:
            variants = [c for c in group if engine in c.engines and _same_variant(c, pick)]
            best_first = sorted(group, key=lambda c: -c.quality.recovery[0])
            variants = variants or [c for c in best_first if engine in c.engines]
            if engine == pick.engine or not variants:
                continue
            spill = bool(pick.on_cpu)
            served = next(filter(None, (self._pick(c, engine, spill=spill) for c in variants[:3])), None)
            if served is not None:
                rate = served.speed.one_user if served.speed else 0.0
                others.append(
                    Other(
                        engine, served.checkpoint, served.quantization, served.context, round(rate, 1), served.command
                    )
                )
        return replace(pick, others=tuple(others))

    # --- words --------------------------------------------------------------------------------------------------------

    def _why(self, picks: Sequence[Pick]) -> str:
        if not picks:
            return ""
        first, quality = picks[0], picks[0].quality
        name = first.model.rpartition("/")[2]
        if self.ask.prefer in ("speed", "context", "users"):
            what = {
                "speed": "the fastest",
                "context": "the one with the longest context",
                "users": "the one for most users",
            }
            reason = f"{name} is {what[self.ask.prefer]} of the best grade that fits here, {quality.grade}"
        else:
            basis = "the highest published figure" if quality.published else "the highest estimate"
            reason = (
                f"{name} has {basis} of what fits here ({quality.value:.0f}, grade {quality.grade}: {quality.source})"
            )
        better = [
            (tag, size)
            for (checkpoint, tag), size in self.trial.short.items()
            if checkpoint in (first.model, first.checkpoint) and tag and tag != first.quantization
        ]
        recovery = quality.recovery
        if recovery != (1.0, 1.0):
            low, high = (f"{share:.1%}".replace(".0%", "%") for share in recovery)
            reason += f"; {first.quantization} keeps {low if low == high else f'{low} to {high}'} of it"
            if better and first.engine in PLACED:
                tag, size = better[-1]
                reason += f", and {tag} is {gib(size)} too large"
        if first.traded:
            reason += f"; {first.traded}"
        return reason + "."


def command_of(plan: Plan) -> str:
    """As it is pasted: with the variables in front that the command line itself cannot say."""
    settings = [f"{name}={value}" for name, value in plan.deployment.environment.items()]
    shell = to_shell(plan.deployment)
    return " ".join([*settings, shell]) if settings and to_command(plan.deployment)[0] not in settings else shell


def _best_order(group: Sequence[Candidate]) -> tuple[str, bool, float]:
    return min(c.quality.order for c in group)


def _near(candidate: Candidate, pick: Pick) -> bool:
    """In the same table, with a difference that is none."""
    return comparable(candidate.quality, pick.quality) and not decides(pick.quality, candidate.quality, False)


def _same_variant(candidate: Candidate, pick: Pick) -> bool:
    return (bool(candidate.tag) and candidate.tag == pick.quantization) or candidate.checkpoint == pick.checkpoint


def _speed(served: Served, candidate: Candidate) -> Speed | None:
    engine = engine_named(served.plan.deployment.engine.name)
    timing = engine.timing(served.plan, load_once(candidate.checkpoint))
    return speed_of(timing, served.users) if timing is not None else None
