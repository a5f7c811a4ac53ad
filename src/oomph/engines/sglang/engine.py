"""SGLang behind the protocol: where each of its parts is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from oomph.engines.protocol import Container, Control, EngineProtocol, FitKnobs, LeverWords, Words
from oomph.ir.advice import Lever
from oomph.ir.deployment import Deployment, Engine
from oomph.ir.host import HostPlan
from oomph.ir.model import Model
from oomph.ir.plan import Plan

if TYPE_CHECKING:
    from oomph.commands.call import Call
    from oomph.doctor.case import Case
    from oomph.emit.resources import Host
    from oomph.facts.loglines import LogRow
    from oomph.ir.timeline import StageName
    from oomph.search.space import Arm
    from oomph.simulate.speed import Timing


class SgLang(EngineProtocol):
    name = "sglang"
    title = "SGLang"
    words = Words(
        stages={
            "kv_check": "while sizing the memory pool",
            "kv_alloc": "while allocating the memory pool",
            "runtime_request": "while serving, in the memory that is not static",
        },
        cache_unit="pages",
        parallel_flag="--tp",
        workspace_variable="SGLANG_FLASHINFER_WORKSPACE_SIZE",
    )

    package = "sglang"
    programs = ("sglang",)
    modules = ("sglang",)
    images = ("sglang",)
    variables = ("SGLANG_",)
    launches = (r"\bsglang\s+serve\b", r"-m\s+sglang\.launch_server\b")
    frame_paths = ("/sglang/",)
    terms = ("free_before_load", "weights", "load_peak", "activation_peak", "cudagraph", "context", "available_kv")
    emit_forms = ("command", "docker", "compose", "kubernetes")

    def releases(self) -> tuple[str, ...]:
        from oomph.facts.sglang.versions import RELEASES

        return RELEASES

    def nearest(self, version: str) -> tuple[str, str]:
        from oomph.facts.sglang.versions import nearest

        return nearest(version)

    def image_release(self, tag: str) -> str:
        from oomph.facts.sglang.versions import image_release

        return image_release(tag)

    def starts_server(self, words: Sequence[str]) -> bool:
        from oomph.engines.sglang.command import starts_server

        return starts_server(words)

    def calls_in(self, source: str) -> bool:
        from oomph.engines.sglang.python_call import calls_engine

        return "sglang" in source and calls_engine(source)

    def knows_flag(self, flag: str) -> bool:
        from oomph.facts.sglang.flags import is_known

        return is_known(flag)

    def read_command(self, call: Call, release: Engine | str | None) -> list[Deployment]:
        from oomph.engines.sglang import command, python_call

        chosen, notes = call.choose_release(self, release)
        if call.source:
            return python_call.deployments(call, chosen, notes)
        return [command.deployment(call, chosen, notes)]

    def write_command(self, deployment: Deployment) -> list[str]:
        from oomph.engines.sglang.command import to_words

        return to_words(deployment)

    def in_container(self, image: str, arguments: Sequence[str]) -> list[str]:
        """lmsysorg/sglang has no entry point of its own: a container is given the whole command."""
        starts = ("python", "python3", "sglang", "bash", "sh")
        if arguments and arguments[0] in starts:
            return list(arguments)
        return ["python3", "-m", "sglang.launch_server", *arguments]

    def memory_flags(self, deployment: Deployment) -> dict[str, Any]:
        from oomph.engines.sglang.command import FRONTEND

        return {field: value for field, value in deployment.flags.items() if field not in FRONTEND}

    def at_release(self, deployment: Deployment, version: str) -> tuple[Deployment, tuple[str, ...]]:
        from oomph.engines.sglang.releases import at_release
        from oomph.facts.sglang.flags import options_of

        return at_release(deployment, options_of(version))

    def gpus_needed(self, deployment: Deployment) -> int:
        sizes = [deployment.flags.get(field) for field in ("tp_size", "pp_size")]
        needed = 1
        for size in sizes:
            needed *= size if isinstance(size, int) and size > 0 else 1
        nodes = deployment.flags.get("nnodes")
        return max(1, needed // nodes) if isinstance(nodes, int) and nodes > 1 else needed

    def plan(self, deployment: Deployment, model: Model | None = None) -> Plan:
        from oomph.engines.sglang.command import check
        from oomph.engines.sglang.drafts import load_drafter
        from oomph.engines.sglang.planner import plan_sglang
        from oomph.sources.load import load_once, require_layers

        check(deployment.flags)
        target = require_layers(model or load_once(deployment.model))
        return plan_sglang(target, deployment, load_drafter(deployment))

    def levers(self, plan: Plan, model: Model | None = None) -> Iterable[Lever]:
        from oomph.engines.sglang.levers import levers
        from oomph.sources.load import load_once

        return levers(plan, model or load_once(plan.deployment.model))

    def log_rows(self) -> tuple[LogRow, ...]:
        from oomph.facts.sglang.logs import ROWS

        return ROWS

    def inferred(self, case: Case) -> tuple[StageName | None, str] | None:
        from oomph.doctor.inferred_vllm import inferred

        return inferred(case)

    def failed_deployment(self, case: Case) -> Deployment | None:
        from oomph.doctor.rebuild import devices, started
        from oomph.engines.sglang.failed import from_arguments, pin_printed

        deployment = started(case, self) or from_arguments(case.observations, devices(case))
        return pin_printed(deployment, case.observations) if deployment is not None else None

    def fit_knobs(self, version: str) -> FitKnobs:
        """SGLang chooses its share for each card: 0.0 leaves it the choice. What the share does not take has to do for
        graphs and requests as well."""
        from oomph.engines.sglang.arm import UNPLANNED
        from oomph.facts.sglang.flags import options_of

        stages = ("startup_free_memory", "kv_alloc", "cudagraph_capture", "runtime_request")
        flags = frozenset(options_of(version).by_field) - UNPLANNED
        return FitKnobs("context_length", "max_running_requests", "mem_fraction_static", 0.0, flags, stages)

    def safe_share(self, plan: Plan) -> tuple[float, str]:
        from oomph.engines.sglang.safe_fraction import safe_fraction

        safe = safe_fraction(plan)
        return safe.value, safe.reason

    def arm_flags(self, arm: Arm) -> dict[str, Any]:
        from oomph.engines.sglang.arm import arm_flags

        return arm_flags(arm)

    def timing(self, plan: Plan, model: Model) -> Timing | None:
        from oomph.engines.sglang.timing import timing

        return timing(plan, model)

    def serve_command(self, model: str) -> list[str]:
        return ["python", "-m", "sglang.launch_server", "--model-path", model]

    def container(self, deployment: Deployment) -> Container:
        from oomph.engines.sglang.emit import container

        return container(deployment)

    def controls(self) -> tuple[Control, ...]:
        from oomph.engines.sglang.controls import CONTROLS

        return CONTROLS

    def host_plan(self, plan: Plan, model: Model | None = None) -> HostPlan:
        from oomph.engines.sglang.emit import host_plan

        return host_plan(plan, model)

    def uncounted_share(self, plan: Plan) -> float:
        from oomph.facts.unified import UNCOUNTED_SGLANG

        return UNCOUNTED_SGLANG

    def host_needs(self, plan: Plan, nodes: int = 1) -> Host:
        from oomph.engines.sglang.emit import host_needs

        return host_needs(plan, nodes)

    def lever_words(self, case: Case) -> Mapping[str, LeverWords]:
        from oomph.engines.sglang.lever_words import FLAGS

        return FLAGS


ENGINE = SgLang()
