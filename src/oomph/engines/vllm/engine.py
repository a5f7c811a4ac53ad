"""vLLM behind the protocol: where each of its parts is."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from oomph.engines.protocol import EngineProtocol, part
from oomph.engines.values import FitKnobs, Words
from oomph.ir import Deployment, Engine, Lever, Model, Plan

if TYPE_CHECKING:
    from oomph.commands.call import Call
    from oomph.ir import Device


_IMAGES = {"nvidia": "vllm/vllm-openai", "amd": "vllm/vllm-openai-rocm"}


class Vllm(EngineProtocol):
    name = "vllm"
    title = "vLLM"
    words = Words(
        opens={
            "weights_load": "Starting to load model",
            "profile_run": "Model loading took",
            "kv_check": "Available KV cache memory",
            "kv_alloc": "GPU KV cache size",
            "cudagraph_capture": "Capturing CUDA graphs",
            "sampler_warmup": "Graph capturing finished",
            "runtime_request": "Application startup complete",
        }
    )

    package = "vllm"
    programs = ("vllm",)
    modules = ("vllm",)
    images = ("vllm",)
    own_images = _IMAGES
    no_device = "RuntimeError: Failed to infer device type"  # config/device.py
    variables = ("VLLM_",)
    launches = (r"\bvllm\s+serve\b", r"-m\s+vllm\.")
    subcommands = (
        "serve",
        "bench",
        "chat",
        "complete",
        "run-batch",
        "collect-env",
        "launch",
        "preload",
        "snapshot",
        "download-kernels",
    )  # entrypoints/cli of 0.32.0
    frame_paths = ("/vllm",)
    processes = ("EngineCore", "VllmWorker", "VllmWorkerProcess", "APIServer", "ApiServer", "Worker")
    terms = ("available_kv", "weights", "load_peak", "activation_peak", "non_torch", "cudagraph", "context")
    emit_forms = (
        "command", "yaml", "docker", "compose", "kubernetes", "nodes", "lws", "rayservice",
        "pod", "kserve", "dra", "llama-swap", "aibrix", "prometheus", "skypilot",
    )  # fmt: skip
    usage_metrics = ("vllm:kv_cache_usage_perc", "vllm:num_preemptions_total")

    no_kernels = (("apple", "vLLM has no kernels for Apple's GPUs; its plugin vllm-metal (0.1.0) is not planned"),)

    releases = part("facts.vllm.versions", "RELEASES")
    nearest = part("facts.vllm.versions", "nearest")
    looked_at = part("facts.vllm.versions", "LOOKED_AT")
    calls_in = part("engines.vllm.command.python_call", "calls_engine")
    image_vendor = part("engines.vllm.command.container", "vendor")
    container_refusal = part("engines.vllm.command.container", "refusal")
    plan = part("engines.vllm.start", "plan_command")
    degrees = (
        *("data_parallel_size", "tensor_parallel_size", "pipeline_parallel_size", "prefill_context_parallel_size"),
    )

    def whole_experts(self, degree: int) -> dict[str, Any]:
        return {"enable_expert_parallel": True}

    def node_flags(self, nodes: int) -> dict[str, Any]:
        return {"distributed_executor_backend": "ray"}

    world = part("engines.vllm.world", "world")
    too_few_gpus = part("engines.vllm.world", "too_few_gpus")
    refusal_levers = part("engines.vllm.refusal_levers", "refusal_levers")
    log_rows = part("facts.vllm.logs", "ROWS")
    log_release = part("engines.vllm.release", "release")
    inferred = part("engines.common.inferred", "inferred")
    failed_deployment = part("engines.vllm.failed", "failed_deployment")
    arm_flags = part("engines.vllm.arm", "arm_flags")
    simulation = part("engines.vllm.scheduler.build", "build")
    timing = part("engines.vllm.timing", "timing")
    config_file = part("engines.vllm.emit", "config_file")
    container = part("engines.vllm.emit", "container")
    launch_lines = part("engines.vllm.emit", "launch_lines")
    node_commands = part("engines.vllm.emit", "node_commands")
    controls = part("engines.vllm.controls", "CONTROLS")
    host_plan = part("engines.vllm.host", "host_plan")
    uncounted_share = part("engines.vllm.host", "uncounted_share")
    host_needs = part("engines.vllm.emit", "host_needs")
    described_in = part("engines.vllm.command.sagemaker", "sagemaker_words")
    case_rows = part("engines.vllm.case_levers", "ROWS")
    case_lever = part("engines.vllm.case_levers", "case_lever")
    against = part("engines.vllm.case_levers", "against")
    unplanned_share = part("engines.vllm.serving.safe_utilization", "unplanned_utilization")
    safe_share = part("engines.vllm.serving.safe_utilization", "safe_utilization")

    def image_release(self, tag: str) -> str:
        """v0.21.0 and the like; 25.09-py3 numbers the container, not the vLLM inside."""
        return tag if tag.removeprefix("v")[:2] == "0." and tag.removeprefix("v")[2:3].isdigit() else ""

    def recognises(self, program: str, words: Sequence[str]) -> bool:
        """`uv run --with vllm vllm serve`: the first is an argument."""
        if program not in self.programs:
            return super().recognises(program, words)
        from oomph.commands.call import program as program_name

        return len(words) < 2 or program_name(words[1]) not in self.programs

    def starts_server(self, words: Sequence[str]) -> bool:
        from oomph.commands.call import program

        return program(words[0]) not in self.programs or tuple(words[1:2]) == ("serve",)

    def knows_flag(self, flag: str) -> bool:
        from oomph.facts.vllm.flags import options_of

        return options_of(self.newest()).status(flag).state != "unknown"

    def read_command(self, call: "Call", release: Engine | str | None) -> list[Deployment]:
        from oomph.engines.vllm.command import serve as command
        from oomph.engines.vllm.command.arguments import NoSuchFlag

        engine, notes = call.choose_release(self, release)
        while True:  # each turn has an older release
            try:
                if call.source:
                    from oomph.engines.vllm.command import python_call

                    return python_call.deployments(call, engine, notes)
                return [command.deployment(call, engine, notes)]
            except NoSuchFlag as error:
                older = command.last_release_with(error, engine)
                if older is None:
                    raise
                engine, notes = older[0], (*notes, older[1])

    def write_command(self, deployment: Deployment) -> list[str]:
        from oomph.engines.vllm.command import serve as command

        if deployment.usage == "llm":
            from oomph.engines.vllm.command import python_call

            return ["python", "-c", python_call.to_source(deployment)]
        return command.to_words(deployment)

    def in_container(self, image: str, arguments: Sequence[str]) -> list[str]:
        from oomph.engines.vllm.command.container import entry_point

        return ["vllm", *arguments] if arguments[:1] == ["serve"] else [*entry_point(image).split(), *arguments]

    def memory_flags(self, deployment: Deployment) -> dict[str, Any]:
        from oomph.facts.vllm.flags import options_of

        rows = options_of(deployment.engine.version).by_field
        return {
            field: value
            for field, value in deployment.flags.items()
            if (field not in rows or rows[field].group == "engine") and field != "served_model_name"
        }

    def levers(self, plan: Plan, model: Model | None = None) -> Iterable[Lever]:
        from oomph.engines.common.checkpoint import load_checkpoint
        from oomph.engines.vllm.levers import levers

        return levers(plan, model or load_checkpoint(plan.deployment.model))

    def reasons(self, plan: Plan, model: Model | None = None) -> tuple[str, ...]:
        from oomph.engines.common.checkpoint import load_checkpoint
        from oomph.engines.vllm.reasons import reasons

        return reasons(plan, model or load_checkpoint(plan.deployment.model))

    def log_command(self, model: str, flags: Mapping[str, Any], environment: Mapping[str, str]) -> str:
        from oomph.logs.deployment import render

        return render(model, dict(flags), dict(environment))

    def fit_knobs(self, version: str) -> FitKnobs:
        from oomph.facts.vllm.facts import at
        from oomph.facts.vllm.flags import options_of

        share, fields = at(version).limits.utilization, options_of(version).fields
        return FitKnobs("max_model_len", "max_num_seqs", "gpu_memory_utilization", share, fields)

    def highest_share(self, gpus: "tuple[Device, ...]") -> float:
        from oomph.engines.vllm.serving.safe_utilization import HIGHEST, SHARED_MEMORY

        return SHARED_MEMORY if any(device.unified for device in gpus) else HIGHEST

    def missing_kernels(self, deployment: Deployment) -> str:
        from oomph.facts.vllm.card_formats import NOT_IN_ROCM_IMAGES
        from oomph.facts.vllm.facts import at

        version = deployment.engine.version
        if bare := next((gpu.name for gpu in deployment.gpus if gpu.name in NOT_IN_ROCM_IMAGES), ""):
            return f"vLLM's images for ROCm have no code for {NOT_IN_ROCM_IMAGES[bare]}, the {bare}"
        limits = at(version).limits
        cards = [gpu for gpu in deployment.gpus if gpu.vendor == "nvidia" and gpu.sm]
        old = next((gpu for gpu in cards if gpu.sm < limits.oldest_card), None)
        new = next((gpu for gpu in cards if gpu.sm // 10 > limits.newest_major), None)
        if old is not None:
            least, there = limits.oldest_card / 10, old.sm / 10
            return f"vLLM {version} is published for compute capability {least} and later; the {old.name} has {there}"
        if new is not None:
            last, there = limits.newest_major, new.sm / 10
            return f"vLLM {version} is published for compute capability {last}.x at most; the {new.name} has {there}"
        return ""

    def serve_command(self, model: str) -> list[str]:
        return ["vllm", "serve", model]

    def at_release(self, deployment: Deployment, version: str) -> tuple[Deployment, tuple[str, ...]]:
        from oomph.engines.vllm.command.serve import at_release
        from oomph.facts.vllm.flags import options_of

        return at_release(deployment, options_of(version))


ENGINE = Vllm()
