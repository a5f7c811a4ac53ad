"""The ways in which llama.cpp can serve a model on some GPUs, for a search to choose among (search/placed.py): every
file, the most exact first, whole on the GPUs with a cache in 16 or 8 bits and a smaller micro-batch, and with experts
or layers on the CPU. A local file is taken as it is. Ollama is asked in the same way."""

from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from oomph.commands import parse_command
from oomph.engines.llamacpp.source import repository_of_files
from oomph.engines.values import Offer, Planner, Way
from oomph.errors import CannotPlan, OomphError
from oomph.ir import Device, Plan
from oomph.sources import place
from oomph.units import gib

QUANTS = ("Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "IQ4_XS", "Q3_K_M")
USUAL = "Q4_K_M"
_ALL = 999  # layers: no model has more
_FIT_TARGET = 1024 << 20  # --fit-target (common/common.h)
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


def ways(model: str, gpus: tuple[Device, ...], planner: Planner, release: str) -> tuple[Way, ...]:
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

    return ways_of(command, gpus, ("",) if local else QUANTS, planner, release, placed=True)


def ways_of(
    command: Command, gpus: tuple[Device, ...], quants: Sequence[str], planner: Planner, release: str, *, placed: bool
) -> tuple[Way, ...]:
    """`placed`: what is on the CPU, and the micro-batch, can be said."""
    search = _Search(command, gpus, planner, release, placed=placed)
    forms = (Choice(""), Choice("", cache="q8_0"), Choice("", cache="q8_0", micro_batch=256))[: 3 if placed else 2]
    ways = [search.whole(quant, form, rank) for rank, quant in enumerate(quants) for form in forms]
    for quant in quants if placed else (USUAL if USUAL in quants else quants[0],):
        rank = quants.index(quant)
        ways += [search.by_itself(Choice(quant), rank), *([search.fewest(quant, rank)] if placed else [])]
        ways += [search.by_itself(Choice(quant, cache="q8_0"), rank)]
    return tuple(ways)


class _Search:
    def __init__(
        self, command: Command, gpus: tuple[Device, ...], planner: Planner, release: str, *, placed: bool
    ) -> None:
        self.words, self.gpus, self.planner, self.release, self.placed = command, gpus, planner, release, placed
        self.plans: dict[tuple[Choice, int], Plan | OomphError] = {}

    def plan(self, choice: Choice, context: int) -> Plan:
        if (choice, context) not in self.plans:
            deployment = parse_command(self.words(choice, context), engine=self.release or None)
            try:
                plan = self.planner(replace(deployment, gpus=self.gpus))
                is_refused = "layers" not in plan.resolved  # an old build takes no cache in 8 bits by itself
                self.plans[choice, context] = CannotPlan(plan.verdict.message) if is_refused else plan
            except OomphError as error:
                self.plans[choice, context] = error
        planned = self.plans[choice, context]
        if isinstance(planned, OomphError):
            raise planned
        return planned

    def offer(self, choice: Choice, context: int) -> Offer:
        """What a choice gives, and the same choice with another context."""
        try:
            plan = self.plan(choice, context)
        except OomphError as error:
            return Offer(None, why=error.message)
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
        return Offer(
            plan, self.words(choice, context), served, host, why, gives_up=choice.gives_up,
            at=lambda length: self.offer(choice, length),
        )  # fmt: skip

    def whole(self, quant: str, form: Choice, rank: int) -> Way:
        """All of it on the GPUs."""

        def at(context: int, users: int) -> Offer:
            choice = replace(form, quant=quant, slots=users)
            if self.placed and self._is_too_large(replace(choice, layers=_ALL), context):
                return Offer(None, why="the GPUs do not hold all of it and what --fit leaves free of each")
            if form.cache and self._cache_is_small(Choice(quant, users), context):
                choice = Choice(quant, users)
            return self.offer(choice, context)

        return Way({"on_gpu": 0.0, **_standing(form, rank)}, at)

    def _is_too_large(self, forced: Choice, context: int) -> bool:
        """Whether all of it is more than the GPUs have less what --fit leaves free of each (common/fit.cpp, the first
        sum that it compares): then it moves layers, and need not be asked at length which ones."""
        try:
            plan = self.plan(forced, context)
        except OomphError:
            return False
        used = sum(term.bytes for rank in plan.ranks for term in rank.terms.values())
        left = 0 if self.release else _FIT_TARGET * len(plan.ranks)  # builds before --fit leave nothing
        return used > sum(rank.total_bytes - rank.used_by_others_bytes for rank in plan.ranks) - left

    def _cache_is_small(self, choice: Choice, context: int) -> bool:
        """Whether what is on the CPU is more than the cache takes: one in fewer bits does not make room for it."""
        try:
            plan = self.plan(choice, context)
        except OomphError:
            return True
        cache = sum(rank.terms["kv_cache"].bytes for rank in plan.ranks)
        return bool(plan.resolved["host"]["weights"] > cache + _EMBEDDING)

    def by_itself(self, form: Choice, rank: int) -> Way:
        """With what llama.cpp leaves to the CPU by itself."""
        return _beside(form, rank, lambda context, users: self.offer(replace(form, slots=users), context))

    def fewest(self, quant: str, rank: int) -> Way:
        """With the fewest experts, or layers, on the CPU that are planned to fit."""

        def at(context: int, users: int) -> Offer:
            choice = Choice(quant, users)
            try:
                plan = self.plan(choice, context)
            except OomphError as error:
                return Offer(None, why=error.message)
            units = int(plan.resolved["layers"])
            forms: list[Callable[[int], Choice]] = []
            if _has_experts(plan):
                forms.append(lambda n: replace(choice, experts=n))
            forms.append(lambda n: replace(choice, layers=units - n))
            for form in forms if units > 1 else ():
                fewest = self._least(1, units - 1, form, context)
                if fewest is not None:
                    return self.offer(fewest, context)
            return self.offer(choice, context)

        return _beside(Choice(quant), rank, at)

    def _least(self, low: int, high: int, form: Callable[[int], Choice], context: int) -> Choice | None:
        if not self._fits(form(high), context):
            return None
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self._fits(form(middle), context) else (middle + 1, high)
        return form(low)

    def _fits(self, choice: Choice, context: int) -> bool:
        try:
            return _serves(self.plan(choice, context))
        except OomphError:
            return False


def _standing(form: Choice, rank: int) -> dict[str, float]:
    """`rank`: of its file, the most exact is 0."""
    same_as_default = {"kv_bits": not form.cache, "steps": not form.micro_batch}
    return {"precision": -float(rank)} | {name: 0.0 if is_kept else -1.0 for name, is_kept in same_as_default.items()}


def _beside(form: Choice, rank: int, at: Callable[[int, int], Offer]) -> Way:
    return Way({"on_gpu": -1.0, **_standing(form, rank)}, at, is_usual=form.quant in (USUAL, ""))


def _has_experts(plan: Plan) -> bool:
    routed = any(rank.terms["weights"].parts.get("experts") for rank in plan.ranks)
    return bool(routed or plan.resolved["host"]["parts"].get("experts"))


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
