"""One candidate tried on some GPUs: the commands that could serve it, planned; the first that fits for certain."""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from oomph.engines.registry import engine_named, engine_of, plan_with_engine
from oomph.errors import OomphError
from oomph.ir import Deployment, Device, Model, Plan
from oomph.search.candidates import HOST_EXPERTS, Candidate
from oomph.search.outcome import judge
from oomph.search.request import context_grid, knobs_of, parallel_flag
from oomph.sources.load import load_once

# Utilisations that are tried after the engine's own: what is safe on most cards (safe_utilization.py, UNPLANNED).
HIGHER_SHARE = 0.95
_STEPS = 4  # plans that the longest context may take
_LEFT_FREE = 1 << 30  # of each GPU, where llama.cpp or Ollama place what does not fit (--fit-target)
_SHORT_OF = 0.9  # of what a first guess adds: what else grows with the context it does not know


class Served(Struct, frozen=True):
    """A plan that fits for certain."""

    plan: Plan
    context: int
    users: int  # requests of that context at once
    concurrency: float  # how many of them the cache holds at the least

    @property
    def capacity(self) -> int:
        return int(self.concurrency)

    @property
    def experts_on_cpu(self) -> int:
        """Bytes."""
        return int(self.plan.resolved.get("host", {"parts": {}})["parts"].get("experts", 0))


class Trial:
    """Plans on one machine, counted."""

    def __init__(self, gpus: tuple[Device, ...], users: int, releases: dict[str, str] | None = None) -> None:
        self.gpus, self.users, self.plans = gpus, users, 0
        self.releases = releases or {}
        self.short: dict[tuple[str, str], int] = {}  # what a candidate lacked, by checkpoint and tag
        self._bases: dict[str, Deployment] = {}
        self.is_host_known = any(gpu.system is not None or gpu.host_bytes for gpu in gpus)

    def serve(
        self, candidate: Candidate, engine: str, context: int, longest: bool, *, spill: bool = False
    ) -> Served | None:
        """With this context for the users; with `longest` as much more as they can have; with `spill` experts on the
        CPU."""
        ways = self._placed(candidate, engine, context, spill) if candidate.tag else self._batched(candidate, engine)
        for plan_at in ways:
            served = plan_at(context)
            if served is None:
                continue
            whole = not served.experts_on_cpu
            return self._stretch(served, plan_at, candidate.model.context) if longest and whole else served
        return None

    # --- engines that batch requests over one cache -------------------------------------------------------------------

    def _batched(self, candidate: Candidate, engine: str) -> Iterator[Callable[[int], Served | None]]:
        try:
            model = load_once(candidate.checkpoint)
            base = replace(self._base(engine), model=candidate.checkpoint)
            knobs = knobs_of(base)
        except OomphError:
            return
        if engine_of(base).missing_kernels(replace(base, gpus=self.gpus)):
            return
        high = knobs.default_share and knobs.default_share < HIGHER_SHARE
        limit, share = {knobs.users: self.users}, {knobs.share: HIGHER_SHARE}
        for parallel in self._layouts():
            flags: dict[str, Any] = {parallel_flag(knobs): parallel} if parallel > 1 else {}
            gpus = self.gpus[:parallel]
            for further in ({}, limit, {**share, **limit}) if high else ({}, limit):
                tried = {**flags, **further}

                def plan_at(context: int, tried: dict[str, Any] = tried, gpus: Any = gpus) -> Served | None:
                    deployment = replace(base, gpus=gpus, flags={**base.flags, **tried, knobs.context: context})
                    return self._judged(deployment, model, context, candidate)

                yield plan_at

    def _judged(self, deployment: Deployment, model: Model, context: int, candidate: Candidate) -> Served | None:
        self.plans += 1
        try:
            plan = self._plan(deployment, model)
        except OomphError:
            return None
        if model.pooling and plan.verdict.outcome == "fits":
            return Served(plan, context, self.users, self.users)
        outcome = judge(plan, margin=True)
        own = plan.resolved.get(knobs_of(deployment).users)
        allowed = own if isinstance(own, int) and own > 0 else self.users
        if outcome.kind != "ok" or min(outcome.concurrency, allowed) < self.users:
            self._note(candidate, plan)
            return None
        return Served(plan, context, self.users, outcome.concurrency)

    def _layouts(self) -> tuple[int, ...]:
        """All GPUs together, or the next power of two of them."""
        count = len(self.gpus)
        return (count, 1 << (count - 1).bit_length() - 1) if count > 1 else (1,)

    # --- engines that place layers ------------------------------------------------------------------------------------

    def _placed(
        self, candidate: Candidate, engine: str, least: int, spill: bool
    ) -> Iterator[Callable[[int], Served | None]]:
        name = gguf_name(candidate)

        def plan_at(context: int) -> Served | None:
            self.plans += 1
            try:
                deployment = replace(self._read(engine, name, context, whole=not spill), gpus=self.gpus)
                plan = self._plan(deployment, None)
            except OomphError:
                return None
            resolved, served = plan.resolved, Served(plan, context, self.users, self.users)
            placed = resolved.get("layers") == resolved.get("offloaded")
            placed = placed and served.experts_on_cpu <= (HOST_EXPERTS if spill else 0)
            if plan.verdict.outcome != "fits" or not placed or not _high_peaks_fit(plan):
                self._note(candidate, plan)
                return None
            if int(resolved.get("num_parallel", resolved.get("n_seq_max", 1))) != self.users:
                return None
            return served

        if self._may_hold(candidate, least, spill=spill):
            yield plan_at

    def _may_hold(self, candidate: Candidate, context: int, *, spill: bool) -> bool:
        """By its weights and its cache of 16 bits; with `spill` whether the host has room for the experts that the GPUs
        do not take."""
        room = sum(gpu.total_bytes - gpu.used_bytes for gpu in self.gpus)
        need = candidate.weights + candidate.model.kv_bytes * context * self.users
        if spill:
            return need + _LEFT_FREE * len(self.gpus) <= room + HOST_EXPERTS
        if candidate.weights <= room < need:
            self.short.setdefault((candidate.checkpoint, candidate.tag), need - room)
        return need <= room

    def _read(self, engine: str, name: str, context: int, *, whole: bool) -> Deployment:
        from oomph.answers.bare_plan import parse

        words = engine_named(engine).file_command(name, context, self.users, whole=whole)
        return parse(words, self.releases.get(engine, ""))

    # --- both ---------------------------------------------------------------------------------------------------------

    def _plan(self, deployment: Deployment, model: Model | None) -> Plan:
        """What the host has left decides where it is known: it is the GPU's memory too, or somebody told its size."""
        from oomph.answers.bare_plan import run

        return run(deployment, model) if self.is_host_known else plan_with_engine(deployment, model)

    def _base(self, engine: str) -> Deployment:
        from oomph.answers.bare_plan import parse

        if engine not in self._bases:
            words = engine_named(engine).serve_command("model/name")
            self._bases[engine] = parse(words, self.releases.get(engine, ""))
        return self._bases[engine]

    def _note(self, candidate: Candidate, plan: Plan) -> None:
        lacking = plan.verdict.short_bytes
        if lacking:
            self.short.setdefault((candidate.checkpoint, candidate.tag), lacking)

    def most_weights(self, candidate: Candidate) -> int:
        """Of a file of the same model: what its weights may be at most where this one does not fit. All else that it
        takes is alike; a tenth of what is lacking is left for what is not."""
        lacking = self.short.get((candidate.checkpoint, candidate.tag), 0)
        return candidate.weights - lacking * 9 // 10

    def _stretch(self, served: Served, plan_at: Callable[[int], Served | None], limit: int) -> Served:
        """The longest context that the users can have. A token more takes as much of the memory as the one before it:
        two plans tell where it is full."""
        grid = [c for c in context_grid(limit) if c > served.context]
        low, high = -1, len(grid)  # it fits at low, not at high
        tokens = served.context + _SHORT_OF * (_guess(served) - served.context)
        for step in range(_STEPS):
            guess = min(max(bisect_right(grid, tokens) - 1, -step), high - 1)  # one step further is always tried
            if guess <= low:
                break
            longer = plan_at(grid[guess])
            if longer is None:
                high = guess
                tokens = served.context + (grid[guess] - served.context) * 7 // 8
                continue
            slope = (_load(longer) - _load(served)) / (longer.context - served.context)
            tokens = longer.context + (1 - _load(longer)) / slope if slope > 0 else limit
            served, low = longer, guess
        return served


