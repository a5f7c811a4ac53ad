"""What llama.cpp can do for a model on some GPUs, best by the objective of a search: the most exact GGUF that stays on
them and that people can read along with, first with a 16-bit cache, then with 8 bits or a smaller micro-batch; where
none stays, the most exact that people can read along with experts or layers on the CPU. A local file is taken as it is.
Ollama is asked in the same way."""

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from oomph.commands import parse_command
from oomph.engines.llamacpp.source import repository_of_files
from oomph.engines.protocol import Offer, Planner
from oomph.errors import OomphError
from oomph.ir import Device, Plan
from oomph.ir.objective import Standing, reads_well, serving_objective, slowness, speed_step, users_step
from oomph.sources import place
from oomph.units import gib

QUANTS = ("Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "IQ4_XS", "Q3_K_M")
USUAL = "Q4_K_M"
SLOTS = (32, 16, 8, 4, 2, 1)
_EMBEDDING = 3 << 30  # chosen: no embedding that stays in host memory is larger


class Choice(Struct, frozen=True):
    """One configuration of llama-server. 0 and "" are what it does by itself."""

    quant: str
    slots: int = 1
    cache: str = ""
    micro_batch: int = 0
    experts: int = 0  # layers whose experts are on the CPU
    layers: int = 0  # on the GPUs

    @property
    def gives_up(self) -> tuple[str, ...]:
        return (*(["16-bit KV cache"] if self.cache else []), *(["large prefill steps"] if self.micro_batch else []))


Command = Callable[[Choice, int], tuple[str, ...]]  # of a choice and a context


def offer(model: str, gpus: tuple[Device, ...], context: int, users: int, planner: Planner) -> Offer:
    local, repository = place.is_gguf_file(model), repository_of_files(model)

    def command(choice: Choice, length: int) -> tuple[str, ...]:
        file = ["-m", model if local else f"{model.rpartition('/')[2]}-{choice.quant}.gguf"]
        file = ["-hf", f"{repository}:{choice.quant}"] if repository else file
        words = ["llama-server", *file, "-c", str(length * choice.slots), "-np", str(choice.slots)]
        words += ["-ctk", choice.cache, "-ctv", choice.cache] if choice.cache else []
        words += ["-ub", str(choice.micro_batch)] if choice.micro_batch else []
        words += ["--n-cpu-moe", str(choice.experts)] if choice.experts else []
        words += ["-ngl", str(choice.layers)] if choice.layers else []
        return tuple(words)

    return best(command, context, gpus, ("",) if local else QUANTS, users, planner, placed=True, cached=True)


def best(
    command: Command, context: int, gpus: tuple[Device, ...], quants: Sequence[str], users: int, planner: Planner, *,
    placed: bool = False, cached: bool = False,
) -> Offer:  # fmt: skip
    """For at least so many users. `placed`: what is on the CPU can be said; `cached`: so can the cache's type."""
    search = _Search(command, context, gpus, planner, users)
    slow: list[Choice] = []
    caches = (
        (Choice("", users), Choice("", users, "q8_0"), Choice("", users, "q8_0", 256))
        if cached
        else (Choice("", users),)
    )
    for quant in quants:
        for form in caches:
            choice = replace(form, quant=quant)
            plan = search.plan(choice)
            if plan is None:
                break
            if _holds(plan, users):
                if reads_well(_rate(plan, users)):
                    return search.widest(choice, plan)
                slow.append(choice)  # a file in fewer bits is faster
                break
            if plan.resolved["host"]["weights"] > sum(rank.terms["kv_cache"].bytes for rank in plan.ranks) + _EMBEDDING:
                break  # a smaller cache does not make room for so much
    if slow:
        choice = search.best_of(slow, quants)
        return search.widest(choice, search.plans[choice])
    if search.refused and not search.plans:
        return Offer(None, why=search.refused)
    return search.partly(quants if placed else (USUAL if USUAL in quants else quants[0],), placed=placed)


class _Search:
    def __init__(self, command: Command, context: int, gpus: tuple[Device, ...], planner: Planner, users: int) -> None:
        self.words, self.context, self.gpus, self.planner, self.users = command, context, gpus, planner, users
        self.plans: dict[Choice, Plan] = {}
        self.refused = ""

    def plan(self, choice: Choice) -> Plan | None:
        if choice not in self.plans:
            try:
                self.plans[choice] = self.planner(replace(parse_command(self.command(choice)), gpus=self.gpus))
            except OomphError as error:
                self.refused = error.message
                return None
        return self.plans[choice]

    def command(self, choice: Choice) -> tuple[str, ...]:
        return self.words(choice, self.context)

    def offer(self, choice: Choice, plan: Plan) -> Offer:
        """What a choice gives, and the same choice for the users that are wanted with another context."""
        layers = plan.resolved["layers"] - plan.resolved["offloaded"]
        if is_whole := _holds(plan, choice.slots):
            why = ""
        elif absent := _absent(plan):
            why = f"the host's memory lacks {gib(absent)} for the weights on the CPU"
        elif layers:
            why = f"{layers} of {plan.resolved['layers']} layers on the CPU"
        else:
            why = plan.verdict.risk or ("too close to call" if _on_gpu(plan) else "experts on the CPU")
        served = float(choice.slots if _serves(plan) and _has_slots(plan, choice.slots) else 0)
        host = 0 if is_whole else plan.resolved["host"]["weights"]

        def at(context: int) -> Offer:
            other, same = (
                _Search(self.words, context, self.gpus, self.planner, self.users),
                replace(choice, slots=self.users),
            )
            planned = other.plan(same)
            return Offer(None, why=other.refused) if planned is None else other.offer(same, planned)

        return Offer(plan, self.command(choice), served, host, why, gives_up=choice.gives_up, at=at)

    def widest(self, choice: Choice, plan: Plan) -> Offer:
        """The same for as many users as it holds."""
        for slots in SLOTS:
            wider = replace(choice, slots=slots)
            if slots > self.users and (more := self.plan(wider)) is not None and _holds(more, slots):
                return self.offer(wider, more)
        return self.offer(choice, plan)

    def partly(self, quants: Sequence[str], *, placed: bool) -> Offer:
        """With a part on the CPU: the best of them by the objective."""
        choices = [choice for quant in quants for choice in self._parted(Choice(quant, self.users), placed=placed)]
        if not choices:
            return Offer(None, why=self.refused)
        choice = self.best_of(choices, quants)
        return self.offer(choice, self.plans[choice])

    def best_of(self, choices: Sequence[Choice], quants: Sequence[str]) -> Choice:
        order = serving_objective(checkpoint="the file", context=1, users=self.users if self.users > 1 else 0)
        return max(choices, key=lambda one: order.key(self._standing(one, quants))) if len(choices) > 1 else choices[0]

    def _parted(self, choice: Choice, *, placed: bool) -> Iterator[Choice]:
        """What llama.cpp does by itself, and the fewest experts or layers on the CPU that are planned to fit."""
        plan = self.plan(choice)
        if plan is None:
            return
        yield choice
        units = int(plan.resolved["layers"])
        if not placed or units < 2:
            return
        routed = any(rank.terms["weights"].parts.get("experts") for rank in plan.ranks)
        if routed or plan.resolved["host"]["parts"].get("experts"):
            most = self._least(1, units - 1, lambda n: replace(choice, experts=n))
            if most is not None:
                yield most
                return
        fewest = self._least(1, units - 1, lambda n: replace(choice, layers=units - n))
        if fewest is not None:
            yield fewest

    def _least(self, low: int, high: int, at: Callable[[int], Choice]) -> Choice | None:
        if not self._fits(at(high)):
            return None
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self._fits(at(middle)) else (middle + 1, high)
        return at(low)

    def _fits(self, choice: Choice) -> bool:
        plan = self.plan(choice)
        return plan is not None and _serves(plan)

    def _standing(self, choice: Choice, quants: Sequence[str]) -> Standing:
        plan = self.plans[choice]
        rate = _rate(plan, self.users)
        host = plan.resolved["host"]["weights"]
        return {
            "request": 0.0 if _serves(plan) and _has_slots(plan, self.users) else -1.0,
            "reading": _reading(rate, choice),
            "on_gpu": -1.0 if host else 0.0,
            "precision": -float(quants.index(choice.quant)),
            "speed": speed_step(rate) if rate is not None else -float(host >> 20),
            "users": users_step(choice.slots),
            "plain": -float(len(self.command(choice))),
        }


def _reading(rate: float | None, choice: Choice) -> float:
    """A speed that nobody knows is believed of the usual file only."""
    if rate is None:
        return 0.0 if choice.quant in (USUAL, "") else -1.0
    return slowness(rate)


def _rate(plan: Plan, users: int) -> float | None:
    """Tokens per second of each user; None where nobody knows how fast the card is."""
    from oomph.engines.llamacpp.timing import timing
    from oomph.simulate.speed import speed_of

    known = timing(plan, None) if plan.verdict.outcome == "fits" else None
    if known is None:
        return None
    speed = speed_of(known, users)
    return speed.all_users / speed.users


def _holds(plan: Plan, slots: int) -> bool:
    return _serves(plan) and _on_gpu(plan) and _has_slots(plan, slots)


def _serves(plan: Plan) -> bool:
    """It fits, and a known host holds what stays in it: what it does not would be read from disk for each token."""
    return plan.verdict.outcome == "fits" and not _absent(plan)


def _absent(plan: Plan) -> int:
    return 0 if plan.host is None else plan.host.absent_bytes


def _has_slots(plan: Plan, slots: int) -> bool:
    """Ollama lowers the number where memory is short."""
    return slots == 1 or bool(plan.resolved.get("num_parallel", plan.resolved.get("n_seq_max")) == slots)


def _on_gpu(plan: Plan) -> bool:
    resolved = plan.resolved
    return bool(resolved["layers"] == resolved["offloaded"] and not resolved["host"]["parts"].get("experts"))
