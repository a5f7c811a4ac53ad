"""A planned deployment as something to start, or as figures for what starts it: commands, containers, manifests."""

from collections.abc import Callable

from oomph.engines.registry import engine_of
from oomph.errors import CannotPlan, CommandError
from oomph.ir import Plan

FORMS = (
    "command", "yaml", "docker", "compose", "kubernetes", "nodes", "lws", "rayservice", "pod", "kserve", "dra",
    "skypilot", "llama-swap", "aibrix", "prometheus",
)  # fmt: skip


def emit(plan: Plan, form: str, *, per_node: int = 0) -> str:
    """`form`: one of the engine's `emit_forms`. `per_node`: GPUs of one node, for those that have several; 0: as the
    GPUs say, else 8."""
    from oomph.commands import to_shell
    from oomph.emit import alerts, docker, kubernetes, routers
    from oomph.units import cdiv

    engine = engine_of(plan.deployment)
    here = sum(device.node == 0 for device in plan.deployment.gpus)
    per_node = per_node or (here if here < len(plan.deployment.gpus) else 8)
    if form not in engine.emit_forms:
        raise CommandError(f"{form!r} is not one of {', '.join(engine.emit_forms)}")
    if not plan.fits:
        raise CannotPlan("the plan does not fit: there is nothing to start")
    nodes = cdiv(len(plan.ranks), per_node)
    if form in ("nodes", "lws", "rayservice", "skypilot"):
        return _over_nodes(plan, form, nodes, per_node)
    writers: dict[str, Callable[[], str]] = {
        "command": lambda: to_shell(plan.deployment) + "\n",
        "yaml": lambda: engine.config_file(plan.deployment),
        "docker": lambda: docker.docker_run(plan, engine.host_needs(plan)),
        "compose": lambda: docker.compose(plan, engine.host_needs(plan)),
        "kubernetes": lambda: kubernetes.deployment(plan, engine.host_needs(plan)),
        "pod": lambda: kubernetes.pod(plan, engine.host_needs(plan)),
        "kserve": lambda: kubernetes.inference_service(plan, engine.host_needs(plan)),
        "dra": lambda: kubernetes.resource_claim(plan, engine.host_needs(plan)),
        "llama-swap": lambda: routers.llama_swap(plan),
        "aibrix": lambda: routers.model_claim(plan),
        "prometheus": lambda: alerts.rules(plan, engine.host_needs(plan)),
    }
    return writers[form]()


def _over_nodes(plan: Plan, form: str, nodes: int, per_node: int) -> str:
    from oomph.emit import kubernetes, ray, skypilot

    engine = engine_of(plan.deployment)
    if form == "nodes":
        return engine.launch_lines(plan, nodes)
    host = engine.host_needs(plan, nodes)
    write = {"rayservice": ray.ray_service, "lws": kubernetes.leader_worker_set, "skypilot": skypilot.task}[form]
    return write(plan, host, per_node)
