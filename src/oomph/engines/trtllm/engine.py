"""TensorRT-LLM behind the protocol: where each of its parts is."""

from collections.abc import Iterable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from oomph.engines.protocol import EngineProtocol, part
from oomph.engines.values import FitKnobs, Words
from oomph.ir import Deployment, Engine, Lever, Model, Plan
from oomph.ir.world import Shortage, World
from oomph.units import cdiv

if TYPE_CHECKING:
    from oomph.commands.call import Call
    from oomph.doctor.case import Case
    from oomph.ir.observation import Observation
    from oomph.simulate.build import Built, Factors


class TensorRtLlm(EngineProtocol):
    name = "trtllm"
    title = "TensorRT-LLM"
    aliases = ("tensorrt-llm", "tensorrt_llm", "trt-llm", "tensorrt llm", "tensorrtllm")

    words = Words(
        stages={
            "profile_run": "in the dummy run that measures the peak",
            "kv_check": "while sizing the KV cache",
            "cudagraph_capture": "while warming up the second executor, beside the full KV cache",
            "runtime_request": "while serving, in what the KV cache leaves",
        },
        opens={
            "profile_run": "Model init total",
            "kv_alloc": "Estimated max memory in KV cache",
            "runtime_request": "Application startup complete",
        },
    )

    package = "tensorrt_llm"
    programs = ("trtllm-serve",)
    modules = ("tensorrt_llm",)
    images = ("tensorrt-llm", "tensorrt_llm", "trtllm")
    variables = ("TRTLLM_", "TLLM_")
    launches = (r"\btrtllm-serve\b",)
    frame_paths = ("/tensorrt_llm/",)
    emit_forms = (
        "command", "yaml", "docker", "compose", "kubernetes", "pod", "kserve", "dra", "prometheus", "skypilot",
    )  # fmt: skip
    terms = (
        "peak", "weights", "load_peak", "context", "non_torch", "activation_peak", "temporary_kv", "available_kv",
        "free_before_kv",
    )  # fmt: skip

    no_kernels = tuple(
        (vendor, f"TensorRT-LLM runs on NVIDIA's GPUs only, not on {whose}")
        for vendor, whose in (("amd", "AMD's"), ("intel", "Intel's"), ("apple", "Apple's"))
    )

    releases = part("facts.trtllm.versions", "RELEASES")
    newest = part("facts.trtllm.versions", "NEWEST")
    nearest = part("facts.trtllm.versions", "nearest")
    looked_at = part("facts.trtllm.versions", "LOOKED_AT")
    image_release = part("facts.trtllm.versions", "image_release")
    starts_server = part("engines.trtllm.command.serve", "starts_server")
    write_command = part("engines.trtllm.command.serve", "to_words")
    controls = part("engines.trtllm.controls", "CONTROLS")
    arm_flags = part("engines.trtllm.arm", "arm_flags")
    timing = part("engines.trtllm.simulation", "timing")
    config_file = part("engines.trtllm.emit", "config_file")
    container = part("engines.trtllm.emit", "container")
    host_needs = part("engines.trtllm.emit", "host_needs")
    host_plan = part("engines.trtllm.emit", "host_plan")
    reasons = part("engines.trtllm.levers", "reasons")
    calls_in = part("engines.trtllm.command.python_call", "calls_engine")
    log_rows = part("facts.trtllm.logs", "ROWS")
    case_rows = part("engines.trtllm.case_levers", "OPTIONS")

    def knows_flag(self, flag: str) -> bool:
        from oomph.facts.trtllm.flags import BY_NAME, FILE_NAMES, KV_DTYPE

        return flag in BY_NAME or flag in FILE_NAMES or flag in KV_DTYPE.names

    def read_command(self, call: "Call", release: Engine | str | None) -> list[Deployment]:
        from oomph.engines.trtllm.command import python_call, serve as command

        engine, notes = call.choose_release(self, release)
        if call.source:
            return python_call.deployments(call, engine, notes)
        return [command.deployment(call, engine, notes)]

    def container_refusal(self, image: str, words: Sequence[str]) -> str:
        if "tensorrt-llm/release" not in image or not words or words[0][:1] != "-":
            return ""
        return "the image starts no server by itself: its command begins with `trtllm-serve`"

    def in_container(self, image: str, arguments: Sequence[str]) -> list[str]:
        """NVIDIA's images have no server for an entry point: a container is given the whole command."""
        starts = ("trtllm-serve", "python", "python3", "bash", "sh", "mpirun")
        if arguments and arguments[0].rpartition("/")[2] in starts:
            return list(arguments)
        return ["trtllm-serve", *arguments]

    def memory_flags(self, deployment: Deployment) -> dict[str, Any]:
        from oomph.facts.trtllm.flags import FRONTEND

        return {field: value for field, value in deployment.flags.items() if field not in FRONTEND}

    degrees = ("tensor_parallel_size", "pipeline_parallel_size", "context_parallel_size")

    def whole_experts(self, degree: int) -> dict[str, Any]:
        return {"moe_expert_parallel_size": degree}

    def world(self, deployment: Deployment) -> World:
        """MPI spreads the ranks over the nodes that it was given, `--gpus_per_node` says how many there are."""
        flags = deployment.flags
        fields = ("tensor_parallel_size", "pipeline_parallel_size", "context_parallel_size")
        total = prod(size for size in map(flags.get, fields) if isinstance(size, int) and size > 0)
        share = flags.get("gpus_per_node")
        nodes = cdiv(total, share) if isinstance(share, int) and share > 0 else 1
        return World(cdiv(total, nodes) if nodes > 1 else 0, total, nodes)

    def too_few_gpus(self, deployment: Deployment, short: Shortage) -> str:
        """llmapi/llm.py compares what --gpus_per_node says with the GPUs. Without it a node is taken to have as many as
        there are, MPI starts all ranks there, and two of them share a GPU (executor/base_worker.py: rank % count)."""
        if "gpus_per_node" in deployment.flags:
            return f"RuntimeError: Only {short.gpus} GPUs are available, but {short.ranks} are required."
        return (
            f"NCCL error: invalid usage (Duplicate GPU detected : rank {short.gpus} and rank 0 both on the first CUDA "
            f"device: {short.words})"
        )

    def plan(self, deployment: Deployment, model: Model | None = None) -> Plan:
        from oomph.engines.trtllm.command.serve import check
        from oomph.engines.trtllm.draft import with_draft_model
        from oomph.engines.trtllm.planner import plan_trtllm
        from oomph.sources.load import load_once, require_layers

        check(deployment.flags)
        loaded = require_layers(model or load_once(deployment.model))
        return plan_trtllm(loaded, *with_draft_model(deployment))

    def levers(self, plan: Plan, model: Model | None = None) -> Iterable[Lever]:
        from oomph.engines.trtllm.levers import levers
        from oomph.sources.load import load_once

        return levers(plan, model or load_once(plan.deployment.model))

    def fit_knobs(self, version: str) -> FitKnobs:
        """A higher fraction leaves less for run time, and under the newest rule makes the temporary pool larger too."""
        from oomph.engines.trtllm.arm import PLANNED
        from oomph.engines.trtllm.levers import FRACTION
        from oomph.facts.trtllm.memory import FREE_FRACTION

        stages = ("profile_run", "kv_alloc", "cudagraph_capture", "runtime_request")
        return FitKnobs("max_seq_len", "max_batch_size", FRACTION, FREE_FRACTION, PLANNED, stages)

    def simulation(
        self, deployment: Deployment, model: Model, plan: Plan, factors: "Factors", *, accepted: float, timed: bool
    ) -> "Built":
        """`factors` are vLLM's: nothing of this engine's times was compared."""
        from oomph.engines.trtllm.simulation import build

        return build(deployment, model, plan, accepted=accepted, timed=timed)

    def serve_command(self, model: str) -> list[str]:
        return ["trtllm-serve", model]

    def log_release(self, observations: "Sequence[Observation]") -> tuple[str, str]:
        first = next((observation for observation in observations if observation.kind == "tr_version"), None)
        return (str(first.values.get("version", "")), f"log line {first.line}") if first is not None else ("", "")

    def failed_deployment(self, case: "Case") -> Deployment | None:
        """What was started, where the text has the command; the peak and the weights as the log prints them."""
        from oomph.doctor.rebuild import started
        from oomph.engines.trtllm.failed import pin_printed

        deployment = started(case, self)
        return pin_printed(deployment, case.observations) if deployment is not None else None


ENGINE = TensorRtLlm()