def _load(served: Served) -> float:
    """How full the memory is that a longer context takes: 1.0 = nothing is left."""
    plan = served.plan
    if engine_of(plan.deployment).layout == "placed":
        return max(1 - spare / total for spare, total in _spare(plan))
    return served.users / served.concurrency


def _guess(served: Served) -> float:
    """Tokens with which a cache would be full that grows with every token."""
    plan = served.plan
    if plan.kv is None:
        return float("inf")
    if engine_of(plan.deployment).layout == "placed":
        spare = min(spare for spare, _ in _spare(plan))
        per_token = max(1, plan.kv.need_bytes * served.users // max(served.context, 1) // max(len(plan.ranks), 1))
        return served.context + spare / per_token
    return served.context * served.concurrency / served.users


def _spare(plan: Plan) -> Iterator[tuple[int, int]]:
    """(bytes that a longer context may take, bytes of the GPU) of each stage: at the worst all but nothing, and as
    expected what the engine's own placement leaves free."""
    reserve = engine_of(plan.deployment).spare_bytes
    for rank in plan.ranks:
        for stage in rank.stages:
            yield rank.total_bytes - max(stage.peak_high, stage.peak_bytes + reserve), rank.total_bytes


def gguf_name(candidate: Candidate) -> str:
    """The repository that has the file, where one is known; else the checkpoint that it is converted from."""
    return f"{candidate.model.gguf_repo or candidate.checkpoint}:{candidate.tag}"


def _high_peaks_fit(plan: Plan) -> bool:
    return all(stage.peak_high <= rank.total_bytes for rank in plan.ranks for stage in rank.stages)
