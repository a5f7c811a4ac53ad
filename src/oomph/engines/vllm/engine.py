"""vLLM behind the protocol: where each of its parts is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from oomph.engines.protocol import EngineProtocol, FitKnobs
from oomph.ir.deployment import Deployment, Engine
from oomph.ir.model import Model
from oomph.ir.observation import Observation
from oomph.ir.plan import Plan

if TYPE_CHECKING:
    from oomph.commands.call import Call
    from oomph.doctor.case import Case
    from oomph.facts.loglines import LogRow
    from oomph.ir.timeline import StageName
    from oomph.search.space import Arm
    from oomph.simulate.build import Built, Factors


class Vllm(EngineProtocol):
    name = "vllm"
    title = "vLLM"

    package = "vllm"
    programs = ("vllm",)
    modules = ("vllm",)
    images = ("vllm",)
    variables = ("VLLM_",)
    frame_paths = ("/vllm",)
    terms = ("available_kv", "weights", "load_peak", "activation_peak", "non_torch", "cudagraph", "context")
    emit_forms = ("command", "yaml", "docker", "compose", "kubernetes", "lws")

    def releases(self) -> tuple[str, ...]:
        from oomph.facts.vllm.versions import RELEASES

        return RELEASES

    def nearest(self, version: str) -> tuple[str, str]:
        from oomph.facts.vllm.versions import nearest

        return nearest(version)

    def image_release(self, tag: str) -> str:
        from oomph.commands.call import release_tag

        return release_tag(f"image:{tag}")

    def recognises(self, program: str, words: Sequence[str]) -> bool:
        """`uv run --with vllm vllm serve`: the first is an argument."""
        doubled = program in self.programs and len(words) > 1 and words[1].rpartition("/")[2] in self.programs
        return not doubled and super().recognises(program, words)

    def starts_server(self, words: Sequence[str]) -> bool:
        return words[0].rpartition("/")[2] not in self.programs or tuple(words[1:2]) == ("serve",)

    def read_command(self, call: Call, release: Engine | str | None) -> list[Deployment]:
        from oomph.commands import python_call, vllm

        return python_call.deployments(call, release) if call.source else [vllm.deployment(call, release)]

    def write_command(self, deployment: Deployment) -> list[str]:
        from oomph.commands import python_call, vllm

        if deployment.usage == "llm":
            return ["python", "-c", python_call.to_source(deployment)]
        return vllm.to_words(deployment)

    def memory_flags(self, deployment: Deployment) -> dict[str, Any]:
        from oomph.facts.vllm.flags import by_field

        rows = by_field(deployment.engine.version)
        return {
            field: value
            for field, value in deployment.flags.items()
            if (field not in rows or rows[field].group == "engine") and field != "served_model_name"
        }

    def gpus_needed(self, deployment: Deployment) -> int:
        from oomph.plan import world_size

        return world_size(deployment)

    def plan(self, deployment: Deployment, model: Model | None = None) -> Plan:
        from oomph.plan import run

        return run(deployment, model)

    def log_rows(self) -> tuple[LogRow, ...]:
        from oomph.facts.vllm.logs import ROWS

        return ROWS

    def log_release(self, observations: Sequence[Observation]) -> tuple[str, str]:
        from oomph.logs.release import release

        return release(observations)

    def inferred(self, case: Case) -> tuple[StageName | None, str] | None:
        from oomph.doctor.inferred_vllm import inferred

        return inferred(case)

    def failed_deployment(self, case: Case) -> Deployment | None:
        from oomph.doctor.rebuild import deployment_of

        return deployment_of(case)

    def fit_knobs(self, version: str) -> FitKnobs:
        from oomph.facts.vllm.defaults import defaults
        from oomph.facts.vllm.flags import by_field

        share = defaults(version).utilization
        return FitKnobs("max_model_len", "max_num_seqs", "gpu_memory_utilization", share, frozenset(by_field(version)))

    def arm_flags(self, arm: Arm) -> dict[str, Any]:
        return arm.flags()

    def serve_command(self, model: str) -> list[str]:
        return ["vllm", "serve", model]

    def simulation(
        self, deployment: Deployment, model: Model, plan: Plan, factors: Factors, *, accepted: float, timed: bool
    ) -> Built:
        from oomph.simulate.build import build

        return build(deployment, model, plan, factors, accepted=accepted, timed=timed)


ENGINE = Vllm()
