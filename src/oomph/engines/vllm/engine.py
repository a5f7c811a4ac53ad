"""vLLM behind the protocol: where each of its parts is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from oomph.engines.protocol import Container, Control, EngineProtocol, FitKnobs, Words
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
    from oomph.ir.hardware import Device
    from oomph.ir.observation import Observation
    from oomph.ir.timeline import StageName
    from oomph.search.space import Arm
    from oomph.simulate.build import Built, Factors
    from oomph.simulate.speed import Timing


class Vllm(EngineProtocol):
    name = "vllm"
    title = "vLLM"
    words = Words(workspace_variable="VLLM_FLASHINFER_WORKSPACE_BUFFER_SIZE")

    package = "vllm"
    programs = ("vllm",)
    modules = ("vllm",)
    images = ("vllm",)
    variables = ("VLLM_",)
    launches = (r"\bvllm\s+serve\b", r"-m\s+vllm\.")
    frame_paths = ("/vllm",)
    processes = ("EngineCore", "VllmWorker", "VllmWorkerProcess", "APIServer", "ApiServer", "Worker")
    terms = ("available_kv", "weights", "load_peak", "activation_peak", "non_torch", "cudagraph", "context")
    emit_forms = ("command", "yaml", "docker", "compose", "kubernetes", "nodes", "lws", "rayservice")

    def releases(self) -> tuple[str, ...]:
        from oomph.facts.vllm.versions import RELEASES

        return RELEASES

    def nearest(self, version: str) -> tuple[str, str]:
        from oomph.facts.vllm.versions import nearest

        return nearest(version)

    def image_release(self, tag: str) -> str:
        """v0.21.0 and the like; 25.09-py3 numbers the container, not the vLLM inside."""
        return tag if tag.removeprefix("v")[:2] == "0." and tag.removeprefix("v")[2:3].isdigit() else ""

    def described_in(self, text: str, name: str) -> tuple[str, ...]:
        from oomph.engines.vllm.sagemaker import sagemaker_words

        return sagemaker_words(text)

    def recognises(self, program: str, words: Sequence[str]) -> bool:
        """`uv run --with vllm vllm serve`: the first is an argument."""
        if program not in self.programs:
            return super().recognises(program, words)
        from oomph.commands.call import program as program_name

        return len(words) < 2 or program_name(words[1]) not in self.programs

    def starts_server(self, words: Sequence[str]) -> bool:
        from oomph.commands.call import program

        return program(words[0]) not in self.programs or tuple(words[1:2]) == ("serve",)

    def calls_in(self, source: str) -> bool:
        from oomph.engines.vllm.python_call import calls_engine

        return calls_engine(source)

    def knows_flag(self, flag: str) -> bool:
        from oomph.facts.vllm.flags import options_of

        return options_of(self.newest()).status(flag).state != "unknown"

    def read_command(self, call: Call, release: Engine | str | None) -> list[Deployment]:
        from oomph.engines.vllm import command
        from oomph.engines.vllm.arguments import NoSuchFlag

        chosen, notes = call.choose_release(self, release)
        while True:  # each turn has an older release
            try:
                if call.source:
                    from oomph.engines.vllm import python_call

                    return python_call.deployments(call, chosen, notes)
                return [command.deployment(call, chosen, notes)]
            except NoSuchFlag as error:
                older = command.last_release_with(error, chosen)
                if older is None:
                    raise
                chosen, notes = older[0], (*notes, older[1])

    def write_command(self, deployment: Deployment) -> list[str]:
        from oomph.engines.vllm import command

        if deployment.usage == "llm":
            from oomph.engines.vllm import python_call

            return ["python", "-c", python_call.to_source(deployment)]
        return command.to_words(deployment)

    def in_container(self, image: str, arguments: Sequence[str]) -> list[str]:
        from oomph.engines.vllm.container import entry_point

        return ["vllm", *arguments] if arguments[:1] == ["serve"] else [*entry_point(image).split(), *arguments]

    def container_notes(self, image: str, words: Sequence[str]) -> list[str]:
        from oomph.engines.vllm.container import notes

        return notes(image, words)

    def memory_flags(self, deployment: Deployment) -> dict[str, Any]:
        from oomph.facts.vllm.flags import options_of

        rows = options_of(deployment.engine.version).by_field
        return {
            field: value
            for field, value in deployment.flags.items()
            if (field not in rows or rows[field].group == "engine") and field != "served_model_name"
        }

    def gpus_needed(self, deployment: Deployment) -> int:
        from oomph.engines.vllm.start import replicas_here, world_size

        return world_size(deployment) * replicas_here(deployment)

    def plan(self, deployment: Deployment, model: Model | None = None) -> Plan:
        from oomph.engines.vllm.start import plan_command

        return plan_command(deployment, model)

    def levers(self, plan: Plan, model: Model | None = None) -> Iterable[Lever]:
        from oomph.engines.vllm.levers import levers
        from oomph.sources.load import load_once

        return levers(plan, model or load_once(plan.deployment.model))

    def refusal_levers(self, plan: Plan) -> Iterable[Lever]:
        from oomph.engines.vllm.refusal_levers import refusal_levers

        return refusal_levers(plan)

    def reasons(self, plan: Plan, model: Model | None = None) -> tuple[str, ...]:
        from oomph.engines.vllm.reasons import reasons
        from oomph.sources.load import load_once

        return reasons(plan, model or load_once(plan.deployment.model))

    def log_rows(self) -> tuple[LogRow, ...]:
        from oomph.facts.vllm.logs import ROWS

        return ROWS

    def log_release(self, observations: Sequence[Observation]) -> tuple[str, str]:
        from oomph.logs.release import release

        return release(observations)

    def log_command(self, model: str, flags: Mapping[str, Any], environment: Mapping[str, str]) -> str:
        from oomph.logs.deployment import render

        return render(model, dict(flags), dict(environment))

    def inferred(self, case: Case) -> tuple[StageName | None, str] | None:
        from oomph.doctor.inferred_vllm import inferred

        return inferred(case)

    def failed_deployment(self, case: Case) -> Deployment | None:
        from oomph.engines.vllm.failed import failed_deployment

        return failed_deployment(case)

    def fit_knobs(self, version: str) -> FitKnobs:
        from oomph.facts.vllm.facts import at
        from oomph.facts.vllm.flags import options_of

        share, fields = at(version).limits.utilization, options_of(version).fields
        return FitKnobs("max_model_len", "max_num_seqs", "gpu_memory_utilization", share, fields)

    def highest_share(self, gpus: tuple[Device, ...]) -> float:
        from oomph.engines.vllm.safe_utilization import HIGHEST, SHARED_MEMORY

        return SHARED_MEMORY if any(device.unified for device in gpus) else HIGHEST

    def safe_share(self, plan: Plan) -> tuple[float, str]:
        from oomph.engines.vllm.safe_utilization import safe_utilization

        safe = safe_utilization(plan)
        return safe.value, safe.reason

    def arm_flags(self, arm: Arm) -> dict[str, Any]:
        from oomph.engines.vllm.arm import arm_flags

        return arm_flags(arm)

    def serve_command(self, model: str) -> list[str]:
        return ["vllm", "serve", model]

    def simulation(
        self, deployment: Deployment, model: Model, plan: Plan, factors: Factors, *, accepted: float, timed: bool
    ) -> Built:
        from oomph.simulate.build import build

        return build(deployment, model, plan, factors, accepted=accepted, timed=timed)

    def timing(self, plan: Plan, model: Model) -> Timing | None:
        from oomph.engines.vllm.timing import timing

        return timing(plan, model)

    def at_release(self, deployment: Deployment, version: str) -> tuple[Deployment, tuple[str, ...]]:
        from oomph.engines.vllm.command import at_release
        from oomph.facts.vllm.flags import options_of

        return at_release(deployment, options_of(version))

    def config_file(self, deployment: Deployment) -> str:
        from oomph.engines.vllm.emit import config_file

        return config_file(deployment)

    def container(self, deployment: Deployment) -> Container:
        from oomph.engines.vllm.emit import container

        return container(deployment)

    def launch_lines(self, plan: Plan, nodes: int) -> str:
        from oomph.engines.vllm.emit import launch_lines

        return launch_lines(plan, nodes)

    def node_commands(self, plan: Plan, nodes: int) -> tuple[list[str], list[str]]:
        from oomph.engines.vllm.emit import node_commands

        return node_commands(plan, nodes)

    def controls(self) -> tuple[Control, ...]:
        from oomph.engines.vllm.controls import CONTROLS

        return CONTROLS

    def host_plan(self, plan: Plan, model: Model | None = None) -> HostPlan:
        from oomph.engines.vllm.host import host_plan

        return host_plan(plan, model)

    def uncounted_share(self, plan: Plan) -> float:
        from oomph.engines.vllm.host import uncounted_share

        return uncounted_share(plan)

    def host_needs(self, plan: Plan, nodes: int = 1) -> Host:
        from oomph.engines.vllm.emit import host_needs

        return host_needs(plan, nodes)


ENGINE = Vllm()
