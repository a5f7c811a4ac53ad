"""llama.cpp behind the protocol: where each of its parts is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from oomph.engines.protocol import Control, EngineProtocol, LeverWords, Offer, Words
from oomph.ir.advice import Lever
from oomph.ir.deployment import Deployment, Engine
from oomph.ir.host import HostPlan
from oomph.ir.model import Model
from oomph.ir.plan import Plan

if TYPE_CHECKING:
    from oomph.commands.call import Call
    from oomph.doctor.case import Case
    from oomph.facts.loglines import LogRow
    from oomph.ir.hardware import Device
    from oomph.ir.timeline import StageName
    from oomph.search.cards import Search
    from oomph.simulate.speed import Timing

_OLD_PROGRAMS = ("server", "main")  # until mid-2024


class GgufEngine(EngineProtocol):
    """What llama.cpp and the engines around it have in common."""

    layout = "placed"

    def host_plan(self, plan: Plan, model: Model | None = None) -> HostPlan:
        from oomph.engines.llamacpp.host import host_plan

        return host_plan(plan)

    def reasons(self, plan: Plan, model: Model | None = None) -> tuple[str, ...]:
        from oomph.engines.llamacpp.reasons import reasons

        return reasons(plan)

    def failed_deployment(self, case: Case) -> Deployment | None:
        from oomph.doctor.rebuild import started
        from oomph.engines.llamacpp.failed import printed_devices

        return started(case, self, printed_devices(case.observations))

    def inferred(self, case: Case) -> tuple[StageName | None, str] | None:
        from oomph.doctor.inferred_llamacpp import inferred

        return inferred(case)

    def timing(self, plan: Plan, model: Model) -> Timing | None:
        from oomph.engines.llamacpp.timing import timing

        return timing(plan, model)


class LlamaCpp(GgufEngine):
    name = "llamacpp"
    title = "llama.cpp"
    aliases = ("llama.cpp", "llama-cpp")
    words = Words(
        stages={"weights_load": "while loading the weights", "kv_alloc": "while creating the context"},
        cache_unit="cells",
        lost_reason='the lines before the process ended, from "load_tensors:" on (-lv 4 prints more)',
    )

    programs = ("llama-server", "llama-cli", "llama-bench")
    modules = ("llama_cpp",)
    frame_paths = ("/llama_cpp/",)
    images = ("llama.cpp", "llama-cpp")
    variables = ("GGML_", "LLAMA_ARG_", "UR_L0_")
    launches = (r"\bllama-server\b",)

    def newest(self) -> str:
        from oomph.facts.llamacpp.builds import NEWEST

        return f"b{NEWEST}"

    def nearest(self, version: str) -> tuple[str, str]:
        from oomph.facts.llamacpp.builds import parse_build

        return f"b{parse_build(version)}", ""

    def recognises(self, program: str, words: Sequence[str]) -> bool:
        if program in _OLD_PROGRAMS:
            return any(word.endswith(".gguf") for word in words)
        return super().recognises(program, words)

    def knows_flag(self, flag: str) -> bool:
        from oomph.facts.llamacpp.flags import is_known

        return is_known(flag)

    def read_command(self, call: Call, release: Engine | str | None) -> list[Deployment]:
        from oomph.commands.call import choose_release
        from oomph.engines.llamacpp.command import deployment

        return [deployment(call, choose_release(self, release)[0])]

    def write_command(self, deployment: Deployment) -> list[str]:
        from oomph.engines.llamacpp.command import to_words

        return to_words(deployment)

    def plan(self, deployment: Deployment, model: Model | None = None) -> Plan:
        from oomph.engines.llamacpp.source import plan_command

        return plan_command(deployment, model)

    def controls(self) -> tuple[Control, ...]:
        from oomph.engines.llamacpp.controls import CONTROLS

        return CONTROLS

    def levers(self, plan: Plan, model: Model | None = None) -> Iterable[Lever]:
        from oomph.engines.llamacpp.levers import levers

        return levers(plan)

    def log_rows(self) -> tuple[LogRow, ...]:
        from oomph.facts.llamacpp.logs import ROWS

        return ROWS

    def card_search(self, model: str, request: str) -> Search:
        from oomph.engines.llamacpp.cards import card_search

        return card_search(model, request)

    def file_command(self, name: str, context: int, users: int) -> list[str]:
        return ["llama-server", "-hf", name, "-c", str(context * users), "-np", str(users), "-ngl", "99"]

    def offer(
        self, model: str, gpus: tuple[Device, ...], context: int, users: int, planner: Callable[[Deployment], Plan]
    ) -> Offer:
        from oomph.engines.llamacpp.offer import offer

        return offer(model, gpus, context, users, planner)

    def lever_words(self, case: Case) -> Mapping[str, LeverWords]:
        from oomph.engines.llamacpp.lever_words import FLAGS, SLIDERS

        return SLIDERS if case.has("lc_guard", "lc_studio") else FLAGS


ENGINE = LlamaCpp()
