"""What a search missed: alternatives to its answer, drawn and planned without it, judged by the stated objective.

Only the planner, the objective and the judge of a plan are shared with the search: the alternatives are its own product
of checkpoints, layouts, flags, shares and limits. Those that no measure could bring before the answer are left out; of
the others all are planned, or a random sample where they are too many.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

from msgspec.structs import replace

from oomph.answers.bare_plan import run
from oomph.engines.registry import engine_of
from oomph.errors import OomphError
from oomph.ir import Deployment, Device, Model, Plan, State
from oomph.ir.objective import (
    LEAST_CONTEXT,
    Objective,
    lowness,
    shortness,
    slowness,
    speed_step,
    users_step,
)
from oomph.search import score
from oomph.search.best import Best, objective_of, plan_speed
from oomph.search.outcome import judge
from oomph.search.request import Arm, Layout, Spaces, Want, base_of, knobs_of, models_of
from oomph.search.screen import with_screen
from oomph.sources.gpu import parse_gpus

MODELS = (
    "Qwen/Qwen3-8B", "Qwen/Qwen3-14B", "Qwen/Qwen3-32B", "Qwen/Qwen3-30B-A3B", "openai/gpt-oss-20b",
    "openai/gpt-oss-120b", "google/gemma-3-27b-it", "meta-llama/Llama-3.1-8B-Instruct", "Qwen/Qwen3.6-27B",
    "meta-llama/Llama-3.3-70B-Instruct", "Qwen/Qwen3-4B", "deepseek-ai/DeepSeek-V2-Lite",
)  # fmt: skip
MACHINES = (
    "RTX 3060", "RTX 4060 Ti 16GB", "RTX 3090", "RTX 4090", "RTX 5090", "2x RTX 3090", "2x RTX 4090", "4x RTX 3090",
    "L4", "2x L4", "A10G", "L40S", "2x L40S", "A100 80GB", "H100", "2x H100", "4x H100", "H200", "T4", "RTX PRO 6000",
)  # fmt: skip
ENGINES = ("vllm", "vllm", "sglang", "trtllm")
TIES = ("speed", "users", "context", "plain")  # what is compared last: a difference of one step here is a tie


class Question(NamedTuple):
    model: str
    gpu: str
    engine: str
    want: Want


def question(seed: int, *, engines: tuple[str, ...] = ENGINES) -> Question:
    rng = random.Random(seed)
    context = rng.choice((0, 0, 4096, 8192, 8192, 16384, 32768))
    users = rng.choice((0, 0, 1, 2, 8, 32))
    prefer = rng.choice(("", "", "", "quality", "users", "context", "speed"))
    return Question(rng.choice(MODELS), rng.choice(MACHINES), rng.choice(engines), Want(context, users, prefer))


class Alternatives:
    """Everything that could be asked of an engine for one question."""

    def __init__(self, asked: Question, *, layouts: Any = None) -> None:
        gpus = parse_gpus(asked.gpu)
        base, _ = base_of(asked.model, gpus, asked.engine)
        self.models, _ = models_of(base, False, ())
        self.want, self.empty_gpus, self.layouts = asked.want, gpus, layouts
        self.base = replace(base, gpus=with_screen(gpus))
        self.spaces = Spaces(self.models, self.base.gpus, asked.want, self.base)
        self.objective: Objective = objective_of(self.spaces)
        self.knobs = knobs_of(base)
        self.named = next(iter(self.models))
        losses = {name: self._loss(model, Arm(name)) for name, model in self.models.items()}
        self.least = min(losses.values())

    @staticmethod
    def _loss(model: Model, arm: Arm) -> float:
        return score.quality_loss(model, arm) - (score.KV_FP8_LOSS if score.small_cache(model, arm) else 0.0)

    # --- the standing of one configuration, from its arm and its plan ------------------------------------------------

    def static(self, arm: Arm) -> dict[str, float]:
        model = self.models[arm.model]
        return {
            "request": 0.0, "on_gpu": 0.0 if not arm.offload_gib else -1.0,
            "checkpoint": 0.0 if arm.model == self.named else -1.0,
            "precision": -float(int(2 * (self._loss(model, arm) - self.least) + 1e-9)),
            "images": -1.0 if arm.text_only else 0.0, "prefix": -1.0 if arm.prefix_off else 0.0,
            "screen": -1.0 if arm.empty else 0.0, "graphs": -2.0 if arm.eager else -1.0 if arm.few_graphs else 0.0,
            "kv_bits": -1.0 if score.small_cache(model, arm) else 0.0, "steps": -1.0 if arm.tokens else 0.0,
            "limit": 0.0 if arm.unlimited else -1.0, "plain": -float(arm.changes),
        }  # fmt: skip

    def key(self, arm: Arm, context: int, plan: Plan) -> tuple[float, ...] | None:
        """None: it does not serve what is asked for with certainty."""
        outcome = judge(plan, margin=True)
        users = self.want.users or 1
        if outcome.kind != "ok" or outcome.concurrency < users or context < self.want.context:
            return None
        limit = plan.resolved.get(self.knobs.users)
        held = min(outcome.concurrency, float(limit) if isinstance(limit, int) and limit > 0 else 1e9)
        if held < users:
            return None
        speed = plan_speed(plan, self.models[arm.model], users)
        rate = speed.all_users / speed.users if speed is not None else None
        longest = self.spaces.longest
        return self.objective.key({
            **self.static(arm), "limit": 0.0 if arm.unlimited else lowness(limit), "reading": slowness(rate),
            "length": 0.0 if context >= min(LEAST_CONTEXT, longest) else -1.0,
            "enough": shortness(context, longest), "speed": speed_step(rate) if rate is not None else 0.0,
            "context": users_step(context) if self.want.prefer == "context" else float(context),
            "users": users_step(int(held)),
        })  # fmt: skip

    def key_of(self, plan: Plan) -> tuple[float, ...]:
        """Of a plan that somebody prints: the arm is the one that has its flags."""
        flags, gpus = plan.deployment.flags, plan.deployment.gpus
        measured = {self.knobs.context, self.knobs.users, self.knobs.share, *self.base.flags}
        chosen = {name: value for name, value in flags.items() if name not in measured}
        arm = next(
            arm for arm in self.arms()
            if arm.model == plan.deployment.model and arm.unlimited is (self.knobs.users not in flags)
            and (gpus == self.empty_gpus if arm.empty else gpus == self.base.gpus)
            and {n: v for n, v in engine_of(self.base).arm_flags(arm).items() if n not in measured} == chosen
        )  # fmt: skip
        key = self.key(arm, int(flags[self.knobs.context]), run(plan.deployment, self.models[arm.model]))
        assert key is not None, flags
        return key

    # --- the product --------------------------------------------------------------------------------------------------

    def arms(self) -> Iterator[Arm]:
        count = len(self.base.gpus)
        shapes = {(tp, pp) for tp in (1, 2, 3, 4, 8) for pp in (1, 2, 4) if tp * pp <= count}
        screens = (False, True) if self.empty_gpus != self.base.gpus else (False,)
        known = self.knobs.known_flags
        for name, model in self.models.items():
            routed = any(type(m).__name__ == "Experts" for layer in model.layers for m in layer.block.modules)
            recurrent = any(isinstance(m, State) for layer in model.layers for m in layer.mixers)
            own = bool(model.quantization and model.quantization.kv_cache)
            for (tp, pp), ep, kv, graphs, text, off, tokens, unlimited, empty in product(
                sorted(shapes), (False, True) if routed else (False,), ("auto",) if own else ("auto", "fp8"),
                ("all", "few", "eager"), (False, True) if model.towers else (False,),
                (False, True) if recurrent else (False,), (0, 2048), (True, False), screens,
            ):  # fmt: skip
                layout = Layout(tp, pp, ep)
                if (ep and tp == 1) or (self.layouts is not None and not self.layouts(layout)):
                    continue
                arm = Arm(name, layout, kv, graphs == "eager", graphs == "few", text, 0, off, tokens,
                          unlimited=unlimited, empty=empty)  # fmt: skip
                if known >= engine_of(self.base).arm_flags(arm).keys():
                    yield arm

    def better(self, key: tuple[float, ...], most: int, seed: int) -> list[tuple[tuple[float, ...], str]]:
        """Configurations that are planned to be better than this, of `most` that could be."""
        rng = random.Random(seed)
        arms = [arm for arm in self.arms() if self.objective.best_key(self.static(arm)) > key]
        out = []
        shares = [round(n / 100, 2) for n in range(50, 99, 2)] + [0.97, 0.95, 0.93]
        for _ in range(most) if arms else ():
            arm = rng.choice(arms)
            longest = self.models[arm.model].max_position
            contexts = [
                c for c in (4096, 8192, 10240, 12288, 16384, 20480, 24576, 32768, 40960, longest) if c <= longest
            ]
            fixed = self.want.context and self.want.prefer != "context"
            context = (
                self.want.context if fixed else rng.choice([c for c in contexts if c >= self.want.context] or [longest])
            )
            plan = self.planned(arm, context, rng.choice([0.0, 0.0, *shares]), rng.choice((1, 2, 8, 16, 64, 256)))
            found = self.key(arm, context, plan) if plan is not None else None
            if found is not None and not self.tied(key, found):
                out.append((found, f"{arm} {context} {plan.deployment.flags if plan else ''}"))
        return out

    def contexts(self, longest: int) -> list[int]:
        """As asked, or some of those that could be."""
        if self.want.context and self.want.prefer != "context":
            return [self.want.context]
        usual = (4096, 8192, 10240, 12288, 16384, 20480, 24576, 32768, 40960, longest)
        return [context for context in usual if self.want.context <= context <= longest] or [longest]

    def tied(self, key: tuple[float, ...], found: tuple[float, ...]) -> bool:
        """Not better, or by one step of what is compared last."""
        if found <= key:
            return True
        place = next(n for n, (x, y) in enumerate(zip(found, key, strict=True)) if x != y)
        name = self.objective.order[place].name
        near = abs(found[place] - key[place]) <= 1 or (name == "context" and found[place] <= 1.06 * key[place])
        return name in TIES and near

    def planned(self, arm: Arm, context: int, share: float, limit: int) -> Plan | None:
        flags: dict[str, Any] = {**engine_of(self.base).arm_flags(arm), self.knobs.context: context}
        if not arm.unlimited:
            flags[self.knobs.users] = max(limit, self.want.users or 1)
        if share and share <= engine_of(self.base).highest_share(self.base.gpus):
            flags[self.knobs.share] = share
        gpus: tuple[Device, ...] = self.empty_gpus if arm.empty else self.base.gpus
        deployment: Deployment = replace(self.base, model=arm.model, flags={**self.base.flags, **flags}, gpus=gpus)
        try:
            return run(deployment, self.models[arm.model])
        except OomphError:
            return None


def answer_key(alternatives: Alternatives, best: Best) -> tuple[float, ...]:
    """Of the answer as it is printed: planned again, by the same standing as the alternatives."""
    plan = run(best.plan.deployment, alternatives.models[best.point.arm.model])
    key = alternatives.key(best.point.arm, best.point.context, plan)
    assert key is not None, best.plan.deployment.flags
    return key
