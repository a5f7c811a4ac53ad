"""SGLang behind the protocol: where each of its parts is."""

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from oomph.engines.protocol import EngineProtocol, part
from oomph.engines.values import FitKnobs, Words
from oomph.ir import Deployment, Engine, Lever, Model, Plan

if TYPE_CHECKING:
    from oomph.commands.call import Call
    from oomph.doctor.case import Case
    from oomph.simulate.build import Built
    from oomph.simulate.step_costs import Factors


class SgLang(EngineProtocol):
    name = "sglang"
    title = "SGLang"
    words = Words(
        missing_stages=("profile_run", "cudagraph_profile"),  # what the pool may have is computed, not measured
        stages={
            "kv_check": "while sizing the memory pool",
            "kv_alloc": "while allocating the memory pool",
            "runtime_request": "while serving, in the memory that is not static",
        },
        opens={
            "weights_load": "Load weight begin",
            "kv_check": "Load weight end",
            "cudagraph_capture": "Memory pool end",
            "runtime_request": "The server is fired up",
        },
        cache_unit="pages",
    )

    package = "sglang"
    programs = ("sglang",)
    modules = ("sglang",)
    images = ("sglang",)
    no_device = "RuntimeError: No accelerator (CUDA, XPU, HPU, NPU, MUSA, MPS) or platform plugin is available."
    variables = ("SGLANG_",)
    subcommands = ("serve", "generate", "version")  # cli/main.py of 0.5.23
    launches = (r"\bsglang\s+serve\b", r"-m\s+sglang\.launch_server\b")
    frame_paths = ("/sglang/",)
    terms = ("free_before_load", "weights", "load_peak", "activation_peak", "cudagraph", "context", "available_kv")
    emit_forms = (
        "command", "docker", "compose", "kubernetes",
        "pod", "kserve", "dra", "llama-swap", "aibrix", "prometheus", "skypilot",
    )  # fmt: skip
    usage_metrics = ("sglang:token_usage",)

    no_kernels = (("apple", "SGLang serves on Apple's GPUs through MLX, whose memory is not planned"),)

    releases = part("facts.sglang.versions", "RELEASES")
    nearest = part("facts.sglang.versions", "nearest")
    looked_at = part("facts.sglang.versions", "LOOKED_AT")
    image_release = part("facts.sglang.versions", "image_release")
    starts_server = part("engines.sglang.command.serve", "starts_server")
    knows_flag = part("facts.sglang.flags", "is_known")
    write_command = part("engines.sglang.command.serve", "to_words")
    log_rows = part("facts.sglang.logs", "ROWS")
    inferred = part("engines.common.inferred", "inferred")
    arm_flags = part("engines.sglang.arm", "arm_flags")
    timing = part("engines.sglang.timing", "timing")
    container = part("engines.sglang.emit", "container")
    controls = part("engines.sglang.controls", "CONTROLS")
    host_plan = part("engines.sglang.emit", "host_plan")
    host_needs = part("engines.sglang.emit", "host_needs")
    uncounted_share = part("facts.unified", "UNCOUNTED_SGLANG")
    case_rows = part("engines.sglang.case_levers", "rows")
    log_settings = part("engines.sglang.failed", "printed_settings")
    calls_in = part("engines.sglang.command.python_call", "calls_engine")
    safe_share = part("engines.sglang.safe_fraction", "safe_fraction")

    def read_command(self, call: "Call", release: Engine | str | None) -> list[Deployment]:
        from oomph.engines.sglang.command import python_call, serve as command

        engine, notes = call.choose_release(self, release)
        if call.source:
            return python_call.deployments(call, engine, notes)
        return [command.deployment(call, engine, notes)]

    def image_vendor(self, image: str) -> str:
        """docker/Dockerfile's tags end with CUDA's version or nothing, docker/rocm.Dockerfile's hold `rocm`."""
        from oomph.commands.call import image_tag

        tag = image_tag(image)
        if not image.partition("@")[0].removesuffix(f":{tag}").endswith("lmsysorg/sglang"):
            return ""
        is_cuda = re.fullmatch(r"(?:latest|v\d[\d.]*(?:post\d+)?(?:-cu\d+)?)?", tag)
        return "amd" if "rocm" in tag else "nvidia" if is_cuda else ""

    def missing_kernels(self, deployment: Deployment) -> str:
        """sgl-kernel/setup_rocm.py ends the build for any other card unless somebody names its code (AMDGPU_TARGET);
        docker/rocm.Dockerfile builds for these two."""
        bare = next((gpu.name for gpu in deployment.gpus if gpu.vendor == "amd" and gpu.sm not in (94, 95)), "")
        return f"SGLang's images for ROCm have code for gfx942 and gfx950 alone, not for the {bare}" if bare else ""

    def container_refusal(self, image: str, words: Sequence[str]) -> str:
        if "lmsysorg/sglang" not in image or not words or words[0][:1] != "-":
            return ""
        return "the image starts no server by itself: its command begins with `python3 -m sglang.launch_server`"

    def in_container(self, image: str, arguments: Sequence[str]) -> list[str]:
        """lmsysorg/sglang has no entry point of its own: a container is given the whole command."""
        starts = ("python", "python3", "sglang", "bash", "sh")
        if arguments and arguments[0] in starts:
            return list(arguments)
        return ["python3", "-m", "sglang.launch_server", *arguments]

    def memory_flags(self, deployment: Deployment) -> dict[str, Any]:
        from oomph.engines.sglang.command.serve import FRONTEND

        return {field: value for field, value in deployment.flags.items() if field not in FRONTEND}

    def at_release(self, deployment: Deployment, version: str) -> tuple[Deployment, tuple[str, ...]]:
        from oomph.engines.sglang.command.serve import at_release
        from oomph.facts.sglang.flags import options_of

        return at_release(deployment, options_of(version))

    degrees = ("dp_size", "tp_size", "pp_size")

    def whole_experts(self, degree: int) -> dict[str, Any]:
        return {"ep_size": degree}

    def node_flags(self, nodes: int) -> dict[str, Any]:
        return {"nnodes": nodes}

    world = part("engines.sglang.world", "world")
    too_few_gpus = part("engines.sglang.world", "too_few_gpus")

    def plan(self, deployment: Deployment, model: Model | None = None) -> Plan:
        from oomph.engines.common.checkpoint import load_checkpoint
        from oomph.engines.sglang.command.serve import check
        from oomph.engines.sglang.drafts import load_drafter
        from oomph.engines.sglang.planner import plan_sglang
        from oomph.sources.load import require_layers

        check(deployment.flags)
        target = require_layers(model or load_checkpoint(deployment.model))
        return plan_sglang(target, deployment, load_drafter(deployment))

    def simulation(
        self, deployment: Deployment, model: Model, plan: Plan, factors: "Factors", *, accepted: float, timed: bool
    ) -> "Built":
        """Of `factors` only the scale is read: the shares of the peak are SGLang's own (timing.py)."""
        from oomph.engines.sglang.simulation import build

        return build(deployment, model, plan, scale=factors.scale, timed=timed)

    def levers(self, plan: Plan, model: Model | None = None) -> Iterable[Lever]:
        from oomph.engines.common.checkpoint import load_checkpoint
        from oomph.engines.sglang.levers import levers

        return levers(plan, model or load_checkpoint(plan.deployment.model))

    def failed_deployment(self, case: "Case") -> Deployment | None:
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

    def serve_command(self, model: str) -> list[str]:
        return ["python", "-m", "sglang.launch_server", "--model-path", model]


ENGINE = SgLang()
